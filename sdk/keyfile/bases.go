package keyfile

import (
	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// basesCheck tests that the H points of a key in the two bases are the same: that for every polynomial h of degree N-2 and less
//
//	sum h_k M_k = sum -2 h(u w^i) Q_i
//
// with M the monomial points, Q those of the odd coset, where P = h (X^N - 1) = -2 h. It takes one random h, with h_k = c^k: then h(x) = ((c x)^(N-1) - 1) / (c x - 1)
// needs no transform, and (c x)^N = -c^N on the coset. The difference of the two sums is a polynomial in c of degree N-2: points that differ pass with probability below
// 2^-226.
type basesCheck struct {
	c, minusCN fr.Element // c, -c^N
	sum        bls12381.G1Jac
	power      fr.Element // c^k of the next monomial point
	cx, w      fr.Element // c u w^i of the next point of the coset
}

func newBasesCheck(logDomain int) (*basesCheck, error) {
	b := &basesCheck{}
	u, err := fft.Generator(2 << logDomain)
	if err == nil {
		_, err = b.c.SetRandom() // from crypto/rand
	}
	if err != nil {
		return nil, &errs.Error{Class: errs.Internal, Op: "import key", Err: err}
	}
	b.power.SetOne()
	b.w.Square(&u)
	b.cx.Mul(&b.c, &u)
	b.minusCN = b.c
	for range logDomain {
		b.minusCN.Square(&b.minusCN)
	}
	b.minusCN.Neg(&b.minusCN)
	return b, nil
}

// add takes the next points of a basis.
func (b *basesCheck) add(basis groth16.HBasis, ps []bls12381.G1Affine, tasks int) error {
	if len(ps) == 0 {
		return nil
	}
	scalars := make([]fr.Element, len(ps))
	if basis == groth16.HMonomial {
		for i := range scalars {
			scalars[i] = b.power
			b.power.Mul(&b.power, &b.c)
		}
	} else {
		// 2 h(x) = 2 (-c^N - c x) / (c x (c x - 1))
		one := fr.One()
		for i := range scalars {
			scalars[i].Sub(&b.cx, &one)
			scalars[i].Mul(&scalars[i], &b.cx)
			b.cx.Mul(&b.cx, &b.w)
		}
		cx := b.cx // from the last one back
		var back fr.Element
		back.Inverse(&b.w)
		scalars = fr.BatchInvert(scalars)
		for i := len(scalars) - 1; i >= 0; i-- {
			cx.Mul(&cx, &back)
			var x fr.Element
			x.Sub(&b.minusCN, &cx)
			x.Double(&x)
			scalars[i].Mul(&scalars[i], &x)
		}
	}
	var s bls12381.G1Jac
	if _, err := s.MultiExp(ps, scalars, ecc.MultiExpConfig{NbTasks: max(1, tasks)}); err != nil {
		return &errs.Error{Class: errs.Internal, Op: "import key", Err: err}
	}
	b.sum.AddAssign(&s)
	return nil
}

func (b *basesCheck) holds() error {
	var p bls12381.G1Affine
	if p.FromJacobian(&b.sum); p.IsInfinity() {
		return nil
	}
	return errs.Mismatch(errs.InvalidFile, "import key", "H", "the same points in both bases", "different ones").
		WithHint("proofs of one of the two would not hold; make the file again with weir setup or from its source")
}
