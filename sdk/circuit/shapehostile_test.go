package circuit

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

type parts struct{}

func (parts) Synthesize(b *Builder) error {
	x := fr.NewElement(9)
	n := b.AllocNum(&x)
	return b.Repeat("part", 3, func(b *Builder, i int) error {
		b.Inputize("in", n)
		b.ToBits("bits", n)
		b.Mul("square", n, n)
		return nil
	})
}

type memoryFile struct{ b []byte }

func (m *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	if need := int(at) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[at:], p), nil
}

// reseal makes every checksum match what the file says now.
func reseal(b []byte) {
	sec := func(i int) (entry []byte, offset, length uint64) {
		entry = b[len(ShapeMagic)+7*8+32+20*i:]
		return entry, binary.LittleEndian.Uint64(entry), binary.LittleEndian.Uint64(entry[8:])
	}
	inside := func(offset, length uint64) bool {
		return offset <= uint64(len(b)) && length <= uint64(len(b))-offset
	}
	_, rowsAt, _ := sec(secRows)
	if _, at, n := sec(secBlocks); inside(at, n) {
		for e := b[at : at+n]; len(e) >= blockEntry; e = e[blockEntry:] {
			offset, length := rowsAt+binary.LittleEndian.Uint64(e), uint64(binary.LittleEndian.Uint32(e[8:]))
			if inside(offset, length) {
				binary.LittleEndian.PutUint32(e[12:], crc32.Checksum(b[offset:offset+length], castagnoli))
			}
		}
	}
	for i := range sections {
		if entry, at, n := sec(i); i != secRows && inside(at, n) {
			binary.LittleEndian.PutUint32(entry[16:], crc32.Checksum(b[at:at+n], castagnoli))
		}
	}
	binary.LittleEndian.PutUint32(b[shapeHeader-4:], crc32.Checksum(b[:shapeHeader-4], castagnoli))
}

// Files whose checksums match and whose content was made to hurt are refused, or are some constraint system: nothing leaves a slice or hangs.
func TestHostileShapes(t *testing.T) {
	var m memoryFile
	if _, err := WriteShape(t.Context(), &m, parts{}); err != nil {
		t.Fatal(err)
	}
	good := slices.Clone(m.b)
	reseal(good)
	if !slices.Equal(good, m.b) {
		t.Fatal("resealing a good file changes it")
	}
	r := rand.New(rand.NewPCG(5, 5))
	refused, taken := 0, 0
	for range 500 {
		b := slices.Clone(m.b)
		for range 1 + r.IntN(4) {
			at := r.IntN(len(b))
			if r.IntN(3) == 0 {
				at = r.IntN(shapeHeader)
			}
			b[at] = byte(r.Uint32()) | byte(r.Uint32()<<7)
		}
		reseal(b)
		s, err := OpenShape(b)
		if err == nil {
			_, err = s.System(t.Context())
		}
		if err == nil {
			taken++
			continue
		}
		refused++
		if !errs.Is(err, errs.InvalidFile) {
			t.Fatalf("class %v: %v", errs.ClassOf(err), err)
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d refused, %d taken", refused, taken)
	}
}
