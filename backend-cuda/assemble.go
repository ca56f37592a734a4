package cuda

import (
	"fmt"
	"math/big"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// sums are the five sums of a proof.
type sums struct {
	g1 [nbSections]bls.G1Jac // but B2
	b2 bls.G2Jac
}

// add reads the parts of all sums, in the order of the sections, and adds them up. The points of the device are checked to be on the curve: a device whose memory
// or kernels are broken is found here, before the host's check of the proof, which cannot tell a broken device from a broken key.
func (x *sums) add(raw []byte, k *key) error {
	*x = sums{}
	for i, c := range sectionCounts(&k.shape) {
		s := section(i)
		n := k.plan.pieces(s, c) * cudalib.MSMParts
		part := raw[:int64(n)*s.pointBytes()]
		raw = raw[len(part):]
		if s == sectionB2 {
			points, err := slab.View[bls.G2Affine](part)
			if err != nil {
				return err
			}
			for j := range points {
				if !points[j].IsOnCurve() {
					return offCurve(s, k)
				}
				x.b2.AddMixed(&points[j])
			}
			continue
		}
		points, err := slab.View[bls.G1Affine](part)
		if err != nil {
			return err
		}
		for j := range points {
			if !points[j].IsOnCurve() {
				return offCurve(s, k)
			}
			x.g1[s].AddMixed(&points[j])
		}
	}
	return nil
}

func offCurve(s section, k *key) error {
	e := errs.Mismatch(errs.Unavailable, "check results", fmt.Sprintf("sum over %v", s), "a point of the curve", "another").
		WithHint("the device may be faulty (memory errors, overclocking); test it, or the key file holds points that are none (weir key check)")
	e.Retryable = true
	return e
}

// assemble puts the sums together.
func (x *sums) assemble(vk *groth16.VerifyingKey, rnd *groth16.Randomness) *groth16.Proof {
	var r, s, rs big.Int
	var t fr.Element
	rnd.R.BigInt(&r)
	rnd.S.BigInt(&s)
	t.Mul(&rnd.R, &rnd.S).Neg(&t)
	t.BigInt(&rs)
	defer func() {
		for _, e := range []*big.Int{&r, &s, &rs} {
			words := e.Bits()
			clear(words[:cap(words)])
		}
		t.SetZero()
	}()
	var delta bls.G1Jac
	delta.FromAffine(&vk.DeltaG1)
	times := func(p *bls.G1Jac, k *big.Int) *bls.G1Jac { return new(bls.G1Jac).ScalarMultiplication(p, k) }

	a := x.g1[sectionA]
	a.AddMixed(&vk.AlphaG1)
	a.AddAssign(times(&delta, &r))

	b1 := x.g1[sectionB1]
	b1.AddMixed(&vk.BetaG1)
	b1.AddAssign(times(&delta, &s))

	b2 := x.b2
	b2.AddMixed(&vk.BetaG2)
	var d2 bls.G2Jac
	d2.FromAffine(&vk.DeltaG2)
	d2.ScalarMultiplication(&d2, &s)
	b2.AddAssign(&d2)

	c := x.g1[sectionK]
	c.AddAssign(&x.g1[sectionH])
	c.AddAssign(times(&a, &s))
	c.AddAssign(times(&b1, &r))
	c.AddAssign(times(&delta, &rs))

	var out groth16.Proof
	out.A.FromJacobian(&a)
	out.B.FromJacobian(&b2)
	out.C.FromJacobian(&c)
	return &out
}
