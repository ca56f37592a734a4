package iden3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

func open(b []byte) (*Container, error) {
	return OpenContainer(bytes.NewReader(b), int64(len(b)), "r1cs", 1)
}

func TestContainerAcceptsAnyOrder(t *testing.T) {
	data := map[uint32][]byte{1: []byte("one"), 2: {}, 7: bytes.Repeat([]byte{7}, 1000)}
	for _, order := range [][]uint32{{1, 2, 7}, {7, 2, 1}, {2, 7, 1}, {}, {7}} {
		f := file{magic: "r1cs", version: 1, count: -1}
		for _, id := range order {
			f.sections = append(f.sections, sec{id, data[id], -1})
		}
		c, err := open(f.bytes())
		if err != nil {
			t.Fatalf("%v: %v", order, err)
		}
		for _, id := range order {
			s, ok := c.Find(id)
			got := make([]byte, s.Size)
			if err := c.ReadAt(s, got, 0); err != nil || !ok || !bytes.Equal(got, data[id]) {
				t.Errorf("%v: section %d: %q, %v", order, id, got, err)
			}
		}
		if _, ok := c.Find(99); ok {
			t.Error("found section 99")
		}
	}
}

func TestContainerRefuses(t *testing.T) {
	good := func() file {
		return file{magic: "r1cs", version: 1, count: -1, sections: []sec{{1, []byte("abc"), -1}, {2, []byte("defg"), -1}}}
	}
	for name, tc := range map[string]struct {
		edit  func(f *file)
		class errs.Class
		parts []string
	}{
		"magic":                    {func(f *file) { f.magic = "zkey" }, errs.InvalidFile, []string{`"r1cs"`, `"zkey"`}},
		"version 0":                {func(f *file) { f.version = 0 }, errs.Unsupported, []string{"version 0"}},
		"version 2":                {func(f *file) { f.version = 2 }, errs.Unsupported, []string{"version 2"}},
		"doubled":                  {func(f *file) { f.sections = append(f.sections, sec{1, nil, -1}) }, errs.InvalidFile, []string{"section 1, offset 55", "first at offset 24"}},
		"doubled unknown":          {func(f *file) { f.sections = append(f.sections, sec{77, nil, -1}, sec{77, nil, -1}) }, errs.InvalidFile, []string{"section 77"}},
		"too long":                 {func(f *file) { f.sections[1].size = 5 }, errs.InvalidFile, []string{"section 2, offset 39", "at most 4 bytes", "a size of 5"}},
		"reaches into the next":    {func(f *file) { f.sections[0].size = 4 }, errs.InvalidFile, nil},
		"size 2^63-1":              {func(f *file) { f.sections[0].size = 1<<63 - 1 }, errs.InvalidFile, []string{"section 1, offset 24", "9223372036854775807"}},
		"one section short":        {func(f *file) { f.count = 3 }, errs.InvalidFile, []string{"section header 3 of 3, offset 43", "0 bytes"}},
		"one section more":         {func(f *file) { f.count = 1 }, errs.InvalidFile, []string{"offset 27", "16 more bytes"}},
		"2^32-1 sections":          {func(f *file) { f.count = 1<<32 - 1 }, errs.InvalidFile, []string{"4294967295"}},
		"bytes after the sections": {func(f *file) { f.tail = []byte{0} }, errs.InvalidFile, []string{"offset 43", "1 more bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			tc.edit(&f)
			b := f.bytes()
			_, err := open(b)
			wantClass(t, err, tc.class, tc.parts...)
		})
	}
	b := good().bytes()
	for _, size := range []uint64{1 << 63, 1<<64 - 1, 1<<64 - 24, 1<<64 - 12} { // negative as int64
		binary.LittleEndian.PutUint64(b[16:], size)
		_, err := open(b)
		wantClass(t, err, errs.InvalidFile, "section 1, offset 24", fmt.Sprint(size))
	}
	b = good().bytes()
	for n := range len(b) {
		if _, err := open(b[:n]); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for _, size := range []int64{-1, 0, 11} {
		if _, err := OpenContainer(bytes.NewReader(nil), size, "r1cs", 1); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

// A file that shrank after its size was taken is bad input, not a bug.
func TestFileThatShrank(t *testing.T) {
	b := file{magic: "r1cs", version: 1, count: -1, sections: []sec{{1, bytes.Repeat([]byte{1}, 100), -1}}}.bytes()
	c, err := OpenContainer(bytes.NewReader(b), int64(len(b)), "r1cs", 1)
	if err != nil {
		t.Fatal(err)
	}
	c.r = bytes.NewReader(b[:60])
	s, _ := c.Find(1)
	wantClass(t, c.ReadAt(s, make([]byte, 100), 0), errs.InvalidFile, "section 1, offset 24")
	r := c.Reader(s)
	_, err = r.Next(50)
	wantClass(t, err, errs.InvalidFile, "offset 24")
	wantClass(t, r.Skip(80), errs.InvalidFile)
}

func TestReaderStaysInItsSection(t *testing.T) {
	b := file{magic: "r1cs", version: 1, count: -1, sections: []sec{{1, []byte{1, 2, 3, 4, 5}, -1}, {2, []byte{9}, -1}}}.bytes()
	c, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := c.Find(1)
	r := c.Reader(s)
	if v, err := r.U32(); err != nil || v != 0x04030201 {
		t.Fatal(v, err)
	}
	wantClass(t, r.End(), errs.InvalidFile, "section 1, offset 28", "1 more bytes")
	_, err = r.U32()
	wantClass(t, err, errs.InvalidFile, "section 1, offset 28", "1 bytes to the end")
	wantClass(t, r.Skip(2), errs.InvalidFile)
	if err := r.Skip(1); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	wantClass(t, c.ReadAt(s, make([]byte, 2), 4), errs.InvalidFile)
	wantClass(t, c.ReadAt(s, make([]byte, 1), -1), errs.InvalidFile)
}

func TestWriterChecksSizes(t *testing.T) {
	for name, f := range map[string]func(e *Writer){
		"too many bytes":     func(e *Writer) { e.Section(1, 3); e.U32(1); e.Section(2, 0) },
		"too few bytes":      func(e *Writer) { e.Section(1, 5); e.U32(1); e.Section(2, 0) },
		"last too few bytes": func(e *Writer) { e.Section(1, 4); e.U32(1); e.Section(2, 1) },
		"a section short":    func(e *Writer) { e.Section(1, 4); e.U32(1) },
		"a section more":     func(e *Writer) { e.Section(1, 4); e.U32(1); e.Section(2, 0); e.Section(3, 0) },
	} {
		e := NewWriter(&bytes.Buffer{}, "test", 1, 2)
		f(e)
		if err := e.Close(); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := NewWriter(failing{}, "test", 1, 1)
	e.Section(1, 1<<20)
	e.Bytes(make([]byte, 1<<20))
	if err := e.Close(); err == nil || errs.ClassOf(err) != errs.Internal {
		t.Errorf("failing writer: %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }
