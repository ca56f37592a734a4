// Products of the matrices of a constraint system with an assignment. Interface of the device level; rules as in witness.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fr.cuh"

namespace weir {

// How rows are placed on the domain of N = 2^log_n: seven: row i at i; five: at 3797895509 i mod N, as snarkjs' root of unity wants (CONVENTIONS 1, 5).
enum class RowOrder { seven = 0, five = 1 };
constexpr uint64_t rows_five_factor = 3797895509ull;

// A run of rows of a matrix in compressed rows: term k of row i is at start[i] - start[0] + k of wire and coeff. Starts are 32 or 64 bits wide, indexes of coefficients 16
// or 32. Nothing is checked on the device: starts must not fall, wires and indexes must be in range (sdk/r1cs.Validate).
struct SparseRows {
	uint64_t rows = 0;
	uint64_t terms = 0;  // start[rows] - start[0]
	const void* start = nullptr;  // device, rows + 1
	int start_bytes = 4;
	const uint32_t* wire = nullptr;
	const void* coeff = nullptr;
	int coeff_bytes = 4;
};

struct SpmvCall {
	SparseRows matrix;
	const Fr* coeffs = nullptr;  // device, dictionary, Montgomery form
	uint32_t nb_coeffs = 0;
	const Fr* scalars = nullptr;      // of witness_expand, one a variable
	const uint64_t* codes = nullptr;  // of witness_expand
	RowOrder order = RowOrder::seven;
	int log_n = 0;               // of five, and bounds the rows: first_row + rows + extra <= N
	uint64_t first_row = 0;      // number of the run's first row in the whole matrix
	uint64_t extra = 0;          // so many rows follow: row first_row + rows + j = variable j
	Fr* out = nullptr;           // N elements; only the places of these rows are written
};

// Bytes for a run of so many rows and terms.
size_t spmv_workspace(uint64_t rows, uint64_t terms, uint32_t nb_coeffs);

// out[place of row] = sum of coefficient times variable. A row of up to 48 terms is one thread's, a longer one a warp's, beyond 4096 terms one of many warps' each. Zeros are
// skipped; ones and minus ones with small coefficients (below 2^30, or as much below r) are summed up as integers; coefficients 1 and -1 are not multiplied.
cudaError_t spmv(const SpmvCall& call, void* workspace, size_t workspace_bytes, cudaStream_t stream);

// Calls of spmv by this process whose kernels were all launched.
uint64_t spmv_launches();

}  // namespace weir
