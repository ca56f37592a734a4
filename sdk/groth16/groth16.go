// Package groth16 has the types of a Groth16 proof system over BLS12-381: proof, verifying key, proving key, and the
// verifier. Points and scalars are gnark-crypto's (Montgomery form in memory).
//
// Source: J. Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016.
package groth16

import (
	"math/bits"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// MaxLogDomain is the largest domain 2^28 that weir makes; a key that claims more is refused before anything is read.
const MaxLogDomain = 28

// Proof is (A, B, C) = (piA, piB, piC).
type Proof struct {
	A bls.G1Affine
	B bls.G2Affine
	C bls.G1Affine
}

// VerifyingKey holds the fixed points of a circuit. IC has one point for the constant one and one for each public
// input. BetaG1 and DeltaG1 are not needed to verify; keys made by snarkjs' JSON do not carry them (then infinity).
type VerifyingKey struct {
	AlphaG1 bls.G1Affine
	BetaG1  bls.G1Affine
	BetaG2  bls.G2Affine
	GammaG2 bls.G2Affine
	DeltaG1 bls.G1Affine
	DeltaG2 bls.G2Affine
	IC      []bls.G1Affine
}

// NbPublic is the number of public inputs, the constant one not counted.
func (vk *VerifyingKey) NbPublic() int { return len(vk.IC) - 1 }

// RowOrder says which root of unity of the domain constraint row i belongs to.
type RowOrder uint8

const (
	// RowsSeven puts row i at w^i with w of the generator 7: bellman, bellperson, gnark, and keys made by weir.
	RowsSeven RowOrder = 0
	// RowsFive puts row i at w^i with w of the generator 5: snarkjs. In the order of the generator 7 that is
	// position E*i mod N with E = SnarkjsRootExponent.
	RowsFive RowOrder = 1
)

// SnarkjsRootExponent is E with 5^t = (7^t)^E for t = (r-1)/2^32: the 2^32-th root of unity of snarkjs written in the
// root that everybody else uses.
const SnarkjsRootExponent = 3797895509

// String names the order as header fields and messages do.
func (o RowOrder) String() string {
	switch o {
	case RowsSeven:
		return "rows-7"
	case RowsFive:
		return "rows-5 (snarkjs)"
	}
	return "unknown row order"
}

// Position is the index in natural order of the generator 7 of row i on a domain of n = 2^k points.
func (o RowOrder) Position(i, n uint64) uint64 {
	if o == RowsFive {
		return (i * SnarkjsRootExponent) & (n - 1)
	}
	return i
}

// HBasis says which form the H points of a key have, and so what their scalars are.
type HBasis uint8

const (
	// HMonomial: point k is [tau^k (tau^N - 1) / delta]_1, k = 0..N-2; its scalar is coefficient k of the quotient
	// h = (a b - c) / (X^N - 1).
	HMonomial HBasis = 0
	// HOddCoset: N points; the scalar of point j is the evaluation of P = a b - c at u w^j, where w is the generator-7 root of
	// order N, u the one of order 2N, j in natural order. This is snarkjs' form after its permutation (no inverse transform, no division).
	HOddCoset HBasis = 1
)

// String names the basis as header fields and messages do.
func (h HBasis) String() string {
	switch h {
	case HMonomial:
		return "monomial"
	case HOddCoset:
		return "odd coset"
	}
	return "unknown basis"
}

// Shape is everything about a proving key but its points: what admission, planning and messages need, readable from
// a file's headers alone.
type Shape struct {
	LogDomain     int // domain size N = 2^LogDomain
	NbWires       int // all variables: the one, public inputs, private
	NbPublic      int // public inputs, the one not counted
	NbConstraints int // rows of the circuit without the NbPublic+1 extra rows; -1 where the file does not tell
	NbA           int // finite points of A
	NbB           int // finite points of B1 and of B2
	NbH           int // points of H: N-1 (monomial) or N (odd coset)
	Rows          RowOrder
	H             HBasis
	Insecure      bool // made by a development set-up: whoever made it can forge proofs
	HasMatrices   bool // the file carries the rows of A and B
	HasC          bool // and those of C
	Prepared      bool // the file holds the points as they are used in memory (a .wkey), so that a backend can map instead of reading it
}

// DomainSize is N.
func (s *Shape) DomainSize() int { return 1 << s.LogDomain }

// NbPrivate is the number of private wires, which is the number of K points.
func (s *Shape) NbPrivate() int { return s.NbWires - s.NbPublic - 1 }

// Validate checks that the sizes can belong together. It allocates nothing.
func (s *Shape) Validate() error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "proving key", where, expected, found)
	}
	switch {
	case s.LogDomain < 0 || s.LogDomain > MaxLogDomain:
		return bad("domain", "2^0 to 2^28", s.LogDomain)
	case s.NbPublic < 0 || s.NbWires < 1 || s.NbPublic >= s.NbWires:
		return bad("wires", "more wires than public inputs", s.NbWires)
	case s.NbA < 0 || s.NbA > s.NbWires:
		return bad("A", "at most one point a wire", s.NbA)
	case s.NbB < 0 || s.NbB > s.NbWires:
		return bad("B", "at most one point a wire", s.NbB)
	case s.NbConstraints >= 0 && s.NbConstraints+s.NbPublic+1 > s.DomainSize():
		return bad("domain", "room for every row and public input", s.NbConstraints+s.NbPublic+1)
	case s.H == HMonomial && s.NbH != s.DomainSize()-1:
		return bad("H", s.DomainSize()-1, s.NbH)
	case s.H == HOddCoset && s.NbH != s.DomainSize():
		return bad("H", s.DomainSize(), s.NbH)
	case s.H > HOddCoset:
		return bad("H", "a known basis", s.H)
	case s.Rows > RowsFive:
		return bad("row order", "a known order", s.Rows)
	}
	return nil
}

// DomainFor is log2 of the smallest domain for a circuit: N >= constraints + public + 1, as bellman and weir count; with
// snarkjs N is never 1.
func DomainFor(nbConstraints, nbPublic int) int {
	return bits.Len64(uint64(nbConstraints + nbPublic))
}

// Bitmap has one bit a wire, least significant first in each word.
type Bitmap []uint64

// NewBitmap has n bits, all zero.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Has reports bit i.
func (b Bitmap) Has(i int) bool { return b[i>>6]>>(i&63)&1 == 1 }

// Set sets bit i.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// Count is the number of ones.
func (b Bitmap) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// ProvingKey is the one form in which a prover of weir gets its key, wherever it came from. The slices may lie in a read-only
// file mapping: nobody writes to them.
type ProvingKey struct {
	Shape
	VK VerifyingKey // with BetaG1 and DeltaG1

	A      []bls.G1Affine // [NbA] for the wires in AWires, ascending; none is infinity
	AWires Bitmap
	B1     []bls.G1Affine // [NbB] for the wires in BWires, ascending
	B2     []bls.G2Affine // [NbB]
	BWires Bitmap
	K      []bls.G1Affine // [NbPrivate]; infinity allowed
	H      []bls.G1Affine // [NbH]
}

// Randomness is the pair (rho, sigma) that makes a proof zero-knowledge. It is secret.
type Randomness struct{ R, S fr.Element }
