#include "fixed_base.h"

#include <atomic>

#include "curve.cuh"
#include "launch.cuh"

namespace weir {

namespace {

constexpr int windows = 32, digits = 256, threads = 128;

std::atomic<uint64_t> launches{0};

template <class F>
__global__ void __launch_bounds__(digits) table_kernel(const Affine<F>* point, Affine<F>* table) {
	Xyzz<F> p = Xyzz<F>::from(Affine<F>::load(point)).times(threadIdx.x);
#pragma unroll 1
	for (uint32_t i = 0; i < 8 * blockIdx.x; i++) p = p.dbl();
	p.affine().store_canonical(table + digits * blockIdx.x + threadIdx.x);
}

template <class F>
__global__ void __launch_bounds__(threads) multiples_kernel(const Affine<F>* table, const Fr* scalars, uint64_t n, Affine<F>* points) {
	for (uint64_t i = blockIdx.x * (uint64_t)threads + threadIdx.x; i < n; i += (uint64_t)gridDim.x * threads) {
		Fr s = Fr::load(scalars + i).from_mont();
		Xyzz<F> sum = Xyzz<F>::infinity();
#pragma unroll 1
		for (int w = 0; w < windows; w++) {
			uint32_t d = s.v[0] % digits;
#pragma unroll
			for (int j = 0; j < 8; j++) s.v[j] = __funnelshift_r(s.v[j], j < 7 ? s.v[j + 1] : 0, 8);
			if (d != 0) sum = sum + Affine<F>::load(table + digits * w + d);
		}
		sum.affine().store_canonical(points + i);
	}
}

template <class F>
cudaError_t multiples(const void* table, const Fr* scalars, uint64_t n, void* points, cudaStream_t stream) {
	uint64_t blocks = (n + threads - 1) / threads;
	if (blocks > 4096) blocks = 4096;
	multiples_kernel<F><<<(unsigned)blocks, threads, 0, stream>>>(static_cast<const Affine<F>*>(table), scalars, n, static_cast<Affine<F>*>(points));
	return launched(stream);
}

}  // namespace

size_t fixed_base_bytes(Group group) { return (size_t)windows * digits * (group == Group::g1 ? sizeof(G1Affine) : sizeof(G2Affine)); }

cudaError_t fixed_base_table(Group group, const void* point, void* table, cudaStream_t stream) {
	if (point == nullptr || table == nullptr) return cudaErrorInvalidValue;
	if (group == Group::g1)
		table_kernel<G1><<<windows, digits, 0, stream>>>(static_cast<const G1Affine*>(point), static_cast<G1Affine*>(table));
	else
		table_kernel<G2><<<windows, digits, 0, stream>>>(static_cast<const G2Affine*>(point), static_cast<G2Affine*>(table));
	return launched(stream);
}

cudaError_t fixed_base(Group group, const void* table, const Fr* scalars, uint64_t n, void* points, cudaStream_t stream) {
	if (n == 0) return cudaSuccess;
	if (table == nullptr || scalars == nullptr || points == nullptr) return cudaErrorInvalidValue;
	WEIR_TRY(group == Group::g1 ? multiples<G1>(table, scalars, n, points, stream) : multiples<G2>(table, scalars, n, points, stream));
	launches.fetch_add(1, std::memory_order_relaxed);
	return cudaSuccess;
}

uint64_t fixed_base_launches() { return launches.load(std::memory_order_relaxed); }

}  // namespace weir
