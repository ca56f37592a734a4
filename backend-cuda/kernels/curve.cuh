// Points of the BLS12-381 groups: y^2 = x^3 + b over F = FpCall (G1) or Fp2Call (G2); no formula needs b. Affine points are laid out as gnark-crypto's G1Affine and
// G2Affine, infinity is all zero limbs. XYZZ: x = X/ZZ, y = Y/ZZZ, ZZ^3 = ZZZ^2; infinity has ZZ = 0. Every operation handles every case: infinity, equal and
// opposite points. Formulas: hyperelliptic.org/EFD, shortw xyzz (add-2008-s, madd-2008-s, dbl-2008-s-1, mdbl-2008-s-1).
#pragma once

#include "fp2.cuh"

namespace weir {

template <class F>
struct alignas(16) Affine {
	F x, y;

	WEIR_HD static Affine infinity() { return {F::zero(), F::zero()}; }
	WEIR_HD bool is_infinity() const { return x.is_zero() && y.is_zero(); }
	WEIR_HD Affine operator-() const { return {x, -y}; }
	WEIR_HD static Affine load(const Affine* p) { return {F::load(&p->x), F::load(&p->y)}; }
	WEIR_HD void store(Affine* p) const {
		x.store(&p->x);
		y.store(&p->y);
	}
	WEIR_HD void store_canonical(Affine* p) const {
		auto cx = canonical(x), cy = canonical(y);
		cx.store(reinterpret_cast<decltype(cx)*>(&p->x));
		cy.store(reinterpret_cast<decltype(cy)*>(&p->y));
	}
};

template <class F>
struct alignas(16) Xyzz {
	F x, y, zz, zzz;

	WEIR_HD static Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
	WEIR_HD static Xyzz from(const Affine<F>& a) {
		if (a.is_infinity()) return infinity();
		return {a.x, a.y, F::one(), F::one()};
	}
	WEIR_HD bool is_infinity() const { return zz.is_zero(); }
	WEIR_HD Xyzz operator-() const { return {x, -y, zz, zzz}; }

	// 6M + 3S.
	WEIR_HD Xyzz dbl() const {
		if (is_infinity()) return *this;
		F u = y.dbl(), v = u.sqr(), w = u * v, s = x * v;
		F m = x.sqr();
		m = m.dbl() + m;
		F x3 = m.sqr() - s.dbl();
		return {x3, m * (s - x3) - w * y, v * zz, w * zzz};
	}
	// 12M + 2S.
	WEIR_HD friend Xyzz operator+(const Xyzz& a, const Xyzz& b) {
		if (a.is_infinity()) return b;
		if (b.is_infinity()) return a;
		F u1 = a.x * b.zz, s1 = a.y * b.zzz;
		F p = b.x * a.zz - u1, r = b.y * a.zzz - s1;
		if (p.is_zero()) return r.is_zero() ? a.dbl() : infinity();
		F pp = p.sqr(), ppp = p * pp, q = u1 * pp;
		F x3 = r.sqr() - ppp - q.dbl();
		return {x3, r * (q - x3) - s1 * ppp, a.zz * b.zz * pp, a.zzz * b.zzz * ppp};
	}
	// 8M + 2S.
	WEIR_HD friend Xyzz operator+(const Xyzz& a, const Affine<F>& b) {
		if (b.is_infinity()) return a;
		if (a.is_infinity()) return from(b);
		F p = b.x * a.zz - a.x, r = b.y * a.zzz - a.y;
		if (p.is_zero()) return r.is_zero() ? a.dbl() : infinity();
		F pp = p.sqr(), ppp = p * pp, q = a.x * pp;
		F x3 = r.sqr() - ppp - q.dbl();
		return {x3, r * (q - x3) - a.y * ppp, a.zz * pp, a.zzz * ppp};
	}
	WEIR_HD Affine<F> affine() const {
		if (is_infinity()) return Affine<F>::infinity();
		F i = zzz.inverse(), z = i * zz;  // 1/Z^3, 1/Z
		return {x * z.sqr(), y * i};
	}
	// k times the point, for small k.
	WEIR_HD Xyzz times(uint32_t k) const {
		Xyzz r = infinity();
		for (int i = 31; i >= 0; i--) {
			r = r.dbl();
			if (k >> i & 1) r = r + *this;
		}
		return r;
	}
	WEIR_HD void store_canonical(Xyzz* p) const {
		const F from[4] = {x, y, zz, zzz};
		F* to[4] = {&p->x, &p->y, &p->zz, &p->zzz};
#pragma unroll
		for (int i = 0; i < 4; i++) {
			auto c = canonical(from[i]);
			c.store(reinterpret_cast<decltype(c)*>(to[i]));
		}
	}
	WEIR_HD static Xyzz load(const Xyzz* p) { return {F::load(&p->x), F::load(&p->y), F::load(&p->zz), F::load(&p->zzz)}; }
	WEIR_HD void store(Xyzz* p) const {
		x.store(&p->x);
		y.store(&p->y);
		zz.store(&p->zz);
		zzz.store(&p->zzz);
	}
};

// The coordinate field names the group in templates.
using G1 = FpCall;
using G2 = Fp2Call;
using G1Affine = Affine<G1>;
using G2Affine = Affine<G2>;
using G1Xyzz = Xyzz<G1>;
using G2Xyzz = Xyzz<G2>;

static_assert(sizeof(G1Affine) == 96 && sizeof(G2Affine) == 192, "the layouts of gnark-crypto's affine points");

}  // namespace weir
