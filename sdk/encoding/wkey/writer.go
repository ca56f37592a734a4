package wkey

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf8"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Writer writes a file section by section: Begin, any number of Writes, End, ... and Finish. It holds no section in memory.
type Writer struct {
	f       io.WriterAt
	h       Header
	at      int64 // next byte
	current *Section
	err     error
}

// NewWriter starts a file at offset 0 of f. Until Finish it does not look like a key. Where f has Sync and Truncate, as *os.File, both are used.
func NewWriter(f io.WriterAt) (*Writer, error) {
	if !hostIsLittleEndian() {
		return nil, errs.New(errs.Unsupported, "write wkey", "this machine is not little-endian")
	}
	w := &Writer{f: f, at: headerSize}
	// an old header in the same place would vouch for the new content
	if _, err := f.WriteAt(make([]byte, headerSize), 0); err != nil {
		return nil, errs.Wrap(err, "write wkey")
	}
	return w, nil
}

func (w *Writer) fail(format string, args ...any) error {
	if w.err == nil {
		w.err = errs.New(errs.Internal, "write wkey", format, args...)
	}
	return w.err
}

// Begin starts a section of elements of elem bytes.
func (w *Writer) Begin(id SectionID, elem int) error {
	switch {
	case w.err != nil:
		return w.err
	case w.current != nil:
		return w.fail("%s begun before %s ended", id, w.current.ID)
	case w.h.Section(id) != nil:
		return w.fail("%s written twice", id)
	case len(w.h.Sections) == maxSections:
		return w.fail("more than %d sections", maxSections)
	}
	w.h.Sections = append(w.h.Sections, Section{ID: id, Elem: elem, Offset: w.at})
	w.current = &w.h.Sections[len(w.h.Sections)-1]
	return nil
}

// Write appends to the section.
func (w *Writer) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if w.current == nil {
		return 0, w.fail("written outside a section")
	}
	n, err := w.f.WriteAt(b, w.at)
	w.at += int64(n)
	w.current.Length += int64(n)
	if err != nil {
		w.err = errs.Wrap(err, "write wkey")
		return n, w.err
	}
	w.current.CRC = crc32.Update(w.current.CRC, castagnoli, b)
	return n, nil
}

// End ends the section and fills its last page.
func (w *Writer) End() error {
	if w.err != nil {
		return w.err
	}
	s := w.current
	if s == nil {
		return w.fail("no section to end")
	}
	if s.Length%int64(s.Elem) != 0 {
		return w.fail("%s has %d bytes, not a multiple of %d", s.ID, s.Length, s.Elem)
	}
	s.Count = s.Length / int64(s.Elem)
	w.current = nil
	if pad := pageUp(w.at) - w.at; pad > 0 {
		if _, err := w.f.WriteAt(make([]byte, pad), w.at); err != nil {
			w.err = errs.Wrap(err, "write wkey")
			return w.err
		}
		w.at += pad
	}
	return nil
}

// Elements appends elements whose memory image is that of the file: points, field elements, u32, u64.
func Elements[T bls12381.G1Affine | bls12381.G2Affine | fr.Element | uint32 | uint64](w *Writer, xs []T) error {
	if len(xs) == 0 {
		return w.err
	}
	_, err := w.Write(unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0]))))
	return err
}

// SectionOf writes a whole section from memory, in pieces so that ctx is looked at between.
func SectionOf[T bls12381.G1Affine | bls12381.G2Affine | fr.Element | uint32 | uint64](ctx context.Context, w *Writer, id SectionID, xs []T) error {
	var x T
	if err := w.Begin(id, int(unsafe.Sizeof(x))); err != nil {
		return err
	}
	const piece = 1 << 16
	for lo := 0; lo < len(xs); lo += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := Elements(w, xs[lo:min(len(xs), lo+piece)]); err != nil {
			return err
		}
	}
	return w.End()
}

// VerifyingKey writes its two sections.
func (w *Writer) VerifyingKey(ctx context.Context, vk *groth16.VerifyingKey) error {
	if err := w.Begin(SecFixed, int(unsafe.Sizeof(vk.AlphaG1))); err != nil {
		return err
	}
	if err := Elements(w, []bls12381.G1Affine{vk.AlphaG1, vk.BetaG1, vk.DeltaG1}); err != nil {
		return err
	}
	if err := Elements(w, []bls12381.G2Affine{vk.BetaG2, vk.GammaG2, vk.DeltaG2}); err != nil {
		return err
	}
	if err := w.End(); err != nil {
		return err
	}
	return SectionOf(ctx, w, SecIC, vk.IC)
}

// System writes the matrices.
func (w *Writer) System(ctx context.Context, s *r1cs.System) error {
	if one := fr.One(); len(s.Coeffs) == 0 || !s.Coeffs[0].Equal(&one) {
		return w.fail("the dictionary of coefficients does not begin with one")
	}
	if err := SectionOf(ctx, w, SecCoeffs, s.Coeffs); err != nil {
		return err
	}
	for i, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
		if i == 2 && !s.HasC {
			break
		}
		for j, xs := range [][]uint32{m.Start, m.Wire, m.Coeff} {
			if err := SectionOf(ctx, w, SecAStart+SectionID(3*i+j), xs); err != nil {
				return err
			}
		}
	}
	return nil
}

// Transcript writes section SecTranscript.
func (w *Writer) Transcript(b []byte) error {
	if err := w.Begin(SecTranscript, 1); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.End()
}

// Finish writes the header after everything else is on the disk. m must fit the sections that were written.
func (w *Writer) Finish(m Meta) error {
	if w.err != nil {
		return w.err
	}
	if w.current != nil {
		return w.fail("%s was not ended", w.current.ID)
	}
	if len(m.Creator) > creatorSize {
		m.Creator = m.Creator[:creatorSize]
		for !utf8.ValidString(m.Creator) { // do not cut a character in two
			m.Creator = m.Creator[:len(m.Creator)-1]
		}
	}
	w.h.Meta, w.h.FileSize = m, w.at
	page := w.h.encode()
	if _, err := decode(page); err != nil {
		w.err = &errs.Error{Class: errs.Internal, Op: "write wkey", Err: err}
		return w.err
	}
	if t, ok := w.f.(interface{ Truncate(int64) error }); ok {
		if err := t.Truncate(w.at); err != nil {
			return errs.Wrap(err, "write wkey")
		}
	}
	sync := func() error {
		if s, ok := w.f.(interface{ Sync() error }); ok {
			return errs.Wrap(s.Sync(), "write wkey")
		}
		return nil
	}
	if err := sync(); err != nil {
		return err
	}
	if _, err := w.f.WriteAt(page, 0); err != nil {
		return errs.Wrap(err, "write wkey")
	}
	w.err = errs.New(errs.Internal, "write wkey", "the file is finished")
	return sync()
}

// Write writes a whole key, with the matrices of sys where it is not nil. The shape in m is taken from pk and sys; digest, source and creator
// from m.
func Write(ctx context.Context, f io.WriterAt, pk *groth16.ProvingKey, sys *r1cs.System, m Meta) error {
	w, err := NewWriter(f)
	if err != nil {
		return err
	}
	m.Shape = pk.Shape
	if m.Shape.HasMatrices = sys != nil; sys != nil {
		m.Shape.NbConstraints = sys.NbConstraints()
	}
	m.Shape.HasC = sys != nil && sys.HasC
	for _, step := range []func() error{
		func() error { return w.VerifyingKey(ctx, &pk.VK) },
		func() error { return SectionOf(ctx, w, SecA, pk.A) },
		func() error { return SectionOf(ctx, w, SecAWires, pk.AWires) },
		func() error { return SectionOf(ctx, w, SecB1, pk.B1) },
		func() error { return SectionOf(ctx, w, SecB2, pk.B2) },
		func() error { return SectionOf(ctx, w, SecBWires, pk.BWires) },
		func() error { return SectionOf(ctx, w, SecK, pk.K) },
		func() error { return SectionOf(ctx, w, SecH, pk.H) },
		func() error {
			if sys == nil {
				return nil
			}
			if sys.NbWires != pk.NbWires || sys.NbPublic != pk.NbPublic {
				return errs.Mismatch(errs.InvalidFile, "write wkey", "circuit", fmt.Sprintf("%d wires, %d public", pk.NbWires, pk.NbPublic), fmt.Sprintf("%d wires, %d public", sys.NbWires, sys.NbPublic)).
					WithHint("circuit and key do not belong together")
			}
			return w.System(ctx, sys)
		},
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return w.Finish(m)
}
