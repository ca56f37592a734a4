// Multi-scalar multiplication and plain sums over G1 and G2 on the device. Interface of the device level: plain C++, usable without nvcc.
//
//   msm_run   result = sum of scalar_i point_i     signed windows, sort by bucket, batched affine additions in rounds (msm_rounds.cuh), row and column sums
//   sum_run   result = sum of +-point_i             for scalars 1 and -1: the same rounds, one bucket, no scalars
//
// The calls launch on the caller's stream, never allocate, never wait, and use no memory but the workspace that the plan asked for (device memory, aligned to 256
// bytes; it may be reused as soon as the stream has passed). They return the first error of a launch; errors of execution show at the caller's next synchronisation.
// Points are affine in Montgomery form (gnark-crypto's layout: 96 or 192 bytes, infinity all zero), aligned to 16 bytes and not checked to be on the curve.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace weir {

enum class Group { g1 = 1, g2 = 2 };

// Largest number of points of one call.
constexpr uint64_t msm_max_points = 1ull << 28;

// What a call will do; made by msm_plan or sum_plan, read-only after that.
struct MsmPlan {
	Group group;
	uint64_t n;            // points
	int window_bits;       // c: digits from -2^(c-1) to 2^(c-1)
	int windows;           // in all
	int windows_per_pass;  // processed at a time; fewer take less workspace and a little more time
	int rounds;            // halvings that bring the fullest possible bucket to one point
	int blocks;            // of the persistent kernels
	int steps;             // additions of one thread that share an inversion, at most
	size_t workspace;      // bytes
};

// Chooses windows by the tuning table, and as many windows a pass as fit memory_limit bytes (0: no limit). window_bits 0 means by the table; 2..23 else.
// n may be 0. cudaErrorInvalidValue where n or window_bits is out of range, cudaErrorMemoryAllocation where one window does not fit the limit.
cudaError_t msm_plan(MsmPlan* plan, Group group, uint64_t n, size_t memory_limit, int window_bits);

// A scalar is 32 bytes, little-endian, below r; montgomery says whether it is in Montgomery form (as gnark-crypto holds it).
struct MsmInput {
	const void* points;            // device, n points
	const void* scalars;           // device
	const uint32_t* scalar_index;  // device, n entries, or null: point i goes with scalars[scalar_index[i]]
	bool montgomery;
	// Where not null, the windows' sums go there and nothing to result: plan.windows points in XYZZ coordinates, canonical (x = X/ZZ, y = Y/ZZZ, ZZ = 0 at infinity). Window w
	// counts 2^(window_bits w) fold. The 254 doublings that put them together are latency and nothing else here, and take a processor a tenth of the time.
	void* windows = nullptr;
	// For measurements, may be null: called on the host when the launches of a phase are made ("" before the first), to record an event.
	void (*mark)(void* data, const char* phase, cudaStream_t stream) = nullptr;
	void* mark_data = nullptr;
};

// Writes one affine point, canonical, to result (device), unless in.windows is given; no windows where plan.n is 0. All work is ordered on stream.
cudaError_t msm_run(const MsmPlan& plan, const MsmInput& in, void* result, void* workspace, cudaStream_t stream);

// Sums of points by references: index | negative << 31, at most max_refs of them.
cudaError_t sum_plan(MsmPlan* plan, Group group, uint64_t max_refs, size_t memory_limit);

// count (device) holds the number of references, at most plan.n.
cudaError_t sum_run(const MsmPlan& plan, const void* points, const uint32_t* refs, const uint32_t* count, void* result, void* workspace, cudaStream_t stream);

// Calls of msm_run and sum_run by this process whose kernels were all launched, for tests that must not be fooled.
uint64_t msm_launches(Group group);

}  // namespace weir
