package wkey

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// File is a key in memory: mapped (Map) or read (Load). Its slices are valid until Close.
type File struct {
	Header
	r    io.ReaderAt // for Verify
	data []byte
	heap bool
	key  groth16.ProvingKey

	once   sync.Once
	sys    *r1cs.System
	sysErr error
}

// Map maps the whole file, read-only and shared; nothing is read but the header, the verifying key and the bitmaps. f may be closed afterwards only if
// Verify is not called. A process that maps a file dies of SIGBUS when another truncates it: plugins map, the host does not.
func Map(f *os.File) (*File, error) {
	size, err := fileSize(f)
	if err != nil {
		return nil, err
	}
	h, err := ReadHeader(f, size)
	if err != nil {
		return nil, errs.InFile(err, f.Name())
	}
	data, err := mapFile(f, size)
	if err != nil {
		return nil, errs.InFile(err, f.Name())
	}
	k := &File{Header: *h, r: f, data: data}
	if err := k.open(); err != nil {
		unmap(data)
		return nil, errs.InFile(err, f.Name())
	}
	return k, nil
}

func fileSize(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, errs.Wrap(err, "read wkey")
	}
	if !st.Mode().IsRegular() {
		return 0, errs.Mismatch(errs.InvalidFile, "read wkey", "", "a file", st.Mode().Type()).WithPath(f.Name())
	}
	return st.Size(), nil
}

// Load reads the whole file into the heap, tasks pieces at a time.
func Load(ctx context.Context, r io.ReaderAt, size int64, tasks int) (*File, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	words := make([]uint64, (size+7)/8) // aligned for what lies in it
	data := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
	err = points.Each(ctx, tasks, int((size+pieceSize-1)/pieceSize), 1, func(i, _ int) error {
		lo := int64(i) * pieceSize
		return readFull(r, data[lo:min(size, lo+pieceSize)], lo)
	})
	if err != nil {
		return nil, err
	}
	k := &File{Header: *h, r: r, data: data, heap: true}
	if err := k.open(); err != nil {
		return nil, err
	}
	return k, nil
}

// pieceSize is what is read or summed at a time.
const pieceSize = 1 << 20

// view is a section as a slice of T, with the length and capacity of the section.
func view[T any](f *File, id SectionID) []T {
	s := f.Section(id)
	if s == nil || s.Count == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&f.data[s.Offset])), int(s.Count))
}

func (f *File) open() error {
	if !hostIsLittleEndian() {
		return errs.New(errs.Unsupported, "read wkey", "this machine is not little-endian")
	}
	vk, err := f.Header.VerifyingKey(f.r)
	if err != nil {
		return err
	}
	f.key = groth16.ProvingKey{
		Shape: f.Shape, VK: *vk,
		A: view[bls12381.G1Affine](f, SecA), AWires: view[uint64](f, SecAWires),
		B1: view[bls12381.G1Affine](f, SecB1), B2: view[bls12381.G2Affine](f, SecB2), BWires: view[uint64](f, SecBWires),
		K: view[bls12381.G1Affine](f, SecK), H: view[bls12381.G1Affine](f, SecH),
	}
	// A prover indexes points by these, so they are checked at every load: n/64 words.
	for _, b := range []struct {
		id   SectionID
		bits groth16.Bitmap
		want int
	}{{SecAWires, f.key.AWires, f.Shape.NbA}, {SecBWires, f.key.BWires, f.Shape.NbB}} {
		if got := b.bits.Count(); got != b.want {
			return bad("section "+b.id.String(), fmt.Sprintf("%d wires", b.want), got)
		}
		if r := f.Shape.NbWires % 64; r != 0 && b.bits[len(b.bits)-1]>>r != 0 {
			return bad("section "+b.id.String(), fmt.Sprintf("bits of %d wires", f.Shape.NbWires), "more")
		}
	}
	return nil
}

// Key is the proving key; its slices are the file's.
func (f *File) Key() *groth16.ProvingKey { return &f.key }

// System is the constraint system, nil when the file has none. The first call checks every index (one pass), so that no
// evaluation can leave a slice.
func (f *File) System() (*r1cs.System, error) {
	if !f.Shape.HasMatrices {
		return nil, nil
	}
	f.once.Do(func() {
		s := &r1cs.System{NbWires: f.Shape.NbWires, NbPublic: f.Shape.NbPublic, HasC: f.Shape.HasC, Coeffs: view[fr.Element](f, SecCoeffs)}
		for i, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
			if i == 2 && !s.HasC {
				break
			}
			start := SecAStart + SectionID(3*i)
			*m = r1cs.Matrix{Start: view[uint32](f, start), Wire: view[uint32](f, start+1), Coeff: view[uint32](f, start+2)}
		}
		if one := fr.One(); !s.Coeffs[0].Equal(&one) {
			f.sysErr = bad("section coefficients", "one as the first", "another")
			return
		}
		if err := s.Validate(); err != nil {
			f.sysErr = errs.Wrap(err, "read wkey")
			return
		}
		f.sys = s
	})
	return f.sys, f.sysErr
}

// Mapped reports whether the sections lie in a file mapping.
func (f *File) Mapped() bool { return !f.heap }

// Release tells the system that sections are not needed for now: mapped pages leave the memory and come back from the file when touched again. It
// does nothing to a file in the heap.
func (f *File) Release(ids ...SectionID) { f.advise(adviseDontNeed, ids) }

// WillNeed tells the system to read sections ahead.
func (f *File) WillNeed(ids ...SectionID) { f.advise(adviseWillNeed, ids) }

func (f *File) advise(advice int, ids []SectionID) {
	if f.heap || f.data == nil {
		return
	}
	page := int64(os.Getpagesize())
	for _, id := range ids {
		s := f.Section(id)
		if s == nil {
			continue
		}
		// whole pages of this section only: a machine's pages may be larger than the file's
		lo, hi := (s.Offset+page-1)&^(page-1), (pageUp(s.Offset+s.Length))&^(page-1)
		if lo < hi {
			madvise(f.data[lo:hi], advice)
		}
	}
}

// Bytes is the size of the sections: the memory a key takes when all of it was touched.
func (f *File) Bytes() int64 { return f.FileSize }

// Close unmaps. The key and the system must not be used afterwards.
func (f *File) Close() error {
	data := f.data
	f.data, f.key, f.sys = nil, groth16.ProvingKey{}, nil
	if data == nil || f.heap {
		return nil
	}
	return unmap(data)
}

// VerifyingKey reads the verifying key by pread, and checks checksums, curve and subgroup.
func (h *Header) VerifyingKey(r io.ReaderAt) (*groth16.VerifyingKey, error) {
	fixed, err := readSection(r, h.Section(SecFixed))
	if err != nil {
		return nil, err
	}
	rest, err := readSection(r, h.Section(SecIC))
	if err != nil {
		return nil, err
	}
	vk := &groth16.VerifyingKey{IC: make([]bls12381.G1Affine, len(rest)/points.G1Size)}
	g1 := func(p *bls12381.G1Affine, b []byte) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(p)), points.G1Size), b)
	}
	g2 := func(p *bls12381.G2Affine, b []byte) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(p)), points.G2Size), b)
	}
	for i, p := range []*bls12381.G1Affine{&vk.AlphaG1, &vk.BetaG1, &vk.DeltaG1} {
		g1(p, fixed[i*points.G1Size:])
		if p.IsInfinity() || checkG1(p) != "" || !p.IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section fixed points, point %d", i), "a finite point of order r", "another")
		}
	}
	for i, p := range []*bls12381.G2Affine{&vk.BetaG2, &vk.GammaG2, &vk.DeltaG2} {
		g2(p, fixed[3*points.G1Size+i*points.G2Size:])
		if p.IsInfinity() || checkG2(p) != "" || !p.IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section fixed points, point %d", 3+i), "a finite point of order r", "another")
		}
	}
	for i := range vk.IC {
		g1(&vk.IC[i], rest[i*points.G1Size:])
		if checkG1(&vk.IC[i]) != "" || !vk.IC[i].IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section IC, point %d", i), "a point of order r", "another")
		}
	}
	return vk, nil
}

func readSection(r io.ReaderAt, s *Section) ([]byte, error) {
	b := make([]byte, s.Length)
	if err := readFull(r, b, s.Offset); err != nil {
		return nil, err
	}
	if got := crc32.Checksum(b, castagnoli); got != s.CRC {
		return nil, crcError(s, got)
	}
	return b, nil
}

func crcError(s *Section, got uint32) error {
	return bad(fmt.Sprintf("section %s, checksum of offset %d to %d", s.ID, s.Offset, s.Offset+s.Length), fmt.Sprintf("%08x", s.CRC), fmt.Sprintf("%08x", got))
}

// VerifyChecksums reads the whole file by pread, on tasks goroutines, and compares the CRC-32C of every section; padding must be zero. So every
// byte of the file is covered: the header has a checksum of its own.
func (h *Header) VerifyChecksums(ctx context.Context, r io.ReaderAt, tasks int) error {
	type piece struct {
		section int
		off     int64
		n       int64
		crc     uint32
	}
	var pieces []piece
	for i := range h.Sections {
		s := &h.Sections[i]
		for off := int64(0); off < s.Length; off += pieceSize {
			pieces = append(pieces, piece{section: i, off: s.Offset + off, n: min(pieceSize, s.Length-off)})
		}
	}
	bufs := make(chan []byte, max(1, tasks))
	err := points.Each(ctx, tasks, len(pieces), 1, func(i, _ int) error {
		var buf []byte
		select {
		case buf = <-bufs:
		default:
			buf = make([]byte, pieceSize)
		}
		p := &pieces[i]
		if err := readFull(r, buf[:p.n], p.off); err != nil {
			return err
		}
		p.crc = crc32.Checksum(buf[:p.n], castagnoli)
		select {
		case bufs <- buf:
		default:
		}
		return nil
	})
	if err != nil {
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

// VerifyOptions say how much of a file is checked.
type VerifyOptions struct {
	Tasks    int
	Curve    bool // every point is canonical and on the curve, those of A, B1 and B2 finite: 0.1 us a point
	Subgroup bool // and in the subgroup of order r: some 4 us a point of G1, 10 us of G2
}

// Verify checks the checksums, every index of the matrices and, if asked for, the points.
func (f *File) Verify(ctx context.Context, o VerifyOptions) error {
	if err := f.VerifyChecksums(ctx, f.r, o.Tasks); err != nil {
		return err
	}
	if _, err := f.System(); err != nil {
		return err
	}
	for i := range view[fr.Element](f, SecCoeffs) {
		if x := &view[fr.Element](f, SecCoeffs)[i]; !canonicalFr(x) {
			return bad(fmt.Sprintf("section coefficients, element %d", i), "a number below r", "another")
		}
	}
	if !o.Curve && !o.Subgroup {
		return nil
	}
	for _, id := range []SectionID{SecA, SecB1, SecK, SecH} {
		ps := view[bls12381.G1Affine](f, id)
		finite := id == SecA || id == SecB1
		if err := each(ctx, o.Tasks, id, len(ps), func(i int) string {
			if finite && ps[i].IsInfinity() {
				return "infinity"
			}
			return checkG1(&ps[i])
		}); err != nil {
			return err
		}
		if !o.Subgroup {
			continue
		}
		c := points.NewCheckerG1(ctx, o.Tasks, len(ps))
		if err := points.AddG1(c, ps); err != nil {
			return errs.Wrap(err, "verify wkey")
		}
		if c.Bad() != nil {
			if err := each(ctx, o.Tasks, id, len(ps), func(i int) string { return inSubgroup(ps[i].IsInSubGroup()) }); err != nil {
				return err
			}
		}
	}
	ps := view[bls12381.G2Affine](f, SecB2)
	if err := each(ctx, o.Tasks, SecB2, len(ps), func(i int) string {
		if ps[i].IsInfinity() {
			return "infinity"
		}
		return checkG2(&ps[i])
	}); err != nil {
		return err
	}
	if !o.Subgroup {
		return nil
	}
	c := points.NewCheckerG2(ctx, o.Tasks, len(ps))
	if err := points.AddG2(c, ps); err != nil {
		return errs.Wrap(err, "verify wkey")
	}
	if c.Bad() != nil {
		return each(ctx, o.Tasks, SecB2, len(ps), func(i int) string { return inSubgroup(ps[i].IsInSubGroup()) })
	}
	return nil
}

func inSubgroup(ok bool) string {
	if ok {
		return ""
	}
	return "a point that is not in the subgroup of order r"
}

// each names the first element of a section that check refuses.
func each(ctx context.Context, tasks int, id SectionID, n int, check func(i int) string) error {
	return points.Each(ctx, tasks, n, 1<<11, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if found := check(i); found != "" {
				return bad(fmt.Sprintf("section %s, point %d", id, i), "a finite point of BLS12-381 of order r", found)
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

func checkG1(p *bls12381.G1Affine) string {
	if !canonicalFp(&p.X) || !canonicalFp(&p.Y) {
		return "a coordinate of at least the field's order"
	}
	if !p.IsOnCurve() {
		return "a point that is not on the curve"
	}
	return ""
}

func checkG2(p *bls12381.G2Affine) string {
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
