// Field<P>: an element of a prime field in Montgomery form, laid out as gnark-crypto's fp.Element and fr.Element (32-bit limbs, least significant first, on
// a little-endian machine the same bytes as its 64-bit limbs; R = 2^384 and 2^256). Values are canonical (below the modulus) in Field, and in everything that
// crosses a border. LazyField<P> is the same element with values below 2p, for inner loops: no last subtraction after a product. It exists for Fp only.
//
// Compiles with nvcc (device: PTX carry chains) and with g++ (plain C++), so that tests run without a GPU.
#pragma once

#include "field_inverse.cuh"
#include "field_params.cuh"
#include "field_ptx.cuh"

namespace weir {

template <class P>
struct alignas(16) Field {
	using Params = P;
	static constexpr int limbs = P::limbs;
	uint32_t v[limbs];

	WEIR_HD static Field zero() {
		Field r;
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = 0;
		return r;
	}
	WEIR_HD static Field one() {
		Field r;
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = P::one(i);
		return r;
	}
	WEIR_HD bool is_zero() const {
		uint32_t any = 0;
#pragma unroll
		for (int i = 0; i < limbs; i++) any |= v[i];
		return any == 0;
	}
	WEIR_HD friend bool operator==(const Field& a, const Field& b) {
		uint32_t any = 0;
#pragma unroll
		for (int i = 0; i < limbs; i++) any |= a.v[i] ^ b.v[i];
		return any == 0;
	}
	WEIR_HD friend bool operator!=(const Field& a, const Field& b) { return !(a == b); }

	WEIR_HD friend Field operator+(const Field& a, const Field& b) {
		Field r;
		limb::add<limbs>(r.v, a.v, b.v);  // below 2p: no carry out of the limbs in either field
		r.reduce();
		return r;
	}
	WEIR_HD friend Field operator-(const Field& a, const Field& b) {
		Field r;
		uint32_t borrow = limb::sub<limbs>(r.v, a.v, b.v);
		uint32_t m[limbs];
#pragma unroll
		for (int i = 0; i < limbs; i++) m[i] = P::modulus(i) & borrow;
		limb::add<limbs>(r.v, r.v, m);
		return r;
	}
	WEIR_HD Field operator-() const { return zero() - *this; }
	WEIR_HD Field dbl() const { return *this + *this; }
	WEIR_HD friend Field operator*(const Field& a, const Field& b) {
		Field r = mul_lazy(a, b);
		r.reduce();
		return r;
	}
	WEIR_HD Field sqr() const { return *this * *this; }
	WEIR_HD Field inverse() const {  // 0 for 0
		Field r;
		limb::mont_inverse<P>(r.v, v);
		return r;
	}
	// a b / R below 2p, without the last subtraction. a must be canonical; b may be any value of the limbs (so below 2p too).
	WEIR_HD static Field mul_lazy(const Field& a, const Field& b) {
		Field r;
		limb::mont_mul<P>(r.v, a.v, b.v);
		return r;
	}
	// From [0, 2p) to [0, p).
	WEIR_HD void reduce() {
		uint32_t m[limbs], t[limbs];
#pragma unroll
		for (int i = 0; i < limbs; i++) m[i] = P::modulus(i);
		uint32_t borrow = limb::sub<limbs>(t, v, m);
#pragma unroll
		for (int i = 0; i < limbs; i++) v[i] = borrow ? v[i] : t[i];
	}
	// An integer below the modulus to Montgomery form and back.
	WEIR_HD Field to_mont() const {
		Field r2;
#pragma unroll
		for (int i = 0; i < limbs; i++) r2.v[i] = P::r2(i);
		return *this * r2;
	}
	WEIR_HD Field from_mont() const {
		Field u = zero();
		u.v[0] = 1;
		return *this * u;
	}
	WEIR_HD static Field from_u32(uint32_t x) {
		Field r = zero();
		r.v[0] = x;
		return r.to_mont();
	}

	// 16-byte loads and stores; p must be aligned to 16 bytes, as every element in device memory is.
	WEIR_HD static Field load(const Field* p) {
#if defined(__CUDA_ARCH__)
		Field r;
#pragma unroll
		for (int i = 0; i < limbs / 4; i++) {
			uint4 q = reinterpret_cast<const uint4*>(p)[i];
			r.v[4 * i] = q.x;
			r.v[4 * i + 1] = q.y;
			r.v[4 * i + 2] = q.z;
			r.v[4 * i + 3] = q.w;
		}
		return r;
#else
		return *p;
#endif
	}
	WEIR_HD void store(Field* p) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
		for (int i = 0; i < limbs / 4; i++) reinterpret_cast<uint4*>(p)[i] = make_uint4(v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]);
#else
		*p = *this;
#endif
	}
};

// Values below 2p. A product may take one factor below 4p and the other below 2p: 8 p^2/R + p < 2p, as R > 9.8 p. With Call, products are one function that is called
// instead of 370 instructions in place: loops over point formulas then fit the instruction cache and compile in seconds.
template <class P, bool Call = false>
struct alignas(16) LazyField {
	static_assert(P::lazy, "2p must be far enough below R");
	using Params = P;
	using Canonical = Field<P>;
	static constexpr int limbs = P::limbs;
	uint32_t v[limbs];

	WEIR_HD static LazyField zero() { return from(Canonical::zero()); }
	WEIR_HD static LazyField one() { return from(Canonical::one()); }
	WEIR_HD static LazyField from(const Canonical& a) {
		LazyField r;
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = a.v[i];
		return r;
	}
	WEIR_HD Canonical canonical() const {
		Canonical r;
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = v[i];
		r.reduce();
		return r;
	}
	WEIR_HD bool is_zero() const {  // 0 or p
		uint32_t any = 0, anyp = 0;
#pragma unroll
		for (int i = 0; i < limbs; i++) {
			any |= v[i];
			anyp |= v[i] ^ P::modulus(i);
		}
		return any == 0 || anyp == 0;
	}
	// False only if the value is not zero: one word looked at, so about one in 2^31 others passes too.
	WEIR_HD bool may_be_zero() const { return v[0] == 0 || v[0] == P::modulus(0); }
	// All limbs zero, as points at infinity are written.
	WEIR_HD bool is_blank() const {
		uint32_t any = 0;
#pragma unroll
		for (int i = 0; i < limbs; i++) any |= v[i];
		return any == 0;
	}
	WEIR_HD friend bool operator==(const LazyField& a, const LazyField& b) { return (a - b).is_zero(); }
	WEIR_HD friend bool operator!=(const LazyField& a, const LazyField& b) { return !(a == b); }

	WEIR_HD friend LazyField operator+(const LazyField& a, const LazyField& b) {
		LazyField r;
		uint32_t m[limbs], t[limbs];
		limb::add<limbs>(r.v, a.v, b.v);
#pragma unroll
		for (int i = 0; i < limbs; i++) m[i] = P::modulus2(i);
		uint32_t borrow = limb::sub<limbs>(t, r.v, m);
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = borrow ? r.v[i] : t[i];
		return r;
	}
	WEIR_HD friend LazyField operator-(const LazyField& a, const LazyField& b) {
		LazyField r;
		uint32_t borrow = limb::sub<limbs>(r.v, a.v, b.v);
		if (borrow) {
			uint32_t m[limbs];
#pragma unroll
			for (int i = 0; i < limbs; i++) m[i] = P::modulus2(i);
			limb::add<limbs>(r.v, r.v, m);
		}
		return r;
	}
	// a + b below 4p: only as one factor of a product.
	WEIR_HD static LazyField sum_wide(const LazyField& a, const LazyField& b) {
		LazyField r;
		limb::add<limbs>(r.v, a.v, b.v);
		return r;
	}
	WEIR_HD LazyField operator-() const {  // 2p - a; 0 stays 0 so that a blank stays blank
		LazyField r;
		uint32_t m[limbs];
		uint32_t some = is_blank() ? 0u : 0xffffffffu;
#pragma unroll
		for (int i = 0; i < limbs; i++) m[i] = P::modulus2(i) & some;
		limb::sub<limbs>(r.v, m, v);
		return r;
	}
	WEIR_HD LazyField dbl() const { return *this + *this; }
	WEIR_HD friend LazyField operator*(const LazyField& a, const LazyField& b) {
		if constexpr (Call) {
			return mul_call(a, b);
		} else {
			LazyField r;
			multiply(r, a, b);
			return r;
		}
	}
	// By value: the arguments and the result travel in registers.
	WEIR_HD_CALL static LazyField mul_call(LazyField a, LazyField b) {
		LazyField r;
		multiply(r, a, b);
		return r;
	}
	WEIR_HD static void multiply(LazyField& r, const LazyField& a, const LazyField& b) {
#if defined(__CUDA_ARCH__) && !defined(WEIR_MUL_CIOS)
		limb::mont_mul_shift<P>(r.v, a.v, b.v);
#else
		limb::mont_mul<P>(r.v, a.v, b.v);
#endif
	}
	WEIR_HD LazyField sqr() const { return *this * *this; }
	WEIR_HD LazyField inverse() const { return from(canonical().inverse()); }

	WEIR_HD static LazyField load(const void* p) { return from(Canonical::load(static_cast<const Canonical*>(p))); }
	WEIR_HD void store(void* p) const {
		Canonical r;
#pragma unroll
		for (int i = 0; i < limbs; i++) r.v[i] = v[i];
		r.store(static_cast<Canonical*>(p));
	}
};

using Fp = Field<FpParams>;
using Fr = Field<FrParams>;
using FpLazy = LazyField<FpParams>;
using FpCall = LazyField<FpParams, true>;

static_assert(sizeof(Fp) == 48 && sizeof(Fr) == 32 && sizeof(FpLazy) == 48, "the layout of gnark-crypto's elements");

}  // namespace weir
