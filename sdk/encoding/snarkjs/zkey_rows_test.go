package snarkjs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// The placement is found where snarkjs' one fits as well: without public inputs one row like an extra row is enough. The mark decides, and a file without it is
// taken for snarkjs'; both prove.
func TestPlacementIsFound(t *testing.T) {
	full := textbook.Random(3, 40, 0) // a domain of 64
	for rows := 33; rows <= 63; rows++ {
		for _, order := range []groth16.RowOrder{groth16.RowsFive, groth16.RowsSeven} {
			// rows without terms, but for row 5: A = 1 * the one
			s := &r1cs.System{NbWires: 1, HasC: true, Coeffs: []fr.Element{fr.One()}}
			for _, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
				m.Start = make([]uint32, rows+1)
			}
			s.A.Wire, s.A.Coeff = []uint32{0}, []uint32{0}
			for i := 6; i <= rows; i++ {
				s.A.Start[i] = 1
			}
			pk := *textbook.New(s, textbook.ToxicFrom(3), order, groth16.HOddCoset).Key()
			for _, transcript := range [][]byte{nil, make([]byte, 68)} {
				var b bytes.Buffer
				if err := WriteZKey(&b, &pk, s, transcript); err != nil {
					t.Fatal(err)
				}
				got, read, err := readAll(b.Bytes(), ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				same := got.Rows == order && got.NbConstraints == rows && read.Digest().AB == s.Digest().AB
				if !same && (transcript == nil || order == groth16.RowsFive) {
					t.Errorf("%d rows, %v: read as %d rows, %v", rows, order, got.NbConstraints, got.Rows)
				}
				if got.NbConstraints != read.NbConstraints() {
					t.Errorf("%d rows, %v: %d rows of the key, %d of the system", rows, order, got.NbConstraints, read.NbConstraints())
				}
				w := dense(t, []fr.Element{fr.One()})
				p := prove(t, got, read, w)
				if err := must(groth16.NewVerifier(&pk.VK))(t).Verify(&p, nil); err != nil {
					t.Errorf("%d rows, %v: %v", rows, order, err)
				}
			}
		}
	}
	// A mark on a file that snarkjs placed changes nothing, nor does a missing one on the other.
	for _, order := range []groth16.RowOrder{groth16.RowsFive, groth16.RowsSeven} {
		pk := textbook.New(full.System, textbook.ToxicFrom(3), order, groth16.HOddCoset).Key()
		var b bytes.Buffer
		if err := WriteZKey(&b, pk, full.System, emptyTranscript(1-order, pk.LogDomain)); err != nil {
			t.Fatal(err)
		}
		got, s, err := readAll(b.Bytes(), ReadOptions{})
		if err != nil || got.Rows != order || s.Digest().AB != full.System.Digest().AB {
			t.Errorf("%v: read as %v, %v", order, got.Rows, err)
		}
	}
}

// snarkjs proves with keys whose rows are at the powers of the generator 7.
func TestSnarkjsUsesPlacedRows(t *testing.T) {
	run := testfiles.Snarkjs(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, write func(b *bytes.Buffer) error) {
		t.Helper()
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ rows, public int }{{12, 0}, {60, 7}} { // domains of 16 and 128
		name := fmt.Sprintf("%d rows, %d public", tc.rows, tc.public)
		c := textbook.Random(11, tc.rows, tc.public)
		pk := textbook.New(c.System, textbook.ToxicFrom(8), groth16.RowsSeven, groth16.HOddCoset).Key()
		put("key.zkey", func(b *bytes.Buffer) error { return WriteZKey(b, pk, c.System, nil) })
		put("w.wtns", func(b *bytes.Buffer) error { return iden3.WriteWitness(b, len(c.W), slices.Values(c.W)) })
		put("vkey.json", func(b *bytes.Buffer) error { return WriteVerifyingKey(b, &pk.VK) })
		if out, err := run("groth16", "prove", path("key.zkey"), path("w.wtns"), path("proof.json"), path("public.json")); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		proofs, _, err := ParseProofs(must(os.ReadFile(path("proof.json")))(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := must(groth16.NewVerifier(&pk.VK))(t).Verify(&proofs[0], c.W[1:tc.public+1]); err != nil {
			t.Errorf("%s: snarkjs' proof: %v", name, err)
		}
		if out, err := run("groth16", "verify", path("vkey.json"), path("public.json"), path("proof.json")); err != nil || !strings.Contains(out, "OK!") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
