package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-zk/weir/sdk/errs"
)

// Any order of requests, releases, cancels, loads, evictions: the sums hold at every step, nothing is granted in part, the head is never left
// waiting when it fits, everybody is served, and at the end nothing is held.
func TestRandomAccounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		budget := rapid.Int64Range(50, 400).Draw(rt, "budget")
		permits := rapid.IntRange(1, 5).Draw(rt, "permits")
		n := rapid.IntRange(1, 40).Draw(rt, "requests")
		synctest.Test(t, func(t *testing.T) { randomAccount(t, seed, budget, permits, n) })
	})
}

func randomAccount(t *testing.T, seed uint64, budget int64, permits, n int) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	l := New(Options{Budget: budget, Permits: permits})
	var keys []*Resident
	inMemory := make([]bool, 3)
	using := make([]int, 3)
	var mu sync.Mutex
	for i := range 3 {
		size := 1 + rnd.Int64N(budget/2)
		keys = append(keys, l.NewResident(fmt.Sprint("key", i), Key, size, func() error {
			time.Sleep(time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if using[i] != 0 {
				t.Errorf("key %d unloaded under %d users", i, using[i])
			}
			inMemory[i] = false
			return nil
		}))
	}
	check := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.host.used > budget || l.permits.used > int64(permits) || l.host.used != l.host.held.Total() {
			t.Errorf("%d of %d bytes, %d of %d permits, reserved %s", l.host.used, budget, l.permits.used, permits, l.host.held.String())
		}
		if len(l.line) > 0 {
			w := l.line[0]
			if l.letIn(w, nil) {
				t.Errorf("%s waits although it fits", w.Owner)
			}
		}
	}
	var wg sync.WaitGroup
	served, refused, canceled := 0, 0, 0
	for i := range n {
		req := Request{Owner: fmt.Sprint("r", i), Priority: Priority(rnd.IntN(4) - 1), Order: uint64(i / 2), Front: rnd.IntN(8) == 0, Permit: rnd.IntN(4) > 0}
		for p := range Purpose(3) {
			req.Need[p] = rnd.Int64N(1 + budget/4)
		}
		k := rnd.IntN(4)
		if k < 3 {
			req.Residents = []*Resident{keys[k]}
		}
		if rnd.IntN(20) == 0 {
			req.Need[0] = budget + 1
		}
		begin, hold := time.Duration(rnd.IntN(20))*time.Millisecond, time.Duration(1+rnd.IntN(10))*time.Millisecond
		patience := time.Hour
		if rnd.IntN(5) == 0 {
			patience = time.Duration(rnd.IntN(30)) * time.Millisecond
		}
		lose := rnd.IntN(10) == 0
		wg.Go(func() {
			time.Sleep(begin)
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			g, err := l.Acquire(ctx, req)
			check()
			mu.Lock()
			switch {
			case err == nil:
				served++
			case errs.Is(err, errs.Exhausted):
				refused++
			case errs.Is(err, errs.Deadline):
				canceled++
			default:
				t.Errorf("%v", err)
			}
			mu.Unlock()
			if err != nil {
				return
			}
			if held, permit := holds(g); held != req.Need || permit != req.Permit {
				t.Errorf("granted %s and permit %t of %s, %t", held.String(), permit, req.Need.String(), req.Permit)
			}
			if k < 3 {
				mu.Lock()
				using[k]++
				mu.Unlock()
				if !keys[k].Loaded() {
					keys[k].SetLoaded(keys[k].Size() * int64(1+rnd2(seed, i)) / 3)
				}
				mu.Lock()
				inMemory[k] = true
				mu.Unlock()
			}
			time.Sleep(hold / 2)
			if req.Permit {
				if err := g.ReleasePermit(); err != nil {
					t.Error(err)
				}
			}
			if err := g.ReleaseAll(Evaluations); err != nil {
				t.Error(err)
			}
			if err := g.Move(Witness, Shell); err != nil {
				t.Error(err)
			}
			check()
			if more, ok := l.TryAcquire(Request{Owner: "more", Priority: req.Priority, Front: true, Permit: true}); ok {
				if _, permit := holds(g); !permit {
					if err := g.Absorb(more); err != nil {
						t.Error(err)
					}
				} else if err := more.Close(); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(hold / 2)
			if k < 3 {
				mu.Lock()
				using[k]--
				mu.Unlock()
				if lose {
					keys[k].SetUnloaded()
				}
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			check()
		})
	}
	wg.Wait()
	if served+refused+canceled != n {
		t.Errorf("%d served, %d refused, %d gave up, of %d", served, refused, canceled, n)
	}
	gone := make(chan struct{}, 3)
	for _, k := range keys {
		k.Retire(func() { gone <- struct{}{} })
	}
	for range keys {
		<-gone
	}
	if s := l.Stats(); s.Total != 0 || s.PermitsUsed != 0 || s.Waiting != 0 || s.Grants != 0 || s.Residents != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

func holds(g *Grant) (Bytes, bool) {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	return g.parts[0].Bytes, g.permit
}

// rnd2 is a digit 0, 1 or 2 that does not depend on the schedule.
func rnd2(seed uint64, i int) uint64 { return rand.New(rand.NewPCG(seed, uint64(i))).Uint64N(3) }

func TestExactlyOnce(t *testing.T) {
	l := New(Options{Budget: 100, Permits: 1})
	get := func() *Grant {
		g, ok := l.TryAcquire(Request{Owner: "x", Permit: true, Need: Bytes{Evaluations: 60, Witness: 40}})
		if !ok {
			t.Fatal("not granted")
		}
		return g
	}
	// fails runs f, which is a bookkeeping fault: an error, or a panic under invariants.
	fails := func(name string, f func() error) {
		t.Helper()
		defer func() {
			if p := recover(); (p != nil) != invariants {
				t.Errorf("%s: panic %v", name, p)
			}
		}()
		if err := f(); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := get()
	if err := g.ReleasePermit(); err != nil {
		t.Fatal(err)
	}
	fails("permit twice", g.ReleasePermit)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	fails("close twice", g.Close)
	fails("release after close", func() error { return g.ReleaseAll(Witness) })
	fails("move after close", func() error { return g.Move(Witness, Shell) })
	if s := l.Stats(); s.Total != 0 || s.PermitsUsed != 0 {
		t.Errorf("%+v", s)
	}
	if err := get().Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1: "1B", 512: "512B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 96 << 20: "96MiB", 141 << 30: "141GiB",
		3 << 29: "1.5GiB", 256 << 30: "256GiB", 1 << 40: "1TiB", -2048: "-2KiB", 1<<63 - 1: "8EiB", -1 << 63: "-8EiB"} {
		if got := Size(n).String(); got != want {
			t.Errorf("%d is printed as %s, want %s", n, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range []Priority{Low, Normal, High, Critical} {
		if q, err := ParsePriority(p.String()); err != nil || q != p {
			t.Errorf("%v: %v, %v", p, q, err)
		}
	}
	if _, err := ParsePriority("urgent"); !errs.Is(err, errs.InvalidArgument) {
		t.Error(err)
	}
	var all []string
	for p := range NumPurposes {
		all = append(all, p.String())
	}
	sort.Strings(all)
	for i, s := range all {
		if s == "" || i > 0 && s == all[i-1] {
			t.Errorf("purposes %v", all)
		}
	}
}
