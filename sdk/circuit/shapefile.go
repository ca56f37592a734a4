package circuit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/weir-zk/weir/sdk/errs"
)

// A shape file holds a constraint system so that it need not be recorded again. Of the equal parts of an outermost Repeat only the first is there: the others are the
// same rows with other variables. Layout, little-endian:
//
//	header     512 B   magic, sizes, digest, where the rest is, CRC-32C of all that
//	rows       blocks of 4096 rows, encoded as below
//	blocks     16 B a block: u64 offset in rows, u32 length, u32 CRC-32C
//	segments   72 B a segment: u64 times; rows, inputs, aux, bits at its beginning, and of one part
//	coeffs     32 B a coefficient, Montgomery form
//	boolean    for each segment the bits of one part's auxiliary variables, in whole bytes
//
// A combination is the number of its terms and the terms. A term is one number, of which the lowest three bits say what kind it is: 0 coefficient one, 1 minus one, 2 the index
// of the coefficient follows, 3 an index and a number n follow, and it stands for n terms of rising variables and doubling coefficients; plus 4 for an input. The rest is the input's
// index, or the way from the last auxiliary variable to this one, as a signed number (zigzag). Numbers are in the variable-length form of encoding/binary. At the beginning of
// a block the last auxiliary variable is the first of the part.
const (
	shapeMagic   = "WEIRSHP1"
	shapeHeader  = 512
	blockRows    = 1 << 12
	blockEntry   = 16
	segmentEntry = 72
)

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
	b = append(b, shapeMagic...)
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

// WriteShape records c and writes its shape file to f, from offset 0 on. It checks that the parts of each outermost Repeat are equal and do not refer to each
// other. Memory: that of Record and of Summary.
func WriteShape(ctx context.Context, f io.WriterAt, c Circuit) (*Shape, error) {
	var sum Summary
	w := &shapeWriter{f: f, at: shapeHeader}
	shape, err := Record(ctx, c, &sum, w)
	if err != nil {
		return nil, err
	}
	return shape, w.finish(&sum)
}

// shapeWriter is a Sink.
type shapeWriter struct {
	f  io.WriterAt
	at int64

	segments []Segment
	blocks   []byte
	part     int
	rows     int // of the part so far
	last     int // auxiliary variable, for differences
	buf      []byte
	digest   hash.Hash // of the part's encoded rows
	first    [sha256.Size]byte
	shape    *Shape
}

// Write implements Sink.
func (w *shapeWriter) Write(r *Rows) error {
	switch {
	case r.Segment != len(w.segments)-1:
		if err := w.endPart(); err != nil {
			return err
		}
		w.segments = append(w.segments, Segment{Times: r.Times, From: r.From})
		w.beginPart(0)
	case r.Part != w.part:
		if err := w.endPart(); err != nil {
			return err
		}
		w.beginPart(r.Part)
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
	if s := w.segment(); w.part == 0 {
		s.Each = r.To.minus(s.From)
	}
	return nil
}

func (w *shapeWriter) segment() *Segment { return &w.segments[len(w.segments)-1] }

func (w *shapeWriter) beginPart(part int) {
	w.part, w.rows, w.last = part, 0, w.segment().From.Aux
	w.digest = sha256.New()
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
	if w.part == 0 {
		w.first = d
	} else if d != w.first {
		return errs.New(errs.Internal, "write shape", "part %d of segment %d is not equal to the first one", w.part, len(w.segments)-1)
	}
	w.digest = nil
	return nil
}

// local is the index that a variable of the part has in the first part.
func (w *shapeWriter) local(index, from, each int) (int, error) {
	shift := w.part * each
	switch {
	case index < from:
		return index, nil
	case index < from+shift:
		return 0, errs.New(errs.Internal, "write shape", "part %d of segment %d refers to another part", w.part, len(w.segments)-1)
	}
	return index - shift, nil
}

func (w *shapeWriter) combination(terms []Term) error {
	s := w.segment()
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
			index, err := w.local(v.Index(), s.From.Inputs, s.Each.Inputs)
			if err != nil {
				return err
			}
			b = binary.AppendUvarint(b, uint64(index)<<3|kindInput|kind)
		} else {
			index, err := w.local(v.Index(), s.From.Aux, s.Each.Aux)
			if err != nil {
				return err
			}
			b = binary.AppendUvarint(b, zigzag(index-w.last)<<3|kind)
			w.last = index
		}
		switch kind {
		case kindRun:
			b = binary.AppendUvarint(b, uint64(coeff))
			b = binary.AppendUvarint(b, uint64(n))
			i += n
			if !v.IsInput() {
				w.last += n - 1
			}
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
	if w.part == 0 {
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
	var segs, boolean, coeffs []byte
	for i, s := range w.segments {
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
					return errs.New(errs.Internal, "write shape", "part %d of segment %d has other bits than the first one", k, i)
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
	for i, b := range [][]byte{secBlocks: w.blocks, secSegments: segs, secCoeffs: coeffs, secBoolean: boolean} {
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
