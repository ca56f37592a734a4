package slab

import (
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// hugeSize is the size of a huge page on the machines we care for: slabs at least this long are multiples of it and
// aligned to it in every process that maps them.
const hugeSize = 2 << 20

// maxSlab bounds one slab: 1 TiB, beyond any buffer of any circuit.
const maxSlab = 1 << 40

var pageSize = int64(os.Getpagesize())

// RoundSize is the number of bytes a buffer of size bytes really takes, and is charged with: whole pages, or whole huge
// pages from 2 MiB on. A buffer of 0 bytes takes a page.
func RoundSize(size int64) int64 {
	unit := pageSize
	if size >= hugeSize {
		unit = hugeSize
	}
	if size <= 0 {
		return unit
	}
	if size > math.MaxInt64-unit { // no sum of a caller may overflow on a size that nothing can have
		return math.MaxInt64 / unit * unit
	}
	return (size + unit - 1) / unit * unit
}

// mapShared maps size bytes (a result of RoundSize) of f, read-write and shared.
func mapShared(f *os.File, size int64, huge bool) ([]byte, error) {
	align := uintptr(pageSize)
	if size >= hugeSize {
		align = hugeSize
	}
	fail := func(err error) error {
		return &errs.Error{Class: errs.Exhausted, Op: "map slab", Err: err, Hint: "the address space or the number of maps (vm.max_map_count) may be limited"}
	}
	var at unsafe.Pointer
	var err error
	if align == uintptr(pageSize) {
		at, err = mmapFile(f, 0, nil, uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, fail(err)
		}
	} else {
		// Reserve enough to find an aligned start in, map the file over that part, give the rest back.
		base, err := unix.MmapPtr(-1, 0, nil, uintptr(size)+align, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			return nil, fail(err)
		}
		head := (align - uintptr(base)%align) % align
		at, err = mmapFile(f, 0, unsafe.Add(base, head), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
		if err != nil {
			_ = unix.MunmapPtr(base, uintptr(size)+align)
			return nil, fail(err)
		}
		if head > 0 {
			_ = unix.MunmapPtr(base, head)
		}
		if tail := align - head; tail > 0 {
			_ = unix.MunmapPtr(unsafe.Add(at, size), tail)
		}
	}
	data := unsafe.Slice((*byte)(at), size)
	adviseShared(data, huge && size >= hugeSize)
	return data, nil
}

// withDescriptor runs do with f's descriptor and keeps f open meanwhile. Unlike os.File.Fd it changes nothing about f, so
// several goroutines may hand over one file.
func withDescriptor(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var derr error
	if err := raw.Control(func(fd uintptr) { derr = do(int(fd)) }); err != nil {
		return err
	}
	return derr
}

func mmapFile(f *os.File, off int64, at unsafe.Pointer, size uintptr, prot, flags int) (p unsafe.Pointer, err error) {
	err = withDescriptor(f, func(fd int) (err error) {
		p, err = unix.MmapPtr(fd, off, at, size, prot, flags)
		return err
	})
	return p, err
}

func unmap(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(data)), uintptr(len(data)))
}

// Mapping is a read-only map of part of a file.
type Mapping struct {
	whole []byte // from a page border on
	data  []byte
}

func mapFile(f *os.File, off, n int64) (*Mapping, error) {
	if n == 0 {
		return &Mapping{}, nil
	}
	head := off % pageSize
	at, err := mmapFile(f, off-head, nil, uintptr(n+head), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "map file", Path: f.Name(), Err: err}
	}
	whole := unsafe.Slice((*byte)(at), n+head)
	return &Mapping{whole: whole, data: whole[head:]}, nil
}

// Bytes are the mapped bytes. They must not be written, nor used after Close.
func (m *Mapping) Bytes() []byte { return m.data }

// Forget tells the system that n bytes from off on (relative to Bytes) are not needed soon: their pages leave this
// process's memory and are read again when touched. Pages that lie only partly in the range stay.
func (m *Mapping) Forget(off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(m.data)) || n > int64(len(m.data))-off {
		return errs.New(errs.InvalidArgument, "forget pages", "offset %d, length %d outside %d bytes", off, n, len(m.data))
	}
	head := int64(len(m.whole) - len(m.data))
	first := (head + off + pageSize - 1) / pageSize * pageSize
	last := head + off + n
	if last < int64(len(m.whole)) { // the page after the file's end belongs to us whole
		last = last / pageSize * pageSize
	}
	if first >= last {
		return nil
	}
	return unix.Madvise(m.whole[first:last], unix.MADV_DONTNEED)
}

// Close unmaps.
func (m *Mapping) Close() error {
	whole := m.whole
	m.whole, m.data = nil, nil
	return unmap(whole)
}
