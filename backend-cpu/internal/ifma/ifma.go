// Package ifma adds points of BLS12-381 eight at a time with the processor's 52-bit multiply-add instructions (AVX-512 IFMA).
//
// A field element is held in eight limbs of 52 bits, lowest first, and eight elements side by side make a Block: row j holds limb j of all of them, one
// to each lane of a wide register. Products are Montgomery's with the same R = 2^384 as in gnark-crypto, so that nothing is converted but the
// position of the bits: seven rounds of the reduction take 52 bits off the product and the last one takes 20 (P. Montgomery, "Modular multiplication
// without trial division", 1985; S. Gueron, V. Krasnov, "Accelerating big integer arithmetic using Intel IFMA extensions", ARITH 2016).
//
// How far values may exceed p. With R = 9.84 p, a product of values below a p and b p is below (1 + 0.1016 a b) p, and a sum of two products below
// (1 + 0.1016 (a b + c d)) p. What comes from memory and goes there is below p; a difference has p added and is below 2p; products of those stay below
// 1.8 p, in both fields. Sums of that kind, up to 4.3 p, are brought below p by subtracting 2p and p where that leaves no negative number.
//
// The assembly is written by the program in gen. Its floor: a product in Fp takes 272 multiply-adds, one in Fp2 800, an addition in G1 six products, in G2 six
// of Fp2 less a square's saving; 8 lanes and two multiply-adds a cycle make that 102 and 290 cycles an addition.
package ifma

// Block is eight elements of the base field: Block[j][l] is limb j of lane l.
type Block [8][8]uint64

// Limbs are what an element's six words become.
func (b *Block) Set(lane int, x *[6]uint64) {
	const mask = 1<<52 - 1
	b[0][lane] = x[0] & mask
	b[1][lane] = (x[0]>>52 | x[1]<<12) & mask
	b[2][lane] = (x[1]>>40 | x[2]<<24) & mask
	b[3][lane] = (x[2]>>28 | x[3]<<36) & mask
	b[4][lane] = (x[3]>>16 | x[4]<<48) & mask
	b[5][lane] = x[4] >> 4 & mask
	b[6][lane] = (x[4]>>56 | x[5]<<8) & mask
	b[7][lane] = x[5] >> 44
}

// Get is the inverse of Set, for limbs below 2^52.
func (b *Block) Get(lane int) (x [6]uint64) {
	l := func(i int) uint64 { return b[i][lane] }
	x[0] = l(0) | l(1)<<52
	x[1] = l(1)>>12 | l(2)<<40
	x[2] = l(2)>>24 | l(3)<<28
	x[3] = l(3)>>36 | l(4)<<16
	x[4] = l(4)>>48 | l(5)<<4 | l(6)<<56
	x[5] = l(6)>>8 | l(7)<<44
	return x
}
