// Package procmem asks the system for the memory of a process and of those below it. Systems without Linux's /proc tell nothing.
package procmem

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Pss is the proportional set size, in bytes, of a process and of all below it: a page that several of them map counts once. ok is false when nothing is known of the
// process itself; one below it that ends meanwhile is left out. The kernel walks every page that is mapped, so of large processes it takes milliseconds.
func Pss(pid int) (sum int64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if v, found := strings.CutPrefix(s.Text(), "Pss:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
			if err != nil {
				return 0, false
			}
			sum, ok = sum+kib<<10, true
		}
	}
	for _, child := range Children(pid) {
		if below, known := Pss(child); known {
			sum += below
		}
	}
	return sum, ok
}

// Children are the processes that pid has started and that have not been waited for.
func Children(pid int) []int {
	var out []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, l := range lists {
		text, _ := os.ReadFile(l) // a thread may be gone
		for _, f := range strings.Fields(string(text)) {
			if id, err := strconv.Atoi(f); err == nil {
				out = append(out, id)
			}
		}
	}
	return out
}

// Shared is the bytes of shared memory (memfd) that this process holds descriptors of and that have been written to, whoever wrote.
func Shared() (sum int64) {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	seen := map[uint64]bool{} // a memfd may be open more than once
	for _, fd := range fds {
		var st syscall.Stat_t
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, "/memfd:") && syscall.Stat(fd, &st) == nil && !seen[st.Ino] {
			seen[st.Ino] = true
			sum += st.Blocks * 512
		}
	}
	return sum
}

// Descriptors is the number of files that this process has open; -1: not known.
func Descriptors() int {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(dir) - 1 // the folder itself is open
}
