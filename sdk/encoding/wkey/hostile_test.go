package wkey

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// reseal edits a header and makes its checksum right again.
func reseal(raw []byte, edit func(b []byte)) []byte {
	b := bytes.Clone(raw)
	edit(b)
	binary.LittleEndian.PutUint32(b[crcOffset:], crc32.Checksum(b[:crcOffset], castagnoli))
	return b
}

func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func TestHostileHeaders(t *testing.T) {
	pk, sys := makeKey(20, 2, groth16.RowsSeven, groth16.HMonomial)
	raw := encode(t, pk, sys)
	le := binary.LittleEndian
	entry := func(b []byte, i int) []byte { return b[tableOffset+i*entrySize:] }
	h, _ := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	index := func(id SectionID) int {
		for i, s := range h.Sections {
			if s.ID == id {
				return i
			}
		}
		t.Fatal(id)
		return 0
	}
	for _, c := range []struct {
		name  string
		class errs.Class
		edit  func(b []byte)
		words []string
	}{
		{"folded key", errs.Unsupported, func(b []byte) { b[16] |= 1 }, []string{"folded key", "newer weir"}},
		{"unknown required feature", errs.Unsupported, func(b []byte) { b[23] |= 0x80 }, []string{"0x8000000000000000", "newer weir"}},
		{"other version", errs.Unsupported, func(b []byte) { b[8] = 2 }, []string{"version", "found 2"}},
		{"sections 0xFFFFFFFF", errs.InvalidFile, func(b []byte) { le.PutUint32(b[12:], 0xFFFFFFFF) }, []string{"sections"}},
		{"no sections", errs.InvalidFile, func(b []byte) { le.PutUint32(b[12:], 0) }, nil},
		{"wires 2^64-1", errs.InvalidFile, func(b []byte) { le.PutUint64(b[40:], 1<<64-1) }, []string{"sizes"}},
		{"wires 2^32-1", errs.InvalidFile, func(b []byte) { le.PutUint64(b[40:], 1<<32-1) }, []string{"A wires"}},
		{"public 2^40", errs.InvalidFile, func(b []byte) { le.PutUint64(b[48:], 1<<40) }, nil},
		{"rows 2^39", errs.InvalidFile, func(b []byte) { le.PutUint64(b[56:], 1<<39) }, nil},
		{"rows unknown with matrices", errs.InvalidFile, func(b []byte) { le.PutUint64(b[56:], 1<<64-1) }, []string{"number of rows"}},
		{"domain 2^255", errs.InvalidFile, func(b []byte) { b[88] = 255 }, []string{"domain"}},
		{"row order 7", errs.InvalidFile, func(b []byte) { b[89] = 7 }, []string{"row order"}},
		{"H basis 9", errs.InvalidFile, func(b []byte) { b[90] = 9 }, []string{"H"}},
		{"C without A and B", errs.InvalidFile, func(b []byte) { b[24] = 2 }, []string{"features"}},
		{"element size 0", errs.InvalidFile, func(b []byte) { le.PutUint32(entry(b, 3)[4:], 0) }, nil},
		{"element size 2^32-1", errs.InvalidFile, func(b []byte) { le.PutUint32(entry(b, 3)[4:], 0xFFFFFFFF) }, nil},
		{"count 2^63", errs.InvalidFile, func(b []byte) { le.PutUint64(entry(b, 2)[24:], 1<<63) }, []string{"section table, A"}},
		{"count and length wrap", errs.InvalidFile, func(b []byte) {
			e := entry(b, index(SecAWire))
			le.PutUint64(e[24:], 1<<62)
			le.PutUint64(e[16:], 0)
		}, []string{"matrix A wires"}},
		{"length beyond the file", errs.InvalidFile, func(b []byte) {
			e := entry(b, index(SecAWire))
			le.PutUint64(e[24:], 1<<30)
			le.PutUint64(e[16:], 1<<32)
		}, []string{"matrix A wires", "within"}},
		{"overlap", errs.InvalidFile, func(b []byte) { copy(entry(b, 3)[8:16], entry(b, 2)[8:16]) }, []string{"after the section before"}},
		{"offset in the header", errs.InvalidFile, func(b []byte) { le.PutUint64(entry(b, 0)[8:], 0) }, []string{"offset 4096"}},
		{"section twice", errs.InvalidFile, func(b []byte) { le.PutUint32(entry(b, 4), uint32(SecA)) }, []string{"twice"}},
		{"section missing", errs.InvalidFile, func(b []byte) { le.PutUint32(entry(b, index(SecH)), 99) }, []string{"a section H"}},
		{"points of another size", errs.InvalidFile, func(b []byte) {
			e := entry(b, index(SecA))
			le.PutUint32(e[4:], 48)
			le.PutUint64(e[24:], 2*le.Uint64(e[24:]))
		}, []string{"section table, A"}},
		{"no coefficients", errs.InvalidFile, func(b []byte) { le.PutUint32(entry(b, index(SecCoeffs)), 98) }, []string{"coefficients"}},
		{"file size", errs.InvalidFile, func(b []byte) { le.PutUint64(b[32:], 1<<50) }, []string{"bytes"}},
		{"creator", errs.InvalidFile, func(b []byte) { b[232] = 0xff }, []string{"creator"}},
	} {
		b := reseal(raw, c.edit)
		var err error
		if used := allocated(func() { _, err = Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{Tasks: 1}) }); used > 4<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
		wantError(t, c.name, err, c.class, c.words...)
	}
	// what may be ignored is
	more := reseal(raw, func(b []byte) { b[31] = 0x80; le.PutUint32(b[90+1:], 0) })
	if _, err := ReadHeader(bytes.NewReader(more), int64(len(more))); err != nil {
		t.Errorf("optional feature: %v", err)
	}
}

// resection edits a section and makes the checksums right again.
func resection(t *testing.T, raw []byte, id SectionID, edit func(b []byte)) []byte {
	t.Helper()
	h, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return reseal(raw, func(b []byte) {
		for i, s := range h.Sections {
			if s.ID == id {
				edit(b[s.Offset : s.Offset+s.Length])
				binary.LittleEndian.PutUint32(b[tableOffset+i*entrySize+32:], crc32.Checksum(b[s.Offset:s.Offset+s.Length], castagnoli))
			}
		}
	})
}

// Content that checksums cannot judge: made by a program that lies.
func TestHostileSections(t *testing.T) {
	pk, sys := makeKey(20, 2, groth16.RowsSeven, groth16.HMonomial)
	raw := encode(t, pk, sys)
	le := binary.LittleEndian
	order3 := func(b []byte) {
		var p bls12381.G1Affine
		p.Y.SetUint64(2)
		h := &Writer{f: &memory{}, current: &Section{}}
		_ = Elements(h, []bls12381.G1Affine{p})
		copy(b, h.f.(*memory).b)
	}
	for _, c := range []struct {
		name  string
		id    SectionID
		edit  func(b []byte)
		words []string
	}{
		{"wire out of range", SecAWire, func(b []byte) { le.PutUint32(b[8:], 1<<31) }, []string{"matrix A, term 2"}},
		{"coefficient out of range", SecBCoeff, func(b []byte) { le.PutUint32(b, 0xFFFFFFFF) }, []string{"matrix B, term 0"}},
		{"start falls", SecCStart, func(b []byte) { le.PutUint32(b[8:], 0xFFFF) }, []string{"matrix C"}},
		{"start does not end with the terms", SecAStart, func(b []byte) { le.PutUint32(b[len(b)-4:], 1) }, []string{"matrix A"}},
		{"dictionary without one", SecCoeffs, func(b []byte) { b[0] ^= 1 }, []string{"one as the first"}},
		{"coefficient not below r", SecCoeffs, func(b []byte) { copy(b[32:64], bytes.Repeat([]byte{0xff}, 32)) }, []string{"coefficients, element 1"}},
		{"bitmap with a bit more", SecAWires, func(b []byte) { b[0] = 0; b[1] = 0 }, []string{"A wires"}},
		{"bitmap beyond the wires", SecBWires, func(b []byte) { b[len(b)-1] ^= 0x80; b[0] ^= b[0] & -b[0] }, []string{"B wires"}},
		{"A off the curve", SecA, func(b []byte) { b[96*3] ^= 1 }, []string{"section A, point 3", "curve"}},
		{"K off the curve", SecK, func(b []byte) { b[50] ^= 1 }, []string{"section K, point 0", "curve"}},
		{"A infinite", SecA, func(b []byte) { clear(b[96 : 2*96]) }, []string{"section A, point 1", "infinity"}},
		{"B2 infinite", SecB2, func(b []byte) { clear(b[:192]) }, []string{"section B2, point 0", "infinity"}},
		{"coordinate not below p", SecH, func(b []byte) { copy(b[:48], bytes.Repeat([]byte{0xff}, 48)) }, []string{"section H, point 0", "field's order"}},
		{"H of order 3", SecH, order3, []string{"section H, point 0", "subgroup"}},
		{"alpha of order 3", SecFixed, order3, []string{"fixed points, point 0"}},
		{"IC of order 3", SecIC, order3, []string{"IC, point 0"}},
	} {
		b := resection(t, raw, c.id, c.edit)
		f, err := Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{Tasks: 2})
		if err == nil {
			err = f.Verify(context.Background(), VerifyOptions{Tasks: 2, Curve: true, Subgroup: true})
		}
		wantError(t, c.name, err, errs.InvalidFile, c.words...)
	}
}

func FuzzHeader(f *testing.F) {
	pk, sys := makeKey(3, 1, groth16.RowsSeven, groth16.HMonomial)
	raw := encode(f, pk, sys)
	f.Add(raw[:headerSize])
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, head []byte) {
		b := bytes.Clone(raw)
		copy(b[:headerSize], head)
		b = reseal(b, func([]byte) {}) // so that the fuzzer gets past the checksum
		used := allocated(func() {
			k, err := Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{Tasks: 1})
			if err != nil {
				return
			}
			_, _ = k.System()
			_ = k.Verify(context.Background(), VerifyOptions{Tasks: 1, Curve: true})
		})
		if used > 64*uint64(len(b))+8<<20 {
			t.Fatalf("%d bytes allocated", used)
		}
	})
}
