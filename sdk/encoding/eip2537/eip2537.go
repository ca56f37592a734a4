// Package eip2537 encodes Groth16 verifying keys, proofs and public inputs for Ethereum's BLS12-381 precompiles (EIP-2537).
//
// A base field element is 64 bytes: 16 zero bytes and the value, 48 bytes big-endian, below q. A G1 point is x and y, 128 bytes; a G2 point x.c0, x.c1, y.c0, y.c1, 256
// bytes; infinity is all zero. A scalar is 32 bytes, big-endian. The precompiles used are G1MSM (address 0x0c) for the sum over the public
// inputs and PAIRING_CHECK (0x0f).
package eip2537

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Sizes in bytes.
const (
	SizeFp     = 64
	SizeG1     = 2 * SizeFp
	SizeG2     = 4 * SizeFp
	SizeScalar = fr.Bytes
	SizeTerm   = SizeG1 + SizeScalar // one term of G1MSM
	SizePair   = SizeG1 + SizeG2     // one pair of PAIRING_CHECK
	// SizeProof is A, B, C.
	SizeProof = SizeG1 + SizeG2 + SizeG1

	padding = SizeFp - fp.Bytes
)

const op = "eip-2537"

func appendFp(b []byte, x *fp.Element) []byte {
	v := x.Bytes()
	return append(append(b, make([]byte, padding)...), v[:]...)
}

// AppendG1 appends the 128 bytes of p.
func AppendG1(b []byte, p *bls.G1Affine) []byte {
	return appendFp(appendFp(b, &p.X), &p.Y)
}

// AppendG2 appends the 256 bytes of p.
func AppendG2(b []byte, p *bls.G2Affine) []byte {
	b = appendFp(appendFp(b, &p.X.A0), &p.X.A1)
	return appendFp(appendFp(b, &p.Y.A0), &p.Y.A1)
}

func bad(class errs.Class, where, expected string, found any) error {
	return errs.Mismatch(class, op, where, expected, found)
}

func decodeFp(x *fp.Element, b []byte, where string) error {
	for _, p := range b[:padding] {
		if p != 0 {
			return bad(errs.InvalidFile, where, "16 zero bytes before a coordinate", fmt.Sprintf("%x", b[:padding]))
		}
	}
	if err := x.SetBytesCanonical(b[padding:SizeFp]); err != nil {
		return bad(errs.InvalidFile, where, "a coordinate below the field modulus q", fmt.Sprintf("%x", b[padding:SizeFp]))
	}
	return nil
}

// DecodeG1 reads the 128 bytes of a point, which must be on the curve and in the subgroup.
func DecodeG1(b []byte) (p bls.G1Affine, err error) {
	if len(b) != SizeG1 {
		return p, bad(errs.InvalidFile, "G1 point", fmt.Sprintf("%d bytes", SizeG1), len(b))
	}
	for i, x := range []*fp.Element{&p.X, &p.Y} {
		if err := decodeFp(x, b[i*SizeFp:], fmt.Sprintf("G1 point, offset %d", i*SizeFp)); err != nil {
			return bls.G1Affine{}, err
		}
	}
	if !p.IsInSubGroup() {
		return bls.G1Affine{}, bad(errs.InvalidFile, "G1 point", "a point of the curve in the subgroup of order r", "another value")
	}
	return p, nil
}

// DecodeG2 reads the 256 bytes of a point, which must be on the curve and in the subgroup.
func DecodeG2(b []byte) (p bls.G2Affine, err error) {
	if len(b) != SizeG2 {
		return p, bad(errs.InvalidFile, "G2 point", fmt.Sprintf("%d bytes", SizeG2), len(b))
	}
	for i, x := range []*fp.Element{&p.X.A0, &p.X.A1, &p.Y.A0, &p.Y.A1} {
		if err := decodeFp(x, b[i*SizeFp:], fmt.Sprintf("G2 point, offset %d", i*SizeFp)); err != nil {
			return bls.G2Affine{}, err
		}
	}
	if !p.IsInSubGroup() {
		return bls.G2Affine{}, bad(errs.InvalidFile, "G2 point", "a point of the curve in the subgroup of order r", "another value")
	}
	return p, nil
}

// AppendScalar appends the 32 bytes of x.
func AppendScalar(b []byte, x *fr.Element) []byte {
	v := x.Bytes()
	return append(b, v[:]...)
}

// MSMInput is the input of G1MSM that gives the sum over the public inputs IC[0] + sum public_i IC[i+1]: 160 bytes a term. The number of public inputs must be the key's.
func MSMInput(vk *groth16.VerifyingKey, public []fr.Element) ([]byte, error) {
	if len(vk.IC) != len(public)+1 {
		return nil, bad(errs.InvalidArgument, "public inputs", fmt.Sprint(vk.NbPublic()), len(public))
	}
	b := make([]byte, 0, len(vk.IC)*SizeTerm)
	one := fr.One()
	for i := range vk.IC {
		b = AppendG1(b, &vk.IC[i])
		if i == 0 {
			b = AppendScalar(b, &one)
		} else {
			b = AppendScalar(b, &public[i-1])
		}
	}
	return b, nil
}

// Sum is IC[0] + sum public_i IC[i+1]: what G1MSM answers for MSMInput.
func Sum(vk *groth16.VerifyingKey, public []fr.Element) (sum bls.G1Affine, err error) {
	if len(vk.IC) != len(public)+1 {
		return sum, bad(errs.InvalidArgument, "public inputs", fmt.Sprint(vk.NbPublic()), len(public))
	}
	var acc bls.G1Jac
	if len(public) > 0 {
		if _, err := acc.MultiExp(vk.IC[1:], public, ecc.MultiExpConfig{}); err != nil {
			return sum, &errs.Error{Class: errs.Internal, Op: op, Err: err}
		}
	}
	acc.AddMixed(&vk.IC[0])
	sum.FromJacobian(&acc)
	return sum, nil
}

// PairingInput is the input of PAIRING_CHECK: the four pairs (-A, B), (alpha, beta), (sum, gamma), (C, delta), 1536 bytes, where sum is what G1MSM
// made of MSMInput. The precompile answers one exactly when the proof is valid.
func PairingInput(vk *groth16.VerifyingKey, proof *groth16.Proof, sum *bls.G1Affine) []byte {
	var minusA bls.G1Affine
	minusA.Neg(&proof.A)
	b := make([]byte, 0, 4*SizePair)
	for _, x := range []struct {
		p *bls.G1Affine
		q *bls.G2Affine
	}{{&minusA, &proof.B}, {&vk.AlphaG1, &vk.BetaG2}, {sum, &vk.GammaG2}, {&proof.C, &vk.DeltaG2}} {
		b = AppendG2(AppendG1(b, x.p), x.q)
	}
	return b
}

// AppendProof appends A, B, C: 512 bytes.
func AppendProof(b []byte, p *groth16.Proof) []byte {
	return AppendG1(AppendG2(AppendG1(b, &p.A), &p.B), &p.C)
}

// DecodeProof reads A, B, C.
func DecodeProof(b []byte) (p groth16.Proof, err error) {
	if len(b) != SizeProof {
		return p, bad(errs.InvalidFile, "proof", fmt.Sprintf("%d bytes", SizeProof), len(b))
	}
	if p.A, err = DecodeG1(b[:SizeG1]); err != nil {
		return p, errs.Wrap(err, "point A")
	}
	if p.B, err = DecodeG2(b[SizeG1 : SizeG1+SizeG2]); err != nil {
		return p, errs.Wrap(err, "point B")
	}
	if p.C, err = DecodeG1(b[SizeG1+SizeG2:]); err != nil {
		return p, errs.Wrap(err, "point C")
	}
	return p, nil
}
