package host

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// T3. Whatever a backend answers, no wrong proof leaves: it is made again elsewhere, and the backend is out after repeats.
func TestWrongProofsNeverLeave(t *testing.T) {
	w := newWorld(t)
	key, other := w.key("k", 4, 10, 2), w.key("other", 4, 10, 2)
	_ = other
	proofOf := func(name string, n int) groth16.Proof { return w.keys[name].prove(publicOf(n, 2)) }
	encode := func(p groth16.Proof) []byte { b := p.Bytes(); return b[:] }
	var offSubgroup bls.G1Affine
	for x := uint64(1); ; x++ { // a point of the curve outside the subgroup of order r
		b := make([]byte, 48)
		b[0] = 0x80
		b[47] = byte(x)
		var p bls.G1Affine
		if err := unchecked(&p, b); err == nil && !p.IsInSubGroup() {
			offSubgroup = p
			break
		}
	}
	for _, tc := range []struct {
		name    string
		certain bool // the bytes alone are wrong
		fault   func(witness string, proof []byte) []byte
	}{
		{"flipped bit in A", true, func(_ string, b []byte) []byte { b[20] ^= 4; return b }},
		{"flipped bit in B", true, func(_ string, b []byte) []byte { b[100] ^= 1; return b }},
		{"flipped bit in C", true, func(_ string, b []byte) []byte { b[160] ^= 128; return b }},
		{"sign of A", false, func(_ string, b []byte) []byte { b[0] ^= 0x20; return b }},
		{"off the curve", true, func(_ string, b []byte) []byte { clear(b[1:48]); b[47] = 1; return b }},
		{"wrong subgroup", true, func(_ string, b []byte) []byte { x := offSubgroup.Bytes(); copy(b[144:], x[:]); return b }},
		{"A at infinity", true, func(_ string, b []byte) []byte { clear(b[:48]); b[0] = 0xc0; return b }},
		{"all at infinity", true, func(_ string, b []byte) []byte { clear(b); b[0], b[48], b[144] = 0xc0, 0xc0, 0xc0; return b }},
		{"C at infinity", false, func(_ string, b []byte) []byte { clear(b[144:]); b[144] = 0xc0; return b }},
		{"empty", true, func(string, []byte) []byte { return nil }},
		{"zeros", true, func(_ string, b []byte) []byte { clear(b); return b }},
		{"short", true, func(_ string, b []byte) []byte { return b[:191] }},
		{"swapped partitions", false, func(x string, _ []byte) []byte { return encode(proofOf("k", map[string]int{"1": 2, "2": 1}[x])) }},
		{"another job's", false, func(string, []byte) []byte { return encode(proofOf("k", 77)) }},
		{"another key's", false, func(x string, _ []byte) []byte { return encode(proofOf("other", map[string]int{"1": 1, "2": 2}[x])) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, bad, good := w.synth(), w.prover("bad", 1), w.prover("good", 1)
				bad.fault = func(_ int, x string, b []byte) ([]byte, error) { return tc.fault(x, b), nil }
				e, seen := w.start(Config{QuarantineAfter: 3}, s, bad, good)
				for i := range 2 {
					r, err := e.Prove(context.Background(), w.job(fmt.Sprint("j", i), key, 1, 2))
					if err != nil {
						t.Fatal(err)
					}
					w.right(key, r, 1, 2)
					for _, rep := range r.Partitions {
						if rep.Backend != "good" {
							t.Errorf("partition %d was proved by %s", rep.Partition, rep.Backend)
						}
					}
				}
				states := seen.states("bad")
				if n := count(states, "wrong proof"); n < 3 {
					t.Errorf("the bad backend: %v", states)
				}
				if count(states, "quarantined") != 1 || seen.back[len(seen.back)-1].Device == "" {
					t.Errorf("the bad backend is not out, or not named: %v", states)
				}
				if count(seen.states("good"), "wrong proof") != 0 {
					t.Error("the good backend was blamed")
				}
				before := bad.proofs
				if _, err := e.Prove(context.Background(), w.job("after", key, 3)); err != nil || bad.proofs != before {
					t.Errorf("after quarantine: %v, %d more proofs of the bad backend", err, bad.proofs-before)
				}
				w.quiet(e)

				// Alone, it makes the job fail and nothing leave.
				bad.proofs = 0
				s2, alone := w.synth(), w.prover("bad", 1)
				alone.fault = bad.fault
				e2, _ := w.start(Config{QuarantineAfter: 100}, s2, alone)
				if r, err := e2.Prove(context.Background(), w.job("x", key, 1, 2)); !errs.Is(err, errs.InvalidProof) || r != nil {
					t.Errorf("a lone bad backend: %v, %v", r, err)
				}
				w.finish(e2, s2)
				w.finish(e, s)
			})
		})
	}
}

// unchecked decompresses a point without the check of its subgroup.
func unchecked(p *bls.G1Affine, b []byte) error {
	d := bls.NewDecoder(bytes.NewReader(b), bls.NoSubgroupChecks())
	return d.Decode(p)
}

func count(list []string, x string) int {
	n := 0
	for _, s := range list {
		if s == x {
			n++
		}
	}
	return n
}

// A witness that does not satisfy the circuit makes proofs that do not verify, whoever makes them. No backend is blamed.
func TestBadWitnessIsNotTheBackendsFault(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 2)
	synctest.Test(t, func(t *testing.T) {
		s, a, b := w.synth(), w.prover("a", 1), w.prover("b", 1)
		for _, p := range []*fakeProver{a, b} {
			p.fault = func(_ int, x string, _ []byte) ([]byte, error) {
				proof := w.keys["k"].prove(publicOf(99, 2))
				out := proof.Bytes()
				return out[:], nil
			}
		}
		e, seen := w.start(Config{QuarantineAfter: 1}, s, a, b)
		for i := range 3 {
			_, err := e.Prove(context.Background(), w.job(fmt.Sprint(i), key, 1))
			if !errs.Is(err, errs.InvalidProof) || errs.HintOf(err) == "" {
				t.Errorf("a bad witness: %v", err)
			}
		}
		if n := count(seen.states("a"), "wrong proof") + count(seen.states("b"), "wrong proof"); n != 0 {
			t.Errorf("%d times a backend was blamed", n)
		}
		w.finish(e, s)
	})
}

// A retry keeps its witness though others wait for what it gives back in between: nothing is synthesised twice.
func TestRetryKeepsItsWitness(t *testing.T) {
	w := newWorld(t)
	w.evaluations, w.scratch = 0, 200<<10
	key := w.key("k", 10, 1000, 1) // witnesses of 32 KiB
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		p.fault = func(n int, _ string, b []byte) ([]byte, error) {
			if n <= 2 {
				return nil, &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "killed", Retryable: true}
			}
			return b, nil
		}
		e, _ := w.start(Config{MemoryBudget: 320 << 10, PartitionWorkers: 4}, s, p) // one partition and another's witness
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3, 4))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1, 2, 3, 4)
		again := 0
		for _, x := range r.Partitions {
			again += x.Attempts - 1
		}
		if again != 2 || s.tries["1"]+s.tries["2"]+s.tries["3"]+s.tries["4"] != 4 {
			t.Errorf("%d attempts failed; syntheses: %v", again, s.tries)
		}
		w.finish(e, s)
	})
}

// A backend that dies in the middle costs the work in its lanes, no more: the partition is proved again.
func TestBackendsDeath(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	gone := &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "killed", Retryable: true}
	for _, evaluations := range []int{0, 2, 3} {
		t.Run(fmt.Sprintf("%d evaluations", evaluations), func(t *testing.T) {
			w.evaluations = evaluations
			synctest.Test(t, func(t *testing.T) {
				s, p := w.synth(), w.prover("p", 1)
				p.fault = func(n int, _ string, b []byte) ([]byte, error) {
					if n%2 == 1 {
						return nil, gone
					}
					return b, nil
				}
				e, seen := w.start(Config{MaxAttempts: 20, PartitionWorkers: 4}, s, p)
				r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3))
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, 1, 2, 3)
				if evaluations == 0 && len(s.tries) == 3 && (s.tries["1"] != 1 || s.tries["2"] != 1 || s.tries["3"] != 1) {
					t.Errorf("syntheses: %v; a kept witness is enough for this backend", s.tries)
				}
				if n := count(seen.states("p"), "wrong proof"); n != 0 {
					t.Errorf("blamed %d times for dying", n)
				}
				p.fault = func(int, string, []byte) ([]byte, error) { return nil, gone }
				if _, err := e.Prove(context.Background(), w.job("", key, 4)); !errs.Is(err, errs.BackendGone) {
					t.Errorf("a backend that always dies: %v", err)
				}
				w.finish(e, s)
			})
		})
	}
}

// Shells that wait for their second attempt can never fill the budget: with room for two partitions, ten that all fail once still finish.
func TestRetriesUnderPressure(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 10, 3000, 1) // 96 KiB each
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 2)
		var failed atomic.Int64
		seen := map[string]bool{}
		var mu sync.Mutex
		p.fault = func(_ int, x string, b []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if !seen[x] {
				seen[x] = true
				failed.Add(1)
				return nil, &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "killed", Retryable: true}
			}
			return b, nil
		}
		e, _ := w.start(Config{MemoryBudget: 420 << 10, PartitionWorkers: 4}, s, p)
		var list []int
		for i := range 10 {
			list = append(list, i+1)
		}
		r, err := e.Prove(context.Background(), w.job("", key, list...))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, list...)
		w.finish(e, s)
	})
}

// A compact witness goes to a backend that can read it; where there is none it is refused before a proof begins.
func TestCompactWitness(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 200, 1)
	for _, tc := range []struct {
		form      assignment.Form
		a, b      []string
		by        string // "": refused
		proofsOfA int
	}{
		{assignment.Dense, nil, nil, "a", 1},
		{assignment.Compact, []string{contract.AbilityCompact}, nil, "a", 1},
		{assignment.Compact, nil, []string{contract.AbilityCompact}, "b", 0},
		{assignment.Compact, nil, nil, "", 0},
	} {
		s, a, b := w.synth(), w.prover("a", 1), w.prover("b", 1)
		s.form, a.able, b.able = tc.form, tc.a, tc.b
		e, _ := w.start(Config{}, s, a, b)
		r, err := e.Prove(context.Background(), w.job("", key, 1))
		switch {
		case tc.by == "":
			if !errs.Is(err, errs.Unsupported) || !contains(err.Error(), "compact-witness") {
				t.Errorf("%+v: %v", tc, err)
			}
		case err != nil:
			t.Errorf("%+v: %v", tc, err)
		default:
			w.right(key, r, 1)
			if by := r.Partitions[0].Backend; by != tc.by {
				t.Errorf("%+v: proved by %s", tc, by)
			}
		}
		if a.proofs != tc.proofsOfA || tc.by == "" && b.proofs != 0 {
			t.Errorf("%+v: %d and %d proofs were begun", tc, a.proofs, b.proofs)
		}
		w.finish(e, s)
	}
}

// A key file that was written while a backend had it is named as the cause of the backend's death.
func TestKeyFileChanged(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	s, p := w.synth(), w.prover("p", 1)
	p.fault = func(int, string, []byte) ([]byte, error) {
		if err := os.Truncate(key, 3); err != nil {
			t.Error(err)
		}
		return nil, &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "SIGBUS", Retryable: true}
	}
	e, _ := w.start(Config{}, s, p)
	_, err := e.Prove(context.Background(), w.job("", key, 1))
	if !errs.Is(err, errs.InvalidFile) || !contains(err.Error(), "key file changed") || !contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
	w.finish(e, s)
}

// Panics of code in this process are errors of its job.
func TestPanicInProcess(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	s, p := w.synth(), w.prover("p", 1)
	p.fault = func(int, string, []byte) ([]byte, error) { panic("a bug") }
	e, _ := w.start(Config{}, s, p)
	if _, err := e.Prove(context.Background(), w.job("", key, 1, 2)); !errs.Is(err, errs.Internal) || !contains(err.Error(), "a bug") {
		t.Errorf("%v", err)
	}
	w.finish(e, s)
}
