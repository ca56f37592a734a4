package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

func TestProveManyPartitions(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 3)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, seen := w.start(Config{}, s, p)
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3, 4, 5))
		if err != nil {
			t.Fatal(err)
		}
		w.right(key, r, 1, 2, 3, 4, 5)
		for i, rep := range r.Partitions {
			if rep.Partition != i || rep.Attempts != 1 || rep.Synthesis != w.synthTime || rep.Consume != w.proveTime/2 || rep.OnDevice != w.proveTime/2 || rep.Finish != w.finishTime {
				t.Errorf("report %+v", rep)
			}
		}
		if seen.most.Provers != 2 {
			t.Errorf("at most %d sets of evaluations with two permits", seen.most.Provers)
		}
		if p.loads != 1 {
			t.Errorf("the key was loaded %d times", p.loads)
		}
		var kinds []BufferEvent
		for _, i := range seen.events {
			if i.Partition == 0 {
				kinds = append(kinds, i.Event)
			}
		}
		want := []BufferEvent{SynthStart, SynthDone, Queued, ProveStart, ABCFreed, DeviceDone, FinalizeDone, DeallocDone}
		if !slices.Equal(kinds, want) {
			t.Errorf("events of a partition: %v", kinds)
		}
		w.finish(e, s)
	})
}

// Invariant 4: est is the bytes of live buffers, and no more than what is granted, at every instant at which nobody is in the midst of a step.
func TestEstIsWhatIsAlive(t *testing.T) {
	w := newWorld(t)
	w.scratch, w.keyBytes, w.session, w.synthScratch = 5000, 9000, 7000, 3000
	key := w.key("k", 9, 2000, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 2)
		e, _ := w.start(Config{PartitionWorkers: 3}, s, p)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3, 4, 5, 6, 7)); err != nil {
				t.Error(err)
			} else {
				w.right(key, r, 1, 2, 3, 4, 5, 6, 7)
			}
		}()
		moments, most := 0, int64(0)
		for running := true; running; moments++ {
			time.Sleep(500 * time.Microsecond)
			synctest.Wait()
			r := e.Report()
			buffers := r.Purposes[ledger.Evaluations] + r.Purposes[ledger.Witness] + r.Purposes[ledger.Shell]
			if live := e.pool.Stats().Live(); r.Now.Est != live || live != buffers {
				t.Errorf("est %d, alive %d, granted %d", r.Now.Est, live, buffers)
			}
			if r.Reserved+r.Idle > r.Budget {
				t.Errorf("%d granted and %d idle of %d", r.Reserved, r.Idle, r.Budget)
			}
			most = max(most, r.Now.Est)
			select {
			case <-done:
				running = false
			default:
			}
		}
		if r := e.Report(); most != r.Peak.Est || moments < 100 {
			t.Errorf("%d moments, at most %d bytes, peak %d", moments, most, r.Peak.Est)
		}
		w.finish(e, s)
	})
}

// A job with five partitions on one lane: the second is synthesised while the first is proved, so the lane never waits after its first proof.
func TestSynthesisRunsAheadOfTheLane(t *testing.T) {
	w := newWorld(t)
	w.synthTime, w.proveTime, w.finishTime = 10*time.Millisecond, 40*time.Millisecond, 4*time.Millisecond
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, _ := w.start(Config{}, s, p)
		r, err := e.Prove(context.Background(), w.job("", key, 1, 2, 3, 4, 5))
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Millisecond + w.synthTime + 5*w.proveTime + w.finishTime; r.Elapsed != want {
			t.Errorf("took %v, want %v", r.Elapsed, want)
		}
		w.finish(e, s)
	})
}

// T6. A hundred submissions with a budget for two: never more than the budget, urgent first, oldest first, all finish; and a job that can never fit
// is refused at once.
func TestHundredSubmissions(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 14, 1000, 1) // 1.5 MiB of evaluations, 1 MiB of scratch
	huge := w.key("huge", 24, 1000, 1)
	w.scratch, w.keyBytes, w.session = 1<<20, 1<<20, 1<<10
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, _ := w.start(Config{PartitionWorkers: 8, MemoryBudget: 6 << 20}, s, p) // for two: the lane's scratch is charged once
		prios := []Priority{Normal, Low, High, Critical, Normal}
		var wg sync.WaitGroup
		rank := map[string]int{}
		for i := range 100 {
			prio := prios[i%len(prios)]
			rank[fmt.Sprint(i+1)] = int(Critical-prio)*1000 + i
			job := w.job(fmt.Sprint("j", i), key, i+1)
			job.Priority = prio
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Microsecond) // in a known order
				r, err := e.Prove(context.Background(), job)
				if err != nil {
					t.Errorf("job %d: %v", i, err)
					return
				}
				w.right(key, r, i+1)
			})
		}
		begin := time.Now()
		_, err := e.Prove(context.Background(), w.job("huge", huge, 1))
		if !errs.Is(err, errs.Exhausted) || time.Since(begin) > 10*time.Millisecond {
			t.Errorf("an impossible job: %v after %v", err, time.Since(begin))
		}
		for _, part := range []string{"6MiB", "evaluations 1.5GiB"} {
			if err == nil || !contains(err.Error(), part) {
				t.Errorf("the refusal %q does not tell %q", err, part)
			}
		}
		wg.Wait()
		// All 100 were in line before the first few were done: from then on the most urgent and oldest always goes first.
		order := p.order[8:]
		for i := 1; i < len(order); i++ {
			if rank[order[i-1]] > rank[order[i]] {
				t.Errorf("witness %s (rank %d) was proved before %s (rank %d)", order[i-1], rank[order[i-1]], order[i], rank[order[i]])
			}
		}
		if r := e.Report(); r.PeakReserved > r.Budget || r.Peak.Provers != 2 {
			t.Errorf("peak %d of %d bytes, %d sets of evaluations", r.PeakReserved, r.Budget, r.Peak.Provers)
		}
		w.finish(e, s)
	})
}

// T13. Cancel, deadline and disconnect at every stage give everything back, and nothing canceled is delivered. The stages are found by
// ending the job after every half millisecond of its life.
func TestEndAtEveryStage(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	w.loadTime, w.scratch, w.keyBytes, w.session, w.synthScratch = 3*time.Millisecond, 100, 1000, 500, 200
	for _, how := range []string{"cancel", "caller's deadline", "job's deadline", "close"} {
		t.Run(how, func(t *testing.T) {
			for after := 250 * time.Microsecond; after < 80*time.Millisecond; after += 700 * time.Microsecond {
				synctest.Test(t, func(t *testing.T) {
					s, p := w.synth(), w.prover("a", 1)
					e, _ := w.start(Config{}, s, p)
					job := w.job("j", key, 1, 2, 3)
					ctx, cancel := context.WithCancel(context.Background())
					class := errs.Canceled
					switch how {
					case "cancel":
						time.AfterFunc(after, cancel)
					case "caller's deadline":
						ctx, cancel = context.WithTimeout(context.Background(), after)
						class = errs.Deadline
					case "job's deadline":
						job.Deadline = time.Now().Add(after)
						class = errs.Deadline
					case "close":
						time.AfterFunc(after, func() {
							c, stop := context.WithCancel(context.Background())
							stop()
							_ = e.Close(c)
						})
						class = errs.Unavailable
					}
					r, err := e.Prove(ctx, job)
					if err == nil {
						if r == nil {
							t.Error("no error and no result")
						}
						w.right(key, r, 1, 2, 3)
					} else if !errs.Is(err, class) || r != nil {
						t.Errorf("after %v: %v, %v", after, r, err)
					}
					if ctx.Err() != nil && err == nil {
						t.Error("a canceled job was delivered")
					}
					cancel()
					synctest.Wait()
					// The next job of the same engine works.
					if how != "close" {
						if r, err := e.Prove(context.Background(), w.job("j", key, 1, 2, 3)); err != nil {
							t.Errorf("the same job again: %v", err)
						} else {
							w.right(key, r, 1, 2, 3)
						}
					}
					w.finish(e, s)
				})
			}
		})
	}
}

// Drain: what runs is finished, the rest refused.
func TestCloseDrains(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, _ := w.start(Config{}, s, p)
		var wg sync.WaitGroup
		wg.Go(func() {
			r, err := e.Prove(context.Background(), w.job("j", key, 1, 2, 3))
			if err != nil {
				t.Errorf("the job that ran: %v", err)
				return
			}
			w.right(key, r, 1, 2, 3)
		})
		time.Sleep(5 * time.Millisecond)
		wg.Go(func() {
			if err := e.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		time.Sleep(time.Millisecond)
		if _, err := e.Prove(context.Background(), w.job("k", key, 4)); !errs.Is(err, errs.Unavailable) {
			t.Errorf("a job while draining: %v", err)
		}
		wg.Wait()
		w.finish(e, s)
	})
}

// One id: one execution, every caller answered; other content refused; a caller that leaves takes the job with it only when it was the last.
func TestRepeatedIDs(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, _ := w.start(Config{}, s, p)
		var wg sync.WaitGroup
		for i := range 5 {
			job := w.job("same", key, 1, 2)
			ctx, cancel := context.WithCancel(context.Background())
			wg.Go(func() {
				defer cancel()
				r, err := e.Prove(ctx, job)
				if i == 0 {
					if !errs.Is(err, errs.Canceled) {
						t.Errorf("the caller that left: %v", err)
					}
					return
				}
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				w.right(key, r, 1, 2)
			})
			if i == 0 {
				time.AfterFunc(20*time.Millisecond, cancel)
			}
		}
		time.Sleep(time.Millisecond)
		if _, err := e.Prove(context.Background(), w.job("same", key, 1, 3)); !errs.Is(err, errs.Conflict) {
			t.Errorf("same id, other content: %v", err)
		}
		wg.Wait()
		if p.proofs != 2 {
			t.Errorf("%d proofs were made for one job of two partitions", p.proofs)
		}
		// And after the end: the answer is remembered.
		r, err := e.Prove(context.Background(), w.job("same", key, 1, 2))
		if err != nil || p.proofs != 2 {
			t.Fatalf("asked again: %v, %d proofs", err, p.proofs)
		}
		w.right(key, r, 1, 2)
		if _, err := e.Prove(context.Background(), w.job("same", key, 1, 3)); !errs.Is(err, errs.Conflict) {
			t.Errorf("same id, other content, afterwards: %v", err)
		}
		w.finish(e, s)
	})
}

// T16, against the clock of the machine: many callers, the same and different circuits, every proof verified.
func TestManyCallersAtOnce(t *testing.T) {
	w := newWorld(t)
	w.synthTime, w.proveTime, w.finishTime = 300*time.Microsecond, 200*time.Microsecond, 50*time.Microsecond
	w.scratch, w.keyBytes, w.session = 1<<12, 1<<20, 1<<12
	keys := []string{w.key("k0", 4, 10, 1), w.key("k1", 6, 40, 3), w.key("k2", 9, 500, 0), w.key("k3", 4, 10, 1)}
	s := w.synth()
	e, _ := w.start(Config{PartitionWorkers: 3, MemoryBudget: 3 << 20}, s, w.prover("a", 2), w.prover("b", 1))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 6 {
				n := 100*g + i
				key := keys[(g+i)%len(keys)]
				job := w.job("", key, n, n+50)
				if i%2 == 0 {
					job.Backend = "b"
				}
				r, err := e.Prove(context.Background(), job)
				if err != nil {
					t.Errorf("caller %d, job %d: %v", g, i, err)
					return
				}
				w.right(key, r, n, n+50)
			}
		})
	}
	wg.Wait()
	w.finish(e, s)
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 4, 10, 1)
	dir := filepath.Join(w.dir, "folder")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(w.dir, "missing")
	s := w.synth()
	e, _ := w.start(Config{}, s, w.prover("p", 1))
	witness := w.witness(1)
	for _, tc := range []struct {
		name  string
		job   *Job
		class errs.Class
		path  string
	}{
		{"no job", nil, errs.InvalidArgument, ""},
		{"no partitions", &Job{Key: key}, errs.InvalidArgument, ""},
		{"no key", &Job{Partitions: []Partition{{Witness: witness}}}, errs.InvalidArgument, ""},
		{"missing key", &Job{Key: missing, Partitions: []Partition{{Witness: witness}}}, errs.NotFound, missing},
		{"key is a folder", &Job{Key: dir, Partitions: []Partition{{Witness: witness}}}, errs.InvalidFile, dir},
		{"key is something else", &Job{Key: witness, Partitions: []Partition{{Witness: witness}}}, errs.InvalidFile, witness},
		{"missing witness", &Job{Key: key, Partitions: []Partition{{Witness: missing}}}, errs.NotFound, missing},
		{"witness is a device", &Job{Key: key, Partitions: []Partition{{Witness: "/dev/null"}}}, errs.InvalidFile, "/dev/null"},
		{"witness and program", &Job{Key: key, Partitions: []Partition{{Witness: witness, Program: witness}}}, errs.InvalidArgument, ""},
		{"program without inputs", &Job{Key: key, Partitions: []Partition{{Program: witness}}}, errs.InvalidArgument, ""},
		{"missing circuit", &Job{Key: key, Circuit: missing, Partitions: []Partition{{Witness: witness}}}, errs.NotFound, missing},
		{"unknown backend", &Job{Key: key, Backend: "nobody", Partitions: []Partition{{Witness: witness}}}, errs.NotFound, ""},
		{"unknown kind", &Job{Key: key, Kind: "other", Partitions: []Partition{{Witness: witness}}}, errs.Unsupported, ""},
		{"fixed randomness", &Job{Key: key, InsecureTestRandomness: &groth16.Randomness{}, Partitions: []Partition{{Witness: witness}}}, errs.InvalidArgument, ""},
		{"unreadable witness text", &Job{Key: key, Partitions: []Partition{{Witness: w.file("bad.wtns", "no number")}}}, errs.InvalidFile, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := e.Prove(context.Background(), tc.job)
			if r != nil || !errs.Is(err, tc.class) || !contains(fmt.Sprint(err), tc.path) {
				t.Errorf("%v, %v (%v)", r, err, errs.ClassOf(err))
			}
			w.quiet(e)
		})
	}
	w.finish(e, s)
}
