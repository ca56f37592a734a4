// Scalars to signed digits, and sorted digits to bucket bounds.
#pragma once

#include "fr.cuh"

namespace weir {
namespace msm {

constexpr uint32_t sign_bit = 0x80000000u;

// A digit d != 0 of window w becomes the key w 2^(c-1) + |d| - 1 and the value "index of the point, sign in bit 31". A digit 0 gets the key buckets, behind all others,
// and is never looked at again. Scalars above r/2 are negated first, so 254 bits are left and the top window takes the last carry.
// Reads 32 bytes a scalar, writes 8 bytes a digit: 2^24 scalars in 13 windows move 2.3 GB, at 4 TB/s 0.6 ms.
static __global__ void __launch_bounds__(256) digits_kernel(const Fr* scalars, const uint32_t* scalar_index, bool montgomery, uint32_t n, int c, int first, int count,
	uint32_t* keys, uint32_t* values) {
	for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
		Fr s = Fr::load(scalars + (scalar_index ? scalar_index[i] : i));
		if (montgomery) s = s.from_mont();
		Fr neg;
		uint32_t m[8], t[8];
#pragma unroll
		for (int j = 0; j < 8; j++) m[j] = FrParams::modulus(j);
		limb::sub<8>(neg.v, m, s.v);
		uint32_t flip = limb::sub<8>(t, neg.v, s.v) & sign_bit;  // r - s < s
		if (flip) s = neg;
		uint32_t half = 1u << (c - 1), mask = (1u << c) - 1, carry = 0, buckets = (uint32_t)count << (c - 1);
		for (int w = 0; w < first + count; w++) {
			// The next c bits; what is left moves down, so that no limb is indexed at run time.
			uint32_t d = (s.v[0] & mask) + carry;
#pragma unroll
			for (int j = 0; j < 8; j++) s.v[j] = __funnelshift_r(s.v[j], j < 7 ? s.v[j + 1] : 0, c);
			carry = d > half;
			uint32_t sign = flip;
			if (carry) {
				d = (mask + 1) - d;
				sign ^= sign_bit;
			}
			if (w < first) continue;
			uint64_t at = (uint64_t)(w - first) * n + i;
			keys[at] = d ? (uint32_t)(w - first) * half + d - 1 : buckets;
			values[at] = i | sign;
		}
	}
}

// Bounds of every bucket in the sorted keys: elements start[b] to end[b]. Both arrays are zero before, so that empty buckets have equal bounds.
static __global__ void __launch_bounds__(256) bounds_kernel(const uint32_t* keys, uint32_t elements, uint32_t buckets, uint32_t* start, uint32_t* end) {
	for (uint32_t j = blockIdx.x * blockDim.x + threadIdx.x; j < elements; j += gridDim.x * blockDim.x) {
		uint32_t key = keys[j], before = j ? keys[j - 1] : ~0u;
		if (key != before) {
			if (key < buckets) start[key] = j;
			if (j && before < buckets) end[before] = j;
		}
		if (j == elements - 1 && key < buckets) end[key] = elements;
	}
}

// The bounds of a plain sum: one bucket.
static __global__ void single_bounds_kernel(const uint32_t* count, uint32_t limit, uint32_t* start, uint32_t* end) {
	start[0] = 0;
	end[0] = *count < limit ? *count : limit;
}

}  // namespace msm
}  // namespace weir
