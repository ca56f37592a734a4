package cpu

import (
	"context"
	"math/bits"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/backend-cpu/ntt"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// The quotient h = (a b - c) / (X^N - 1) from the evaluations a, b, c on D = {w^i}, in place.
//
// Each vector goes to its coefficients and on to the odd coset u D with u the root of order 2N, where X^N - 1 is -2 throughout: P = a b - c
// has the value -2 h there, and no division is left. The inverse transform leaves its result in bit-reversed order and the next one takes it
// so, which spares all permutations but one.
//
// Factors are gathered and applied to one point at the end, not to N scalars: the transforms leave out 1/N, so the vectors on the coset are N
// times too large, and what becomes of them is N^2 P; for the monomial basis another N comes from the way back, and -1/2 from the coset.
//
// For a satisfying witness deg h <= N-2. So the coefficient of X^(N-1) of h is zero; it is the remainder's, and not zero, when some row is not
// satisfied and c came from the rows of C; when several are not, it is almost always so, as what they add to it can cancel. This tells a wrong witness before
// any point is touched; what it misses, the check of the proof finds. Where c was made as a b it is always zero.

// quotient turns a into the scalars of the H points of a key with domain d, up to the factor that it returns: N evaluations of P (odd coset),
// or the N coefficients of h in natural order, of which the last is zero (monomial). b and c are spoiled.
func quotient(ctx context.Context, d *ntt.Domain, basis groth16.HBasis, a, b, c []fr.Element, tasks int) (factor fr.Element, err error) {
	for _, v := range [][]fr.Element{a, b, c} {
		if err := d.Inverse(ctx, v, tasks); err != nil {
			return factor, err
		}
		if err := d.ForwardCosetReversed(ctx, v, tasks); err != nil {
			return factor, err
		}
	}
	n := fr.NewElement(uint64(len(a)))
	parallel.Parts(len(a), tasks, least, func(lo, hi int) {
		var t fr.Element
		for i := lo; i < hi; i++ {
			t.Mul(&c[i], &n)
			a[i].Mul(&a[i], &b[i])
			a[i].Sub(&a[i], &t)
		}
	})
	if err := ctx.Err(); err != nil {
		return factor, err
	}
	factor = d.SizeInverse()
	if basis == groth16.HOddCoset {
		if last := lastOnCoset(a, tasks); !last.IsZero() {
			return factor, unsatisfied()
		}
		factor.Square(&factor)
		return factor, nil
	}
	if err := d.InverseCoset(ctx, a, tasks); err != nil {
		return factor, err
	}
	reverse(a, tasks)
	if !a[len(a)-1].IsZero() {
		return factor, unsatisfied()
	}
	cube := factor
	factor.Square(&factor).Mul(&factor, &cube)
	factor.Halve()
	factor.Neg(&factor)
	return factor, nil
}

// least is for how many elements a goroutine is worth its start.
const least = 1 << 10

func unsatisfied() error {
	return errs.New(errs.Unsatisfied, "prove", "the evaluations do not belong to a satisfying witness: the quotient is no polynomial").
		WithHint("check the witness against the circuit (weir key check --key KEY --circuit R1CS --witness WTNS); the witness may belong to another circuit")
}

// reverse puts a into bit-reversed order. The pair (i, j) is swapped by whoever has the smaller index.
func reverse(a []fr.Element, tasks int) {
	shift := 64 - bits.TrailingZeros(uint(len(a)))
	parallel.Parts(len(a), tasks, least, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			if j := int(bits.Reverse64(uint64(i)) >> shift); i < j {
				a[i], a[j] = a[j], a[i]
			}
		}
	})
}

// lastOnCoset is the coefficient of X^(N-1) of the polynomial with values v on the coset, up to a factor that is not zero: the sum of
// v_i w^i.
func lastOnCoset(v []fr.Element, tasks int) fr.Element {
	w := ntt.Root(bits.TrailingZeros(uint(len(v))))
	var mu sync.Mutex
	var total fr.Element
	parallel.Parts(len(v), tasks, least, func(lo, hi int) {
		// Horner from the end, then the power of the first
		var sum fr.Element
		for i := hi - 1; i >= lo; i-- {
			sum.Mul(&sum, &w).Add(&sum, &v[i])
		}
		first := power(w, uint64(lo))
		sum.Mul(&sum, &first)
		mu.Lock()
		total.Add(&total, &sum)
		mu.Unlock()
	})
	return total
}

// power is w^e.
func power(w fr.Element, e uint64) fr.Element {
	r := fr.One()
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r.Mul(&r, &w)
		}
		w.Square(&w)
	}
	return r
}
