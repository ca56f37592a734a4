#include "ntt.h"

#include <atomic>

#include "launch.cuh"
#include "ntt_device.cuh"

namespace weir {

namespace {

std::atomic<uint64_t> launches_ntt{0};

// Domains from 2^17 on compose their factors of a table of this many and the rest; smaller ones have a full table either way.
constexpr int composed_log = 16;

Fr power(Fr x, const uint32_t* exponent, int words) {
	Fr r = Fr::one();
	for (int i = 32 * words - 1; i >= 0; i--) {
		r = r.sqr();
		if (exponent[i / 32] >> (i % 32) & 1) r = r * x;
	}
	return r;
}

int low_log(int log_n, NttTableKind kind) { return kind == NttTableKind::full || log_n <= composed_log ? log_n : composed_log; }

// T[2^level + i] = T[2^level] T[i], i < 2^level; z = T[2^level].
__global__ void double_table(Fr* t, uint32_t have, Fr z) {
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < have) (z * Fr::load(t + i)).store(t + have + i);
}

__global__ void set_one(Fr* t, Fr x) {
	if (threadIdx.x == 0) x.store(t);
}

// t[i] = z^i for z's power of two given in squares[j] = z^(2^j), times scale.
struct Squares {
	Fr z[ntt_max_log];
	Fr scale;
};
__global__ void fill_powers(Fr* t, uint32_t n, const __grid_constant__ Squares s) {
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	Fr x = s.scale;
#pragma unroll 1
	for (int j = 0; i >> j; j++)
		if (i >> j & 1) x = s.z[j] * x;
	x.store(t + i);
}

// The table with entries T[b << shift], b < 2^log: T[2^j] = root of order 2^(j+2).
cudaError_t fill_table(Fr* t, int log, int shift, cudaStream_t stream) {
	set_one<<<1, 32, 0, stream>>>(t, Fr::one());
	WEIR_TRY(launched(stream));
	for (int j = 0; j < log; j++) {
		uint32_t have = 1u << j;
		double_table<<<(have + 255) / 256, 256, 0, stream>>>(t, have, ntt_root(j + shift + 2));
		WEIR_TRY(launched(stream));
	}
	return cudaSuccess;
}

__global__ void reverse_kernel(Fr* out, const Fr* in, int log_n) {
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >> log_n) return;
	uint32_t j = ntt_detail::reversed(i, log_n);
	if (out != in) {
		Fr::load(in + j).store(out + i);
	} else if (i < j) {
		Fr x = Fr::load(in + i), y = Fr::load(in + j);
		y.store(out + i);
		x.store(out + j);
	}
}

bool valid_tuning(const NttTuning& t, int log_n) {
	int sum = 0;
	for (int i = 0; i < t.passes && i < 3; i++) {
		if (t.levels[i] < 3 || t.levels[i] > t.tile_log || t.levels[i] > 10) return false;
		sum += t.levels[i];
	}
	if (t.passes < 2 || t.passes > 3 || sum != log_n || t.tile_log < 10 || t.tile_log > 11) return false;
	// A tile's columns must be side by side: within a stride, or that many blocks.
	int below = log_n;
	for (int i = 0; i < t.passes; i++) {
		int cols = t.tile_log - t.levels[i];
		below -= t.levels[i];
		if (i < t.passes - 1 ? below < cols : log_n - t.levels[i] < cols) return false;
	}
	return true;
}

}  // namespace

Fr ntt_root(int log) {
	uint32_t t[7];
	for (int i = 0; i < 7; i++) t[i] = FrParams::modulus(i + 1);  // (r - 1) / 2^32
	Fr w = power(Fr::from_u32(7), t, 7);
	for (int i = log; i < 32; i++) w = w.sqr();
	return w;
}

size_t ntt_tables_bytes(int log_n, NttTableKind kind) {
	if (log_n < 0 || log_n > ntt_max_log) return 0;
	int low = low_log(log_n, kind);
	return sizeof(Fr) * ((size_t(1) << low) + (low < log_n ? size_t(1) << (log_n - low) : 0));
}

cudaError_t ntt_tables_make(NttTables* tables, int log_n, NttTableKind kind, void* memory, cudaStream_t stream) {
	if (tables == nullptr || memory == nullptr || log_n < 0 || log_n > ntt_max_log) return cudaErrorInvalidValue;
	int low = low_log(log_n, kind);
	Fr* t = static_cast<Fr*>(memory);
	*tables = {log_n, low, t, nullptr};
	WEIR_TRY(fill_table(t, low, 0, stream));
	if (low < log_n) {
		Fr* high = t + (size_t(1) << low);
		tables->high = high;
		WEIR_TRY(fill_table(high, log_n - low, low, stream));
	}
	return cudaSuccess;
}

size_t ntt_shift_bytes(int log_n) {
	if (log_n < 0 || log_n > ntt_max_log) return 0;
	int lo = (log_n + 1) / 2;
	return sizeof(Fr) * ((size_t(1) << lo) + (size_t(1) << (log_n - lo)));
}

cudaError_t ntt_shift_make(NttShift* shift, int log_n, const Fr& g, const Fr& scale, void* memory, cudaStream_t stream) {
	if (shift == nullptr || memory == nullptr || log_n < 0 || log_n > ntt_max_log || g.is_zero() || scale.is_zero()) return cudaErrorInvalidValue;
	int lo = (log_n + 1) / 2;
	Fr* t = static_cast<Fr*>(memory);
	*shift = {log_n, lo, t, t + (size_t(1) << lo)};
	Squares s;
	s.scale = Fr::one();
	Fr z = g;
	for (int half = 0; half < 2; half++) {
		uint32_t n = 1u << (half == 0 ? lo : log_n - lo);
		Fr y = z;
		for (int j = 0; j < ntt_max_log; j++, y = y.sqr()) s.z[j] = y;
		fill_powers<<<(n + 255) / 256, 256, 0, stream>>>(t, n, s);
		WEIR_TRY(launched(stream));
		for (int j = 0; j < lo; j++) z = z.sqr();
		t += n;
		s.scale = scale;
	}
	return cudaSuccess;
}

NttTuning ntt_tuning(int log_n) {
	NttTuning t;
	if (log_n <= ntt_detail::small_max_log) {
		t.passes = 1;
	} else if (log_n <= 20) {
		t.passes = 2;
		t.levels[0] = (log_n + 1) / 2;
		t.levels[1] = log_n / 2;
	} else {
		// Steps of three levels leave least over in passes of 9 and 6.
		t.passes = 3;
		t.levels[0] = log_n == 28 ? 10 : 9;
		t.levels[1] = log_n >= 24 ? 9 : log_n - 15;
		t.levels[2] = log_n - t.levels[0] - t.levels[1];
	}
	return t;
}

namespace ntt_detail {

namespace {

template <bool Gather, bool Inverse, bool Composed>
cudaError_t launch_pass(const Pass& g, int count, int tile_log, cudaStream_t stream) {
	auto kernel = pass_kernel<Gather, Inverse, Composed>;
	size_t shared = sizeof(Fr) << tile_log;
	if (shared > 48 << 10) WEIR_TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
	kernel<<<dim3(1u << (g.log_n - tile_log), count), 1 << (tile_log - 3), shared, stream>>>(g);
	return launched(stream);
}

template <bool Inverse, bool Composed>
cudaError_t launch_small(const Pass& g, int count, bool in_reversed, bool out_reversed, cudaStream_t stream) {
	int threads = g.log_n < 6 ? 32 : 1 << (g.log_n - 1);
	small_kernel<Inverse, Composed><<<count, threads, sizeof(Fr) << (g.log_n < 6 ? 6 : g.log_n), stream>>>(g, in_reversed, out_reversed);
	return launched(stream);
}

template <bool Composed>
cudaError_t launch(const Pass& g, bool gather, bool inverse, int count, int tile_log, cudaStream_t stream) {
	if (gather) return inverse ? launch_pass<true, true, Composed>(g, count, tile_log, stream) : launch_pass<true, false, Composed>(g, count, tile_log, stream);
	return inverse ? launch_pass<false, true, Composed>(g, count, tile_log, stream) : launch_pass<false, false, Composed>(g, count, tile_log, stream);
}

}  // namespace

cudaError_t run(const NttTables& tables, const Transform& t, int first, int last, cudaStream_t stream) {
	if (t.log_n < 0 || t.log_n > tables.log_n || t.count < 1 || t.count > ntt_max_batch || tables.low == nullptr) return cudaErrorInvalidValue;
	for (int i = 0; i < t.count; i++)
		if (t.in[i] == nullptr || t.mid[i] == nullptr || t.out[i] == nullptr) return cudaErrorInvalidValue;
	Pass g = {};
	g.low = tables.low;
	g.high = tables.high;
	g.log_low = tables.log_low;
	g.log_n = t.log_n;
	// A table that is composed has all factors of small domains in its first part.
	const bool composed = t.log_n > tables.log_low;
	if (t.log_n <= small_max_log) {
		for (int i = 0; i < t.count; i++) {
			g.in[i] = t.in[i];
			g.out[i] = t.out[i];
		}
		g.load = t.load;
		g.store = t.store;
		bool in_reversed = t.in_order == Order::reversed, out_reversed = t.out_order == Order::reversed;
		if (t.inverse) WEIR_TRY((launch_small<true, false>(g, t.count, in_reversed, out_reversed, stream)));
		if (!t.inverse) WEIR_TRY((launch_small<false, false>(g, t.count, in_reversed, out_reversed, stream)));
		launches_ntt.fetch_add(t.count, std::memory_order_relaxed);
		return cudaSuccess;
	}
	if (!valid_tuning(t.tuning, t.log_n)) return cudaErrorInvalidValue;
	const int passes = t.tuning.passes;
	const bool gather = t.in_order == Order::reversed;
	if (gather && t.out_order == Order::reversed) return cudaErrorInvalidValue;
	const bool transposed = !gather && t.out_order == Order::natural;
	for (int i = 0; i < t.count; i++)
		if (transposed && t.mid[i] == t.out[i]) return cudaErrorInvalidValue;
	for (int k = first; k < last; k++) {
		const int which = gather ? passes - 1 - k : k;  // counted from the top level
		g.before = 0;
		for (int i = 0; i < which; i++) g.before += t.tuning.levels[i];
		g.levels = t.tuning.levels[which];
		g.log_cols = t.tuning.tile_log - g.levels;
		g.at = which < passes - 1 ? Addressing::strided : transposed ? Addressing::transposed : Addressing::blocks;
		g.load = k == 0 ? t.load : Scale{};
		g.store = k == passes - 1 ? t.store : Scale{};
		for (int i = 0; i < t.count; i++) {
			g.in[i] = k == 0 ? t.in[i] : t.mid[i];
			g.out[i] = k == passes - 1 ? t.out[i] : t.mid[i];
		}
		if (composed) {
			WEIR_TRY(launch<true>(g, gather, t.inverse, t.count, t.tuning.tile_log, stream));
		} else {
			WEIR_TRY(launch<false>(g, gather, t.inverse, t.count, t.tuning.tile_log, stream));
		}
	}
	if (last == passes) launches_ntt.fetch_add(t.count, std::memory_order_relaxed);
	return cudaSuccess;
}

}  // namespace ntt_detail

bool ntt_needs_scratch(const NttCall& c) {
	if (c.log_n <= ntt_detail::small_max_log || c.in_order != Order::natural || c.out_order != Order::natural) return false;
	for (int i = 0; i < c.count && i < ntt_max_batch; i++)
		if (c.in[i] == c.out[i]) return true;
	return false;
}

cudaError_t ntt(const NttTables& tables, const NttCall& c, cudaStream_t stream) {
	using namespace ntt_detail;
	if (c.log_n < 0 || c.log_n > tables.log_n || c.count < 1 || c.count > ntt_max_batch) return cudaErrorInvalidValue;
	if (c.coset == Coset::shift && (c.shift.log_n < c.log_n || c.shift.lo == nullptr || c.shift.hi == nullptr)) return cudaErrorInvalidValue;
	Transform t = {};
	t.log_n = c.log_n;
	t.inverse = c.inverse;
	t.in_order = c.in_order;
	t.out_order = c.out_order;
	t.count = c.count;
	t.tuning = c.tuning.passes > 0 ? c.tuning : ntt_tuning(c.log_n);
	// Reversed to reversed: the result comes out natural and is turned.
	const bool turn = c.log_n > small_max_log && c.in_order == Order::reversed && c.out_order == Order::reversed;
	if (turn) t.out_order = Order::natural;
	const bool transposed = t.in_order == Order::natural && t.out_order == Order::natural;
	for (int i = 0; i < c.count; i++) {
		t.in[i] = c.in[i];
		t.out[i] = c.out[i];
		if (c.scratch[i] != nullptr) {
			t.mid[i] = c.scratch[i];
		} else if (transposed && c.log_n > small_max_log) {
			if (c.in[i] == c.out[i]) return cudaErrorInvalidValue;
			t.mid[i] = const_cast<Fr*>(c.in[i]);
		} else {
			t.mid[i] = c.out[i];
		}
	}
	if (!c.inverse) {
		bool natural = t.in_order == Order::natural;
		if (c.coset == Coset::odd) t.load.kind = natural ? ScaleKind::odd_natural : ScaleKind::odd;
		if (c.coset == Coset::shift) t.load.kind = natural ? ScaleKind::powers : ScaleKind::powers_reversed;
		t.load.log_lo = c.shift.log_lo;
		t.load.lo = c.shift.lo;
		t.load.hi = c.shift.hi;
	} else {
		Fr n_inv = Fr::one();
		if (c.divide) n_inv = Fr::from_u32(1u << c.log_n).inverse();
		bool natural = t.out_order == Order::natural;
		if (c.coset == Coset::none && c.divide) {
			t.store.kind = ScaleKind::constant;
		} else if (c.coset == Coset::odd) {
			t.store.kind = natural ? ScaleKind::odd_inverse_natural : ScaleKind::odd_inverse;
		} else if (c.coset == Coset::shift) {
			t.store.kind = natural ? ScaleKind::powers : ScaleKind::powers_reversed;
			t.store.log_lo = c.shift.log_lo;
			t.store.lo = c.shift.lo;
			t.store.hi = c.shift.hi;
			if (c.divide) t.load.kind = ScaleKind::constant;
			t.load.k = n_inv;
		}
		t.store.k = n_inv;
	}
	WEIR_TRY(run(tables, t, 0, t.tuning.passes, stream));
	if (turn)
		for (int i = 0; i < c.count; i++) WEIR_TRY(bit_reverse(c.out[i], c.out[i], c.log_n, stream));
	return cudaSuccess;
}

cudaError_t bit_reverse(Fr* out, const Fr* in, int log_n, cudaStream_t stream) {
	if (out == nullptr || in == nullptr || log_n < 0 || log_n > ntt_max_log) return cudaErrorInvalidValue;
	uint32_t n = 1u << log_n;
	reverse_kernel<<<(n + 255) / 256, 256, 0, stream>>>(out, in, log_n);
	return launched(stream);
}

uint64_t ntt_launches() { return launches_ntt.load(std::memory_order_relaxed); }

}  // namespace weir
