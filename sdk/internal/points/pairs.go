package points

import (
	crand "crypto/rand"
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Pairs tests that a list in G1 and a list in G2 are the same multiples of two bases P and Q: with random z_i of 128 bits,
// e(sum z_i A_i, Q) = e(P, sum z_i B_i). Lists that differ pass with a probability of at most 2^-128, if all points are in the groups of order r, which
// is to be tested first. The lists come in pieces, which need not be the same for both.
type Pairs struct {
	one, two   *rand.ChaCha8 // the same numbers for both lists
	montgomery fr.Element    // 2^256: a product with it takes a number to its Montgomery form
	s1         bls.G1Jac
	s2         bls.G2Jac
}

// pairsPiece is how many points are multiplied at once: their factors take 8 MiB.
const pairsPiece = 1 << 18

// NewPairs draws a seed from crypto/rand. The lists must be fixed by then.
func NewPairs() (*Pairs, error) {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil {
		return nil, err
	}
	p := &Pairs{one: rand.NewChaCha8(seed), two: rand.NewChaCha8(seed)}
	p.montgomery.SetUint64(2)
	for range 8 {
		p.montgomery.Square(&p.montgomery)
	}
	return p, nil
}

// draw makes the next factors: numbers below 2^128, which cost half of what field elements would.
func (p *Pairs) draw(from *rand.ChaCha8, n int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		out[i][0], out[i][1] = from.Uint64(), from.Uint64()
		out[i].Mul(&out[i], &p.montgomery)
	}
	return out
}

// AddG1 takes the next points of the list in G1.
func (p *Pairs) AddG1(ps []bls.G1Affine, tasks int) error {
	for ; len(ps) > 0; ps = ps[min(len(ps), pairsPiece):] {
		piece := ps[:min(len(ps), pairsPiece)]
		var s bls.G1Jac
		if _, err := s.MultiExp(piece, p.draw(p.one, len(piece)), ecc.MultiExpConfig{NbTasks: max(1, tasks)}); err != nil {
			return err
		}
		p.s1.AddAssign(&s)
	}
	return nil
}

// AddG2 takes the next points of the list in G2.
func (p *Pairs) AddG2(ps []bls.G2Affine, tasks int) error {
	for ; len(ps) > 0; ps = ps[min(len(ps), pairsPiece):] {
		piece := ps[:min(len(ps), pairsPiece)]
		var s bls.G2Jac
		if _, err := s.MultiExp(piece, p.draw(p.two, len(piece)), ecc.MultiExpConfig{NbTasks: max(1, tasks)}); err != nil {
			return err
		}
		p.s2.AddAssign(&s)
	}
	return nil
}

// Same reports whether the points so far are the same multiples of the bases.
func (p *Pairs) Same(base1 *bls.G1Affine, base2 *bls.G2Affine) (bool, error) {
	var a bls.G1Affine
	var b bls.G2Affine
	a.FromJacobian(&p.s1)
	b.FromJacobian(&p.s2)
	return SameMultiple(&a, &b, base1, base2)
}

// SameMultiple reports whether a is the same multiple of base1 as b of base2: e(a, base2) = e(base1, b).
func SameMultiple(a *bls.G1Affine, b *bls.G2Affine, base1 *bls.G1Affine, base2 *bls.G2Affine) (bool, error) {
	var neg bls.G1Affine
	neg.Neg(base1)
	return bls.PairingCheck([]bls.G1Affine{*a, neg}, []bls.G2Affine{*base2, *b})
}
