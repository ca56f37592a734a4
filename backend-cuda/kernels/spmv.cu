#include "spmv.h"

#include <atomic>

#include "launch.cuh"
#include "witness.h"

namespace weir {

namespace {

std::atomic<uint64_t> launches_spmv{0};

constexpr unsigned all_lanes = 0xffffffffu;
constexpr int row_threads = 128;
constexpr uint32_t short_row = 48;      // terms
constexpr uint32_t segment = 4096;      // terms of a very long row that one warp sums up
constexpr int32_t not_small = INT32_MIN;
constexpr int32_t max_small = 1 << 30;  // so that 2^32 of them stay in 63 bits
constexpr int table_half = 128;         // sums of small coefficients that are looked up

// Lists of rows that are too long for a thread.
struct Lists {
	uint32_t* counts;  // medium rows, segments, huge rows
	uint32_t* medium;  // row of the run
	uint2* segments;   // row of the run, number of the segment; its sum goes to partial
	uint3* huge;       // row of the run, first of its segments, their number
	Fr* partial;
};

struct Work {
	SpmvCall c;
	int32_t* small;  // of each coefficient, as an integer, or not_small
	Fr* table;       // -table_half to table_half
	Lists lists;
	uint32_t mask;   // N - 1
};

__global__ void prepare_kernel(const __grid_constant__ Work w) {
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < 3) w.lists.counts[i] = 0;
	if (i <= 2 * table_half) {
		int v = (int)i - table_half;
		Fr x = Fr::from_u32(v < 0 ? -v : v);
		(v < 0 ? -x : x).store(w.table + i);
	}
	if (i < w.c.nb_coeffs) {
		Fr x = Fr::load(w.c.coeffs + i);
		int32_t s = not_small;
#pragma unroll
		for (int sign = 1; sign >= -1; sign -= 2) {
			Fr p = x.from_mont();
			uint32_t high = 0;
#pragma unroll
			for (int k = 1; k < 8; k++) high |= p.v[k];
			if (high == 0 && p.v[0] <= (uint32_t)max_small) s = sign * (int32_t)p.v[0];
			x = -x;
		}
		w.small[i] = s;
	}
}

__device__ __forceinline__ uint32_t place(const Work& w, uint64_t row) {
	return w.c.order == RowOrder::five ? (uint32_t)(row * rows_five_factor) & w.mask : (uint32_t)row;
}

// A sum in two parts: integers, and everything else.
struct Sum {
	int64_t n = 0;
	Fr rest = Fr::zero();
};

template <class Coeff>
__device__ __forceinline__ void add_term(const Work& w, Sum& sum, uint32_t wire, Coeff coeff) {
	const uint64_t word = __ldg(reinterpret_cast<const unsigned long long*>(w.c.codes) + wire / 32);
	const uint32_t bit = wire % 32;
	const uint32_t low = (uint32_t)word >> bit & 1, high = (uint32_t)(word >> 32) >> bit & 1;
	if ((low | high) == 0) return;
	const int32_t small = __ldg(w.small + coeff);
	if (low) {
		if (small != not_small) {
			sum.n += high ? -(int64_t)small : small;
		} else {
			Fr c = Fr::load(w.c.coeffs + coeff);
			sum.rest = high ? sum.rest - c : sum.rest + c;
		}
		return;
	}
	Fr x = Fr::load(w.c.scalars + wire);
	if (small == -1) {
		sum.rest = sum.rest - x;
		return;
	}
	if (small != 1) x = x * Fr::load(w.c.coeffs + coeff);
	sum.rest = sum.rest + x;
}

__device__ __forceinline__ Fr total(const Work& w, const Sum& sum) {
	if (sum.n == 0) return sum.rest;
	if (sum.n >= -table_half && sum.n <= table_half) return sum.rest + Fr::load(w.table + (sum.n + table_half));
	uint64_t m = sum.n < 0 ? -(uint64_t)sum.n : (uint64_t)sum.n;
	Fr x = Fr::zero();
	x.v[0] = (uint32_t)m;
	x.v[1] = (uint32_t)(m >> 32);
	x = x.to_mont();
	return sum.n < 0 ? sum.rest - x : sum.rest + x;
}

template <class Start, class Coeff>
__global__ void __launch_bounds__(row_threads) rows_kernel(const __grid_constant__ Work w) {
	const uint64_t i = (uint64_t)blockIdx.x * row_threads + threadIdx.x;
	const uint64_t rows = w.c.matrix.rows;
	if (i >= rows) {
		if (i - rows < w.c.extra) Fr::load(w.c.scalars + (i - rows)).store(w.c.out + place(w, w.c.first_row + i));
		return;
	}
	const Start* start = static_cast<const Start*>(w.c.matrix.start);
	const Coeff* coeff = static_cast<const Coeff*>(w.c.matrix.coeff);
	const uint64_t base = start[0], lo = start[i] - base, hi = start[i + 1] - base;
	if (hi - lo > short_row) {
		const Lists& l = w.lists;
		if (hi - lo <= segment) {
			l.medium[atomicAdd(l.counts, 1u)] = (uint32_t)i;
			return;
		}
		uint32_t n = (uint32_t)((hi - lo + segment - 1) / segment), first = atomicAdd(l.counts + 1, n);
		for (uint32_t k = 0; k < n; k++) l.segments[first + k] = make_uint2((uint32_t)i, k);
		l.huge[atomicAdd(l.counts + 2, 1u)] = make_uint3((uint32_t)i, first, n);
		return;
	}
	Sum sum;
#pragma unroll 1
	for (uint64_t k = lo; k < hi; k++) add_term(w, sum, w.c.matrix.wire[k], coeff[k]);
	total(w, sum).store(w.c.out + place(w, w.c.first_row + i));
}

__device__ __forceinline__ Fr warp_sum(Fr x) {
#pragma unroll 1
	for (int step = 16; step > 0; step /= 2) {
		Fr y;
#pragma unroll
		for (int i = 0; i < 8; i++) y.v[i] = __shfl_xor_sync(all_lanes, x.v[i], step);
		x = x + y;
	}
	return x;
}

template <class Start, class Coeff>
__device__ __forceinline__ Fr warp_terms(const Work& w, uint64_t lo, uint64_t hi) {
	const Coeff* coeff = static_cast<const Coeff*>(w.c.matrix.coeff);
	Sum sum;
#pragma unroll 1
	for (uint64_t k = lo + threadIdx.x % 32; k < hi; k += 32) add_term(w, sum, w.c.matrix.wire[k], coeff[k]);
	__syncwarp();
	return warp_sum(total(w, sum));
}

// Warps take medium rows and segments in turn.
template <class Start, class Coeff>
__global__ void __launch_bounds__(row_threads) long_kernel(const __grid_constant__ Work w) {
	const Start* start = static_cast<const Start*>(w.c.matrix.start);
	const uint64_t base = start[0];
	const uint32_t medium = w.lists.counts[0], segments = w.lists.counts[1];
	const uint32_t warps = gridDim.x * (row_threads / 32);
	for (uint64_t t = (blockIdx.x * row_threads + threadIdx.x) / 32; t < (uint64_t)medium + segments; t += warps) {
		if (t < medium) {
			const uint32_t i = w.lists.medium[t];
			Fr x = warp_terms<Start, Coeff>(w, start[i] - base, start[i + 1] - base);
			if (threadIdx.x % 32 == 0) x.store(w.c.out + place(w, w.c.first_row + i));
		} else {
			const uint2 s = w.lists.segments[t - medium];
			const uint64_t lo = start[s.x] - base + (uint64_t)s.y * segment, end = start[s.x + 1] - base;
			Fr x = warp_terms<Start, Coeff>(w, lo, lo + segment < end ? lo + segment : end);
			if (threadIdx.x % 32 == 0) x.store(w.lists.partial + (t - medium));
		}
	}
}

__global__ void __launch_bounds__(row_threads) huge_kernel(const __grid_constant__ Work w) {
	const uint32_t huge = w.lists.counts[2], warps = gridDim.x * (row_threads / 32);
	for (uint32_t t = (blockIdx.x * row_threads + threadIdx.x) / 32; t < huge; t += warps) {
		const uint3 h = w.lists.huge[t];
		Fr x = Fr::zero();
		for (uint32_t k = threadIdx.x % 32; k < h.z; k += 32) x = x + Fr::load(w.lists.partial + h.y + k);
		__syncwarp();
		x = warp_sum(x);
		if (threadIdx.x % 32 == 0) x.store(w.c.out + place(w, w.c.first_row + h.x));
	}
}

size_t up256(size_t n) { return (n + 255) & ~size_t(255); }

// The parts of the workspace; from a null base their total size.
size_t lay_out(Work* w, char* base, uint64_t rows, uint64_t terms, uint32_t nb_coeffs) {
	size_t at = 0;
	auto take = [&](size_t bytes) {
		char* p = base + at;
		at += up256(bytes);
		return p;
	};
	uint64_t medium = terms / (short_row + 1) + 1, huge = terms / (segment + 1) + 1;
	if (medium > rows + 1) medium = rows + 1;
	if (huge > rows + 1) huge = rows + 1;
	w->small = reinterpret_cast<int32_t*>(take(4 * (size_t)nb_coeffs));
	w->table = reinterpret_cast<Fr*>(take(sizeof(Fr) * (2 * table_half + 1)));
	w->lists.counts = reinterpret_cast<uint32_t*>(take(12));
	w->lists.medium = reinterpret_cast<uint32_t*>(take(4 * medium));
	w->lists.segments = reinterpret_cast<uint2*>(take(8 * (terms / segment + huge)));
	w->lists.huge = reinterpret_cast<uint3*>(take(12 * huge));
	w->lists.partial = reinterpret_cast<Fr*>(take(sizeof(Fr) * (terms / segment + huge)));
	return at;
}

template <class Start, class Coeff>
cudaError_t launch(const Work& w, cudaStream_t stream) {
	uint64_t n = w.c.matrix.rows + w.c.extra;
	if (n == 0) return cudaSuccess;
	rows_kernel<Start, Coeff><<<(unsigned)((n + row_threads - 1) / row_threads), row_threads, 0, stream>>>(w);
	WEIR_TRY(launched(stream));
	if (w.c.matrix.terms <= short_row) return cudaSuccess;  // no row is long
	uint64_t most = w.c.matrix.terms / short_row + 1, blocks = (most + row_threads / 32 - 1) / (row_threads / 32);
	if (blocks > 1024) blocks = 1024;
	long_kernel<Start, Coeff><<<(unsigned)blocks, row_threads, 0, stream>>>(w);
	WEIR_TRY(launched(stream));
	if (w.c.matrix.terms <= segment) return cudaSuccess;
	huge_kernel<<<(unsigned)(blocks < 64 ? blocks : 64), row_threads, 0, stream>>>(w);
	return launched(stream);
}

}  // namespace

size_t spmv_workspace(uint64_t rows, uint64_t terms, uint32_t nb_coeffs) {
	Work w;
	return lay_out(&w, nullptr, rows, terms, nb_coeffs);
}

cudaError_t spmv(const SpmvCall& c, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
	const SparseRows& m = c.matrix;
	if (c.log_n < 0 || c.log_n > 28 || c.out == nullptr || workspace == nullptr || c.first_row > 1ull << 28 || m.rows > 1ull << 28 || c.extra > 1ull << 28 ||
	    c.first_row + m.rows + c.extra > 1ull << c.log_n)
		return cudaErrorInvalidValue;
	if ((m.rows > 0 && m.start == nullptr) || (m.start_bytes != 4 && m.start_bytes != 8) || (m.coeff_bytes != 2 && m.coeff_bytes != 4)) return cudaErrorInvalidValue;
	if (m.terms > 0 && (m.wire == nullptr || m.coeff == nullptr || c.coeffs == nullptr || c.nb_coeffs == 0 || c.scalars == nullptr || c.codes == nullptr))
		return cudaErrorInvalidValue;
	if ((c.extra > 0 && c.scalars == nullptr) || workspace_bytes < spmv_workspace(m.rows, m.terms, c.nb_coeffs)) return cudaErrorInvalidValue;
	Work w;
	w.c = c;
	w.mask = (uint32_t)((1ull << c.log_n) - 1);
	lay_out(&w, static_cast<char*>(workspace), m.rows, m.terms, c.nb_coeffs);
	uint32_t prepare = c.nb_coeffs > 2 * table_half + 1 ? c.nb_coeffs : 2 * table_half + 1;
	prepare_kernel<<<(prepare + 127) / 128, 128, 0, stream>>>(w);
	WEIR_TRY(launched(stream));
	cudaError_t err;
	if (m.start_bytes == 8) {
		err = m.coeff_bytes == 2 ? launch<uint64_t, uint16_t>(w, stream) : launch<uint64_t, uint32_t>(w, stream);
	} else {
		err = m.coeff_bytes == 2 ? launch<uint32_t, uint16_t>(w, stream) : launch<uint32_t, uint32_t>(w, stream);
	}
	if (err != cudaSuccess) return err;
	launches_spmv.fetch_add(1, std::memory_order_relaxed);
	return cudaSuccess;
}

uint64_t spmv_launches() { return launches_spmv.load(std::memory_order_relaxed); }

}  // namespace weir
