package cpu

import (
	"bytes"
	"context"
	"fmt"
	"math/big"
	"slices"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// exponent computes the proof of an instance from the secrets of its key, as multiples of the generators, without a point: h(tau) is (a b -
// c)/(tau^N - 1) at tau, with a, b, c by Lagrange's formula. Nothing here is shared with the prover or the set-up.
func exponent(in *instance, rows groth16.RowOrder, log int, s *setup.Scalars, rnd *groth16.Randomness) *groth16.Proof {
	n := uint64(1) << log
	w, err := fft.Generator(n)
	if err != nil {
		panic(err)
	}
	if rows == groth16.RowsFive { // snarkjs' root of unity, from its generator 5
		var five fr.Element
		five.SetUint64(5)
		e := new(big.Int).Sub(fr.Modulus(), big.NewInt(1))
		e.Rsh(e, uint(log))
		w.Exp(five, e)
	}
	one := fr.One()
	var z, scale fr.Element
	z.Exp(s.Tau, new(big.Int).SetUint64(n))
	z.Sub(&z, &one)
	scale.SetUint64(n)
	scale.Inverse(&scale)
	scale.Mul(&scale, &z)
	known := map[int]fr.Element{}
	lagrange := func(i int) fr.Element { // z/n w^i/(tau - w^i)
		if x, ok := known[i]; ok {
			return x
		}
		var x, d fr.Element
		x.Exp(w, big.NewInt(int64(i)))
		d.Sub(&s.Tau, &x)
		d.Inverse(&d)
		x.Mul(&x, &d).Mul(&x, &scale)
		known[i] = x
		return x
	}
	var abc [3][]fr.Element // per wire: the column polynomials at tau
	for m, mat := range []*r1cs.Matrix{&in.sys.A, &in.sys.B, &in.sys.C} {
		abc[m] = make([]fr.Element, in.sys.NbWires)
		for i := range in.sys.NbConstraints() {
			wires, coeffs := mat.Row(i)
			for k := range wires {
				t := lagrange(i)
				t.Mul(&t, &in.sys.Coeffs[coeffs[k]])
				abc[m][wires[k]].Add(&abc[m][wires[k]], &t)
			}
		}
	}
	for j := range in.sys.NbPublic + 1 {
		t := lagrange(in.sys.NbConstraints() + j)
		abc[0][j].Add(&abc[0][j], &t)
	}
	var a, b, c, k fr.Element
	for j := range in.witness {
		var t [3]fr.Element
		for m := range t {
			t[m].Mul(&abc[m][j], &in.witness[j])
		}
		a.Add(&a, &t[0])
		b.Add(&b, &t[1])
		c.Add(&c, &t[2])
		if j > in.sys.NbPublic {
			t[0].Mul(&t[0], &s.Beta)
			t[1].Mul(&t[1], &s.Alpha)
			k.Add(&k, &t[0]).Add(&k, &t[1]).Add(&k, &t[2])
		}
	}
	var h fr.Element // h(tau) Z(tau) = (a b - c)(tau)
	h.Mul(&a, &b).Sub(&h, &c)

	var piA, piB, piC, t fr.Element
	piA.Mul(&rnd.R, &s.Delta).Add(&piA, &a).Add(&piA, &s.Alpha)
	piB.Mul(&rnd.S, &s.Delta).Add(&piB, &b).Add(&piB, &s.Beta)
	t.Inverse(&s.Delta)
	piC.Add(&k, &h).Mul(&piC, &t)
	t.Mul(&rnd.S, &piA)
	piC.Add(&piC, &t)
	t.Mul(&rnd.R, &piB)
	piC.Add(&piC, &t)
	t.Mul(&rnd.R, &rnd.S).Mul(&t, &s.Delta)
	piC.Sub(&piC, &t)

	_, _, g1, g2 := bls.Generators()
	times := func(x, g fr.Element) *big.Int { return x.Mul(&x, &g).BigInt(new(big.Int)) }
	var p groth16.Proof
	p.A.ScalarMultiplication(&g1, times(piA, s.G1))
	p.B.ScalarMultiplication(&g2, times(piB, s.G2))
	p.C.ScalarMultiplication(&g1, times(piC, s.G1))
	return &p
}

// random makes a satisfied circuit in which wires are 0, 1, -1 or large, rows are long or empty, and some wires are in no row.
func random(rows, public int, seed uint64) *instance {
	next := seeded(seed)
	small := func(n int) int {
		x := next()
		return int(x.Bits()[0] % uint64(n))
	}
	wires := 1 + public + rows + 3
	in := &instance{witness: make([]fr.Element, wires)}
	for i := range in.witness {
		switch small(4) {
		case 0:
		case 1:
			in.witness[i].SetOne()
		case 2:
			in.witness[i].SetOne()
			in.witness[i].Neg(&in.witness[i])
		case 3:
			in.witness[i] = next()
		}
	}
	in.witness[0].SetOne()
	b := r1cs.NewBuilder(wires, public, true, rows, 0)
	var last fr.Element
	for r := range rows {
		var v [2]fr.Element
		for m := range v {
			for range small(4) {
				wire := small(wires - 3)
				coeff := next()
				if small(3) > 0 {
					coeff.SetOne()
				}
				b.Term(m, uint32(wire), b.Coeff(&coeff))
				coeff.Mul(&coeff, &in.witness[wire])
				v[m].Add(&v[m], &coeff)
			}
		}
		// c is a multiple of one wire, or of the one where that wire is zero
		last.Mul(&v[0], &v[1])
		wire := public + 1 + r
		if in.witness[wire].IsZero() {
			wire = 0
		}
		if !last.IsZero() {
			var coeff fr.Element
			coeff.Inverse(&in.witness[wire])
			coeff.Mul(&coeff, &last)
			b.Term(2, uint32(wire), b.Coeff(&coeff))
		}
		if err := b.EndRow(); err != nil {
			panic(err)
		}
	}
	sys, err := b.System()
	if err != nil {
		panic(err)
	}
	in.sys = sys
	return in
}

// allPublic makes a circuit without a private wire: a product chain of which every value is public.
func allPublic(rows int) *instance {
	in := &instance{witness: make([]fr.Element, rows+3)}
	in.witness[0].SetOne()
	in.witness[1], in.witness[2] = fr.NewElement(3), fr.NewElement(5)
	b := r1cs.NewBuilder(len(in.witness), len(in.witness)-1, true, rows, 0)
	one := fr.One()
	for r := range rows {
		for m := range 3 {
			b.Term(m, uint32(r+1+m), b.Coeff(&one))
		}
		in.witness[r+3].Mul(&in.witness[r+1], &in.witness[r+2])
		if err := b.EndRow(); err != nil {
			panic(err)
		}
	}
	sys, err := b.System()
	if err != nil {
		panic(err)
	}
	in.sys = sys
	return in
}

// With known secrets the proof is known: every layout and both forms of the witness must give it, byte for byte.
func TestProofEqualsExponentComputation(t *testing.T) {
	sizes := []struct{ rows, public int }{
		{0, 0}, {0, 1}, {1, 0}, {0, 3}, {1, 2}, {2, 1}, {3, 0}, {4, 3}, {7, 0}, {8, 0}, {13, 2}, {30, 1}, {31, 0}, {20, 11}, {63, 0}, {64, 0}, {100, 5}, {255, 0}, {900, 123},
	}
	const public = 5 // rows of a circuit without a private wire
	sizes = append(sizes, struct{ rows, public int }{public, public + 2})
	b := newBench(t, Options{AllowInsecureTestRandomness: true})
	for i, size := range sizes {
		in := random(size.rows, size.public, uint64(i))
		if i == len(sizes)-1 {
			in = allPublic(public)
		}
		s := testScalars(t, fmt.Sprint("exponent", i))
		if i%3 == 1 {
			s.G1.SetUint64(77)
			s.G2.SetUint64(5)
		}
		next := seeded(uint64(1000 + i))
		rnd := &groth16.Randomness{R: next(), S: next()}
		switch i % 4 {
		case 1:
			rnd = &groth16.Randomness{}
		case 2:
			rnd.R.SetZero()
		}
		var seven []byte
		for _, l := range layouts {
			t.Run(fmt.Sprintf("%d rows, %d public, %s", size.rows, size.public, l.name), func(t *testing.T) {
				pk := makeKey(t, in.sys, l, s)
				want := exponent(in, l.rows, pk.LogDomain, s, rnd).Bytes()
				b.put("k", pk)
				v, err := groth16.NewVerifier(&pk.VK)
				if err != nil {
					t.Fatal(err)
				}
				for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
					if got := b.mustProve("k", in, &pk.Shape, form, rnd).Bytes(); got != want {
						t.Errorf("form %d: proof differs from the textbook's", form)
					}
				}
				if err := v.Verify(b.mustProve("k", in, &pk.Shape, assignment.Compact, nil), in.public()); err != nil {
					t.Error("fresh randomness: ", err)
				}
				if l.rows == groth16.RowsSeven {
					if seven == nil {
						seven = want[:]
					} else if !bytes.Equal(seven, want[:]) {
						t.Error("the two H bases give different proofs")
					}
				}
			})
		}
	}
}

// T15: proofs where the domain is just not full, full, and just over.
func TestDomainEdges(t *testing.T) {
	most := 14
	if testing.Short() || raceEnabled {
		most = 9
	}
	b := newBench(t, Options{})
	for log := 1; log <= most; log++ {
		for d := -1; d <= 1; d++ {
			public := 1
			rows := 1<<log - public - 1 + d
			if rows < 0 {
				continue
			}
			l := layouts[(log+d+1)%2]
			t.Run(fmt.Sprintf("2^%d%+d %s", log, d, l.name), func(t *testing.T) {
				in := generated(t, circuitgen.Tiny{Rows: rows, Public: public})
				pk := makeKey(t, in.sys, l, testScalars(t, "edges"))
				b.put("k", pk)
				v, err := groth16.NewVerifier(&pk.VK)
				if err != nil {
					t.Fatal(err)
				}
				if err := v.Verify(b.mustProve("k", in, &pk.Shape, assignment.Dense, nil), in.public()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestUnsatisfiedIsToldWithRealC(t *testing.T) {
	b := newBench(t, Options{})
	for _, l := range layouts {
		in := generated(t, circuitgen.Unsatisfied(circuitgen.Dense{Rows: 100}))
		b.put("k", makeKey(t, in.sys, l, testScalars(t, "unsatisfied")))
		_, err := b.prove("k", in, &b.keys["k"].pk.Shape, assignment.Dense, nil)
		if !errs.Is(err, errs.Unsatisfied) {
			t.Errorf("%s: got %v", l.name, err)
		}
	}
}

func TestFixedRandomnessIsRefusedUnlessAllowed(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 5})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "x"))
	b.put("k", pk)
	if _, err := b.prove("k", in, &pk.Shape, assignment.Dense, &groth16.Randomness{}); !errs.Is(err, errs.PermissionDenied) {
		t.Error("got ", err)
	}
	p, q := b.mustProve("k", in, &pk.Shape, assignment.Dense, nil), b.mustProve("k", in, &pk.Shape, assignment.Dense, nil)
	if p.A.Equal(&q.A) || p.B.Equal(&q.B) || p.C.Equal(&q.C) {
		t.Error("two proofs share randomness")
	}
}

func TestEventsComeInOrder(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 50})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "x"))
	b.put("k", pk)
	x := b.fill(in, &pk.Shape, assignment.Dense, true)
	defer x.free(t)
	var got []contract.ProveEvent
	out, err := b.Prove(context.Background(), x.request("k"), func(e contract.ProveEvent) {
		got = append(got, e)
		if e == contract.EvaluationsConsumed { // the host may hand them to somebody else now
			clear(x.a.Bytes())
			clear(x.b.Bytes())
			clear(x.c.Bytes())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint([]contract.ProveEvent{contract.Accepted, contract.EvaluationsConsumed, contract.DeviceDone}) {
		t.Error("events ", got)
	}
	var p groth16.Proof
	if err := p.SetBytes(out.Bytes); err != nil {
		t.Fatal(err)
	}
	v, err := groth16.NewVerifier(&pk.VK)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(&p, in.public()); err != nil {
		t.Error(err)
	}
	if len(out.Times) != 7 {
		t.Errorf("stages %v", out.Times)
	}
}

// What one proof knows is overwritten when it is done, also where it lies outside of the object.
func TestProofForgets(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 20})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "forget"))
	b.put("k", pk)
	x := b.fill(in, &pk.Shape, assignment.Compact, true)
	defer x.free(t)
	p := &proof{key: b.keys["k"], tasks: 2}
	if err := p.buffers(b.resolver, x.request("k")); err != nil {
		t.Fatal(err)
	}
	if err := p.draw(nil); err != nil {
		t.Fatal(err)
	}
	if err := p.sums(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.assemble()
	var words [][]big.Word
	for i := range p.factors {
		words = append(words, p.factors[i].Bits())
	}
	classes := p.classes
	p.forget()
	for i, ws := range words {
		if len(ws) == 0 || slices.ContainsFunc(ws, func(w big.Word) bool { return w != 0 }) {
			t.Errorf("factor %d: %v", i, ws)
		}
	}
	if classes.Len() != 0 {
		t.Error("the sorted witness stays")
	}
}
