// Package assignment holds the witness of a partition (w[0] = 1, public inputs, private variables) in one flat buffer, so
// that it can lie in shared memory.
//
// Two forms. Dense is n field elements. Compact is for circuits whose variables are mostly bits: two bitmaps (is
// variable i a bit; its value) and the other values as a list. In Filecoin's PoRep 98.5 % of the variables are bits: 130
// million variables take 100 MB instead of 4 GiB. Layout, little-endian, every part a multiple of 64 bytes:
//
//	header   64 B   magic, form, n, number of listed values
//	isBit    8*ceil(n/64) rounded up to 64     (compact only)
//	value    the same                          (compact only)
//	rank     4*ceil(n/512) rounded up to 64    (compact only) listed values before variable 512 k
//	list     32 B a value, Montgomery form, the memory image of gnark-crypto's fr.Element
//
// What an assignment holds is secret.
package assignment

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Form is dense or compact.
type Form uint32

const (
	Dense   Form = 1
	Compact Form = 2
)

const (
	magic      = 0x77726957 // "Wirw"
	headerSize = 64
	block      = 512 // variables a rank entry
	// MaxVariables bounds n: more than any key weir takes.
	MaxVariables = 1 << 31
)

func up64(n int64) int64 { return (n + 63) &^ 63 }

// DenseSize is the bytes of a dense assignment of n variables.
func DenseSize(n int) int64 { return headerSize + up64(32*int64(n)) }

// CompactSize is the bytes of a compact assignment of n variables of which listed are not bits.
func CompactSize(n, listed int) int64 {
	return headerSize + 2*bitmapSize(n) + rankSize(n) + up64(32*int64(listed))
}

func bitmapSize(n int) int64 { return up64(8 * ((int64(n) + 63) / 64)) }
func rankSize(n int) int64   { return up64(4 * ((int64(n) + block - 1) / block)) }

// Choose returns the smaller form for n variables of which listed are not bits, and its bytes.
func Choose(n, listed int) (Form, int64) {
	if c, d := CompactSize(n, listed), DenseSize(n); c < d {
		return Compact, c
	} else {
		return Dense, d
	}
}

// Vector reads an assignment. It keeps the buffer it was parsed from and copies nothing. Safe for concurrent reading.
type Vector struct {
	form         Form
	n            int
	isBit, value []uint64
	rank         []uint32
	list         []fr.Element
	size         int64
}

// Parse checks the header and, for the compact form, that ranks and bitmaps agree (one pass over n/64 words), so that no later access can
// leave the buffer. b must be 8-byte aligned.
func Parse(b []byte) (*Vector, error) {
	bad := func(where string, expected, found any) (*Vector, error) {
		return nil, errs.Mismatch(errs.InvalidArgument, "witness buffer", where, expected, found)
	}
	if len(b) < headerSize {
		return bad("header", "64 bytes", len(b))
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return bad("address", "8-byte aligned", "unaligned")
	}
	if m := binary.LittleEndian.Uint32(b); m != magic {
		return bad("magic", fmt.Sprintf("%#x", uint32(magic)), fmt.Sprintf("%#x", m))
	}
	form := Form(binary.LittleEndian.Uint32(b[4:]))
	n64, listed64 := binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	if n64 == 0 || n64 > MaxVariables || listed64 > n64 {
		return bad("header", "1 to 2^31 variables", fmt.Sprintf("%d, %d listed", n64, listed64))
	}
	v := &Vector{form: form, n: int(n64)}
	listed := int(listed64)
	switch form {
	case Dense:
		if listed != v.n {
			return bad("header", v.n, listed)
		}
		v.size = DenseSize(v.n)
	case Compact:
		v.size = CompactSize(v.n, listed)
	default:
		return bad("form", "dense or compact", uint32(form))
	}
	if int64(len(b)) < v.size {
		return bad("length", v.size, len(b))
	}
	rest := b[headerSize:]
	if form == Compact {
		words := (v.n + 63) / 64
		bm := bitmapSize(v.n)
		v.isBit = cast[uint64](rest[:bm])[:words]
		v.value = cast[uint64](rest[bm : 2*bm])[:words]
		v.rank = cast[uint32](rest[2*bm : 2*bm+rankSize(v.n)])[:(v.n+block-1)/block]
		rest = rest[2*bm+rankSize(v.n):]
		count := uint32(0)
		for k, w := range v.isBit {
			if k%(block/64) == 0 && v.rank[k/(block/64)] != count {
				return bad("rank", count, v.rank[k/(block/64)])
			}
			valid := ^uint64(0)
			if k == words-1 && v.n%64 != 0 {
				valid = 1<<(v.n%64) - 1
			}
			count += uint32(bits.OnesCount64(^w & valid))
		}
		if int(count) != listed {
			return bad("listed values", count, listed)
		}
	}
	v.list = cast[fr.Element](rest[:32*listed])
	return v, nil
}

func cast[T any](b []byte) []T {
	var t T
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(t)))
}

// Form is dense or compact.
func (v *Vector) Form() Form { return v.form }

// Len is the number of variables.
func (v *Vector) Len() int { return v.n }

// Size is the bytes of the buffer that are in use.
func (v *Vector) Size() int64 { return v.size }

// List is the values that are not in the bitmaps: all of them in the dense form. Do not write to it.
func (v *Vector) List() []fr.Element { return v.list }

// Bits returns the bitmaps (isBit, value) of the compact form, nil for the dense form; bits beyond Len are unspecified. Do not write to them.
func (v *Vector) Bits() (isBit, value []uint64) { return v.isBit, v.value }

var one = fr.One()

// At is variable i.
func (v *Vector) At(i int) fr.Element {
	if v.form == Dense {
		return v.list[i]
	}
	w, s := i>>6, uint(i&63)
	if v.isBit[w]>>s&1 == 1 {
		if v.value[w]>>s&1 == 1 {
			return one
		}
		return fr.Element{}
	}
	return v.list[ListIndex(v.isBit, v.rank, uint32(i))]
}

// Public copies variables 1..n: the public inputs.
func (v *Vector) Public(n int) ([]fr.Element, error) {
	if n < 0 || n >= v.n {
		return nil, errs.Mismatch(errs.InvalidArgument, "witness buffer", "public inputs", fmt.Sprintf("fewer than %d variables", v.n), n)
	}
	out := make([]fr.Element, n)
	for i := range out {
		out[i] = v.At(i + 1)
	}
	return out, nil
}

// Builder writes an assignment of a known number of variables from the first to the last into a buffer.
type Builder struct {
	b      []byte
	v      Vector
	next   int // variable to be written
	listed int
	all    []fr.Element // room for the list
}

// NewBuilder starts an assignment of n variables in b, which must be 8-byte aligned and have room: DenseSize(n), or CompactSize(n, listed) for at most listed
// values that are not bits.
func NewBuilder(b []byte, form Form, n int) (*Builder, error) {
	if n <= 0 || n > MaxVariables {
		return nil, errs.Mismatch(errs.InvalidArgument, "witness buffer", "variables", "1 to 2^31", n)
	}
	need := DenseSize(n)
	if form == Compact {
		need = CompactSize(n, 0)
	}
	if int64(len(b)) < need || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "witness buffer", "buffer", fmt.Sprintf("%d aligned bytes", need), len(b))
	}
	w := &Builder{b: b, v: Vector{form: form, n: n}}
	rest := b[headerSize:]
	if form == Compact {
		words, bm := (n+63)/64, bitmapSize(n)
		clear(rest[:2*bm])
		w.v.isBit = cast[uint64](rest[:bm])[:words]
		w.v.value = cast[uint64](rest[bm : 2*bm])[:words]
		w.v.rank = cast[uint32](rest[2*bm : 2*bm+rankSize(n)])[:(n+block-1)/block]
		rest = rest[2*bm+rankSize(n):]
	}
	w.all = cast[fr.Element](rest[:len(rest)/32*32])
	return w, nil
}

func (w *Builder) full(more int) error {
	if w.next+more > w.v.n {
		return errs.Mismatch(errs.Internal, "witness buffer", "variables", w.v.n, fmt.Sprintf("more than %d", w.next))
	}
	return nil
}

// Append writes the next variable; in the compact form zero and one go to the bitmaps.
func (w *Builder) Append(x *fr.Element) error {
	if err := w.full(1); err != nil {
		return err
	}
	if w.v.form == Compact {
		if w.next%block == 0 {
			w.v.rank[w.next/block] = uint32(w.listed)
		}
		k, s := w.next>>6, uint(w.next&63)
		switch {
		case x.IsZero():
			w.v.isBit[k] |= 1 << s
			w.next++
			return nil
		case x.IsOne():
			w.v.isBit[k] |= 1 << s
			w.v.value[k] |= 1 << s
			w.next++
			return nil
		}
	}
	if w.listed >= len(w.all) {
		return w.noRoom()
	}
	w.all[w.listed] = *x
	w.listed++
	w.next++
	return nil
}

// AppendBits writes the next n <= 64 variables, all bits, least significant first.
func (w *Builder) AppendBits(word uint64, n int) error {
	if n < 0 || n > 64 {
		return errs.Mismatch(errs.Internal, "witness buffer", "bits", "0 to 64", n)
	}
	if err := w.full(n); err != nil {
		return err
	}
	if w.v.form == Dense {
		for ; n > 0; n-- {
			var x fr.Element
			if word&1 == 1 {
				x = one
			}
			if err := w.Append(&x); err != nil {
				return err
			}
			word >>= 1
		}
		return nil
	}
	if n < 64 {
		word &= 1<<n - 1
	}
	for n > 0 {
		if w.next%block == 0 {
			w.v.rank[w.next/block] = uint32(w.listed)
		}
		k, s := w.next>>6, w.next&63
		m := min(n, 64-s)
		mask := ^uint64(0)
		if m < 64 {
			mask = 1<<m - 1
		}
		w.v.isBit[k] |= mask << s
		w.v.value[k] |= (word & mask) << s
		if m < 64 {
			word >>= m
		} else {
			word = 0
		}
		w.next += m
		n -= m
	}
	return nil
}

// Finish writes the header and returns the assignment; every variable must have been written.
func (w *Builder) Finish() (*Vector, error) {
	if w.next != w.v.n {
		return nil, errs.Mismatch(errs.Internal, "witness buffer", "variables", w.v.n, w.next)
	}
	h := w.b[:headerSize]
	clear(h)
	binary.LittleEndian.PutUint32(h, magic)
	binary.LittleEndian.PutUint32(h[4:], uint32(w.v.form))
	binary.LittleEndian.PutUint64(h[8:], uint64(w.v.n))
	binary.LittleEndian.PutUint64(h[16:], uint64(w.listed))
	w.v.list = w.all[:w.listed]
	w.v.size = DenseSize(w.v.n)
	if w.v.form == Compact {
		w.v.size = CompactSize(w.v.n, w.listed)
	}
	if int64(len(w.b)) < w.v.size {
		return nil, errs.Mismatch(errs.Exhausted, "witness buffer", "buffer", w.v.size, len(w.b))
	}
	v := w.v
	return &v, nil
}
