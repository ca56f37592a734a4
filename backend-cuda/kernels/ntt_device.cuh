// Kernels of the transforms: see ntt.h for the method.
#pragma once

#include <cuda_runtime.h>

#include "fr.cuh"
#include "ntt_passes.h"

namespace weir {
namespace ntt_detail {

__device__ __forceinline__ uint32_t reversed(uint32_t x, int bits) { return bits == 0 ? 0 : __brev(x) >> (32 - bits); }

// T[mirror(b)] = -1/T[b], b > 0.
__device__ __forceinline__ uint32_t mirror(uint32_t b) { return (3u << (31 - __clz(b))) - 1 - b; }

__device__ __forceinline__ Fr load_constant(const Fr* p) {
	Fr r;
	const uint4* q = reinterpret_cast<const uint4*>(p);
	uint4 a = __ldg(q), b = __ldg(q + 1);
	r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
	r.v[4] = b.x, r.v[5] = b.y, r.v[6] = b.z, r.v[7] = b.w;
	return r;
}

#if defined(WEIR_NTT_SHORT_PRODUCT)
// The product of Fr with rows that use r = 1 - 2^32 mod 2^64: clearing the low limb e by m = -e costs additions where the general row has two wide multiplications.
//   e + m r[0] = z 2^32 with z = (e != 0);  m r[1] 2^32 = (e + (m - z) 2^32) 2^32 up to what e 2^32 carries
__device__ __forceinline__ void reduce_row(uint32_t* e, uint32_t* o) {
	using namespace limb;
	uint32_t m, mz, low;
	sub_cc(m, 0, e[0]);
	subc(mz, m, 0);
	add_cc(o[0], o[0], e[0]);
	addc_cc(o[1], o[1], mz);
#pragma unroll
	for (int j = 2; j < 8; j += 2) cmad_cc(o[j], o[j + 1], FrParams::modulus(j + 1), m, o[j], o[j + 1]);
	add_cc(low, e[0], m);
	addc_cc(e[1], e[1], 0);
#pragma unroll
	for (int j = 2; j < 8; j += 2) cmad_cc(e[j], e[j + 1], FrParams::modulus(j), m, e[j], e[j + 1]);
	addc(o[7], o[7], 0);
}

__device__ __forceinline__ Fr product(const Fr& x, const Fr& y) {
	using namespace limb;
	constexpr int N = 8;
	const uint32_t *a = x.v, *b = y.v;
	uint32_t even[N], odd[N];
	row_mul<N>(even, a, b[0]);
	row_mul<N>(odd, a + 1, b[0]);
	reduce_row(even, odd);
#pragma unroll
	for (int i = 1; i < N; i++) {
		uint32_t* e = i % 2 ? odd : even;
		uint32_t* o = i % 2 ? even : odd;
		add_cc(e[0], e[0], o[1]);
#pragma unroll
		for (int j = 0; j < N - 2; j += 2) cmad_cc(o[j], o[j + 1], a[j + 1], b[i], o[j + 2], o[j + 3]);
		cmad(o[N - 2], o[N - 1], a[N - 1], b[i], 0, 0);
		row_mad_cc<N>(e, a, b[i]);
		addc(o[N - 1], o[N - 1], 0);
		reduce_row(e, o);
	}
	Fr r;
	add_cc(r.v[0], even[0], odd[1]);
#pragma unroll
	for (int j = 1; j < N - 1; j++) addc_cc(r.v[j], even[j], odd[j + 1]);
	addc(r.v[N - 1], even[N - 1], 0);
	r.reduce();
	return r;
}
#else
__device__ __forceinline__ Fr product(const Fr& x, const Fr& y) { return x * y; }
#endif

// T[b], or for Inverse -1/T[b] (b > 0).
template <bool Inverse, bool Composed>
__device__ __forceinline__ Fr factor(const Pass& g, uint32_t b) {
	if (Inverse) b = b == 0 ? 0 : mirror(b);
	if (!Composed || b >> g.log_low == 0) return load_constant(g.low + b);
	return load_constant(g.low + (b & ((1u << g.log_low) - 1))) * load_constant(g.high + (b >> g.log_low));
}

// The tile in shared memory: two planes of 16 bytes an element, turned so that 8 threads with any power of two between their elements meet no bank twice.
struct Tile {
	uint4* s;
	uint32_t size;
	__device__ __forceinline__ static uint32_t turned(uint32_t i) { return i ^ ((i >> 3) & 7); }
	__device__ __forceinline__ Fr get(uint32_t i) const {
		i = turned(i);
		uint4 a = s[i], b = s[i + size];
		Fr r;
		r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
		r.v[4] = b.x, r.v[5] = b.y, r.v[6] = b.z, r.v[7] = b.w;
		return r;
	}
	__device__ __forceinline__ void put(uint32_t i, const Fr& x) const {
		i = turned(i);
		s[i] = make_uint4(x.v[0], x.v[1], x.v[2], x.v[3]);
		s[i + size] = make_uint4(x.v[4], x.v[5], x.v[6], x.v[7]);
	}
};

template <bool Composed>
__device__ __forceinline__ Fr scaled(const Pass& g, const Scale& s, Fr x, uint32_t pos, int vector) {
	Fr f = s.k, f2 = s.k2;
	bool two = false;
	switch (s.kind) {
	case ScaleKind::odd_natural: pos = reversed(pos, g.log_n);
	case ScaleKind::odd: f = factor<false, Composed>(g, pos); break;
	case ScaleKind::odd_inverse_natural: pos = reversed(pos, g.log_n);
	case ScaleKind::odd_inverse:
		two = true;
		f = factor<true, Composed>(g, pos);
		f2 = pos == 0 ? s.k : -s.k;
		break;
	case ScaleKind::powers_reversed: pos = reversed(pos, g.log_n);
	case ScaleKind::powers:
		two = true;
		f = load_constant(s.lo + (pos & ((1u << s.log_lo) - 1)));
		f2 = load_constant(s.hi + (pos >> s.log_lo));
		break;
	case ScaleKind::product: f = Fr::load(s.other[vector] + pos); break;
	default: break;
	}
	x = x * f;
	if (s.kind == ScaleKind::quotient) {
		x = Fr::load(s.lo + pos) * Fr::load(s.hi + pos) - x;
		two = s.two;
	}
	if (two) x = x * f2;
	return x;
}

template <bool Inverse>
__device__ __forceinline__ void butterfly(Fr& a, Fr& b) {
	Fr s = a + b, d = a - b;
	a = Inverse ? d : s;
	b = Inverse ? s : d;
}

// Multiply, then butterfly: one level of blocks from natural to bit-reversed order. Factors are -1/T for Inverse, so that butterfly swaps; block 0 has 1.
template <bool Inverse>
__device__ __forceinline__ void times(Fr& x, const Fr& t, bool one) {
	if (!one) {
		x = product(t, x);
	} else if (Inverse) {
		x = -x;
	}
}

// Three levels (or the last one or two) of 8 elements whose places differ in three bits; b is the number of the block that holds all 8.
template <bool Inverse, bool Composed>
__device__ __forceinline__ void scatter8(const Pass& g, Fr (&x)[8], uint32_t b, int active) {
	const bool one = b == 0;
	if (active == 3) {
		Fr t = factor<Inverse, Composed>(g, b);
		if (!one) {
#pragma unroll
			for (int i = 4; i < 8; i++) x[i] = product(t, x[i]);
		} else if (Inverse) {
#pragma unroll
			for (int i = 4; i < 8; i++) x[i] = -x[i];
		}
#pragma unroll
		for (int i = 0; i < 4; i++) butterfly<Inverse>(x[i], x[i + 4]);
	}
	if (active >= 2) {
		Fr t = factor<Inverse, Composed>(g, 2 * b);
		times<Inverse>(x[2], t, one);
		times<Inverse>(x[3], t, one);
		t = factor<Inverse, Composed>(g, 2 * b + 1);
		x[6] = product(t, x[6]);
		x[7] = product(t, x[7]);
#pragma unroll
		for (int i = 0; i < 2; i++) {
			butterfly<Inverse>(x[i], x[i + 2]);
			butterfly<Inverse>(x[i + 4], x[i + 6]);
		}
	}
	times<Inverse>(x[1], factor<Inverse, Composed>(g, 4 * b), one);
#pragma unroll
	for (int j = 1; j < 4; j++) x[2 * j + 1] = product(factor<Inverse, Composed>(g, 4 * b + j), x[2 * j + 1]);
#pragma unroll
	for (int i = 0; i < 8; i += 2) butterfly<Inverse>(x[i], x[i + 1]);
}

// (a, b) to (a + b, (a - b) t); for Inverse t is -1/T and the difference is taken the other way.
template <bool Inverse>
__device__ __forceinline__ void add_sub(Fr& a, Fr& b) {
	Fr d = Inverse ? b - a : a - b;
	a = a + b;
	b = d;
}

// scatter8 transposed: butterfly, then multiply, from the lowest level up.
template <bool Inverse, bool Composed>
__device__ __forceinline__ void gather8(const Pass& g, Fr (&x)[8], uint32_t b, int active) {
	const bool one = b == 0;
#pragma unroll
	for (int i = 0; i < 8; i += 2) add_sub<Inverse>(x[i], x[i + 1]);
	times<Inverse>(x[1], factor<Inverse, Composed>(g, 4 * b), one);
#pragma unroll
	for (int j = 1; j < 4; j++) x[2 * j + 1] = product(factor<Inverse, Composed>(g, 4 * b + j), x[2 * j + 1]);
	if (active >= 2) {
#pragma unroll
		for (int i = 0; i < 2; i++) {
			add_sub<Inverse>(x[i], x[i + 2]);
			add_sub<Inverse>(x[i + 4], x[i + 6]);
		}
		Fr t = factor<Inverse, Composed>(g, 2 * b);
		times<Inverse>(x[2], t, one);
		times<Inverse>(x[3], t, one);
		t = factor<Inverse, Composed>(g, 2 * b + 1);
		x[6] = product(t, x[6]);
		x[7] = product(t, x[7]);
	}
	if (active == 3) {
#pragma unroll
		for (int i = 0; i < 4; i++) add_sub<Inverse>(x[i], x[i + 4]);
		Fr t = factor<Inverse, Composed>(g, b);
		if (!one) {
#pragma unroll
			for (int i = 4; i < 8; i++) x[i] = product(t, x[i]);
		} else if (Inverse) {
#pragma unroll
			for (int i = 4; i < 8; i++) x[i] = -x[i];
		}
	}
}

// Where a tile's elements are. Element i of the tile is column i mod 2^log_cols of row i >> log_cols.
struct Places {
	uint32_t base, block;
	__device__ __forceinline__ explicit Places(const Pass& g, uint32_t tile) {
		if (g.at == Addressing::strided) {
			int log_stride = g.log_n - g.before - g.levels;
			block = tile >> (log_stride - g.log_cols);
			base = (block << (log_stride + g.levels)) + ((tile & ((1u << (log_stride - g.log_cols)) - 1)) << g.log_cols);
		} else if (g.at == Addressing::blocks) {
			block = tile << g.log_cols;
			base = block << g.levels;
		} else {
			block = tile;
			base = reversed(tile, g.before - g.log_cols) << g.log_cols;
		}
	}
	__device__ __forceinline__ uint32_t block_of(const Pass& g, uint32_t col) const {
		if (g.at == Addressing::strided) return block;
		if (g.at == Addressing::blocks) return block + col;
		return block + (reversed(col, g.log_cols) << (g.before - g.log_cols));
	}
	__device__ __forceinline__ uint32_t in(const Pass& g, uint32_t i) const {
		uint32_t row = i >> g.log_cols, col = i & ((1u << g.log_cols) - 1);
		if (g.at == Addressing::strided) return base + (row << (g.log_n - g.before - g.levels)) + col;
		return (block_of(g, col) << g.levels) + row;
	}
	__device__ __forceinline__ uint32_t out(const Pass& g, uint32_t i) const {
		if (g.at != Addressing::transposed) return in(g, i);
		uint32_t row = i >> g.log_cols, col = i & ((1u << g.log_cols) - 1);
		return (reversed(row, g.levels) << g.before) + base + col;
	}
};

constexpr int pass_threads = 256;

// One pass: 3 <= levels <= 10, blockDim.x = tile / 8, blockIdx.x the tile, blockIdx.y the vector.
template <bool Gather, bool Inverse, bool Composed>
__global__ void __launch_bounds__(pass_threads, 2) pass_kernel(const __grid_constant__ Pass g) {
	extern __shared__ uint4 shared_tile[];
	const uint32_t thread = threadIdx.x;
	const int vector = blockIdx.y;
	const Tile tile = {shared_tile, 8 * blockDim.x};
	const Places at(g, blockIdx.x);
	const int steps = (g.levels + 2) / 3;
	Fr x[8];
	// Steps are numbered from the top level down; the last one may have fewer levels than three and shares bits with the one before.
#pragma unroll 1
	for (int k = 0; k < steps; k++) {
		const int step = Gather ? steps - 1 - k : k;
		const int left = g.levels - 3 * step;
		const int active = min(left, 3);
		const int p = g.log_cols + max(left - 3, 0);  // the 8 places differ in bits p, p+1, p+2
		const uint32_t first = ((thread >> p) << (p + 3)) | (thread & ((1u << p) - 1));
		if (k == 0) {
			if (g.load.kind == ScaleKind::none) {
#pragma unroll
				for (int m = 0; m < 8; m++) x[m] = Fr::load(g.in[vector] + at.in(g, first + (m << p)));
			} else {
				// Through the thread's own places in shared memory, so that the loop needs code for one element only.
#pragma unroll 1
				for (int m = 0; m < 8; m++) {
					uint32_t pos = at.in(g, first + (m << p));
					tile.put(first + (m << p), scaled<Composed>(g, g.load, Fr::load(g.in[vector] + pos), pos, vector));
				}
#pragma unroll
				for (int m = 0; m < 8; m++) x[m] = tile.get(first + (m << p));
			}
		} else {
			__syncthreads();
#pragma unroll
			for (int m = 0; m < 8; m++) x[m] = tile.get(first + (m << p));
		}
		const uint32_t row = first >> g.log_cols, col = first & ((1u << g.log_cols) - 1);
		const int above = p + 3 - g.log_cols;  // the row's bits from here on number the block
		const uint32_t b = (at.block_of(g, col) << (g.levels - above)) + (row >> above);
		if (Gather) {
			gather8<Inverse, Composed>(g, x, b, active);
		} else {
			scatter8<Inverse, Composed>(g, x, b, active);
		}
		if (k < steps - 1) {
			// These are the places that this thread has read: nobody else needs them before the barrier.
#pragma unroll
			for (int m = 0; m < 8; m++) tile.put(first + (m << p), x[m]);
		} else if (g.store.kind == ScaleKind::none) {
#pragma unroll
			for (int m = 0; m < 8; m++) x[m].store(g.out[vector] + at.out(g, first + (m << p)));
		} else {
#pragma unroll
			for (int m = 0; m < 8; m++) tile.put(first + (m << p), x[m]);
#pragma unroll 1
			for (int m = 0; m < 8; m++) {
				uint32_t pos = at.out(g, first + (m << p));
				scaled<Composed>(g, g.store, tile.get(first + (m << p)), pos, vector).store(g.out[vector] + pos);
			}
		}
	}
}

// A whole transform of up to 2^10 elements by one block, level by level. Any orders: in_reversed and out_reversed say how the vectors lie.
template <bool Inverse, bool Composed>
__global__ void __launch_bounds__(512) small_kernel(const __grid_constant__ Pass g, bool in_reversed, bool out_reversed) {
	extern __shared__ uint4 shared_tile[];
	const uint32_t n = 1u << g.log_n;
	const int vector = blockIdx.x;
	const Tile tile = {shared_tile, max(n, 64u)};
	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
		Fr x = Fr::load(g.in[vector] + i);
		if (g.load.kind != ScaleKind::none) x = scaled<Composed>(g, g.load, x, i, vector);
		tile.put(in_reversed ? reversed(i, g.log_n) : i, x);
	}
#pragma unroll 1
	for (int level = 0; level < g.log_n; level++) {
		__syncthreads();
		const int p = g.log_n - 1 - level;
		for (uint32_t j = threadIdx.x; j < n / 2; j += blockDim.x) {
			uint32_t b = j >> p, lower = (b << (p + 1)) | (j & ((1u << p) - 1)), upper = lower + (1u << p);
			Fr y = tile.get(lower), z = tile.get(upper);
			times<Inverse>(z, factor<Inverse, Composed>(g, b), b == 0);
			butterfly<Inverse>(y, z);
			tile.put(lower, y);
			tile.put(upper, z);
		}
	}
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
		Fr x = tile.get(out_reversed ? i : reversed(i, g.log_n));
		if (g.store.kind != ScaleKind::none) x = scaled<Composed>(g, g.store, x, i, vector);
		x.store(g.out[vector] + i);
	}
}

}  // namespace ntt_detail
}  // namespace weir
