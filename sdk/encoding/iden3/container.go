// Package iden3 reads and writes the binary files of the circom tool chain over BLS12-381: constraint systems (.r1cs), witnesses
// (.wtns) and signal names (.sym). Its container reader also serves .zkey files (package snarkjs).
//
// A binary file is
//
//	magic[4] version:u32 nSections:u32 { id:u32 size:u64 data[size] }*
//
// little-endian, without checksum or padding; the order of the sections is free. Files are read through io.ReaderAt with bounded buffers,
// and no count is believed before it was compared with the size of the section that should hold so many things.
package iden3

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/weir-zk/weir/sdk/errs"
)

const (
	headSize        = 12 // magic, version, number of sections
	sectionHeadSize = 12 // id, size
	// maxSections is far above any file of the family (18 in an fflonk key).
	maxSections = 64
	bufferSize  = 1 << 18
)

// Section is where the data of one section lies in the file.
type Section struct {
	ID     uint32
	Offset int64 // of the data, after the 12-byte section header
	Size   int64
}

// Where names the section for an error.
func (s Section) Where() string { return fmt.Sprintf("section %d, offset %d", s.ID, s.Offset) }

// Container is a file whose sections were indexed. Safe for concurrent use.
type Container struct {
	Magic    string
	Version  uint32
	Sections []Section // in file order
	r        io.ReaderAt
	size     int64
	op       string
}

// OpenContainer indexes the sections of a file of the given magic and of a version from 1 to maxVersion. A section that is doubled or reaches beyond the end
// of the file, and bytes after the last section, are errors of class InvalidFile; another version is Unsupported.
func OpenContainer(r io.ReaderAt, size int64, magic string, maxVersion uint32) (*Container, error) {
	c := &Container{Magic: magic, r: r, size: size, op: "read ." + magic}
	var head [headSize]byte
	if size < headSize {
		return nil, c.Bad(errs.InvalidFile, "offset 0", fmt.Sprintf("%d bytes of file header", headSize), fmt.Sprintf("%d bytes", max(size, 0)))
	}
	if err := c.readAt(head[:], 0, "offset 0"); err != nil {
		return nil, err
	}
	if string(head[:4]) != magic {
		return nil, c.Bad(errs.InvalidFile, "offset 0", fmt.Sprintf("the magic %q", magic), fmt.Sprintf("%q", head[:4]))
	}
	c.Version = binary.LittleEndian.Uint32(head[4:])
	if c.Version < 1 || c.Version > maxVersion {
		return nil, c.Bad(errs.Unsupported, "offset 4", fmt.Sprintf("version 1 to %d", maxVersion), fmt.Sprintf("version %d", c.Version))
	}
	n := binary.LittleEndian.Uint32(head[8:])
	if n > maxSections {
		return nil, c.Bad(errs.InvalidFile, "offset 8", fmt.Sprintf("at most %d sections", maxSections), n)
	}
	seen := make(map[uint32]int64, n)
	pos := int64(headSize)
	for i := range n {
		where := fmt.Sprintf("section header %d of %d, offset %d", i+1, n, pos)
		if size-pos < sectionHeadSize {
			return nil, c.Bad(errs.InvalidFile, where, fmt.Sprintf("%d bytes", sectionHeadSize), fmt.Sprintf("%d bytes to the end of the file", size-pos)).
				WithHint("the file seems to be truncated")
		}
		var b [sectionHeadSize]byte
		if err := c.readAt(b[:], pos, where); err != nil {
			return nil, err
		}
		id, length := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint64(b[4:])
		pos += sectionHeadSize
		where = fmt.Sprintf("section %d, offset %d", id, pos)
		if length > uint64(size-pos) {
			return nil, c.Bad(errs.InvalidFile, where, fmt.Sprintf("at most %d bytes, to the end of the file", size-pos), fmt.Sprintf("a size of %d", length)).
				WithHint("the file seems to be truncated")
		}
		if first, ok := seen[id]; ok {
			return nil, c.Bad(errs.InvalidFile, where, "each section once", fmt.Sprintf("section %d again (first at offset %d)", id, first))
		}
		seen[id] = pos
		c.Sections = append(c.Sections, Section{ID: id, Offset: pos, Size: int64(length)})
		pos += int64(length)
	}
	if pos != size {
		return nil, c.Bad(errs.InvalidFile, fmt.Sprintf("offset %d", pos), "the end of the file after the last section", fmt.Sprintf("%d more bytes", size-pos))
	}
	return c, nil
}

// Bad makes an error about this file.
func (c *Container) Bad(class errs.Class, where string, expected, found any) *errs.Error {
	return errs.Mismatch(class, c.op, where, expected, found)
}

func (c *Container) readAt(b []byte, off int64, where string) error {
	if _, err := c.r.ReadAt(b, off); err != nil {
		return c.failed(err, where)
	}
	return nil
}

// failed turns an error of the underlying reader into one about this file. The file had the bytes when it was opened, so an end of file
// means that it shrank.
func (c *Container) failed(err error, where string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return c.Bad(errs.InvalidFile, where, "a file of unchanged size", "its end").WithHint("the file was truncated while it was read")
	}
	return &errs.Error{Class: errs.ClassOf(err), Op: c.op, Where: where, Err: err}
}

// Find returns the section with the given id.
func (c *Container) Find(id uint32) (Section, bool) {
	for _, s := range c.Sections {
		if s.ID == id {
			return s, true
		}
	}
	return Section{}, false
}

// Need is Find for a section that must be there; what says what it holds, for the error.
func (c *Container) Need(id uint32, what string) (Section, error) {
	s, ok := c.Find(id)
	if !ok {
		return s, c.Bad(errs.InvalidFile, fmt.Sprintf("section %d", id), what, "no such section")
	}
	return s, nil
}

// NeedSize is Need for a section whose size in bytes is known beforehand.
func (c *Container) NeedSize(id uint32, what string, size uint64) (Section, error) {
	s, err := c.Need(id, what)
	if err == nil && uint64(s.Size) != size {
		err = c.Bad(errs.InvalidFile, s.Where(), fmt.Sprintf("%s: %d bytes", what, size), fmt.Sprintf("%d bytes", s.Size))
	}
	return s, err
}

// ReadAt fills b from offset off of section s, which must hold so many bytes.
func (c *Container) ReadAt(s Section, b []byte, off int64) error {
	if off < 0 || off > s.Size || int64(len(b)) > s.Size-off {
		return c.Bad(errs.InvalidFile, s.Where(), fmt.Sprintf("%d bytes at %d of the section", len(b), off), fmt.Sprintf("a section of %d bytes", s.Size))
	}
	return c.readAt(b, s.Offset+off, fmt.Sprintf("section %d, offset %d", s.ID, s.Offset+off))
}

// Reader reads a section from its first to its last byte.
type Reader struct {
	c   *Container
	s   Section
	r   *bufio.Reader
	pos int64
}

// Reader starts reading s with a buffer of at most 256 KiB.
func (c *Container) Reader(s Section) *Reader {
	return &Reader{c: c, s: s, r: bufio.NewReaderSize(io.NewSectionReader(c.r, s.Offset, s.Size), int(min(bufferSize, max(s.Size, 16))))}
}

// Rest is the number of bytes not read yet.
func (r *Reader) Rest() int64 { return r.s.Size - r.pos }

// Where names the current position for an error.
func (r *Reader) Where() string {
	return fmt.Sprintf("section %d, offset %d", r.s.ID, r.s.Offset+r.pos)
}

// WhereBack names the position n bytes before the current one: where the thing just read began.
func (r *Reader) WhereBack(n int64) string {
	return fmt.Sprintf("section %d, offset %d", r.s.ID, r.s.Offset+r.pos-n)
}

func (r *Reader) room(n int64) error {
	if n > r.Rest() {
		return r.c.Bad(errs.InvalidFile, r.Where(), fmt.Sprintf("%d bytes", n), fmt.Sprintf("%d bytes to the end of the section", r.Rest()))
	}
	return nil
}

// Next returns the next n bytes, n at most 4 KiB; they are valid until the next call.
func (r *Reader) Next(n int) ([]byte, error) {
	b, err := r.r.Peek(n)
	if err != nil {
		if err := r.room(int64(n)); err != nil {
			return nil, err
		}
		return nil, r.c.failed(err, r.Where())
	}
	r.r.Discard(n)
	r.pos += int64(n)
	return b, nil
}

// U32 reads a little-endian number.
func (r *Reader) U32() (uint32, error) {
	b, err := r.Next(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

// Skip passes over n bytes.
func (r *Reader) Skip(n int64) error {
	if err := r.room(n); err != nil {
		return err
	}
	for n > 0 {
		k := int(min(n, 1<<30))
		if _, err := r.r.Discard(k); err != nil {
			return r.c.failed(err, r.Where())
		}
		r.pos += int64(k)
		n -= int64(k)
	}
	return nil
}

// End checks that the whole section was read.
func (r *Reader) End() error {
	if r.Rest() != 0 {
		return r.c.Bad(errs.InvalidFile, r.Where(), "the end of the section", fmt.Sprintf("%d more bytes", r.Rest()))
	}
	return nil
}
