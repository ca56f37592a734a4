// Package digits cuts scalars of BLS12-381 in signed digits that can be read in any order.
package digits

import (
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Recoded is a scalar k prepared so that each window's digit can be read alone: min(k, r-k) plus 2^(c-1) in every window but the highest, and
// the top bit set where r-k was taken. A window then holds its signed digit plus 2^(c-1), carries included.
type Recoded [4]uint64

const negated = 1 << 63

// the scalar field's order r and its half, rounded down, lowest limb first
var (
	order     = [4]uint64{0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805, 0x73eda753299d7d48}
	halfOrder = [4]uint64{0x7fffffff80000000, 0xa9ded2017fff2dff, 0x199cec0404d0ec02, 0x39f6d3a994cebea4}
)

// Window describes a cut of scalars in signed digits of c bits.
type Window struct {
	C     int
	Count int // windows; C*Count >= 255, so that digits fit, the carry into the highest window too
	bias  Recoded
}

// New cuts in digits of c bits, 2 <= c <= 31.
func New(c int) Window {
	w := Window{C: c, Count: (fr.Bits + c - 1) / c}
	for i := range w.Count - 1 {
		bit := c*i + c - 1
		w.bias[bit/64] |= 1 << (bit % 64)
	}
	return w
}

// Values is the number of absolute values that a digit can have, zero apart.
func (w Window) Values() int { return 1 << (w.C - 1) }

// Recode prepares a scalar.
func (w Window) Recode(s *fr.Element) Recoded {
	k := Recoded(s.Bits())
	var sign uint64
	if less(halfOrder, k) {
		var b uint64
		for i := range k {
			k[i], b = bits.Sub64(order[i], k[i], b)
		}
		sign = negated
	}
	var c uint64
	for i := range k {
		k[i], c = bits.Add64(k[i], w.bias[i], c)
	}
	k[3] |= sign
	return k
}

func less(x, y [4]uint64) bool {
	var b uint64
	for i := range x {
		_, b = bits.Sub64(x[i], y[i], b)
	}
	return b != 0
}

// Reader reads one window's digits.
type Reader struct {
	limb, shift uint
	last        bool // the next limb has no bits of this window
	mask, bias  uint64
}

// Reader returns the reader of window i, whose digits count 2^(c*i) each.
func (w Window) Reader(i int) Reader {
	at := uint(w.C * i)
	r := Reader{limb: at / 64, shift: at % 64, mask: 1<<w.C - 1, bias: uint64(w.Values())}
	r.last = r.limb == 3 || r.shift+uint(w.C) <= 64
	if i == w.Count-1 {
		r.bias = 0
	}
	return r
}

// Digit returns the absolute value of the digit and 1 if it is negative.
func (r *Reader) Digit(k *Recoded) (abs, neg uint32) {
	top := k[3]
	k3 := [4]uint64{k[0], k[1], k[2], top &^ negated}
	v := k3[r.limb&3] >> r.shift
	if !r.last {
		v |= k3[(r.limb+1)&3] << (64 - r.shift)
	}
	d := int64(v&r.mask) - int64(r.bias)
	s := d >> 63
	return uint32((d ^ s) - s), uint32(uint64(s)&1 ^ top>>63)
}
