// Package eventclock has a clock whose time stands still while anybody works: a discrete-event simulation of ordinary Go code, with real goroutines, channels
// and locks. When every goroutine waits, the clock jumps to its next timer and fires that one timer alone; timers of one moment fire in the order in which
// they were set. So hours pass in as long as the work between them takes, and a program that decides nothing by chance gives the same figures in every run.
//
// Exactness. That everybody waits is seen, not guessed after a pause: the runtime stops the world and says what each goroutine does (runtime.Stack). One
// that runs, could run, or is in a system call (a file being read) holds the clock up; one that waits for a channel, a select, a lock, a condition, a wait group
// does not. Since nothing but this clock can wake those, what was seen stays true until the next timer fires. The runtime's own counts of runnable goroutines
// (package runtime/metrics) are asked first, because they cost nothing, but they are approximate and decide only when to look.
//
// All goroutines of the process are looked at: the runtime does not tell whose they are. Others may exist and may work, which holds the clock up and
// falsifies nothing; but two clocks of one process move one after the other. What waits for the real time or for the network counts as waiting: code that does
// so has no place under this clock.
//
// testing/synctest does the same inside the runtime, and cheaper; but it needs a *testing.T, and so is for tests only.
package eventclock

import (
	"container/heap"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// Clock is a time of its own. Methods are safe for concurrent use; time moves only inside Run.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	seq    uint64
	events events
	fired  uint64
}

// Epoch is the time at which clocks start: a round number, so that a figure that depends on it stands out.
var Epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// New makes a clock that shows Epoch.
func New() *Clock { return &Clock{now: Epoch} }

// event is something that happens at a time, once, unless it is taken out before.
type event struct {
	when  time.Time
	seq   uint64 // of its setting: decides between events of one moment
	index int    // in the heap; -1: it is not there
	fire  func(now time.Time)
}

type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	if !e[i].when.Equal(e[j].when) {
		return e[i].when.Before(e[j].when)
	}
	return e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

// Push implements heap.Interface.
func (e *events) Push(x any) {
	v := x.(*event)
	v.index = len(*e)
	*e = append(*e, v)
}

// Pop implements heap.Interface.
func (e *events) Pop() any {
	n := len(*e) - 1
	v := (*e)[n]
	(*e)[n], *e = nil, (*e)[:n]
	v.index = -1
	return v
}

// set puts v into the heap, d from now; a d below zero is zero. c.mu is held.
func (c *Clock) set(v *event, d time.Duration) {
	c.seq++
	v.when, v.seq = c.now.Add(max(d, 0)), c.seq
	heap.Push(&c.events, v)
}

// unset takes v out; false: it has fired, or was taken out before. c.mu is held.
func (c *Clock) unset(v *event) bool {
	if v.index < 0 {
		return false
	}
	heap.Remove(&c.events, v.index)
	return true
}

// Now is the time of the simulation.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pending is the number of timers that are set.
func (c *Clock) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.events)
}

// Fired is the number of timers that have fired.
func (c *Clock) Fired() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fired
}

// AfterFunc runs f on a goroutine of its own after d; stop prevents that, and reports whether it did.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	v := &event{fire: func(time.Time) { go f() }}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(v, d)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.unset(v)
	}
}

// Sleep returns d later. A d of zero or less lets everybody else come to rest first.
func (c *Clock) Sleep(d time.Duration) { <-c.After(d) }

// After gives the time, once, after d.
func (c *Clock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C }

// Timer is what time.Timer is.
type Timer struct {
	C <-chan time.Time

	c  *Clock
	ch chan time.Time
	v  *event
}

// NewTimer makes a timer that gives the time after d.
func (c *Clock) NewTimer(d time.Duration) *Timer {
	t := &Timer{c: c, ch: make(chan time.Time, 1)}
	t.C = t.ch
	t.v = &event{fire: func(now time.Time) { t.ch <- now }} // there is room: Stop and Reset empty it
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(t.v, d)
	return t
}

// Stop keeps the timer from firing, and reports whether it did. Nothing is received from C afterwards.
func (t *Timer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.stop()
}

// Reset sets the timer anew, and reports whether it was set.
func (t *Timer) Reset(d time.Duration) bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	was := t.stop()
	t.c.set(t.v, d)
	return was
}

func (t *Timer) stop() bool {
	was := t.c.unset(t.v)
	select {
	case <-t.ch:
	default:
	}
	return was
}

// moving is held by the clock that runs: two at once would take each other's work for their own.
var moving sync.Mutex

// Run calls f on a goroutine of its own and moves the time until f has returned. Timers that are set then stay set, for another Run. When everybody
// waits and no timer is set, nothing can ever happen again: Run returns an error of class Internal that says who waits where, and f's goroutine stays.
func (c *Clock) Run(f func()) error {
	moving.Lock()
	defer moving.Unlock()
	w := newWatcher()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		w.settle(done)
		select {
		case <-done:
			return nil
		default:
		}
		if c.step() {
			continue
		}
		if !w.stays(done) || c.Pending() > 0 {
			continue // somebody came from outside: a signal, say
		}
		return errs.New(errs.Internal, "run simulation", "everybody waits and no timer is set, at %v:\n%s", c.Now().Sub(Epoch), w.dump())
	}
}

// step moves to the next timer and fires it; false: there is none.
func (c *Clock) step() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) == 0 {
		return false
	}
	v := heap.Pop(&c.events).(*event)
	c.now = v.when
	c.fired++
	v.fire(c.now)
	return true
}
