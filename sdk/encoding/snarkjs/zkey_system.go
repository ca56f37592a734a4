package snarkjs

import (
	"context"
	"fmt"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/internal/dict"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// coefsBetweenChecks is how many coefficients are read between two looks at the context.
const coefsBetweenChecks = 1 << 16

// coef is one entry of section 4. Its value is the coefficient n as n R^2 mod r, R = 2^256, so that a Montgomery product with a plain witness value gives the
// Montgomery form of n times the value.
type coef struct {
	matrix, index, wire uint32 // index: which power of snarkjs' root of unity the row stands at
	value               []byte // valid until the next entry is read
}

// coefs reads section 4 from its start and hands every entry, with indexes below the sizes of the header, to f.
func (z *ZKey) coefs(ctx context.Context, f func(r *iden3.Reader, c coef) error) error {
	r := z.c.Reader(z.sections[secCoefs])
	if _, err := r.U32(); err != nil {
		return err
	}
	for i := range z.h.NbCoefs {
		if i%coefsBetweenChecks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := r.Next(sizeCoef)
		if err != nil {
			return err
		}
		c := decodeCoef(b)
		if c.matrix > 1 || uint64(c.index) >= 1<<z.h.LogDomain || int(c.wire) >= z.h.NbWires {
			return z.c.Bad(errs.InvalidFile, fmt.Sprintf("%s, coefficient %d", r.WhereBack(sizeCoef), i), fmt.Sprintf("matrix 0 or 1, row < %d, wire < %d", 1<<z.h.LogDomain, z.h.NbWires),
				fmt.Sprintf("matrix %d, row %d, wire %d", c.matrix, c.index, c.wire))
		}
		if err := f(r, c); err != nil {
			return err
		}
	}
	return r.End()
}

// System reads A and B from section 4, which may list its entries in any order, and checks and leaves out the extra rows of the public inputs (row NbConstraints+s
// must be A = 1 * wire s and B = 0). HasC is false: the file has no C. The rows are in the circuit's order, whichever of the two placements the file has. Passes
// over the section: see placement; then one counts and one fills.
func (z *ZKey) System(ctx context.Context) (*r1cs.System, error) {
	rows, order, err := z.placement(ctx)
	if err != nil {
		return nil, err
	}
	// start[m][row+2] counts the terms of a row first. After the sums start[m][row+1] is where the row's next term goes, and at last where it ends.
	var start [2][]uint32
	for m := range start {
		start[m] = make([]uint32, rows+z.h.NbPublic+3)
	}
	err = z.coefs(ctx, func(r *iden3.Reader, c coef) error {
		row := z.rowAt(order, c.index)
		if row > rows+z.h.NbPublic {
			return z.changed(r)
		}
		start[c.matrix][row+2]++
		return nil
	})
	if err != nil {
		return nil, err
	}
	for s := range z.h.NbPublic + 1 {
		if a, b := start[0][rows+s+2], start[1][rows+s+2]; a != 1 || b != 0 {
			return nil, z.extraRow(rows, s, fmt.Sprintf("%d terms in A, %d in B", a, b))
		}
	}
	s := &r1cs.System{NbWires: z.h.NbWires, NbPublic: z.h.NbPublic}
	ms := [2]*r1cs.Matrix{&s.A, &s.B}
	for m := range start {
		for i := 2; i < len(start[m]); i++ {
			start[m][i] += start[m][i-1]
		}
		nnz := start[m][rows+1]
		ms[m].Wire, ms[m].Coeff = make([]uint32, nnz), make([]uint32, nnz)
	}
	coeffs := dict.New(dict.DoubleMontgomery)
	err = z.coefs(ctx, func(r *iden3.Reader, c coef) error {
		id, ok := coeffs.ID(c.value)
		if !ok {
			return z.c.Bad(errs.InvalidFile, r.WhereBack(sizeCoef), "a coefficient below the group order r", "one that is not")
		}
		row := z.rowAt(order, c.index)
		if extra := row - rows; extra >= 0 {
			if int(c.wire) != extra || id != 0 { // index 0 is the one
				return z.extraRow(rows, extra, fmt.Sprintf("wire %d with coefficient %s", c.wire, coeffs.Coeffs[id].String()))
			}
			return nil
		}
		at := &start[c.matrix][row+1]
		if int(*at) >= len(ms[c.matrix].Wire) {
			return z.changed(r)
		}
		ms[c.matrix].Wire[*at], ms[c.matrix].Coeff[*at] = c.wire, id
		*at++
		return nil
	})
	if err != nil {
		return nil, err
	}
	for m := range start {
		ms[m].Start = start[m][: rows+1 : rows+1]
	}
	s.Coeffs = coeffs.Coeffs
	return s, s.Validate()
}

func (z *ZKey) changed(r *iden3.Reader) error {
	return z.c.Bad(errs.InvalidFile, r.WhereBack(sizeCoef), "the coefficients that were counted before", "others").WithHint("the file changed while it was read")
}

func (z *ZKey) extraRow(rows, s int, found string) error {
	return z.c.Bad(errs.InvalidFile, fmt.Sprintf("section %d, row %d", secCoefs, rows+s), fmt.Sprintf("A = 1 * wire %d and B = 0: the extra row of public input %d", s, s), found)
}
