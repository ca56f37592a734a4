// Field and curve operations of the kernels' headers, compiled for the host and driven by vectors_test.go: a record on standard input (a letter and two operands)
// is answered by the results of every operation on standard output.
#include <cstdio>
#include <cstring>

#include "../../curve.cuh"

using namespace weir;

namespace {

template <class T>
bool read(T* v, int n) {
	return fread(v, sizeof(T), n, stdin) == (size_t)n;
}

template <class T>
void write(const T& v) {
	fwrite(&v, sizeof v, 1, stdout);
}

template <class F>
bool field() {
	F v[2];
	if (!read(v, 2)) return false;
	F a = v[0], b = v[1];
	write(a * b);
	write(a.sqr());
	write(a + b);
	write(a - b);
	write(-a);
	write(a.dbl());
	write(a.inverse());
	write(a.to_mont());
	write(a.from_mont());
	F eq = F::zero();
	eq.v[0] = (a == b) | a.is_zero() << 1;
	write(eq);
	return true;
}

// Lazy values are fed as they are and raised by p, so that the whole range [0, 2p) is seen.
bool lazy() {
	Fp v[2];
	if (!read(v, 2)) return false;
	uint32_t p[12];
	for (int i = 0; i < 12; i++) p[i] = FpParams::modulus(i);
	for (int raise = 0; raise < 4; raise++) {
		FpLazy a = FpLazy::from(v[0]), b = FpLazy::from(v[1]);
		if (raise & 1) limb::add<12>(a.v, a.v, p);
		if (raise & 2) limb::add<12>(b.v, b.v, p);
		write((a * b).canonical());
		write(a.sqr().canonical());
		write((a + b).canonical());
		write((a - b).canonical());
		write((-a).canonical());
		write((FpLazy::sum_wide(a, b) * (a - b)).canonical());
		write(a.inverse().canonical());
		Fp eq = Fp::zero();
		eq.v[0] = (a == b) | a.is_zero() << 1 | (a.is_zero() && !a.may_be_zero()) << 2;
		write(eq);
	}
	return true;
}

bool extension() {
	Fp2Call v[2];
	if (!read(v, 2)) return false;
	Fp2Call a = v[0], b = v[1];
	write(canonical(a * b));
	write(canonical(a.sqr()));
	write(canonical(a + b));
	write(canonical(a - b));
	write(canonical(-a));
	write(canonical(a.dbl()));
	write(canonical(a.inverse()));
	return true;
}

template <class F>
void write_affine(const Xyzz<F>& p) {
	Affine<F> a;
	p.affine().store_canonical(&a);
	write(a);
}

// The same point with another ZZ: what long sums look like.
template <class F>
Xyzz<F> scaled(const Affine<F>& a, const F& z) {
	if (a.is_infinity()) return Xyzz<F>::infinity();
	F zz = z.sqr(), zzz = zz * z;
	return {a.x * zz, a.y * zzz, zz, zzz};
}

template <class F>
bool curve() {
	Affine<F> v[2];
	if (!read(v, 2)) return false;
	Affine<F> p = v[0], q = v[1];
	F z = F::one().dbl() + F::one(), t = z.dbl().dbl() - F::one();
	Xyzz<F> sp = scaled(p, z), sq = scaled(q, t);
	write_affine(Xyzz<F>::from(p) + q);
	write_affine(sp + q);
	write_affine(sp + sq);
	write_affine(sp + -sq);
	write_affine(Xyzz<F>::from(p).dbl());
	write_affine(sp.dbl());
	write_affine(sp + scaled(p, t));
	write_affine(sp + -p);
	write_affine(sp.times(0));
	write_affine(sp.times(1000003));
	return true;
}

}  // namespace

int main() {
	for (int op; (op = getchar()) != EOF;) {
		bool ok = op == 'p' ? field<Fp>() : op == 'r' ? field<Fr>() : op == 'l' ? lazy() : op == 'e' ? extension() : op == '1' ? curve<G1>() : op == '2' && curve<G2>();
		if (!ok) {
			fprintf(stderr, "host_ops: bad record %c\n", op);
			return 1;
		}
	}
	return 0;
}
