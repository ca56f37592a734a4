package snarkjs

import (
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
)

// far is a file with a gap of zeros in it that nobody stores.
type far struct {
	data []byte
	at   int64 // where the gap begins
	gap  int64
}

func (f *far) size() int64 { return int64(len(f.data)) + f.gap }

func (f *far) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		switch o := off + int64(i); {
		case o >= f.size():
			return i, io.EOF
		case o < f.at:
			p[i] = f.data[o]
		case o < f.at+f.gap:
			p[i] = 0
		default:
			p[i] = f.data[o-f.gap]
		}
	}
	return len(p), nil
}

// A key whose sections lie behind a section of 6 GiB that nobody knows reads as the key without it: no offset or size is cut to 32 bits.
func TestZKeyBeyond4GiB(t *testing.T) {
	const unknown = 77
	plain := testfiles.Fixture(t, testfiles.Small[0], "circuit.zkey")
	want, wantSystem, err := readAll(plain, ReadOptions{Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	f := split(t, plain)
	// header sections first, then the gap, then the rest
	f.order = append(f.order[:2:2], append([]uint32{unknown}, f.order[2:]...)...)
	f.data[unknown] = nil
	b := &far{data: f.bytes(), gap: 6 << 30}
	at := 12
	for _, id := range f.order[:2] {
		at += 12 + len(f.data[id])
	}
	binary.LittleEndian.PutUint64(b.data[at+4:], uint64(b.gap))
	b.at = int64(at + 12)

	z, err := OpenZKey(b, b.size())
	if err != nil {
		t.Fatal(err)
	}
	system, err := z.System(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got, err := z.ProvingKey(ctx, ReadOptions{Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || system.Digest() != wantSystem.Digest() {
		t.Error("the key differs")
	}

	// the same, cut in what lies beyond
	if _, err := OpenZKey(io.NewSectionReader(b, 0, b.size()-1), b.size()-1); err == nil || errors.Is(err, io.EOF) {
		t.Error("a truncated file: ", err)
	}
}
