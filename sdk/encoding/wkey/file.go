package wkey

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// File is a key in memory: mapped (Map) or read (Load). Its slices are valid until Close.
type File struct {
	Header
	r     io.ReaderAt // for Verify, and what is read late
	data  []byte      // the mapping, nil for a file in the heap
	parts map[SectionID][]byte
	key   groth16.ProvingKey

	altOnce sync.Once
	alt     []bls12381.G1Affine
	altErr  error

	once   sync.Once
	sys    *r1cs.System
	sysErr error
}

// Map maps the whole file, read-only and shared; nothing is read but the header, the verifying key and the bitmaps. f may be closed afterwards only if
// Verify is not called. Errors call the file name; "" is f's own name, which for a file from another process is none that its user knows. A process
// that maps a file dies of SIGBUS when another truncates it: plugins map, the host does not.
func Map(f *os.File, name string) (*File, error) {
	k, err := openMapped(f)
	if err != nil {
		if name == "" {
			name = f.Name()
		}
		return nil, errs.InFile(err, name)
	}
	return k, nil
}

func openMapped(f *os.File) (*File, error) {
	size, err := fileSize(f)
	if err != nil {
		return nil, err
	}
	h, err := ReadHeader(f, size)
	if err != nil {
		return nil, err
	}
	data, err := mapFile(f, size)
	if err != nil {
		return nil, err
	}
	k := &File{Header: *h, r: f, data: data, parts: map[SectionID][]byte{}}
	for _, s := range h.Sections {
		k.parts[s.ID] = data[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
	}
	if err := k.open(); err != nil {
		_ = unmap(data) // the first error says more
		return nil, err
	}
	return k, nil
}

func fileSize(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, errs.Wrap(err, "read wkey")
	}
	if !st.Mode().IsRegular() {
		return 0, errs.Mismatch(errs.InvalidFile, "read wkey", "", "a file", st.Mode().Type())
	}
	return st.Size(), nil
}

// LoadOptions of Load.
type LoadOptions struct {
	Tasks int // goroutines, at least one
	// SkipChecksums leaves out the comparison of the checksums, for a file whose digest is known to be good.
	SkipChecksums bool
}

// Load reads the file into the heap, but for H in the other basis and the transcript, and compares the checksums of all of it.
func Load(ctx context.Context, r io.ReaderAt, size int64, o LoadOptions) (*File, error) {
	h, err := ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	k := &File{Header: *h, r: r, parts: map[SectionID][]byte{}}
	for _, w := range h.wanted() {
		if w.id != SecHAlt {
			k.parts[w.id] = aligned(h.Section(w.id).Length)
		}
	}
	if err := h.readSections(ctx, r, o.Tasks, k.parts, !o.SkipChecksums); err != nil {
		return nil, err
	}
	if err := k.open(); err != nil {
		return nil, err
	}
	return k, nil
}

// pieceSize is what is read or summed at a time.
const pieceSize = 1 << 20

// view is a section as a slice of T, with the length and capacity of the section.
func view[T any](f *File, id SectionID) []T { return cast[T](f.parts[id]) }

// aligned is n bytes in which elements may lie.
func aligned(n int64) []byte {
	if n == 0 {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
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
		if err := f.checkWires(b.id, b.bits, b.want); err != nil {
			return err
		}
	}
	return nil
}

func (h *Header) checkWires(id SectionID, wires groth16.Bitmap, want int) error {
	if got := wires.Count(); got != want {
		return bad("section "+id.String(), fmt.Sprintf("%d wires", want), got)
	}
	if r := h.Shape.NbWires % 64; r != 0 && wires[len(wires)-1]>>r != 0 {
		return bad("section "+id.String(), fmt.Sprintf("bits of %d wires", h.Shape.NbWires), "more")
	}
	return nil
}

// Key is the proving key; its slices are the file's.
func (f *File) Key() *groth16.ProvingKey { return &f.key }

// AltH is the H points in the other basis than Key's, which AltBasis names; nil when the file has none. Those of a mapped file lie in the mapping; else
// the first call reads them into the heap.
func (f *File) AltH() ([]bls12381.G1Affine, error) {
	s := f.Section(SecHAlt)
	if s == nil {
		return nil, nil
	}
	f.altOnce.Do(func() {
		b, there := f.parts[SecHAlt]
		if !there {
			b, f.altErr = readSection(f.r, s)
		}
		f.alt = cast[bls12381.G1Affine](b)
	})
	return f.alt, f.altErr
}

// KeyWith is the key with its H points in the given basis where the file has them so, else as Key; section is the one that these lie in.
func (f *File) KeyWith(h groth16.HBasis) (pk *groth16.ProvingKey, section SectionID, err error) {
	if alt, ok := f.AltBasis(); !ok || alt != h {
		return &f.key, SecH, nil
	}
	k := f.key
	k.Shape = otherBasis(&f.Shape)
	if k.H, err = f.AltH(); err != nil {
		return nil, SecHAlt, err
	}
	return &k, SecHAlt, nil
}

// System is the constraint system, nil when the file has none. The first call checks every index (one pass), so that no
// evaluation can leave a slice.
func (f *File) System() (*r1cs.System, error) {
	if !f.Shape.HasMatrices {
		return nil, nil
	}
	f.once.Do(func() {
		f.sys, f.sysErr = f.Header.system(func(id SectionID) []byte { return f.parts[id] })
	})
	return f.sys, f.sysErr
}

// ReadSystem reads the constraint system alone into the heap, by pread, and checks its checksums and every index; nil when the file has
// none. For a process that does not map the key.
func (h *Header) ReadSystem(ctx context.Context, r io.ReaderAt, tasks int) (*r1cs.System, error) {
	if !h.Shape.HasMatrices {
		return nil, nil
	}
	var ids []SectionID
	for id := SecCoeffs; id <= SecCCoeff; id++ {
		if h.Section(id) != nil {
			ids = append(ids, id)
		}
	}
	parts := make([][]byte, len(ids))
	err := points.Each(ctx, tasks, len(ids), 1, func(i, _ int) (err error) {
		parts[i], err = readSection(r, h.Section(ids[i]))
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.system(func(id SectionID) []byte { return parts[slices.Index(ids, id)] })
}

// system makes the constraint system from its sections and checks it.
func (h *Header) system(section func(SectionID) []byte) (*r1cs.System, error) {
	if !hostIsLittleEndian() {
		return nil, errs.New(errs.Unsupported, "read wkey", "this machine is not little-endian")
	}
	s := &r1cs.System{NbWires: h.Shape.NbWires, NbPublic: h.Shape.NbPublic, HasC: h.Shape.HasC, Coeffs: cast[fr.Element](section(SecCoeffs))}
	for i, m := range []*r1cs.Matrix{&s.A, &s.B, &s.C} {
		if i == 2 && !s.HasC {
			break
		}
		start := SecAStart + SectionID(3*i)
		*m = r1cs.Matrix{Start: cast[uint32](section(start)), Wire: cast[uint32](section(start + 1)), Coeff: cast[uint32](section(start + 2))}
	}
	if one := fr.One(); !s.Coeffs[0].Equal(&one) {
		return nil, bad("section coefficients", "one as the first", "another")
	}
	for i := range s.Coeffs {
		if !canonicalFr(&s.Coeffs[i]) {
			return nil, bad(fmt.Sprintf("section coefficients, element %d", i), "a number below r", "another")
		}
	}
	if err := s.Validate(); err != nil {
		return nil, errs.Wrap(err, "read wkey")
	}
	return s, nil
}

// cast views bytes as elements; b is aligned, since sections begin at pages and reads are into words.
func cast[T any](b []byte) []T {
	var x T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(x)))
}

// Mapped reports whether the sections lie in a file mapping.
func (f *File) Mapped() bool { return f.data != nil }

// Release tells the system that sections are not needed for now: mapped pages leave the memory and come back from the file when touched again. It
// does nothing to a file in the heap.
func (f *File) Release(ids ...SectionID) { f.advise(adviseDontNeed, ids) }

// WillNeed tells the system to read sections ahead.
func (f *File) WillNeed(ids ...SectionID) { f.advise(adviseWillNeed, ids) }

func (f *File) advise(advice int, ids []SectionID) {
	if f.data == nil {
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

// Bytes is the memory a key takes when all of it was touched, H in one basis.
func (f *File) Bytes() int64 {
	n := f.FileSize
	if s := f.Section(SecHAlt); s != nil {
		n -= pageUp(s.Length)
	}
	return n
}

// Close unmaps. The key and the system must not be used afterwards.
func (f *File) Close() error {
	data := f.data
	f.data, f.parts, f.key, f.sys, f.alt = nil, nil, groth16.ProvingKey{}, nil, nil
	if data == nil {
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
		if checkG1(p, true) != "" || !p.IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section fixed points, point %d", i), "a finite point of order r", "another")
		}
	}
	for i, p := range []*bls12381.G2Affine{&vk.BetaG2, &vk.GammaG2, &vk.DeltaG2} {
		g2(p, fixed[3*points.G1Size+i*points.G2Size:])
		if checkG2(p, true) != "" || !p.IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section fixed points, point %d", 3+i), "a finite point of order r", "another")
		}
	}
	for i := range vk.IC {
		g1(&vk.IC[i], rest[i*points.G1Size:])
		if checkG1(&vk.IC[i], false) != "" || !vk.IC[i].IsInSubGroup() {
			return nil, bad(fmt.Sprintf("section IC, point %d", i), "a point of order r", "another")
		}
	}
	return vk, nil
}

// maxTranscript bounds what is read of a record that nothing else bounds: it is for people and tools, not for proofs.
const maxTranscript = 16 << 20

// Transcript reads section SecTranscript by pread, nil when the file has none.
func (h *Header) Transcript(r io.ReaderAt) ([]byte, error) {
	s := h.Section(SecTranscript)
	if s == nil {
		return nil, nil
	}
	if s.Length > maxTranscript {
		return nil, bad("section transcript", fmt.Sprintf("at most %d bytes", maxTranscript), s.Length)
	}
	return readSection(r, s)
}

func readSection(r io.ReaderAt, s *Section) ([]byte, error) {
	b := aligned(s.Length)
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
