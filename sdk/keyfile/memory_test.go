package keyfile

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// repeated is a .params of many equal points that is nowhere in memory.
type repeated struct {
	head []byte // up to the count of h
	h, l int
	g1   [96]byte
	tail []byte // a, b_g1, b_g2 with their counts
}

func (f *repeated) size() int64 {
	return int64(len(f.head)) + 4 + 96*int64(f.h) + 4 + 96*int64(f.l) + int64(len(f.tail))
}

func (f *repeated) ReadAt(b []byte, at int64) (int, error) {
	count := func(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
	n := 0
	for _, part := range []struct {
		b    []byte
		size int64
	}{{f.head, int64(len(f.head))}, {count(f.h), 4}, {f.g1[:], 96 * int64(f.h)}, {count(f.l), 4}, {f.g1[:], 96 * int64(f.l)}, {f.tail, int64(len(f.tail))}} {
		for at < part.size && n < len(b) {
			k := copy(b[n:min(len(b), n+int(part.size-at))], part.b[at%int64(len(part.b)):])
			n, at = n+k, at+int64(k)
		}
		at -= part.size
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// nowhere takes what is written.
type nowhere struct{}

func (nowhere) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }

// The points of a .params pass through bounded memory: those here are 150 MB, the bound is a tenth of the largest keys' single lists.
func TestImportMemoryIsBounded(t *testing.T) {
	const log, private = 19, 1 << 20
	_, _, g1, g2 := bls12381.Generators()
	f := &repeated{h: 1<<log - 1, l: private, g1: g1.RawBytes()}
	q := g2.RawBytes()
	for _, p := range [][]byte{f.g1[:], f.g1[:], q[:], q[:], f.g1[:], q[:], {0, 0, 0, 2}, f.g1[:], f.g1[:]} {
		f.head = append(f.head, p...)
	}
	for _, p := range [][]byte{{0, 0, 0, 2}, f.g1[:], f.g1[:], {0, 0, 0, 1}, f.g1[:], {0, 0, 0, 1}, q[:]} {
		f.tail = append(f.tail, p...)
	}
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
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	base, peak, calls := heap(), int64(0), 0
	o := ImportOptions{Tasks: 1, Trust: true, Progress: func(int64, int64) {
		if calls++; calls%4 == 0 {
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
	if calls < 20 || peak > 24<<20 {
		t.Errorf("%d bytes held in %d chunks", peak, calls)
	}
	runtime.KeepAlive(sys)
}
