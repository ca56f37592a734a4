package host

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

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

// T6. A hundred submissions with a budget for two: never more than the budget, urgent first, oldest first, all finish; and a job that can never fit
// is refused at once.
func TestHundredSubmissions(t *testing.T) {
	w := newWorld(t)
	key := w.key("k", 14, 1000, 1) // 1.5 MiB of evaluations, 1 MiB of scratch
	huge := w.key("huge", 24, 1000, 1)
	w.scratch, w.keyBytes, w.session = 1<<20, 1<<20, 1<<10
	synctest.Test(t, func(t *testing.T) {
		s, p := w.synth(), w.prover("a", 1)
		e, _ := w.start(Config{PartitionWorkers: 8, MemoryBudget: 7 << 20}, s, p)
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
		for _, part := range []string{"7MiB", "evaluations 1.5GiB"} {
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
				var faults sync.Mutex
				fate := rand.New(rand.NewPCG(uint64(seed), 4))
				for _, p := range provers {
					p.fault = func(n int, _ string, b []byte) ([]byte, error) {
						faults.Lock()
						defer faults.Unlock()
						switch fate.IntN(12) {
						case 0:
							return nil, &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "killed", Retryable: true}
						case 1:
							b[50] ^= 1
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
				var wg sync.WaitGroup
				var done, failed atomic.Int64
				jobs := 40
				for i := range jobs {
					var list []int
					for range 1 + rnd.IntN(4) {
						list = append(list, rnd.IntN(1000))
					}
					key := keys[rnd.IntN(len(keys))]
					job := w.job(fmt.Sprint("job", i-rnd.IntN(2)*min(i, 1)), key, list...)
					job.Priority = Priority(rnd.IntN(4) - 1)
					ctx, cancel := context.WithCancel(context.Background())
					delay := time.Duration(rnd.IntN(300)) * time.Millisecond
					switch rnd.IntN(6) {
					case 0:
						ctx, cancel = context.WithTimeout(ctx, delay+time.Duration(rnd.IntN(100))*time.Millisecond)
					case 1:
						job.Deadline = time.Now().Add(delay + time.Duration(rnd.IntN(200))*time.Millisecond)
					}
					wg.Go(func() {
						defer cancel()
						time.Sleep(delay)
						r, err := e.Prove(ctx, job)
						if err != nil {
							failed.Add(1)
							if c := errs.ClassOf(err); c == errs.Internal {
								t.Errorf("job %d: %v", i, err)
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
				t.Logf("%d done, %d failed", done.Load(), failed.Load())
				w.finish(e, s)
			})
		})
	}
}
