package setup

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/groth16"
)

// partPoints is how many points are made at a time; cancellation is looked at between.
const partPoints = 1 << 15

// otherPoints is the same for a Multiplier that is not the processor: a device wants more at a time.
const otherPoints = 1 << 18

// source gives the scalars of a section in order: it fills part as far as it goes and says how far; 0 is the end.
type source func(part []fr.Element) int

// wires is the values of x at the wires in set.
func (m *maker) wires(x []fr.Element, set groth16.Bitmap) source {
	next := 0
	return func(part []fr.Element) int {
		n := 0
		for ; next < len(x) && n < len(part); next++ {
			if set.Has(next) {
				part[n] = x[next]
				n++
			}
		}
		return n
	}
}

// whole is all of x.
func whole(x []fr.Element) source {
	return func(part []fr.Element) int {
		n := copy(part, x)
		x = x[n:]
		return n
	}
}

// powers is tau^k (tau^N - 1) / delta for k = 0..N-2.
func (m *maker) powers(byDelta *fr.Element) source {
	tau, one := &m.opts.Scalars.Tau, fr.One()
	next := power(tau, uint64(m.n))
	next.Sub(&next, &one)
	next.Mul(&next, byDelta)
	left := m.n - 1
	return func(part []fr.Element) int {
		n := min(left, len(part))
		for i := range n {
			part[i] = next
			next.Mul(&next, tau)
		}
		left -= n
		return n
	}
}

// oddCoset is L'_j(tau) / delta for j = 0..N-1, L'_j the Lagrange polynomial of u w^j on all 2N roots of unity.
func (m *maker) oddCoset(byDelta *fr.Element) source {
	u, err := fft.Generator(uint64(2 * m.n))
	if err != nil {
		panic(err) // the domain is at most 2^28
	}
	var w fr.Element
	w.Square(&u)
	next := 0
	return func(part []fr.Element) int {
		n := min(m.n-next, len(part))
		m.basis(part[:n], next, &u, &w, 2*m.n)
		m.each(n, func(i int) { part[i].Mul(&part[i], byDelta) })
		next += n
		return n
	}
}

// multiply sets points[i] to scalars[i] times a fixed base.
type multiply[P any] func(ctx context.Context, points []P, scalars []fr.Element) error

// emitG1 makes the points of a section and passes them on.
func (m *maker) emitG1(s Section, from source) error {
	return emit(m, s, from, m.by.MulG1, m.sink.G1, 1)
}

func (m *maker) emitG2(s Section, from source) error {
	return emit(m, s, from, m.by.MulG2, m.sink.G2, weightG2)
}

func emit[P bls.G1Affine | bls.G2Affine](m *maker, s Section, from source, mul multiply[P], to func(Section, []P) error, weight int) error {
	most := partPoints
	if m.opts.Multiplier != nil {
		most = otherPoints
	}
	scalars := make([]fr.Element, min(most, max(m.n, m.sys.NbWires)))
	points := make([]P, len(scalars))
	defer clear(scalars)
	for {
		m.progress("points " + s.String())
		n := from(scalars)
		if n == 0 {
			return m.ctx.Err()
		}
		if err := mul(m.ctx, points[:n], scalars[:n]); err != nil {
			return err
		}
		if err := to(s, points[:n]); err != nil {
			return err
		}
		m.done += weight * n
	}
}
