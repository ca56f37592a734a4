package points

import (
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// Flags in the first byte of a ZCash encoding.
const (
	flagCompressed = 0x80
	flagInfinity   = 0x40
	flagLargest    = 0x20
	flags          = flagCompressed | flagInfinity | flagLargest
)

// infinityEncoding tells whether b, whose flags say infinity, has nothing else in it.
func infinityEncoding(b []byte) bool {
	if b[0] != flagInfinity {
		return false
	}
	for _, x := range b[1:] {
		if x != 0 {
			return false
		}
	}
	return true
}

// DecodeG1 reads the uncompressed encoding of one point (96 bytes: x, y, big-endian, flags in the top three bits) and checks that it
// is canonical and on the curve. It returns what is wrong, "" if nothing is.
func DecodeG1(p *bls.G1Affine, b *[G1Size]byte) string {
	if b[0]&flags != 0 {
		*p = bls.G1Affine{}
		return flagged(b[:])
	}
	var err error
	if p.X, err = fp.BigEndian.Element((*[fp.Bytes]byte)(b[:fp.Bytes])); err != nil {
		return "a coordinate of at least the field's order"
	}
	if p.Y, err = fp.BigEndian.Element((*[fp.Bytes]byte)(b[fp.Bytes:])); err != nil {
		return "a coordinate of at least the field's order"
	}
	// (0, 0) stands for infinity in memory, but not in this encoding.
	if p.IsInfinity() || !p.IsOnCurve() {
		return "a point that is not on the curve"
	}
	return ""
}

func flagged(b []byte) string {
	switch {
	case b[0]&flagCompressed != 0:
		return "a compressed point"
	case !infinityEncoding(b):
		return "a point with undefined flags"
	}
	return ""
}

// DecodeG2 is DecodeG1 for G2 (192 bytes: x.c1, x.c0, y.c1, y.c0).
func DecodeG2(p *bls.G2Affine, b *[G2Size]byte) string {
	if b[0]&flags != 0 {
		*p = bls.G2Affine{}
		return flagged(b[:])
	}
	for i, z := range []*fp.Element{&p.X.A1, &p.X.A0, &p.Y.A1, &p.Y.A0} {
		var err error
		if *z, err = fp.BigEndian.Element((*[fp.Bytes]byte)(b[i*fp.Bytes:])); err != nil {
			return "a coordinate of at least the field's order"
		}
	}
	if p.IsInfinity() || !p.IsOnCurve() {
		return "a point that is not on the curve"
	}
	return ""
}

// EncodeG1 writes the uncompressed encoding.
func EncodeG1(b *[G1Size]byte, p *bls.G1Affine) {
	if p.IsInfinity() {
		*b = [G1Size]byte{flagInfinity}
		return
	}
	fp.BigEndian.PutElement((*[fp.Bytes]byte)(b[:fp.Bytes]), p.X)
	fp.BigEndian.PutElement((*[fp.Bytes]byte)(b[fp.Bytes:]), p.Y)
}

// EncodeG2 writes the uncompressed encoding.
func EncodeG2(b *[G2Size]byte, p *bls.G2Affine) {
	if p.IsInfinity() {
		*b = [G2Size]byte{flagInfinity}
		return
	}
	for i, z := range []*fp.Element{&p.X.A1, &p.X.A0, &p.Y.A1, &p.Y.A0} {
		fp.BigEndian.PutElement((*[fp.Bytes]byte)(b[i*fp.Bytes:]), *z)
	}
}
