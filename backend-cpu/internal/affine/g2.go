package affine

import (
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// g2Kernel is the Kernel of G2 that works with gnark-crypto's field.
type g2Kernel struct {
	den  []bls12381.E2 // what pair j divides by
	suf  []bls12381.E2 // product of the divisors after pair j
	kind []uint8
}

// scratchG2 is the memory that it takes for each pair of its batch size.
const scratchG2 = 4*fp.Bytes + 1

func newG2(n int) *g2Kernel {
	return &g2Kernel{den: make([]bls12381.E2, n), suf: make([]bls12381.E2, n), kind: make([]uint8, n)}
}

// Copy implements Kernel.
func (k *g2Kernel) Copy(dst, src []bls12381.G2Affine, to, from []uint32) {
	for j, i := range from { // nothing else, so that the processor fetches many points at a time
		dst[to[j]] = src[i&^Negate]
	}
	for j, i := range from {
		y := &dst[to[j]].Y
		signed2(y, y, i)
	}
}

// Near implements Kernel.
func (k *g2Kernel) Near() bool { return true }

// Add implements Kernel.
func (k *g2Kernel) Add(dst, a, b []bls12381.G2Affine, ops Ops) {
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
func (k *g2Kernel) batch(dst, a, b []bls12381.G2Affine, ops Ops) {
	n := len(ops.Dst)
	den, suf, kind := k.den[:n], k.suf[:n], k.kind[:n]
	var inv bls12381.E2
	inv.SetOne()
	for j := n - 1; j >= 0; j-- {
		if ops.B[j] == none {
			kind[j] = first
			continue
		}
		pa, pb, d := &a[ops.A[j]&^Negate], &b[ops.B[j]&^Negate], &den[j]
		d.Sub(&pb.X, &pa.X)
		if d.IsZero() || pa.X.A0[0] == 0 || pb.X.A0[0] == 0 {
			if kind[j] = classifyG2(d, pa, pb, (ops.A[j]^ops.B[j])&Negate != 0); kind[j] != generic && kind[j] != doubling {
				continue
			}
		} else {
			kind[j] = generic
		}
		suf[j] = inv
		inv.Mul(&inv, d)
	}
	inv.Inverse(&inv)
	var l, x, y, negA, negB bls12381.E2
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
			y.Sub(yb, ya)
		}
		// with l the slope: x3 = l^2 - x1 - x2, y3 = l(x1 - x3) - y1
		l.Mul(&inv, &suf[j])
		inv.Mul(&inv, &den[j])
		l.Mul(&l, &y)
		x.Square(&l)
		x.Sub(&x, &pa.X)
		x.Sub(&x, &pb.X)
		y.Sub(&pa.X, &x)
		l.Mul(&l, &y)
		z.Y.Sub(&l, ya)
		z.X = x
	}
}

// classifyG2 tells how to add a pair that may be special, of which one is negated if so said; d comes in as the difference of x and leaves as the divisor, but
// for the sign of a.
func classifyG2(d *bls12381.E2, a, b *bls12381.G2Affine, negated bool) uint8 {
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
