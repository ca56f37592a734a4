#include "witness.h"

#include <atomic>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

#include "launch.cuh"

namespace weir {

namespace {

std::atomic<uint64_t> launches_witness{0};

constexpr unsigned all_lanes = 0xffffffffu;
constexpr int expand_threads = 256;
constexpr int group = 512;  // variables a rank entry; one warp's share

__device__ __forceinline__ Fr minus_one() { return -Fr::one(); }

__device__ __forceinline__ uint32_t code_of(const Fr& x) {
	if (x.is_zero()) return code_zero;
	if (x == Fr::one()) return code_one;
	if (x == minus_one()) return code_minus_one;
	return code_other;
}

__device__ __forceinline__ bool is_small(const Fr& x) {
	Fr p = x.from_mont(), m = (-x).from_mont();
	uint32_t high = 0, high_minus = 0;
#pragma unroll
	for (int i = 2; i < 8; i++) {
		high |= p.v[i];
		high_minus |= m.v[i];
	}
	return high == 0 || high_minus == 0;
}

__global__ void __launch_bounds__(expand_threads) expand_kernel(const __grid_constant__ WitnessCall w) {
	const int lane = threadIdx.x % 32;
	const uint64_t groups = (w.wires + group - 1) / group, warps = (uint64_t)gridDim.x * (expand_threads / 32);
	uint32_t counted[5] = {};
	for (uint64_t k = ((uint64_t)blockIdx.x * expand_threads + threadIdx.x) / 32; k < groups; k += warps) {
		uint64_t bits = 0, values = 0;
		uint64_t listed = 0;
		if (w.compact) {
			uint64_t word = 8 * k + lane;
			if (lane < 8 && word < (w.wires + 63) / 64) {
				bits = w.is_bit[word];
				values = w.value[word];
			}
			listed = w.rank[k];
		}
#pragma unroll 1
		for (int part = 0; part < group / 32; part++) {
			const uint64_t first = group * k + 32 * part, i = first + lane;
			if (first >= w.wires) break;
			const uint32_t valid = w.wires - first >= 32 ? all_lanes : (1u << (w.wires - first)) - 1;
			uint32_t is_bit = 0, value = 0;
			uint64_t at = i;
			if (w.compact) {
				is_bit = (uint32_t)(__shfl_sync(all_lanes, bits, part / 2) >> (32 * (part & 1)));
				value = (uint32_t)(__shfl_sync(all_lanes, values, part / 2) >> (32 * (part & 1)));
				uint32_t dense = ~is_bit & valid;
				at = listed + __popc(dense & ((1u << lane) - 1));
				listed += __popc(dense);
			}
			uint32_t code = code_zero;
			bool small = false;
			if (valid >> lane & 1) {
				Fr x = Fr::zero();
				if (is_bit >> lane & 1) {
					code = value >> lane & 1;
					if (code) x = Fr::one();
				} else if (at < w.listed) {
					x = Fr::load(w.list + at);
					code = code_of(x);
					if (code == code_other) small = is_small(x);
				}
				if (w.scalars != nullptr && w.scalars != w.list) x.store(w.scalars + i);
			}
			uint32_t low = __ballot_sync(all_lanes, code & 1), high = __ballot_sync(all_lanes, code >> 1), few = __ballot_sync(all_lanes, small);
			if (lane == 0) w.codes[first / 32] = low | (uint64_t)high << 32;
			counted[0] += __popc(valid & ~(low | high));
			counted[1] += __popc(low & ~high);
			counted[2] += __popc(high & ~low);
			counted[3] += __popc(low & high);
			counted[4] += __popc(few);
		}
	}
	if (lane == 0 && w.counts != nullptr) {
		unsigned long long* to = reinterpret_cast<unsigned long long*>(w.counts);
#pragma unroll
		for (int i = 0; i < 5; i++)
			if (counted[i] != 0) atomicAdd(to + i, (unsigned long long)counted[i]);
	}
}

constexpr int select_threads = 256;
constexpr int select_items = 8;
constexpr int select_block = select_threads * select_items;

__device__ __forceinline__ uint32_t code_at(const uint64_t* codes, uint64_t wire) {
	uint64_t word = __ldg(reinterpret_cast<const unsigned long long*>(codes) + wire / 32);
	uint32_t bit = wire % 32;
	return ((uint32_t)word >> bit & 1) | ((uint32_t)(word >> 32) >> bit & 1) << 1;
}

// Signs in the high half, the rest in the low half, of one thread's points; codes are kept.
__device__ __forceinline__ uint64_t count_own(const SelectCall& s, uint64_t first, uint32_t (&code)[select_items]) {
	uint64_t mine = 0;
#pragma unroll
	for (int m = 0; m < select_items; m++) {
		uint64_t j = first + m;
		code[m] = code_zero;
		if (j < s.points) code[m] = code_at(s.codes, s.index != nullptr ? s.index[j] : s.first + j);
		mine += code[m] & 1 ? 1ull << 32 : code[m] >> 1;
	}
	return mine;
}

__global__ void __launch_bounds__(select_threads) select_count(const __grid_constant__ SelectCall s, uint64_t* blocks) {
	using Reduce = cub::BlockScan<uint64_t, select_threads>;
	__shared__ typename Reduce::TempStorage temp;
	uint32_t code[select_items];
	uint64_t mine = count_own(s, (uint64_t)blockIdx.x * select_block + threadIdx.x * select_items, code), before, total;
	Reduce(temp).ExclusiveSum(mine, before, total);
	if (threadIdx.x == 0) blocks[blockIdx.x] = total;
}

__global__ void __launch_bounds__(select_threads) select_write(const __grid_constant__ SelectCall s, const uint64_t* blocks) {
	using Scan = cub::BlockScan<uint64_t, select_threads>;
	__shared__ typename Scan::TempStorage temp;
	uint32_t code[select_items];
	const uint64_t first = (uint64_t)blockIdx.x * select_block + threadIdx.x * select_items;
	uint64_t mine = count_own(s, first, code), before, total;
	Scan(temp).ExclusiveSum(mine, before, total);
	before += blocks[blockIdx.x];
	uint32_t sign = (uint32_t)(before >> 32), rest = (uint32_t)before;
#pragma unroll
	for (int m = 0; m < select_items; m++) {
		uint32_t j = (uint32_t)(first + m);
		if (code[m] & 1) {
			s.signs[sign++] = j | (code[m] >> 1) << 31;
		} else if (code[m] == code_other) {
			s.rest[rest] = j;
			s.rest_wires[rest++] = s.index != nullptr ? s.index[j] : (uint32_t)(s.first + j);
		}
	}
	if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
		total += blocks[blockIdx.x];
		s.counts[0] = (uint32_t)(total >> 32);
		s.counts[1] = (uint32_t)total;
	}
}

__global__ void gather_kernel(uint4* to, const uint4* from, const uint32_t* index, uint64_t n, uint32_t parts) {
	uint64_t t = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n * parts) return;
	uint64_t i = t / parts;
	to[t] = from[(uint64_t)index[i] * parts + t % parts];
}

uint64_t select_blocks(uint64_t points) { return (points + select_block - 1) / select_block; }

size_t up256(size_t n) { return (n + 255) & ~size_t(255); }

cudaError_t scan_bytes(uint64_t blocks, size_t* bytes) {
	*bytes = 0;
	return cub::DeviceScan::ExclusiveSum(nullptr, *bytes, (uint64_t*)nullptr, (uint64_t*)nullptr, (int)blocks);
}

}  // namespace

cudaError_t witness_expand(const WitnessCall& w, cudaStream_t stream) {
	if (w.wires == 0 || w.wires > witness_max_wires || w.codes == nullptr || (w.list == nullptr && w.listed > 0) || w.listed > w.wires) return cudaErrorInvalidValue;
	if (w.compact ? w.is_bit == nullptr || w.value == nullptr || w.rank == nullptr || (w.scalars != nullptr && w.scalars == w.list) : w.listed != w.wires)
		return cudaErrorInvalidValue;
	if (w.counts != nullptr) WEIR_TRY(cudaMemsetAsync(w.counts, 0, sizeof(WitnessCounts), stream));
	uint64_t blocks = ((w.wires + group - 1) / group + expand_threads / 32 - 1) / (expand_threads / 32);
	if (blocks > 8192) blocks = 8192;
	expand_kernel<<<(unsigned)blocks, expand_threads, 0, stream>>>(w);
	WEIR_TRY(launched(stream));
	launches_witness.fetch_add(1, std::memory_order_relaxed);
	return cudaSuccess;
}

size_t select_workspace(uint64_t points) {
	uint64_t blocks = select_blocks(points);
	size_t scan = 0;
	if (blocks == 0 || points >> 31 || scan_bytes(blocks, &scan) != cudaSuccess) return 0;
	return up256(blocks * sizeof(uint64_t)) + up256(scan) + 256;
}

cudaError_t witness_select(const SelectCall& s, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
	if (s.counts == nullptr || s.points >> 31) return cudaErrorInvalidValue;
	if (s.points == 0) return cudaMemsetAsync(s.counts, 0, 2 * sizeof(uint32_t), stream);
	if (s.codes == nullptr || s.signs == nullptr || s.rest == nullptr || s.rest_wires == nullptr || workspace == nullptr ||
	    workspace_bytes < select_workspace(s.points))
		return cudaErrorInvalidValue;
	uint64_t blocks = select_blocks(s.points);
	uint64_t* sums = static_cast<uint64_t*>(workspace);
	size_t scan = 0;
	WEIR_TRY(scan_bytes(blocks, &scan));
	select_count<<<(unsigned)blocks, select_threads, 0, stream>>>(s, sums);
	WEIR_TRY(launched(stream));
	WEIR_TRY(cub::DeviceScan::ExclusiveSum(reinterpret_cast<char*>(workspace) + up256(blocks * sizeof(uint64_t)), scan, sums, sums, (int)blocks, stream));
	WEIR_TRY(launched(stream));
	select_write<<<(unsigned)blocks, select_threads, 0, stream>>>(s, sums);
	return launched(stream);
}

cudaError_t gather_elements(void* to, const void* from, const uint32_t* index, uint64_t n, uint32_t bytes, cudaStream_t stream) {
	if (bytes == 0 || bytes % 16 != 0 || n >> 32) return cudaErrorInvalidValue;
	if (n == 0) return cudaSuccess;
	if (to == nullptr || from == nullptr || index == nullptr) return cudaErrorInvalidValue;
	uint64_t threads = n * (bytes / 16);
	gather_kernel<<<(unsigned)((threads + 255) / 256), 256, 0, stream>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from), index, n, bytes / 16);
	return launched(stream);
}

uint64_t witness_launches() { return launches_witness.load(std::memory_order_relaxed); }

}  // namespace weir
