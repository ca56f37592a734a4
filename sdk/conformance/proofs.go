package conformance

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
)

func testDescribe(t *testing.T, s *Subject) {
	info, err := s.Prover.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Name == "" || info.Version == "" || info.Device == "" || info.Lanes < 1 {
		t.Fatalf("described as %+v", info)
	}
}

// sizes are rows and public inputs: nothing at all, one row, and both sides of a domain's edge.
var sizes = []struct{ rows, public int }{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 3}, {6, 0}, {6, 1}, {7, 0}, {8, 0}, {14, 1}, {15, 0}, {13, 3}, {30, 1}, {100, 20}, {254, 0}, {255, 0}, {256, 1}, {1022, 0}, {1023, 0}, {1000, 40}}

var layouts = []struct {
	name string
	rows groth16.RowOrder
	h    groth16.HBasis
}{{"rows-7/monomial", groth16.RowsSeven, groth16.HMonomial}, {"rows-5/odd-coset", groth16.RowsFive, groth16.HOddCoset}, {"rows-7/odd-coset", groth16.RowsSeven, groth16.HOddCoset}, {"rows-5/monomial", groth16.RowsFive, groth16.HMonomial}}

// Every size, layout and form of the witness: with fixed randomness the proof is the textbook's, byte for byte.
func testProofs(t *testing.T, s *Subject) {
	mayFix := mayFix(t, s)
	rnd := fixed()
	for i, size := range sizes {
		for k, l := range layouts {
			if size.rows > 300 && k != i%2 {
				continue // the large ones in one layout each: textbook keys are slow to make
			}
			name := fmt.Sprintf("%d rows, %d public, %s", size.rows, size.public, l.name)
			j := newJob(t, s, name, uint64(1000*i+k), size.rows, size.public, l.rows, l.h)
			j.load(t, s)
			for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
				b := j.fill(t, s, j.circuit.W, form)
				if mayFix {
					b.req.InsecureTestRandomness = &rnd
				}
				proof, err := j.prove(t, t.Context(), s, b, nil)
				b.free(t)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if err := j.verify.Verify(proof, j.public()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if want := j.setup.Proof(j.circuit.W, rnd); mayFix && proof.Bytes() != want.Bytes() {
					t.Fatalf("%s: the proof verifies but is not the textbook's", name)
				}
			}
			if err := s.Prover.UnloadKey(t.Context(), j.keyID); err != nil {
				t.Fatalf("%s: unload: %v", name, err)
			}
		}
	}
}

// A key that has its H points in both bases gives the same proof, whichever the backend takes.
func testBothBases(t *testing.T, s *Subject) {
	for _, l := range layouts {
		j := newJob(t, s, "both bases "+l.name, 31, 100, 2, l.rows, l.h)
		other := groth16.HMonomial
		if l.h == other {
			other = groth16.HOddCoset
		}
		alt := textbook.New(j.circuit.System, j.setup.Toxic, l.rows, other).Key().H
		path := filepath.Join(t.TempDir(), "both.wkey")
		if err := writeKeyBothBases(path, j.setup.Key(), alt, j.circuit.System); err != nil {
			t.Fatal(err)
		}
		j.input = register(t, s, path)
		j.load(t, s)
		b := j.fill(t, s, j.circuit.W, assignment.Dense)
		rnd := fixed()
		fix := mayFix(t, s)
		if fix {
			b.req.InsecureTestRandomness = &rnd
		}
		proof, err := j.prove(t, t.Context(), s, b, nil)
		b.free(t)
		if err != nil {
			t.Fatalf("%s: %v", j.name, err)
		}
		if err := j.verify.Verify(proof, j.public()); err != nil {
			t.Fatalf("%s: %v", j.name, err)
		}
		if want := j.setup.Proof(j.circuit.W, rnd); fix && proof.Bytes() != want.Bytes() {
			t.Fatalf("%s: not the textbook's proof", j.name)
		}
	}
}

// At EvaluationsConsumed the host gives a, b and c to the next partition: whatever is in them from then on must not matter.
func testEarlyFree(t *testing.T, s *Subject) {
	for _, l := range layouts[:2] {
		j := newJob(t, s, "early free "+l.name, 5, 500, 3, l.rows, l.h)
		j.load(t, s)
		b := j.fill(t, s, j.circuit.W, assignment.Compact)
		proof, err := j.prove(t, t.Context(), s, b, func(e contract.ProveEvent) {
			if e != contract.EvaluationsConsumed {
				return
			}
			for _, x := range b.all[1:] {
				for i := range x.Bytes() {
					x.Bytes()[i] = 0xa5
				}
			}
		})
		b.free(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.verify.Verify(proof, j.public()); err != nil {
			t.Fatalf("evaluations were read after EvaluationsConsumed: %v", err)
		}
	}
}

// Two proofs of one witness must differ in every element; fixed randomness must be refused by a backend that was not started for tests.
func testRandomness(t *testing.T, s *Subject) {
	j := newJob(t, s, "randomness", 6, 20, 2, groth16.RowsSeven, groth16.HMonomial)
	j.load(t, s)
	var seen []*groth16.Proof
	for range 2 {
		b := j.fill(t, s, j.circuit.W, assignment.Dense)
		p, err := j.prove(t, t.Context(), s, b, nil)
		b.free(t)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.verify.Verify(p, j.public()); err != nil {
			t.Fatal(err)
		}
		seen = append(seen, p)
	}
	a, b := seen[0].Bytes(), seen[1].Bytes()
	for _, part := range [][2]int{{0, 48}, {48, 144}, {144, 192}} {
		if bytes.Equal(a[part[0]:part[1]], b[part[0]:part[1]]) {
			t.Errorf("bytes %d to %d of two proofs are the same: the randomness is not fresh", part[0], part[1])
		}
	}
	if mayFix(t, s) {
		return
	}
	rnd := fixed()
	bufs := j.fill(t, s, j.circuit.W, assignment.Dense)
	defer bufs.free(t)
	bufs.req.InsecureTestRandomness = &rnd
	if _, err := j.prove(t, t.Context(), s, bufs, nil); err == nil {
		t.Fatal("fixed randomness was accepted without the test option")
	}
}

// Cancel at every event: the error says canceled, the buffers are free at once, the next proof is right.
func testCancel(t *testing.T, s *Subject) {
	j := newJob(t, s, "cancel", 7, 500, 2, groth16.RowsSeven, groth16.HMonomial)
	j.load(t, s)
	for _, at := range []contract.ProveEvent{0, contract.Accepted, contract.EvaluationsConsumed, contract.DeviceDone} {
		ctx, cancel := context.WithCancel(t.Context())
		b := j.fill(t, s, j.circuit.W, assignment.Dense)
		if at == 0 {
			cancel()
		}
		_, err := j.prove(t, ctx, s, b, func(e contract.ProveEvent) {
			if e == at {
				cancel()
			}
		})
		cancel()
		if !isCanceled(err) {
			t.Errorf("canceled at %v: %v", at, err)
		}
		for _, x := range b.all { // nobody may touch them any more: reuse them at once
			clear(x.Bytes())
		}
		b.free(t)
		b = j.fill(t, s, j.circuit.W, assignment.Dense)
		p, err := j.prove(t, t.Context(), s, b, nil)
		b.free(t)
		if err != nil {
			t.Fatalf("after a cancel at %v: %v", at, err)
		}
		if err := j.verify.Verify(p, j.public()); err != nil {
			t.Fatalf("after a cancel at %v: %v", at, err)
		}
	}
}

// An unsatisfying witness gives an error or a proof that does not verify, and harms nothing else.
func testUnsatisfied(t *testing.T, s *Subject) {
	j := newJob(t, s, "unsatisfied", 8, 100, 2, groth16.RowsSeven, groth16.HMonomial)
	j.load(t, s)
	w := append([]fr.Element(nil), j.circuit.W...)
	w[len(w)-1].SetUint64(12345)
	b := j.fill(t, s, w, assignment.Dense)
	p, err := j.prove(t, t.Context(), s, b, nil)
	b.free(t)
	switch {
	case err == nil:
		if j.verify.Verify(p, j.public()) == nil {
			t.Fatal("a proof of a false witness verifies")
		}
	case !errs.Is(err, errs.Unsatisfied):
		t.Fatalf("got %v, want an unsatisfied witness", err)
	}
	b = j.fill(t, s, j.circuit.W, assignment.Dense)
	defer b.free(t)
	if p, err = j.prove(t, t.Context(), s, b, nil); err != nil || j.verify.Verify(p, j.public()) != nil {
		t.Fatalf("the next proof fails: %v", err)
	}
}

// Proofs of different circuits at the same time must not mix.
func testConcurrent(t *testing.T, s *Subject) {
	jobs := []*job{
		newJob(t, s, "concurrent a", 21, 120, 1, groth16.RowsSeven, groth16.HMonomial),
		newJob(t, s, "concurrent b", 22, 250, 4, groth16.RowsFive, groth16.HOddCoset),
		newJob(t, s, "concurrent c", 23, 120, 1, groth16.RowsSeven, groth16.HMonomial),
	}
	for _, j := range jobs {
		j.load(t, s)
	}
	var wg sync.WaitGroup
	for i := range 9 {
		j := jobs[i%len(jobs)]
		b := j.fill(t, s, j.circuit.W, assignment.Compact)
		wg.Go(func() {
			defer b.free(t)
			p, err := j.prove(t, t.Context(), s, b, nil)
			if err != nil {
				t.Errorf("%s: %v", j.name, err)
			} else if err := j.verify.Verify(p, j.public()); err != nil {
				t.Errorf("%s: %v", j.name, err)
			}
		})
	}
	wg.Wait()
}
