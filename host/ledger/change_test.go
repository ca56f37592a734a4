package ledger

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Many change the ledger at once while hooks look on, call back, and leave: each is told of every change once, in order, one at a time.
func TestWatch(t *testing.T) {
	l := New(Options{Budget: 1000, Permits: 8})
	type log struct {
		mu   sync.Mutex
		seen []Change
	}
	watch := func(g *log, also func(Change)) func() {
		return l.Watch(func(c Change) {
			if !g.mu.TryLock() {
				t.Error("a hook is called twice at once")
				return
			}
			g.seen = append(g.seen, c)
			g.mu.Unlock()
			if also != nil {
				also(c)
			}
		})
	}
	var all, late log
	stop := watch(&all, func(c Change) {
		if s := l.Stats(); s.Total < 0 { // no lock is held
			t.Error(s)
		}
		if c.Seq%50 == 0 && c.Event == Granted && c.Owner != "hook" { // and it may change something
			if o, ok := l.TryAcquire(Request{Owner: "hook", Need: Bytes{Payload: 1}}); ok {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var wg sync.WaitGroup
	work := func(i int) {
		for k := range 60 {
			g, err := l.Acquire(t.Context(), Request{Owner: fmt.Sprint(i, k), Permit: k%2 == 0, Need: Bytes{Evaluations: int64(10 * i), Witness: 5}})
			if err != nil {
				t.Error(err)
				return
			}
			if err := g.Move(Witness, Shell); err != nil {
				t.Error(err)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for i := range 8 {
		wg.Go(func() { work(i) })
	}
	var stopLate func()
	wg.Go(func() {
		for range 20 {
			stopLate = watch(&late, nil)
			l.mu.Lock()
			least := l.changes
			l.mu.Unlock()
			stopLate()
			late.mu.Lock()
			if n := len(late.seen); n > 0 && late.seen[n-1].Seq < least {
				t.Errorf("it was told of changes up to %d, %d had happened when it left", late.seen[n-1].Seq, least)
			}
			n := len(late.seen)
			late.mu.Unlock()
			work(9)
			late.mu.Lock()
			if len(late.seen) != n {
				t.Error("told after it has left")
			}
			late.seen = nil
			late.mu.Unlock()
		}
	})
	wg.Wait()
	stop()
	for name, g := range map[string]*log{"all": &all} {
		for i, c := range g.seen {
			if c.Seq != uint64(i+1) {
				t.Fatalf("%s: change %d is told as number %d", name, c.Seq, i+1)
			}
		}
	}
	var total int64
	permits := 0
	for _, c := range all.seen {
		for _, d := range c.Deltas {
			total += d.Bytes.Total()
		}
		permits += c.Permits
		if c.Accounts[0].Total != total || c.PermitsUsed != permits {
			t.Fatalf("%s: %d bytes and %d permits are told, the sums are %d and %d", c.String(), c.Accounts[0].Total, c.PermitsUsed, total, permits)
		}
	}
	if total != 0 || permits != 0 || len(l.hooks) != 0 || len(l.news) != 0 {
		t.Errorf("at the end %d bytes, %d permits, %d hooks, %d changes untold", total, permits, len(l.hooks), len(l.news))
	}
	if n := uint64(len(all.seen)); n != l.changes {
		t.Errorf("%d of %d changes were told", n, l.changes)
	}
}

// A hook that takes its time holds up nobody but who told it; stop waits for it.
func TestSlowHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Options{Budget: 10, Permits: 1})
		told := 0
		stop := l.Watch(func(Change) {
			time.Sleep(time.Second)
			told++
		})
		go func() {
			if g, ok := l.TryAcquire(Request{Owner: "a"}); !ok || g.Close() != nil {
				t.Error("a")
			}
		}()
		synctest.Wait()
		begin := time.Now()
		g, ok := l.TryAcquire(Request{Owner: "b", Need: Bytes{Witness: 3}})
		if !ok || time.Since(begin) != 0 {
			t.Errorf("granted %t after %v", ok, time.Since(begin))
		}
		stop()
		if told != 4 || time.Since(begin) != 4*time.Second { // a arrived, granted; b arrived, granted
			t.Errorf("told of %d changes after %v", told, time.Since(begin))
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if told != 4 {
			t.Errorf("told of %d changes after it has left", told)
		}
	})
}
