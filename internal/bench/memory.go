package main

import (
	"time"

	"github.com/weir-zk/weir/internal/procmem"
)

// watch samples the proportional set size of a process and all below it until it is gone; the function it returns waits for that and gives the
// peak in bytes. Shared memory mapped by two processes counts once. On systems without /proc the peak is 0.
func watch(pid int) func() int64 {
	done := make(chan int64, 1)
	go func() {
		var peak int64
		for {
			sum, ok := procmem.Pss(pid)
			if !ok {
				done <- peak
				return
			}
			peak = max(peak, sum)
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() int64 { return <-done }
}
