package model

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// crowd is work that shares a processor: how fast one gets on depends on how many there are. Each piece of work has a time that it would take at every
// number of companions; when the number changes, what is left of it goes on at the new speed. (Processor sharing with a load-dependent rate.)
type crowd struct {
	clock Clock

	mu   sync.Mutex
	list []*work
	last time.Time
	stop func() bool // of the timer for the next end
	turn uint64      // of that timer: an older one that fires late is not obeyed
}

type work struct {
	age   uint64
	takes func(k int) time.Duration
	left  float64 // of 1
	done  chan struct{}
}

// do returns when work is done that takes so long with k at once, or when ctx ends. Of two that are done at once the one of less age ends first.
func (c *crowd) do(ctx context.Context, age uint64, takes func(k int) time.Duration) error {
	w := &work{age: age, takes: takes, left: 1, done: make(chan struct{})}
	c.mu.Lock()
	c.advance()
	c.list = append(c.list, w)
	c.arrange()
	c.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	c.remove(w)
	c.arrange()
	return errs.Wrap(ctx.Err(), "model")
}

// advance takes from all what was done since the last change. c.mu is held.
func (c *crowd) advance() {
	now := c.clock.Now()
	passed := now.Sub(c.last)
	c.last = now
	for _, w := range c.list {
		w.left -= float64(passed) / float64(w.takes(len(c.list)))
	}
}

// arrange sets the timer for the next end. c.mu is held.
func (c *crowd) arrange() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	c.turn++
	if len(c.list) == 0 {
		return
	}
	next := math.Inf(1)
	for _, w := range c.list {
		if w.left <= tolerance {
			next = 0
			break
		}
		next = min(next, w.left*float64(w.takes(len(c.list))))
	}
	turn := c.turn
	c.stop = c.clock.AfterFunc(time.Duration(math.Ceil(next)), func() { c.end(turn) }) // rounded up: then it is done
}

// tolerance is how much of a piece of work may be missing: the clock counts whole nanoseconds.
const tolerance = 1e-9

// end ends the first that is done. Others that are done at the same moment follow, one timer each, so that everything that comes of it has an order.
func (c *crowd) end(turn uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn != c.turn {
		return
	}
	c.advance()
	var first *work
	for _, w := range c.list {
		if w.left <= tolerance && (first == nil || w.age < first.age) {
			first = w
		}
	}
	if first != nil {
		c.remove(first)
		close(first.done)
	}
	c.arrange()
}

// remove takes w out, if it is there. c.mu is held.
func (c *crowd) remove(w *work) {
	for i, x := range c.list {
		if x == w {
			c.list = append(c.list[:i], c.list[i+1:]...)
			return
		}
	}
}

// turnstile lets so many in at a time as are free at first, first come first served.
type turnstile struct {
	mu   sync.Mutex
	free int
	line []chan struct{}
}

func (t *turnstile) enter(ctx context.Context) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.line = append(t.line, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	for i, c := range t.line {
		if c == mine {
			t.line = append(t.line[:i], t.line[i+1:]...)
			t.mu.Unlock()
			return errs.Wrap(ctx.Err(), "model")
		}
	}
	t.mu.Unlock()
	t.leave() // it became ours at the same time
	return errs.Wrap(ctx.Err(), "model")
}

func (t *turnstile) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		t.free++
		return
	}
	close(t.line[0])
	t.line = t.line[1:]
}
