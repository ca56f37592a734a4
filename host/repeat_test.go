package host

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// The only caller leaves at the moment at which its job succeeds. It gets no proof; whoever asks again with the same id gets the one that was made.
func TestLastCallerLeavesAsTheJobSucceeds(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	for _, keep := range []int{64, -1} {
		synctest.Test(t, func(t *testing.T) {
			s, p := w.synth(), w.prover("a", 1)
			e, _ := w.start(Config{KeepResults: keep}, s, p)
			ctx, cancel := context.WithCancel(context.Background())
			e.cfg.Listener = TeeListener(e.cfg.Listener, &Listener{Job: func(i JobInfo) {
				if i.State == "done" {
					cancel()
					time.Sleep(10 * time.Millisecond)
				}
			}})
			if r, err := e.Prove(ctx, w.job("j", key, 1)); r != nil || !errs.Is(err, errs.Canceled) {
				t.Errorf("a canceled job was answered with %v, %v", r, err)
			}
			again, stop := context.WithTimeout(context.Background(), 2*time.Second)
			defer stop()
			r, err := e.Prove(again, w.job("j", key, 1))
			if err != nil {
				t.Fatalf("the same job again: %v", err)
			}
			w.right(key, r, 1)
			if want := map[int]int{64: 1, -1: 2}[keep]; p.proofs != want {
				t.Errorf("%d proofs were made, want %d", p.proofs, want)
			}
			if k := e.kept["j"]; keep > 0 && (k == nil || k.session != nil || k.key != nil || k.in != nil || k.front != nil || k.candidates != nil) {
				t.Errorf("a kept job holds on to its work: %+v", k)
			}
			w.finish(e, s)
		})
	}
}

// Jobs whose options only look alike when they are printed are not the same job.
func TestOptionsAreContent(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	s := w.synth()
	e, _ := w.start(Config{}, s, w.prover("a", 1))
	for i, list := range [][]map[string]string{
		{{"a": "b c:d"}, {"a": "b", "c": "d"}},
		{{"a": "b\" \"c"}, {"a": "b", "c": ""}},
		{nil, {"": ""}},
		{{"a": "x", "b": "y"}, {"a": "y", "b": "x"}},
	} {
		for j, o := range list {
			job := w.job(fmt.Sprint("j", i), key, 1)
			job.Options = o
			if _, err := e.Prove(context.Background(), job); (j == 0) != (err == nil) || j > 0 && !errs.Is(err, errs.Conflict) {
				t.Errorf("job %d with %q: %v", i, o, err)
			}
		}
		again := w.job(fmt.Sprint("j", i), key, 1)
		again.Options = maps.Clone(list[0])
		if _, err := e.Prove(context.Background(), again); err != nil {
			t.Errorf("job %d again: %v", i, err)
		}
	}
	w.finish(e, s)
}

// Whether witnesses are checked is said in one place, the job, and reaches the synthesizer beside the other options.
func TestCheckReachesTheSynthesizer(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	s := w.synth()
	e, _ := w.start(Config{}, s, w.prover("a", 1))
	for check, want := range map[Check]map[string]string{CheckAuto: {"x": "y"}, CheckOn: {"x": "y", "check": "on"}, CheckOff: {"x": "y", "check": "off"}} {
		job := w.job("same", key, 1)
		job.Options, job.Check = map[string]string{"x": "y"}, check
		job.ID = check.String()
		if _, err := e.Prove(context.Background(), job); err != nil || !maps.Equal(s.options, want) {
			t.Errorf("%v: options %v, want %v; %v", check, s.options, want, err)
		}
		job.Check = (check + 1) % 3
		if _, err := e.Prove(context.Background(), job); !errs.Is(err, errs.Conflict) {
			t.Errorf("the id of a job with another check: %v", err)
		}
	}
	unknown, twice := w.job("", key, 1), w.job("", key, 1)
	unknown.Check = 3
	twice.Options = map[string]string{"check": "off"}
	for _, job := range []*Job{unknown, twice} {
		if _, err := e.Prove(context.Background(), job); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%v, %v: %v", job.Check, job.Options, err)
		}
	}
	w.finish(e, s)
}

// The answer has the verifying key it was checked with, and callers cannot change each other's.
func TestResultHasTheVerifyingKey(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 2)
	s := w.synth()
	e, _ := w.start(Config{}, s, w.prover("a", 1))
	for range 2 {
		r, err := e.Prove(context.Background(), w.job("j", key, 1))
		if err != nil {
			t.Fatal(err)
		}
		v, err := groth16.NewVerifier(r.VK)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(&r.Proofs[0], r.Public[0]); err != nil {
			t.Error(err)
		}
		r.VK.IC[0], r.VK.AlphaG1 = r.VK.IC[1], r.VK.IC[1]
	}
	w.finish(e, s)
}

// Results are remembered while they are few and small: the oldest goes first, and one that is too large by itself is not kept.
func TestKeptResultsAreBounded(t *testing.T) {
	w := newWorld(t)
	key, wide := w.key("k", 4, 10, 1), w.key("wide", 8, 120, 100)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		e, _ := w.start(Config{KeepResults: 3}, s, p)
		prove := func(id, key string) {
			t.Helper()
			if _, err := e.Prove(context.Background(), w.job(id, key, 1)); err != nil {
				t.Fatal(err)
			}
		}
		kept := func(want ...string) {
			t.Helper()
			if fmt.Sprint(e.keptIDs) != fmt.Sprint(want) || len(e.kept) != len(want) {
				t.Errorf("kept: %v, want %v", e.keptIDs, want)
			}
			var n int64
			for _, r := range e.kept {
				n += r.result.size()
			}
			if n != e.keptSize {
				t.Errorf("%d bytes are counted, %d kept", e.keptSize, n)
			}
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			prove(id, key)
		}
		kept("b", "c", "d")
		one := e.kept["b"].result.size()
		e.keepSize = 3 * one
		prove("wide", wide)
		kept()
		prove("e", key)
		e.keepSize = one
		prove("f", key)
		kept("f")
		before := p.proofs
		prove("f", key)
		prove("e", key)
		if p.proofs != before+1 {
			t.Errorf("%d proofs for one remembered and one forgotten", p.proofs-before)
		}
		w.finish(e, s)
	})
}
