package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// Two keys that do not fit together: each use evicts the other, never under a proof (the fake watches), and all jobs finish.
func TestKeysAreEvictedUnderPressure(t *testing.T) {
	w := newWorld(t)
	w.keyBytes, w.loadTime = 600<<10, time.Millisecond
	a, b := w.key("a", 4, 10, 1), w.key("b", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		e, _ := w.start(Config{MemoryBudget: 1 << 20}, s, p)
		for i := range 3 {
			for _, key := range []string{a, b} {
				r, err := e.Prove(context.Background(), w.job("", key, i))
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, i)
				w.quiet(e)
			}
		}
		if p.loads != 6 {
			t.Errorf("%d loads", p.loads)
		}
		if r := e.Report(); r.ResidentKeys != 1 || r.PeakReserved > r.Budget {
			t.Errorf("%+v", r)
		}
		// Both at once.
		var wg sync.WaitGroup
		for i := range 10 {
			key := []string{a, b}[i%2]
			wg.Go(func() {
				if r, err := e.Prove(context.Background(), w.job("", key, i, i+1)); err != nil {
					t.Error(err)
				} else {
					w.right(key, r, i, i+1)
				}
			})
		}
		wg.Wait()
		w.finish(e, s)
	})
}

// A key and a session that turn out larger than planned are asked for again with their true size, or refused with the numbers.
func TestLargerThanPlanned(t *testing.T) {
	w := newWorld(t)
	w.keyBytes, w.moreKey, w.session = 100<<10, 300<<10, 200<<10
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		e, _ := w.start(Config{MemoryBudget: 1 << 20}, s, p)
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1, 2, 3)
		if r.Partitions[0].Attempts != 1 {
			t.Errorf("%d attempts", r.Partitions[0].Attempts)
		}
		w.finish(e, s)

		s, p = w.synth(), w.prover("p", 1)
		e, _ = w.start(Config{MemoryBudget: 512 << 10}, s, p)
		if _, err := e.Prove(context.Background(), w.job("", key, 1)); !errs.Is(err, errs.Exhausted) {
			t.Errorf("a key beyond the budget: %v", err)
		}
		w.finish(e, s)
	})
}

// Idle sessions give way: many jobs are open at once, and the budget has room for one session and one partition.
func TestSessionsGiveWay(t *testing.T) {
	w := newWorld(t)
	w.session = 400 << 10
	key := w.key("k", 10, 10, 1) // 96 KiB of evaluations
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 1)
		e, _ := w.start(Config{MemoryBudget: 900 << 10}, s, p)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if r, err := e.Prove(context.Background(), w.job("", key, i, i+100)); err != nil {
					t.Error(err)
				} else {
					w.right(key, r, i, i+100)
				}
			})
		}
		wg.Wait()
		t.Logf("%d sessions were opened for 8 jobs", s.opens)
		w.finish(e, s)
	})
}

// Random job lists with cancels, failures, deadlines and repeated ids: no job lost, duplicated or answered with another's proof; at the end
// nothing is held but keys.
func TestRandomJobLists(t *testing.T) {
	w := newWorld(t)
	w.loadTime, w.scratch, w.keyBytes, w.session, w.synthScratch = time.Millisecond, 64<<10, 300<<10, 100<<10, 32<<10
	keys := []string{w.key("k0", 8, 100, 2), w.key("k1", 11, 2000, 1), w.key("k2", 4, 10, 2)}
	for n := range 1000 {
		w.witness(n)
	}
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(uint64(seed), 3))
				w.evaluations = []int{3, 2, 0}[rnd.IntN(3)]
				permits := 1 + rnd.IntN(4)
				s := w.synth()
				provers := []*fakeProver{w.prover("a", 1+rnd.IntN(2)), w.prover("b", 1)}
				var dies []func()
				for i, p := range provers { // half of the time with a device each, or one for both, that has room for one or two keys
					if p.deviceKey = int64(rnd.IntN(2)) * 400; p.deviceKey > 0 {
						p.device, p.vram = fmt.Sprint("gpu", rnd.IntN(2)*i), int64(500+rnd.IntN(600))
					}
					dies = append(dies, func() {})
				}
				var faults sync.Mutex
				fate := rand.New(rand.NewPCG(uint64(seed), 4))
				for i, p := range provers {
					p.fault = func(n int, _ string, b []byte) ([]byte, error) {
						faults.Lock()
						defer faults.Unlock()
						switch fate.IntN(12) {
						case 0:
							dies[i]()
							return nil, &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "killed", Retryable: true}
						case 1:
							b[50] ^= 1
						case 3: // a proof that is right, for another witness
							other := w.keys[[]string{"k0", "k1", "k2"}[fate.IntN(3)]]
							proof := other.prove(publicOf(1000+fate.IntN(5), len(other.ic)-1))
							out := proof.Bytes()
							return out[:], nil
						case 2:
							return nil, errs.New(errs.Exhausted, "prove", "no device memory")
						}
						return b, nil
					}
				}
				w.synthFault = func(string, int) error {
					faults.Lock()
					defer faults.Unlock()
					if fate.IntN(20) == 0 {
						return errs.New(errs.Unsatisfied, "check witness", "constraint 7")
					}
					return nil
				}
				defer func() { w.synthFault = nil }()
				e, seen := w.start(Config{PartitionWorkers: permits, MemoryBudget: int64(1400+rnd.IntN(2000)) << 10, MaxAttempts: 4, QuarantineAfter: 1 << 20}, s, provers...)
				for i, p := range provers {
					dies[i] = mortal(e, i, p).die
				}
				var wg sync.WaitGroup
				var done, failed atomic.Int64
				jobs := 40
				ids, same := make([]string, jobs), map[string]int{}
				for i := range ids {
					ids[i] = fmt.Sprint("job", i-rnd.IntN(2)*min(i, 1))
					same[ids[i]]++
				}
				for i := range jobs {
					var list []int
					for range 1 + rnd.IntN(4) {
						list = append(list, rnd.IntN(1000))
					}
					key := keys[rnd.IntN(len(keys))]
					job := w.job(ids[i], key, list...)
					job.Priority = Priority(rnd.IntN(4) - 1)
					// What may come of it: the faults that are played, and its own end. Nothing else is an answer.
					may := []errs.Class{errs.BackendGone, errs.InvalidProof, errs.Exhausted, errs.Unsatisfied}
					if same[job.ID] > 1 {
						may = append(may, errs.Conflict)
					}
					ctx, cancel := context.WithCancel(context.Background())
					delay := time.Duration(rnd.IntN(300)) * time.Millisecond
					switch rnd.IntN(6) {
					case 0:
						ctx, cancel = context.WithTimeout(ctx, delay+time.Duration(rnd.IntN(100))*time.Millisecond)
						may = append(may, errs.Deadline)
					case 1:
						job.Deadline = time.Now().Add(delay + time.Duration(rnd.IntN(200))*time.Millisecond)
						may = append(may, errs.Deadline)
					}
					wg.Go(func() {
						defer cancel()
						time.Sleep(delay)
						r, err := e.Prove(ctx, job)
						if err != nil {
							failed.Add(1)
							if !errs.IsOneOf(err, may...) {
								t.Errorf("job %d: %v, expected one of %v", i, err, may)
							}
							return
						}
						done.Add(1)
						if r.JobID != job.ID {
							t.Errorf("job %s was answered as %s", job.ID, r.JobID)
						}
						w.right(key, r, list...)
					})
				}
				wg.Wait()
				if n := done.Load() + failed.Load(); n != int64(jobs) {
					t.Errorf("%d of %d jobs were answered", n, jobs)
				}
				if done.Load() == 0 {
					t.Error("no job succeeded")
				}
				if r := e.Report(); r.PeakReserved > r.Budget || r.PeakPermits > permits || seen.most.Provers > permits {
					t.Errorf("peaks: %+v", r)
				}
				synctest.Wait()
				for _, p := range provers { // the account has the keys that are there
					keys := int64(0)
					for _, q := range provers {
						if p.device != "" && q.device == p.device {
							keys += int64(len(q.keys))
						}
					}
					for _, d := range e.Report().Devices {
						if d.Name == p.device && d.Total != keys*p.deviceKey {
							t.Errorf("%s: %d bytes are charged for %d keys", d.Name, d.Total, keys)
						}
					}
				}
				t.Logf("%d done, %d failed", done.Load(), failed.Load())
				w.finish(e, s)
			})
		})
	}
}

// A key that is larger than planned, shared by two partitions that cannot both be there with it: nobody is let in at the size that is known to be wrong.
func TestLargerThanPlannedAndShared(t *testing.T) {
	w := newWorld(t)
	w.keyBytes, w.moreKey, w.scratch, w.loadTime = 100<<10, 300<<10, 350<<10, 50*time.Millisecond
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("p", 2)
		e, _ := w.start(Config{MemoryBudget: 1 << 20, PartitionWorkers: 2}, s, p)
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		r, err := e.Prove(ctx, w.job("", key, 1, 2, 3))
		if err != nil {
			t.Fatalf("%v, after %d loads", err, p.loads)
		}
		w.right(key, r, 1, 2, 3)
		if p.loads != 2 {
			t.Errorf("%d loads, want one to learn the size and one to stay", p.loads)
		}
		w.finish(e, s)
	})
}
