package circom

import (
	"context"
	"fmt"
	"hash/crc32"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

const preparedMagic = wkey.Magic

// openPrepared reads the header of a .wkey file; nil for one without matrices.
func openPrepared(src *source) (*matrices, error) {
	h, err := wkey.ReadHeader(src, src.size)
	if err != nil {
		return nil, errs.InFile(err, src.name)
	}
	if !h.Shape.HasMatrices {
		return nil, nil
	}
	m := &matrices{wires: h.Shape.NbWires, public: h.Shape.NbPublic, constraints: h.Shape.NbConstraints, nbInputs: -1}
	if h.Digest.AB != [32]byte{} {
		m.digest = &h.Digest.AB
	}
	m.system = func(ctx context.Context) (*r1cs.System, func(), error) {
		s, err := preparedSystem(ctx, src, h)
		return s, nil, err
	}
	return m, nil
}

// preparedSystem reads only the matrices, into the heap and with their checksums compared: a mapping would end the process with
// the file's truncation, and would charge it with pages that nobody counts.
func preparedSystem(ctx context.Context, src *source, h *wkey.Header) (*r1cs.System, error) {
	s := &r1cs.System{NbWires: h.Shape.NbWires, NbPublic: h.Shape.NbPublic, HasC: h.Shape.HasC}
	if err := readSection(ctx, src, h, wkey.SecCoeffs, &s.Coeffs); err != nil {
		return nil, err
	}
	for i, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
		if i == 2 && !s.HasC {
			break
		}
		first := wkey.SecAStart + wkey.SectionID(3*i)
		for j, to := range []*[]uint32{&m.Start, &m.Wire, &m.Coeff} {
			if err := readSection(ctx, src, h, first+wkey.SectionID(j), to); err != nil {
				return nil, err
			}
		}
	}
	one := fr.One()
	if len(s.Coeffs) == 0 || !s.Coeffs[0].Equal(&one) {
		return nil, errs.Mismatch(errs.InvalidFile, "read wkey", "section coefficients", "one as the first", "another")
	}
	return s, errs.Wrap(s.Validate(), "read wkey")
}

// readSection reads a section, which is the memory image of *to.
func readSection[T uint32 | fr.Element](ctx context.Context, src *source, h *wkey.Header, id wkey.SectionID, to *[]T) error {
	sec := h.Section(id)
	if sec == nil {
		return errs.Mismatch(errs.InvalidFile, "read wkey", "section "+id.String(), "one", "none")
	}
	*to = make([]T, sec.Count) // ReadHeader has compared the count with the file's size
	b := slab.BytesOf(*to)
	crc := uint32(0)
	for off := int64(0); off < int64(len(b)); off += chunkBytes {
		if err := ctx.Err(); err != nil {
			return errs.Wrap(err, "read wkey")
		}
		piece := b[off:min(off+chunkBytes, int64(len(b)))]
		if _, err := src.ReadAt(piece, sec.Offset+off); err != nil {
			return &errs.Error{Class: errs.InvalidFile, Op: "read wkey", Where: "section " + id.String(), Err: err, Hint: "the file changed while it was in use"}
		}
		crc = crc32.Update(crc, crc32.MakeTable(crc32.Castagnoli), piece)
	}
	if crc != sec.CRC || int64(len(b)) != sec.Length {
		return errs.Mismatch(errs.InvalidFile, "read wkey", "section "+id.String(), fmt.Sprintf("the checksum %08x of %d bytes", sec.CRC, sec.Length), fmt.Sprintf("%08x of %d", crc, len(b))).
			WithHint("the file is damaged; import the key again")
	}
	return nil
}
