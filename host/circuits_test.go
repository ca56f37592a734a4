package host

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/host/ledger"
)

// Jobs of one circuit share what the synthesizer has parsed of it: it is charged once, stays for the next job, and goes when the engine closes.
func TestCircuitIsChargedOnce(t *testing.T) {
	w := newWorld(t)
	w.session = 100
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		s.circuit = 500 << 10
		e, _ := w.start(Config{PartitionWorkers: 3}, s, p)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				if r, err := e.Prove(context.Background(), w.job(fmt.Sprint("j", i), key, i+1)); err != nil {
					t.Error(err)
				} else {
					w.right(key, r, i+1)
				}
			})
		}
		wg.Wait()
		r := e.Report()
		if s.parsed != 1 || s.shared != 1 || r.PeakPurposes[ledger.Circuit] != s.circuit || r.Purposes[ledger.Circuit] != s.circuit {
			t.Errorf("%d circuits parsed, %d open; most charged %d, now %d of %d bytes", s.parsed, s.shared, r.PeakPurposes[ledger.Circuit], r.Purposes[ledger.Circuit], s.circuit)
		}
		if r.Purposes[ledger.Session] != 0 {
			t.Errorf("sessions hold %d bytes", r.Purposes[ledger.Session])
		}
		w.finish(e, s)
		if s.shared != 0 {
			t.Errorf("%d circuits are still open", s.shared)
		}
	})
}

// Two circuits that have no room beside each other: the idle one goes when the other is asked for, after the sessions that are based on it, and comes back for its next job.
func TestIdleCircuitMakesRoom(t *testing.T) {
	w := newWorld(t)
	w.session, w.keyBytes = 100, 1000
	a, b := w.key("a", 4, 10, 1), w.key("b", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		s.circuit = 500 << 10
		e, _ := w.start(Config{MemoryBudget: 900 << 10, PartitionWorkers: 2}, s, p)
		var wg sync.WaitGroup
		for i := range 12 {
			key := []string{a, b}[i/2%2]
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				if r, err := e.Prove(context.Background(), w.job(fmt.Sprint("j", i), key, i+1)); err != nil {
					t.Error(err)
				} else {
					w.right(key, r, i+1)
				}
			})
		}
		wg.Wait()
		if r := e.Report(); r.PeakPurposes[ledger.Circuit] >= 2*s.circuit || s.parsed < 2 || s.shared != 1 {
			t.Errorf("%d circuits parsed, %d open; most charged %d bytes", s.parsed, s.shared, r.PeakPurposes[ledger.Circuit])
		}
		w.finish(e, s)
	})
}
