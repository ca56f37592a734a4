package iden3

import (
	"bytes"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
)

// allocCap is what reading may take from the heap: some multiple of the input (a coefficient of 36 bytes can cost a dictionary entry), and buffers.
func allocCap(n int) uint64 { return 2<<20 + 24*uint64(n) }

func capped(t *testing.T, in []byte, f func()) {
	t.Helper()
	if n := allocated(f); n > allocCap(len(in)) {
		t.Errorf("%d bytes allocated for an input of %d", n, len(in))
	}
}

// FuzzR1CS: no panic, no allocation beyond the input's size; what is accepted comes out of the writer with the same digest.
func FuzzR1CS(f *testing.F) {
	for _, name := range []string{"multiplier", "nopublic", "zero_constraints", "unused_input"} {
		f.Add(testfiles.Fixture(f, name, "circuit.r1cs"))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, func() {
			s, err := readR1CS(in)
			if err != nil {
				return
			}
			file, _ := openR1CS(in)
			h := file.Header()
			var out bytes.Buffer
			if err := WriteR1CS(&out, s, R1CSInfo{NbPubOut: h.NbPubOut, NbPrvIn: h.NbPrvIn, NbLabels: h.NbLabels, Labels: file.Labels()}); err != nil {
				t.Fatal(err)
			}
			again, err := readR1CS(out.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if again.Digest() != s.Digest() {
				t.Fatal("another digest after writing")
			}
		})
	})
}

func FuzzWitness(f *testing.F) {
	for _, name := range []string{"multiplier", "nopublic", "zero_constraints", "unused_input"} {
		f.Add(testfiles.Fixture(f, name, "witness.wtns"))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, func() {
			v, err := readWitness(in)
			if err != nil {
				return
			}
			if x := v.At(0); !x.IsOne() {
				t.Fatal("wire 0 is not one")
			}
		})
	})
}

func FuzzSym(f *testing.F) {
	f.Add(testfiles.Fixture(f, "multiplier", "circuit.sym"))
	f.Add([]byte("1,-1,0,main.a,b\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, func() {
			names, err := Names(bytes.NewReader(in), []uint32{0, 1, 2, 3})
			if err == nil && len(names) > 4 {
				t.Fatalf("%d wires", len(names))
			}
		})
	})
}
