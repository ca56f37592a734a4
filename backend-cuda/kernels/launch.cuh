// Checks after launches: the error of the launch itself always, that of its execution in builds with WEIR_DEBUG_SYNC.
#pragma once

#include <cuda_runtime.h>

namespace weir {

inline cudaError_t launched(cudaStream_t stream) {
	cudaError_t err = cudaGetLastError();
#if defined(WEIR_DEBUG_SYNC)
	if (err == cudaSuccess) err = cudaStreamSynchronize(stream);
#else
	(void)stream;
#endif
	return err;
}

}  // namespace weir

// Returns the error of a call from the function around it.
#define WEIR_TRY(call)                                  \
	do {                                            \
		cudaError_t weir_err = (call);          \
		if (weir_err != cudaSuccess) return weir_err; \
	} while (0)
