package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/slab"
)

// The heaps of all plugin processes together have the budget, whatever runs in this process, and nobody has nothing.
func TestHeapLimits(t *testing.T) {
	w := newWorld(t)
	const budget = 1 << 30
	for _, tc := range []struct{ provers, synths, inProcess int }{{1, 1, 0}, {3, 1, 1}, {1, 4, 1}, {2, 0, 1}, {0, 2, 1}, {7, 7, 0}} {
		cfg := Config{MemoryBudget: budget}
		for i := range tc.provers {
			cfg.Backends = append(cfg.Backends, BackendConfig{Name: fmt.Sprint("p", i), Plugin: Plugin{Builtin: "cpu"}})
		}
		for i := range tc.synths {
			cfg.Synthesizers = append(cfg.Synthesizers, SynthesizerConfig{Name: fmt.Sprint("s", i), Plugin: Plugin{Builtin: "circom"}})
		}
		for range tc.inProcess {
			cfg.Backends = append(cfg.Backends, BackendConfig{Name: "in", New: func(r slab.Resolver) (contract.Prover, error) { return w.prover("in", 1), nil }})
			cfg.Synthesizers = append(cfg.Synthesizers, SynthesizerConfig{Name: "in", New: func(r slab.Resolver) (contract.Synthesizer, error) { return w.synth(), nil }})
		}
		e, err := New(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		p, s := e.heapLimit(true)-processHeap, e.heapLimit(false)-processHeap
		sum := int64(tc.provers)*p + int64(tc.synths)*s
		if sum > budget || sum < budget-16 || tc.provers > 0 && p < budget/16 || tc.synths > 0 && s < budget/32 {
			t.Errorf("%+v: %d each prover, %d each synthesizer, %d of %d in all", tc, p, s, sum, budget)
		}
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// Changes are told once and in order; a process that was started has yet to say who it is, until one has.
func TestHealth(t *testing.T) {
	var told []string
	h := health{tell: func(s string, err error) { told = append(told, fmt.Sprint(s, " ", err)) }}
	h.started()
	h.set(down, errors.New("no file"))
	h.set(down, errors.New("no file"))
	h.started()
	h.set(up, nil)
	h.set(up, nil)
	h.started()
	h.set(down, errors.New("killed"))
	h.started()
	h.set(up, nil)
	if want := []string{"down no file", "up <nil>", "down killed", "up <nil>"}; !slices.Equal(told, want) {
		t.Errorf("%q, want %q", told, want)
	}
}
