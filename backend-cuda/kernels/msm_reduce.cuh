// From bucket sums to the result: sum over b of (b + 1) S_b for each window, then the windows together.
//
// With b = hi 2^k + lo: 2^k sum_hi hi R_hi + sum_lo (lo + 1) C_lo, where R and C are sums of rows and columns of the buckets. Rows and columns are 2 additions a bucket,
// spread over all SMs; what is left, some 1,500 weighted points a window, takes about 25 point operations of latency.
// 13 windows of 2^19 buckets: 13.6 M mixed additions of 10 products, 136 M / 27.8 G/s = 4.9 ms.
#pragma once

#include "curve.cuh"
#include "msm_digits.cuh"
#include "msm_tail.cuh"

namespace weir {
namespace msm {

template <class F>
struct BucketSums {
	const uint32_t* start;
	const uint32_t* end;
	const uint32_t* values;
	const Affine<F>* points;
	const Affine<F>* results;

	__device__ __forceinline__ Affine<F> load(uint32_t b) const {
		uint32_t s = start[b], m = end[b] - s;
		if (m == 0) return Affine<F>::infinity();
		if (m > 1) return Affine<F>::load(results + (s >> 1));
		uint32_t ref = values[s];
		Affine<F> p = Affine<F>::load(points + (ref & ~sign_bit));
		return ref & sign_bit ? -p : p;
	}
};

// The shape of one window's buckets.
struct Lines {
	int row_bits, column_bits;  // 2^row_bits rows of 2^column_bits buckets
	__host__ __device__ uint32_t rows() const { return 1u << row_bits; }
	__host__ __device__ uint32_t columns() const { return 1u << column_bits; }
	__host__ __device__ uint32_t count() const { return rows() + columns(); }
	// Partial sums of a window: one for 32 lines.
	__host__ __device__ uint32_t row_partials() const { return (rows() + 31) / 32; }
	__host__ __device__ uint32_t column_partials() const { return (columns() + 31) / 32; }
	__host__ __device__ uint32_t partials() const { return row_partials() + column_partials(); }
};

inline Lines lines_of(int window_bits) {
	int bits = window_bits - 1;
	return {bits - bits / 2, bits / 2};
}

constexpr int line_threads = 128;

// Lanes that share a line: a tree over 2^k lanes costs each of them k full additions, so lines of 16 buckets a lane or more are shared by more lanes only where there
// are too few lines to fill the card.
inline int line_lanes(Lines lines, uint32_t windows, int sms) {
	int lanes = 2;
	uint64_t want = (uint64_t)sms * 4 * 2 * 32;
	while (lanes < 32 && (uint64_t)windows * lines.count() * lanes < want) lanes *= 2;
	return lanes;
}

// A group of lanes sums one row (lines 0 to rows - 1) or column (after them) of one window.
template <class F>
__global__ void __launch_bounds__(line_threads) line_kernel(BucketSums<F> buckets, Lines lines, uint32_t windows, int lanes, Xyzz<F>* sums) {
	uint32_t thread = blockIdx.x * line_threads + threadIdx.x, group = thread / lanes, lane = thread % lanes;
	bool some = group < windows * lines.count();
	uint32_t window = group / lines.count(), line = group % lines.count();
	uint32_t first = window << (lines.row_bits + lines.column_bits), stride, length;
	if (line < lines.rows()) {
		first += line << lines.column_bits;
		stride = 1;
		length = lines.columns();
	} else {
		first += line - lines.rows();
		stride = lines.columns();
		length = lines.rows();
	}
	Xyzz<F> sum = Xyzz<F>::infinity();
	if (some) {
#pragma unroll 1
		for (uint32_t i = lane; i < length; i += lanes) sum = sum + buckets.load(first + i * stride);
	}
	__syncwarp();
	sum = group_sum(sum, lanes);
	if (some && lane == 0) sum.store(sums + group);
}

// A warp multiplies 32 lines by their weights (hi for rows, lo + 1 for columns) and sums them.
template <class F>
__global__ void __launch_bounds__(line_threads) weight_kernel(const Xyzz<F>* sums, Lines lines, uint32_t windows, Xyzz<F>* partials) {
	uint32_t warp = blockIdx.x * (line_threads / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (warp >= windows * lines.partials()) return;
	uint32_t window = warp / lines.partials(), part = warp % lines.partials();
	const Xyzz<F>* of_window = sums + (size_t)window * lines.count();
	Xyzz<F> sum = Xyzz<F>::infinity();
	bool row = part < lines.row_partials();
	uint32_t i = (row ? part : part - lines.row_partials()) * 32 + lane;
	if (i < (row ? lines.rows() : lines.columns())) {
		Xyzz<F> s = Xyzz<F>::load(of_window + (row ? i : lines.rows() + i));
		uint32_t weight = row ? i : i + 1;
#pragma unroll 1
		for (int b = 31 - __clz(weight); b >= 0; b--) {
			sum = sum.dbl();
			if (weight >> b & 1) sum = sum + s;
		}
	}
	__syncwarp();
	sum = group_sum(sum, 32);
	if (lane == 0) sum.store(partials + warp);
}

// Doubling by four lanes that all hold p: the nine products have a depth of three.
template <class F>
__device__ __forceinline__ Xyzz<F> warp_double(const Xyzz<F>& p, uint32_t lane) {
	F u = p.y.dbl();
	F r = (lane == 0 ? u : p.x).sqr();
	F v = from_lane(r, 0), m = from_lane(r, 1);
	m = m.dbl() + m;
	r = (lane == 0 ? u : lane == 1 ? p.x : lane == 2 ? m : p.zz) * (lane == 2 ? m : v);
	F w = from_lane(r, 0), s = from_lane(r, 1), x3 = from_lane(r, 2) - s.dbl();
	F zz = from_lane(r, 3);
	r = (lane == 1 ? m : w) * (lane == 0 ? p.y : lane == 1 ? s - x3 : p.zzz);
	return {x3, from_lane(r, 1) - from_lane(r, 0), zz, from_lane(r, 2)};
}

// A warp a window: partial sums to the window's sum.
template <class F>
__global__ void __launch_bounds__(32) window_kernel(const Xyzz<F>* partials, Lines lines, Xyzz<F>* windows) {
	uint32_t lane = threadIdx.x;
	const Xyzz<F>* part = partials + (size_t)blockIdx.x * lines.partials();
	Xyzz<F> total = Xyzz<F>::infinity();
#pragma unroll 1
	for (int side = 0; side < 2; side++) {  // rows, then columns
		uint32_t from = side ? lines.row_partials() : 0, to = side ? lines.partials() : lines.row_partials();
		Xyzz<F> sum = Xyzz<F>::infinity();
#pragma unroll 1
		for (uint32_t i = from + lane; i < to; i += 32) sum = sum + Xyzz<F>::load(part + i);
		int width = 1;
		while (width < 32 && width < (int)(to - from)) width *= 2;
		sum = from_lane(group_sum(sum, width), 0);
		if (side == 0) {
#pragma unroll 1
			for (int i = 0; i < lines.column_bits; i++) sum = warp_double(sum, lane);
		}
		total = total + sum;
	}
	if (lane == 0) total.store_canonical(windows + blockIdx.x);
}

// The windows together, by Horner's rule: about 254 doublings and one inversion, all latency. One warp.
template <class F>
__global__ void __launch_bounds__(32) horner_kernel(const Xyzz<F>* windows, int count, int window_bits, Affine<F>* result) {
	Xyzz<F> sum = Xyzz<F>::infinity();
#pragma unroll 1
	for (int w = count - 1; w >= 0; w--) {
		if (w < count - 1) {
#pragma unroll 1
			for (int i = 0; i < window_bits; i++) sum = warp_double(sum, threadIdx.x);
		}
		sum = sum + Xyzz<F>::load(windows + w);
	}
	Affine<F> a = sum.affine();
	if (threadIdx.x == 0) a.store_canonical(result);
}

template <class F>
__global__ void infinity_kernel(Affine<F>* result) {
	Affine<F>::infinity().store(result);
}

}  // namespace msm
}  // namespace weir
