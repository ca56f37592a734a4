package snarkjs

import (
	"bytes"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
)

// capped fails when f takes more from the heap than some multiple of the input and buffers.
func capped(t *testing.T, in []byte, times uint64, f func()) {
	t.Helper()
	if n := allocated(f); n > 4<<20+times*uint64(len(in)) {
		t.Errorf("%d bytes allocated for an input of %d", n, len(in))
	}
}

// FuzzZKey: what is accepted comes out of the writer and is read again the same.
func FuzzZKey(f *testing.F) {
	for _, name := range []string{"multiplier", "nopublic", "zero_constraints", "unused_input"} {
		f.Add(testfiles.Fixture(f, name, "circuit.zkey"))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, 40, func() {
			pk, s, err := readAll(in, ReadOptions{Tasks: 1})
			if err != nil {
				return
			}
			z, _ := openZKey(in)
			transcript, err := z.Transcript()
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := WriteZKey(&b, pk, s, transcript); err != nil {
				t.Fatal(err)
			}
			again, s2, err := readAll(b.Bytes(), ReadOptions{Tasks: 1})
			if err != nil {
				t.Fatal(err)
			}
			if again.Shape != pk.Shape || s2.Digest() != s.Digest() {
				t.Fatal("another key after writing")
			}
		})
	})
}

func FuzzPublicJSON(f *testing.F) {
	f.Add([]byte("[]"))
	f.Add([]byte(`[["1", "2"],["3"]]`))
	f.Add(testfiles.Fixture(f, "multiplier", "public.json"))
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, 60, func() {
			public, list, err := ParsePublic(in)
			if err != nil {
				return
			}
			var b bytes.Buffer
			write := func() error { return WritePublic(&b, public[0]) }
			if list {
				write = func() error { return WritePublicLists(&b, public) }
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
			again, list2, err := ParsePublic(b.Bytes())
			if err != nil || list2 != list || len(again) != len(public) {
				t.Fatalf("%v: %v, %v", public, again, err)
			}
			for i := range again {
				if !fr.Vector(again[i]).Equal(fr.Vector(public[i])) {
					t.Fatal("other values after writing")
				}
			}
		})
	})
}

func FuzzProofJSON(f *testing.F) {
	proof := testfiles.Fixture(f, "multiplier", "proof.json")
	f.Add(proof)
	f.Add(append(append([]byte("["), proof...), ']'))
	f.Add([]byte(`{"pi_a":["0","1","0"],"pi_b":[["0","0"],["1","0"],["0","0"]],"pi_c":["0","1","0"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, 60, func() {
			proofs, _, err := ParseProofs(in)
			if err != nil {
				return
			}
			var b bytes.Buffer
			if err := WriteProofs(&b, proofs); err != nil {
				t.Fatal(err)
			}
			again, _, err := ParseProofs(b.Bytes())
			if err != nil || len(again) != len(proofs) {
				t.Fatal(err)
			}
			for i := range again {
				if again[i] != proofs[i] {
					t.Fatal("another proof after writing")
				}
			}
		})
	})
}

func FuzzVerifyingKeyJSON(f *testing.F) {
	f.Add(testfiles.Fixture(f, "nopublic", "vkey.json"))
	f.Fuzz(func(t *testing.T, in []byte) {
		capped(t, in, 60, func() {
			if vk, err := ParseVerifyingKey(in); err == nil && len(vk.IC) == 0 {
				t.Fatal("no points of IC")
			}
		})
	})
}
