// The passes of a transform and what can be done to elements on the way, for ntt.cu and poly.cu.
#pragma once

#include "ntt.h"

namespace weir {
namespace ntt_detail {

// What is done to the elements on their way in or out. pos is the place in the vector.
enum class ScaleKind : int {
	none,
	constant,     // x k
	odd,          // x u^(rev pos): into the odd coset, vector in bit-reversed order
	odd_inverse,  // x u^-(rev pos) k
	odd_natural,  // x u^pos, vector in natural order
	odd_inverse_natural,
	powers,           // x lo hi at pos
	powers_reversed,  // at rev pos
	product,          // x other[pos]
	quotient,         // a[pos] b[pos] k2 - x k (k2 only where two)
};

struct Scale {
	ScaleKind kind = ScaleKind::none;
	int log_lo = 0;
	bool two = false;
	const Fr* lo = nullptr;     // powers; a of quotient
	const Fr* hi = nullptr;     // powers; b of quotient
	const Fr* other[ntt_max_batch] = {};  // product
	Fr k = {}, k2 = {};
};

enum class Addressing : int { strided, blocks, transposed };

struct Pass {
	const Fr* in[ntt_max_batch];
	Fr* out[ntt_max_batch];
	const Fr* low;   // twiddle factors
	const Fr* high;
	int log_low;
	int log_n;
	int levels;      // K, of this pass
	int log_cols;    // tile = 2^K rows times 2^log_cols columns
	int before;      // levels above this pass: there are 2^before blocks
	Addressing at;
	Scale load, store;
};

// A transform's launches. in, mid and out may be the same vector, but for natural to natural order above 2^10: there mid and out differ.
struct Transform {
	int log_n;
	bool inverse;
	Order in_order, out_order;
	int count;
	const Fr* in[ntt_max_batch];
	Fr* mid[ntt_max_batch];  // what all passes but the last write
	Fr* out[ntt_max_batch];
	Scale load, store;
	NttTuning tuning;  // passes > 0
};

// Passes first to last-1 (of tuning.passes; 1 where log_n <= 10).
cudaError_t run(const NttTables& tables, const Transform& t, int first, int last, cudaStream_t stream);

constexpr int small_max_log = 10;

}  // namespace ntt_detail
}  // namespace weir
