package eventclock

import (
	"context"
	"sync"
	"time"
)

// WithTimeout is context.WithTimeout in the clock's time.
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithDeadline(parent, c.Now().Add(d))
}

// WithDeadline is context.WithDeadline in the clock's time: the context ends at t with context.DeadlineExceeded, with its parent, or when cancel is called.
func (c *Clock) WithDeadline(parent context.Context, t time.Time) (ctx context.Context, cancel context.CancelFunc) {
	if d, ok := parent.Deadline(); ok && d.Before(t) {
		t = d // the parent's own timer comes first
	}
	x := &deadline{Context: parent, at: t, done: make(chan struct{}), funcs: map[*func()]struct{}{}}
	unset := c.AfterFunc(t.Sub(c.Now()), func() { x.end(context.DeadlineExceeded) })
	unwatch := context.AfterFunc(parent, func() {
		unset()
		x.end(parent.Err())
	})
	return x, func() {
		unset()
		unwatch()
		x.end(context.Canceled)
	}
}

// deadline is a context that package context does not know: it tells its children through AfterFunc, as package context asks of such ones.
type deadline struct {
	context.Context // the parent, for its values
	at              time.Time
	done            chan struct{}

	mu    sync.Mutex
	err   error
	funcs map[*func()]struct{}
}

// Deadline implements context.Context.
func (x *deadline) Deadline() (time.Time, bool) { return x.at, true }

// Done implements context.Context.
func (x *deadline) Done() <-chan struct{} { return x.done }

// Err implements context.Context.
func (x *deadline) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// AfterFunc runs f on a goroutine of its own when x has ended.
func (x *deadline) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		go f()
		return func() bool { return false }
	}
	x.funcs[&f] = struct{}{}
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, ok := x.funcs[&f]
		delete(x.funcs, &f)
		return ok
	}
}

func (x *deadline) end(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return
	}
	x.err = err
	close(x.done)
	for f := range x.funcs {
		go (*f)()
	}
	x.funcs = nil
}
