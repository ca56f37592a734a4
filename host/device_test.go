package host

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
)

// processes makes a fake backend one whose processes can die: what they held is gone then, and the next call has another one.
type processes struct {
	e *Engine
	b *backend
	p *fakeProver

	mu   sync.Mutex
	now  *live.Instance[contract.Prover]
	gone chan struct{}
}

// mortal makes backend i of e, which is p and has done nothing yet, one of processes.
func mortal(e *Engine, i int, p *fakeProver) *processes {
	s := &processes{e: e, b: e.backends[i], p: p}
	s.b.prover = live.NewProver(s, e.pool)
	return s
}

func (s *processes) Get(context.Context) (*live.Instance[contract.Prover], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.gone = make(chan struct{})
		kill := func(string) error { return errs.New(errs.Internal, "kill", "nobody should") }
		s.now = &live.Instance[contract.Prover]{Client: &process{s.p, s.gone}, Gone: s.gone, Kill: kill}
	}
	return s.now, nil
}

func (s *processes) Close(context.Context) error { return nil }

// die ends the process, if there is one. The engine is told a moment later, as by a supervisor.
func (s *processes) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return
	}
	s.now = nil
	s.p.mu.Lock()
	close(s.gone)
	clear(s.p.keys)
	clear(s.p.using)
	s.p.mu.Unlock()
	time.AfterFunc(time.Millisecond, func() { s.e.died(s.b) })
}

// process is one life of a fake backend.
type process struct {
	*fakeProver
	gone chan struct{}
}

func (p *process) dead() error {
	select {
	case <-p.gone:
		return &errs.Error{Class: errs.BackendGone, Op: "call", Found: "killed", Retryable: true}
	default:
		return nil
	}
}

func (p *process) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	if err := sleep(ctx, p.w.loadTime); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.dead(); err != nil {
		return nil, err
	}
	text, err := readAll(p.r, req.Key.Handle)
	if err != nil {
		return nil, err
	}
	name, shape, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	p.loads++
	p.keys[req.KeyID] = name
	return &contract.LoadedKey{Shape: shape, ResidentBytes: p.w.keyBytes + p.w.moreKey}, nil
}

func (p *process) UnloadKey(ctx context.Context, id string) error {
	if err := p.dead(); err != nil {
		return err
	}
	return p.fakeProver.UnloadKey(ctx, id)
}

func (p *process) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	if err := p.dead(); err != nil {
		return nil, err
	}
	proof, err := p.fakeProver.Prove(ctx, req, event)
	if dead := p.dead(); dead != nil {
		return nil, dead
	}
	return proof, err
}

// charged is what is charged of a device.
func charged(e *Engine, device string) ledger.AccountStats {
	for _, d := range e.Report().Devices {
		if d.Name == device {
			return d
		}
	}
	return ledger.AccountStats{}
}

// A key that fits into the host and not into a device: another device takes it, or it is refused with the numbers of the device.
func TestKeyTooLargeForADevice(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, small, large := w.synth(), w.prover("small", 1), w.prover("large", 1)
		small.device, small.vram, small.deviceKey = "gpu-0", 400, 500
		large.device, large.vram, large.deviceKey = "gpu-1", 1000, 500
		e, seen := w.start(Config{}, s, small, large)
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1, 2)
		if small.loads != 0 || large.loads != 1 || r.Partitions[0].Backend != "large" {
			t.Errorf("loaded %d and %d times, proved by %s", small.loads, large.loads, r.Partitions[0].Backend)
		}
		if a, b := charged(e, "gpu-0"), charged(e, "gpu-1"); a.Total != 0 || a.Budget != 400 || b.Total != 500 || b.PeakTotal != 500 {
			t.Errorf("%+v, %+v", a, b)
		}
		job := w.job("", key, 3)
		job.Backend = "small"
		_, err = e.Prove(context.Background(), job)
		for _, word := range []string{"memory of gpu-0", "at most the budget of 400B", "fake small, as backend small says", "a need of 500B, 500 bytes: key 500B"} {
			if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), word) {
				t.Errorf("%v, expected %q", err, word)
			}
		}
		// Where no device has room, the preferred one's numbers are the answer.
		large.vram, seen.shrinks = 450, "gpu-1"
		e.died(e.backends[1])
		if _, err := e.Prove(context.Background(), w.job("", key, 4)); !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "gpu-0") {
			t.Errorf("%v", err)
		}
		w.finish(e, s)
	})
}

// Keys that do not fit into the device together give way to each other, though the host has room for both, and also when two backends share the device.
func TestKeysGiveWayOnADevice(t *testing.T) {
	w := newWorld(t)
	w.loadTime = time.Millisecond
	a, b := w.key("a", 4, 10, 1), w.key("b", 4, 10, 1)
	for _, backends := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := w.synth()
			provers := []*fakeProver{w.prover("p0", 1), w.prover("p1", 1)}[:backends]
			for i, p := range provers {
				p.device, p.vram, p.deviceKey = "gpu", int64(1000-300*i), 600 // the second one looks when the first has taken some
			}
			e, _ := w.start(Config{}, s, provers...)
			var wg sync.WaitGroup
			for i := range 12 {
				key := []string{a, b}[i%2]
				wg.Go(func() {
					job := w.job("", key, i)
					job.Backend = fmt.Sprint("p", i%2%backends)
					if r, err := e.Prove(context.Background(), job); err != nil {
						t.Error(err)
					} else {
						w.right(key, r, i)
					}
				})
			}
			wg.Wait()
			loads := 0
			for _, p := range provers {
				loads += p.loads
			}
			if d := charged(e, "gpu"); loads < 2 || d.PeakTotal != 600 || d.Budget != 1000 || d.Total != 600 {
				t.Errorf("%d loads, %+v", loads, d)
			}
			w.finish(e, s)
		})
	}
}

// What a backend's process held is given back when it dies, on the host and on the device, and charged again when the key is.
func TestDeathGivesTheDeviceBack(t *testing.T) {
	w := newWorld(t)
	w.keyBytes, w.loadTime = 100<<10, time.Millisecond
	key := w.key("k", 4, 10, 1)
	for _, others := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s, p, other := w.synth(), w.prover("p", 1), w.prover("other", 1)
			p.device, p.vram, p.deviceKey = "gpu-0", 1000, 600
			other.device, other.vram, other.deviceKey = "gpu-1", 1000, 700
			e, _ := w.start(Config{}, s, []*fakeProver{p, other}[:1+others]...)
			m := mortal(e, 0, p)
			prove := func(list ...int) *Result {
				t.Helper()
				r, err := e.Prove(context.Background(), w.job("", key, list...))
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, list...)
				return r
			}
			holds := func(host, device int64) {
				t.Helper()
				time.Sleep(10 * time.Millisecond)
				if r := e.Report(); r.Purposes[ledger.Key] != host || charged(e, "gpu-0").Total != device || int64(len(p.keys)) != device/600 {
					t.Errorf("charged: %d of the host, %d of the device; there are %d keys", r.Purposes[ledger.Key], charged(e, "gpu-0").Total, len(p.keys))
				}
			}
			prove(1)
			holds(100<<10, 600)
			m.die() // idle
			holds(0, 0)
			prove(2)
			holds(100<<10, 600)
			// In the middle: one on the lane, others behind it, that have seen the key loaded.
			before := p.proofs
			p.fault = func(n int, _ string, b []byte) ([]byte, error) {
				if n == before+2 {
					m.die()
				}
				return b, nil
			}
			r := prove(3, 4, 5, 6, 7)
			p.fault = nil
			again := 0
			for _, x := range r.Partitions {
				again += x.Attempts - 1
			}
			if again != 1 {
				t.Errorf("%d attempts were lost with one lane", again)
			}
			holds(int64(1+others)*(100<<10), 600)
			if others == 0 && p.loads != 3 {
				t.Errorf("%d loads", p.loads)
			}
			w.finish(e, s)
		})
	}
}

// The next process may find another device, or less memory: keys are planned anew, and what was charged is given back.
func TestAnotherDeviceAfterDeath(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		p.device, p.vram, p.deviceKey = "gpu-0", 1000, 600
		e, seen := w.start(Config{}, s, p)
		seen.shrinks = "gpu-0"
		m := mortal(e, 0, p)
		for _, life := range []struct {
			device     string
			vram, key  int64
			first, now int64 // charged of gpu-0 and of device
		}{{"gpu-0", 1000, 600, 600, 600}, {"gpu-0", 500, 300, 300, 300}, {"gpu-1", 1000, 600, 0, 600}, {"gpu-0", 1000, 600, 600, 600}, {"gpu-0", 1000, 600, 600, 600}} {
			m.die()
			p.device, p.vram, p.deviceKey = life.device, life.vram, life.key
			time.Sleep(10 * time.Millisecond)
			r, err := e.Prove(context.Background(), w.job("", key, 1))
			if err != nil {
				t.Fatal(err)
			}
			w.right(key, r, 1)
			if a, b := charged(e, "gpu-0"), charged(e, life.device); a.Total != life.first || b.Total != life.now || b.Budget != life.vram || len(p.keys) != 1 {
				t.Errorf("%+v: %+v, %+v, keys %v", life, a, b, p.keys)
			}
		}
		w.finish(e, s)
	})
}

// A backend whose device is the host's memory cannot have keys in another.
func TestDeviceBytesWithoutADevice(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	s, p := w.synth(), w.prover("p", 1)
	p.deviceKey = 1
	e, _ := w.start(Config{}, s, p)
	if _, err := e.Prove(context.Background(), w.job("", key, 1)); !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "breaks the contract") {
		t.Error(err)
	}
	w.finish(e, s)
}
