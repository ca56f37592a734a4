//go:build linux || darwin

package wkey

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

const (
	adviseDontNeed = unix.MADV_DONTNEED
	adviseWillNeed = unix.MADV_WILLNEED
)

func mapFile(f *os.File, size int64) ([]byte, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return nil, errs.Wrap(err, "map wkey")
	}
	var b []byte
	var merr error
	if err := c.Control(func(fd uintptr) {
		b, merr = unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	}); err != nil {
		return nil, errs.Wrap(err, "map wkey")
	}
	if merr != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "map wkey", Err: merr}
	}
	return b, nil
}

func unmap(b []byte) error { return errs.Wrap(unix.Munmap(b), "unmap wkey") }

// madvise only advises: a failure changes nothing but memory.
func madvise(b []byte, advice int) { _ = unix.Madvise(b, advice) }
