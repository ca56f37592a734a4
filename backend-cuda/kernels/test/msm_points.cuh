// Points with known discrete logarithms and scalars of many kinds, made on the device from an index and a seed.
#pragma once

#include "check.cuh"
#include "curve.cuh"
#include "fr.cuh"

namespace weir {

WEIR_HD uint64_t mix(uint64_t x) {  // SplitMix64's finaliser
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

enum class Points { random, few, opposite, infinity, one };
enum class Scalars { random, zero, one, minus_one, equal, half_zero, bits, small, two_to_k, edge };

// The discrete logarithm of point i: a 32-bit number and a sign. 0 is the point at infinity.
WEIR_HD uint32_t log_of(Points kind, uint64_t i, bool* negative) {
	uint64_t h = mix(i * 2 + 1);
	*negative = false;
	switch (kind) {
	case Points::few: return (uint32_t)mix(h % 5) | 1;
	case Points::opposite: *negative = h >> 40 & 1; return (uint32_t)mix(h % 3) | 1;
	case Points::infinity: *negative = h >> 40 & 1; return h % 3 == 0 ? 0 : (uint32_t)(h >> 7);
	case Points::one: return 1;
	default: return (uint32_t)(h >> 9);
	}
}

WEIR_HD Fr random_fr(uint64_t seed) {
	Fr s;
	for (int j = 0; j < 4; j++) {
		uint64_t w = mix(seed * 4 + j);
		s.v[2 * j] = (uint32_t)w;
		s.v[2 * j + 1] = (uint32_t)(w >> 32);
	}
	s.v[7] &= 0x7fffffff;
	s.reduce();
	return s;
}

// Scalar i as an integer.
WEIR_HD Fr scalar_of(Scalars kind, uint64_t i) {
	uint64_t h = mix(i * 2 + 0x51ull);
	Fr s = Fr::zero(), one = Fr::zero();
	one.v[0] = 1;
	switch (kind) {
	case Scalars::zero: return s;
	case Scalars::one: return one;
	case Scalars::minus_one: return -one;
	case Scalars::equal: return random_fr(12345);
	case Scalars::half_zero: return h & 1 ? s : random_fr(i + 77);
	case Scalars::bits: return h % 3 == 0 ? s : h % 3 == 1 ? one : -one;
	case Scalars::small: s.v[0] = (uint32_t)(h >> 20) & 0xffff; return s;
	case Scalars::two_to_k: s.v[(h >> 5) % 7] = 1u << (h % 32); return h >> 60 & 1 ? -s : s;
	case Scalars::edge: {
		// Around r/2, where the sign of the whole scalar changes, and around powers of two.
		for (int j = 0; j < 8; j++) s.v[j] = FrParams::modulus(j);
		for (int j = 0; j < 8; j++) s.v[j] = s.v[j] >> 1 | (j < 7 ? s.v[j + 1] << 31 : 0);
		Fr d = Fr::zero();
		d.v[0] = (uint32_t)(h % 3);
		return h >> 40 & 1 ? s + d : s - d;
	}
	default: return random_fr(i + 1000003);
	}
}

// table[j 256 + d] = d 2^(8 j) G.
template <class F>
__global__ void table_kernel(Affine<F> g, Affine<F>* table) {
	int d = threadIdx.x, j = blockIdx.x;
	Xyzz<F> p = Xyzz<F>::from(g).times((uint32_t)d);
	for (int i = 0; i < 8 * j; i++) p = p.dbl();
	p.affine().store_canonical(table + 256 * j + d);
}

template <class F>
__global__ void points_kernel(const Affine<F>* table, Points kind, uint64_t n, Affine<F>* points) {
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
		bool negative;
		uint32_t k = log_of(kind, i, &negative);
		Xyzz<F> p = Xyzz<F>::infinity();
#pragma unroll 1
		for (int j = 0; j < 4; j++) p = p + Affine<F>::load(table + 256 * j + (k >> (8 * j) & 255));
		Affine<F> a = p.affine();
		(negative ? -a : a).store_canonical(points + i);
	}
}

static __global__ void scalars_kernel(Scalars kind, bool montgomery, uint64_t n, Fr* scalars) {
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
		Fr s = scalar_of(kind, i);
		(montgomery ? s.to_mont() : s).store(scalars + i);
	}
}

// Partial sums of scalar times logarithm, in Montgomery form. index as in MsmInput.
static __global__ void expected_kernel(Points points, Scalars kind, const uint32_t* index, uint64_t n, Fr* partial) {
	Fr sum = Fr::zero();
	uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
	for (uint64_t i = t; i < n; i += (uint64_t)gridDim.x * blockDim.x) {
		bool negative;
		Fr k = Fr::from_u32(log_of(points, i, &negative)), s = scalar_of(kind, index ? index[i] : i).to_mont();
		sum = negative ? sum - k * s : sum + k * s;
	}
	sum.store(partial + t);
}

// The generators of gnark-crypto, in Montgomery form computed from their standard coordinates.
inline FpLazy lift_hex(const char* hex) {
	Fp v = Fp::zero();
	for (; *hex; hex++) {
		uint32_t digit = *hex <= '9' ? *hex - '0' : *hex - 'a' + 10;
		for (int j = 11; j > 0; j--) v.v[j] = v.v[j] << 4 | v.v[j - 1] >> 28;
		v.v[0] = v.v[0] << 4 | digit;
	}
	return FpLazy::from(v.to_mont());
}
inline FpCall hex_fp(const char* hex) {
	FpLazy l = lift_hex(hex);
	FpCall c;
	for (int i = 0; i < 12; i++) c.v[i] = l.v[i];
	return c;
}
template <class F>
Affine<F> generator();
template <>
inline Affine<G1> generator<G1>() {
	return {hex_fp("17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"),
		hex_fp("08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1")};
}
template <>
inline Affine<G2> generator<G2>() {
	return {{hex_fp("024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"),
			hex_fp("13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e")},
		{hex_fp("0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801"),
			hex_fp("0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be")}};
}

// k G on the host, k in Montgomery form.
template <class F>
Affine<F> host_multiple(const Affine<F>& g, const Fr& k) {
	Fr s = k.from_mont();
	Xyzz<F> r = Xyzz<F>::infinity();
	for (int b = 255; b >= 0; b--) {
		r = r.dbl();
		if (s.v[b / 32] >> (b % 32) & 1) r = r + g;
	}
	Affine<F> a = r.affine(), out;
	a.store_canonical(&out);
	return out;
}

}  // namespace weir
