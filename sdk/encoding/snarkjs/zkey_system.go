package snarkjs

import (
	"context"
	"encoding/binary"
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
	matrix, row, wire uint32
	value             []byte // valid until the next entry is read
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
		c := coef{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), b[12:]}
		if c.matrix > 1 || uint64(c.row) >= 1<<z.h.LogDomain || int(c.wire) >= z.h.NbWires {
			return z.c.Bad(errs.InvalidFile, fmt.Sprintf("%s, coefficient %d", r.WhereBack(sizeCoef), i), fmt.Sprintf("matrix 0 or 1, row < %d, wire < %d", 1<<z.h.LogDomain, z.h.NbWires),
				fmt.Sprintf("matrix %d, row %d, wire %d", c.matrix, c.row, c.wire))
		}
		if err := f(r, c); err != nil {
			return err
		}
	}
	return r.End()
}

// lastRow is the row of the last coefficient in the file. Where snarkjs wrote the file this is the last of all rows.
func (z *ZKey) lastRow() (uint32, error) {
	var b [4]byte
	s := z.sections[secCoefs]
	err := z.c.ReadAt(s, b[:], s.Size-sizeCoef+4)
	return min(binary.LittleEndian.Uint32(b[:]), 1<<z.h.LogDomain-1), err
}

// rows finds the number of rows of the circuit: the last rows are the NbPublic+1 extra ones, each with a coefficient.
func (z *ZKey) rows(ctx context.Context) (int, error) {
	last := uint32(0)
	err := z.coefs(ctx, func(_ *iden3.Reader, c coef) error {
		last = max(last, c.row)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return z.rowsFromLast(int(last))
}

func (z *ZKey) rowsFromLast(last int) (int, error) {
	n := last - z.h.NbPublic
	if n < 0 {
		return 0, z.c.Bad(errs.InvalidFile, z.sections[secCoefs].Where(), fmt.Sprintf("%d extra rows for the one and the public inputs", z.h.NbPublic+1), fmt.Sprintf("a last row %d", last))
	}
	return n, nil
}

// System reads A and B from section 4, which may list its entries in any order, and checks and leaves out the extra rows of the public inputs (row NbConstraints+s
// must be A = 1 * wire s and B = 0). HasC is false: the file has no C. Two passes: one counts, one fills.
func (z *ZKey) System(ctx context.Context) (*r1cs.System, error) {
	last, err := z.lastRow()
	if err != nil {
		return nil, err
	}
	// start[m][row+2] counts the terms of a row first. After the sums start[m][row+1] is where the row's next term goes, and at last where it ends.
	var start [2][]uint32
	for m := range start {
		start[m] = make([]uint32, int(last)+3)
	}
	last = 0
	err = z.coefs(ctx, func(_ *iden3.Reader, c coef) error {
		if int(c.row)+3 > len(start[0]) {
			for m := range start {
				start[m] = append(start[m], make([]uint32, int(c.row)+3-len(start[m]))...)
			}
		}
		start[c.matrix][c.row+2]++
		last = max(last, c.row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows, err := z.rowsFromLast(int(last))
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
		if extra := int(c.row) - rows; extra >= 0 {
			if int(c.wire) != extra || id != 0 { // index 0 is the one
				return z.extraRow(rows, extra, fmt.Sprintf("wire %d with coefficient %s", c.wire, coeffs.Coeffs[id].String()))
			}
			return nil
		}
		at := &start[c.matrix][c.row+1]
		if int(*at) >= len(ms[c.matrix].Wire) {
			return z.c.Bad(errs.InvalidFile, r.WhereBack(sizeCoef), "the coefficients that were counted before", "others").WithHint("the file changed while it was read")
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

func (z *ZKey) extraRow(rows, s int, found string) error {
	return z.c.Bad(errs.InvalidFile, fmt.Sprintf("section %d, row %d", secCoefs, rows+s), fmt.Sprintf("A = 1 * wire %d and B = 0: the extra row of public input %d", s, s), found)
}
