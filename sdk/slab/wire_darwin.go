package slab

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func socketPair() ([2]int, error) {
	syscall.ForkLock.RLock() // no fork between the two steps
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	return fds, err
}
