package main

import (
	"context"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/ntt"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

const tasks = 2

// randomCase is a random constraint system on a domain of 2^log, with an assignment that does not satisfy it: sparse products and quotients do not care.
type randomCase struct {
	name       string
	log        int
	rows       int // constraints
	wires      int
	public     int
	order      groth16.RowOrder
	longRow    int // terms of one row in 40, up to; 0: none is long
	hugeRow    int // terms of row 1 of A
	noC        bool
	fullValues bool // hardly any value is a bit
}

var randomCases = []randomCase{
	{name: "1", log: 1, rows: 1, wires: 3, public: 0},
	{name: "2", log: 2, rows: 2, wires: 5, public: 1, order: groth16.RowsFive},
	{name: "3", log: 3, rows: 5, wires: 9, public: 2, order: groth16.RowsFive},
	{name: "4-noc", log: 4, rows: 11, wires: 31, public: 4, noC: true},
	{name: "5", log: 5, rows: 30, wires: 64, public: 1, longRow: 60},
	{name: "6-full", log: 6, rows: 60, wires: 65, public: 3, order: groth16.RowsFive, fullValues: true},
	{name: "8", log: 8, rows: 200, wires: 511, public: 20, longRow: 300, hugeRow: 5000},
	{name: "9-256", log: 9, rows: 256, wires: 255, public: 2, longRow: 70},
	{name: "9-257", log: 9, rows: 257, wires: 257, public: 1, order: groth16.RowsFive, longRow: 70},
	{name: "10", log: 10, rows: 1023, wires: 513, public: 0, order: groth16.RowsFive, longRow: 49},
	{name: "11", log: 11, rows: 2000, wires: 4000, public: 40, order: groth16.RowsFive, longRow: 100, hugeRow: 70000},
	{name: "11-1024", log: 11, rows: 1024, wires: 1024, public: 3},
	{name: "11-1025", log: 11, rows: 1025, wires: 1025, public: 1, order: groth16.RowsFive, longRow: 33},
	{name: "12", log: 12, rows: 4095, wires: 4097, public: 0, longRow: 4200, hugeRow: 4097},
	{name: "12-noc", log: 12, rows: 2049, wires: 1024, public: 7, order: groth16.RowsFive, noC: true},
	{name: "12-full", log: 12, rows: 3000, wires: 3333, public: 9, longRow: 50, fullValues: true},
}

// special are values at which short ways begin and end.
func special() []fr.Element {
	var out []fr.Element
	for _, x := range []int64{0, 1, -1, 2, -2, 127, 128, 129, -128, -129, 1 << 30, 1<<30 + 1, -1 << 30, -1<<30 - 1, 1 << 40, -1 << 40, 1<<62 - 1, -1 << 62} {
		var e fr.Element
		e.SetInt64(x)
		out = append(out, e)
	}
	for _, x := range []*big.Int{new(big.Int).Rsh(fr.Modulus(), 1), new(big.Int).Lsh(big.NewInt(1), 256), new(big.Int).Lsh(big.NewInt(1), 64)} {
		var e fr.Element
		e.SetBigInt(x)
		out = append(out, e)
	}
	return out
}

type source struct {
	*rand.Rand
	special []fr.Element
}

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 0x77656972)), special()} }

func (s source) full() (x fr.Element) {
	var b [48]byte
	for i := range b {
		b[i] = byte(s.Uint32())
	}
	x.SetBytes(b[:])
	return x
}

func (s source) pick() fr.Element {
	if s.IntN(3) > 0 {
		return s.special[s.IntN(len(s.special))]
	}
	return s.full()
}

func (s source) vector(n int) []fr.Element {
	v := make([]fr.Element, n)
	for i := range v {
		v[i] = s.full()
	}
	return v
}

func (c randomCase) sections(ctx context.Context) ([]section, error) {
	rng := newSource(uint64(c.log)<<32 + uint64(c.wires))
	b := r1cs.NewBuilder(c.wires, c.public, !c.noC, c.rows, 0)
	dictionary := make([]uint32, 40)
	for i := range dictionary {
		x := rng.pick()
		dictionary[i] = b.Coeff(&x)
	}
	for row := range c.rows {
		for m := r1cs.MatrixA; m <= r1cs.MatrixC; m++ {
			if m == r1cs.MatrixC && c.noC {
				continue
			}
			terms := rng.IntN(6)
			if c.longRow > 0 && rng.IntN(40) == 0 {
				terms = rng.IntN(c.longRow + 1)
			}
			if row == 1 && m == r1cs.MatrixA {
				terms = max(terms, c.hugeRow)
			}
			for range terms {
				coeff := uint32(0)
				if rng.IntN(2) == 0 {
					coeff = dictionary[rng.IntN(len(dictionary))]
				}
				b.Term(m, uint32(rng.IntN(c.wires)), coeff)
			}
		}
		if err := b.EndRow(); err != nil {
			return nil, err
		}
	}
	sys, err := b.System()
	if err != nil {
		return nil, err
	}
	witness := make([]fr.Element, c.wires)
	for i := range witness {
		switch {
		case i == 0 || !c.fullValues && rng.IntN(10) < 4:
			witness[i].SetOne()
		case c.fullValues:
			witness[i] = rng.full()
		case rng.IntN(10) > 0:
		default:
			witness[i] = rng.pick()
		}
	}
	return circuit(ctx, sys, witness, c.log, c.order)
}

// fixture is a circom circuit with its witness.
func fixture(ctx context.Context, dir string) (out []section, err error) {
	open := func(name string, read func(f *os.File, size int64) error) error {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read from
		st, err := f.Stat()
		if err != nil {
			return err
		}
		return read(f, st.Size())
	}
	var sys *r1cs.System
	var witness []fr.Element
	err = open("circuit.r1cs", func(f *os.File, size int64) error {
		file, err := iden3.OpenR1CS(f, size)
		if err != nil {
			return err
		}
		sys, err = file.System(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = open("witness.wtns", func(f *os.File, size int64) error {
		file, err := iden3.OpenWitness(f, size)
		if err != nil {
			return err
		}
		for x, err := range file.Values(ctx) {
			if err != nil {
				return err
			}
			witness = append(witness, x)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return circuit(ctx, sys, witness, sys.LogDomain(), groth16.RowsFive)
}

// assign brings an assignment into a buffer of its own.
func assign(witness []fr.Element, form assignment.Form) (*assignment.Vector, []byte, error) {
	size := assignment.DenseSize(len(witness))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(witness), len(witness))
	}
	words := make([]uint64, size/8)
	buf := of("", words).data
	b, err := assignment.NewBuilder(buf, form, len(witness))
	if err != nil {
		return nil, nil, err
	}
	for i := range witness {
		if err := b.Append(&witness[i]); err != nil {
			return nil, nil, err
		}
	}
	v, err := b.Finish()
	return v, buf, err
}

// circuit is everything of one partition: the constraint system, the assignment in both forms, a, b and c, and the scalars of H in both bases.
func circuit(ctx context.Context, sys *r1cs.System, witness []fr.Element, log int, order groth16.RowOrder) ([]section, error) {
	compact, _, err := assign(witness, assignment.Compact)
	if err != nil {
		return nil, err
	}
	isBit, value := compact.Bits()
	n := 1 << log
	a, b, c := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	if err := sys.Evaluate(ctx, compact, order, a, b, c, tasks); err != nil {
		return nil, err
	}
	hasC := uint64(0)
	if sys.HasC {
		hasC = 1
	}
	out := []section{
		of("meta", []uint64{uint64(log), uint64(sys.NbConstraints()), uint64(sys.NbWires), uint64(sys.NbPublic), hasC, uint64(order)}),
		of("coeffs", sys.Coeffs),
		of("witness", witness), of("is_bit", isBit), of("value", value), of("rank", compact.Ranks()), of("list", compact.List()),
		of("a", a), of("b", b), of("c", c),
	}
	for _, m := range []struct {
		name string
		m    *r1cs.Matrix
	}{{"A", &sys.A}, {"B", &sys.B}, {"C", &sys.C}} {
		out = append(out, of("start"+m.name, m.m.Start), of("wire"+m.name, m.m.Wire), of("coeff"+m.name, m.m.Coeff))
	}
	for _, basis := range []groth16.HBasis{groth16.HOddCoset, groth16.HMonomial} {
		h, err := quotient(ctx, basis, log, a, b, c)
		if err != nil {
			return nil, err
		}
		out = append(out, of("h_"+basis.String()[:3], h))
	}
	return out, nil
}

// quotient is what the CPU backend does to the evaluations, its gathered factor put in: the scalars of the H points. TestQuotientIsTheBackends compares.
func quotient(ctx context.Context, basis groth16.HBasis, log int, a, b, c []fr.Element) ([]fr.Element, error) {
	d, err := ntt.NewDomain(log, tasks)
	if err != nil {
		return nil, err
	}
	v := [3][]fr.Element{}
	scale := d.SizeInverse()
	for i, from := range [][]fr.Element{a, b, c} {
		v[i] = append(v[i], from...)
		if err := d.Inverse(ctx, v[i], tasks); err != nil {
			return nil, err
		}
		for j := range v[i] {
			v[i][j].Mul(&v[i][j], &scale)
		}
		if err := d.ForwardCosetReversed(ctx, v[i], tasks); err != nil {
			return nil, err
		}
	}
	h := v[0]
	for i := range h {
		h[i].Mul(&h[i], &v[1][i])
		h[i].Sub(&h[i], &v[2][i])
	}
	if basis == groth16.HOddCoset {
		return h, nil
	}
	if err := d.InverseCoset(ctx, h, tasks); err != nil {
		return nil, err
	}
	ntt.BitReverse(h)
	scale.Halve()
	scale.Neg(&scale)
	for i := range h {
		h[i].Mul(&h[i], &scale)
	}
	return h, nil
}

// transforms are of one random vector, taken as coefficients in natural order; all results in natural order. shift7 is the values on the coset of 7.
func transforms(ctx context.Context, log int) ([]section, error) {
	d, err := ntt.NewDomain(log, tasks)
	if err != nil {
		return nil, err
	}
	v := newSource(uint64(log)).vector(d.Size())
	copy(v, special()[:min(len(v), len(special()))])
	out := []section{of("meta", []uint64{uint64(log)}), of("coeffs", v)}
	run := func(name string, in []fr.Element, reverseFirst bool, f func(context.Context, []fr.Element, int) error) error {
		x := append([]fr.Element(nil), in...)
		if reverseFirst {
			ntt.BitReverse(x)
		}
		if err := f(ctx, x, tasks); err != nil {
			return err
		}
		if !reverseFirst {
			ntt.BitReverse(x)
		}
		out = append(out, of(name, x))
		return nil
	}
	if err := run("values", v, false, d.Forward); err != nil {
		return nil, err
	}
	if err := run("odd", v, true, d.ForwardCosetReversed); err != nil {
		return nil, err
	}
	shifted := append([]fr.Element(nil), v...)
	g, p := fr.NewElement(7), fr.One()
	for i := range shifted {
		shifted[i].Mul(&shifted[i], &p)
		p.Mul(&p, &g)
	}
	if err := run("shift7", shifted, false, d.Forward); err != nil {
		return nil, err
	}
	return out, nil
}
