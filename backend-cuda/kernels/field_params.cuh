// Constants of the two BLS12-381 fields, in 32-bit limbs, least significant first. Every one is recomputed by the host tests.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define WEIR_HD __host__ __device__ __forceinline__
#define WEIR_HD_CALL __host__ __device__ __noinline__
#else
#define WEIR_HD inline
#define WEIR_HD_CALL inline
#endif

namespace weir {

#if defined(__CUDACC__)
// -1/r mod 2^32 = -1, in constant memory: known to the compiler, a product with -1 becomes a negation that is folded into the low halves of the products that
// follow, and these are then no longer one wide multiplication with their high halves.
static __constant__ uint32_t fr_neg_inv_bank = 0xffffffffu;
#endif

// A local constexpr array behind a function: the one form that host code, device code and unrolled loops all fold to immediates.
#define WEIR_LIMBS(name, n, ...)                          \
	WEIR_HD static constexpr uint32_t name(int i) {   \
		constexpr uint32_t limbs[n] = {__VA_ARGS__}; \
		return limbs[i];                          \
	}

// FpParams is the base field: p has 381 bits, so R = 2^384 leaves room for sums up to 9 p.
struct FpParams {
	static constexpr int limbs = 12;
	static constexpr uint32_t neg_inv = 0xfffcfffdu;  // -1/p mod 2^32
	static constexpr uint32_t inv30 = 0x00030003u;    // 1/p mod 2^30
	static constexpr bool lazy = true;                // products of values below 2p stay below 2p without a subtraction
	WEIR_LIMBS(modulus, 12, 0xffffaaabu, 0xb9feffffu, 0xb153ffffu, 0x1eabfffeu, 0xf6b0f624u, 0x6730d2a0u, 0xf38512bfu, 0x64774b84u, 0x434bacd7u,
		0x4b1ba7b6u, 0x397fe69au, 0x1a0111eau)
	WEIR_LIMBS(modulus2, 12, 0xffff5556u, 0x73fdffffu, 0x62a7ffffu, 0x3d57fffdu, 0xed61ec48u, 0xce61a541u, 0xe70a257eu, 0xc8ee9709u, 0x869759aeu,
		0x96374f6cu, 0x72ffcd34u, 0x340223d4u)
	WEIR_HD static uint32_t quotient(uint32_t low) { return low * neg_inv; }  // the multiple of p that clears a low limb
	// R mod p, the Montgomery form of one.
	WEIR_LIMBS(one, 12, 0x0002fffdu, 0x76090000u, 0xc40c0002u, 0xebf4000bu, 0x53c758bau, 0x5f489857u, 0x70525745u, 0x77ce5853u, 0xa256ec6du, 0x5c071a97u,
		0xfa80e493u, 0x15f65ec3u)
	// 2^-32 mod p.
	WEIR_LIMBS(shift, 12, 0xd202aaacu, 0xa603d203u, 0x5553ec07u, 0x582cc18eu, 0x493b9a2eu, 0x546364d0u, 0xe39055a1u, 0x940e1798u, 0x6ad5ebd1u, 0xeacd1294u, 0xb5be045bu, 0x1a00c3e6u)
	// R^2 mod p.
	WEIR_LIMBS(r2, 12, 0x1c341746u, 0xf4df1f34u, 0x09d104f1u, 0x0a76e6a6u, 0x4c95b6d5u, 0x8de5476cu, 0x939d83c0u, 0x67eb88a9u, 0xb519952du, 0x9a793e85u,
		0x92cae3aau, 0x11988fe5u)
};

// FrParams is the scalar field: r has 255 bits, so 2r fits R = 2^256 and 3r does not.
struct FrParams {
	static constexpr int limbs = 8;
	static constexpr uint32_t neg_inv = 0xffffffffu;
	static constexpr uint32_t inv30 = 0x00000001u;
	static constexpr bool lazy = false;
	WEIR_LIMBS(modulus, 8, 0x00000001u, 0xffffffffu, 0xfffe5bfeu, 0x53bda402u, 0x09a1d805u, 0x3339d808u, 0x299d7d48u, 0x73eda753u)
	WEIR_LIMBS(modulus2, 8, 0x00000002u, 0xfffffffeu, 0xfffcb7fdu, 0xa77b4805u, 0x1343b00au, 0x6673b010u, 0x533afa90u, 0xe7db4ea6u)
	WEIR_HD static uint32_t quotient(uint32_t low) {
#if defined(__CUDA_ARCH__)
		return low * fr_neg_inv_bank;
#else
		return low * neg_inv;
#endif
	}
	WEIR_LIMBS(one, 8, 0xfffffffeu, 0x00000001u, 0x00034802u, 0x5884b7fau, 0xecbc4ff5u, 0x998c4fefu, 0xacc5056fu, 0x1824b159u)
	WEIR_LIMBS(r2, 8, 0xf3f29c6du, 0xc999e990u, 0x87925c23u, 0x2b6cedcbu, 0x7254398fu, 0x05d31496u, 0x9f59ff11u, 0x0748d9d9u)
};

}  // namespace weir
