package wkey

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// VerifyChecksums reads the whole file by pread, on tasks goroutines, and compares the CRC-32C of every section; padding must be zero. So every
// byte of the file is covered: the header has a checksum of its own.
func (h *Header) VerifyChecksums(ctx context.Context, r io.ReaderAt, tasks int) error {
	return h.readSections(ctx, r, tasks, nil, true)
}

// readSections reads sections into their places in into; with check also those that have none, to compare the checksums of all.
func (h *Header) readSections(ctx context.Context, r io.ReaderAt, tasks int, into map[SectionID][]byte, check bool) error {
	type piece struct {
		section int
		off     int64 // in the section
		n       int64
		crc     uint32
	}
	var pieces []piece
	for i := range h.Sections {
		s := &h.Sections[i]
		if _, wanted := into[s.ID]; !wanted && !check {
			continue
		}
		for off := int64(0); off < s.Length; off += pieceSize {
			pieces = append(pieces, piece{section: i, off: off, n: min(pieceSize, s.Length-off)})
		}
	}
	bufs := make(chan []byte, max(1, tasks))
	err := points.Each(ctx, tasks, len(pieces), 1, func(i, _ int) error {
		p := &pieces[i]
		s := &h.Sections[p.section]
		if place, wanted := into[s.ID]; wanted {
			b := place[p.off : p.off+p.n]
			if err := readFull(r, b, s.Offset+p.off); err != nil {
				return err
			}
			if check {
				p.crc = crc32.Checksum(b, castagnoli)
			}
			return nil
		}
		var buf []byte
		select {
		case buf = <-bufs:
		default:
			buf = make([]byte, pieceSize)
		}
		if err := readFull(r, buf[:p.n], s.Offset+p.off); err != nil {
			return err
		}
		p.crc = crc32.Checksum(buf[:p.n], castagnoli)
		select {
		case bufs <- buf:
		default:
		}
		return nil
	})
	if err != nil || !check {
		return err
	}
	next := 0
	for i := range h.Sections {
		s := &h.Sections[i]
		var crc uint32
		for ; next < len(pieces) && pieces[next].section == i; next++ {
			crc = combine(crc, pieces[next].crc, pieces[next].n)
		}
		if crc != s.CRC {
			return crcError(s, crc)
		}
		end := s.Offset + s.Length
		pad := make([]byte, pageUp(end)-end)
		if err := readFull(r, pad, end); err != nil {
			return err
		}
		if at := bytes.IndexFunc(pad, func(x rune) bool { return x != 0 }); at >= 0 {
			return bad(fmt.Sprintf("padding after section %s, offset %d", s.ID, end+int64(at)), "zero", pad[at])
		}
	}
	return nil
}

// streamPoints is how many points are read at a time.
const streamPoints = 1 << 16

// StreamG1 reads a section of G1 points by pread, chunk by chunk, and compares its checksum at the end. The chunk is valid until f returns.
func (h *Header) StreamG1(ctx context.Context, r io.ReaderAt, id SectionID, f func(lo int, ps []bls12381.G1Affine) error) error {
	return stream(ctx, h, r, id, f)
}

// StreamG2 is StreamG1 for section B2.
func (h *Header) StreamG2(ctx context.Context, r io.ReaderAt, id SectionID, f func(lo int, ps []bls12381.G2Affine) error) error {
	return stream(ctx, h, r, id, f)
}

func stream[T any](ctx context.Context, h *Header, r io.ReaderAt, id SectionID, f func(lo int, ps []T) error) error {
	s := h.Section(id)
	var x T
	if s == nil || s.Elem != int(unsafe.Sizeof(x)) {
		return errs.New(errs.Internal, "read wkey", "%s holds no such points", id)
	}
	n := int(s.Count)
	ps := make([]T, min(n, streamPoints))
	var crc uint32
	for lo := 0; lo < n; lo += len(ps) {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := ps[:min(len(ps), n-lo)]
		b := unsafe.Slice((*byte)(unsafe.Pointer(&part[0])), len(part)*s.Elem)
		if err := readFull(r, b, s.Offset+int64(lo)*int64(s.Elem)); err != nil {
			return err
		}
		crc = crc32.Update(crc, castagnoli, b)
		if err := f(lo, part); err != nil {
			return err
		}
	}
	if crc != s.CRC {
		return crcError(s, crc)
	}
	return nil
}

// ReadWires reads a bitmap of wires by pread: section SecAWires or SecBWires.
func (h *Header) ReadWires(r io.ReaderAt, id SectionID) (groth16.Bitmap, error) {
	b, err := readSection(r, h.Section(id))
	if err != nil {
		return nil, err
	}
	wires := groth16.Bitmap(cast[uint64](b))
	want := h.Shape.NbA
	if id == SecBWires {
		want = h.Shape.NbB
	}
	return wires, h.checkWires(id, wires, want)
}

// VerifyOptions say how much of a file is checked.
type VerifyOptions struct {
	Tasks    int
	Curve    bool // every point is canonical and on the curve, those of A, B1 and B2 finite: 0.1 us a point
	Subgroup bool // and in the subgroup of order r: some 2 us a point of G1, 4 us of G2
}

// Verify checks the checksums, every index of the matrices and, if asked for, the points. It reads by pread: no section becomes resident.
func (f *File) Verify(ctx context.Context, o VerifyOptions) error {
	if err := f.VerifyChecksums(ctx, f.r, o.Tasks); err != nil {
		return err
	}
	if _, err := f.System(); err != nil {
		return err
	}
	return f.VerifyPoints(ctx, f.r, o)
}

// VerifyPoints checks the points as far as o asks for, by pread, chunk by chunk.
func (h *Header) VerifyPoints(ctx context.Context, r io.ReaderAt, o VerifyOptions) error {
	if !o.Curve && !o.Subgroup {
		return nil
	}
	for _, id := range []SectionID{SecA, SecB1, SecK, SecH, SecHAlt} {
		if h.Section(id) == nil { // only SecHAlt may be missing
			continue
		}
		finite := id == SecA || id == SecB1
		c := points.NewCheckerG1(ctx, o.Tasks, int(h.Section(id).Count))
		err := h.StreamG1(ctx, r, id, func(lo int, ps []bls12381.G1Affine) error {
			err := each(ctx, o.Tasks, id, lo, len(ps), func(i int) string { return checkG1(&ps[i], finite) })
			if err != nil || !o.Subgroup {
				return err
			}
			return points.AddG1(c, ps)
		})
		if err != nil {
			return errs.Wrap(err, "verify wkey")
		}
		if !o.Subgroup || c.Bad() == nil {
			continue
		}
		if err := h.StreamG1(ctx, r, id, func(lo int, ps []bls12381.G1Affine) error {
			return each(ctx, o.Tasks, id, lo, len(ps), func(i int) string { return inSubgroup(ps[i].IsInSubGroup()) })
		}); err != nil {
			return err
		}
	}
	c := points.NewCheckerG2(ctx, o.Tasks, int(h.Section(SecB2).Count))
	err := h.StreamG2(ctx, r, SecB2, func(lo int, ps []bls12381.G2Affine) error {
		err := each(ctx, o.Tasks, SecB2, lo, len(ps), func(i int) string { return checkG2(&ps[i], true) })
		if err != nil || !o.Subgroup {
			return err
		}
		return points.AddG2(c, ps)
	})
	if err != nil {
		return errs.Wrap(err, "verify wkey")
	}
	if !o.Subgroup || c.Bad() == nil {
		return nil
	}
	return h.StreamG2(ctx, r, SecB2, func(lo int, ps []bls12381.G2Affine) error {
		return each(ctx, o.Tasks, SecB2, lo, len(ps), func(i int) string { return inSubgroup(ps[i].IsInSubGroup()) })
	})
}

func inSubgroup(ok bool) string {
	if ok {
		return ""
	}
	return "a point that is not in the subgroup of order r"
}

// each names the first point of a chunk that check refuses; base is the index of the chunk's first.
func each(ctx context.Context, tasks int, id SectionID, base, n int, check func(i int) string) error {
	return points.Each(ctx, tasks, n, 1<<11, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if found := check(i); found != "" {
				return bad(fmt.Sprintf("section %s, point %d", id, base+i), "a finite point of BLS12-381 of order r", found)
			}
		}
		return nil
	})
}

func canonicalFr(x *fr.Element) bool { return below(x[:], frModulus[:]) }
func canonicalFp(x *fp.Element) bool { return below(x[:], fpModulus[:]) }

// below compares numbers of little-endian limbs.
func below(x, m []uint64) bool {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] != m[i] {
			return x[i] < m[i]
		}
	}
	return false
}

var (
	fpModulus = [fp.Limbs]uint64{0xb9feffffffffaaab, 0x1eabfffeb153ffff, 0x6730d2a0f6b0f624, 0x64774b84f38512bf, 0x4b1ba7b6434bacd7, 0x1a0111ea397fe69a}
	frModulus = [fr.Limbs]uint64{0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805, 0x73eda753299d7d48}
)

func checkG1(p *bls12381.G1Affine, finite bool) string {
	if finite && p.IsInfinity() {
		return "infinity"
	}
	if !canonicalFp(&p.X) || !canonicalFp(&p.Y) {
		return "a coordinate of at least the field's order"
	}
	if !p.IsOnCurve() {
		return "a point that is not on the curve"
	}
	return ""
}

func checkG2(p *bls12381.G2Affine, finite bool) string {
	if finite && p.IsInfinity() {
		return "infinity"
	}
	for _, x := range []*fp.Element{&p.X.A0, &p.X.A1, &p.Y.A0, &p.Y.A1} {
		if !canonicalFp(x) {
			return "a coordinate of at least the field's order"
		}
	}
	if !p.IsOnCurve() {
		return "a point that is not on the curve"
	}
	return ""
}
