// Package parallel runs loops on several goroutines. All functions return when every goroutine has ended; none starts a goroutine where one is enough.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each runs f(0) to f(n-1), each in a goroutine of its own.
func Each(n int, f func(t int)) {
	if n == 1 {
		f(0)
		return
	}
	var wg sync.WaitGroup
	for t := range n {
		wg.Go(func() { f(t) })
	}
	wg.Wait()
}

// Share returns part t of n parts of [0, size) that differ by one element at most.
func Share(size, n, t int) (lo, hi int) { return size * t / n, size * (t + 1) / n }

// Parts cuts [0, n) in at most tasks parts of much the same size, none of fewer than least elements unless it is the only one, and runs f on each. For work
// that is the same for each element.
func Parts(n, tasks, least int, f func(lo, hi int)) {
	tasks = max(1, min(tasks, n/least))
	Each(tasks, func(t int) {
		f(Share(n, tasks, t))
	})
}

// Run runs f(0) to f(n-1) on at most tasks goroutines (all processors if tasks <= 0), each taking the next number when it is free. When ctx ends no more are
// begun, and its error is returned.
func Run(ctx context.Context, n, tasks int, f func(i int)) error {
	return RunWith(ctx, n, tasks, func() struct{} { return struct{}{} }, func(_ struct{}, i int) { f(i) })
}

// RunWith is Run with a value for each goroutine, such as memory to work in.
func RunWith[W any](ctx context.Context, n, tasks int, with func() W, f func(w W, i int)) error {
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	Each(min(tasks, n), func(int) {
		w := with()
		for ctx.Err() == nil {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			f(w, i)
		}
	})
	return ctx.Err()
}
