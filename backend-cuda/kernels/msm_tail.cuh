// Few points, many processors: additions that share their products among the lanes of a warp, and the end of a plain sum.
//
// A warp's product takes as long for one lane as for 32, some 1,200 cycles, so the last levels of a tree of XYZZ additions (14 products) are pure latency. Eight lanes that
// make one addition together need a depth of four.
// Rounds of affine additions have a latency of their own, above 0.1 ms for the inversion alone: when a sum is down to 2^18 points they stop paying, and threads add up
// what is left: 2^18 mixed additions of 10 products at 27.8 G/s are 0.09 ms, the tree behind them about 60 products deep.
#pragma once

#include "curve.cuh"
#include "msm_digits.cuh"

namespace weir {
namespace msm {

template <class F>
__device__ __forceinline__ F shuffle_down(const F& f, int by) {
	F r;
	const uint32_t* v = reinterpret_cast<const uint32_t*>(&f);
	uint32_t* w = reinterpret_cast<uint32_t*>(&r);
#pragma unroll
	for (int i = 0; i < (int)(sizeof(F) / 4); i++) w[i] = __shfl_down_sync(~0u, v[i], by);
	return r;
}

// What a lane holds, for this one.
template <class F>
__device__ __forceinline__ F from_lane(const F& f, int lane) {
	F r;
	const uint32_t* v = reinterpret_cast<const uint32_t*>(&f);
	uint32_t* w = reinterpret_cast<uint32_t*>(&r);
#pragma unroll
	for (int i = 0; i < (int)(sizeof(F) / 4); i++) w[i] = __shfl_sync(~0u, v[i], lane);
	return r;
}

// a + b by eight lanes, all of which hold a and b and get the sum; the whole warp comes here. add-2008-s, lanes 0 to 5 with a product each.
template <class F>
__device__ __noinline__ Xyzz<F> octet_add(const Xyzz<F>& a, const Xyzz<F>& b) {
	const int lane = threadIdx.x % 8, first = threadIdx.x % 32 - lane;
	F t = (lane == 0 ? a.x : lane == 1 ? a.y : lane == 2 ? b.x : lane == 3 ? b.y : lane == 4 ? a.zz : a.zzz) *
	      (lane == 0 || lane == 4 ? b.zz : lane == 2 ? a.zz : lane == 3 ? a.zzz : b.zzz);
	F u1 = from_lane(t, first), s1 = from_lane(t, first + 1);
	F p = from_lane(t, first + 2) - u1, r = from_lane(t, first + 3) - s1;
	F square = (lane % 2 ? r : p).sqr();
	F pp = from_lane(square, first), x3 = from_lane(square, first + 1);
	F v = (lane == 0 ? p : lane == 1 ? u1 : t) * pp;
	F ppp = from_lane(v, first), q = from_lane(v, first + 1);
	x3 = x3 - ppp - q.dbl();
	F w = (lane == 0 ? r : lane == 1 ? s1 : t) * (lane == 0 ? q - x3 : ppp);
	Xyzz<F> sum = {x3, from_lane(w, first) - from_lane(w, first + 1), from_lane(v, first + 4), from_lane(w, first + 5)};
	if (a.is_infinity()) return b;
	if (b.is_infinity()) return a;
	if (p.is_zero()) return r.is_zero() ? a.dbl() : Xyzz<F>::infinity();
	return sum;
}

// The sums over groups of width lanes (a power of two), each in its first lane; for a whole warp in all its lanes.
template <class F>
__device__ __forceinline__ Xyzz<F> group_sum(Xyzz<F> s, int width) {
	if (width < 32) {
#pragma unroll 1
		for (int by = width / 2; by; by /= 2) s = s + shuffle_down(s, by);
		return s;
	}
#pragma unroll 1
	for (int by = 16; by > 4; by /= 2) s = s + shuffle_down(s, by);
	// Eight sums are left, in lanes 0 to 7: then four in the octets, then two, then one.
	const int octet = threadIdx.x % 32 / 8;
#pragma unroll 1
	for (int level = 0; level < 3; level++) {
		int a = level == 0 ? octet : level == 1 ? octet % 2 * 8 : 0, by = level == 0 ? 4 : level == 1 ? 16 : 8;
		s = octet_add(from_lane(s, a), from_lane(s, a + by));
	}
	return s;
}

constexpr int tail_threads = 128, tail_blocks = 128;
constexpr int tail_log = 18;  // elements that are left to the tail

// The sum over a block of tail_threads, in all lanes of its first warp.
template <class F>
__device__ __forceinline__ Xyzz<F> block_sum(Xyzz<F> s, Xyzz<F>* shared) {
	s = group_sum(s, 32);
	if (threadIdx.x % 32 == 0) s.store(shared + threadIdx.x / 32);
	__syncthreads();
	if (threadIdx.x >= 32) return s;
	const int octet = threadIdx.x / 8 % 2;
	s = octet_add(Xyzz<F>::load(shared + octet), Xyzz<F>::load(shared + octet + 2));
	return octet_add(from_lane(s, 0), from_lane(s, 8));
}

// The one bucket of a plain sum after its rounds: elements at multiples of 2^rounds are left, as results or, at most the last, as a point.
template <class F>
__global__ void __launch_bounds__(tail_threads) tail_kernel(const uint32_t* count, uint32_t limit, int rounds, const uint32_t* values, const Affine<F>* points, const Affine<F>* results,
	Xyzz<F>* partials) {
	__shared__ Xyzz<F> shared[tail_threads / 32];
	const uint32_t m = *count < limit ? *count : limit, left = (uint32_t)(((uint64_t)m + (1u << rounds) - 1) >> rounds);
	Xyzz<F> sum = Xyzz<F>::infinity();
#pragma unroll 1
	for (uint32_t k = blockIdx.x * tail_threads + threadIdx.x; k < left; k += gridDim.x * tail_threads) {
		uint32_t j = k << rounds;
		Affine<F> p;
		if (rounds > 0 && j + 1 < m) {
			p = Affine<F>::load(results + (j >> 1));
		} else {
			uint32_t ref = values[j];
			p = Affine<F>::load(points + (ref & ~sign_bit));
			if (ref & sign_bit) p = -p;
		}
		sum = sum + p;
	}
	__syncwarp();
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0) sum.store(partials + blockIdx.x);
}

template <class F>
__global__ void __launch_bounds__(tail_threads) tail_total_kernel(const Xyzz<F>* partials, int count, Affine<F>* result) {
	__shared__ Xyzz<F> shared[tail_threads / 32];
	Xyzz<F> sum = (int)threadIdx.x < count ? Xyzz<F>::load(partials + threadIdx.x) : Xyzz<F>::infinity();
	sum = block_sum(sum, shared);
	if (threadIdx.x >= 32) return;
	Affine<F> a = sum.affine();
	if (threadIdx.x == 0) a.store_canonical(result);
}

}  // namespace msm
}  // namespace weir
