package ntt

import (
	"context"
	"math/bits"
	"runtime"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/sdk/errs"
)

const (
	leafLog = 11 // blocks of up to 2^11 elements, 64 KiB, are finished level by level
	tile    = 64 // elements of each of four vectors that one step of a pass works on
	pieces  = 8  // pieces of work for each task, so that a slow one holds nobody up
)

func (d *Domain) check(a []fr.Element) error {
	if len(a) != d.n {
		return errs.Mismatch(errs.InvalidArgument, "transform", "elements", d.n, len(a))
	}
	return nil
}

// factor returns the twiddle factor of block b, or its inverse: rev b mirrored at a quarter turn, with a minus.
func (d *Domain) factor(b int, inverse bool) fr.Element {
	if !inverse || b == 0 {
		return d.twiddle[b]
	}
	var t fr.Element
	t.Neg(&d.twiddle[mirror(b)])
	return t
}

// mirror reverses the order between powers of 2: T[mirror(b)] = -1/T[b] for b > 0.
func mirror(b int) int { return 3<<(bits.Len(uint(b))-1) - 1 - b }

// factors are those of the two levels of a pass over block b.
type factors struct {
	t1, t2, t3 fr.Element // of the block, and of its first and second half
	trivial    bool       // t1 = t2 = 1
	shift      *fr.Element
}

func (d *Domain) factors(b int, inverse bool) factors {
	return factors{d.factor(b, inverse), d.factor(2*b, inverse), d.factor(2*b+1, inverse), b == 0, nil}
}

// levels splits k into passes of two levels over memory and a rest that fits into the cache.
func (d *Domain) levels() (passes, leaf int) {
	for leaf = d.log; leaf > leafLog; leaf -= 2 {
		passes++
	}
	return passes, leaf
}

// shared is the number of passes that all tasks do together before (or after) they work on blocks of their own.
func shared(passes, tasks int) int {
	s := 0
	for s < passes && 1<<(2*s) < pieces*tasks {
		s++
	}
	return s
}

// scatter goes from natural to bit-reversed order.
func (d *Domain) scatter(ctx context.Context, a []fr.Element, tasks int, inverse, coset bool) error {
	if err := d.check(a); err != nil {
		return err
	}
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	passes, leaf := d.levels()
	common := shared(passes, tasks)
	for p := range common {
		if err := d.pass(ctx, a, p, tasks, inverse, coset, scatter4); err != nil {
			return err
		}
	}
	size := d.n >> (2 * common)
	return parallel.Run(ctx, d.n/size, tasks, func(b int) {
		d.scatterBlock(a[b*size:(b+1)*size], b, leaf, inverse, coset)
	})
}

func (d *Domain) scatterBlock(a []fr.Element, b, leaf int, inverse, coset bool) {
	if len(a) > 1<<leaf {
		f := d.factors(b, inverse)
		q := len(a) / 4
		scatter4(a[:q], a[q:2*q], a[2*q:3*q], a[3*q:], &f)
		for i := range 4 {
			d.scatterBlock(a[i*q:(i+1)*q], 4*b+i, leaf, inverse, coset)
		}
		return
	}
	first := b * len(a) // of the block's elements
	size := len(a)
	for ; size >= 4; size /= 4 {
		q := size / 4
		for i := 0; i < len(a); i += size {
			f := d.factors((first+i)/size, inverse)
			x := a[i : i+size]
			scatter4(x[:q], x[q:2*q], x[2*q:3*q], x[3*q:], &f)
		}
	}
	if size == 2 {
		for i := 0; i < len(a); i += 2 {
			t := d.factor((first+i)/2, inverse)
			a[i+1].Mul(&a[i+1], &t)
			fr.Butterfly(&a[i], &a[i+1])
		}
	}
	if coset {
		d.unshift(a, first)
	}
}

// gather goes from bit-reversed to natural order, by the transposed steps.
func (d *Domain) gather(ctx context.Context, a []fr.Element, tasks int, inverse, coset bool) error {
	if err := d.check(a); err != nil {
		return err
	}
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	passes, leaf := d.levels()
	common := shared(passes, tasks)
	size := d.n >> (2 * common)
	err := parallel.Run(ctx, d.n/size, tasks, func(b int) {
		d.gatherBlock(a[b*size:(b+1)*size], b, leaf, inverse, coset)
	})
	for p := common - 1; p >= 0 && err == nil; p-- {
		err = d.pass(ctx, a, p, tasks, inverse, coset, gather4)
	}
	return err
}

func (d *Domain) gatherBlock(a []fr.Element, b, leaf int, inverse, coset bool) {
	if len(a) > 1<<leaf {
		q := len(a) / 4
		for i := range 4 {
			d.gatherBlock(a[i*q:(i+1)*q], 4*b+i, leaf, inverse, coset)
		}
		f := d.factors(b, inverse)
		gather4(a[:q], a[q:2*q], a[2*q:3*q], a[3*q:], &f)
		return
	}
	first := b * len(a)
	if coset {
		d.shift(a, first)
	}
	size := 2
	if bits.TrailingZeros(uint(len(a)))%2 == 1 {
		for i := 0; i < len(a); i += 2 {
			t := d.factor((first+i)/2, inverse)
			fr.Butterfly(&a[i], &a[i+1])
			a[i+1].Mul(&a[i+1], &t)
		}
		size = 8
	} else {
		size = 4
	}
	for ; size <= len(a); size *= 4 {
		q := size / 4
		for i := 0; i < len(a); i += size {
			f := d.factors((first+i)/size, inverse)
			x := a[i : i+size]
			gather4(x[:q], x[q:2*q], x[2*q:3*q], x[3*q:], &f)
		}
	}
}

// pass does pass p over all blocks, the tasks sharing the work. In the coset transforms the first pass has the shift of the upper half, see shift.
func (d *Domain) pass(ctx context.Context, a []fr.Element, p, tasks int, inverse, coset bool, f4 func(x0, x1, x2, x3 []fr.Element, f *factors)) error {
	blocks := 1 << (2 * p)
	size := d.n / blocks
	q := size / 4
	step := max(tile, q*blocks/(pieces*tasks))
	step = min(step, q)
	each := (q + step - 1) / step
	return parallel.Run(ctx, blocks*each, tasks, func(i int) {
		b, lo := i/each, i%each*step
		hi := min(lo+step, q)
		f := d.factors(b, inverse)
		if coset && p == 0 {
			f.shift = &d.u
			if inverse {
				f.shift = &d.uInv
			}
		}
		x := a[b*size : (b+1)*size]
		f4(x[lo:hi], x[q+lo:q+hi], x[2*q+lo:2*q+hi], x[3*q+lo:3*q+hi], &f)
	})
}

// shift multiplies the coefficients at bit-reversed places first, first+1, ... by their powers of u, which are T[p]. The table ends at N/2; places from
// there on have one more factor u, which the last pass puts in (or this function, where there are no passes).
func (d *Domain) shift(a []fr.Element, first int) {
	half := d.n / 2
	if len(a) == d.n {
		for p := 1; p < d.n; p++ {
			if p < half {
				a[p].Mul(&a[p], &d.twiddle[p])
			} else {
				a[p].Mul(&a[p], &d.twiddle[p-half])
				a[p].Mul(&a[p], &d.u)
			}
		}
		return
	}
	v := fr.Vector(a)
	v.Mul(v, fr.Vector(d.twiddle[first%half:][:len(a)]))
}

// unshift undoes shift; the first pass has put in the inverse of u for the upper half.
func (d *Domain) unshift(a []fr.Element, first int) {
	half := d.n / 2
	whole := len(a) == d.n
	for i := range a {
		p := first + i
		if p >= half && half > 0 {
			p -= half
			if whole {
				a[i].Mul(&a[i], &d.uInv)
			}
		}
		if p > 0 {
			a[i].Mul(&a[i], &d.twiddle[mirror(p)])
			a[i].Neg(&a[i])
		}
	}
}

// scatter4 does two levels on the four quarters of a block (or equal parts of them): multiply, then butterfly.
func scatter4(x0, x1, x2, x3 []fr.Element, f *factors) {
	for lo := 0; lo < len(x0); lo += tile {
		hi := min(lo+tile, len(x0))
		a0, a1, a2, a3 := x0[lo:hi], x1[lo:hi], x2[lo:hi], x3[lo:hi]
		if !f.trivial {
			mulVec(a2, a2, &f.t1)
			mulVec(a3, a3, &f.t1)
		}
		butterflies(a0, a2)
		butterflies(a1, a3)
		switch {
		case f.shift != nil:
			var t fr.Element
			t.Mul(&f.t3, f.shift)
			mulVec(a2, a2, f.shift)
			mulVec(a3, a3, &t)
		case f.trivial:
			mulVec(a3, a3, &f.t3)
		default:
			mulVec(a1, a1, &f.t2)
			mulVec(a3, a3, &f.t3)
		}
		butterflies(a0, a1)
		butterflies(a2, a3)
	}
}

// gather4 is scatter4 transposed: butterfly, then multiply.
func gather4(x0, x1, x2, x3 []fr.Element, f *factors) {
	for lo := 0; lo < len(x0); lo += tile {
		hi := min(lo+tile, len(x0))
		a0, a1, a2, a3 := x0[lo:hi], x1[lo:hi], x2[lo:hi], x3[lo:hi]
		butterflies(a0, a1)
		butterflies(a2, a3)
		switch {
		case f.shift != nil:
			var t fr.Element
			t.Mul(&f.t3, f.shift)
			mulVec(a2, a2, f.shift)
			mulVec(a3, a3, &t)
		case f.trivial:
			mulVec(a3, a3, &f.t3)
		default:
			mulVec(a1, a1, &f.t2)
			mulVec(a3, a3, &f.t3)
		}
		butterflies(a0, a2)
		butterflies(a1, a3)
		if !f.trivial {
			mulVec(a2, a2, &f.t1)
			mulVec(a3, a3, &f.t1)
		}
	}
}

func butterflies(a, b []fr.Element) {
	b = b[:len(a)]
	for i := range a {
		fr.Butterfly(&a[i], &b[i])
	}
}

// mulVec sets z = x t. Longer vectors go through the library's vector product, which uses wide registers where there are any.
func mulVec(z, x []fr.Element, t *fr.Element) {
	if len(x) >= 16 {
		v := fr.Vector(z)
		v.ScalarMul(fr.Vector(x), t)
		return
	}
	x = x[:len(z)]
	for i := range z {
		z[i].Mul(&x[i], t)
	}
}
