package setup

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// batch is how many inversions share one, and how many elements a goroutine is worth.
const batch = 1 << 10

// lagrange sets values[i] = L_i(tau) = (tau^N - 1)/N * w^i / (tau - w^i).
func (m *maker) lagrange() error {
	m.progress("lagrange")
	w, err := fft.Generator(uint64(m.n))
	if err != nil {
		return err
	}
	var one fr.Element
	one.SetOne()
	m.basis(m.values, 0, &one, &w, m.n)
	return m.ctx.Err()
}

// basis sets out[i] to the value at tau of the Lagrange polynomial of x_{lo+i} among all roots of unity of order n, x_j = shift w^j. The order of
// w is n or a divisor of it.
func (m *maker) basis(out []fr.Element, lo int, shift, w *fr.Element, n int) {
	tau := &m.opts.Scalars.Tau
	var factor, inverse fr.Element
	factor = *tau
	for k := n; k > 1; k /= 2 {
		factor.Square(&factor)
	}
	one := fr.One()
	factor.Sub(&factor, &one)
	inverse.SetUint64(uint64(n))
	inverse.Inverse(&inverse)
	factor.Mul(&factor, &inverse)
	parallel.Parts(len(out), m.tasks, batch, func(from, to int) {
		x := power(w, uint64(lo+from))
		x.Mul(&x, shift)
		var numerators, prefix [batch]fr.Element
		for ; from < to; from += batch {
			part := out[from:min(to, from+batch)]
			// Montgomery's trick with the products in prefix: tau is no root of unity of this order, so nothing here is zero
			acc := one
			for i := range part {
				numerators[i].Mul(&x, &factor)
				part[i].Sub(tau, &x)
				prefix[i] = acc
				acc.Mul(&acc, &part[i])
				x.Mul(&x, w)
			}
			acc.Inverse(&acc)
			for i := len(part) - 1; i >= 0; i-- {
				var inv fr.Element
				inv.Mul(&acc, &prefix[i])
				acc.Mul(&acc, &part[i])
				part[i].Mul(&inv, &numerators[i])
			}
		}
	})
}

// power is w^e.
func power(w *fr.Element, e uint64) fr.Element {
	r, b := fr.One(), *w
	for ; e > 0; e >>= 1 {
		if e&1 == 1 {
			r.Mul(&r, &b)
		}
		b.Square(&b)
	}
	return r
}

// column sets out[j] = sum over the rows i of M_ij L_i(tau), with the extra rows of the public inputs for A.
func (m *maker) column(mat *r1cs.Matrix, out []fr.Element) error {
	clear(out)
	if mat == &m.sys.A {
		for s := range m.sys.NbPublic + 1 {
			out[s] = m.values[m.position(m.sys.NbConstraints()+s)]
		}
	}
	return m.addColumn(mat, out)
}

func (m *maker) position(row int) int {
	return int(m.opts.Rows.Position(uint64(row), uint64(m.n)))
}

// addColumn adds the matrix' sums to out. Each goroutine owns a range of wires and reads all rows: the terms cost little to read
// beside the products, and nobody shares an element.
func (m *maker) addColumn(mat *r1cs.Matrix, out []fr.Element) error {
	const rowsBetweenLooks = 1 << 14
	parallel.Parts(len(out), m.tasks, batch, func(from, to int) {
		lo, hi := uint32(from), uint32(to)
		var x fr.Element
		for i := range mat.Rows() {
			if i%rowsBetweenLooks == 0 && m.ctx.Err() != nil {
				return
			}
			wire, coeff := mat.Row(i)
			value := &m.values[m.position(i)]
			for k, w := range wire {
				if w < lo || w >= hi {
					continue
				}
				if c := &m.sys.Coeffs[coeff[k]]; c.IsOne() {
					out[w].Add(&out[w], value)
				} else {
					x.Mul(c, value)
					out[w].Add(&out[w], &x)
				}
			}
		}
	})
	return m.ctx.Err()
}

// finite is the set of wires whose value is not zero.
func (m *maker) finite(x []fr.Element) groth16.Bitmap {
	set := groth16.NewBitmap(len(x))
	for i := range x {
		if !x[i].IsZero() {
			set.Set(i)
		}
	}
	return set
}

// each runs f(0) to f(n-1).
func (m *maker) each(n int, f func(i int)) {
	parallel.Parts(n, m.tasks, batch, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i)
		}
	})
}
