// Package textbook is Groth16 written down as in the paper, on scalars instead of points: with the secrets of the set-up known, every point
// of a key or proof is a multiple of a generator, and the multiple is a short formula. It shares no step with a real prover (no transform, no
// multi-scalar multiplication, no quotient polynomial), so that agreement with it means something. For tests, at small sizes.
//
// Source: J. Groth, EUROCRYPT 2016, section 3.2; row and H conventions as in package groth16.
package textbook

import (
	"fmt"
	"math/big"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Toxic are the secrets of a set-up.
type Toxic struct{ Tau, Alpha, Beta, Gamma, Delta fr.Element }

// ToxicFrom makes five different secrets from a number.
func ToxicFrom(seed uint64) Toxic {
	var t Toxic
	for i, x := range []*fr.Element{&t.Tau, &t.Alpha, &t.Beta, &t.Gamma, &t.Delta} {
		e, err := fr.Hash([]byte(fmt.Sprintf("%d/%d", seed, i)), []byte("weir textbook"), 1)
		if err != nil {
			panic(err) // Hash fails only for a domain separation tag over 255 bytes
		}
		*x = e[0]
	}
	return t
}

// rootSeven is 7^t, t = (r-1)/2^32: a generator of the 2^32-th roots of unity.
func rootSeven() fr.Element {
	var seven, root fr.Element
	seven.SetUint64(7)
	t := new(big.Int).Sub(fr.Modulus(), big.NewInt(1))
	root.Exp(seven, t.Rsh(t, 32))
	return root
}

// Root is the root of unity of order 2^k of the generator 7.
func Root(k int) fr.Element {
	w := rootSeven()
	for range 32 - k {
		w.Square(&w)
	}
	return w
}

// Instance is a circuit with the secrets of a set-up: the values at tau of its polynomials.
type Instance struct {
	System *r1cs.System
	Toxic  Toxic
	Rows   groth16.RowOrder
	H      groth16.HBasis

	LogN    int
	a, b, c []fr.Element // [wires] A_j(tau), B_j(tau), C_j(tau)
}

// New evaluates the circuit's polynomials at tau. s must have C rows.
func New(s *r1cs.System, toxic Toxic, rows groth16.RowOrder, h groth16.HBasis) *Instance {
	in := &Instance{System: s, Toxic: toxic, Rows: rows, H: h, LogN: s.LogDomain()}
	n := uint64(1) << in.LogN
	// L_i(tau) = w^i (tau^N - 1) / (N (tau - w^i)), at the point of row i.
	w, z := Root(in.LogN), in.vanishing()
	var size fr.Element
	size.SetUint64(n)
	lagrange := make([]fr.Element, n)
	x := fr.One()
	for i := range lagrange {
		var d fr.Element
		d.Sub(&toxic.Tau, &x)
		d.Mul(&d, &size)
		d.Inverse(&d)
		lagrange[i].Mul(&x, &z)
		lagrange[i].Mul(&lagrange[i], &d)
		x.Mul(&x, &w)
	}
	at := func(row int) *fr.Element { return &lagrange[rows.Position(uint64(row), n)] }
	in.a, in.b, in.c = make([]fr.Element, s.NbWires), make([]fr.Element, s.NbWires), make([]fr.Element, s.NbWires)
	for _, m := range []struct {
		m  *r1cs.Matrix
		to []fr.Element
	}{{&s.A, in.a}, {&s.B, in.b}, {&s.C, in.c}} {
		for i := range s.NbConstraints() {
			wire, coeff := m.m.Row(i)
			for k, j := range wire {
				var t fr.Element
				t.Mul(&s.Coeffs[coeff[k]], at(i))
				m.to[j].Add(&m.to[j], &t)
			}
		}
	}
	for j := range s.NbPublic + 1 {
		in.a[j].Add(&in.a[j], at(s.NbConstraints()+j))
	}
	return in
}

// vanishing is tau^N - 1.
func (in *Instance) vanishing() fr.Element {
	z, one := in.Toxic.Tau, fr.One()
	for range in.LogN {
		z.Square(&z)
	}
	z.Sub(&z, &one)
	return z
}

// combined is (beta A_j + alpha B_j + C_j) / by.
func (in *Instance) combined(j int, by *fr.Element) fr.Element {
	var t, u, inv fr.Element
	t.Mul(&in.Toxic.Beta, &in.a[j])
	u.Mul(&in.Toxic.Alpha, &in.b[j])
	t.Add(&t, &u)
	t.Add(&t, &in.c[j])
	inv.Inverse(by)
	t.Mul(&t, &inv)
	return t
}

// Proof is the only proof of the assignment w for the given randomness.
func (in *Instance) Proof(w []fr.Element, rnd groth16.Randomness) groth16.Proof {
	var az, bz, cz, priv fr.Element
	sum := func(to *fr.Element, x, y *fr.Element) {
		var t fr.Element
		t.Mul(x, y)
		to.Add(to, &t)
	}
	for j := range w {
		sum(&az, &w[j], &in.a[j])
		sum(&bz, &w[j], &in.b[j])
		sum(&cz, &w[j], &in.c[j])
		if j > in.System.NbPublic {
			k := in.combined(j, &in.Toxic.Delta)
			sum(&priv, &w[j], &k)
		}
	}
	var h, inv, A, B, C, t fr.Element
	h.Mul(&az, &bz)
	h.Sub(&h, &cz) // h(tau) Z(tau)
	inv.Inverse(&in.Toxic.Delta)
	h.Mul(&h, &inv)
	A.Add(&in.Toxic.Alpha, &az)
	sum(&A, &rnd.R, &in.Toxic.Delta)
	B.Add(&in.Toxic.Beta, &bz)
	sum(&B, &rnd.S, &in.Toxic.Delta)
	C.Add(&priv, &h)
	sum(&C, &rnd.S, &A)
	sum(&C, &rnd.R, &B)
	t.Mul(&rnd.R, &rnd.S)
	t.Mul(&t, &in.Toxic.Delta)
	C.Sub(&C, &t)
	var p groth16.Proof
	p.A, p.B, p.C = g1(&A), g2(&B), g1(&C)
	return p
}

func g1(x *fr.Element) bls.G1Affine {
	var p bls.G1Affine
	var b big.Int
	p.ScalarMultiplicationBase(x.BigInt(&b))
	return p
}

func g2(x *fr.Element) bls.G2Affine {
	var p bls.G2Affine
	var b big.Int
	p.ScalarMultiplicationBase(x.BigInt(&b))
	return p
}

// VerifyingKey has every point, those for the prover too.
func (in *Instance) VerifyingKey() groth16.VerifyingKey {
	t := &in.Toxic
	vk := groth16.VerifyingKey{AlphaG1: g1(&t.Alpha), BetaG1: g1(&t.Beta), BetaG2: g2(&t.Beta), GammaG2: g2(&t.Gamma), DeltaG1: g1(&t.Delta), DeltaG2: g2(&t.Delta)}
	for j := range in.System.NbPublic + 1 {
		k := in.combined(j, &t.Gamma)
		vk.IC = append(vk.IC, g1(&k))
	}
	return vk
}

// Key is the proving key.
func (in *Instance) Key() *groth16.ProvingKey {
	s := in.System
	pk := &groth16.ProvingKey{VK: in.VerifyingKey()}
	pk.AWires, pk.BWires = s.Density()
	var a, b, k, h []fr.Element
	for j := range s.NbWires {
		if pk.AWires.Has(j) {
			a = append(a, in.a[j])
		}
		if pk.BWires.Has(j) {
			b = append(b, in.b[j])
		}
		if j > s.NbPublic {
			k = append(k, in.combined(j, &in.Toxic.Delta))
		}
	}
	h = in.hScalars()
	pk.A, pk.B1, pk.K, pk.H, pk.B2 = multiples1(a), multiples1(b), multiples1(k), multiples1(h), multiples2(b)
	pk.Shape = groth16.Shape{LogDomain: in.LogN, NbWires: s.NbWires, NbPublic: s.NbPublic, NbConstraints: s.NbConstraints(), NbA: len(a), NbB: len(b), NbH: len(h),
		Rows: in.Rows, H: in.H, Insecure: true, HasMatrices: true, HasC: s.HasC}
	return pk
}

func (in *Instance) hScalars() []fr.Element {
	n := 1 << in.LogN
	var inv fr.Element
	inv.Inverse(&in.Toxic.Delta)
	if in.H == groth16.HMonomial {
		h := make([]fr.Element, n-1)
		x := in.vanishing()
		x.Mul(&x, &inv)
		for k := range h {
			h[k] = x
			x.Mul(&x, &in.Toxic.Tau)
		}
		return h
	}
	// L'_x(tau) / delta on the domain of 2N points, at its odd points x = u w^j: x (tau^2N - 1) / (2N (tau - x) delta).
	u, w := Root(in.LogN+1), Root(in.LogN)
	z, one := in.vanishing(), fr.One()
	var two, size fr.Element
	two.SetUint64(2)
	size.SetUint64(uint64(2 * n))
	z.Add(&z, &one) // tau^N
	z.Square(&z)
	z.Sub(&z, &one)
	h := make([]fr.Element, n)
	x := u
	for j := range h {
		var d fr.Element
		d.Sub(&in.Toxic.Tau, &x)
		d.Mul(&d, &size)
		d.Mul(&d, &in.Toxic.Delta)
		d.Inverse(&d)
		h[j].Mul(&x, &z)
		h[j].Mul(&h[j], &d)
		x.Mul(&x, &w)
	}
	return h
}
