package affine

import (
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// G2 is the Kernel of G2.
type G2 struct {
	den  []bls12381.E2 // what pair j divides by
	suf  []bls12381.E2 // product of the divisors after pair j
	kind []uint8
}

// G2ScratchBytes is the memory that a G2 kernel takes for each pair of its batch size.
const G2ScratchBytes = 4*fp.Bytes + 1

// NewG2 makes a kernel that adds batches of up to n pairs at once; longer lists are cut.
func NewG2(n int) *G2 {
	return &G2{den: make([]bls12381.E2, n), suf: make([]bls12381.E2, n), kind: make([]uint8, n)}
}

// Gather implements Kernel.
func (k *G2) Gather(dst, src []bls12381.G2Affine, idx []uint32) {
	dst = dst[:len(idx)]
	for j, i := range idx {
		dst[j] = src[i&^Negate]
	}
	for j, i := range idx {
		if i&Negate != 0 {
			dst[j].Y.Neg(&dst[j].Y)
		}
	}
}

// Add implements Kernel.
func (k *G2) Add(dst, a, b []bls12381.G2Affine, pairs []Pair) {
	for n := len(k.den); len(pairs) > n; {
		k.batch(dst[:n], a, b, pairs[:n])
		dst, pairs = dst[n:], pairs[n:]
	}
	k.batch(dst[:len(pairs)], a, b, pairs)
}

// batch adds at most len(k.den) pairs. It walks them backwards to collect the products of the divisors and forwards to add, so that
// results may overwrite operands of earlier pairs.
func (k *G2) batch(dst, a, b []bls12381.G2Affine, pairs []Pair) {
	n := len(pairs)
	den, suf, kind := k.den[:n], k.suf[:n], k.kind[:n]
	var inv bls12381.E2
	inv.SetOne()
	for j := n - 1; j >= 0; j-- {
		p := pairs[j]
		if p.B == None {
			kind[j] = first
			continue
		}
		pa, pb, d := &a[p.A], &b[p.B], &den[j]
		d.Sub(&pb.X, &pa.X)
		if d.IsZero() || pa.X.A0[0] == 0 || pb.X.A0[0] == 0 {
			if kind[j] = classifyG2(d, pa, pb); kind[j] != generic && kind[j] != doubling {
				continue
			}
		} else {
			kind[j] = generic
		}
		suf[j] = inv
		inv.Mul(&inv, d)
	}
	inv.Inverse(&inv)
	var l, x, y bls12381.E2
	for j := range pairs {
		p, z := pairs[j], &dst[j]
		pa := &a[p.A]
		switch kind[j] {
		case first:
			*z = *pa
			continue
		case second:
			*z = b[p.B]
			continue
		case infinity:
			z.SetInfinity()
			continue
		case doubling:
			x.Square(&pa.X)
			y.Double(&x)
			y.Add(&y, &x)
		default:
			y.Sub(&b[p.B].Y, &pa.Y)
		}
		// with l the slope: x3 = l^2 - x1 - x2, y3 = l(x1 - x3) - y1
		l.Mul(&inv, &suf[j])
		inv.Mul(&inv, &den[j])
		l.Mul(&l, &y)
		x.Square(&l)
		x.Sub(&x, &pa.X)
		x.Sub(&x, &b[p.B].X)
		y.Sub(&pa.X, &x)
		l.Mul(&l, &y)
		z.Y.Sub(&l, &pa.Y)
		z.X = x
	}
}

// classifyG2 tells how to add a pair that may be special; d comes in as the difference of x and leaves as the divisor.
func classifyG2(d *bls12381.E2, a, b *bls12381.G2Affine) uint8 {
	switch {
	case a.IsInfinity():
		return second
	case b.IsInfinity():
		return first
	case !d.IsZero():
		return generic
	case !a.Y.Equal(&b.Y) || a.Y.IsZero():
		return infinity
	}
	d.Double(&a.Y)
	return doubling
}
