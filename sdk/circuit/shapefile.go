package circuit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"math/bits"
	"slices"

	"github.com/weir-zk/weir/sdk/errs"
)

// A shape file holds a constraint system so that it need not be recorded again. Of the equal parts of an outermost Repeat only the first is there: the others are the
// same rows with other variables. Those that a part allocates are moved on, and what it refers to from before the Repeat may be another variable in each part: where it
// is, a table says which. Layout, little-endian:
//
//	header     512 B   magic, sizes, digest, where the rest is, CRC-32C of all that
//	rows       blocks of 4096 rows, encoded as below
//	blocks     16 B a block: u64 offset in rows, u32 length, u32 CRC-32C
//	segments   72 B a segment: u64 times; rows, inputs, aux, bits at its beginning, and of one part
//	coeffs     32 B a coefficient, Montgomery form
//	boolean    for each segment the bits of one part's auxiliary variables, in whole bytes
//	outer      for each segment u32 number, u32 of each outer variable of the first part that is another one elsewhere, u32 of those of each later part
//
// A combination is the number of its terms and the terms. A term is one number, of which the lowest three bits say what kind it is: 0 coefficient one, 1 minus one, 2 the index
// of the coefficient follows, 3 an index and a number n follow, and it stands for n terms of rising variables and doubling coefficients; plus 4 for an input. The rest is the input's
// index, or the way from the last auxiliary variable to this one, as a signed number (zigzag). Numbers are in the variable-length form of encoding/binary. At the beginning of
// a block the last auxiliary variable is the first of the part.
const (
	shapeHeader  = 512
	blockRows    = 1 << 12
	blockEntry   = 16
	segmentEntry = 72
)

// ShapeMagic begins every shape file.
const ShapeMagic = "WEIRSHP1"

const (
	kindOne = iota
	kindMinusOne
	kindIndex
	kindRun
	kindInput = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Segment is a stretch of rows, or a number of equal parts of which the first is stored.
type Segment struct {
	Times int
	From  Counts // at the beginning of the first part
	Each  Counts // of one part
}

// section is a part of the file. The rows have a checksum for each block instead.
type section struct {
	Offset, Length int64
	CRC            uint32
}

// Sections in the order of the header.
const (
	secRows = iota
	secBlocks
	secSegments
	secCoeffs
	secBoolean
	secOuter
	sections
)

// shapeHead is the header.
type shapeHead struct {
	counts  Counts
	nonZero [3]int64
	digest  [sha256.Size]byte
	secs    [sections]section
}

func (h *shapeHead) encode() []byte {
	b := make([]byte, 0, shapeHeader)
	b = append(b, ShapeMagic...)
	for _, x := range []int{h.counts.Rows, h.counts.Inputs, h.counts.Aux, h.counts.Bits} {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	for _, x := range h.nonZero {
		b = binary.LittleEndian.AppendUint64(b, uint64(x))
	}
	b = append(b, h.digest[:]...)
	for _, s := range h.secs {
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Length))
		b = binary.LittleEndian.AppendUint32(b, s.CRC)
	}
	b = b[:shapeHeader-4]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// WriteShape records c and writes its shape file to f, from offset 0 on. Where the parts of an outermost Repeat turn out not to be equal it begins again and stores all
// of them. Memory: that of Record and of Summary.
func WriteShape(ctx context.Context, f io.WriterAt, c Circuit) (*Shape, error) {
	shape, err := writeShape(ctx, f, c, false)
	if errors.Is(err, errUnequal) {
		return writeShape(ctx, f, c, true)
	}
	return shape, err
}

func writeShape(ctx context.Context, f io.WriterAt, c Circuit, flat bool) (*Shape, error) {
	var sum Summary
	w := &shapeWriter{f: f, at: shapeHeader, flat: flat}
	// An old header in the same place would vouch for the new content.
	if _, err := f.WriteAt(make([]byte, shapeHeader), 0); err != nil {
		return nil, errs.Wrap(err, "write shape")
	}
	shape, err := Record(ctx, c, &sum, w)
	if err != nil {
		return nil, err
	}
	return shape, w.finish(&sum)
}

// errUnequal says that parts differ by more than their variables.
var errUnequal = errors.New("parts are not equal")

// shapeWriter is a Sink.
type shapeWriter struct {
	f    io.WriterAt
	at   int64
	flat bool // each part is a segment of its own

	segments []Segment
	outer    []outerVars // by segment
	blocks   []byte
	source   int // segment and part of the rows being written, as Rows has them
	part     int
	rows     int // of the part so far
	last     int // auxiliary variable, for differences
	buf      []byte
	terms    []Term
	digest   hash.Hash // of the part's encoded rows
	first    [sha256.Size]byte
	index    map[Var]int // of an outer variable in list
	list     []Var       // the part's outer variables in the order in which they occur
	shape    *Shape
}

// outerVars are a segment's variables from before it: list i is that of part i, in the order in which they occur.
type outerVars [][]Var

// Write implements Sink.
func (w *shapeWriter) Write(r *Rows) error {
	switch part := r.Part; {
	case w.digest == nil || r.Segment != w.source || (part != w.part && w.flat):
		if err := w.endPart(); err != nil {
			return err
		}
		times, from := r.Times, r.From
		if w.flat {
			times, from = 1, w.next()
		}
		w.segments = append(w.segments, Segment{Times: times, From: from})
		w.outer = append(w.outer, nil)
		w.beginPart(r)
	case part != w.part:
		if err := w.endPart(); err != nil {
			return err
		}
		w.beginPart(r)
	}
	for i := range r.Len() {
		a, b, c := r.Row(i)
		for _, terms := range [][]Term{a, b, c} {
			if err := w.combination(terms); err != nil {
				return err
			}
		}
		if w.rows++; w.rows%blockRows == 0 {
			if err := w.endBlock(); err != nil {
				return err
			}
		}
	}
	if w.stored() {
		s := w.segment()
		s.Each = r.To.minus(s.From)
	}
	return nil
}

func (w *shapeWriter) segment() *Segment { return &w.segments[len(w.segments)-1] }

// next is where the next segment begins.
func (w *shapeWriter) next() Counts {
	if len(w.segments) == 0 {
		return Counts{}
	}
	s := w.segment()
	return s.From.plus(s.Each, s.Times)
}

// stored says whether the rows are written, not only compared with the first part's.
func (w *shapeWriter) stored() bool { return w.part == 0 || w.flat }

func (w *shapeWriter) beginPart(r *Rows) {
	w.source, w.part, w.rows, w.last = r.Segment, r.Part, 0, w.segment().From.Aux
	w.digest = sha256.New()
	w.index, w.list = make(map[Var]int), nil
}

// endPart ends the last block and compares the part with the first one.
func (w *shapeWriter) endPart() error {
	if w.digest == nil {
		return nil
	}
	if w.rows%blockRows != 0 {
		if err := w.endBlock(); err != nil {
			return err
		}
	}
	d := [sha256.Size]byte(w.digest.Sum(nil))
	if w.stored() {
		w.first = d
	} else if d != w.first {
		return errUnequal
	}
	if last := len(w.outer) - 1; w.segment().Times > 1 {
		w.outer[last] = append(w.outer[last], w.list)
	}
	w.digest = nil
	return nil
}

// asFirst renames the variables of the part's terms to those of the first part.
func (w *shapeWriter) asFirst(terms []Term) ([]Term, error) {
	s := w.segment()
	if s.Times == 1 {
		return terms, nil
	}
	w.terms = w.terms[:0]
	sorted := true
	for _, t := range terms {
		v, from, each := t.Var(), s.From.Aux, s.Each.Aux
		if v.IsInput() {
			from, each = s.From.Inputs, s.Each.Inputs
		}
		switch shift := w.part * each; {
		case v == One:
		case v.Index() < from:
			i, ok := w.index[v]
			if !ok {
				i = len(w.list)
				w.index[v] = i
				w.list = append(w.list, v)
			}
			if w.part > 0 {
				firsts := w.outer[len(w.outer)-1][0]
				if i >= len(firsts) {
					return nil, errUnequal
				}
				v = firsts[i]
			}
		case v.Index() < from+shift:
			return nil, errUnequal // a variable of another part
		default:
			v -= Var(shift)
		}
		if n := len(w.terms); n > 0 && w.terms[n-1].Var() >= v {
			sorted = false
		}
		w.terms = append(w.terms, term(v, t.Coeff()))
	}
	if !sorted {
		slices.Sort(w.terms)
	}
	return w.terms, nil
}

func (w *shapeWriter) combination(terms []Term) error {
	terms, err := w.asFirst(terms)
	if err != nil {
		return err
	}
	b := binary.AppendUvarint(w.buf, uint64(len(terms)))
	for i := 0; i < len(terms); {
		v, coeff := terms[i].Var(), terms[i].Coeff()
		n := run(terms[i:])
		kind := uint64(kindIndex)
		switch {
		case n >= 3:
			kind = kindRun
		case coeff == powerCoeff(0, false):
			kind = kindOne
		case coeff == powerCoeff(0, true):
			kind = kindMinusOne
		}
		if v.IsInput() {
			b = binary.AppendUvarint(b, uint64(v.Index())<<3|kindInput|kind)
		} else {
			b = binary.AppendUvarint(b, zigzag(v.Index()-w.last)<<3|kind)
			w.last = v.Index()
		}
		switch kind {
		case kindRun:
			b = binary.AppendUvarint(b, uint64(coeff))
			b = binary.AppendUvarint(b, uint64(n))
			if !v.IsInput() {
				w.last += n - 1
			}
			i += n
			continue
		case kindIndex:
			b = binary.AppendUvarint(b, uint64(coeff))
		}
		i++
	}
	w.buf = b
	return nil
}

// run is how many of the first terms have rising variables and doubling powers of two.
func run(t []Term) int {
	n := 1
	if t[0].Coeff() >= zeroCoeff {
		return n
	}
	for n < len(t) && t[n].Var() == t[0].Var()+Var(n) && t[n].Coeff() == t[0].Coeff()+uint32(2*n) && t[n].Coeff() < zeroCoeff {
		n++
	}
	return n
}

func zigzag(x int) uint64 { return uint64(x<<1 ^ x>>(bits.UintSize-1)) }

func unzigzag(x uint64) int { return int(x>>1) ^ -int(x&1) }

// endBlock writes the block, if it is of a first part.
func (w *shapeWriter) endBlock() error {
	w.digest.Write(w.buf)
	if w.stored() {
		w.blocks = binary.LittleEndian.AppendUint64(w.blocks, uint64(w.at-shapeHeader))
		w.blocks = binary.LittleEndian.AppendUint32(w.blocks, uint32(len(w.buf)))
		w.blocks = binary.LittleEndian.AppendUint32(w.blocks, crc32.Checksum(w.buf, castagnoli))
		if _, err := w.f.WriteAt(w.buf, w.at); err != nil {
			return errs.Wrap(err, "write shape")
		}
		w.at += int64(len(w.buf))
	}
	w.buf = w.buf[:0]
	w.last = w.segment().From.Aux
	return nil
}

// End implements Sink.
func (w *shapeWriter) End(s *Shape) error {
	w.shape = s
	return w.endPart()
}

// finish writes what is known only now, and the header last.
func (w *shapeWriter) finish(sum *Summary) error {
	h := shapeHead{counts: w.shape.Counts, nonZero: sum.NonZero, digest: sum.Digest}
	h.secs[secRows] = section{Offset: shapeHeader, Length: w.at - shapeHeader}
	var segs, boolean, coeffs, outer []byte
	for i, s := range w.segments {
		outer = w.outer[i].append(outer)
		for _, x := range []int{s.Times, s.From.Rows, s.From.Inputs, s.From.Aux, s.From.Bits, s.Each.Rows, s.Each.Inputs, s.Each.Aux, s.Each.Bits} {
			segs = binary.LittleEndian.AppendUint64(segs, uint64(x))
		}
		part := make([]byte, (s.Each.Aux+7)/8)
		for k := range s.Times {
			for j := range s.Each.Aux {
				bit := w.shape.Boolean.Has(s.From.Aux + k*s.Each.Aux + j)
				switch {
				case k == 0 && bit:
					part[j/8] |= 1 << (j % 8)
				case k > 0 && bit != (part[j/8]>>(j%8)&1 == 1):
					return errUnequal
				}
			}
		}
		boolean = append(boolean, part...)
	}
	for i := range w.shape.Coeffs {
		for _, limb := range w.shape.Coeffs[i] {
			coeffs = binary.LittleEndian.AppendUint64(coeffs, limb)
		}
	}
	for i, b := range [][]byte{secBlocks: w.blocks, secSegments: segs, secCoeffs: coeffs, secBoolean: boolean, secOuter: outer} {
		if i == secRows {
			continue
		}
		h.secs[i] = section{w.at, int64(len(b)), crc32.Checksum(b, castagnoli)}
		if _, err := w.f.WriteAt(b, w.at); err != nil {
			return errs.Wrap(err, "write shape")
		}
		w.at += int64(len(b))
	}
	if _, err := w.f.WriteAt(h.encode(), 0); err != nil {
		return errs.Wrap(err, "write shape")
	}
	return nil
}

// append writes the outer variables that are not the same in all parts.
func (o outerVars) append(b []byte) []byte {
	var differ []int
	if len(o) > 0 {
		for i := range o[0] {
			if slices.ContainsFunc(o, func(list []Var) bool { return list[i] != o[0][i] }) {
				differ = append(differ, i)
			}
		}
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(differ)))
	if len(differ) == 0 {
		return b
	}
	slices.SortFunc(differ, func(i, j int) int { return cmp.Compare(o[0][i], o[0][j]) })
	for _, list := range o {
		for _, i := range differ {
			b = binary.LittleEndian.AppendUint32(b, uint32(list[i]))
		}
	}
	return b
}
