// MSM over G1.
#include "msm_run.cuh"

namespace weir {
namespace msm {

cudaError_t run_g1(const MsmPlan& plan, const MsmInput& in, void* result, void* workspace, cudaStream_t stream) {
	return run<G1>(plan, in, result, workspace, stream);
}

cudaError_t sum_g1(const MsmPlan& plan, const void* points, const uint32_t* refs, const uint32_t* count, void* result, void* workspace, cudaStream_t stream) {
	return run_sum<G1>(plan, points, refs, count, result, workspace, stream);
}

cudaError_t size_g1(MsmPlan* plan, bool sum) { return workspace_size<G1>(plan, sum); }

}  // namespace msm
}  // namespace weir
