package affine

import (
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// g1Kernel is the Kernel of G1 that works with gnark-crypto's field.
type g1Kernel struct {
	den  []fp.Element // what pair j divides by
	suf  []fp.Element // product of the divisors after pair j
	kind []uint8
}

// scratchG1 is the memory that it takes for each pair of its batch size.
const scratchG1 = 2*fp.Bytes + 1

func newG1(n int) *g1Kernel {
	return &g1Kernel{den: make([]fp.Element, n), suf: make([]fp.Element, n), kind: make([]uint8, n)}
}

// Copy implements Kernel.
func (k *g1Kernel) Copy(dst, src []bls12381.G1Affine, to, from []uint32) {
	for j, i := range from { // nothing else, so that the processor fetches many points at a time
		dst[to[j]] = src[i&^Negate]
	}
	for j, i := range from {
		y := &dst[to[j]].Y
		signed(y, y, i)
	}
}

// Near implements Kernel.
func (k *g1Kernel) Near() bool { return true }

// Add implements Kernel.
func (k *g1Kernel) Add(dst, a, b []bls12381.G1Affine, ops Ops) {
	if len(ops.Dst) == 0 {
		return
	}
	n := len(k.den)
	for ; len(ops.Dst) > n; ops = ops.Slice(n, len(ops.Dst)) {
		k.batch(dst, a, b, ops.Slice(0, n))
	}
	k.batch(dst, a, b, ops)
}

// batch adds at most len(k.den) pairs. It walks them backwards to collect the products of the divisors and forwards to add,
// so that a result may overwrite an operand of itself or of an earlier pair.
func (k *g1Kernel) batch(dst, a, b []bls12381.G1Affine, ops Ops) {
	n := len(ops.Dst)
	den, suf, kind := k.den[:n], k.suf[:n], k.kind[:n]
	inv := fp.One()
	for j := n - 1; j >= 0; j-- {
		if ops.B[j] == none {
			kind[j] = first
			continue
		}
		pa, pb, d := &a[ops.A[j]&^Negate], &b[ops.B[j]&^Negate], &den[j]
		sub(d, &pb.X, &pa.X)
		if d.IsZero() || pa.X[0] == 0 || pb.X[0] == 0 {
			if kind[j] = classifyG1(d, pa, pb, (ops.A[j]^ops.B[j])&Negate != 0); kind[j] != generic && kind[j] != doubling {
				continue
			}
		} else {
			kind[j] = generic
		}
		suf[j] = inv
		inv.Mul(&inv, d)
	}
	inv.Inverse(&inv)
	var l, x, y, negA, negB fp.Element
	for j, to := range ops.Dst {
		pa, z := &a[ops.A[j]&^Negate], &dst[to]
		ya := &pa.Y // after a Copy no index asks for an opposite
		if ops.A[j]&Negate != 0 {
			ya = negA.Neg(ya)
		}
		if kind[j] == first {
			z.X, z.Y = pa.X, *ya
			continue
		}
		pb := &b[ops.B[j]&^Negate]
		yb := &pb.Y
		if ops.B[j]&Negate != 0 {
			yb = negB.Neg(yb)
		}
		switch kind[j] {
		case second:
			z.X, z.Y = pb.X, *yb
			continue
		case infinity:
			z.SetInfinity()
			continue
		case doubling:
			x.Square(&pa.X)
			y.Double(&x)
			y.Add(&y, &x)
			if ops.A[j]&Negate != 0 { // the divisor is 2y of the point as it lies
				y.Neg(&y)
			}
		default:
			sub(&y, yb, ya)
		}
		// with l the slope: x3 = l^2 - x1 - x2, y3 = l(x1 - x3) - y1
		l.Mul(&inv, &suf[j])
		inv.Mul(&inv, &den[j])
		l.Mul(&l, &y)
		x.Square(&l)
		sub(&x, &x, &pa.X)
		sub(&x, &x, &pb.X)
		sub(&y, &pa.X, &x)
		l.Mul(&l, &y)
		sub(&z.Y, &l, ya)
		z.X = x
	}
}

// classifyG1 tells how to add a pair that may be special, of which one is negated if so said; d comes in as the difference of x and leaves as the divisor, but
// for the sign of a.
func classifyG1(d *fp.Element, a, b *bls12381.G1Affine, negated bool) uint8 {
	switch {
	case a.IsInfinity():
		return second
	case b.IsInfinity():
		return first
	case !d.IsZero():
		return generic
	case a.Y.Equal(&b.Y) == negated || a.Y.IsZero():
		return infinity
	}
	d.Double(&a.Y)
	return doubling
}
