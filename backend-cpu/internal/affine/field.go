package affine

import (
	"math/bits"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// the limbs of the base field's modulus, lowest first
const (
	q0 = 0xb9feffffffffaaab
	q1 = 0x1eabfffeb153ffff
	q2 = 0x6730d2a0f6b0f624
	q3 = 0x64774b84f38512bf
	q4 = 0x4b1ba7b6434bacd7
	q5 = 0x1a0111ea397fe69a
)

// sub sets z = x - y for reduced x, y. The sign of a difference of random elements cannot be predicted, so this has no branch.
func sub(z, x, y *fp.Element) {
	t0, b := bits.Sub64(x[0], y[0], 0)
	t1, b := bits.Sub64(x[1], y[1], b)
	t2, b := bits.Sub64(x[2], y[2], b)
	t3, b := bits.Sub64(x[3], y[3], b)
	t4, b := bits.Sub64(x[4], y[4], b)
	t5, b := bits.Sub64(x[5], y[5], b)
	m := -b
	var c uint64
	z[0], c = bits.Add64(t0, q0&m, 0)
	z[1], c = bits.Add64(t1, q1&m, c)
	z[2], c = bits.Add64(t2, q2&m, c)
	z[3], c = bits.Add64(t3, q3&m, c)
	z[4], c = bits.Add64(t4, q4&m, c)
	z[5], _ = bits.Add64(t5, q5&m, c)
}

// signed sets z to y, or to its opposite where index carries Negate: z = (y xor m) + (q+1 and m), with m all ones or zero. Which sign is met next
// cannot be predicted either.
func signed(z, y *fp.Element, index uint32) {
	m := -uint64(index >> 31)
	if y[0]|y[1]|y[2]|y[3]|y[4]|y[5] == 0 {
		m = 0
	}
	var c uint64
	z[0], c = bits.Add64(y[0]^m, (q0+1)&m, 0)
	z[1], c = bits.Add64(y[1]^m, q1&m, c)
	z[2], c = bits.Add64(y[2]^m, q2&m, c)
	z[3], c = bits.Add64(y[3]^m, q3&m, c)
	z[4], c = bits.Add64(y[4]^m, q4&m, c)
	z[5], _ = bits.Add64(y[5]^m, q5&m, c)
}

// signed2 is signed for the extension field.
func signed2(z, y *bls12381.E2, index uint32) {
	signed(&z.A0, &y.A0, index)
	signed(&z.A1, &y.A1, index)
}
