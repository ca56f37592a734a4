// The assignment of a partition on the device: from the compact form of sdk/assignment to scalars, sorted by what they cost. Interface of the device level; rules as in
// ntt.h: nothing is allocated or waited for, workspace is the caller's (aligned to 256 bytes), errors are values.
//
// Codes are two bits a variable: 0 zero, 1 one, 2 any other value, 3 minus one. Word i of a code vector holds variables 32 i to 32 i + 31: bit j of its low half and bit j
// of its high half are the low and the high bit of the code of variable 32 i + j. In circuits over bits nearly all variables are 0 or 1, and 130 million codes (33 MB)
// stay in the second-level cache while rows of matrices are summed up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fr.cuh"

namespace weir {

constexpr uint64_t witness_max_wires = 1ull << 31;

enum : uint32_t { code_zero = 0, code_one = 1, code_other = 2, code_minus_one = 3 };

inline uint64_t witness_code_words(uint64_t wires) { return (wires + 31) / 32; }  // of 8 bytes

// How many values there are of each kind; small are those others that are below 2^64 or at least r - 2^64, so that their sums need few windows.
struct WitnessCounts {
	uint64_t zero, one, other, minus_one, small;
};

struct WitnessCall {
	bool compact = false;
	uint64_t wires = 0;              // 1 to 2^31
	uint64_t listed = 0;             // values in list; dense: wires
	const uint64_t* is_bit = nullptr;  // compact: ceil(wires/64) words each; bits beyond wires are ignored
	const uint64_t* value = nullptr;
	const uint32_t* rank = nullptr;  // compact: ceil(wires/512), listed values before variable 512 k
	const Fr* list = nullptr;        // canonical Montgomery form
	Fr* scalars = nullptr;           // out, wires elements; may be list where dense; null: only codes are made
	uint64_t* codes = nullptr;       // out, witness_code_words(wires)
	WitnessCounts* counts = nullptr; // out, device
};

// Expands and classifies. Ranks and bitmaps must agree, as sdk/assignment.Parse checks; where they do not, values are wrong but nothing is read outside list.
cudaError_t witness_expand(const WitnessCall& call, cudaStream_t stream);

// Picks the terms of a sum over points by the codes of their variables: point j belongs to variable index[j] (ascending; a key's A or B points, which are of some variables
// only), or to first + j where index is null.
struct SelectCall {
	const uint64_t* codes = nullptr;
	uint64_t points = 0;             // up to 2^31 - 1
	const uint32_t* index = nullptr;
	uint64_t first = 0;
	uint32_t* signs = nullptr;       // out, room for points: j | negative << 31 for each 1 and -1, ascending in j
	uint32_t* rest = nullptr;        // out, room for points: j of each other value that is not 0, ascending
	uint32_t* rest_wires = nullptr;  // out, the same: its variable
	uint32_t* counts = nullptr;      // out, two: entries of signs, entries of rest
};
size_t select_workspace(uint64_t points);
cudaError_t witness_select(const SelectCall& call, void* workspace, size_t workspace_bytes, cudaStream_t stream);

// to[i] = from[index[i]], i < n: elements of bytes each (a multiple of 16: scalars, points).
cudaError_t gather_elements(void* to, const void* from, const uint32_t* index, uint64_t n, uint32_t bytes, cudaStream_t stream);

// Calls of witness_expand by this process whose kernels were all launched.
uint64_t witness_launches();

}  // namespace weir
