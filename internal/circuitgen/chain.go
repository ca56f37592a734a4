package circuitgen

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Dense is a chain of products of random field elements: x[i+2] = x[i+1]·x[i],
// with x[0] and x[1] private and the last element public. Every wire but the
// constant is a full-size value and each matrix has one term a row: the worst
// case of the multi-exponentiations.
type Dense struct {
	Rows int // at least 1
	Seed uint64
}

// Validate refuses a number of rows out of range.
func (d Dense) Validate() error { return checkRows("dense", d.Rows, 1) }

// Header: Rows+3 wires, one of them public (the output).
func (d Dense) Header() Header {
	return Header{Wires: uint32(d.Rows) + 3, Outputs: 1, PrivateInputs: 2, Constraints: uint32(d.Rows)}
}

// wire gives the wire of x[i]: the inputs and the inner elements follow the
// output in order.
func (d Dense) wire(i int) uint32 {
	if i == d.Rows+1 {
		return 1
	}
	return uint32(i) + 2
}

// Constraints implements [Circuit].
func (d Dense) Constraints(yield func(a, b, c []Term) bool) {
	k := newConstants()
	a, b, c := []Term{{Coeff: k.one}}, []Term{{Coeff: k.one}}, []Term{{Coeff: k.one}}
	for i := range d.Rows {
		a[0].Wire, b[0].Wire, c[0].Wire = d.wire(i+1), d.wire(i), d.wire(i+2)
		if !yield(a, b, c) {
			return
		}
	}
}

// Witness implements [Circuit]. The chain is computed twice, since its end is
// the first value after the constant.
func (d Dense) Witness(yield func(v *fr.Element) bool) {
	r := newRand(d.Seed, streamDense)
	x0, x1 := randomElement(r), randomElement(r)
	one := fr.One()
	if !yield(&one) {
		return
	}
	step := func(x, y *fr.Element) { // (x[i], x[i+1]) to (x[i+1], x[i+2])
		var z fr.Element
		z.Mul(x, y)
		*x, *y = *y, z
	}
	x, y := x0, x1
	for range d.Rows {
		step(&x, &y)
	}
	if !yield(&y) {
		return
	}
	x, y = x0, x1
	for range d.Rows + 1 { // x[0] to x[Rows]
		if !yield(&x) {
			return
		}
		step(&x, &y)
	}
}

// Tiny is a chain x[i+1] = (x[i] + p)·x[i], where p runs through the public inputs
// again and again (the constant one where there are none). It has exactly Rows rows
// and Public public wires, so that rows and public wires together can be put
// next to a power of two. With rows and public wires, the first public wire is
// the output, the end of the chain. Public inputs beyond the number of rows are
// unused, as circom allows. Their values are 0, 1, -1 and a random element in turn.
type Tiny struct {
	Rows   int // may be 0
	Public int // may be 0
	Seed   uint64
}

// Validate refuses sizes out of range.
func (t Tiny) Validate() error {
	if err := checkRows("tiny", t.Rows, 0); err != nil {
		return err
	}
	if most := maxRows - t.Rows; t.Public < 0 || t.Public > most {
		return invalid("tiny public wires", span(0, most), t.Public)
	}
	return nil
}

func (t Tiny) outputs() int { return min(t.Rows, t.Public, 1) }

// Header: one private input, x[0], and a wire for each row.
func (t Tiny) Header() Header {
	out := t.outputs()
	return Header{
		Wires:         uint32(1 + t.Public + 1 + t.Rows - out),
		Outputs:       uint32(out),
		PublicInputs:  uint32(t.Public - out),
		PrivateInputs: 1,
		Constraints:   uint32(t.Rows),
	}
}

// wire gives the wire of x[i].
func (t Tiny) wire(i int) uint32 {
	if i == t.Rows && t.outputs() == 1 {
		return 1
	}
	return uint32(1 + t.Public + i)
}

// input gives the wire of p in row i.
func (t Tiny) input(i int) uint32 {
	out := t.outputs()
	if n := t.Public - out; n > 0 {
		return uint32(1 + out + i%n)
	}
	return 0
}

// Constraints implements [Circuit].
func (t Tiny) Constraints(yield func(a, b, c []Term) bool) {
	k := newConstants()
	a, b, c := []Term{{Coeff: k.one}, {Coeff: k.one}}, []Term{{Coeff: k.one}}, []Term{{Coeff: k.one}}
	for i := range t.Rows {
		a[0].Wire, a[1].Wire = t.wire(i), t.input(i)
		b[0].Wire, c[0].Wire = t.wire(i), t.wire(i+1)
		if !yield(a, b, c) {
			return
		}
	}
}

// Witness implements [Circuit].
func (t Tiny) Witness(yield func(v *fr.Element) bool) {
	k := newConstants()
	r := newRand(t.Seed, streamTiny)
	values := [4]fr.Element{k.zero, k.one, k.minusOne, randomElement(r)}
	start := randomElement(r)
	out := t.outputs()
	n := t.Public - out
	step := func(i int, x *fr.Element) {
		p := k.one
		if n > 0 {
			p = values[i%n%len(values)]
		}
		p.Add(&p, x)
		x.Mul(x, &p)
	}
	if !yield(&k.one) {
		return
	}
	if out == 1 {
		x := start
		for i := range t.Rows {
			step(i, &x)
		}
		if !yield(&x) {
			return
		}
	}
	for i := range n {
		if !yield(&values[i%len(values)]) {
			return
		}
	}
	x := start
	for i := range t.Rows + 1 - out {
		if !yield(&x) {
			return
		}
		step(i, &x)
	}
}
