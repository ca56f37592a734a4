// Extension<E>: E[u]/(u^2 + 1), laid out as gnark-crypto's E2 (c0 first). E is Fp or FpLazy; lazy components keep values below 2p.
#pragma once

#include "field.cuh"

namespace weir {

namespace detail {
// One factor of a Karatsuba product: an unreduced sum where the field allows it.
template <class P, bool Call>
WEIR_HD LazyField<P, Call> factor_sum(const LazyField<P, Call>& a, const LazyField<P, Call>& b) {
	return LazyField<P, Call>::sum_wide(a, b);
}
template <class P>
WEIR_HD Field<P> factor_sum(const Field<P>& a, const Field<P>& b) {
	return a + b;
}
}  // namespace detail

template <class E>
struct alignas(16) Extension {
	E c0, c1;

	WEIR_HD static Extension zero() { return {E::zero(), E::zero()}; }
	WEIR_HD static Extension one() { return {E::one(), E::zero()}; }
	WEIR_HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
	WEIR_HD bool may_be_zero() const { return c0.may_be_zero() && c1.may_be_zero(); }
	WEIR_HD bool is_blank() const { return c0.is_blank() && c1.is_blank(); }
	WEIR_HD friend bool operator==(const Extension& a, const Extension& b) { return a.c0 == b.c0 && a.c1 == b.c1; }
	WEIR_HD friend bool operator!=(const Extension& a, const Extension& b) { return !(a == b); }
	WEIR_HD friend Extension operator+(const Extension& a, const Extension& b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
	WEIR_HD friend Extension operator-(const Extension& a, const Extension& b) { return {a.c0 - b.c0, a.c1 - b.c1}; }
	WEIR_HD Extension operator-() const { return {-c0, -c1}; }
	WEIR_HD Extension dbl() const { return {c0.dbl(), c1.dbl()}; }
	// Karatsuba: three products.
	WEIR_HD friend Extension operator*(const Extension& a, const Extension& b) {
		E v0 = a.c0 * b.c0, v1 = a.c1 * b.c1;
		E s = detail::factor_sum(a.c0, a.c1) * (b.c0 + b.c1);
		return {v0 - v1, s - v0 - v1};
	}
	// (c0 + c1)(c0 - c1) + 2 c0 c1 u: two products.
	WEIR_HD Extension sqr() const {
		E t = c0 * c1;
		return {detail::factor_sum(c0, c1) * (c0 - c1), t + t};
	}
	WEIR_HD Extension inverse() const {  // 0 for 0
		E n = (c0.sqr() + c1.sqr()).inverse();
		return {c0 * n, -(c1 * n)};
	}
	WEIR_HD static Extension load(const void* p) {
		const E* e = static_cast<const E*>(p);
		return {E::load(e), E::load(e + 1)};
	}
	WEIR_HD void store(void* p) const {
		E* e = static_cast<E*>(p);
		c0.store(e);
		c1.store(e + 1);
	}
};

using Fp2 = Extension<Fp>;
using Fp2Call = Extension<FpCall>;

static_assert(sizeof(Fp2) == 96, "the layout of gnark-crypto's E2");

// The canonical form of a lazy element.
template <bool Call>
WEIR_HD Fp canonical(const LazyField<FpParams, Call>& a) {
	return a.canonical();
}
WEIR_HD Fp2 canonical(const Fp2Call& a) { return {a.c0.canonical(), a.c1.canonical()}; }

}  // namespace weir
