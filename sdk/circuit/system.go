package circuit

import (
	"context"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// SystemSink is a Sink that keeps the whole constraint system in memory, 8 bytes a term and 12 a row.
type SystemSink struct {
	sys r1cs.System
}

// reserve makes room for that many rows and terms, so that nothing is copied as they come.
func (s *SystemSink) reserve(rows int, terms [3]int64) {
	for i, m := range []*r1cs.Matrix{&s.sys.A, &s.sys.B, &s.sys.C} {
		m.Start = slices.Grow(m.Start, rows+1)
		m.Wire, m.Coeff = slices.Grow(m.Wire, int(terms[i])), slices.Grow(m.Coeff, int(terms[i]))
	}
}

// Write implements Sink.
func (s *SystemSink) Write(r *Rows) error {
	ms := [3]*r1cs.Matrix{&s.sys.A, &s.sys.B, &s.sys.C}
	lo := uint32(0)
	for i, hi := range r.Ends {
		m := ms[i%3]
		if len(m.Start) == 0 {
			m.Start = append(m.Start, 0)
		}
		for _, t := range r.Terms[lo:hi] {
			m.Wire = append(m.Wire, uint32(t.Var()))
			m.Coeff = append(m.Coeff, t.Coeff())
		}
		if uint64(len(m.Wire)) > 1<<32-1 {
			return errs.Mismatch(errs.Unsupported, "record circuit", "terms", "fewer than 2^32 a matrix", len(m.Wire))
		}
		m.Start = append(m.Start, uint32(len(m.Wire)))
		lo = hi
	}
	return nil
}

// End implements Sink: variables become wires, for which the number of inputs must be known.
func (s *SystemSink) End(shape *Shape) error {
	sys := &s.sys
	sys.NbWires, sys.NbPublic, sys.HasC = shape.Wires(), shape.Inputs-1, true
	number := make([]uint32, len(shape.Coeffs)) // of a coefficient in the dictionary of those that are used, from 1
	for _, m := range []*r1cs.Matrix{&sys.A, &sys.B, &sys.C} {
		if len(m.Start) == 0 {
			m.Start = []uint32{0}
		}
		for i, w := range m.Wire {
			m.Wire[i] = uint32(Var(w).wire(shape.Inputs))
			k := m.Coeff[i]
			if len(sys.Coeffs) == 0 {
				sys.Coeffs = append(sys.Coeffs, fr.One())
				number[powerCoeff(0, false)] = 1
			}
			if number[k] == 0 {
				sys.Coeffs = append(sys.Coeffs, shape.Coeffs[k])
				number[k] = uint32(len(sys.Coeffs))
			}
			m.Coeff[i] = number[k] - 1
		}
		m.Start, m.Wire, m.Coeff = slices.Clip(m.Start), slices.Clip(m.Wire), slices.Clip(m.Coeff)
	}
	return sys.Validate()
}

// System is what was recorded; only after Record has returned without an error.
func (s *SystemSink) System() *r1cs.System { return &s.sys }

// System records c in memory: for circuits that fit.
func System(ctx context.Context, c Circuit) (*r1cs.System, error) {
	var s SystemSink
	if _, err := Record(ctx, c, &s); err != nil {
		return nil, err
	}
	return s.System(), nil
}
