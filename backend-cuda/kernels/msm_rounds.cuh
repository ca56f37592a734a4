// One round of affine additions: pairs from a list, one inversion for a whole block's share.
//
// A block is four warps. Each warp gathers the operands of its 32 pairs together: 3 to 12 lanes copy one point by 16-byte cp.async (past L1), several steps ahead, so
// that a gather from 100 GB of points costs no waiting and no registers; sums go out the same way, as whole lines. Blocks do not share anything but the inversion, for
// which the four threads of equal lane put their products together.
//
// Costs an addition 5M + 1S in the coordinate field: forward, the product of all x2 - x1 so far (1M); one inversion for 4 x steps additions; backward, the inverse of this
// one difference (2M), the slope (1M), x3 (1S), y3 (1M). In G2 a product takes 3 and a square 2 of the base field, 17 in all.
// Floor on an H200 for G1 (27.8 G multiplications/s, measured for this product): 6 / 27.8 = 0.216 ns an addition, 4.6 G/s; memory: 96 B + 2 x 48 B of points, the prefix twice
// (96 B) and 96 B of result = 384 B an addition, at 1.36 TB/s for gathers and 4 TB/s for the rest under 0.2 ns, beside the arithmetic. G2: 17 / 27.8 = 0.61 ns, 1.63 G/s.
#pragma once

#include "curve.cuh"
#include "msm_digits.cuh"
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
__device__ __noinline__ Affine<F> special_sum(Special s, Pair<F> p) {
	Affine<F> r = Affine<F>::infinity();
	if (s == take_a) {
		r = Affine<F>::load(p.a);
		if (p.negative_a) r = -r;
	}
	if (s == take_b) {
		r = Affine<F>::load(p.b);
		if (p.negative_b) r = -r;
	}
	return r;
}

// True for every special pair, and for about one in 2^30 others: looked at before classify.
template <class F>
__device__ __forceinline__ bool suspect(const F& x1, const F& x2, const F& d) {
	return d.may_be_zero() || x1.may_be_zero() || x2.may_be_zero();
}

// A row of elements of a block, thread by thread: quads of limbs of 128 threads, so that every access of a warp is 512 contiguous bytes.
template <class F>
__device__ __forceinline__ void put(uint4* row, int stride, const F& f) {
	const uint32_t* v = reinterpret_cast<const uint32_t*>(&f);
#pragma unroll
	for (int q = 0; q < (int)sizeof(F) / 16; q++) row[q * stride] = make_uint4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
}
template <class F>
__device__ __forceinline__ F get(const uint4* row, int stride) {
	F f;
	uint32_t* v = reinterpret_cast<uint32_t*>(&f);
#pragma unroll
	for (int q = 0; q < (int)sizeof(F) / 16; q++) {
		uint4 u = row[q * stride];
		v[4 * q] = u.x;
		v[4 * q + 1] = u.y;
		v[4 * q + 2] = u.z;
		v[4 * q + 3] = u.w;
	}
	return f;
}

// A stage of a warp: the coordinates of 64 points (32 first operands, then 32 second ones), 48-byte components in areas of their own: lanes then read 16 bytes at a
// stride of 48, which has no bank conflicts.
constexpr int area_quads = 64 * 3;
constexpr int forward_stages = 4, backward_stages = 2;

template <class F>
struct Stage {
	static constexpr int quads = sizeof(F) / 16;  // of one coordinate
	static constexpr int forward = area_quads * quads / 3;
	static constexpr int backward = 2 * forward;
	static constexpr int warp = forward_stages * forward;  // quads of a warp's region
	static_assert(backward_stages * backward == warp, "both passes fill the region");
	static constexpr size_t block_bytes = (size_t)warp * 16 * round_threads / 32;

	// Coordinate c (0: x, 1: y) of point p.
	__device__ __forceinline__ static F read(const uint4* stage, int c, int p) {
		F f;
		uint32_t* v = reinterpret_cast<uint32_t*>(&f);
#pragma unroll
		for (int q = 0; q < quads; q++) {
			uint4 u = stage[(c * quads / 3 + q / 3) * area_quads + p * 3 + q % 3];
			v[4 * q] = u.x;
			v[4 * q + 1] = u.y;
			v[4 * q + 2] = u.z;
			v[4 * q + 3] = u.w;
		}
		return f;
	}
	__device__ __forceinline__ static void write(uint4* stage, int c, int p, const F& f) {
		const uint32_t* v = reinterpret_cast<const uint32_t*>(&f);
#pragma unroll
		for (int q = 0; q < quads; q++)
			stage[(c * quads / 3 + q / 3) * area_quads + p * 3 + q % 3] = make_uint4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]);
	}
};

__device__ __forceinline__ void copy_async(uint4* shared, const uint4* global) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void copies_wait() {
	asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// References as the copies take them: index, bit 30: of a result and not of a point, bit 31: negative.
constexpr uint32_t of_result = 0x40000000u, index_bits = 0x3fffffffu;

struct Refs {
	uint32_t a, b, out;
};

template <class F, bool First>
__device__ __forceinline__ Refs refs_of(const RoundArgs<F>& args, uint32_t entry) {
	uint32_t j = entry & 0x7fffffffu;
	if constexpr (First) {
		return {args.values[j], args.values[j + 1], j >> 1};
	} else {
		Refs r = {j >> 1 | of_result, (j + args.distance) >> 1 | of_result, j >> 1};
		if (entry >> 31) r.b = args.values[j + args.distance];
		return r;
	}
}

// Copies the first Quads quads of the 64 points of a warp's pairs: consecutive lanes take consecutive quads of a point.
template <int Quads, class F>
__device__ __forceinline__ void gather(uint4* stage, const RoundArgs<F>& args, uint32_t a, uint32_t b) {
	uint32_t lane = threadIdx.x % 32;
#pragma unroll
	for (int m = 0; m < 3; m++) {  // 96 quads are whole points for every Quads
		uint32_t q = 32 * m + lane, p0 = q / Quads, part = q % Quads;
		uint4* to = stage + part / 3 * area_quads + part % 3;
#pragma unroll
		for (int g = 0; g < Quads / 3; g++) {
			uint32_t p = p0 + g * (96 / Quads);
#pragma unroll
			for (int side = 0; side < 2; side++) {
				uint32_t ref = __shfl_sync(~0u, side ? b : a, p);
				const Affine<F>* base = ref & of_result ? args.results : args.points;
				copy_async(to + (p + 32 * side) * 3, reinterpret_cast<const uint4*>(base + (ref & index_bits)) + part);
			}
		}
	}
}

// Stores the sums that lie in the places of the first operands to their slots; a lane without a sum has out = ~0.
template <int Quads, class F>
__device__ __forceinline__ void scatter(const uint4* stage, const RoundArgs<F>& args, uint32_t out) {
	uint32_t lane = threadIdx.x % 32;
#pragma unroll
	for (int m = 0; m < 3; m++) {
		uint32_t q = 32 * m + lane, p0 = q / Quads, part = q % Quads;
		const uint4* from = stage + part / 3 * area_quads + part % 3;
#pragma unroll
		for (int g = 0; g < Quads / 3; g++) {
			uint32_t p = p0 + g * (96 / Quads);
			uint32_t slot = __shfl_sync(~0u, out, p);
			if (slot != ~0u) reinterpret_cast<uint4*>(args.results + slot)[part] = from[p * 3];
		}
	}
}

// The inverses of all 128 factors of a block with 32 inversions in one warp: the four threads of equal lane share one. Each warp's factors go through its own region,
// in which no copy may be under way.
template <class F>
__device__ __forceinline__ F invert_block(const F& mine, uint4* block, int warp_in_charge) {
	constexpr int region = Stage<F>::warp;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	uint4* at = block + lane;
	put(at + warp * region, 32, mine);
	__syncthreads();
	if (warp == warp_in_charge) {
		F p1 = get<F>(at, 32), p2 = p1 * get<F>(at + region, 32), p3 = p2 * get<F>(at + 2 * region, 32);
		F inv = (p3 * get<F>(at + 3 * region, 32)).inverse();
		F f = get<F>(at + 3 * region, 32);
		put(at + 3 * region, 32, inv * p3);
		inv = inv * f;
		f = get<F>(at + 2 * region, 32);
		put(at + 2 * region, 32, inv * p2);
		inv = inv * f;
		f = get<F>(at + region, 32);
		put(at + region, 32, inv * p1);
		put(at, 32, inv * f);
	}
	__syncthreads();
	return get<F>(at + warp * region, 32);
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
	using S = Stage<F>;
	extern __shared__ uint4 block_shared[];
	uint32_t pairs = *args.count;
	if (pairs == 0) return;
	// Shares of equal size, so that all blocks end together.
	uint32_t rows = (pairs + round_threads - 1) / round_threads;
	uint32_t turns = (rows + gridDim.x * args.steps - 1) / (gridDim.x * args.steps);
	uint32_t steps = (rows + gridDim.x * turns - 1) / (gridDim.x * turns);
	const int lane = threadIdx.x % 32;
	uint4* region = block_shared + threadIdx.x / 32 * S::warp;
	uint4* prefixes = args.prefixes + (size_t)blockIdx.x * args.steps * S::quads * round_threads + threadIdx.x;

	for (uint32_t turn = 0; turn < turns; turn++) {
		uint32_t row = (turn * gridDim.x + blockIdx.x) * steps;
		if (row >= rows) break;
		const int n = rows - row < steps ? (int)(rows - row) : (int)steps;
		const uint32_t at = row * round_threads + threadIdx.x;
		// Lanes beyond the last pair go through the last one with the others and leave no trace.
		auto entry_at = [&](int i) {
			uint32_t k = at + (uint32_t)i * round_threads;
			return args.list[k < pairs ? k : pairs - 1];
		};

		// Forward: the product of the differences. Copies run forward_stages steps ahead, references one step before them, entries another.
		{
			uint32_t entries[forward_stages];
			Refs refs[forward_stages];
#pragma unroll
			for (int i = 0; i < forward_stages; i++) entries[i] = entry_at(i < n ? i : n - 1);
#pragma unroll
			for (int i = 0; i < forward_stages; i++) refs[i] = refs_of<F, First>(args, entries[i]);
#pragma unroll
			for (int i = 0; i < forward_stages; i++) {
				if (i < n) gather<S::quads>(region + i * S::forward, args, refs[i].a, refs[i].b);
				copies_commit();
			}
		}
		Refs next = refs_of<F, First>(args, entry_at(forward_stages < n ? forward_stages : n - 1));
		uint32_t entry = entry_at(forward_stages + 1 < n ? forward_stages + 1 : n - 1);
		In acc = In::one();
#pragma unroll 1
		for (int i = 0; i < n; i++) {
			uint4* stage = region + i % forward_stages * S::forward;
			copies_wait<forward_stages - 1>();
			__syncwarp();
			In d;
			bool active = at + (uint32_t)i * round_threads < pairs;
			{
				F x1 = S::read(stage, 0, lane), x2 = S::read(stage, 0, 32 + lane), diff = x2 - x1;
				if (suspect(x1, x2, diff) && active) {
					Pair<F> p = find_pair<F, First>(args, entry_at(i));
					Special s = classify<F>(p);
					if (s != ordinary) diff = special_factor<F>(s, p);
				}
				d = as<In>(diff);
			}
			__syncwarp();
			if (i + forward_stages < n) gather<S::quads>(stage, args, next.a, next.b);
			copies_commit();
			next = refs_of<F, First>(args, entry);
			entry = entry_at(i + forward_stages + 2 < n ? i + forward_stages + 2 : n - 1);
			if (active) acc = i ? acc * d : d;
			put(prefixes + (size_t)i * S::quads * round_threads, round_threads, acc);
		}
		copies_wait<0>();
		__syncwarp();
		F inv = invert_block<F>(as<F>(acc), block_shared, turn % 4);
		__syncwarp();

		// Backward, from the last step to the first, with two stages of whole points.
		auto back = [&](int t) { return n - 1 - (t < n ? t : n - 1); };
		auto meta_of = [](const Refs& r) { return r.out | (First ? r.a & sign_bit : 0) | (r.b & sign_bit) >> 1; };
		uint32_t meta, meta_next;
		{
			uint32_t e0 = entry_at(back(0)), e1 = entry_at(back(1));
			Refs r0 = refs_of<F, First>(args, e0), r1 = refs_of<F, First>(args, e1);
			gather<2 * S::quads>(region, args, r0.a, r0.b);
			copies_commit();
			if (n > 1) gather<2 * S::quads>(region + S::backward, args, r1.a, r1.b);
			copies_commit();
			meta = meta_of(r0);
			meta_next = meta_of(r1);
		}
		next = refs_of<F, First>(args, entry_at(back(2)));
		entry = entry_at(back(3));
#pragma unroll 1
		for (int t = 0; t < n; t++) {
			const int i = n - 1 - t;
			uint4* stage = region + t % backward_stages * S::backward;
			F before;
			if (i > 0) before = get<F>(prefixes + (size_t)(i - 1) * S::quads * round_threads, round_threads);
			copies_wait<backward_stages - 1>();
			__syncwarp();
			bool active = at + (uint32_t)i * round_threads < pairs;
			Special s = ordinary;
			F slope_inv = inv;
			{
				F x1 = S::read(stage, 0, lane), x2 = S::read(stage, 0, 32 + lane), d = x2 - x1;
				if (suspect(x1, x2, d) && active) {
					Pair<F> p = find_pair<F, First>(args, entry_at(i));
					s = classify<F>(p);
					if (s != ordinary) d = special_factor<F>(s, p);
				}
				if (i > 0) {
					slope_inv = inv * before;
					if (active) inv = inv * d;
				}
			}
			F num;
			{
				F y1 = S::read(stage, 1, lane), y2 = S::read(stage, 1, 32 + lane);
				if (First && meta >> 31) y1 = -y1;
				if (meta >> 30 & 1) y2 = -y2;
				num = y2 - y1;
			}
			if (s == doubling) num = tangent<F>(&find_pair<F, First>(args, entry_at(i)).a->x);
			In slope = as<In>(num) * as<In>(slope_inv);
			F x3 = as<F>(slope.sqr()), y3;
			{
				F x1 = S::read(stage, 0, lane);
				x3 = x3 - x1 - S::read(stage, 0, 32 + lane);
				y3 = as<F>(slope) * (x1 - x3);
			}
			{
				F y1 = S::read(stage, 1, lane);
				if (First && meta >> 31) y1 = -y1;
				y3 = y3 - y1;
			}
			if (s != ordinary && s != doubling) {
				Affine<F> r = special_sum<F>(s, find_pair<F, First>(args, entry_at(i)));
				x3 = r.x;
				y3 = r.y;
			}
			S::write(stage, 0, lane, x3);
			S::write(stage, 1, lane, y3);
			__syncwarp();
			scatter<2 * S::quads>(stage, args, active ? meta & index_bits : ~0u);
			__syncwarp();
			if (t + backward_stages < n) gather<2 * S::quads>(stage, args, next.a, next.b);
			copies_commit();
			meta = meta_next;
			meta_next = meta_of(next);
			next = refs_of<F, First>(args, entry);
			entry = entry_at(back(t + backward_stages + 2));
		}
		copies_wait<0>();
		__syncthreads();  // the regions are used again
	}
}

}  // namespace msm
}  // namespace weir
