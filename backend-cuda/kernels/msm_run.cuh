// The steps of an MSM and of a plain sum, in order, for one group: what msm_g1.cu and msm_g2.cu instantiate.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include "launch.cuh"
#include "msm.h"
#include "msm_digits.cuh"
#include "msm_lists.cuh"
#include "msm_reduce.cuh"
#include "msm_rounds.cuh"

namespace weir {
namespace msm {

// Parts of the workspace. With base null only the size is computed.
template <class F>
struct Workspace {
	uint32_t *keys[2], *values[2];  // each pair contiguous: the lists go where the sort did not end
	uint32_t *start, *end, *counts;
	void* sort_temp;
	size_t sort_bytes;
	Affine<F>* results;
	uint4* prefixes;
	Xyzz<F>*line_sums, *partials, *windows;
	size_t bytes;

	Workspace(char* base, const MsmPlan& plan, bool sum, size_t sort_temp_bytes) {
		size_t at = 0;
		auto take = [&](size_t size) {
			char* p = base ? base + at : nullptr;
			at += (size + 255) / 256 * 256;
			return p;
		};
		uint64_t elements = plan.n * plan.windows_per_pass;
		uint64_t buckets = sum ? 1 : (uint64_t)plan.windows_per_pass << (plan.window_bits - 1);
		Lines lines = lines_of(plan.window_bits);
		size_t padded = (elements + 64) * 4;
		// A sum has no keys to sort. Lists take at most 1.27 elements and 32 entries.
		for (int i = 0; i < 2; i++) {
			keys[i] = (uint32_t*)take(sum && i == 0 ? 0 : 2 * padded);
			values[i] = base ? keys[i] + padded / 4 : nullptr;
		}
		start = (uint32_t*)take(buckets * 4);
		end = (uint32_t*)take(buckets * 4);
		counts = (uint32_t*)take(max_rounds * 4);
		sort_bytes = sort_temp_bytes;
		sort_temp = take(sort_bytes);
		results = (Affine<F>*)take((elements / 2 + 1) * sizeof(Affine<F>));
		prefixes = (uint4*)take((size_t)plan.blocks * plan.steps * round_threads * sizeof(F));
		line_sums = (Xyzz<F>*)take(sum ? 0 : (size_t)plan.windows_per_pass * lines.count() * sizeof(Xyzz<F>));
		partials = (Xyzz<F>*)take((sum ? tail_blocks : (size_t)plan.windows_per_pass * lines.partials()) * sizeof(Xyzz<F>));
		windows = (Xyzz<F>*)take((size_t)plan.windows * sizeof(Xyzz<F>));
		bytes = at;
	}
};

inline int key_bits(uint64_t buckets) {  // keys 0 to buckets
	int bits = 1;
	while (buckets >> bits) bits++;
	return bits;
}

inline cudaError_t sort_size(const MsmPlan& plan, size_t* bytes) {
	cub::DoubleBuffer<uint32_t> none;
	uint64_t elements = plan.n * plan.windows_per_pass;
	*bytes = 0;
	return cub::DeviceRadixSort::SortPairs(nullptr, *bytes, none, none, (int)elements, 0, key_bits((uint64_t)plan.windows_per_pass << (plan.window_bits - 1)));
}

template <class F>
cudaError_t workspace_size(MsmPlan* plan, bool sum) {
	size_t sort = 0;
	if (!sum) WEIR_TRY(sort_size(*plan, &sort));
	plan->workspace = Workspace<F>(nullptr, *plan, sum, sort).bytes;
	return cudaSuccess;
}

inline void mark(const MsmInput& in, const char* phase, cudaStream_t stream) {
	if (in.mark) in.mark(in.mark_data, phase, stream);
}

inline unsigned grid_for(uint64_t items, unsigned per_block, unsigned most) {
	uint64_t blocks = (items + per_block - 1) / per_block;
	return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

// Lists and rounds: after them every bucket's sum is in place.
template <class F>
cudaError_t add_buckets(const MsmPlan& plan, const Workspace<F>& ws, const MsmInput& in, const Affine<F>* points, const uint32_t* keys, const uint32_t* values, uint32_t* lists_at,
	uint32_t buckets, uint32_t elements, cudaStream_t stream) {
	RoundLists lists;
	lists.rounds = plan.rounds;
	lists.count = ws.counts;
	for (int r = 0; r < max_rounds; r++) {
		lists.entries[r] = lists_at;
		if (r < plan.rounds) lists_at += list_capacity(elements, r);
	}
	WEIR_TRY(cudaMemsetAsync(ws.counts, 0, max_rounds * 4, stream));
	lists_kernel<<<grid_for(elements, lists_threads * lists_items, 65535), lists_threads, 0, stream>>>(keys, ws.start, ws.end, buckets, elements, lists);
	WEIR_TRY(launched(stream));
	mark(in, "lists", stream);
	constexpr size_t shared = Stage<F>::block_bytes;
	WEIR_TRY(cudaFuncSetAttribute(round_kernel<F, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
	WEIR_TRY(cudaFuncSetAttribute(round_kernel<F, false>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
	for (int r = 0; r < plan.rounds; r++) {
		RoundArgs<F> args = {lists.entries[r], ws.counts + r, values, points, ws.results, ws.prefixes, 1u << r, plan.steps};
		unsigned grid = grid_for(list_capacity(elements, r), round_threads, plan.blocks);
		if (r == 0)
			round_kernel<F, true><<<grid, round_threads, shared, stream>>>(args);
		else
			round_kernel<F, false><<<grid, round_threads, shared, stream>>>(args);
		WEIR_TRY(launched(stream));
		if (r < 2) mark(in, r == 0 ? "round 0" : "round 1", stream);
	}
	mark(in, "later rounds", stream);
	return cudaSuccess;
}

template <class F>
cudaError_t run(const MsmPlan& plan, const MsmInput& in, void* result, void* workspace, cudaStream_t stream) {
	auto* out = static_cast<Affine<F>*>(result);
	auto* points = static_cast<const Affine<F>*>(in.points);
	if (plan.n == 0) {
		if (in.windows) return cudaSuccess;
		infinity_kernel<F><<<1, 1, 0, stream>>>(out);
		return launched(stream);
	}
	size_t sort = 0;
	WEIR_TRY(sort_size(plan, &sort));
	Workspace<F> ws(static_cast<char*>(workspace), plan, false, sort);
	if (ws.bytes > plan.workspace) return cudaErrorInvalidValue;
	Lines lines = lines_of(plan.window_bits);
	uint32_t n = (uint32_t)plan.n;
	auto* window_sums = in.windows ? static_cast<Xyzz<F>*>(in.windows) : ws.windows;

	mark(in, "", stream);
	for (int first = 0; first < plan.windows; first += plan.windows_per_pass) {
		int windows = plan.windows - first < plan.windows_per_pass ? plan.windows - first : plan.windows_per_pass;
		uint32_t elements = n * (uint32_t)windows, buckets = (uint32_t)windows << (plan.window_bits - 1);
		digits_kernel<<<grid_for(n, 256, 65535), 256, 0, stream>>>(static_cast<const Fr*>(in.scalars), in.scalar_index, in.montgomery, n, plan.window_bits, first, windows,
			ws.keys[0], ws.values[0]);
		WEIR_TRY(launched(stream));
		mark(in, "digits", stream);
		cub::DoubleBuffer<uint32_t> keys(ws.keys[0], ws.keys[1]), values(ws.values[0], ws.values[1]);
		WEIR_TRY(cub::DeviceRadixSort::SortPairs(ws.sort_temp, sort, keys, values, (int)elements, 0, key_bits(buckets), stream));
		// CUB flips both buffers together.
		int sorted = keys.Current() == ws.keys[1];
		if (values.Current() != ws.values[sorted]) return cudaErrorUnknown;
		mark(in, "sort", stream);
		WEIR_TRY(cudaMemsetAsync(ws.start, 0, (size_t)buckets * 4, stream));
		WEIR_TRY(cudaMemsetAsync(ws.end, 0, (size_t)buckets * 4, stream));
		bounds_kernel<<<grid_for(elements, 256 * 4, 65535), 256, 0, stream>>>(ws.keys[sorted], elements, buckets, ws.start, ws.end);
		WEIR_TRY(launched(stream));
		WEIR_TRY(add_buckets<F>(plan, ws, in, points, ws.keys[sorted], ws.values[sorted], ws.keys[1 - sorted], buckets, elements, stream));
		BucketSums<F> sums = {ws.start, ws.end, ws.values[sorted], points, ws.results};
		int lanes = line_lanes(lines, windows, plan.blocks / RoundPolicy<F>::blocks_per_sm);
		line_kernel<F><<<grid_for((uint64_t)windows * lines.count() * lanes, line_threads, ~0u), line_threads, 0, stream>>>(sums, lines, windows, lanes, ws.line_sums);
		WEIR_TRY(launched(stream));
		mark(in, "rows and columns", stream);
		uint32_t warps = windows * lines.partials();
		weight_kernel<F><<<(warps + 3) / 4, line_threads, 0, stream>>>(ws.line_sums, lines, windows, ws.partials);
		WEIR_TRY(launched(stream));
		window_kernel<F><<<windows, 32, 0, stream>>>(ws.partials, lines, window_sums + first);
		WEIR_TRY(launched(stream));
		mark(in, "weights", stream);
	}
	if (in.windows) return cudaSuccess;
	horner_kernel<F><<<1, 32, 0, stream>>>(ws.windows, plan.windows, plan.window_bits, out);
	WEIR_TRY(launched(stream));
	mark(in, "windows", stream);
	return cudaSuccess;
}

template <class F>
cudaError_t run_sum(const MsmPlan& plan, const void* points, const uint32_t* refs, const uint32_t* count, void* result, void* workspace, cudaStream_t stream) {
	auto* out = static_cast<Affine<F>*>(result);
	auto* table = static_cast<const Affine<F>*>(points);
	if (plan.n == 0) {
		infinity_kernel<F><<<1, 1, 0, stream>>>(out);
		return launched(stream);
	}
	Workspace<F> ws(static_cast<char*>(workspace), plan, true, 0);
	if (ws.bytes > plan.workspace) return cudaErrorInvalidValue;
	if (plan.rounds > 0) {
		single_bounds_kernel<<<1, 1, 0, stream>>>(count, (uint32_t)plan.n, ws.start, ws.end);
		WEIR_TRY(launched(stream));
		WEIR_TRY(add_buckets<F>(plan, ws, MsmInput{}, table, nullptr, refs, ws.keys[1], 1, (uint32_t)plan.n, stream));
	}
	unsigned blocks = grid_for(plan.n, tail_threads, tail_blocks);
	tail_kernel<F><<<blocks, tail_threads, 0, stream>>>(count, (uint32_t)plan.n, plan.rounds, refs, table, ws.results, ws.partials);
	WEIR_TRY(launched(stream));
	tail_total_kernel<F><<<1, tail_threads, 0, stream>>>(ws.partials, (int)blocks, out);
	return launched(stream);
}

// The two groups, each in its own translation unit.
cudaError_t run_g1(const MsmPlan&, const MsmInput&, void*, void*, cudaStream_t);
cudaError_t run_g2(const MsmPlan&, const MsmInput&, void*, void*, cudaStream_t);
cudaError_t sum_g1(const MsmPlan&, const void*, const uint32_t*, const uint32_t*, void*, void*, cudaStream_t);
cudaError_t sum_g2(const MsmPlan&, const void*, const uint32_t*, const uint32_t*, void*, void*, cudaStream_t);
cudaError_t size_g1(MsmPlan*, bool sum);
cudaError_t size_g2(MsmPlan*, bool sum);

}  // namespace msm
}  // namespace weir
