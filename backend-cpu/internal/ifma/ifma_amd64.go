//go:build !purego

package ifma

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run ./gen

// Available tells whether the processor has what the functions of this package need.
func Available() bool {
	x := &cpu.X86
	return x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512BW && x.HasAVX512VL && x.HasAVX512IFMA && x.HasAVX512VBMI2
}

// A batch of additions is made in two passes over groups of eight: dst[id] = a[ia] + b[ib]. Points lie in memory as gnark-crypto keeps them, and are
// reduced; indices are below 2^31, and their bit 31 asks for the opposite point. Between the passes the caller inverts the product that is left in each lane.
//
// Divisors, from the first group to the last, sets den to xb - xa and before to the product of the divisors before, which begins with what work holds; at
// the end work holds the product with all. A bit of flags is set, and the lane divides by 1, where xa or xb is zero or both are equal.
//
// Sums, from the last group to the first, wants in work the inverse of the product of the divisors, and leaves there that of those before. In the lanes that
// copies names, the sum is a (first mask) or b (second); the results of other flagged lanes are of no use.
//
// In G1 an element is one block, in G2 two. work has WorkBlocks elements.

//go:noescape
func g1Divisors(work, den, before *Block, flags *uint8, a, b unsafe.Pointer, ia, ib *uint32, groups, far int)

//go:noescape
func g1Sums(work, den, before *Block, copies *[2]uint8, dst, a, b unsafe.Pointer, id, ia, ib *uint32, groups int)

//go:noescape
func g2Divisors(work, den, before *Block, flags *uint8, a, b unsafe.Pointer, ia, ib *uint32, groups, far int)

//go:noescape
func g2Sums(work, den, before *Block, copies *[2]uint8, dst, a, b unsafe.Pointer, id, ia, ib *uint32, groups int)

// mul sets z[i] = x[i] y[i] for n > 0 blocks.
//
//go:noescape
func mul(z, x, y *Block, n int)

// mul2 sets z[i] = x[i] y[i] + u[i] v[i].
//
//go:noescape
func mul2(z, x, y, u, v *Block, n int)

// reduce takes values below 4p to values below p. Limbs may be signed and longer than 52 bits.
//
//go:noescape
func reduce(z *Block, n int)
