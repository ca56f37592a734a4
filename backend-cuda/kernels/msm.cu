// Plans: which windows, how many at a time, how much memory. And the dispatch to the two groups.
#include <atomic>

#include "msm_run.cuh"

namespace weir {
namespace msm {
namespace {

// Windows by size: up to 2^log_n points take c bits. Measured on sm_90; other architectures take the same row until measured.
struct Tuning {
	Group group;
	int log_n;
	int window_bits;
};
constexpr Tuning table[] = {
	{Group::g1, 6, 5},   {Group::g1, 8, 7},   {Group::g1, 10, 8},  {Group::g1, 12, 10}, {Group::g1, 14, 12}, {Group::g1, 16, 13}, {Group::g1, 18, 15},
	{Group::g1, 20, 16}, {Group::g1, 22, 17}, {Group::g1, 23, 19}, {Group::g1, 25, 20}, {Group::g1, 28, 22},
	{Group::g2, 6, 5},   {Group::g2, 8, 7},   {Group::g2, 10, 8},  {Group::g2, 12, 10}, {Group::g2, 14, 12}, {Group::g2, 16, 13}, {Group::g2, 18, 15},
	{Group::g2, 20, 16}, {Group::g2, 22, 17}, {Group::g2, 23, 19}, {Group::g2, 25, 20}, {Group::g2, 28, 22},
};

int tuned_bits(Group group, uint64_t n) {
	for (const Tuning& t : table)
		if (t.group == group && n <= 1ull << t.log_n) return t.window_bits;
	return 22;
}

std::atomic<uint64_t> launches[2];

cudaError_t init(MsmPlan* plan, Group group, uint64_t n) {
	if (n > msm_max_points || (group != Group::g1 && group != Group::g2)) return cudaErrorInvalidValue;
	int device = 0, sms = 0;
	WEIR_TRY(cudaGetDevice(&device));
	WEIR_TRY(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
	*plan = MsmPlan{};
	plan->group = group;
	plan->n = n;
	plan->blocks = sms * (group == Group::g1 ? RoundPolicy<G1>::blocks_per_sm : RoundPolicy<G2>::blocks_per_sm);
	while (1ull << plan->rounds < n) plan->rounds++;
	return cudaSuccess;
}

// Small calls need few prefixes: no more steps than give every thread its share.
void set_steps(MsmPlan* plan) {
	int most = plan->group == Group::g1 ? RoundPolicy<G1>::steps : RoundPolicy<G2>::steps;
	uint64_t pairs = plan->n * plan->windows_per_pass / 2, threads = (uint64_t)plan->blocks * round_threads;
	uint64_t need = (pairs + threads - 1) / threads;
	plan->steps = need < 1 ? 1 : need > (uint64_t)most ? most : (int)need;
}

cudaError_t size(MsmPlan* plan, bool sum) {
	set_steps(plan);
	return plan->group == Group::g1 ? size_g1(plan, sum) : size_g2(plan, sum);
}

}  // namespace
}  // namespace msm

cudaError_t msm_plan(MsmPlan* plan, Group group, uint64_t n, size_t memory_limit, int window_bits) {
	if (window_bits != 0 && (window_bits < 2 || window_bits > 23)) return cudaErrorInvalidValue;
	WEIR_TRY(msm::init(plan, group, n));
	plan->window_bits = window_bits ? window_bits : msm::tuned_bits(group, n);
	plan->windows = (255 + plan->window_bits - 1) / plan->window_bits;
	// Positions of elements and keys of buckets keep clear of bit 31 and of CUB's int. Passes of equal length take the least memory.
	for (int passes = 1; passes <= plan->windows; passes++) {
		plan->windows_per_pass = (plan->windows + passes - 1) / passes;
		if (n * plan->windows_per_pass > 1ull << 30) continue;
		WEIR_TRY(msm::size(plan, false));
		if (memory_limit == 0 || plan->workspace <= memory_limit) return cudaSuccess;
	}
	return cudaErrorMemoryAllocation;
}

cudaError_t sum_plan(MsmPlan* plan, Group group, uint64_t max_refs, size_t memory_limit) {
	WEIR_TRY(msm::init(plan, group, max_refs));
	plan->window_bits = 2;
	plan->windows = plan->windows_per_pass = 1;
	plan->rounds = plan->rounds > msm::tail_log ? plan->rounds - msm::tail_log : 0;
	WEIR_TRY(msm::size(plan, true));
	return memory_limit == 0 || plan->workspace <= memory_limit ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t msm_run(const MsmPlan& plan, const MsmInput& in, void* result, void* workspace, cudaStream_t stream) {
	WEIR_TRY(plan.group == Group::g1 ? msm::run_g1(plan, in, result, workspace, stream) : msm::run_g2(plan, in, result, workspace, stream));
	msm::launches[plan.group == Group::g2]++;
	return cudaSuccess;
}

cudaError_t sum_run(const MsmPlan& plan, const void* points, const uint32_t* refs, const uint32_t* count, void* result, void* workspace, cudaStream_t stream) {
	WEIR_TRY(plan.group == Group::g1 ? msm::sum_g1(plan, points, refs, count, result, workspace, stream)
					 : msm::sum_g2(plan, points, refs, count, result, workspace, stream));
	msm::launches[plan.group == Group::g2]++;
	return cudaSuccess;
}

uint64_t msm_launches(Group group) { return msm::launches[group == Group::g2]; }

}  // namespace weir
