// Multiples of one point by many scalars, for development keys. Interface of the device level: plain C++; rules as in ntt.h.
//
// Windows of 8 bits: the table has d 2^(8 w) P for 32 windows w and 256 digits d (0.8 MB in G1, 1.6 MB in G2, so it stays in the second-level cache), and a multiple is at most
// 32 additions to an XYZZ sum and one inversion, some 430 products: 27.8 G/s make 65 M points/s in G1.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fr.cuh"
#include "msm.h"

namespace weir {

size_t fixed_base_bytes(Group group);

// Fills table (device, fixed_base_bytes, aligned to 256 bytes) for a finite point (device, affine).
cudaError_t fixed_base_table(Group group, const void* point, void* table, cudaStream_t stream);

// points[i] = scalars[i] P, affine and canonical. Scalars are in Montgomery form; n may be 0.
cudaError_t fixed_base(Group group, const void* table, const Fr* scalars, uint64_t n, void* points, cudaStream_t stream);

// Calls of fixed_base by this process whose kernels were launched.
uint64_t fixed_base_launches();

}  // namespace weir
