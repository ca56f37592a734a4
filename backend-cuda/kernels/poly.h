// The scalars of the H points: from the evaluations a, b, c of a partition to what its H sum is taken over. Interface of the device level; rules as in ntt.h.
#pragma once

#include "ntt.h"

namespace weir {

// The bases of H points (sdk/groth16 HBasis). monomial: bellman, bellperson, gnark. odd_coset: snarkjs, with the points in the order of 7^t (CONVENTIONS 5).
enum class HBasis { monomial = 0, odd_coset = 1 };

struct QuotientCall {
	int log_n = 0;  // 0..28, at most that of the tables
	HBasis basis = HBasis::monomial;
	bool product = false;    // c has room only and is made as a b, which for a satisfying witness it is
	Fr *a = nullptr, *b = nullptr, *c = nullptr;  // N elements each: values at w^i, i < N, natural order
	Fr* remainder = nullptr;  // one element
	NttTuning tuning = {};
};

// Bytes of workspace of quotient.
size_t quotient_workspace(int log_n);

// P = a b - c. Leaves in a, exactly (no factor is left out):
//   odd_coset   P(u w^j), j < N, natural order, u = ntt_root(log_n + 1)
//   monomial    the coefficients of h = P / (X^N - 1), natural order; the last is zero for a satisfying witness
// b and c are spoiled. remainder gets the coefficient of X^(N-1) of h up to a factor that is not zero: zero for every satisfying witness, not zero for nearly all others
// when c came from the rows of C, always zero with product. Six or seven transforms; the product a b - c and the division are part of their passes.
cudaError_t quotient(const NttTables& tables, const QuotientCall& call, void* workspace, cudaStream_t stream);

// out = value at the point x of the polynomial whose coefficients are v, or, with values given on w^i, out[0] = sum v_i x^i in any case: sum of v[i] x^i, i < n.
// Horner's rule by many threads; workspace of power_sum_workspace bytes. n from 0 to 2^28.
size_t power_sum_workspace();
cudaError_t power_sum(Fr* out, const Fr* v, uint64_t n, const Fr& x, void* workspace, cudaStream_t stream);

}  // namespace weir
