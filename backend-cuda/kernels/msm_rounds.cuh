// One round of affine additions: pairs from a list, one inversion for a whole block's share.
//
// Costs an addition 5M + 1S in the coordinate field: forward, the product of all x2 - x1 so far (1M); one inversion for 4 x steps additions; backward, the inverse of this
// one difference (2M), the slope (1M), x3 (1S), y3 (1M). In G2 a product takes 3 and a square 2 of the base field, 17 in all.
// Floor on an H200 for G1 (27.8 G multiplications/s, measured for this product): 6 / 27.8 = 0.216 ns an addition, 4.6 G/s; memory: 96 B + 2 x 48 B of points, the prefix twice
// (96 B) and 96 B of result = 384 B an addition, at 1.36 TB/s for gathers and 4 TB/s for the rest under 0.2 ns, beside the arithmetic. G2: 17 / 27.8 = 0.61 ns, 1.63 G/s.
#pragma once

#include "curve.cuh"
#include "msm_lists.cuh"

namespace weir {
namespace msm {

constexpr int round_threads = 128;

// What changes between the groups: the element for products in place, and how many blocks share an SM (registers).
template <class F>
struct RoundPolicy;
template <>
struct RoundPolicy<G1> {
	using Inline = FpLazy;  // the products that pay for being in place
	static constexpr int blocks_per_sm = 4;
	static constexpr int steps = 256;
};
template <>
struct RoundPolicy<G2> {
	using Inline = Fp2Call;
	static constexpr int blocks_per_sm = 2;
	static constexpr int steps = 192;
};

template <class F>
struct RoundArgs {
	const uint32_t* list;
	const uint32_t* count;   // entries of list
	const uint32_t* values;  // sorted references: index | sign
	const Affine<F>* points;
	Affine<F>* results;
	uint4* prefixes;  // blocks x steps x threads elements
	uint32_t distance;  // 2^r
	int steps;
};

// Where the two operands of a pair lie and where the sum goes. Signs belong to original points only.
template <class F>
struct Pair {
	const Affine<F>* a;
	const Affine<F>* b;
	bool negative_a, negative_b;
};

template <class F, bool First>
__device__ __forceinline__ Pair<F> find_pair(const RoundArgs<F>& args, uint32_t entry) {
	uint32_t j = entry & 0x7fffffffu;
	Pair<F> p;
	if constexpr (First) {
		uint32_t ra = args.values[j], rb = args.values[j + 1];
		p.a = args.points + (ra & 0x7fffffffu);
		p.b = args.points + (rb & 0x7fffffffu);
		p.negative_a = ra >> 31;
		p.negative_b = rb >> 31;
	} else {
		p.a = args.results + (j >> 1);
		p.b = args.results + ((j + args.distance) >> 1);
		p.negative_a = p.negative_b = false;
		if (entry >> 31) {
			uint32_t rb = args.values[j + args.distance];
			p.b = args.points + (rb & 0x7fffffffu);
			p.negative_b = rb >> 31;
		}
	}
	return p;
}

// The cases that have no slope through two points.
enum Special { ordinary = 0, take_b = 1, take_a = 2, doubling = 3, cancel = 4 };

template <class F>
__device__ __noinline__ Special classify(Pair<F> p) {
	Affine<F> a = Affine<F>::load(p.a), b = Affine<F>::load(p.b);
	if (a.is_infinity()) return take_b;
	if (b.is_infinity()) return take_a;
	if (a.x != b.x) return ordinary;
	bool same = p.negative_a == p.negative_b ? a.y == b.y : (a.y + b.y).is_zero();
	return same && !a.y.is_zero() ? doubling : cancel;
}

// The factor that a special pair puts in the place of x2 - x1.
template <class F>
__device__ __noinline__ F special_factor(Special s, Pair<F> p) {
	if (s != doubling) return F::one();
	F y = F::load(&p.a->y);
	return (p.negative_a ? -y : y).dbl();
}

template <class F>
__device__ __noinline__ F tangent(const F* x) {
	F s = F::load(x).sqr();
	return s.dbl() + s;
}

template <class F>
__device__ __noinline__ void store_special(Special s, Pair<F> p, Affine<F>* out) {
	Affine<F> r = Affine<F>::infinity();
	if (s == take_a) {
		r = Affine<F>::load(p.a);
		if (p.negative_a) r = -r;
	}
	if (s == take_b) {
		r = Affine<F>::load(p.b);
		if (p.negative_b) r = -r;
	}
	r.store(out);
}

// True for every special pair, and for about one in 2^30 others: looked at before classify.
template <class F>
__device__ __forceinline__ bool suspect(const F& x1, const F& x2, const F& d) {
	return d.may_be_zero() || x1.may_be_zero() || x2.may_be_zero();
}

// Elements of a block side by side: limb quads of 128 threads, so that every access of a warp is 512 contiguous bytes.
template <class F>
__device__ __forceinline__ void put(uint4* row, const F& f) {
	const uint32_t* v = reinterpret_cast<const uint32_t*>(&f);
#pragma unroll
	for (int q = 0; q < (int)sizeof(F) / 16; q++) row[q * round_threads] = make_uint4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
}
template <class F>
__device__ __forceinline__ F get(const uint4* row) {
	F f;
	uint32_t* v = reinterpret_cast<uint32_t*>(&f);
#pragma unroll
	for (int q = 0; q < (int)sizeof(F) / 16; q++) {
		uint4 u = row[q * round_threads];
		v[4 * q] = u.x;
		v[4 * q + 1] = u.y;
		v[4 * q + 2] = u.z;
		v[4 * q + 3] = u.w;
	}
	return f;
}

// The inverses of all 128 factors of a block with 32 inversions in one warp: the four threads of equal lane share one.
template <class F>
__device__ __forceinline__ F invert_block(const F& mine, uint4* shared, int warp_in_charge) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	put(shared + threadIdx.x, mine);
	__syncthreads();
	if (warp == warp_in_charge) {
		F p1 = get<F>(shared + lane), p2 = p1 * get<F>(shared + 32 + lane), p3 = p2 * get<F>(shared + 64 + lane);
		F inv = (p3 * get<F>(shared + 96 + lane)).inverse();
		F f = get<F>(shared + 96 + lane);
		put(shared + 96 + lane, inv * p3);
		inv = inv * f;
		f = get<F>(shared + 64 + lane);
		put(shared + 64 + lane, inv * p2);
		inv = inv * f;
		f = get<F>(shared + 32 + lane);
		put(shared + 32 + lane, inv * p1);
		put(shared + lane, inv * f);
	}
	__syncthreads();
	return get<F>(shared + threadIdx.x);
}

template <class T, class U>
__device__ __forceinline__ T as(const U& u) {
	static_assert(sizeof(T) == sizeof(U), "the same element");
	return reinterpret_cast<const T&>(u);
}

// A block takes shares of steps x 128 pairs; thread t of step i has pair (share steps + i) 128 + t.
template <class F, bool First>
__global__ void __launch_bounds__(round_threads, RoundPolicy<F>::blocks_per_sm) round_kernel(RoundArgs<F> args) {
	using In = typename RoundPolicy<F>::Inline;
	constexpr int quads = sizeof(F) / 16;
	__shared__ uint4 shared[quads * round_threads];
	uint32_t pairs = *args.count;
	if (pairs == 0) return;
	// Shares of equal size, so that all blocks end together.
	uint32_t rows = (pairs + round_threads - 1) / round_threads;
	uint32_t turns = (rows + gridDim.x * args.steps - 1) / (gridDim.x * args.steps);
	uint32_t steps = (rows + gridDim.x * turns - 1) / (gridDim.x * turns);
	uint4* prefixes = args.prefixes + (size_t)blockIdx.x * args.steps * quads * round_threads + threadIdx.x;

	for (uint32_t turn = 0; turn < turns; turn++) {
		uint32_t row = (turn * gridDim.x + blockIdx.x) * steps;
		if (row >= rows) break;
		int n = rows - row < steps ? (int)(rows - row) : (int)steps;
		uint32_t at = row * round_threads + threadIdx.x;

		// Forward: the product of the differences.
		In acc = In::one();
		bool some = false;
		for (int i = 0; i < n; i++) {
			uint32_t k = at + (uint32_t)i * round_threads;
			if (k < pairs) {
				Pair<F> p = find_pair<F, First>(args, args.list[k]);
				In x1 = In::load(&p.a->x), x2 = In::load(&p.b->x);
				In d = x2 - x1;
				if (suspect(x1, x2, d)) {
					Special s = classify<F>(p);
					if (s != ordinary) d = as<In>(special_factor<F>(s, p));
				}
				acc = some ? acc * d : d;
				some = true;
			}
			put(prefixes + (size_t)i * quads * round_threads, acc);
		}
		F inv = invert_block<F>(as<F>(acc), shared, turn & 3);

		// Backward.
		for (int i = n - 1; i >= 0; i--) {
			uint32_t k = at + (uint32_t)i * round_threads;
			if (k >= pairs) continue;
			uint32_t entry = args.list[k];
			Pair<F> p = find_pair<F, First>(args, entry);
			Affine<F>* out = args.results + ((entry & 0x7fffffffu) >> 1);
			F x1 = F::load(&p.a->x), x2 = F::load(&p.b->x);
			F d = x2 - x1;
			Special s = ordinary;
			if (suspect(x1, x2, d)) {
				s = classify<F>(p);
				if (s != ordinary) d = special_factor<F>(s, p);
			}
			F one_inv = inv;
			if (i > 0) {
				one_inv = inv * get<F>(prefixes + (size_t)(i - 1) * quads * round_threads);
				inv = inv * d;
			}
			F y1 = F::load(&p.a->y), y2 = F::load(&p.b->y);
			if (First && p.negative_a) y1 = -y1;
			if (p.negative_b) y2 = -y2;
			F num = y2 - y1;
			if (s == doubling) num = tangent<F>(&p.a->x);
			In slope = as<In>(num) * as<In>(one_inv);
			In x3 = slope.sqr() - as<In>(x1) - as<In>(x2);
			F y3 = as<F>(slope) * (x1 - as<F>(x3)) - y1;
			if (s == ordinary || s == doubling) {
				as<F>(x3).store(&out->x);
				y3.store(&out->y);
			} else {
				store_special<F>(s, p, out);
			}
		}
		__syncthreads();  // shared is used again
	}
}

}  // namespace msm
}  // namespace weir
