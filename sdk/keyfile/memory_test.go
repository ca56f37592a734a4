package keyfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// repeated is a file of units that are repeated, and nowhere in memory as a whole.
type repeated []struct {
	unit []byte
	n    int64
}

func (f *repeated) add(n int, unit ...byte) {
	*f = append(*f, struct {
		unit []byte
		n    int64
	}{unit, int64(n)})
}

func (f repeated) size() (size int64) {
	for _, p := range f {
		size += int64(len(p.unit)) * p.n
	}
	return size
}

func (f repeated) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	for _, part := range f {
		size := int64(len(part.unit)) * part.n
		for at < size && n < len(b) {
			off := at % int64(len(part.unit))
			k := copy(b[n:], part.unit[off:])
			n, at = n+k, at+int64(k)
		}
		at -= min(at, size)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// nowhere takes what is written.
type nowhere struct{}

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// heapPeak is the most that import of f holds between two chunks, and the number of chunks.
func heapPeak(t *testing.T, f repeated, sys *r1cs.System) (peak int64, calls int) {
	t.Helper()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base := heap()
	o := ImportOptions{Tasks: 1, Trust: true, Progress: func(int64, int64) {
		if calls++; calls%3 == 0 {
			peak = max(peak, heap()-base)
		}
	}}
	s, err := openSource(f, f.size(), sys, &o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	w, err := wkey.NewWriter(nowhere{})
	if err != nil {
		t.Fatal(err)
	}
	if err := copyKey(context.Background(), w, s, &d, &o); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(sys)
	return peak, calls
}

// The points of a .params pass through bounded memory: those here are 150 MB, the bound is a tenth of the largest keys' single lists.
func TestImportMemoryIsBounded(t *testing.T) {
	const log, private = 19, 1 << 20
	_, _, g1, g2 := bls12381.Generators()
	p, q := g1.RawBytes(), g2.RawBytes()
	var f repeated
	count := func(n int) { f.add(1, binary.BigEndian.AppendUint32(nil, uint32(n))...) }
	for _, b := range [][]byte{p[:], p[:], q[:], q[:], p[:], q[:]} {
		f.add(1, b...)
	}
	for _, n := range []int{2, 1<<log - 1, private, 2, 1} { // ic, h, l, a, b_g1
		count(n)
		f.add(n, p[:]...)
	}
	count(1)
	f.add(1, q[:]...)
	bld := r1cs.NewBuilder(private+2, 1, true, 1<<log, 3)
	bld.Term(r1cs.MatrixB, 0, 0)
	for range 1<<log - 2 {
		if err := bld.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	sys, err := bld.System()
	if err != nil {
		t.Fatal(err)
	}
	if peak, calls := heapPeak(t, f, sys); calls < 20 || peak > 24<<20 {
		t.Errorf("%d bytes held in %d chunks", peak, calls)
	}
}

// Those of a .zkey too, whose H comes in windows of 25 MB: here the file has 400 MB.
func TestImportMemoryOfZKeyIsBounded(t *testing.T) {
	if testfiles.Race {
		t.Skip("350 MB pass by: not under the race detector")
	}
	const log, private = 20, 1<<19 - 2
	small := raw(t, makeKeys(t, 1, 1, ZKey).zkey)
	c, err := iden3.OpenContainer(bytes.NewReader(small), int64(len(small)), "zkey", 1)
	if err != nil {
		t.Fatal(err)
	}
	section := func(id uint32) []byte {
		s, _ := c.Find(id)
		return small[s.Offset : s.Offset+s.Size]
	}
	var f repeated
	f.add(1, []byte("zkey\x01\x00\x00\x00\x0a\x00\x00\x00")...)
	begin := func(id uint32, size int) {
		f.add(1, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, id), uint64(size))...)
	}
	whole := func(id uint32, b []byte) {
		begin(id, len(b))
		f.add(1, b...)
	}
	point := section(9)[:96]
	whole(1, section(1))
	header := bytes.Clone(section(2))
	const counts = 4 + 48 + 4 + 32 // wires, public, domain
	binary.LittleEndian.PutUint32(header[counts:], private+2)
	binary.LittleEndian.PutUint32(header[counts+8:], 1<<log)
	whole(2, header)
	whole(3, section(3))
	// B of row 0 has the one; the extra rows
	var coefs []byte
	last := section(4)[len(section(4))-44:]
	for _, x := range [][3]uint32{{1, 0, 0}, {0, 1<<log - 2, 0}, {0, 1<<log - 1, 1}} {
		for _, v := range x {
			coefs = binary.LittleEndian.AppendUint32(coefs, v)
		}
		coefs = append(coefs, last[12:]...)
	}
	whole(4, append([]byte{3, 0, 0, 0}, coefs...))
	for _, x := range []struct {
		id           uint32
		finite, size int
		unit         []byte
	}{{5, 2, 96, point}, {6, 1, 96, point}, {7, 1, 192, header[counts+12+2*96:][:192]}} {
		begin(x.id, (private+2)*x.size)
		f.add(x.finite, x.unit...)
		f.add(private+2-x.finite, make([]byte, x.size)...)
	}
	begin(8, private*96)
	f.add(private, point...)
	begin(9, 96<<log)
	f.add(1<<log, point...)
	whole(10, section(10))
	if peak, calls := heapPeak(t, f, nil); calls < 12 || peak > 48<<20 {
		t.Errorf("%d bytes held in %d chunks, of %d", peak, calls, f.size())
	}
}
