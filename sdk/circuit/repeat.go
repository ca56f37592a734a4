package circuit

import (
	"sync"
	"sync/atomic"

	"github.com/weir-zk/weir/sdk/errs"
)

// Repeat synthesises n equal parts that do not depend on each other: part(b, i) for i = 0 to n-1, each with the same numbers of rows, inputs and variables.
// They stand one after the other as if called in a loop. Where values are wanted several run at a time, on builders of their own: what they write beside b must
// not be shared. The parts are named name0, name1, ...
func (b *Builder) Repeat(name string, n int, part func(b *Builder, i int) error) error {
	if n <= 0 {
		return b.err
	}
	outermost := b.rec != nil && b.rec.times == 0
	if outermost {
		b.boundary(0, n)
	}
	before := b.n
	one := func(i int) error {
		b.EnterIndex(name, i)
		if err := part(b, i); err != nil {
			return err
		}
		b.Leave()
		return b.err
	}
	if err := one(0); err != nil {
		return err
	}
	each := b.n.minus(before)
	if b.rec != nil {
		for i := 1; i < n; i++ {
			if outermost {
				b.boundary(i, n)
			}
			if err := one(i); err != nil {
				return err
			}
			if got := b.n.minus(before); got != (Counts{}).plus(each, i+1) {
				return b.unequal(name, i)
			}
		}
		if outermost {
			b.boundary(0, 0)
		}
		return nil
	}
	if b.w.counting {
		b.n = b.n.plus(each, n-1)
		return nil
	}
	return b.parts(name, n, before, each, part)
}

func (b *Builder) unequal(name string, i int) error {
	return errs.New(errs.Internal, "synthesise circuit", "part %s%d is not equal to the first one", name, i)
}

// parts runs parts 1 to n-1, b.tasks at a time, each with a writer at its place.
func (b *Builder) parts(name string, n int, before, each Counts, part func(b *Builder, i int) error) error {
	b.w.pause()
	var next atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	failures := make([]error, n)
	for range max(1, min(b.tasks, n-1)) {
		wg.Go(func() {
			for !stop.Load() {
				i := int(next.Add(1))
				if i >= n {
					return
				}
				at := before.plus(each, i)
				child := &Builder{ctx: b.ctx, n: at, w: b.w.at(at), tasks: 1}
				err := b.ctx.Err()
				if err == nil {
					err = part(child, i)
				}
				switch {
				case err != nil:
				case child.err != nil:
					err = child.err
				case child.n != before.plus(each, i+1):
					err = b.unequal(name, i)
				}
				child.w.pause()
				if err != nil {
					failures[i] = err
					stop.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	b.n = before.plus(each, n)
	b.w = b.w.at(b.n)
	return nil
}
