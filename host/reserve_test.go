package host

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// With a reserve a critical job is admitted at once however many others wait; without one it waits for a permit.
func TestCriticalReserve(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve int64
		least   time.Duration
		most    time.Duration
	}{
		{"a reserve", 400 << 10, 0, 0},
		{"none", 0, time.Millisecond, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.keyBytes = 100 << 10
			key := w.key("k", 10, 10, 1)
			synctest.Test(t, func(t *testing.T) {
				s, p := w.synth(), w.prover("p", 2)
				e, _ := w.start(Config{MemoryBudget: 2 << 20, PartitionWorkers: 2, CriticalReserve: c.reserve}, s, p)
				var wg sync.WaitGroup
				for i := range 12 {
					wg.Go(func() {
						if r, err := e.Prove(context.Background(), w.job("", key, i)); err != nil {
							t.Error(err)
						} else {
							w.right(key, r, i)
						}
					})
				}
				time.Sleep(5 * time.Millisecond) // the first are being synthesised, the rest wait
				job := w.job("", key, 100)
				job.Priority = Critical
				r, err := e.Prove(context.Background(), job)
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, 100)
				if got := r.Partitions[0].Admission; got < c.least || got > c.most {
					t.Errorf("admitted after %v, want %v to %v", got, c.least, c.most)
				}
				wg.Wait()
				if held := e.Report(); held.PeakReserved > held.Budget {
					t.Errorf("peak %d over the budget %d", held.PeakReserved, held.Budget)
				}
				w.finish(e, s)
			})
		})
	}
}

func TestCriticalReserveIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"negative":          {MemoryBudget: 1 << 20, PartitionWorkers: 2, CriticalReserve: -1},
		"all of the budget": {MemoryBudget: 1 << 20, PartitionWorkers: 2, CriticalReserve: 1 << 20},
		"the only permit":   {MemoryBudget: 1 << 20, PartitionWorkers: 1, CriticalReserve: 1},
	} {
		if e, err := New(context.Background(), c); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = e.Close(context.Background())
			}
		}
	}
}
