package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// hooked is a prover whose loads and unloads can be made to go wrong after they were done.
type hooked struct {
	*fakeProver
	loaded   func(ctx context.Context) error
	unloaded func() error
}

func (h *hooked) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	k, err := h.fakeProver.LoadKey(context.WithoutCancel(ctx), req)
	if err == nil && h.loaded != nil {
		err = h.loaded(ctx)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (h *hooked) UnloadKey(ctx context.Context, id string) error {
	if h.unloaded != nil {
		if err := h.unloaded(); err != nil {
			return err
		}
	}
	return h.fakeProver.UnloadKey(ctx, id)
}

func (h *hooked) start(t *testing.T, cfg Config, s *fakeSynth) *Engine {
	t.Helper()
	cfg.Backends = []BackendConfig{{Name: h.name, New: func(r slab.Resolver) (contract.Prover, error) { h.r = r; return h, nil }}}
	e, _ := h.w.start(cfg, s)
	return e
}

// A load that is canceled, or fails, after the backend has the key leaves neither the key nor its bytes behind.
func TestLoadThatFailsIsUndone(t *testing.T) {
	w := newWorld(t)
	w.keyBytes, w.loadTime = 600<<10, 10*time.Millisecond
	key := w.key("k", 4, 10, 1)
	for _, how := range []string{"canceled", "failed"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := w.synth(), &hooked{fakeProver: w.prover("p", 1)}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				class := errs.Canceled
				if how == "canceled" {
					time.AfterFunc(5*time.Millisecond, cancel)
					h.loaded = func(ctx context.Context) error { return errs.Wrap(ctx.Err(), "load key") }
				} else {
					class = errs.InvalidFile
					h.loaded = func(context.Context) error { return errs.New(errs.InvalidFile, "load key", "too late") }
				}
				e := h.start(t, Config{MemoryBudget: 1 << 20}, s)
				if _, err := e.Prove(ctx, w.job("", key, 1)); !errs.Is(err, class) {
					t.Errorf("%v", err)
				}
				if r := e.Report(); len(h.keys) != 0 || r.Reserved != 0 {
					t.Errorf("the backend has the keys %v, %d bytes are charged", h.keys, r.Reserved)
				}
				h.loaded = nil
				if r, err := e.Prove(context.Background(), w.job("", key, 1)); err != nil {
					t.Error(err)
				} else {
					w.right(key, r, 1)
				}
				w.finish(e, s)
			})
		})
	}
}

// A backend in this process cannot be ended: what it does not give back stays charged, what does not fit beside it is refused, and Close says so.
func TestUnloadThatFailsStaysCharged(t *testing.T) {
	w := newWorld(t)
	w.keyBytes = 600 << 10
	a, b := w.key("a", 4, 10, 1), w.key("b", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, h := w.synth(), &hooked{fakeProver: w.prover("p", 1)}
		e := h.start(t, Config{MemoryBudget: 1 << 20}, s)
		h.unloaded = func() error { return errs.New(errs.Internal, "unload key", "a bug") }
		if _, err := e.Prove(context.Background(), w.job("", a, 1)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if _, err := e.Prove(ctx, w.job("", b, 1)); !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "did not give back") {
			t.Errorf("a key beside one that cannot go: %v", err)
		}
		if r := e.Report(); r.Purposes[ledger.Key] != 600<<10 || len(h.keys) != 1 {
			t.Errorf("%v is charged for the keys %v", r.Purposes.String(), h.keys)
		}
		if r, err := e.Prove(context.Background(), w.job("", a, 2)); err != nil {
			t.Errorf("the key that could not go: %v", err)
		} else {
			w.right(a, r, 2)
		}
		// Its memory is given back after all.
		h.unloaded = nil
		if r, err := e.Prove(context.Background(), w.job("", b, 1)); err != nil {
			t.Error(err)
		} else {
			w.right(b, r, 1)
		}
		h.unloaded = func() error { return errs.New(errs.Internal, "unload key", "a bug") }
		if err := e.Close(context.Background()); !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "not given back: key 600KiB") {
			t.Errorf("close: %v", err)
		}
	})
}
