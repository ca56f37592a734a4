// Limb arithmetic: carry chains in PTX on the device, plain C++ on the host. Both give the same values; msm_check compares them on a GPU.
//
// The carry flag passes from one asm statement to the next. The statements are volatile, so the compiler keeps their order, and nothing else that sets
// the flag is emitted between them.
#pragma once

#include "field_params.cuh"

namespace weir {
namespace limb {

#if defined(__CUDA_ARCH__)

__device__ __forceinline__ void add_cc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }
__device__ __forceinline__ void addc_cc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }
__device__ __forceinline__ void addc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("addc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }
__device__ __forceinline__ void sub_cc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }
__device__ __forceinline__ void subc_cc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }
__device__ __forceinline__ void subc(uint32_t& r, uint32_t a, uint32_t b) { asm volatile("subc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); }

// (r1, r0) = a b + (c1, c0); one IMAD.WIDE each in machine code. The suffixes tell which carries go in (c_) and out (_cc).
__device__ __forceinline__ void mul_wide(uint32_t& r0, uint32_t& r1, uint32_t a, uint32_t b) {
	asm volatile("mul.lo.u32 %0, %2, %3; mul.hi.u32 %1, %2, %3;" : "=&r"(r0), "=r"(r1) : "r"(a), "r"(b));
}
__device__ __forceinline__ void mad_cc(uint32_t& r0, uint32_t& r1, uint32_t a, uint32_t b, uint32_t c0, uint32_t c1) {
	asm volatile("mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.cc.u32 %1, %2, %3, %5;" : "=&r"(r0), "=r"(r1) : "r"(a), "r"(b), "r"(c0), "r"(c1));
}
__device__ __forceinline__ void cmad_cc(uint32_t& r0, uint32_t& r1, uint32_t a, uint32_t b, uint32_t c0, uint32_t c1) {
	asm volatile("madc.lo.cc.u32 %0, %2, %3, %4; madc.hi.cc.u32 %1, %2, %3, %5;" : "=&r"(r0), "=r"(r1) : "r"(a), "r"(b), "r"(c0), "r"(c1));
}
__device__ __forceinline__ void cmad(uint32_t& r0, uint32_t& r1, uint32_t a, uint32_t b, uint32_t c0, uint32_t c1) {
	asm volatile("madc.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, %5;" : "=&r"(r0), "=r"(r1) : "r"(a), "r"(b), "r"(c0), "r"(c1));
}

#endif

// r = a + b, returns the carry.
template <int N>
WEIR_HD uint32_t add(uint32_t* r, const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__)
	add_cc(r[0], a[0], b[0]);
#pragma unroll
	for (int i = 1; i < N; i++) addc_cc(r[i], a[i], b[i]);
	uint32_t carry;
	addc(carry, 0, 0);
	return carry;
#else
	uint64_t c = 0;
	for (int i = 0; i < N; i++) {
		c += (uint64_t)a[i] + b[i];
		r[i] = (uint32_t)c;
		c >>= 32;
	}
	return (uint32_t)c;
#endif
}

// r = a - b, returns all ones if that is below zero, else 0.
template <int N>
WEIR_HD uint32_t sub(uint32_t* r, const uint32_t* a, const uint32_t* b) {
#if defined(__CUDA_ARCH__)
	sub_cc(r[0], a[0], b[0]);
#pragma unroll
	for (int i = 1; i < N; i++) subc_cc(r[i], a[i], b[i]);
	uint32_t borrow;
	subc(borrow, 0, 0);
	return borrow;
#else
	int64_t c = 0;
	for (int i = 0; i < N; i++) {
		c += (int64_t)a[i] - (int64_t)b[i];
		r[i] = (uint32_t)c;
		c >>= 32;
	}
	return (uint32_t)c;
#endif
}

#if defined(__CUDA_ARCH__)

// One row of the product: pairs of limbs (a[0], a[2], ...) times b into acc[0..N). a may be a function's results held in registers.
template <int N>
__device__ __forceinline__ void row_mul(uint32_t* acc, const uint32_t* a, uint32_t b) {
#pragma unroll
	for (int j = 0; j < N; j += 2) mul_wide(acc[j], acc[j + 1], a[j], b);
}

// acc += (a[0], a[2], ...) b, the carry out stays in the flag.
template <int N>
__device__ __forceinline__ void row_mad_cc(uint32_t* acc, const uint32_t* a, uint32_t b) {
	mad_cc(acc[0], acc[1], a[0], b, acc[0], acc[1]);
#pragma unroll
	for (int j = 2; j < N; j += 2) cmad_cc(acc[j], acc[j + 1], a[j], b, acc[j], acc[j + 1]);
}

// Montgomery product without the last subtraction, coarsely interleaved: even and odd hold the limbs whose 64-bit products start at an even or odd limb, so that
// every carry runs along one chain of wide multiply-adds. Bound: r = (a b + m p)/R with m < R; intermediate sums stay below a + p, which must be below R.
// Cost for N limbs: 2 N^2 / 2 * 2 = N^2 wide multiplications pairs in all (288 for 12 limbs, 128 for 8), N low multiplications, about 4 N additions.
template <class P>
__device__ __forceinline__ void mont_mul(uint32_t* r, const uint32_t* a, const uint32_t* b) {
	constexpr int N = P::limbs;
	uint32_t p[N];
#pragma unroll
	for (int i = 0; i < N; i++) p[i] = P::modulus(i);
	uint32_t even[N], odd[N];
	row_mul<N>(even, a, b[0]);
	row_mul<N>(odd, a + 1, b[0]);
	uint32_t m = P::quotient(even[0]);
	row_mad_cc<N>(odd, p + 1, m);
	row_mad_cc<N>(even, p, m);
	addc(odd[N - 1], odd[N - 1], 0);
#pragma unroll
	for (int i = 1; i < N; i++) {
		// One limb down: what was odd becomes even. The limb even[1] that changes sides is added first and its carry enters the odd chain.
		uint32_t* e = i % 2 ? odd : even;
		uint32_t* o = i % 2 ? even : odd;
		add_cc(e[0], e[0], o[1]);
#pragma unroll
		for (int j = 0; j < N - 2; j += 2) cmad_cc(o[j], o[j + 1], a[j + 1], b[i], o[j + 2], o[j + 3]);
		cmad(o[N - 2], o[N - 1], a[N - 1], b[i], 0, 0);
		row_mad_cc<N>(e, a, b[i]);
		addc(o[N - 1], o[N - 1], 0);
		m = P::quotient(e[0]);
		row_mad_cc<N>(o, p + 1, m);
		row_mad_cc<N>(e, p, m);
		addc(o[N - 1], o[N - 1], 0);
	}
	// N is even, so the last roles were e = odd, o = even.
	add_cc(r[0], even[0], odd[1]);
#pragma unroll
	for (int j = 1; j < N - 1; j++) addc_cc(r[j], even[j], odd[j + 1]);
	addc(r[N - 1], even[N - 1], 0);
}

// The same product for fields with room for 13 limbs of 5 x 2^32 p (Fp): all rows but the last two clear their low limb q by adding q (2^-32 mod p) one limb up, which
// needs no multiplication to find the multiple of p and shortens the chain of dependent instructions. What is added is up to 2^32 p instead of p, so the last two rows add
// the multiple of p itself; without that the result could pass 2p.
// Bound: after row N - 3 the sum is below 2^32 p + a + small, after row N - 2 below 2p + a + small, and the last row, with b below 2p, leaves at most
// (0.21 a + p + small), below 2p for a below 4p.
template <class P>
__device__ __forceinline__ void mont_mul_shift(uint32_t* r, const uint32_t* a, const uint32_t* b) {
	constexpr int N = P::limbs;
	uint32_t p[N], s[N];
#pragma unroll
	for (int i = 0; i < N; i++) {
		p[i] = P::modulus(i);
		s[i] = P::shift(i);
	}
	uint32_t even[N], odd[N];
	row_mul<N>(even, a, b[0]);
	row_mul<N>(odd, a + 1, b[0]);
#pragma unroll
	for (int i = 1; i < N; i++) {
		uint32_t* e = i % 2 ? odd : even;
		uint32_t* o = i % 2 ? even : odd;
		bool shifted = i < N - 1;  // how row i - 1 is reduced; o[0] is its low limb
		uint32_t q = o[0];
		if (!shifted) {
			uint32_t m = P::quotient(q);
			row_mad_cc<N>(e, p + 1, m);
			row_mad_cc<N>(o, p, m);
			addc(e[N - 1], e[N - 1], 0);
		}
		const uint32_t* f = shifted ? s : a;
		uint32_t g = shifted ? q : b[i];
		add_cc(e[0], e[0], o[1]);
#pragma unroll
		for (int j = 0; j < N - 2; j += 2) cmad_cc(o[j], o[j + 1], f[j + 1], g, o[j + 2], o[j + 3]);
		cmad(o[N - 2], o[N - 1], f[N - 1], g, 0, 0);
		row_mad_cc<N>(e, f, g);
		addc(o[N - 1], o[N - 1], 0);
		if (shifted) {
			row_mad_cc<N>(o, a + 1, b[i]);
			row_mad_cc<N>(e, a, b[i]);
			addc(o[N - 1], o[N - 1], 0);
		}
	}
	uint32_t m = P::quotient(odd[0]);
	row_mad_cc<N>(even, p + 1, m);
	row_mad_cc<N>(odd, p, m);
	addc(even[N - 1], even[N - 1], 0);
	add_cc(r[0], even[0], odd[1]);
#pragma unroll
	for (int j = 1; j < N - 1; j++) addc_cc(r[j], even[j], odd[j + 1]);
	addc(r[N - 1], even[N - 1], 0);
}

#else

template <class P>
inline void mont_mul(uint32_t* r, const uint32_t* a, const uint32_t* b) {
	constexpr int N = P::limbs;
	uint32_t t[N + 2] = {};
	for (int i = 0; i < N; i++) {
		uint64_t c = 0;
		for (int j = 0; j < N; j++) {
			c += (uint64_t)a[j] * b[i] + t[j];
			t[j] = (uint32_t)c;
			c >>= 32;
		}
		c += t[N];
		t[N] = (uint32_t)c;
		t[N + 1] = (uint32_t)(c >> 32);
		uint32_t m = t[0] * P::neg_inv;
		c = (uint64_t)m * P::modulus(0) + t[0];
		c >>= 32;
		for (int j = 1; j < N; j++) {
			c += (uint64_t)m * P::modulus(j) + t[j];
			t[j - 1] = (uint32_t)c;
			c >>= 32;
		}
		c += t[N];
		t[N - 1] = (uint32_t)c;
		t[N] = t[N + 1] + (uint32_t)(c >> 32);
	}
	for (int i = 0; i < N; i++) r[i] = t[i];
}

#endif

}  // namespace limb
}  // namespace weir
