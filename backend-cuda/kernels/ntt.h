// Number-theoretic transforms over Fr on the device. Interface of the device level: plain C++ over device pointers.
//
// A polynomial's coefficients are turned into its values on D = {w^i}, w = 7^t of order N = 2^k (the root of gnark-crypto and bellman), or on g D for a shift g;
// g = u of order 2N gives the odd coset, where X^N - 1 is -2 throughout. snarkjs' root 5^t generates the same set in another order: its rows are placed
// (weir::position_of_row in spmv.h), no transform changes. A vector in bit-reversed order has at place p the element whose index has p's k bits backwards.
//
// Method. As backend-cpu/ntt: reducing f mod X^m - z^2 to f mod X^(m/2) - z and mod X^(m/2) + z halves a transform, and the factor z depends on the number b of
// the block only: T[b] = w^(rev b). One table serves all levels, all smaller domains and the powers of u in bit-reversed order, and 1/T[b] = -T[mirror b], so that an
// inverse transform reads the same table and swaps sum and difference. That is N/2 log2 N - (N-1) products, none of them between passes.
// A pass over memory does up to 10 levels of a tile of 2^10 elements; each thread holds 8 elements in registers for 3 levels, then the tile is exchanged through
// shared memory. One pass for N <= 2^10, two for N <= 2^20, three up to 2^28. Natural to natural order costs no pass of its own: the last one writes its rows as columns.
//
// The calls launch on the caller's stream, never allocate, never wait, and return the first error of a launch (cudaErrorInvalidValue for arguments that can never
// work); errors of execution show at the caller's next synchronisation. Vectors are device memory, 32 bytes an element, canonical Montgomery form, aligned to 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "fr.cuh"

namespace weir {

constexpr int ntt_max_log = 28;
constexpr int ntt_max_batch = 4;

// The root of unity of order 2^log, log <= 32: (7^((r-1)/2^32))^(2^(32-log)).
Fr ntt_root(int log);

// Table kinds. full: T[0..N), 32 N bytes: every factor and every power of u is one load. composed: two tables of about 32 (2^16 + N/2^16) bytes: factors beyond the first
// 2^16 cost one more product, which makes a transform of 2^27 about a third slower and spares 4 GiB.
enum class NttTableKind { full, composed };

// Tables that serve every N up to 2^log_n. Plain values: copy it freely; the memory is the caller's.
struct NttTables {
	int log_n;          // largest domain
	int log_low;        // entries of low; log_n where the table is full
	const Fr* low;      // T[b]
	const Fr* high;     // T[h << log_low], null where full
};

// Bytes of the tables; 0 where log_n is not in 0..28.
size_t ntt_tables_bytes(int log_n, NttTableKind kind);

// Fills memory (ntt_tables_bytes of it, aligned to 256 bytes) and describes it in *tables, valid once the stream has passed.
cudaError_t ntt_tables_make(NttTables* tables, int log_n, NttTableKind kind, void* memory, cudaStream_t stream);

// Powers of a shift g for cosets other than the odd one: scale g^i = lo[i mod 2^log_lo] hi[i >> log_lo].
struct NttShift {
	int log_n;
	int log_lo;
	const Fr* lo;
	const Fr* hi;
};
size_t ntt_shift_bytes(int log_n);
// g, scale: values on the host, not zero. For a forward transform on g D make the powers of g with scale 1; for the inverse the powers of 1/g with scale 1.
cudaError_t ntt_shift_make(NttShift* shift, int log_n, const Fr& g, const Fr& scale, void* memory, cudaStream_t stream);

enum class Order { natural, reversed };
enum class Coset { none, odd, shift };

// How levels are shared out to passes (log_n > 10): 3 to 10 each, their sum log_n, and a tile of 2^10 or 2^11 elements that no pass exceeds.
struct NttTuning {
	int passes = 0;
	int levels[3] = {};
	int tile_log = 10;
};
NttTuning ntt_tuning(int log_n);

struct NttCall {
	int log_n = 0;             // 0..28, at most that of the tables
	bool inverse = false;      // values to coefficients
	bool divide = true;        // of inverse: multiply by 1/N; false leaves N times the coefficients
	Order in_order = Order::natural;
	Order out_order = Order::natural;
	Coset coset = Coset::none;
	NttShift shift = {};       // of Coset::shift: powers of g (forward), of 1/g (inverse)
	int count = 1;             // vectors, transformed side by side: 1..4
	const Fr* in[ntt_max_batch] = {};
	Fr* out[ntt_max_batch] = {};      // out[i] == in[i] is in place
	Fr* scratch[ntt_max_batch] = {};  // N elements each, or null; see ntt_needs_scratch
	NttTuning tuning = {};     // for measurements; all zero: by the table
};

// Whether a call needs scratch: natural to natural order in place, above 2^10. (Reversed to reversed order is done in place with two more passes.)
bool ntt_needs_scratch(const NttCall& call);

// Transforms count vectors. in[i] is spoiled, unless out[i] is another vector and the orders differ or scratch is given. Vectors of one call must not overlap, but for in place.
cudaError_t ntt(const NttTables& tables, const NttCall& call, cudaStream_t stream);

// v in bit-reversed order, in place, or to out.
cudaError_t bit_reverse(Fr* out, const Fr* in, int log_n, cudaStream_t stream);

// Transforms launched in full by this process.
uint64_t ntt_launches();

}  // namespace weir
