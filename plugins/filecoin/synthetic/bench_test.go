package synthetic

import (
	"io"
	"testing"
	"unsafe"

	"github.com/weir-zk/weir/plugins/filecoin/circuits"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
)

// Commit1 output of 32 GiB, made and written.
func BenchmarkPoRep32G(b *testing.B) {
	for b.Loop() {
		c, _, err := PoRep(b.Context(), 8, 7, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Write(io.Discard, vanilla.JSON); err != nil {
			b.Fatal(err)
		}
	}
}

// Sealing for real, and the answers.
func BenchmarkSeal(b *testing.B) {
	for _, p := range []sector.SealProof{10, 11} {
		b.Run(p.String(), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := PoRep(b.Context(), p, 7, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The witness of one partition of 32 GiB, on one core, from a synthetic sector's answers.
func BenchmarkWitness32G(b *testing.B) {
	answers, _, err := PoRep(b.Context(), 8, 7, nil)
	if err != nil {
		b.Fatal(err)
	}
	c, err := circuits.AssemblePoRep(answers, 0)
	if err != nil {
		b.Fatal(err)
	}
	n, err := circuit.Measure(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	_, size := n.Form()
	words := make([]uint64, (size+7)/8)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := circuit.Witness(b.Context(), c, n, buf, 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size)/(1<<20), "witness-MiB")
	b.ReportMetric(float64(n.Rows), "rows")
}
