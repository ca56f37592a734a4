// Inversion after Bernstein and Yang, "Fast constant-time gcd computation and modular inversion" (2019), with divsteps that start at delta = 1/2 and matrices
// of 30 steps over signed 30-bit limbs. The steps are branch-free; the number of batches follows the value (about 30 for 381 bits), so time is not constant.
// About 25,000 instructions for 12 limbs against about 150,000 for a power.
#pragma once

#include "field_params.cuh"

namespace weir {
namespace limb {

// Signed 30-bit limbs that hold values from -2m to m.
template <class P>
struct Signed30 {
	static constexpr int count = (32 * P::limbs + 29) / 30;
	int32_t v[count];

	template <class Limb>
	WEIR_HD static Signed30 from(Limb limb_at) {
		Signed30 s;
#pragma unroll
		for (int i = 0; i < count; i++) {
			int bit = 30 * i, w = bit / 32, o = bit % 32;
			uint64_t two = w < P::limbs ? limb_at(w) : 0;
			if (w + 1 < P::limbs) two |= (uint64_t)limb_at(w + 1) << 32;
			s.v[i] = (int32_t)((two >> o) & 0x3fffffff);
		}
		return s;
	}
	WEIR_HD static int32_t modulus(int i) {
		int bit = 30 * i, w = bit / 32, o = bit % 32;
		uint64_t two = w < P::limbs ? P::modulus(w) : 0;
		if (w + 1 < P::limbs) two |= (uint64_t)P::modulus(w + 1) << 32;
		return (int32_t)((two >> o) & 0x3fffffff);
	}
};

struct Matrix30 {
	int32_t u, v, q, r;
};

// 30 divsteps on the low words of f (odd) and g; d is twice delta. The matrix is scaled by 2^30.
WEIR_HD Matrix30 divsteps30(int32_t& d, uint32_t f, uint32_t g) {
	uint32_t u = 1, v = 0, q = 0, r = 1;
#pragma unroll 5
	for (int i = 0; i < 30; i++) {
		uint32_t odd = 0u - (g & 1);
		uint32_t swap = odd & (d > 0 ? 0xffffffffu : 0u);
		// Where swap: (f, g) = (g, -f), the same for the rows of the matrix, and delta changes sign.
		uint32_t t = (f ^ g) & swap;
		f ^= t;
		g = ((g ^ t) ^ swap) - swap;
		t = (u ^ q) & swap;
		u ^= t;
		q = ((q ^ t) ^ swap) - swap;
		t = (v ^ r) & swap;
		v ^= t;
		r = ((r ^ t) ^ swap) - swap;
		d = (int32_t)(((uint32_t)d ^ swap) - swap) + 2;
		g = (g + (f & odd)) >> 1;
		q += u & odd;
		r += v & odd;
		u <<= 1;
		v <<= 1;
	}
	return {(int32_t)u, (int32_t)v, (int32_t)q, (int32_t)r};
}

// r = r2 / x mod m for 0 < x < m, and 0 for 0: the inverse in Montgomery form of a value in Montgomery form.
template <class P>
WEIR_HD_CALL void mont_inverse(uint32_t* out, const uint32_t* x) {
	using S = Signed30<P>;
	constexpr int L = S::count;
	constexpr int32_t mask = 0x3fffffff;
	S f, g = S::from([x](int i) { return x[i]; });
	S d = {}, e = S::from([](int i) { return P::r2(i); });
#pragma unroll
	for (int i = 0; i < L; i++) f.v[i] = S::modulus(i);
	int32_t delta = 1;
	for (;;) {
		int32_t any = 0;
#pragma unroll
		for (int i = 0; i < L; i++) any |= g.v[i];
		if (any == 0) break;
		// Two limbs make the low 32 bits; 30 of them decide 30 steps.
		Matrix30 t = divsteps30(delta, (uint32_t)f.v[0] | (uint32_t)f.v[1] << 30, (uint32_t)g.v[0] | (uint32_t)g.v[1] << 30);
		{
			// (d, e) = t (d, e) / 2^30 mod m, kept within (-2m, m): add m where d or e is negative, then the multiple of m that clears the low 30 bits.
			int32_t sd = d.v[L - 1] >> 31, se = e.v[L - 1] >> 31;
			int32_t md = (t.u & sd) + (t.v & se), me = (t.q & sd) + (t.r & se);
			int64_t cd = (int64_t)t.u * d.v[0] + (int64_t)t.v * e.v[0];
			int64_t ce = (int64_t)t.q * d.v[0] + (int64_t)t.r * e.v[0];
			md -= (int32_t)((P::inv30 * (uint32_t)cd + (uint32_t)md) & mask);
			me -= (int32_t)((P::inv30 * (uint32_t)ce + (uint32_t)me) & mask);
			cd = (cd + (int64_t)S::modulus(0) * md) >> 30;
			ce = (ce + (int64_t)S::modulus(0) * me) >> 30;
#pragma unroll
			for (int i = 1; i < L; i++) {
				int64_t di = d.v[i], ei = e.v[i];
				cd += (int64_t)t.u * di + (int64_t)t.v * ei + (int64_t)S::modulus(i) * md;
				ce += (int64_t)t.q * di + (int64_t)t.r * ei + (int64_t)S::modulus(i) * me;
				d.v[i - 1] = (int32_t)cd & mask;
				e.v[i - 1] = (int32_t)ce & mask;
				cd >>= 30;
				ce >>= 30;
			}
			d.v[L - 1] = (int32_t)cd;
			e.v[L - 1] = (int32_t)ce;
		}
		{
			int64_t cf = ((int64_t)t.u * f.v[0] + (int64_t)t.v * g.v[0]) >> 30;
			int64_t cg = ((int64_t)t.q * f.v[0] + (int64_t)t.r * g.v[0]) >> 30;
#pragma unroll
			for (int i = 1; i < L; i++) {
				int64_t fi = f.v[i], gi = g.v[i];
				cf += (int64_t)t.u * fi + (int64_t)t.v * gi;
				cg += (int64_t)t.q * fi + (int64_t)t.r * gi;
				f.v[i - 1] = (int32_t)cf & mask;
				g.v[i - 1] = (int32_t)cg & mask;
				cf >>= 30;
				cg >>= 30;
			}
			f.v[L - 1] = (int32_t)cf;
			g.v[L - 1] = (int32_t)cg;
		}
	}
	// f is 1 or -1 (or m, where x was 0 and d is 0). d f, brought to [0, m).
	int32_t neg = f.v[L - 1] >> 31;
#pragma unroll
	for (int round = 0; round < 2; round++) {
		// First add m where d is negative and apply the sign of f, then add m where that is negative: from (-2m, m) to (-m, m) to [0, m).
		int32_t add = d.v[L - 1] >> 31, flip = round == 0 ? neg : 0;
		int32_t c = 0;
#pragma unroll
		for (int i = 0; i < L; i++) {
			c += ((d.v[i] + (S::modulus(i) & add)) ^ flip) - flip;
			if (i < L - 1) {
				d.v[i] = c & mask;
				c >>= 30;
			} else {
				d.v[i] = c;
			}
		}
	}
#pragma unroll
	for (int i = 0; i < P::limbs; i++) {
		int bit = 32 * i, w = bit / 30, o = bit % 30;
		uint64_t v = (uint64_t)(uint32_t)d.v[w];
		if (w + 1 < L) v |= (uint64_t)(uint32_t)d.v[w + 1] << 30;
		if (w + 2 < L) v |= (uint64_t)(uint32_t)d.v[w + 2] << 60;
		out[i] = (uint32_t)(v >> o);
	}
}

}  // namespace limb
}  // namespace weir
