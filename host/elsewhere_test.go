package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
)

// Whatever a backend cannot do, or does against the contract, before or in a proof, the next one is asked; alone, its own error is the answer.
func TestElsewhere(t *testing.T) {
	gone := &errs.Error{Class: errs.BackendGone, Op: "test", Found: "killed", Retryable: true}
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	for _, tc := range []struct {
		name  string
		spoil func(*fakeProver)
		class errs.Class
	}{
		{"dies in PlanKey", func(p *fakeProver) { p.plan = func(*contract.KeyPlan) error { return gone } }, errs.BackendGone},
		{"does not know the key", func(p *fakeProver) {
			p.plan = func(*contract.KeyPlan) error { return errs.New(errs.Unsupported, "plan key", "no such keys") }
		}, errs.Unsupported},
		{"plans one set of evaluations", func(p *fakeProver) { p.plan = func(k *contract.KeyPlan) error { k.Evaluations = 1; return nil } }, errs.Internal},
		{"has no memory for the key", func(p *fakeProver) { p.load = errs.New(errs.Exhausted, "load key", "device memory") }, errs.Exhausted},
		{"dies in LoadKey", func(p *fakeProver) { p.load = gone }, errs.BackendGone},
		{"has no memory for a proof", func(p *fakeProver) {
			p.fault = func(int, string, []byte) ([]byte, error) {
				return nil, errs.New(errs.Exhausted, "prove", "device memory")
			}
		}, errs.Exhausted},
		{"panics in a proof", func(p *fakeProver) { p.fault = func(int, string, []byte) ([]byte, error) { panic("a bug") } }, errs.Internal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, bad, good := w.synth(), w.prover("bad", 1), w.prover("good", 1)
				tc.spoil(bad)
				e, _ := w.start(Config{}, s, bad, good)
				r, err := e.Prove(context.Background(), w.job("", key, 1, 2))
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, 1, 2)
				for _, p := range r.Partitions {
					if p.Backend != "good" || p.Attempts != 2 {
						t.Errorf("partition %d was proved by %s in attempt %d", p.Partition, p.Backend, p.Attempts)
					}
				}
				w.finish(e, s)

				s, bad = w.synth(), w.prover("bad", 1)
				tc.spoil(bad)
				e, _ = w.start(Config{}, s, bad)
				if _, err := e.Prove(context.Background(), w.job("", key, 1, 2)); !errs.Is(err, tc.class) {
					t.Errorf("alone: %v, expected class %v", err, tc.class)
				}
				w.finish(e, s)
			})
		})
	}
}

// What a synthesizer or the request is at fault for is not tried on the other backend.
func TestNotElsewhere(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	w.synthFault = func(string, int) error { return errs.New(errs.Unsupported, "synthesize", "custom gates") }
	synctest.Test(t, func(t *testing.T) {
		s, a, b := w.synth(), w.prover("a", 1), w.prover("b", 1)
		e, _ := w.start(Config{}, s, a, b)
		if _, err := e.Prove(context.Background(), w.job("", key, 1)); !errs.Is(err, errs.Unsupported) || s.tries["1"] != 1 {
			t.Errorf("%v after %d syntheses", err, s.tries["1"])
		}
		w.finish(e, s)
	})
}

// A synthesizer that dies at work says nothing of the backend: the partition is tried again, on the same one.
func TestDeadSynthesizerIsNotTheBackendsFault(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	deaths := 0
	w.synthFault = func(string, int) error {
		if deaths++; deaths == 1 {
			return &errs.Error{Class: errs.BackendGone, Op: "synthesize", Found: "killed", Retryable: true}
		}
		return nil
	}
	synctest.Test(t, func(t *testing.T) {
		s, a, b := w.synth(), w.prover("a", 1), w.prover("b", 1)
		e, _ := w.start(Config{}, s, a, b)
		r, err := e.Prove(context.Background(), w.job("", key, 1))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1)
		if p := r.Partitions[0]; p.Backend != "a" || p.Attempts != 2 {
			t.Errorf("proved by %s in attempt %d", p.Backend, p.Attempts)
		}
		w.finish(e, s)
	})
}

// A synthesizer that dies while it opens a request is asked again, as often as a partition is proved.
func TestOpenAgain(t *testing.T) {
	gone := &errs.Error{Class: errs.BackendGone, Op: "open", Found: "killed", Retryable: true}
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	for _, tc := range []struct {
		name   string
		err    error
		deaths int
		opens  int
		well   bool
	}{
		{"once", gone, 1, 2, true},
		{"twice", gone, 2, 3, true},
		{"always", gone, 100, 3, false},
		{"not a death", errs.New(errs.InvalidFile, "open", "no circuit"), 1, 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := w.synth()
				s.fault = func(n int) error {
					if n <= tc.deaths {
						return tc.err
					}
					return nil
				}
				e, _ := w.start(Config{}, s, w.prover("p", 1))
				r, err := e.Prove(context.Background(), w.job("", key, 1))
				if (err == nil) != tc.well || err != nil && !errors.Is(err, tc.err) || s.opens != tc.opens {
					t.Errorf("%v after %d openings", err, s.opens)
				}
				if err == nil {
					w.right(key, r, 1)
				}
				w.finish(e, s)
			})
		})
	}
}
