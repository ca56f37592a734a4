package wkey

// CRC-32C of a concatenation from the CRCs of its parts, so that parts can be summed in parallel. Appending n zero bytes multiplies the
// register by x^(8n) modulo the polynomial; the rest is linear. (Source: zlib's crc32_combine, by M. Adler.)

// castagnoliPoly is the polynomial with bits reversed: bit 31 is x^0.
const castagnoliPoly = 0x82F63B78

// mulMod multiplies two polynomials modulo the CRC's.
func mulMod(a, b uint32) uint32 {
	var p uint32
	for m := uint32(1) << 31; m != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ castagnoliPoly
		} else {
			b >>= 1
		}
	}
	return p
}

// combine is the CRC of X Y given those of X and Y, with Y of n bytes.
func combine(x, y uint32, n int64) uint32 {
	power := uint32(1) << 23 // x^8
	shift := uint32(1) << 31 // x^0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			shift = mulMod(shift, power)
		}
		power = mulMod(power, power)
	}
	return mulMod(shift, x) ^ y
}
