package circuit

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// MapShape opens the shape file of a path and maps it: only what is read comes into memory, and the system may take it back. Close unmaps it.
func MapShape(path string) (*ShapeFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, errs.InFile(errs.Wrap(err, openShape), path)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, errs.InFile(errs.Wrap(err, openShape), path)
	}
	if size := st.Size(); size < shapeHeader || int64(int(size)) != size || !st.Mode().IsRegular() {
		return nil, errs.Mismatch(errs.InvalidFile, openShape, "file", "a shape file", "something else").WithPath(path)
	}
	c, err := f.SyscallConn()
	if err != nil {
		return nil, errs.InFile(errs.Wrap(err, openShape), path)
	}
	var b []byte
	var merr error
	if err := c.Control(func(fd uintptr) {
		b, merr = unix.Mmap(int(fd), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	}); err != nil {
		return nil, errs.InFile(errs.Wrap(err, openShape), path)
	}
	if merr != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: openShape, Path: path, Err: merr}
	}
	s, err := OpenShape(b)
	if err != nil {
		_ = unix.Munmap(b)
		return nil, errs.InFile(err, path)
	}
	s.mapped = b
	return s, nil
}

// Close unmaps the file of MapShape. Nothing may be using s.
func (s *ShapeFile) Close() error {
	b := s.mapped
	if b == nil {
		return nil
	}
	s.mapped, s.rows, s.blocks, s.boolean = nil, nil, nil, nil
	return errs.Wrap(unix.Munmap(b), "close shape")
}

// ReadShape reads a whole shape file of that size into the heap and opens it.
func ReadShape(r io.ReaderAt, size int64) (*ShapeFile, error) {
	if size < shapeHeader || int64(int(size)) != size {
		return nil, errs.Mismatch(errs.InvalidFile, openShape, "file", "at least a header of 512 bytes", size)
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, errs.Wrap(err, openShape)
	}
	return OpenShape(b)
}

// ShapeSizes reads sizes and numbers of terms from the first bytes of a shape file; it proves nothing about the rest.
func ShapeSizes(r io.ReaderAt, size int64) (Counts, [3]int64, error) {
	b := make([]byte, shapeHeader)
	if size < shapeHeader {
		b = b[:max(0, size)]
	}
	if n, err := r.ReadAt(b, 0); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Counts{}, [3]int64{}, errs.Wrap(err, openShape)
	}
	h, err := readHead(b)
	return h.counts, h.nonZero, err
}
