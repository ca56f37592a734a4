package cuda

import (
	"errors"
	"fmt"
	"math/big"
	"sync"
	"unsafe"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// sums are the five sums of a proof.
type sums struct {
	g1 [nbSections]bls.G1Jac // but B2
	b2 bls.G2Jac
}

// add reads the parts of all sums, in the order of the sections, and puts them together. windows has the shapes of each section's pieces. The points of the device are
// checked to be on the curve: a device whose memory or kernels are broken is found here, before the host's check of the proof, which cannot tell a broken device
// from a broken key.
func (x *sums) add(raw []byte, k *key, windows *[nbSections][]cudalib.Windows) error {
	*x = sums{}
	var wg sync.WaitGroup
	var bad [nbSections]error
	for s := range nbSections {
		bytes := cudalib.ResultBytes(s.group())
		parts := raw[:int64(len(windows[s]))*bytes]
		raw = raw[len(parts):]
		wg.Go(func() {
			for _, w := range windows[s] {
				piece := parts[:bytes]
				parts = parts[bytes:]
				if s == sectionB2 {
					p, ok := sumG2(piece, w)
					x.b2.AddAssign(&p)
					if !ok {
						bad[s] = offCurve(s, k)
					}
					continue
				}
				p, ok := sumG1(piece, w)
				x.g1[s].AddAssign(&p)
				if !ok {
					bad[s] = offCurve(s, k)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(bad[:]...)
}

// xyzz is a point of coordinates X/ZZ, Y/ZZZ, at infinity where ZZ = 0.
type xyzz[F any] struct{ X, Y, ZZ, ZZZ F }

// sumG1 puts the parts of a sum together, by Horner's rule. It reports whether all are points of the curve. raw is aligned to 8 bytes.
func sumG1(raw []byte, w cudalib.Windows) (sum bls.G1Jac, ok bool) {
	ok = true
	windows := unsafe.Slice((*xyzz[fp.Element])(unsafe.Pointer(&raw[g1Bytes])), w.N)
	for i := w.N - 1; i >= 0; i-- {
		for range w.Bits {
			sum.DoubleAssign()
		}
		p := &windows[i]
		if p.ZZ.IsZero() {
			continue
		}
		// Jacobian, Z = ZZZ: X/ZZ = X ZZ^2/ZZZ^2, as ZZ^3 = ZZZ^2.
		j := bls.G1Jac{Z: p.ZZZ}
		j.X.Mul(&p.X, &p.ZZ).Mul(&j.X, &p.ZZ)
		j.Y.Mul(&p.Y, &p.ZZZ).Mul(&j.Y, &p.ZZZ)
		ok = ok && j.IsOnCurve()
		sum.AddAssign(&j)
	}
	point := (*bls.G1Affine)(unsafe.Pointer(&raw[0]))
	sum.AddMixed(point)
	return sum, ok && point.IsOnCurve()
}

// sumG2 is sumG1 in G2.
func sumG2(raw []byte, w cudalib.Windows) (sum bls.G2Jac, ok bool) {
	ok = true
	windows := unsafe.Slice((*xyzz[bls.E2])(unsafe.Pointer(&raw[g2Bytes])), w.N)
	for i := w.N - 1; i >= 0; i-- {
		for range w.Bits {
			sum.DoubleAssign()
		}
		p := &windows[i]
		if p.ZZ.IsZero() {
			continue
		}
		j := bls.G2Jac{Z: p.ZZZ}
		j.X.Mul(&p.X, &p.ZZ).Mul(&j.X, &p.ZZ)
		j.Y.Mul(&p.Y, &p.ZZZ).Mul(&j.Y, &p.ZZZ)
		ok = ok && j.IsOnCurve()
		sum.AddAssign(&j)
	}
	point := (*bls.G2Affine)(unsafe.Pointer(&raw[0]))
	sum.AddMixed(point)
	return sum, ok && point.IsOnCurve()
}

func offCurve(s section, k *key) error {
	e := errs.Mismatch(errs.Unavailable, "check results", fmt.Sprintf("sum over %v", s), "a point of the curve", "another").
		WithHint("the device may be faulty (memory errors, overclocking); test it, or the key file holds points that are none (weir key check)")
	e.Retryable = true
	return e
}

// masks are the multiples of delta that hide the witness, made beside the device's work.
type masks struct {
	r, s, rs bls.G1Jac // r delta, s delta, -r s delta
	s2       bls.G2Jac // s delta
}

func (m *masks) make(vk *groth16.VerifyingKey, rnd *groth16.Randomness) {
	var t fr.Element
	t.Mul(&rnd.R, &rnd.S).Neg(&t)
	var delta bls.G1Jac
	delta.FromAffine(&vk.DeltaG1)
	times(&m.r, &delta, &rnd.R)
	times(&m.s, &delta, &rnd.S)
	times(&m.rs, &delta, &t)
	t.SetZero()
	m.s2.FromAffine(&vk.DeltaG2)
	var k big.Int
	rnd.S.BigInt(&k)
	m.s2.ScalarMultiplication(&m.s2, &k)
	forget(&k)
}

// times sets z = k p.
func times(z, p *bls.G1Jac, k *fr.Element) {
	var n big.Int
	k.BigInt(&n)
	z.ScalarMultiplication(p, &n)
	forget(&n)
}

// forget overwrites a secret number.
func forget(k *big.Int) {
	words := k.Bits()
	clear(words[:cap(words)])
}

// assemble puts the sums together.
func (x *sums) assemble(vk *groth16.VerifyingKey, rnd *groth16.Randomness, m *masks) *groth16.Proof {
	a := x.g1[sectionA]
	a.AddMixed(&vk.AlphaG1)
	a.AddAssign(&m.r)

	b1 := x.g1[sectionB1]
	b1.AddMixed(&vk.BetaG1)
	b1.AddAssign(&m.s)

	b2 := x.b2
	b2.AddMixed(&vk.BetaG2)
	b2.AddAssign(&m.s2)

	var sa, rb bls.G1Jac
	var wg sync.WaitGroup
	wg.Go(func() { times(&sa, &a, &rnd.S) })
	times(&rb, &b1, &rnd.R)
	wg.Wait()

	c := x.g1[sectionK]
	c.AddAssign(&x.g1[sectionH])
	c.AddAssign(&sa)
	c.AddAssign(&rb)
	c.AddAssign(&m.rs)

	var out groth16.Proof
	out.A.FromJacobian(&a)
	out.B.FromJacobian(&b2)
	out.C.FromJacobian(&c)
	return &out
}
