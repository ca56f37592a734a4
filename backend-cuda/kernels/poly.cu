#include "poly.h"

#include "launch.cuh"
#include "ntt_passes.h"

namespace weir {

namespace {

constexpr int sum_threads = 128;
constexpr int sum_blocks = 1024;

struct PowerSum {
	Fr x;        // the point
	Fr stride;   // x^threads
	Fr square[32];  // x^(2^j)
	uint64_t n;
};

__device__ __forceinline__ Fr block_sum(Fr x, Fr* shared) {
	x.store(shared + threadIdx.x);
	__syncthreads();
#pragma unroll 1
	for (int half = blockDim.x / 2; half > 0; half /= 2) {
		if (threadIdx.x < half) (Fr::load(shared + threadIdx.x) + Fr::load(shared + threadIdx.x + half)).store(shared + threadIdx.x);
		__syncthreads();
	}
	return Fr::load(shared);
}

// Thread t of all takes v[t], v[t + threads], ... by Horner's rule in x^threads, and multiplies by x^t.
__global__ void __launch_bounds__(sum_threads) power_sum_kernel(Fr* partial, const Fr* v, const __grid_constant__ PowerSum s) {
	__shared__ Fr shared[sum_threads];
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x, t = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	Fr sum = Fr::zero();
	if (t < s.n) {
#pragma unroll 1
		for (int64_t i = (int64_t)(t + (s.n - 1 - t) / threads * threads); i >= 0; i -= (int64_t)threads) sum = s.stride * sum + Fr::load(v + i);
#pragma unroll 1
		for (int j = 0; t >> j; j++)
			if (t >> j & 1) sum = s.square[j] * sum;
	}
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0) sum.store(partial + blockIdx.x);
}

__global__ void __launch_bounds__(sum_threads) total_kernel(Fr* out, const Fr* partial, int n) {
	__shared__ Fr shared[sum_threads];
	Fr sum = Fr::zero();
	for (int i = threadIdx.x; i < n; i += blockDim.x) sum = sum + Fr::load(partial + i);
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0) sum.store(out);
}

__global__ void copy_one(Fr* out, const Fr* in) {
	if (threadIdx.x == 0) Fr::load(in).store(out);
}

Fr half() { return Fr::from_u32(2).inverse(); }

}  // namespace

size_t power_sum_workspace() { return sizeof(Fr) * sum_blocks; }

cudaError_t power_sum(Fr* out, const Fr* v, uint64_t n, const Fr& x, void* workspace, cudaStream_t stream) {
	if (out == nullptr || workspace == nullptr || (v == nullptr && n > 0) || n > 1ull << ntt_max_log) return cudaErrorInvalidValue;
	if (n == 0) return cudaMemsetAsync(out, 0, sizeof(Fr), stream);
	// At least 16 elements a thread where there are enough: the first power costs about 12 products.
	uint64_t blocks = (n + 16 * sum_threads - 1) / (16 * sum_threads);
	if (blocks > sum_blocks) blocks = sum_blocks;
	PowerSum s;
	s.x = x;
	s.n = n;
	Fr y = x;
	for (int j = 0; j < 32; j++, y = y.sqr()) s.square[j] = y;
	s.stride = Fr::one();
	for (int j = 0; j < 32; j++)
		if (blocks * sum_threads >> j & 1) s.stride = s.stride * s.square[j];
	Fr* partial = static_cast<Fr*>(workspace);
	power_sum_kernel<<<(unsigned)blocks, sum_threads, 0, stream>>>(partial, v, s);
	WEIR_TRY(launched(stream));
	total_kernel<<<1, sum_threads, 0, stream>>>(out, partial, (int)blocks);
	return launched(stream);
}

size_t quotient_workspace(int log_n) {
	(void)log_n;
	return power_sum_workspace();
}

// Inverse transforms leave 1/N out, so that vectors on the coset are N times too large; the pass that makes P = a b - c takes c times N, and one factor of 1/N^2 is
// put in there (odd coset) or, with -1/2 and the 1/N of the way back, into the powers of 1/u that the last transform multiplies by anyway (monomial).
cudaError_t quotient(const NttTables& tables, const QuotientCall& q, void* workspace, cudaStream_t stream) {
	using namespace ntt_detail;
	if (q.log_n < 0 || q.log_n > tables.log_n || q.a == nullptr || q.b == nullptr || q.c == nullptr || q.remainder == nullptr || workspace == nullptr ||
	    (q.basis != HBasis::monomial && q.basis != HBasis::odd_coset))
		return cudaErrorInvalidValue;
	const Fr n = Fr::from_u32(1u << q.log_n), n_inv = n.inverse();
	Fr* const vectors[3] = {q.a, q.b, q.c};
	auto transform = [&](int first, int count, bool inverse, Order in, Order out) {
		Transform t = {};
		t.log_n = q.log_n;
		t.inverse = inverse;
		t.in_order = in;
		t.out_order = out;
		t.count = count;
		for (int i = 0; i < count; i++) t.in[i] = t.mid[i] = t.out[i] = vectors[first + i];
		t.tuning = q.tuning.passes > 0 ? q.tuning : ntt_tuning(q.log_n);
		return t;
	};

	// To coefficients, bit-reversed.
	Transform t = transform(0, 3, true, Order::natural, Order::reversed);
	const int passes = t.tuning.passes;
	if (q.product) {
		Transform c = transform(2, 1, true, Order::natural, Order::reversed);
		c.in[0] = q.a;
		c.load.kind = ScaleKind::product;
		c.load.other[0] = q.b;
		WEIR_TRY(run(tables, c, 0, passes, stream));
		t.count = 2;
	}
	WEIR_TRY(run(tables, t, 0, passes, stream));

	// To values on the odd coset, natural; the last pass of c turns into that of P, which goes to a, or to b where one more transform brings it to a.
	t = transform(0, 3, false, Order::reversed, Order::natural);
	t.load.kind = ScaleKind::odd;
	Transform c = transform(2, 1, false, Order::reversed, Order::natural);
	const bool monomial = q.basis == HBasis::monomial;
	c.out[0] = monomial ? q.b : q.a;
	c.store.kind = ScaleKind::quotient;
	c.store.lo = q.a;
	c.store.hi = q.b;
	c.store.k = n;
	c.store.two = !monomial;
	c.store.k2 = n_inv.sqr();
	if (passes > 1) {
		WEIR_TRY(run(tables, t, 0, passes - 1, stream));
		t.count = 2;
		WEIR_TRY(run(tables, t, passes - 1, passes, stream));
		WEIR_TRY(run(tables, c, passes - 1, passes, stream));
	} else {
		t.count = 2;
		c.load = t.load;
		WEIR_TRY(run(tables, t, 0, passes, stream));
		WEIR_TRY(run(tables, c, 0, passes, stream));
	}
	if (!monomial) {
		if (q.product) return cudaMemsetAsync(q.remainder, 0, sizeof(Fr), stream);
		// The coefficient of X^(N-1) of P on the coset, up to a power of u: sum of P(u w^i) w^i.
		return power_sum(q.remainder, q.a, uint64_t(1) << q.log_n, ntt_root(q.log_n), workspace, stream);
	}
	t = transform(0, 1, true, Order::natural, Order::natural);
	t.in[0] = t.mid[0] = q.b;
	t.out[0] = q.a;
	t.store.kind = ScaleKind::odd_inverse_natural;
	t.store.k = -(n_inv.sqr() * n_inv * half());
	WEIR_TRY(run(tables, t, 0, passes, stream));
	copy_one<<<1, 32, 0, stream>>>(q.remainder, q.a + ((size_t(1) << q.log_n) - 1));
	return launched(stream);
}

}  // namespace weir
