package cpu

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// The quotient h = (a b - c) / (X^N - 1) from the evaluations a, b, c on D = {w^i}, in place.
//
// Each vector goes to its coefficients and on to the odd coset u D with u the root of order 2N, where X^N - 1 is -2 throughout: P = a b - c
// has the value -2 h there, and no division is left. The inverse transform leaves its result in bit-reversed order and the next one takes it
// so, which spares all permutations but one.
//
// For a satisfying witness deg h <= N-2. So the coefficient of X^(N-1) of h is zero; it is the remainder's, and not zero, when some row is not
// satisfied and c came from the rows of C. This tells a wrong witness before any point is touched. Where c was made as a b it is always zero.

// halfNegated is -1/2.
var halfNegated = func() fr.Element {
	var x fr.Element
	x.SetUint64(2)
	x.Inverse(&x)
	x.Neg(&x)
	return x
}()

// quotient turns a into the scalars of the H points of a key with domain d: N evaluations of P (odd coset), or the N coefficients of h
// in natural order, of which the last is zero (monomial). b and c are spoiled.
func quotient(ctx context.Context, d *domain, basis groth16.HBasis, a, b, c []fr.Element, tasks int) error {
	for _, v := range [][]fr.Element{a, b, c} {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.toCoset(v, tasks)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	parallel(len(a), tasks, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			a[i].Mul(&a[i], &b[i])
			a[i].Sub(&a[i], &c[i])
		}
	})
	if basis == groth16.HOddCoset {
		if last := d.lastOnCoset(a, tasks); !last.IsZero() {
			return unsatisfied()
		}
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.fromCoset(a, tasks)
	parallel(len(a), tasks, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			a[i].Mul(&a[i], &halfNegated)
		}
	})
	if !a[len(a)-1].IsZero() {
		return unsatisfied()
	}
	return nil
}

func unsatisfied() error {
	return errs.New(errs.Unsatisfied, "prove", "the evaluations do not belong to a satisfying witness: the quotient is no polynomial").
		WithHint("check the witness against the circuit (weir key check --circuit); the witness may belong to another circuit")
}

// domain has the tables of one domain size.
type domain struct {
	fft *fft.Domain
	w   fr.Element
}

func newDomain(log int) *domain {
	n := uint64(1) << log
	u, err := fft.Generator(2 * n)
	if err != nil {
		panic(err) // log is at most 28
	}
	d := fft.NewDomain(n, fft.WithShift(u))
	return &domain{fft: d, w: d.Generator}
}

func (d *domain) toCoset(v []fr.Element, tasks int) {
	if len(v) == 1 {
		return
	}
	d.fft.FFTInverse(v, fft.DIF, fft.WithNbTasks(tasks))
	d.fft.FFT(v, fft.DIT, fft.OnCoset(), fft.WithNbTasks(tasks))
}

func (d *domain) fromCoset(v []fr.Element, tasks int) {
	if len(v) == 1 {
		return
	}
	d.fft.FFTInverse(v, fft.DIF, fft.OnCoset(), fft.WithNbTasks(tasks))
	fft.BitReverse(v)
}

// lastOnCoset is the coefficient of X^(N-1) of the polynomial with values v on the coset, up to a factor that is not zero: the sum of
// v_i w^i.
func (d *domain) lastOnCoset(v []fr.Element, tasks int) fr.Element {
	var sum, power, t fr.Element
	power.SetOne()
	for i := range v {
		t.Mul(&v[i], &power)
		sum.Add(&sum, &t)
		power.Mul(&power, &d.w)
	}
	return sum
}
