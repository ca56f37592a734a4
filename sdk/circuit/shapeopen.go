package circuit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// ShapeFile reads a shape file. It keeps the bytes that it was opened from, which may be a mapping of the file, and little else. Safe for concurrent use.
type ShapeFile struct {
	head     shapeHead
	segments []Segment
	block0   []int // number of each segment's first block
	rows     []byte
	blocks   []byte
	boolean  []byte
	outer    []outerTable
	coeffs   []fr.Element
	mapped   []byte // of MapShape
}

// outerTable says what a segment's outer variables are in each part: those of the first part, ascending, and for each later part as many.
type outerTable struct {
	first []uint32
	later []uint32
}

// of is the variable of a part that v of the first part stands for.
func (o *outerTable) of(v uint32, part int) uint32 {
	if part == 0 {
		return v
	}
	if i, ok := slices.BinarySearch(o.first, v); ok {
		return o.later[(part-1)*len(o.first)+i]
	}
	return v
}

const openShape = "open shape"

// readHead reads and checks the header, without comparing the sections with the size of the file.
func readHead(b []byte) (h shapeHead, err error) {
	if len(b) < shapeHeader || string(b[:len(ShapeMagic)]) != ShapeMagic {
		return h, errs.Mismatch(errs.InvalidFile, openShape, "header", ShapeMagic+" and 512 bytes", fmt.Sprintf("%d bytes of another kind", len(b)))
	}
	if crc := binary.LittleEndian.Uint32(b[shapeHeader-4:]); crc != crc32.Checksum(b[:shapeHeader-4], castagnoli) {
		return h, errs.Mismatch(errs.InvalidFile, openShape, "header", "a matching checksum", "another")
	}
	n := numbers{b[len(ShapeMagic):shapeHeader]}
	h.counts = n.counts()
	for i := range h.nonZero {
		h.nonZero[i] = int64(n.next())
	}
	copy(h.digest[:], n.b)
	n.b = n.b[sha256.Size:]
	for i := range h.secs {
		h.secs[i] = section{Offset: int64(n.next()), Length: int64(n.next()), CRC: binary.LittleEndian.Uint32(n.b)}
		n.b = n.b[4:]
	}
	if !h.counts.sane() || h.counts.Inputs < 1 || min(h.nonZero[0], h.nonZero[1], h.nonZero[2]) < 0 {
		return h, errs.Mismatch(errs.InvalidFile, openShape, "header", "sizes of a circuit", fmt.Sprintf("%+v, %v terms", h.counts, h.nonZero))
	}
	return h, nil
}

// OpenShape checks the header, everything but the rows, and that all sizes agree; rows are checked block by block as they are read.
func OpenShape(b []byte) (*ShapeFile, error) {
	bad := func(where string, expected, found any) (*ShapeFile, error) {
		return nil, errs.Mismatch(errs.InvalidFile, openShape, where, expected, found)
	}
	s := &ShapeFile{}
	var err error
	if s.head, err = readHead(b); err != nil {
		return nil, err
	}
	var secs [sections][]byte
	for i, x := range s.head.secs {
		offset, length := uint64(x.Offset), uint64(x.Length)
		if offset > uint64(len(b)) || length > uint64(len(b))-offset {
			return bad(fmt.Sprintf("section %d", i), fmt.Sprintf("inside %d bytes", len(b)), fmt.Sprintf("%d from %d on", length, offset))
		}
		secs[i] = b[offset : offset+length]
		if i != secRows && crc32.Checksum(secs[i], castagnoli) != x.CRC {
			return bad(fmt.Sprintf("section %d", i), "a matching checksum", "another")
		}
	}
	var n numbers
	s.rows, s.blocks, s.boolean = secs[secRows], secs[secBlocks], secs[secBoolean]

	if len(secs[secCoeffs])%fr.Bytes != 0 || len(secs[secCoeffs]) < fr.Bytes*(zeroCoeff+1) || len(secs[secSegments])%segmentEntry != 0 || len(s.blocks)%blockEntry != 0 {
		return bad("sections", "whole entries", "parts")
	}
	n.b = secs[secCoeffs]
	for len(n.b) > 0 {
		x := fr.Element{n.next(), n.next(), n.next(), n.next()}
		s.coeffs = append(s.coeffs, x)
	}
	for i, x := range newDictionary().elems {
		if s.coeffs[i] != x {
			return bad(fmt.Sprintf("coefficient %d", i), "a power of two", "another value")
		}
	}
	n.b = secs[secSegments]
	var at Counts
	blocks, boolean := 0, 0
	for i := 0; len(n.b) > 0; i++ {
		x := Segment{Times: int(n.next()), From: n.counts(), Each: n.counts()}
		if x.Times < 1 || x.Times > maxCount || x.From != at || !x.Each.sane() || x.Each.Rows*x.Times > maxCount || x.Each.Wires()*x.Times > maxCount {
			return bad(fmt.Sprintf("segment %d", i), "one that begins where the last one ends", fmt.Sprintf("%+v", x))
		}
		s.segments = append(s.segments, x)
		s.block0 = append(s.block0, blocks)
		at = at.plus(x.Each, x.Times)
		blocks += (x.Each.Rows + blockRows - 1) / blockRows
		boolean += (x.Each.Aux + 7) / 8
	}
	if at != s.head.counts || !at.sane() || at.Inputs < 1 {
		return bad("segments", fmt.Sprintf("%+v", s.head.counts), fmt.Sprintf("%+v", at))
	}
	if err := s.readOuter(secs[secOuter]); err != nil {
		return nil, err
	}
	if blocks != len(s.blocks)/blockEntry || boolean != len(s.boolean) {
		return bad("sections", fmt.Sprintf("%d blocks, %d bytes of bits", blocks, boolean), fmt.Sprintf("%d, %d", len(s.blocks)/blockEntry, len(s.boolean)))
	}
	return s, nil
}

// readOuter reads the tables of outer variables.
func (s *ShapeFile) readOuter(b []byte) error {
	bad := func(segment int, expected any) error {
		return errs.Mismatch(errs.InvalidFile, openShape, fmt.Sprintf("outer variables of segment %d", segment), expected, "others")
	}
	for i, x := range s.segments {
		if len(b) < 4 {
			return bad(i, "a number")
		}
		n := int(binary.LittleEndian.Uint32(b))
		b = b[4:]
		if n > len(b)/4/x.Times {
			return bad(i, fmt.Sprintf("a table within %d bytes", len(b)))
		}
		table := make([]uint32, n*x.Times)
		for k := range table {
			v := binary.LittleEndian.Uint32(b[4*k:])
			bound := x.From.Inputs
			if v >= auxFlag {
				bound = x.From.Aux
			}
			if Var(v).Index() >= bound || (k > 0 && k < n && v <= table[k-1]) {
				return bad(i, "variables from before the segment, ascending for the first part")
			}
			table[k] = v
		}
		b = b[4*len(table):]
		s.outer = append(s.outer, outerTable{table[:n], table[n:]})
	}
	if len(b) > 0 {
		return bad(len(s.segments), "the end")
	}
	return nil
}

func (c Counts) sane() bool {
	return min(c.Rows, c.Inputs, c.Aux, c.Bits) >= 0 && max(c.Rows, c.Inputs, c.Aux) <= maxCount && c.Bits <= c.Aux
}

// numbers reads u64.
type numbers struct{ b []byte }

func (n *numbers) next() uint64 {
	x := binary.LittleEndian.Uint64(n.b)
	n.b = n.b[8:]
	return x
}

func (n *numbers) counts() Counts {
	return Counts{int(n.next()), int(n.next()), int(n.next()), int(n.next())}
}

// Counts are the sizes.
func (s *ShapeFile) Counts() Counts { return s.head.counts }

// NonZero is the number of terms of A, B and C.
func (s *ShapeFile) NonZero() [3]int64 { return s.head.nonZero }

// Digest is WEIR-R1CS-1, as it was when the file was written.
func (s *ShapeFile) Digest() [sha256.Size]byte { return s.head.digest }

// Segments are the stretches and equal parts that the rows come in. Do not write to it.
func (s *ShapeFile) Segments() []Segment { return s.segments }

// Boolean is which auxiliary variables are bits in every witness.
func (s *ShapeFile) Boolean() groth16.Bitmap {
	out := groth16.NewBitmap(s.head.counts.Aux)
	b := s.boolean
	for _, x := range s.segments {
		for k := range x.Times {
			for j := range x.Each.Aux {
				if b[j/8]>>(j%8)&1 == 1 {
					out.Set(x.From.Aux + k*x.Each.Aux + j)
				}
			}
		}
		b = b[(x.Each.Aux+7)/8:]
	}
	return out
}

// block decodes block k of a segment into p, with the variables of the first part.
func (s *ShapeFile) block(segment, k int, p *Rows) error {
	x := &s.segments[segment]
	number := s.block0[segment] + k
	entry := s.blocks[number*blockEntry:]
	offset, length, crc := binary.LittleEndian.Uint64(entry), uint64(binary.LittleEndian.Uint32(entry[8:])), binary.LittleEndian.Uint32(entry[12:])
	bad := func(expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "read shape", fmt.Sprintf("block %d", number), expected, found)
	}
	if offset > uint64(len(s.rows)) || length > uint64(len(s.rows))-offset {
		return bad("inside the rows", fmt.Sprintf("%d bytes from %d on", length, offset))
	}
	b := s.rows[offset : offset+length]
	if crc32.Checksum(b, castagnoli) != crc {
		return bad("a matching checksum", "another")
	}
	d := blockDecoder{b: b, last: x.From.Aux, inputs: x.From.Inputs + x.Each.Inputs, aux: x.From.Aux + x.Each.Aux, coeffs: len(s.coeffs)}
	p.First = x.From.Rows + k*blockRows
	p.Terms, p.Ends, p.Coeffs = p.Terms[:0], p.Ends[:0], s.coeffs
	for range 3 * min(blockRows, x.Each.Rows-k*blockRows) {
		p.Terms = d.combination(p.Terms)
		p.Ends = append(p.Ends, uint32(len(p.Terms)))
		if d.failed {
			return bad("rows of the circuit's variables and coefficients", "others")
		}
	}
	if len(d.b) > 0 {
		return bad("the end", fmt.Sprintf("%d more bytes", len(d.b)))
	}
	return nil
}

// blockDecoder reads combinations.
type blockDecoder struct {
	b                   []byte
	last                int
	inputs, aux, coeffs int // bounds
	failed              bool
}

func (d *blockDecoder) uvarint() uint64 {
	if len(d.b) > 0 && d.b[0] < 0x80 {
		x := d.b[0]
		d.b = d.b[1:]
		return uint64(x)
	}
	x, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.failed, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return x
}

func (d *blockDecoder) combination(out []Term) []Term {
	for n := d.uvarint(); n > 0 && !d.failed; {
		h := d.uvarint()
		kind, place := h&3, h>>3
		var v Var
		bound := d.aux
		if h&kindInput != 0 {
			v, bound = Var(place), d.inputs
			d.failed = d.failed || place >= uint64(d.inputs)
		} else {
			d.last += unzigzag(place)
			d.failed = d.failed || d.last < 0 || d.last >= d.aux
			v = Aux(d.last)
		}
		coeff, times := uint64(kind), uint64(1) // the index of one is 0, that of minus one 1
		if kind >= kindIndex {
			coeff = d.uvarint()
		}
		d.failed = d.failed || coeff >= uint64(d.coeffs) || coeff == zeroCoeff
		if kind == kindRun {
			times = d.uvarint()
			d.failed = d.failed || times < 1 || times > powers || coeff+2*(times-1) >= zeroCoeff || v.Index()+int(times) > bound
			if h&kindInput == 0 {
				d.last += int(times) - 1
			}
		}
		if d.failed || times > n {
			d.failed = true
			return out
		}
		for i := range times {
			out = append(out, term(v+Var(i), uint32(coeff+2*i)))
		}
		n -= times
	}
	return out
}

// relocate makes rows of the first part those of another one.
func (s *ShapeFile) relocate(p *Rows, segment, part int) {
	x, outer := &s.segments[segment], &s.outer[segment]
	inputs, aux := Input(x.From.Inputs), Aux(x.From.Aux)
	moveInputs, moveAux := Term(part*x.Each.Inputs)<<32, Term(part*x.Each.Aux)<<32
	for i, t := range p.Terms {
		switch v := t.Var(); {
		case v >= aux:
			p.Terms[i] = t + moveAux
		case v.IsInput() && v >= inputs:
			p.Terms[i] = t + moveInputs
		case len(outer.first) > 0 && part > 0:
			p.Terms[i] = term(Var(outer.of(uint32(v), part)), t.Coeff())
		}
	}
	if len(outer.first) == 0 || part == 0 {
		return
	}
	lo := uint32(0)
	for _, hi := range p.Ends {
		if terms := p.Terms[lo:hi]; !slices.IsSorted(terms) {
			slices.Sort(terms)
		}
		lo = hi
	}
}

// Replay streams the rows to sinks as Record did, without running the circuit.
func (s *ShapeFile) Replay(ctx context.Context, sinks ...Sink) (*Shape, error) {
	p := &Rows{}
	for i := range s.segments {
		x := &s.segments[i]
		for part := range x.Times {
			p.Segment, p.Part, p.Times, p.From = i, part, x.Times, x.From
			start := x.From.plus(x.Each, part)
			for k := range max(1, (x.Each.Rows+blockRows-1)/blockRows) {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if x.Each.Rows > 0 {
					if err := s.block(i, k, p); err != nil {
						return nil, err
					}
					s.relocate(p, i, part)
				} else {
					p.Terms, p.Ends, p.Coeffs = nil, nil, s.coeffs
				}
				p.First = start.Rows + k*blockRows
				p.To = x.From.plus(x.Each, part+1) // of the whole part: what lies between is not stored
				for _, sink := range sinks {
					if err := sink.Write(p); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	shape := &Shape{Counts: s.head.counts, Boolean: s.Boolean(), Coeffs: s.coeffs}
	for _, sink := range sinks {
		if err := sink.End(shape); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

// mostTerms is how many terms the rows can have: a stretch of doubling coefficients is the shortest form of many.
func (s *ShapeFile) mostTerms() (n int64) {
	const stretch = 3 // bytes, of at most powers terms
	for i, x := range s.segments {
		end := len(s.blocks) / blockEntry
		if i+1 < len(s.block0) {
			end = s.block0[i+1]
		}
		length := int64(0)
		for k := s.block0[i]; k < end; k++ {
			length += int64(binary.LittleEndian.Uint32(s.blocks[k*blockEntry+8:]))
		}
		n += (length + stretch - 1) / stretch * powers * int64(x.Times)
	}
	return n
}

// System is the whole constraint system in memory: for circuits that fit.
func (s *ShapeFile) System(ctx context.Context) (*r1cs.System, error) {
	var sink SystemSink
	n := s.head.nonZero
	if n[0]+n[1]+n[2] <= s.mostTerms() { // else the header lies, which is not found before all rows are read
		sink.reserve(s.head.counts.Rows, n)
	}
	if _, err := s.Replay(ctx, &sink); err != nil {
		return nil, err
	}
	return sink.System(), nil
}
