package parallel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

var sizes = []int{0, 1, 2, 63, 64, 65, 1000}

// counted fails unless f does each of n once.
func counted(t *testing.T, n int, f func(do func(i int))) {
	t.Helper()
	times := make([]atomic.Int32, n)
	f(func(i int) { times[i].Add(1) })
	for i := range times {
		if k := times[i].Load(); k != 1 {
			t.Errorf("%d of %d done %d times", i, n, k)
		}
	}
}

func TestEveryElementOnce(t *testing.T) {
	for _, n := range sizes {
		counted(t, n, func(do func(int)) { Each(n, do) })
		for _, tasks := range []int{-1, 0, 1, 3, 64} {
			counted(t, n, func(do func(int)) {
				if err := Run(context.Background(), n, tasks, do); err != nil {
					t.Error(err)
				}
			})
			for _, least := range []int{1, 10, 2000} {
				parts := atomic.Int32{}
				counted(t, n, func(do func(int)) {
					Parts(n, tasks, least, func(lo, hi int) {
						if parts.Add(1); hi-lo < least && hi-lo != n {
							t.Errorf("a part of %d", hi-lo)
						}
						for i := lo; i < hi; i++ {
							do(i)
						}
					})
				})
				if k := int(parts.Load()); k > max(1, tasks) {
					t.Errorf("%d parts for %d tasks", k, tasks)
				}
			}
		}
	}
}

func TestRunWithAValueEach(t *testing.T) {
	var mu sync.Mutex
	var made []*int
	sum := func() (total int) {
		for _, p := range made {
			total += *p
		}
		return total
	}
	with := func() *int {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, new(int))
		return made[len(made)-1]
	}
	if err := RunWith(context.Background(), 1000, 4, with, func(w *int, i int) { *w += i }); err != nil {
		t.Fatal(err)
	}
	if len(made) != 4 || sum() != 999*500 {
		t.Errorf("%d values, sum %d", len(made), sum())
	}
}

func TestRunStops(t *testing.T) {
	for _, tasks := range []int{1, 4} {
		ctx, cancel := context.WithCancel(context.Background())
		var done atomic.Int32
		err := Run(ctx, 1000, tasks, func(int) {
			if done.Add(1) == 10 {
				cancel()
			}
		})
		if k := int(done.Load()); !errors.Is(err, context.Canceled) || k < 10 || k >= 10+tasks {
			t.Errorf("%d tasks: %d done, %v", tasks, k, err)
		}
	}
}
