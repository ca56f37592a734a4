package cpu

import "sync"

// parallel cuts [0, n) into at most tasks parts of much the same size and runs f on each, in goroutines, and waits.
func parallel(n, tasks int, f func(lo, hi int)) {
	const least = 1 << 10 // elements for which a goroutine is worth its start
	tasks = max(1, min(tasks, n/least))
	if tasks == 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for t := range tasks {
		wg.Go(func() { f(n*t/tasks, n*(t+1)/tasks) })
	}
	wg.Wait()
}
