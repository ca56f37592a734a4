package circuit

import (
	"cmp"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Term is a variable with a coefficient: the variable in the high half, the index of the coefficient in the dictionary in the low half. Terms sort as their
// variables do.
type Term uint64

func term(v Var, coeff uint32) Term { return Term(v)<<32 | Term(coeff) }

// Var is the term's variable.
func (t Term) Var() Var { return Var(t >> 32) }

// Coeff is the index of its coefficient in Rows.Coeffs.
func (t Term) Coeff() uint32 { return uint32(t) }

// The dictionary begins with the powers of two, each followed by its negative, and zero: what rows of bits are made of has an index without a look-up.
const (
	powers    = 256
	zeroCoeff = 2 * powers
)

func powerCoeff(k int, negative bool) uint32 {
	if negative {
		return uint32(2*k + 1)
	}
	return uint32(2 * k)
}

// dictionary gives each distinct coefficient a number. Elements are never changed once they are in: other goroutines may read a slice of elems.
type dictionary struct {
	elems []fr.Element
	index map[fr.Element]uint32
}

func newDictionary() *dictionary {
	d := &dictionary{index: make(map[fr.Element]uint32)}
	x := fr.One()
	for range powers {
		var neg fr.Element
		d.of(&x)
		d.of(neg.Neg(&x))
		x.Double(&x)
	}
	d.of(&fr.Element{})
	return d
}

func (d *dictionary) of(x *fr.Element) uint32 {
	if i, ok := d.index[*x]; ok {
		return i
	}
	i := uint32(len(d.elems))
	d.elems = append(d.elems, *x)
	d.index[*x] = i
	return i
}

// Row is one constraint being stated: A times B equals C. A variable may be added to a combination any number of times; what cancels is left out.
type Row struct{ A, B, C Combination }

// Combination is a linear combination that is being written: of a row, where it lives no longer than the call that states the row, or one that is gathered over
// many rows (Builder.NewCombination).
type Combination struct {
	terms []Term
	dict  *dictionary
}

// Add adds v.
func (c *Combination) Add(v Var) { c.terms = append(c.terms, term(v, powerCoeff(0, false))) }

// Sub subtracts v.
func (c *Combination) Sub(v Var) { c.terms = append(c.terms, term(v, powerCoeff(0, true))) }

// AddPower adds 2^k v, k below 255.
func (c *Combination) AddPower(v Var, k int) {
	c.terms = append(c.terms, term(v, powerCoeff(k, false)))
}

// SubPower subtracts 2^k v, k below 255.
func (c *Combination) SubPower(v Var, k int) { c.terms = append(c.terms, term(v, powerCoeff(k, true))) }

// AddScaled adds x times v.
func (c *Combination) AddScaled(v Var, x *fr.Element) {
	c.terms = append(c.terms, term(v, c.dict.of(x)))
}

// AddBool adds 2^k x, k below 255.
func (c *Combination) AddBool(x Bool, k int) { c.bool(x, k, false) }

// SubBool subtracts 2^k x, k below 255.
func (c *Combination) SubBool(x Bool, k int) { c.bool(x, k, true) }

func (c *Combination) bool(x Bool, k int, negative bool) {
	switch {
	case x.kind == boolIs:
		c.terms = append(c.terms, term(x.v, powerCoeff(k, negative)))
	case x.kind == boolNot:
		c.terms = append(c.terms, term(One, powerCoeff(k, negative)), term(x.v, powerCoeff(k, !negative)))
	case x.value:
		c.terms = append(c.terms, term(One, powerCoeff(k, negative)))
	}
}

// AddLC adds a kept combination.
func (c *Combination) AddLC(l *LC) {
	for i := range l.terms {
		c.AddScaled(l.terms[i].v, &l.terms[i].x)
	}
}

// AddCombination adds another combination of the same builder.
func (c *Combination) AddCombination(o *Combination) { c.terms = append(c.terms, o.terms...) }

// Reset empties the combination and keeps its memory.
func (c *Combination) Reset() { c.terms = c.terms[:0] }

// fewTerms is how many terms are sorted by insertion.
const fewTerms = 24

// normalise sorts the terms, sums those of one variable, and leaves out what is zero.
func (c *Combination) normalise() {
	t := c.terms
	ready := true
	for i := range t {
		if t[i].Coeff() == zeroCoeff || (i > 0 && t[i].Var() <= t[i-1].Var()) {
			ready = false
			break
		}
	}
	if ready {
		return
	}
	if len(t) <= fewTerms {
		for i := 1; i < len(t); i++ {
			for j := i; j > 0 && t[j] < t[j-1]; j-- {
				t[j], t[j-1] = t[j-1], t[j]
			}
		}
	} else {
		slices.Sort(t)
	}
	out := t[:0]
	for i := 0; i < len(t); {
		v, coeff := t[i].Var(), t[i].Coeff()
		j := i + 1
		if j < len(t) && t[j].Var() == v {
			sum := c.dict.elems[coeff]
			for ; j < len(t) && t[j].Var() == v; j++ {
				sum.Add(&sum, &c.dict.elems[t[j].Coeff()])
			}
			coeff = c.dict.of(&sum)
		}
		if coeff != zeroCoeff {
			out = append(out, term(v, coeff))
		}
		i = j
	}
	c.terms = out
}

// LC is a linear combination that is kept from row to row. Build one only while rows are wanted (Builder.Recording). The zero value is the empty one.
type LC struct{ terms []lcTerm }

type lcTerm struct {
	v Var
	x fr.Element
}

// AddVar adds x times v.
func (l *LC) AddVar(v Var, x *fr.Element) {
	i, found := slices.BinarySearchFunc(l.terms, v, func(t lcTerm, v Var) int { return cmp.Compare(t.v, v) })
	if found {
		l.terms[i].x.Add(&l.terms[i].x, x)
	} else {
		l.terms = slices.Insert(l.terms, i, lcTerm{v, *x})
	}
}

// AddScaled adds x times o, which must be another LC.
func (l *LC) AddScaled(o *LC, x *fr.Element) {
	a, b := l.terms, o.terms
	out := make([]lcTerm, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || (len(a) > 0 && a[0].v < b[0].v):
			out = append(out, a[0])
			a = a[1:]
		default:
			t := lcTerm{v: b[0].v}
			t.x.Mul(&b[0].x, x)
			if len(a) > 0 && a[0].v == t.v {
				t.x.Add(&t.x, &a[0].x)
				a = a[1:]
			}
			out = append(out, t)
			b = b[1:]
		}
	}
	l.terms = out
}

// All yields the terms by variable, zero coefficients included.
func (l *LC) All(yield func(v Var, x *fr.Element) bool) {
	for i := range l.terms {
		if !yield(l.terms[i].v, &l.terms[i].x) {
			return
		}
	}
}
