package iden3

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/internal/dict"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Sections of an .r1cs file.
const (
	secR1CSHeader      = 1
	secConstraints     = 2
	secLabels          = 3
	secCustomGates     = 4 // list of gates
	secCustomGatesUses = 5
)

const (
	r1csHeaderSize = fieldHead + 4*4 + 8 + 4
	termSize       = 4 + fr.Bytes
	emptyRowSize   = 3 * 4
	labelSize      = 8
	// rowsBetweenChecks is how many rows are read between two looks at the context.
	rowsBetweenChecks = 1 << 14
)

// R1CSHeader is the header section of an .r1cs file. The wires are: the one, public outputs, public inputs, private inputs
// and inner variables. NbPrvIn counts private inputs that were optimised away too, so that it can be larger than what the wires have room for.
type R1CSHeader struct {
	NbWires       int
	NbPubOut      int
	NbPubIn       int
	NbPrvIn       int
	NbLabels      uint64
	NbConstraints int
}

// NbPublic is the number of public wires, the one not counted.
func (h R1CSHeader) NbPublic() int { return h.NbPubOut + h.NbPubIn }

// R1CSFile is an open .r1cs file whose header was checked. Safe for concurrent use.
type R1CSFile struct {
	c           *Container
	h           R1CSHeader
	constraints Section
	labels      Section
}

// OpenR1CS reads the header. Errors: InvalidFile for a damaged file; Unsupported for another field, custom gates (PLONK only) and for more rows than a domain of
// 2^28 holds.
func OpenR1CS(r io.ReaderAt, size int64) (*R1CSFile, error) {
	c, err := OpenContainer(r, size, "r1cs", 1)
	if err != nil {
		return nil, err
	}
	f := &R1CSFile{c: c}
	head, err := c.Need(secR1CSHeader, "the header")
	if err != nil {
		return nil, err
	}
	if err := c.checkField(head); err != nil {
		return nil, err
	}
	if head.Size != r1csHeaderSize {
		return nil, c.Bad(errs.InvalidFile, head.Where(), fmt.Sprintf("the header: %d bytes", r1csHeaderSize), fmt.Sprintf("%d bytes", head.Size))
	}
	var b [r1csHeaderSize - fieldHead]byte
	if err := c.ReadAt(head, b[:], fieldHead); err != nil {
		return nil, err
	}
	u := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[i:])) }
	wires, pubOut, pubIn, prvIn, rows := u(0), u(4), u(8), u(12), u(24)
	if wires < 1 || 1+pubOut+pubIn > wires {
		return nil, c.Bad(errs.InvalidFile, head.Where(), "wires for the one and the public signals", fmt.Sprintf("%d wires, %d public outputs, %d public inputs", wires, pubOut, pubIn))
	}
	if wires > assignment.MaxVariables || rows+pubOut+pubIn >= 1<<groth16.MaxLogDomain {
		return nil, c.Bad(errs.Unsupported, head.Where(), "at most 2^31 wires and fewer than 2^28 rows and public signals", fmt.Sprintf("%d wires, %d rows, %d public signals", wires, rows, pubOut+pubIn))
	}
	f.h = R1CSHeader{NbWires: int(wires), NbPubOut: int(pubOut), NbPubIn: int(pubIn), NbPrvIn: int(prvIn), NbLabels: binary.LittleEndian.Uint64(b[16:]), NbConstraints: int(rows)}
	if f.constraints, err = c.Need(secConstraints, "the constraints"); err != nil {
		return nil, err
	}
	if rows*emptyRowSize > uint64(f.constraints.Size) {
		return nil, c.Bad(errs.InvalidFile, f.constraints.Where(), fmt.Sprintf("%d constraints, at least %d bytes", rows, rows*emptyRowSize), fmt.Sprintf("%d bytes", f.constraints.Size))
	}
	if f.labels, err = c.NeedSize(secLabels, fmt.Sprintf("labels of %d wires", wires), wires*labelSize); err != nil {
		return nil, err
	}
	for _, id := range []uint32{secCustomGates, secCustomGatesUses} {
		if err := f.noCustomGates(id); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// noCustomGates accepts a section that is absent or says that there are none.
func (f *R1CSFile) noCustomGates(id uint32) error {
	s, ok := f.c.Find(id)
	if !ok {
		return nil
	}
	n, err := f.c.Reader(s).U32()
	if err != nil {
		return err
	}
	if n != 0 {
		return f.c.Bad(errs.Unsupported, s.Where(), "a circuit without custom gates", fmt.Sprintf("%d custom gates or uses of them", n)).
			WithHint("custom gates need PLONK; Groth16 has rank-1 constraints only")
	}
	return nil
}

// Header returns what the header section says.
func (f *R1CSFile) Header() R1CSHeader { return f.h }

// matrixNames are the linear combinations of a row in file order.
const matrixNames = "ABC"

// terms reads the number of terms of a linear combination and checks it against the rest of the section.
func (f *R1CSFile) terms(r *Reader, row, matrix int) (int64, error) {
	n, err := r.U32()
	if err != nil {
		return 0, err
	}
	if int64(n)*termSize > r.Rest() {
		return 0, f.c.Bad(errs.InvalidFile, fmt.Sprintf("%s, constraint %d, %c", r.Where(), row, matrixNames[matrix]), fmt.Sprintf("at most %d terms, to the end of the section", r.Rest()/termSize), n)
	}
	return int64(n), nil
}

// System reads the constraints in two passes: the first counts the terms of each matrix, so that the second fills slices of the right
// size. Terms stay in file order; a wire that a combination names twice stays twice (its coefficients add up).
func (f *R1CSFile) System(ctx context.Context) (*r1cs.System, error) {
	nnz, err := f.count(ctx)
	if err != nil {
		return nil, err
	}
	s := &r1cs.System{NbWires: f.h.NbWires, NbPublic: f.h.NbPublic(), HasC: true}
	ms := [3]*r1cs.Matrix{&s.A, &s.B, &s.C}
	for k, m := range ms {
		if nnz[k] > 1<<32-1 {
			return nil, f.c.Bad(errs.Unsupported, f.constraints.Where(), fmt.Sprintf("fewer than 2^32 terms in %c", matrixNames[k]), nnz[k])
		}
		m.Start = make([]uint32, 1, f.h.NbConstraints+1)
		m.Wire = make([]uint32, 0, nnz[k])
		m.Coeff = make([]uint32, 0, nnz[k])
	}
	coeffs := dict.New(dict.Plain)
	r := f.c.Reader(f.constraints)
	for row := range f.h.NbConstraints {
		if row%rowsBetweenChecks == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for k, m := range ms {
			n, err := f.terms(r, row, k)
			if err != nil {
				return nil, err
			}
			if uint64(len(m.Wire))+uint64(n) > nnz[k] {
				return nil, f.c.Bad(errs.InvalidFile, r.Where(), "the terms that were counted before", "more").WithHint("the file changed while it was read")
			}
			for range n {
				b, err := r.Next(termSize)
				if err != nil {
					return nil, err
				}
				wire := binary.LittleEndian.Uint32(b)
				if int(wire) >= f.h.NbWires {
					return nil, f.c.Bad(errs.InvalidFile, fmt.Sprintf("%s, constraint %d, %c", r.WhereBack(termSize), row, matrixNames[k]), fmt.Sprintf("a wire below %d", f.h.NbWires), wire)
				}
				id, ok := coeffs.ID(b[4:])
				if !ok {
					return nil, f.c.Bad(errs.InvalidFile, fmt.Sprintf("%s, constraint %d, %c", r.WhereBack(termSize), row, matrixNames[k]), "a coefficient below the group order r", "one that is not")
				}
				m.Wire = append(m.Wire, wire)
				m.Coeff = append(m.Coeff, id)
			}
			m.Start = append(m.Start, uint32(len(m.Wire)))
		}
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	s.Coeffs = coeffs.Coeffs
	return s, s.Validate()
}

// count is the number of terms of A, B and C.
func (f *R1CSFile) count(ctx context.Context) (nnz [3]uint64, err error) {
	r := f.c.Reader(f.constraints)
	for row := range f.h.NbConstraints {
		if row%rowsBetweenChecks == 0 && ctx.Err() != nil {
			return nnz, ctx.Err()
		}
		for k := range nnz {
			n, err := f.terms(r, row, k)
			if err != nil {
				return nnz, err
			}
			nnz[k] += uint64(n)
			if err := r.Skip(n * termSize); err != nil {
				return nnz, err
			}
		}
	}
	return nnz, r.End()
}

// Labels yields the label (the number that the .sym file starts a line with) of each wire.
func (f *R1CSFile) Labels() iter.Seq2[uint64, error] {
	return func(yield func(uint64, error) bool) {
		r := f.c.Reader(f.labels)
		for range f.h.NbWires {
			b, err := r.Next(labelSize)
			if err != nil {
				yield(0, err)
				return
			}
			if !yield(binary.LittleEndian.Uint64(b), nil) {
				return
			}
		}
	}
}

// R1CSInfo is what an .r1cs file has and a constraint system has not.
type R1CSInfo struct {
	NbPubOut int                      // the first NbPubOut public wires are outputs
	NbPrvIn  int                      // private inputs
	NbLabels uint64                   // 0: the number of wires
	Labels   iter.Seq2[uint64, error] // a label for each wire; nil: the wire's own number
}

// WriteR1CS writes s, which needs C rows, as an .r1cs file with the sections in circom's order: constraints, header, labels.
func WriteR1CS(w io.Writer, s *r1cs.System, info R1CSInfo) error {
	const op = "write .r1cs"
	if !s.HasC {
		return errs.New(errs.Unsupported, op, "the constraint system has no C rows").WithHint("a .zkey holds A and B only; use the .r1cs it was made from")
	}
	if info.NbPubOut < 0 || info.NbPubOut > s.NbPublic {
		return errs.Mismatch(errs.InvalidArgument, op, "public outputs", fmt.Sprintf("at most %d", s.NbPublic), info.NbPubOut)
	}
	if info.NbLabels == 0 {
		info.NbLabels = uint64(s.NbWires)
	}
	if info.Labels == nil {
		info.Labels = func(yield func(uint64, error) bool) {
			for i := range s.NbWires {
				if !yield(uint64(i), nil) {
					return
				}
			}
		}
	}
	e := NewWriter(w, "r1cs", 1, 3)
	ms := []*r1cs.Matrix{&s.A, &s.B, &s.C}
	e.Section(secConstraints, uint64(s.NbConstraints())*emptyRowSize+uint64(s.A.NNZ()+s.B.NNZ()+s.C.NNZ())*termSize)
	for row := 0; row < s.NbConstraints() && e.Err() == nil; row++ {
		for _, m := range ms {
			wire, coeff := m.Row(row)
			e.U32(uint32(len(wire)))
			for k := range wire {
				e.U32(wire[k])
				e.Scalar(&s.Coeffs[coeff[k]])
			}
		}
	}
	e.Section(secR1CSHeader, r1csHeaderSize)
	e.fieldHeader()
	e.U32(uint32(s.NbWires))
	e.U32(uint32(info.NbPubOut))
	e.U32(uint32(s.NbPublic - info.NbPubOut))
	e.U32(uint32(info.NbPrvIn))
	e.U64(info.NbLabels)
	e.U32(uint32(s.NbConstraints()))
	e.Section(secLabels, uint64(s.NbWires)*labelSize)
	for l, err := range info.Labels {
		if err != nil {
			return err
		}
		e.U64(l)
		if e.Err() != nil {
			break
		}
	}
	return e.Close()
}
