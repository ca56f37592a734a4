package circuits

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/groth16"
)

// scramble gives every field element that can be reached from v a value of its own.
func scramble(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		scramble(r, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			scramble(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scramble(r, v.Field(i))
		}
	case reflect.Array:
		if x, ok := v.Addr().Interface().(*fr.Element); ok {
			*x = fr.Element{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64() >> 2}
		}
	}
}

// The witness of one partition, on one core, on data of the right shape.
func BenchmarkWitness(b *testing.B) {
	for _, id := range []string{"porep-32g", "upd-32g", "winning-32g"} {
		b.Run(id, func(b *testing.B) {
			c, err := Blank(id)
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := c.(*Update); !ok { // the sectors' sizes are shared
				scramble(rand.New(rand.NewPCG(1, 1)), reflect.ValueOf(c))
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
		})
	}
}

// Recording, with the digest in a goroutine of its own.
func BenchmarkRecord(b *testing.B) {
	for _, id := range []string{"porep-32g-c1", "upd-16k", "winning-32g"} {
		b.Run(id, func(b *testing.B) {
			c, err := Blank(id)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				var sum circuit.Summary
				if _, err := circuit.Record(b.Context(), c, &sum); err != nil {
					b.Fatal(err)
				}
				rows = sum.Counts.Rows
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
}

// A shape file: how long it takes, how large it is, and a, b, c evaluated from it, with as many goroutines as there are processors; the same
// from the system in memory.
func BenchmarkShapeFile(b *testing.B) {
	for _, id := range []string{"porep-2k", "upd-2k", "porep-32g-c4"} { // the last takes 5 GiB
		c, err := Blank(id)
		if err != nil {
			b.Fatal(err)
		}
		var file []byte
		b.Run(id+"/write", func(b *testing.B) {
			for b.Loop() {
				f, err := os.Create(filepath.Join(b.TempDir(), "shape"))
				if err != nil {
					b.Fatal(err)
				}
				shape, err := circuit.WriteShape(b.Context(), f, c)
				if err != nil {
					b.Fatal(err)
				}
				if file, err = os.ReadFile(f.Name()); err != nil {
					b.Fatal(err)
				}
				f.Close()
				b.ReportMetric(float64(shape.Rows), "rows")
			}
			b.ReportMetric(float64(len(file)), "file-bytes")
		})
		b.Run(id+"/evaluate", func(b *testing.B) {
			s, err := circuit.OpenShape(file)
			if err != nil {
				b.Fatal(err)
			}
			w, n, err := circuit.NewWitness(b.Context(), c, 2)
			if err != nil {
				b.Fatal(err)
			}
			var v [3][]fr.Element
			for i := range v {
				v[i] = make([]fr.Element, n.Domain())
			}
			b.SetBytes(int64(3 * fr.Bytes * n.Domain()))
			for b.Loop() {
				if err := s.Evaluate(b.Context(), w, v[0], v[1], v[2], runtime.NumCPU()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n.Rows), "rows")
		})
		b.Run(id+"/evaluate-system", func(b *testing.B) {
			sys, err := circuit.System(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			w, n, err := circuit.NewWitness(b.Context(), c, 2)
			if err != nil {
				b.Fatal(err)
			}
			var v [3][]fr.Element
			for i := range v {
				v[i] = make([]fr.Element, n.Domain())
			}
			b.SetBytes(int64(3 * fr.Bytes * n.Domain()))
			for b.Loop() {
				if err := sys.Evaluate(b.Context(), w, groth16.RowsSeven, v[0], v[1], v[2], runtime.NumCPU()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n.Rows), "rows")
		})
	}
}

// What memory takes at most: a GiB of zeros written by as many goroutines as there are processors.
func BenchmarkStores(b *testing.B) {
	v := make([]fr.Element, 1<<25)
	clear(v) // pages are there
	b.SetBytes(fr.Bytes << 25)
	for b.Loop() {
		var wg sync.WaitGroup
		for part := range slices.Chunk(v, len(v)/runtime.NumCPU()) {
			wg.Go(func() { clear(part) })
		}
		wg.Wait()
	}
}
