// Package bellman reads and writes the files of bellman and bellperson (Filecoin) over BLS12-381: proving keys (.params), verifying keys
// (.vk) and proofs of 192 bytes.
//
// A .params file is a verifying key and five lists of points, each with a big-endian count; see docs/formats.md. It does not tell
// which wires the points of A and B belong to: that comes from the circuit, as Densities.
package bellman

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// fixedSize is the part before ic: alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2.
const fixedSize = 3*points.G1Size + 3*points.G2Size

// Section is one list of points.
type Section struct {
	Name      string // "ic", "h", "l", "a", "b_g1", "b_g2"
	Offset    int64  // of the first point, after the count
	Count     int
	PointSize int // 96 or 192
}

// End is the offset after the last point.
func (s *Section) End() int64 { return s.Offset + int64(s.Count)*int64(s.PointSize) }

// Layout says where the lists of a .params file are. It is found by reading six counts.
type Layout struct {
	Size                int64 // of the file
	IC, H, L, A, B1, B2 Section
}

// Sections returns the lists in the order of the file.
func (l *Layout) Sections() []*Section { return []*Section{&l.IC, &l.H, &l.L, &l.A, &l.B1, &l.B2} }

// TrailingBytes is what follows the last list: a ceremony's transcript (phase 2 of bellman keeps it there) or nothing. It is not read.
func (l *Layout) TrailingBytes() int64 { return l.Size - l.B2.End() }

const wrongFile = "the file is truncated, or is not a .params file"

// ReadLayout finds the lists and checks that the counts fit the file and each other. It reads 24 bytes and allocates nothing by what it
// reads.
func ReadLayout(r io.ReaderAt, size int64) (*Layout, error) {
	const op = "read params"
	l := &Layout{Size: size}
	at := int64(fixedSize)
	if size < at+4 {
		return nil, errs.Mismatch(errs.InvalidFile, op, "size", fmt.Sprintf("at least %d bytes", at+4), fmt.Sprintf("%d bytes", size)).WithHint(wrongFile)
	}
	for _, s := range []struct {
		to        *Section
		name      string
		pointSize int
	}{{&l.IC, "ic", points.G1Size}, {&l.H, "h", points.G1Size}, {&l.L, "l", points.G1Size}, {&l.A, "a", points.G1Size}, {&l.B1, "b_g1", points.G1Size}, {&l.B2, "b_g2", points.G2Size}} {
		where := fmt.Sprintf("count of %s at offset %d", s.name, at)
		if size-at < 4 {
			return nil, errs.Mismatch(errs.InvalidFile, op, where, "4 bytes", fmt.Sprintf("%d", max(0, size-at))).WithHint(wrongFile)
		}
		n, err := readCount(r, at, where)
		if err != nil {
			return nil, err
		}
		at += 4
		if room := (size - at) / int64(s.pointSize); int64(n) > room {
			return nil, errs.Mismatch(errs.InvalidFile, op, where, fmt.Sprintf("at most the %d points that the file has room for", room), n).WithHint(wrongFile)
		}
		*s.to = Section{Name: s.name, Offset: at, Count: int(n), PointSize: s.pointSize}
		at = s.to.End()
	}
	sh := l.Shape()
	switch {
	case l.IC.Count < 1:
		return nil, errs.Mismatch(errs.InvalidFile, op, "ic", "at least one point", 0).WithHint(wrongFile)
	case bits.OnesCount32(uint32(l.H.Count)+1) != 1:
		return nil, errs.Mismatch(errs.InvalidFile, op, "h", "2^k - 1 points", l.H.Count).WithHint(wrongFile)
	case l.B1.Count != l.B2.Count:
		return nil, errs.Mismatch(errs.InvalidFile, op, "b_g2", fmt.Sprintf("%d points as b_g1", l.B1.Count), l.B2.Count).WithHint(wrongFile)
	}
	if err := sh.Validate(); err != nil {
		return nil, errs.Wrap(err, op)
	}
	return l, nil
}

func readCount(r io.ReaderAt, at int64, where string) (uint32, error) {
	var b [4]byte
	if err := readFull(r, b[:], at); err != nil {
		return 0, &errs.Error{Class: ioClass(err), Op: "read params", Where: where, Err: err}
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// ioClass is InvalidFile for a file that ends early, else the class of the failure.
func ioClass(err error) errs.Class {
	if err == io.ErrUnexpectedEOF {
		return errs.InvalidFile
	}
	return errs.ClassOf(err)
}

// Shape is what the counts tell. NbConstraints is -1: the file does not tell. Whether the key comes from a ceremony the file does not
// tell either.
func (l *Layout) Shape() groth16.Shape {
	return groth16.Shape{
		LogDomain: bits.Len32(uint32(l.H.Count)), NbWires: l.IC.Count + l.L.Count, NbPublic: l.IC.Count - 1, NbConstraints: -1,
		NbA: l.A.Count, NbB: l.B1.Count, NbH: l.H.Count, Rows: groth16.RowsSeven, H: groth16.HMonomial,
	}
}

// Densities is what a circuit must tell so that a .params file can be used: which wires have a point in A and in B.
type Densities struct {
	NbWires       int
	NbPublic      int // the one not counted
	NbConstraints int // without the extra rows of the public inputs; -1 when not known
	A, B          groth16.Bitmap
}

// DensitiesOf derives them from a constraint system.
func DensitiesOf(s *r1cs.System) *Densities {
	a, b := s.Density()
	return &Densities{NbWires: s.NbWires, NbPublic: s.NbPublic, NbConstraints: s.NbConstraints(), A: a, B: b}
}

// Mismatch hint of every disagreement between a key and a circuit.
const notTogether = "circuit and key do not belong together"

// Match compares the counts of the file with a circuit, and names the list that differs.
func (l *Layout) Match(d *Densities) error {
	words := (d.NbWires + 63) / 64
	if len(d.A) != words || len(d.B) != words || (words > 0 && d.NbWires%64 != 0 && (d.A[words-1]|d.B[words-1])>>(d.NbWires%64) != 0) {
		return errs.New(errs.Internal, "match params with circuit", "bitmaps do not fit %d wires", d.NbWires)
	}
	for _, c := range []struct {
		list, what      string
		expected, found int
	}{
		{"ic", "the one and the public inputs", d.NbPublic + 1, l.IC.Count},
		{"l", "private variables", d.NbWires - d.NbPublic - 1, l.L.Count},
		{"h", "domain less one", 1<<l.logDomainOf(d) - 1, l.H.Count},
		{"a", "wires with a coefficient in A", d.A.Count(), l.A.Count},
		{"b_g1", "wires with a coefficient in B", d.B.Count(), l.B1.Count},
		{"b_g2", "wires with a coefficient in B", d.B.Count(), l.B2.Count},
	} {
		if c.expected != c.found {
			return errs.Mismatch(errs.InvalidFile, "match params with circuit", "list "+c.list, fmt.Sprintf("%d points (%s)", c.expected, c.what), c.found).WithHint(notTogether)
		}
	}
	return nil
}

// logDomainOf is the domain that the circuit asks for, or that of the file when the circuit does not tell its rows.
func (l *Layout) logDomainOf(d *Densities) int {
	if d.NbConstraints < 0 {
		return l.Shape().LogDomain
	}
	return groth16.DomainFor(d.NbConstraints, d.NbPublic)
}
