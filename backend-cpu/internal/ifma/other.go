//go:build !amd64 || purego

package ifma

import "unsafe"

// Available is false: there is no such processor, or assembly is not wanted.
func Available() bool { return false }

const missing = "ifma: not available"

func g1Divisors(work, den, before *Block, flags *uint8, a, b unsafe.Pointer, ia, ib *uint32, groups, far int) {
	panic(missing)
}

func g1Sums(work, den, before *Block, copies *[2]uint8, dst, a, b unsafe.Pointer, id, ia, ib *uint32, groups int) {
	panic(missing)
}

func g2Divisors(work, den, before *Block, flags *uint8, a, b unsafe.Pointer, ia, ib *uint32, groups, far int) {
	panic(missing)
}

func g2Sums(work, den, before *Block, copies *[2]uint8, dst, a, b unsafe.Pointer, id, ia, ib *uint32, groups int) {
	panic(missing)
}

func mul(z, x, y *Block, n int) { panic(missing) }

func mul2(z, x, y, u, v *Block, n int) { panic(missing) }

func reduce(z *Block, n int) { panic(missing) }
