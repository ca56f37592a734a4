// Package wkey is weir's prepared key, the file that provers load from: points and matrices in the memory image of gnark-crypto's types,
// page-aligned, so that a key is mapped and not read. See docs/formats.md, "Prepared key (.wkey)".
//
// A file is written section by section, with bounded memory, and its header last: a crash leaves a file that nobody takes for a key.
// The host reads headers and the verifying key by pread (ReadHeader); only plugins map (Map), since a mapped file that is truncated kills
// the process that touches it.
package wkey

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Version is the format version this package writes; it reads this one alone.
const Version = 1

// Magic is the first eight bytes. Like PNG's it has a byte above 127 and both line ends, so that a transfer as text shows.
const Magic = "\x89wkey\r\n\x1a"

const (
	headerSize  = 4096 // bytes before the first section
	pageSize    = 4096 // alignment of sections
	tableOffset = 512
	entrySize   = 40
	maxSections = 64
	creatorSize = 64
	crcOffset   = headerSize - 4
)

// Flags of a file. An unknown required flag is an error: the key means something that this version does not know.
const (
	// FlagFolded: the points of C are folded into K and H (docs/formats.md). Reserved: version 1 of weir neither writes nor reads it.
	FlagFolded uint64 = 1 << 0
	// FlagInsecure: made by a development set-up; whoever made the key can forge proofs.
	FlagInsecure uint64 = 1 << 1

	knownRequired = FlagInsecure

	// FlagMatrices (optional): the rows of A and B are in the file.
	FlagMatrices uint64 = 1 << 0
	// FlagC (optional): and the rows of C.
	FlagC uint64 = 1 << 1
	// FlagAltH (optional): the H points are there in the other basis too, as section SecHAlt.
	FlagAltH uint64 = 1 << 2
)

// SectionID names a section.
type SectionID uint32

// Sections. Points are affine, coordinates in Montgomery form, 6 little-endian limbs of 64 bits each, infinity all zero; bitmaps have
// one bit a wire in little-endian words of 64 bits; numbers are little-endian.
const (
	SecFixed  SectionID = 1 // alpha1, beta1, delta1 (G1), beta2, gamma2, delta2 (G2): 864 bytes
	SecIC     SectionID = 2
	SecA      SectionID = 3
	SecAWires SectionID = 4 // which wires the points of A belong to
	SecB1     SectionID = 5
	SecB2     SectionID = 6
	SecBWires SectionID = 7
	SecK      SectionID = 8
	SecH      SectionID = 9
	// SecHAlt (optional) is H in the other basis than the header names: for another format, or for a prover that prefers it.
	SecHAlt SectionID = 10

	SecCoeffs SectionID = 16 // dictionary, Montgomery form; entry 0 is one
	SecAStart SectionID = 17 // u32 [rows+1]
	SecAWire  SectionID = 18 // u32 [terms]
	SecACoeff SectionID = 19 // u32 [terms]
	SecBStart SectionID = 20
	SecBWire  SectionID = 21
	SecBCoeff SectionID = 22
	SecCStart SectionID = 23
	SecCWire  SectionID = 24
	SecCCoeff SectionID = 25

	// SecTranscript (optional) is the record of contributions of the .zkey that the key was made from, byte for byte, so that an export keeps it.
	SecTranscript SectionID = 32
)

var sectionNames = map[SectionID]string{
	SecFixed: "fixed points", SecIC: "IC", SecA: "A", SecAWires: "A wires", SecB1: "B1", SecB2: "B2", SecBWires: "B wires", SecK: "K", SecH: "H", SecHAlt: "H in the other basis",
	SecCoeffs: "coefficients", SecAStart: "matrix A starts", SecAWire: "matrix A wires", SecACoeff: "matrix A coefficients",
	SecBStart: "matrix B starts", SecBWire: "matrix B wires", SecBCoeff: "matrix B coefficients",
	SecTranscript: "transcript", SecCStart: "matrix C starts", SecCWire: "matrix C wires", SecCCoeff: "matrix C coefficients",
}

// String names a section as messages do.
func (id SectionID) String() string {
	if n, ok := sectionNames[id]; ok {
		return n
	}
	return fmt.Sprintf("section %d", uint32(id))
}

// Section is an entry of the table.
type Section struct {
	ID     SectionID
	Elem   int   // bytes an element
	Offset int64 // multiple of 4096
	Length int64 // Elem * Count
	Count  int64
	CRC    uint32 // CRC-32C of the section without padding
}

// SourceKind says what a prepared key was made from.
type SourceKind uint16

const (
	SourceUnknown SourceKind = 0
	SourceSetup   SourceKind = 1 // made by weir setup
	SourceZKey    SourceKind = 2 // snarkjs
	SourceParams  SourceKind = 3 // bellman
	SourceWKey    SourceKind = 4 // another prepared key
)

// String names the kind as messages do.
func (k SourceKind) String() string {
	switch k {
	case SourceSetup:
		return "setup"
	case SourceZKey:
		return "zkey"
	case SourceParams:
		return "params"
	case SourceWKey:
		return "wkey"
	}
	return "unknown"
}

// Source is the file a key was made from; zero for a set-up.
type Source struct {
	Kind   SourceKind
	Size   int64
	Digest [64]byte // BLAKE2b-512 of the whole file: its first 16 bytes are what Filecoin's parameters.json calls digest
}

// Meta is what a header says about a key besides its sections.
type Meta struct {
	Shape   groth16.Shape
	Digest  r1cs.Digest // of the circuit; zero where not known
	Source  Source
	Creator string // program and version, at most 64 bytes of UTF-8
}

// Header is the first 4096 bytes of a file, decoded and checked.
type Header struct {
	Meta
	FileSize int64
	Sections []Section // in the order of the file
}

// Section returns the entry of a section, nil when the file has none.
func (h *Header) Section(id SectionID) *Section {
	for i := range h.Sections {
		if h.Sections[i].ID == id {
			return &h.Sections[i]
		}
	}
	return nil
}

// AltBasis is the basis of section SecHAlt; false when the file has no such section.
func (h *Header) AltBasis() (groth16.HBasis, bool) {
	if h.Section(SecHAlt) == nil {
		return 0, false
	}
	return otherBasis(&h.Shape).H, true
}

// otherBasis is the shape with the other basis of H.
func otherBasis(s *groth16.Shape) groth16.Shape {
	t := *s
	if t.H, t.NbH = groth16.HOddCoset, s.DomainSize(); s.H == groth16.HOddCoset {
		t.H, t.NbH = groth16.HMonomial, s.DomainSize()-1
	}
	return t
}

func pageUp(n int64) int64 { return (n + pageSize - 1) &^ (pageSize - 1) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const againHint = "make the file again with weir key import or weir setup"

func bad(where string, expected, found any) *errs.Error {
	return errs.Mismatch(errs.InvalidFile, "read wkey", where, expected, found).WithHint(againHint)
}

// ReadHeader reads and checks the header by pread: 4096 bytes. Counts, sizes and offsets of the sections are checked against each other, the shape
// and the size of the file; their content is not looked at.
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	if size < 16 {
		return nil, bad("size", fmt.Sprintf("at least %d bytes", headerSize), fmt.Sprintf("%d bytes", size))
	}
	b := make([]byte, min(size, headerSize))
	if err := readFull(r, b, 0); err != nil {
		return nil, err
	}
	if string(b[:8]) != Magic {
		if size >= headerSize && strings.Trim(string(b), "\x00") == "" {
			return nil, bad("magic", "a prepared key", "a file that was never finished")
		}
		return nil, errs.Mismatch(errs.InvalidFile, "read wkey", "magic", fmt.Sprintf("%q", Magic), fmt.Sprintf("%q", b[:8])).WithHint("the file is not a prepared key; see weir inspect")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != Version {
		return nil, errs.Mismatch(errs.Unsupported, "read wkey", "version", Version, v).WithHint("the file was made by another version of weir; " + againHint)
	}
	if size < headerSize {
		return nil, bad("size", fmt.Sprintf("at least %d bytes", headerSize), fmt.Sprintf("%d bytes", size))
	}
	if got, want := crc32.Checksum(b[:crcOffset], castagnoli), binary.LittleEndian.Uint32(b[crcOffset:]); got != want {
		return nil, bad("header checksum", fmt.Sprintf("%08x", want), fmt.Sprintf("%08x", got))
	}
	h, err := decode(b)
	if err != nil {
		return nil, err
	}
	if h.FileSize != size {
		return nil, bad("size", fmt.Sprintf("%d bytes as the header says", h.FileSize), fmt.Sprintf("%d bytes", size))
	}
	return h, nil
}

// CheckUnchanged compares the size of a file that was opened before with its header: after a plugin died of a mapped key, this
// tells whether the file was cut under it.
func (h *Header) CheckUnchanged(size int64) error {
	if size != h.FileSize {
		return errs.Mismatch(errs.InvalidFile, "key file changed", "size", h.FileSize, size).WithHint("something wrote to the key while it was in use; " + againHint)
	}
	return nil
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return &errs.Error{Class: errs.InvalidFile, Op: "read wkey", Where: fmt.Sprintf("offset %d", at), Hint: againHint, Err: io.ErrUnexpectedEOF}
	}
	return &errs.Error{Class: errs.ClassOf(err), Op: "read wkey", Where: fmt.Sprintf("offset %d", at), Err: err}
}

// encode makes the header page, checksum included.
func (h *Header) encode() []byte {
	b := make([]byte, headerSize)
	le := binary.LittleEndian
	copy(b, Magic)
	le.PutUint32(b[8:], Version)
	le.PutUint32(b[12:], uint32(len(h.Sections)))
	var required, optional uint64
	if h.Shape.Insecure {
		required |= FlagInsecure
	}
	if h.Shape.HasMatrices {
		optional |= FlagMatrices
	}
	if h.Shape.HasC {
		optional |= FlagC
	}
	if h.Section(SecHAlt) != nil {
		optional |= FlagAltH
	}
	le.PutUint64(b[16:], required)
	le.PutUint64(b[24:], optional)
	le.PutUint64(b[32:], uint64(h.FileSize))
	s := &h.Shape
	for i, n := range []int{s.NbWires, s.NbPublic, s.NbConstraints, s.NbA, s.NbB, s.NbH} {
		le.PutUint64(b[40+8*i:], uint64(int64(n)))
	}
	b[88], b[89], b[90] = byte(s.LogDomain), byte(s.Rows), byte(s.H)
	le.PutUint16(b[92:], uint16(h.Source.Kind))
	le.PutUint64(b[96:], uint64(h.Source.Size))
	copy(b[104:], h.Source.Digest[:])
	copy(b[168:], h.Digest.AB[:])
	copy(b[200:], h.Digest.ABC[:])
	copy(b[232:232+creatorSize], h.Creator)
	for i, x := range h.Sections {
		e := b[tableOffset+i*entrySize:]
		le.PutUint32(e, uint32(x.ID))
		le.PutUint32(e[4:], uint32(x.Elem))
		le.PutUint64(e[8:], uint64(x.Offset))
		le.PutUint64(e[16:], uint64(x.Length))
		le.PutUint64(e[24:], uint64(x.Count))
		le.PutUint32(e[32:], x.CRC)
	}
	le.PutUint32(b[crcOffset:], crc32.Checksum(b[:crcOffset], castagnoli))
	return b
}

// maxCount bounds every number of a header, far above any key, so that sums and products below cannot overflow.
const maxCount = 1 << 40

func decode(b []byte) (*Header, error) {
	le := binary.LittleEndian
	required, optional := le.Uint64(b[16:]), le.Uint64(b[24:])
	if x := required &^ knownRequired; x != 0 {
		what := fmt.Sprintf("%#x", x)
		if x == FlagFolded {
			what = "folded key"
		}
		return nil, errs.Mismatch(errs.Unsupported, "read wkey", "required features", "none that this version of weir does not know", what).
			WithHint("the key was made by a newer weir; update, or import the source file again")
	}
	h := &Header{FileSize: int64(le.Uint64(b[32:]))}
	s := &h.Shape
	for i, n := range []*int{&s.NbWires, &s.NbPublic, &s.NbConstraints, &s.NbA, &s.NbB, &s.NbH} {
		v := int64(le.Uint64(b[40+8*i:]))
		if v > maxCount || v < 0 && (n != &s.NbConstraints || v != -1) {
			return nil, bad("sizes", fmt.Sprintf("numbers up to %d", int64(maxCount)), v)
		}
		*n = int(v)
	}
	s.LogDomain, s.Rows, s.H = int(b[88]), groth16.RowOrder(b[89]), groth16.HBasis(b[90])
	s.Insecure, s.HasMatrices, s.HasC = required&FlagInsecure != 0, optional&FlagMatrices != 0, optional&FlagC != 0
	if err := s.Validate(); err != nil {
		return nil, errs.Wrap(err, "read wkey")
	}
	if s.HasC && !s.HasMatrices || s.HasMatrices && s.NbConstraints < 0 {
		return nil, bad("features", "C only with A and B, and these with the number of rows", "another combination")
	}
	h.Source.Kind, h.Source.Size = SourceKind(le.Uint16(b[92:])), int64(le.Uint64(b[96:]))
	copy(h.Source.Digest[:], b[104:])
	copy(h.Digest.AB[:], b[168:])
	copy(h.Digest.ABC[:], b[200:])
	h.Creator = strings.TrimRight(string(b[232:232+creatorSize]), "\x00")
	if !utf8.ValidString(h.Creator) {
		return nil, bad("creator", "UTF-8 text", fmt.Sprintf("%q", h.Creator))
	}
	n := le.Uint32(b[12:])
	if n > maxSections {
		return nil, bad("sections", fmt.Sprintf("at most %d", maxSections), n)
	}
	for i := range int(n) {
		e := b[tableOffset+i*entrySize:]
		x := Section{ID: SectionID(le.Uint32(e)), Elem: int(le.Uint32(e[4:])), Offset: int64(le.Uint64(e[8:])), Length: int64(le.Uint64(e[16:])), Count: int64(le.Uint64(e[24:])), CRC: le.Uint32(e[32:])}
		h.Sections = append(h.Sections, x)
	}
	if said, is := optional&FlagAltH != 0, h.Section(SecHAlt) != nil; said != is {
		return nil, bad("features", fmt.Sprintf("H in the other basis: %v, as the section table has it", is), said)
	}
	return h, h.checkTable()
}

// checkTable checks that the sections follow each other without gap or overlap and have the sizes that the shape asks for. Unknown sections are
// allowed: a feature that must not be ignored sets a required flag.
func (h *Header) checkTable() error {
	at := int64(headerSize)
	seen := map[SectionID]bool{}
	for _, x := range h.Sections {
		where := "section table, " + x.ID.String()
		if x.Elem < 1 || x.Elem > 1<<20 || x.Count < 0 || x.Count > maxCount || x.Length != x.Count*int64(x.Elem) {
			return bad(where, "count times element size bytes", fmt.Sprintf("%d elements of %d bytes, %d bytes", x.Count, x.Elem, x.Length))
		}
		if x.Offset != at {
			return bad(where, fmt.Sprintf("offset %d, after the section before", at), x.Offset)
		}
		if seen[x.ID] {
			return bad(where, "each section once", "twice")
		}
		seen[x.ID] = true
		if at += x.Length; at > h.FileSize {
			return bad(where, fmt.Sprintf("an end within the %d bytes of the file", h.FileSize), at)
		}
		at = pageUp(at)
	}
	if h.FileSize != at {
		return bad("size", fmt.Sprintf("%d bytes by the section table", at), h.FileSize)
	}
	for _, w := range h.wanted() {
		x := h.Section(w.id)
		if x == nil {
			return bad("section table", "a section "+w.id.String(), "none")
		}
		if x.Elem != w.elem || w.count >= 0 && x.Count != w.count {
			return bad("section table, "+x.ID.String(), fmt.Sprintf("%d elements of %d bytes", w.count, w.elem), fmt.Sprintf("%d of %d", x.Count, x.Elem))
		}
	}
	if !h.Shape.HasMatrices {
		return nil
	}
	if n := h.Section(SecCoeffs).Count; n < 1 || n > 1<<32 {
		return bad("section table, coefficients", "1 to 2^32", n)
	}
	for _, p := range [][2]SectionID{{SecAWire, SecACoeff}, {SecBWire, SecBCoeff}, {SecCWire, SecCCoeff}} {
		if p[0] == SecCWire && !h.Shape.HasC {
			break
		}
		if x, y := h.Section(p[0]), h.Section(p[1]); x.Count != y.Count || x.Count > 1<<32-1 {
			return bad("section table, "+y.ID.String(), fmt.Sprintf("%d as wires, below 2^32", x.Count), y.Count)
		}
	}
	return nil
}

type wanted struct {
	id    SectionID
	elem  int
	count int64 // -1: any
}

func (h *Header) wanted() []wanted {
	s := &h.Shape
	words := int64(s.NbWires+63) / 64
	w := []wanted{
		{SecFixed, points.G1Size, fixedSize / points.G1Size}, {SecIC, points.G1Size, int64(s.NbPublic) + 1},
		{SecA, points.G1Size, int64(s.NbA)}, {SecAWires, 8, words},
		{SecB1, points.G1Size, int64(s.NbB)}, {SecB2, points.G2Size, int64(s.NbB)}, {SecBWires, 8, words},
		{SecK, points.G1Size, int64(s.NbPrivate())}, {SecH, points.G1Size, int64(s.NbH)},
	}
	matrix := func(start SectionID) {
		w = append(w, wanted{start, 4, int64(s.NbConstraints) + 1}, wanted{start + 1, 4, -1}, wanted{start + 2, 4, -1})
	}
	if h.Section(SecHAlt) != nil {
		w = append(w, wanted{SecHAlt, points.G1Size, int64(otherBasis(s).NbH)})
	}
	if s.HasMatrices {
		w = append(w, wanted{SecCoeffs, 32, -1})
		matrix(SecAStart)
		matrix(SecBStart)
	}
	if s.HasC {
		matrix(SecCStart)
	}
	return w
}

// fixedSize is the bytes of section SecFixed.
const fixedSize = 3*points.G1Size + 3*points.G2Size

// hostIsLittleEndian: the images in the file are those of this machine.
func hostIsLittleEndian() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}
