// MSM over G2.
#include "msm_run.cuh"

namespace weir {
namespace msm {

cudaError_t run_g2(const MsmPlan& plan, const MsmInput& in, void* result, void* workspace, cudaStream_t stream) {
	return run<G2>(plan, in, result, workspace, stream);
}

cudaError_t sum_g2(const MsmPlan& plan, const void* points, const uint32_t* refs, const uint32_t* count, void* result, void* workspace, cudaStream_t stream) {
	return run_sum<G2>(plan, points, refs, count, result, workspace, stream);
}

cudaError_t size_g2(MsmPlan* plan, bool sum) { return workspace_size<G2>(plan, sum); }

}  // namespace msm
}  // namespace weir
