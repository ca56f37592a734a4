// Lists of the additions of all rounds, made in one pass over the sorted elements.
//
// Within a bucket of m elements, round r adds element l + 2^r to element l for every l that is a multiple of 2^(r+1) with l + 2^r < m, and the sum takes the place
// of element l. After ceil(log2 m) rounds element 0 holds the sum. So the pairs of every round follow from l and m alone: nothing is compacted between rounds, a bucket
// of any size is spread over all threads, and a bucket is never longer on its way than others of its size.
// A result lies in slot j/2 of the results, where j is the position of its first element: the pairs of round 0 are disjoint, so slots are too. An element without a
// result is its original point; in round 1 and later that is at most the last of its bucket, and only as the second of a pair.
//
// An entry is j, the position of the first element; bit 31 says that the second is an original point.
#pragma once

#include <cstdint>

namespace weir {
namespace msm {

constexpr int max_rounds = 32;

// Where the list of each round begins, and for how many entries there is room.
struct RoundLists {
	uint32_t* entries[max_rounds];
	uint32_t* count;  // max_rounds counters, zero before
	int rounds;
};

// Pairs of round r cover at least 2^r + 1 elements each.
inline uint64_t list_capacity(uint64_t elements, int round) { return elements / ((1ull << round) + 1) + 1; }

constexpr int lists_threads = 512;
constexpr int lists_items = 16;  // large tiles: every tile adds to the same few counters

// Reads 4 bytes an element and 8 bytes of bounds (shared by neighbours), writes 4 bytes an addition: 2^24 x 13 elements move 1.8 GB, at 4 TB/s 0.5 ms. Where keys is
// null all elements belong to bucket 0.
static __global__ void __launch_bounds__(lists_threads) lists_kernel(const uint32_t* keys, const uint32_t* start, const uint32_t* end, uint32_t buckets, uint32_t elements,
	RoundLists lists) {
	__shared__ uint32_t counts[max_rounds], bases[max_rounds];
	uint32_t tile = lists_threads * lists_items;
	for (uint64_t at = (uint64_t)blockIdx.x * tile; at < elements; at += (uint64_t)gridDim.x * tile) {
		if (threadIdx.x < max_rounds) counts[threadIdx.x] = 0;
		__syncthreads();
		uint32_t lane = threadIdx.x % 32, below = (1u << lane) - 1;
		uint32_t last[lists_items];  // position of the bucket's last element
		int mine[lists_items];       // number of rounds in which this element is first of a pair
#pragma unroll
		for (int k = 0; k < lists_items; k++) {
			uint64_t j = at + k * lists_threads + threadIdx.x;
			mine[k] = 0;
			last[k] = 0;
			if (j < elements) {
				uint32_t key = keys ? keys[j] : 0;
				uint32_t s = 0, e = 0;
				if (key < buckets) {
					s = start[key];
					e = end[key];
				}
				if (j < e) {
					uint32_t l = (uint32_t)j - s, after = e - 1 - (uint32_t)j;
					int by_place = l ? __ffs(l) - 1 : 32, by_size = 32 - __clz(after);
					mine[k] = by_place < by_size ? by_place : by_size;
					last[k] = e - 1;
				}
			}
			for (int r = 0; __any_sync(~0u, mine[k] > r); r++) {
				uint32_t who = __ballot_sync(~0u, mine[k] > r);
				if (lane == 0) atomicAdd(&counts[r], __popc(who));
			}
		}
		__syncthreads();
		if (threadIdx.x < max_rounds) {
			uint32_t some = counts[threadIdx.x];
			bases[threadIdx.x] = some ? atomicAdd(lists.count + threadIdx.x, some) : 0;
			counts[threadIdx.x] = 0;
		}
		__syncthreads();
#pragma unroll
		for (int k = 0; k < lists_items; k++) {
			uint32_t j = (uint32_t)(at + k * lists_threads + threadIdx.x);
			for (int r = 0; __any_sync(~0u, mine[k] > r); r++) {
				uint32_t who = __ballot_sync(~0u, mine[k] > r), base = 0;
				if (lane == 0) base = atomicAdd(&counts[r], __popc(who));
				base = __shfl_sync(~0u, base, 0);
				if (mine[k] > r) {
					uint32_t original = r > 0 && j + (1u << r) == last[k] ? 0x80000000u : 0u;
					lists.entries[r][bases[r] + base + __popc(who & below)] = j | original;
				}
			}
		}
		__syncthreads();
	}
}

}  // namespace msm
}  // namespace weir
