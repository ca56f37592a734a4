package iden3

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/internal/dict"
	"github.com/weir-zk/weir/sdk/errs"
)

// Sections of a .wtns file.
const (
	secWitnessHeader = 1
	secWitnessValues = 2
)

const (
	witnessHeaderSize = fieldHead + 4
	// valuesPerRead values are read at a time: 256 KiB.
	valuesPerRead = bufferSize / fr.Bytes
)

// WitnessFile is an open .wtns file whose header was checked. What it holds is secret. Safe for concurrent use.
type WitnessFile struct {
	c      *Container
	n      int
	values Section
}

// OpenWitness reads the header. Errors: InvalidFile for a damaged file, Unsupported for another field or too many wires.
func OpenWitness(r io.ReaderAt, size int64) (*WitnessFile, error) {
	c, err := OpenContainer(r, size, "wtns", 2)
	if err != nil {
		return nil, err
	}
	head, err := c.Need(secWitnessHeader, "the header")
	if err != nil {
		return nil, err
	}
	if err := c.checkField(head); err != nil {
		return nil, err
	}
	if head.Size != witnessHeaderSize {
		return nil, c.Bad(errs.InvalidFile, head.Where(), fmt.Sprintf("the header: %d bytes", witnessHeaderSize), fmt.Sprintf("%d bytes", head.Size))
	}
	var b [4]byte
	if err := c.ReadAt(head, b[:], fieldHead); err != nil {
		return nil, err
	}
	n := uint64(binary.LittleEndian.Uint32(b[:]))
	if n == 0 {
		return nil, c.Bad(errs.InvalidFile, head.Where(), "at least one value, the one", "none")
	}
	if n > assignment.MaxVariables {
		return nil, c.Bad(errs.Unsupported, head.Where(), "at most 2^31 values", n)
	}
	f := &WitnessFile{c: c, n: int(n)}
	f.values, err = c.NeedSize(secWitnessValues, fmt.Sprintf("%d values", n), n*fr.Bytes)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Len is the number of values, which is the number of wires.
func (f *WitnessFile) Len() int { return f.n }

// Section is where the values lie in the file, 32 bytes each, plain and little-endian: for readers that share them out.
func (f *WitnessFile) Section() Section { return f.values }

// limbs yields values lo to hi-1 as they are in the file, each below r, value 0 equal to one. The buffer is wiped at the end.
func (f *WitnessFile) limbs(ctx context.Context, lo, hi int, yield func(i int, l [fr.Limbs]uint64) error) error {
	buf := make([]byte, fr.Bytes*min(valuesPerRead, max(hi-lo, 0)))
	defer clear(buf)
	for i := lo; i < hi; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:fr.Bytes*min(valuesPerRead, hi-i)]
		if err := f.c.ReadAt(f.values, b, int64(i)*fr.Bytes); err != nil {
			return err
		}
		for ; len(b) > 0; b = b[fr.Bytes:] {
			l := dict.Limbs(b)
			if !dict.BelowModulus(l) {
				return f.c.Bad(errs.InvalidFile, f.at(i), "a value below the group order r", "one that is not")
			}
			if i == 0 && l != [fr.Limbs]uint64{1} {
				return f.c.Bad(errs.InvalidFile, f.at(i), "the one", "another value")
			}
			if err := yield(i, l); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}

func (f *WitnessFile) at(i int) string {
	return fmt.Sprintf("section %d, offset %d, wire %d", f.values.ID, f.values.Offset+int64(i)*fr.Bytes, i)
}

// bit reports whether l is zero or one, and which.
func bit(l [fr.Limbs]uint64) (uint64, bool) { return l[0], l[0] <= 1 && l[1]|l[2]|l[3] == 0 }

// Values yields every value in wire order; after an error nothing follows. Values >= r and a wire 0 that is not one are errors of class InvalidFile
// that name the wire.
func (f *WitnessFile) Values(ctx context.Context) iter.Seq2[fr.Element, error] {
	return func(yield func(fr.Element, error) bool) {
		stop := fmt.Errorf("stopped") // never leaves this function
		err := f.limbs(ctx, 0, f.n, func(_ int, l [fr.Limbs]uint64) error {
			if !yield(dict.Plain(l), nil) {
				return stop
			}
			return nil
		})
		if err != nil && err != stop {
			yield(fr.Element{}, err)
		}
	}
}

// Scan checks every value and counts those that are neither 0 nor 1: what assignment.Choose and assignment.CompactSize want to know.
func (f *WitnessFile) Scan(ctx context.Context) (listed int, err error) {
	err = f.limbs(ctx, 0, f.n, func(_ int, l [fr.Limbs]uint64) error {
		if _, ok := bit(l); !ok {
			listed++
		}
		return nil
	})
	return listed, err
}

// AppendTo writes every value to b, which must have been made for Len variables and, in the compact form, have room for the values that Scan counted.
func (f *WitnessFile) AppendTo(ctx context.Context, b *assignment.Builder) error {
	var word uint64 // bits not written yet, the first lowest
	n := 0
	flush := func() error {
		err := b.AppendBits(word, n)
		word, n = 0, 0
		return err
	}
	err := f.limbs(ctx, 0, f.n, func(_ int, l [fr.Limbs]uint64) error {
		if v, ok := bit(l); ok {
			word |= v << n
			if n++; n < 64 {
				return nil
			}
			return flush()
		}
		if err := flush(); err != nil {
			return err
		}
		x := dict.Plain(l)
		return b.Append(&x)
	})
	if err != nil {
		return err
	}
	return flush()
}

// Vector reads the whole witness into a new buffer in the smaller form.
func (f *WitnessFile) Vector(ctx context.Context) (*assignment.Vector, error) {
	listed, err := f.Scan(ctx)
	if err != nil {
		return nil, err
	}
	form, size := assignment.Choose(f.n, listed)
	words := make([]uint64, (size+7)/8) // of words, so that it is aligned
	b, err := assignment.NewBuilder(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), form, f.n)
	if err != nil {
		return nil, err
	}
	if err := f.AppendTo(ctx, b); err != nil {
		return nil, err
	}
	return b.Finish()
}

// Public reads values 1..n: the public inputs, outputs first.
func (f *WitnessFile) Public(ctx context.Context, n int) ([]fr.Element, error) {
	if n < 0 || n >= f.n {
		return nil, f.c.Bad(errs.InvalidFile, f.values.Where(), fmt.Sprintf("the one and %d public values", n), fmt.Sprintf("%d values", f.n)).WithHint("the witness belongs to another circuit")
	}
	out := make([]fr.Element, 0, n)
	err := f.limbs(ctx, 0, n+1, func(i int, l [fr.Limbs]uint64) error {
		if i > 0 {
			out = append(out, dict.Plain(l))
		}
		return nil
	})
	return out, err
}

// WriteWitness writes n values as a .wtns file. values must yield exactly n, the first of them one.
func WriteWitness(w io.Writer, n int, values iter.Seq[fr.Element]) error {
	const op = "write .wtns"
	if n < 1 || n > assignment.MaxVariables {
		return errs.Mismatch(errs.InvalidArgument, op, "values", "1 to 2^31", n)
	}
	e := NewWriter(w, "wtns", 2, 2)
	e.Section(secWitnessHeader, witnessHeaderSize)
	e.fieldHeader()
	e.U32(uint32(n))
	e.Section(secWitnessValues, uint64(n)*fr.Bytes)
	i := 0
	for x := range values {
		if i == 0 && !x.IsOne() {
			return errs.Mismatch(errs.InvalidArgument, op, "wire 0", "the one", "another value")
		}
		e.Scalar(&x)
		if i++; e.Err() != nil {
			break
		}
	}
	return e.Close()
}
