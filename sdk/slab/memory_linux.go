package slab

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// sizeSeals make a slab's size final, so that no process that has the descriptor can make another one's map fault.
const sizeSeals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// createShared makes a memfd of size bytes (memfd_create(2)), sealed. Its pages come into being when first touched.
func createShared(name string, size int64) (*os.File, error) {
	fail := func(err error) error {
		return &errs.Error{Class: errs.Exhausted, Op: "make slab", Err: err}
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fail(err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = f.Close()
		return nil, fail(err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		_ = f.Close()
		return nil, fail(err)
	}
	return f, nil
}

// checkShared refuses a descriptor whose size could still change below a map.
func checkShared(f *os.File) error {
	var seals int
	err := withDescriptor(f, func(fd int) (err error) {
		seals, err = unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		return err
	})
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return errs.Mismatch(errs.InvalidArgument, "take slab", "", "a memfd sealed against shrinking", "one that is not")
	}
	return nil
}

func adviseShared(data []byte, huge bool) {
	_ = unix.Madvise(data, unix.MADV_DONTDUMP) // witnesses do not belong into core files
	if huge {
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // needs shmem_enabled=advise; without it nothing changes
	}
}
