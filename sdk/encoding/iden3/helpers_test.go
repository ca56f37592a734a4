package iden3

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

// file is a container under construction.
type file struct {
	magic    string
	version  uint32
	sections []sec
	count    int // -1: len(sections)
	tail     []byte
}

type sec struct {
	id   uint32
	data []byte
	size int64 // -1: len(data)
}

func (f file) bytes() []byte {
	n := f.count
	if n < 0 {
		n = len(f.sections)
	}
	b := []byte(f.magic)
	b = binary.LittleEndian.AppendUint32(b, f.version)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, s := range f.sections {
		size := s.size
		if size < 0 {
			size = int64(len(s.data))
		}
		b = binary.LittleEndian.AppendUint32(b, s.id)
		b = binary.LittleEndian.AppendUint64(b, uint64(size))
		b = append(b, s.data...)
	}
	return append(b, f.tail...)
}

// split takes a valid file apart.
func split(t testing.TB, b []byte) file {
	t.Helper()
	c, err := OpenContainer(bytes.NewReader(b), int64(len(b)), string(b[:4]), 9)
	if err != nil {
		t.Fatal(err)
	}
	f := file{magic: c.Magic, version: c.Version, count: -1}
	for _, s := range c.Sections {
		f.sections = append(f.sections, sec{s.ID, append([]byte(nil), b[s.Offset:s.Offset+s.Size]...), -1})
	}
	return f
}

func (f file) section(id uint32) *sec {
	for i := range f.sections {
		if f.sections[i].id == id {
			return &f.sections[i]
		}
	}
	return nil
}

// without drops a section.
func (f file) without(id uint32) file {
	var out []sec
	for _, s := range f.sections {
		if s.id != id {
			out = append(out, s)
		}
	}
	f.sections = out
	return f
}

func wantClass(t *testing.T, err error, class errs.Class, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	if errs.ClassOf(err) != class {
		t.Fatalf("class %v, want %v: %v", errs.ClassOf(err), class, err)
	}
	for _, p := range parts {
		if !bytes.Contains([]byte(err.Error()), []byte(p)) {
			t.Errorf("%q is not in %q", p, err)
		}
	}
}

// allocated is the bytes that f takes from the heap, freed or not.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// readerAt counts the largest read and serves a sparse file.
type sparse struct {
	size   int64
	pieces map[int64][]byte
	widest int
}

func (s *sparse) ReadAt(b []byte, off int64) (int, error) {
	s.widest = max(s.widest, len(b))
	clear(b)
	for at, p := range s.pieces {
		lo, hi := max(at, off), min(at+int64(len(p)), off+int64(len(b)))
		if lo < hi {
			copy(b[lo-off:hi-off], p[lo-at:hi-at])
		}
	}
	return len(b), nil
}
