// Package r1cs holds a rank-1 constraint system over Fr: three sparse matrices A, B, C with A·w ∘ B·w = C·w for the
// assignment w = (1, public inputs, private variables).
//
// The matrices are in compressed rows; coefficients are indexes into a dictionary, since circuits use few distinct ones (all gadgets of
// Filecoin together some 2,300). A system may lie in a read-only file mapping.
package r1cs

import (
	"fmt"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Matrix is one of A, B, C: row i has the terms Start[i] to Start[i+1]-1.
type Matrix struct {
	Start []uint32 // [rows+1]
	Wire  []uint32 // [terms]
	Coeff []uint32 // [terms] index into System.Coeffs
}

// Rows is the number of rows.
func (m *Matrix) Rows() int { return max(0, len(m.Start)-1) }

// NNZ is the number of terms.
func (m *Matrix) NNZ() int { return len(m.Wire) }

// Row returns the wires and coefficient indexes of row i.
func (m *Matrix) Row(i int) (wire, coeff []uint32) {
	lo, hi := m.Start[i], m.Start[i+1]
	return m.Wire[lo:hi], m.Coeff[lo:hi]
}

// System is a constraint system. The extra rows that Groth16 set-ups add for the public inputs (A = 1 * wire s, s = 0..NbPublic, B = C =
// 0) are not part of it: Evaluate adds them.
type System struct {
	NbWires  int
	NbPublic int          // the one not counted; outputs first with circom
	Coeffs   []fr.Element // dictionary, Montgomery form; the first is one, which Evaluate relies on
	A, B, C  Matrix
	HasC     bool // a .zkey has no C: then C is empty and c = a*b is assumed
}

// NbConstraints is the number of rows.
func (s *System) NbConstraints() int { return s.A.Rows() }

// LogDomain is log2 of the smallest domain the system fits on.
func (s *System) LogDomain() int { return groth16.DomainFor(s.NbConstraints(), s.NbPublic) }

// Validate checks every index, so that Evaluate cannot leave a slice, and that the dictionary begins with one where there are terms. One pass over the
// terms.
func (s *System) Validate() error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "constraint system", where, expected, found)
	}
	if s.NbWires < 1 || s.NbPublic < 0 || s.NbPublic >= s.NbWires {
		return bad("wires", "more wires than public inputs", fmt.Sprintf("%d wires, %d public", s.NbWires, s.NbPublic))
	}
	if s.LogDomain() > groth16.MaxLogDomain {
		return bad("rows", "at most 2^28 with the public inputs", s.NbConstraints())
	}
	ms := []struct {
		name string
		m    *Matrix
	}{{"A", &s.A}, {"B", &s.B}, {"C", &s.C}}
	if !s.HasC {
		ms = ms[:2]
	}
	for _, x := range ms {
		m := x.m
		if m.Rows() != s.NbConstraints() || len(m.Start) == 0 || m.Start[0] != 0 || int(m.Start[len(m.Start)-1]) != m.NNZ() || len(m.Coeff) != m.NNZ() {
			return bad("matrix "+x.name, fmt.Sprintf("%d rows that end with the terms", s.NbConstraints()), fmt.Sprintf("%d rows, %d terms", m.Rows(), m.NNZ()))
		}
		for i := 1; i < len(m.Start); i++ {
			if m.Start[i] < m.Start[i-1] {
				return bad(fmt.Sprintf("matrix %s, row %d", x.name, i-1), "rising starts", m.Start[i])
			}
		}
		for i, w := range m.Wire {
			if int(w) >= s.NbWires || int(m.Coeff[i]) >= len(s.Coeffs) {
				return bad(fmt.Sprintf("matrix %s, term %d", x.name, i), fmt.Sprintf("wire < %d, coefficient < %d", s.NbWires, len(s.Coeffs)), fmt.Sprintf("wire %d, coefficient %d", w, m.Coeff[i]))
			}
		}
		if m.NNZ() > 0 && !s.Coeffs[0].IsOne() {
			return bad("coefficient 0", "one", s.Coeffs[0].String())
		}
	}
	return nil
}

// Density returns which wires have a non-zero coefficient in A and in B. As every set-up does, the one and the public inputs count as present in A (the
// extra rows). Repeated wires of a row are summed first.
func (s *System) Density() (a, b groth16.Bitmap) {
	a, b = s.density(&s.A), s.density(&s.B)
	for i := 0; i <= s.NbPublic; i++ {
		a.Set(i)
	}
	return a, b
}

// fewTerms is how long a row may be for looking through it again at each term.
const fewTerms = 32

func (s *System) density(m *Matrix) groth16.Bitmap {
	bm := groth16.NewBitmap(s.NbWires)
	var keys []uint64
	for i := range m.Rows() {
		wire, coeff := m.Row(i)
		if len(wire) > fewTerms {
			keys = m.sorted(keys, i)
			for rest := keys; len(rest) > 0; {
				var sum fr.Element
				n, c := s.first(rest, &sum)
				if !c.IsZero() {
					bm.Set(int(rest[0] >> 32))
				}
				rest = rest[n:]
			}
			continue
		}
		for k, w := range wire {
			if !s.Coeffs[coeff[k]].IsZero() && !bm.Has(int(w)) && !cancels(s.Coeffs, wire, coeff, w) {
				bm.Set(int(w))
			}
		}
	}
	return bm
}

// cancels reports whether the coefficients of wire w in a row sum to zero; only a row that repeats a wire can.
func cancels(dict []fr.Element, wire, coeff []uint32, w uint32) bool {
	var sum fr.Element
	for k := range wire {
		if wire[k] == w {
			sum.Add(&sum, &dict[coeff[k]])
		}
	}
	return sum.IsZero()
}

// Builder makes a System row by row. The dictionary starts with 1.
type Builder struct {
	s     System
	index map[fr.Element]uint32
}

// NewBuilder starts a system; rows and terms are hints for capacity and must have been checked against the size of the input.
func NewBuilder(nbWires, nbPublic int, hasC bool, rows, terms int) *Builder {
	b := &Builder{index: map[fr.Element]uint32{}}
	b.s = System{NbWires: nbWires, NbPublic: nbPublic, HasC: hasC}
	for _, m := range b.matrices() {
		m.Start = append(make([]uint32, 0, rows+1), 0)
		m.Wire = make([]uint32, 0, terms/3)
		m.Coeff = make([]uint32, 0, terms/3)
	}
	one := fr.One()
	b.Coeff(&one)
	return b
}

func (b *Builder) matrices() []*Matrix {
	if b.s.HasC {
		return []*Matrix{&b.s.A, &b.s.B, &b.s.C}
	}
	return []*Matrix{&b.s.A, &b.s.B}
}

// Coeff returns the index of x in the dictionary.
func (b *Builder) Coeff(x *fr.Element) uint32 {
	if i, ok := b.index[*x]; ok {
		return i
	}
	i := uint32(len(b.s.Coeffs))
	b.s.Coeffs = append(b.s.Coeffs, *x)
	b.index[*x] = i
	return i
}

// Which matrix a term belongs to.
const (
	MatrixA = 0
	MatrixB = 1
	MatrixC = 2
)

// Term adds a term to the row being built.
func (b *Builder) Term(matrix int, wire uint32, coeff uint32) {
	m := [...]*Matrix{&b.s.A, &b.s.B, &b.s.C}[matrix]
	m.Wire = append(m.Wire, wire)
	m.Coeff = append(m.Coeff, coeff)
}

// EndRow ends the row. It fails when a matrix has 2^32 terms.
func (b *Builder) EndRow() error {
	for _, m := range b.matrices() {
		if uint64(len(m.Wire)) > 1<<32-1 {
			return errs.Mismatch(errs.Unsupported, "constraint system", "terms", "fewer than 2^32 a matrix", len(m.Wire))
		}
		m.Start = append(m.Start, uint32(len(m.Wire)))
	}
	return nil
}

// System checks and returns what was built.
func (b *Builder) System() (*System, error) {
	for _, m := range b.matrices() {
		m.Wire, m.Coeff = slices.Clip(m.Wire), slices.Clip(m.Coeff)
	}
	if err := b.s.Validate(); err != nil {
		return nil, err
	}
	return &b.s, nil
}
