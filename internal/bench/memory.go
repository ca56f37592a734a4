package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watch samples the proportional set size of a process and all below it until it is gone; the function it returns waits for that and gives the
// peak in bytes. Shared memory mapped by two processes counts once. On systems without /proc the peak is 0.
func watch(pid int) func() int64 {
	done := make(chan int64, 1)
	go func() {
		var peak int64
		for {
			sum, ok := pssTree(pid)
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

func pssTree(pid int) (sum int64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if v, found := strings.CutPrefix(s.Text(), "Pss:"); found {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			sum += kib << 10
		}
	}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, c := range children {
		list, _ := os.ReadFile(c)
		for _, f := range strings.Fields(string(list)) {
			if id, err := strconv.Atoi(f); err == nil {
				if below, ok := pssTree(id); ok {
					sum += below
				}
			}
		}
	}
	return sum, true
}
