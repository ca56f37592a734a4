package circuitgen

import (
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Stats are the figures by which circuits are compared.
type Stats struct {
	Header
	TermsA, TermsB, TermsC uint64 // non-zero coefficients

	// Wires that occur in A, in B: those with a finite point in the proving key. A
	// counts the public wires and the constant too, whose rows snarkjs and bellman add.
	WiresA, WiresB uint64

	// Wires by value; Large are the others.
	Zero, One, MinusOne, Large uint64
}

// Measure walks through a circuit and counts. Memory is two bits a wire.
func Measure(c Circuit) (Stats, error) {
	if err := validate(c); err != nil {
		return Stats{}, err
	}
	s := Stats{Header: c.Header()}
	inA, inB := newSet(s.Wires), newSet(s.Wires)
	for i := range s.Public() + 1 {
		inA.add(i)
	}
	c.Constraints(func(a, b, c []Term) bool {
		s.TermsA += uint64(len(a))
		s.TermsB += uint64(len(b))
		s.TermsC += uint64(len(c))
		for i := range a {
			inA.add(a[i].Wire)
		}
		for i := range b {
			inB.add(b[i].Wire)
		}
		return true
	})
	s.WiresA, s.WiresB = inA.count(), inB.count()

	minusOne := newConstants().minusOne
	c.Witness(func(v *fr.Element) bool {
		switch {
		case v.IsZero():
			s.Zero++
		case v.IsOne():
			s.One++
		case v.Equal(&minusOne):
			s.MinusOne++
		default:
			s.Large++
		}
		return true
	})
	return s, nil
}

// Share is the part of the wires that a count makes up.
func (s Stats) Share(n uint64) float64 { return float64(n) / float64(s.Wires) }

// R1CSBytes is the size of the file that [WriteR1CS] writes.
func (s Stats) R1CSBytes() uint64 {
	terms := s.TermsA + s.TermsB + s.TermsC
	return fileHeadBytes + 3*sectionHeadBytes + r1csHeadBytes +
		uint64(s.Constraints)*r1csRowBytes + terms*termBytes + uint64(s.Wires)*labelBytes
}

// WTNSBytes is the size of the file that [WriteWTNS] writes.
func (s Stats) WTNSBytes() uint64 {
	return fileHeadBytes + 2*sectionHeadBytes + wtnsHeadBytes + uint64(s.Wires)*fieldBytes
}

// set is a set of wires.
type set []uint64

func newSet(n uint32) set  { return make(set, (uint64(n)+63)/64) }
func (s set) add(i uint32) { s[i/64] |= 1 << (i % 64) }
func (s set) count() (n uint64) {
	for _, w := range s {
		n += uint64(bits.OnesCount64(w))
	}
	return n
}
