package circuitgen

import (
	"fmt"
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Mix is a circuit whose wires have the values 0, 1 and -1 in the given shares, at
// random places; the other wires are full-size. Each row makes one wire, from wires
// made shortly before:
//
//   - a bit of which nothing but x·(x-1) = 0 is asked (two in five of the bits), or the
//     choice e·(f - g) = out - h with a bit e, h = g where e is 1;
//   - a minus one by such a choice, or by e·(f - g) = out;
//   - a full-size value by a product of two of them.
//
// One full-size wire is a public input; there are no outputs. Shares hold for the
// wires of the rows within the noise of a random choice.
type Mix struct {
	Rows                int     // at least 1
	Zero, One, MinusOne float64 // shares of the wires, 0 to 1; they sum up to 1 at most
	Seed                uint64
}

// GnarkMix has the shares of a bit-level SHA-256 as gnark's rows give it, where minus
// one is common.
func GnarkMix(rows int, seed uint64) Mix {
	return Mix{Rows: rows, Zero: 0.552, One: 0.306, MinusOne: 0.139, Seed: seed}
}

// PoRepMix has the shares of Filecoin's proof of replication: 98.5 % of the wires are
// bits, as many ones as zeros, and the others full-size.
func PoRepMix(rows int, seed uint64) Mix {
	return Mix{Rows: rows, Zero: 0.4925, One: 0.4925, Seed: seed}
}

// class says which kind of value a wire has.
type class int

const (
	classZero class = iota
	classOne
	classMinusOne
	classFull
	classes
)

// mixSeeds are the classes of the wires that exist before the first row: the public
// input, then private inputs, from wire 1 on.
var mixSeeds = [...]class{classFull, classZero, classFull, classMinusOne}

// Validate refuses sizes and shares out of range.
func (m Mix) Validate() error {
	const slack = 1e-9
	for _, s := range []float64{m.Zero, m.One, m.MinusOne, 1 + slack - m.Zero - m.One - m.MinusOne} {
		if !(s >= 0 && s <= 1+slack) {
			return invalid("mix shares", "each and their sum 0 to 1", fmt.Sprintf("%g, %g, %g", m.Zero, m.One, m.MinusOne))
		}
	}
	return checkRows("mix", m.Rows, 1)
}

// Header: a wire for each row, after the constant, one public and three private inputs.
func (m Mix) Header() Header {
	return Header{
		Wires:         uint32(1 + len(mixSeeds) + m.Rows),
		PublicInputs:  1,
		PrivateInputs: uint32(len(mixSeeds) - 1),
		Constraints:   uint32(m.Rows),
	}
}

// Constraints implements [Circuit].
func (m Mix) Constraints(yield func(a, b, c []Term) bool) {
	w := newMixWalk(m)
	w.walk(yield, nil)
}

// Witness implements [Circuit].
func (m Mix) Witness(yield func(v *fr.Element) bool) {
	w := newMixWalk(m)
	w.walk(nil, yield)
}

// poolSize is the number of wires of a class that rows choose their operands from:
// the latest ones. It gives the locality of a compiled circuit.
const poolSize = 256

// pool holds the latest wires of one class; values are kept for full-size ones, the
// others have theirs by class.
type pool struct {
	n      int // wires ever put in
	wires  [poolSize]uint32
	values [poolSize]fr.Element
}

func (p *pool) put(wire uint32, v *fr.Element) {
	p.wires[p.n%poolSize] = wire
	p.values[p.n%poolSize] = *v
	p.n++
}

// mixWalk makes rows and values together, from one stream of random numbers, so that
// a walk for either makes the same choices.
type mixWalk struct {
	Mix
	rnd    *rand.Rand
	pools  [classes]pool
	values [classes]fr.Element // of the classes that have one
	k      constants
	// The row and the value of the current wire.
	a, b, c []Term
	v       fr.Element
}

func newMixWalk(m Mix) *mixWalk {
	w := &mixWalk{Mix: m, rnd: newRand(m.Seed, streamMix), k: newConstants()}
	w.values = [classes]fr.Element{classOne: w.k.one, classMinusOne: w.k.minusOne}
	return w
}

// walk tells the rows or the values to one of the two, the other being nil.
func (w *mixWalk) walk(row func(a, b, c []Term) bool, value func(v *fr.Element) bool) {
	tell := func(v *fr.Element) bool { return value == nil || value(v) }
	if !tell(&w.k.one) {
		return
	}
	w.pools[classOne].put(0, &w.k.one)
	next := uint32(1)
	for _, cl := range mixSeeds {
		w.v = w.values[cl]
		if cl == classFull {
			w.v = randomElement(w.rnd)
		}
		if !tell(&w.v) {
			return
		}
		w.pools[cl].put(next, &w.v)
		next++
	}
	for range w.Rows {
		cl := w.class()
		w.gate(next, cl)
		if row != nil && !row(w.a, w.b, w.c) {
			return
		}
		if !tell(&w.v) {
			return
		}
		w.pools[cl].put(next, &w.v)
		next++
	}
}

// class draws the class of a wire.
func (w *mixWalk) class() class {
	switch x := w.rnd.Float64(); {
	case x < w.Zero:
		return classZero
	case x < w.Zero+w.One:
		return classOne
	case x < w.Zero+w.One+w.MinusOne:
		return classMinusOne
	default:
		return classFull
	}
}

// pick draws an operand of a class.
func (w *mixWalk) pick(cl class) (wire uint32, v *fr.Element) {
	p := &w.pools[cl]
	i := w.rnd.IntN(min(p.n, poolSize))
	return p.wires[i], &p.values[i]
}

// gate makes the row that defines wire out with a value of class cl, and the value.
func (w *mixWalk) gate(out uint32, cl class) {
	w.v = w.values[cl]
	w.a, w.b, w.c = w.a[:0], w.b[:0], w.c[:0]
	if cl == classFull {
		x, vx := w.pick(classFull)
		y, vy := w.pick(classFull)
		w.a = append(w.a, Term{x, w.k.one})
		w.b = append(w.b, Term{y, w.k.one})
		w.c = append(w.c, Term{out, w.k.one})
		w.v.Mul(vx, vy)
		return
	}

	if cl != classMinusOne && w.rnd.IntN(5) < 2 { // (x - 1)·x = 0
		w.a = append(w.a, Term{out, w.k.one}, Term{0, w.k.minusOne})
		w.b = append(w.b, Term{out, w.k.one})
		return
	}

	// (f - g)·e = out - h. f and g are of different classes, so never one wire.
	choice := func(e, f, g class) (wireG uint32) {
		we, _ := w.pick(e)
		wf, _ := w.pick(f)
		wg, _ := w.pick(g)
		w.a = append(w.a, Term{wf, w.k.one}, Term{wg, w.k.minusOne})
		w.b = append(w.b, Term{we, w.k.one})
		w.c = append(w.c, Term{out, w.k.one})
		return wg
	}
	switch {
	case cl == classMinusOne && w.rnd.IntN(2) == 0: // out = 0 - 1
		choice(classOne, classZero, classOne)
	case w.rnd.IntN(2) == 0: // e is 0: out = h, whatever f and g are
		choice(classZero, classZero, classOne)
		h, _ := w.pick(cl)
		w.c = append(w.c, Term{h, w.k.minusOne})
	default: // e is 1 and h is g: out = f
		other := classZero
		if cl == classZero {
			other = classOne
		}
		g := choice(classOne, cl, other)
		w.c = append(w.c, Term{g, w.k.minusOne})
	}
}
