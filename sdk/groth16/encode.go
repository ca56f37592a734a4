package groth16

import (
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// ProofSize is the bytes of a proof: A 48 | B 96 | C 48, each compressed in the ZCash encoding (big-endian, flags in the top three bits).
// It is what bellman, bellperson and Filecoin use.
const ProofSize = bls.SizeOfG1AffineCompressed + bls.SizeOfG2AffineCompressed + bls.SizeOfG1AffineCompressed

// Bytes is the 192-byte encoding.
func (p *Proof) Bytes() [ProofSize]byte {
	var out [ProofSize]byte
	a, b, c := p.A.Bytes(), p.B.Bytes(), p.C.Bytes()
	copy(out[:48], a[:])
	copy(out[48:144], b[:])
	copy(out[144:], c[:])
	return out
}

// SetBytes reads the 192-byte encoding; points must be on the curve and in the subgroup.
func (p *Proof) SetBytes(b []byte) error {
	if len(b) != ProofSize {
		return errs.Mismatch(errs.InvalidProof, "read proof", "length", ProofSize, len(b))
	}
	for _, x := range []struct {
		name string
		to   func([]byte) (int, error)
		b    []byte
	}{{"A", p.A.SetBytes, b[:48]}, {"B", p.B.SetBytes, b[48:144]}, {"C", p.C.SetBytes, b[144:]}} {
		// Without the compression flag gnark-crypto would read a longer, uncompressed point.
		if x.b[0]&0x80 == 0 {
			return errs.Mismatch(errs.InvalidProof, "read proof", "point "+x.name, "a compressed point", "the compression flag is not set")
		}
		if _, err := x.to(x.b); err != nil {
			return &errs.Error{Class: errs.InvalidProof, Op: "read proof", Where: "point " + x.name, Err: err}
		}
	}
	return nil
}

// ScalarBytes is x as 32 bytes, little-endian, canonical: the form of field elements in weir's messages.
func ScalarBytes(x *fr.Element) []byte {
	var b [32]byte
	fr.LittleEndian.PutElement(&b, *x)
	return b[:]
}

// ScalarFromBytes reads ScalarBytes' form and refuses values >= r.
func ScalarFromBytes(b []byte) (fr.Element, error) {
	if len(b) != 32 {
		return fr.Element{}, errs.Mismatch(errs.InvalidArgument, "read scalar", "length", 32, len(b))
	}
	x, err := fr.LittleEndian.Element((*[32]byte)(b))
	if err != nil {
		return fr.Element{}, errs.Mismatch(errs.InvalidArgument, "read scalar", "", "a value below the group order r", "one that is not")
	}
	return x, nil
}
