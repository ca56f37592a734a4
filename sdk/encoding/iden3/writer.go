package iden3

import (
	"bufio"
	"encoding/binary"
	"io"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Writer writes a container from front to back. The first error stays and is returned by Close; what is written after it is dropped.
type Writer struct {
	w        *bufio.Writer
	op       string
	left     uint64 // bytes the open section still wants
	sections uint32 // sections still to come
	err      error
}

// NewWriter starts a file of the given number of sections.
func NewWriter(w io.Writer, magic string, version, sections uint32) *Writer {
	e := &Writer{w: bufio.NewWriterSize(w, bufferSize), op: "write ." + magic, left: headSize, sections: sections}
	e.Bytes([]byte(magic))
	e.U32(version)
	e.U32(sections)
	return e
}

// Section starts a section of size bytes; the one before must be complete.
func (e *Writer) Section(id uint32, size uint64) {
	if e.left != 0 || e.sections == 0 {
		e.fail(errs.New(errs.Internal, e.op, "section %d begins while %d bytes and %d sections are missing", id, e.left, e.sections))
		return
	}
	e.sections--
	e.left = sectionHeadSize
	e.U32(id)
	e.U64(size)
	e.left = size
}

func (e *Writer) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Bytes writes b.
func (e *Writer) Bytes(b []byte) {
	if e.err != nil {
		return
	}
	if uint64(len(b)) > e.left {
		e.fail(errs.New(errs.Internal, e.op, "%d bytes where a section has room for %d", len(b), e.left))
		return
	}
	e.left -= uint64(len(b))
	if _, err := e.w.Write(b); err != nil {
		e.fail(errs.Wrap(err, e.op))
	}
}

// U32 writes a little-endian number.
func (e *Writer) U32(v uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], v)
	e.Bytes(b[:])
}

// U64 writes a little-endian number.
func (e *Writer) U64(v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	e.Bytes(b[:])
}

// Scalar writes the canonical value of x.
func (e *Writer) Scalar(x *fr.Element) {
	var b [fr.Bytes]byte
	fr.LittleEndian.PutElement(&b, *x)
	e.Bytes(b[:])
}

// Err is the first error so far.
func (e *Writer) Err() error { return e.err }

// Close checks that every section has its size and flushes.
func (e *Writer) Close() error {
	if e.err == nil && (e.left != 0 || e.sections != 0) {
		e.fail(errs.New(errs.Internal, e.op, "the file ends while %d bytes and %d sections are missing", e.left, e.sections))
	}
	if e.err == nil {
		e.fail(errs.Wrap(e.w.Flush(), e.op))
	}
	return e.err
}
