package assignment

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// PlainBytes is the size of a value as witness files and witness programs have it: canonical, little-endian, not Montgomery.
const PlainBytes = fr.Bytes

// PartUnit is what the first variable of a Part must be a multiple of.
const PartUnit = block

// radix is R = 2^256 mod r: times it, the limbs of a plain value become an element.
var radix = func() (x fr.Element) {
	x.SetBigInt(new(big.Int).Lsh(big.NewInt(1), 256))
	return x
}()

var modulus = func() (m [fr.Limbs]uint64) {
	b := fr.Modulus().FillBytes(make([]byte, fr.Bytes))
	for i := range m {
		m[i] = binary.BigEndian.Uint64(b[fr.Bytes-8*(i+1):])
	}
	return m
}()

// plain reads the value at the start of b.
func plain(b []byte) [fr.Limbs]uint64 {
	_ = b[PlainBytes-1]
	return [fr.Limbs]uint64{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
}

func belowModulus(l *[fr.Limbs]uint64) bool {
	if l[3] != modulus[3] {
		return l[3] < modulus[3]
	}
	_, borrow := bits.Sub64(l[0], modulus[0], 0)
	_, borrow = bits.Sub64(l[1], modulus[1], borrow)
	_, borrow = bits.Sub64(l[2], modulus[2], borrow)
	return borrow == 1
}

// notCanonical names value i of a run of plain values.
func notCanonical(i int) error {
	return errs.Mismatch(errs.InvalidFile, "read witness", fmt.Sprintf("variable %d", i), "a value below the group order r", "one that is not")
}

// CountPlain checks plain values, 32 bytes each, and returns how many are neither 0 nor 1. first is the index of the first of them, for the error (class InvalidFile)
// that names a value not below r.
func CountPlain(values []byte, first int) (listed int, err error) {
	for i := 0; len(values) >= PlainBytes; i++ {
		l := plain(values)
		values = values[PlainBytes:]
		if l[1]|l[2]|l[3] == 0 && l[0] <= 1 {
			continue
		}
		if !belowModulus(&l) {
			return 0, notCanonical(first + i)
		}
		listed++
	}
	return listed, nil
}

// AppendPlain writes the next len(values)/32 variables from plain values, 32 bytes each. Errors: InvalidFile for a value not below r,
// Exhausted when the list has no more room.
func (w *Builder) AppendPlain(values []byte) error {
	n := len(values) / PlainBytes
	if err := w.full(n); err != nil {
		return err
	}
	compact := w.v.form == Compact
	for n > 0 {
		if compact && w.next%block == 0 {
			w.v.rank[w.next/block] = uint32(w.listed)
		}
		// One word of the bitmaps a turn.
		k, s := w.next>>6, w.next&63
		m := min(n, 64-s)
		var isBit, value uint64
		for j := range m {
			l := plain(values[j*PlainBytes:])
			if compact && l[1]|l[2]|l[3] == 0 && l[0] <= 1 {
				isBit |= 1 << j
				value |= l[0] << j
				continue
			}
			if !belowModulus(&l) {
				return notCanonical(w.next + j)
			}
			if w.listed >= len(w.all) {
				return w.noRoom()
			}
			x := fr.Element(l)
			w.all[w.listed].Mul(&x, &radix)
			w.listed++
		}
		if compact {
			w.v.isBit[k] |= isBit << s
			w.v.value[k] |= value << s
		}
		values = values[m*PlainBytes:]
		w.next += m
		n -= m
	}
	return nil
}

func (w *Builder) noRoom() error {
	return errs.Mismatch(errs.Exhausted, "witness buffer", "listed values", fmt.Sprintf("at most %d", len(w.all)), "more")
}

// Part is a builder of variables first to first+n-1 of w, so that several goroutines can write one assignment: first is a multiple of
// PartUnit, before is the number of listed values before it and listed that of its own (as CountPlain gave them; for the dense form they are first and n).
// Parts of w must not overlap, and w itself is not written to until Join.
func (w *Builder) Part(first, n, before, listed int) (*Builder, error) {
	if first < 0 || n < 0 || first%block != 0 || n > w.v.n-first || before < 0 || listed < 0 || listed > n || listed > len(w.all)-before {
		return nil, errs.Mismatch(errs.Exhausted, "witness buffer", "part", fmt.Sprintf("a part of %d variables, %d listed", w.v.n, len(w.all)), fmt.Sprintf("%d from %d on, %d listed from %d on", n, first, listed, before))
	}
	p := *w
	p.next, p.listed = first, before
	p.v.n = first + n
	p.all = w.all[:before+listed]
	return &p, nil
}

// Join takes over what the parts have written: they must follow one another from w's next variable on and be complete, in variables and in listed values.
// Otherwise it fails with class InvalidFile: the values were not those that were counted.
func (w *Builder) Join(parts ...*Builder) error {
	for _, p := range parts {
		if p.next != p.v.n || p.listed != len(p.all) {
			return errs.Mismatch(errs.InvalidFile, "read witness", fmt.Sprintf("variables up to %d", p.v.n), fmt.Sprintf("%d values that are not bits", len(p.all)), p.listed).WithHint("the witness changed while it was read")
		}
		if p.v.n < w.next || len(p.all) < w.listed {
			return errs.Mismatch(errs.Internal, "witness buffer", "parts", "rising parts", p.v.n)
		}
		w.next, w.listed = p.next, p.listed
	}
	return nil
}

// Ranks is the third part of the compact form: the number of listed values before variable 512 k. nil for the dense form. Do not write to it.
func (v *Vector) Ranks() []uint32 { return v.rank }

// ListIndex is the index in List of variable i of a compact assignment, which must not be a bit.
func ListIndex(isBit []uint64, rank []uint32, i uint32) uint32 {
	k, w := i/block, i>>6
	r := rank[k]
	for j := k * (block / 64); j < w; j++ {
		r += uint32(bits.OnesCount64(^isBit[j]))
	}
	return r + uint32(bits.OnesCount64(^isBit[w]&(1<<(i&63)-1)))
}
