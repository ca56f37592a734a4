package msm

import (
	"math"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// recoded is a scalar k prepared so that each window's digit can be read alone: min(k, r-k) plus 2^(c-1) in every window but the highest, and
// the top bit set where r-k was taken. A window then holds its signed digit plus 2^(c-1), carries included.
type recoded [4]uint64

const negated = 1 << 63

// the scalar field's order r and its half, rounded down, lowest limb first
var (
	order     = [4]uint64{0xffffffff00000001, 0x53bda402fffe5bfe, 0x3339d80809a1d805, 0x73eda753299d7d48}
	halfOrder = [4]uint64{0x7fffffff80000000, 0xa9ded2017fff2dff, 0x199cec0404d0ec02, 0x39f6d3a994cebea4}
)

// window describes a cut of scalars in signed digits of c bits.
type window struct {
	c     int
	count int // windows; c*count >= 255, so that digits fit, the carry into the highest window too
	bias  recoded
}

func newWindow(c int) window {
	w := window{c: c, count: (fr.Bits + c - 1) / c}
	for i := range w.count - 1 {
		bit := c*i + c - 1
		w.bias[bit/64] |= 1 << (bit % 64)
	}
	return w
}

// buckets is the number of absolute values that a digit can have, zero apart.
func (w window) buckets() int { return 1 << (w.c - 1) }

func (w window) recode(s *fr.Element) recoded {
	k := recoded(s.Bits())
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

// reader reads one window's digits.
type reader struct {
	limb, shift uint
	last        bool // the next limb has no bits of this window
	mask, bias  uint64
}

func (w window) reader(i int) reader {
	at := uint(w.c * i)
	r := reader{limb: at / 64, shift: at % 64, mask: 1<<w.c - 1, bias: uint64(w.buckets())}
	r.last = r.limb == 3 || r.shift+uint(w.c) <= 64
	if i == w.count-1 {
		r.bias = 0
	}
	return r
}

// digit returns the absolute value of the digit and 1 if it is negative.
func (r *reader) digit(k *recoded) (abs, neg uint32) {
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

// chooseWindow returns the width that makes a sum of n full-width terms cheapest. Costs are in field products: 6.5 an affine addition, 1.2 for
// sorting and gathering a point, 14 for a bucket in the weighted sum, and a constant for what a window costs anyway.
func chooseWindow(n int) window {
	best, bestCost := 4, math.Inf(1)
	for c := 4; c <= maxWindow; c++ {
		w := newWindow(c)
		b := float64(w.buckets())
		full := b * (1 - math.Exp(-float64(n)/b))
		cost := float64(w.count) * ((float64(n)-full)*6.5 + float64(n)*1.2 + b*14 + 500)
		if cost < bestCost {
			best, bestCost = c, cost
		}
	}
	return newWindow(best)
}

// maxWindow keeps the buckets of a window at 6 MiB in G1, 12 MiB in G2.
const maxWindow = 17
