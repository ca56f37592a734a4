// Checks witnesses, sparse products and quotients on a GPU, then times them.
//
//	poly_check VECTORS [-max LOG] [-small] [-no-times] [-times]
//
// VECTORS is the folder that backend-cuda/internal/vectors wrote: circuits with a, b, c and the scalars of H as the SDK and the CPU backend make them. Large quotients are
// checked at random points by their definition, large sparse products against a kernel that only knows one thread a row and full products. Exit status 0 only
// if everything agreed.
#include "../poly.h"

#include "../spmv.h"
#include "../witness.h"
#include "fr_check.cuh"

using namespace check;
using namespace weir;

namespace {

struct Tables {
	Device<char> memory;
	NttTables t;
	Tables(int log, NttTableKind kind) : memory(ntt_tables_bytes(log, kind)) { CUDA_OK(ntt_tables_make(&t, log, kind, memory.p, 0)); }
};

uint32_t host_code(const Fr& x) { return x.is_zero() ? code_zero : x == Fr::one() ? code_one : x == -Fr::one() ? code_minus_one : code_other; }

std::vector<uint64_t> host_codes(const std::vector<Fr>& w) {
	std::vector<uint64_t> codes(witness_code_words(w.size()));
	for (size_t i = 0; i < w.size(); i++) {
		uint64_t c = host_code(w[i]);
		codes[i / 32] |= (c & 1) << (i % 32) | (c >> 1) << (32 + i % 32);
	}
	return codes;
}

void check_select(const std::vector<uint64_t>& codes, uint64_t wires, const std::string& what) {
	Device<uint64_t> dc(codes);
	auto code = [&](uint64_t i) { return (codes[i / 32] >> (i % 32) & 1) | (codes[i / 32] >> (32 + i % 32) & 1) << 1; };
	for (int how = 0; how < 3; how++) {
		SelectCall s;
		s.codes = dc.p;
		std::vector<uint32_t> index;
		if (how == 0) {
			s.points = wires;
		} else if (how == 1) {
			s.first = wires / 3;
			s.points = wires - s.first;
		} else {
			for (uint64_t i = 0; i < wires; i++)
				if (mix(i) % 3) index.push_back((uint32_t)i);
			s.points = index.size();
		}
		Device<uint32_t> di(index), signs(s.points), rest(s.points), rest_wires(s.points), counts(2);
		if (how == 2) s.index = di.p;
		s.signs = signs.p;
		s.rest = rest.p;
		s.rest_wires = rest_wires.p;
		s.counts = counts.p;
		Device<char> work(select_workspace(s.points));
		if (!expect(witness_select(s, work.p, work.n, 0) == cudaSuccess, what + " select: launch")) continue;
		std::vector<uint32_t> want_signs, want_rest, want_wires;
		for (uint64_t j = 0; j < s.points; j++) {
			uint32_t wire = how == 2 ? index[j] : (uint32_t)(s.first + j);
			if (code(wire) & 1) want_signs.push_back((uint32_t)(j | (code(wire) >> 1) << 31));
			if (code(wire) == code_other) want_rest.push_back((uint32_t)j), want_wires.push_back(wire);
		}
		auto n = counts.get();
		auto prefix = [](std::vector<uint32_t> v, size_t k) {
			v.resize(std::min(k, v.size()));
			return v;
		};
		expect(n[0] == want_signs.size() && prefix(signs.get(), n[0]) == want_signs, what + " select: signs, way " + std::to_string(how));
		expect(n[1] == want_rest.size() && prefix(rest.get(), n[1]) == want_rest && prefix(rest_wires.get(), n[1]) == want_wires, what + " select: rest, way " + std::to_string(how));
	}
}

void circuit_file(const std::string& path, const std::string& name) {
	Vectors v(path);
	auto meta = v.get<uint64_t>("meta");
	const int log = (int)meta[0];
	const uint64_t n = 1ull << log, rows = meta[1], wires = meta[2], extra = meta[3] + 1;
	const bool has_c = meta[4];
	auto witness = v.get<Fr>("witness"), list = v.get<Fr>("list"), coeffs = v.get<Fr>("coeffs");
	auto codes = host_codes(witness);
	Device<Fr> dlist(list), dense(witness), scalars(wires), dcoeffs(coeffs);
	Device<uint64_t> is_bit(v.get<uint64_t>("is_bit")), value(v.get<uint64_t>("value")), dcodes(codes.size());
	Device<uint32_t> rank(v.get<uint32_t>("rank"));
	Device<WitnessCounts> counts(1);

	WitnessCounts want = {};
	for (auto& x : witness) {
		uint32_t c = host_code(x);
		(c == code_zero ? want.zero : c == code_one ? want.one : c == code_other ? want.other : want.minus_one)++;
		Fr p = x.from_mont(), m = (-x).from_mont();
		auto fits = [](const Fr& y) { return (y.v[2] | y.v[3] | y.v[4] | y.v[5] | y.v[6] | y.v[7]) == 0; };
		if (c == code_other && (fits(p) || fits(m))) want.small++;
	}
	for (int form = 0; form < 3; form++) {  // compact, dense, dense where it lies
		WitnessCall w;
		w.compact = form == 0;
		w.wires = wires;
		w.listed = form == 0 ? list.size() : wires;
		w.is_bit = is_bit.p;
		w.value = value.p;
		w.rank = rank.p;
		w.list = form == 0 ? dlist.p : dense.p;
		scalars.make(wires);
		dcodes.make(codes.size());
		w.scalars = form == 2 ? dense.p : scalars.p;
		w.codes = dcodes.p;
		w.counts = counts.p;
		if (!expect(witness_expand(w, 0) == cudaSuccess, name + " witness: launch")) return;
		expect(same(form == 2 ? dense.get() : scalars.get(), witness), name + " witness form " + std::to_string(form));
		auto got_codes = dcodes.get();
		expect(got_codes == codes, name + " codes form " + std::to_string(form));
		WitnessCounts got = counts.get()[0];
		expect(memcmp(&got, &want, sizeof got) == 0, name + " counts form " + std::to_string(form));
	}
	check_select(codes, wires, name);

	// Sparse products: whole, and in runs, with every width of start and coefficient.
	std::vector<Fr> abc[3] = {v.get<Fr>("a"), v.get<Fr>("b"), v.get<Fr>("c")};
	for (int m = 0; m < 3; m++) {
		if (m == 2 && !has_c) break;
		std::string letter(1, "ABC"[m]);
		auto start = v.get<uint32_t>(("start" + letter).c_str());
		auto wire = v.get<uint32_t>(("wire" + letter).c_str()), coeff = v.get<uint32_t>(("coeff" + letter).c_str());
		std::vector<uint64_t> start64(start.begin(), start.end());
		std::vector<uint16_t> coeff16(coeff.begin(), coeff.end());
		Device<uint32_t> dstart(start), dwire(wire), dcoeff(coeff);
		Device<uint64_t> dstart64(start64);
		Device<uint16_t> dcoeff16(coeff16);
		for (int way = 0; way < 6; way++) {
			Device<Fr> out(n);
			CUDA_OK(cudaMemset(out.p, 0, 32 * n));
			uint64_t run = way < 4 ? rows : way == 4 ? (rows + 2) / 3 : 1;
			if (way == 5 && rows > 64) run = 37;
			bool ok = true;
			for (uint64_t first = 0; first < std::max<uint64_t>(rows, 1); first += std::max<uint64_t>(run, 1)) {
				SpmvCall c;
				uint64_t last = std::min(rows, first + run);
				c.matrix.rows = last - first;
				c.matrix.terms = rows == 0 ? 0 : start[last] - start[first];
				uint64_t at = rows == 0 ? 0 : start[first];
				c.matrix.start_bytes = way & 1 ? 8 : 4;
				c.matrix.start = way & 1 ? (const void*)(dstart64.p + first) : dstart.p + first;
				c.matrix.wire = dwire.p + at;
				c.matrix.coeff_bytes = way & 2 ? 2 : 4;
				c.matrix.coeff = way & 2 ? (const void*)(dcoeff16.p + at) : dcoeff.p + at;
				c.coeffs = dcoeffs.p;
				c.nb_coeffs = (uint32_t)coeffs.size();
				c.scalars = dense.p;
				c.codes = dcodes.p;
				c.order = (RowOrder)meta[5];
				c.log_n = log;
				c.first_row = first;
				c.extra = m == 0 && last == rows ? extra : 0;
				c.out = out.p;
				Device<char> work(spmv_workspace(c.matrix.rows, c.matrix.terms, c.nb_coeffs));
				ok = ok && spmv(c, work.p, work.n, 0) == cudaSuccess;
				CUDA_OK(cudaDeviceSynchronize());
				if (last == rows) break;
			}
			expect(ok && same(out.get(), abc[m]), name + " matrix " + letter + " way " + std::to_string(way));
		}
	}

	// Quotients.
	for (int basis = 0; basis < 2; basis++)
		for (int kind = 0; kind < 2; kind++)
			for (int product = 0; product < 2; product++) {
				if (product && has_c && name.substr(0, 6) == "random") continue;  // c is not a b there
				Tables t(log, kind ? NttTableKind::composed : NttTableKind::full);
				Device<Fr> a(abc[0]), b(abc[1]), c(abc[2]), remainder(1);
				if (product) c.make(n);
				QuotientCall q;
				q.log_n = log;
				q.basis = basis ? HBasis::odd_coset : HBasis::monomial;
				q.product = product;
				q.a = a.p, q.b = b.p, q.c = c.p;
				q.remainder = remainder.p;
				Device<char> work(quotient_workspace(log));
				std::string what = name + " quotient basis " + std::to_string(basis) + (product ? " product" : "");
				if (!expect(quotient(t.t, q, work.p, 0) == cudaSuccess, what + ": launch")) continue;
				expect(same(a.get(), v.get<Fr>(basis ? "h_odd" : "h_mon")), what);
				bool satisfied = product || name.substr(0, 6) == "circom" || !has_c;
				expect(one_of(remainder.p).is_zero() == satisfied, what + ": remainder");
			}
}

__global__ void products_kernel(Fr* out, const Fr* x, const Fr* y, uint64_t n) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) (Fr::load(x + i) * Fr::load(y + i)).store(out + i);
}

// h(x) (x^N - 1) = a(x) b(x) - c(x) at random points, c = a b on the domain.
void large_quotient(int log) {
	const uint64_t n = 1ull << log;
	Tables t(log, NttTableKind::full);
	Device<Fr> a(n), b(n), c(n), fa(n), fb(n), fc(n), remainder(1), out(1);
	Device<char> work(std::max(quotient_workspace(log), power_sum_workspace()));
	auto at = [&](const Fr* p, const Fr& x) {
		CUDA_OK(power_sum(out.p, p, n, x, work.p, 0));
		return one_of(out.p);
	};
	auto coefficients = [&](Fr* to, Fr* from) {
		NttCall k;
		k.log_n = log;
		k.inverse = true;
		k.in[0] = from;
		k.out[0] = to;
		k.scratch[0] = c.p;
		CUDA_OK(ntt(t.t, k, 0));
	};
	for (int basis = 0; basis < 2; basis++)
		for (int product = 0; product < 2; product++) {
			fill(a.p, n, log);
			fill(b.p, n, log + 100);
			coefficients(fa.p, a.p);
			coefficients(fb.p, b.p);
			if (!product) {  // a c that is not a b: P is still right on the coset; h is what is left of it there
				fill(fc.p, n, log + 200);
				CUDA_OK(cudaMemcpy(c.p, fc.p, 32 * n, cudaMemcpyDeviceToDevice));
				Device<Fr> spare(n);
				NttCall k;
				k.log_n = log;
				k.inverse = true;
				k.in[0] = c.p;
				k.out[0] = fc.p;
				k.scratch[0] = spare.p;
				CUDA_OK(ntt(t.t, k, 0));
				fill(c.p, n, log + 200);
			}
			QuotientCall q;
			q.log_n = log;
			q.basis = basis ? HBasis::odd_coset : HBasis::monomial;
			q.product = product;
			q.a = a.p, q.b = b.p, q.c = c.p;
			q.remainder = remainder.p;
			std::string what = "quotient 2^" + std::to_string(log) + " basis " + std::to_string(basis) + (product ? " product" : "");
			if (!expect(quotient(t.t, q, work.p, 0) == cudaSuccess, what)) continue;
			expect(one_of(remainder.p).is_zero() == (bool)product, what + ": remainder");
			Fr u = ntt_root(log + 1), w = ntt_root(log);
			if (!product) {
				if (!basis) continue;
				for (int k = 0; k < 6; k++) {
					uint64_t i = k == 0 ? 0 : k == 1 ? n - 1 : mix(k) % n;
					Fr x = u * power(w, i);
					expect(one_of(a.p + i) == at(fa.p, x) * at(fb.p, x) - at(fc.p, x), what + " at " + std::to_string(i));
				}
				continue;
			}
			// c(x) for c = a b on D: (a b) mod Z, from its values; checked through the odd coset's points for the one basis, at random points for the other.
			fill(c.p, n, log);
			Device<Fr> prod(n);
			{
				fill(fc.p, n, log + 100);
				products_kernel<<<(unsigned)((n + 255) / 256), 256>>>(prod.p, c.p, fc.p, n);
				CUDA_OK(cudaGetLastError());
				NttCall k;
				k.log_n = log;
				k.inverse = true;
				k.in[0] = prod.p;
				k.out[0] = fc.p;
				CUDA_OK(ntt(t.t, k, 0));
			}
			for (int k = 0; k < 6; k++) {
				uint64_t i = k == 0 ? 0 : k == 1 ? n - 1 : mix(k) % n;
				Fr x = basis ? u * power(w, i) : random_element(5, k);
				Fr p = at(fa.p, x) * at(fb.p, x) - at(fc.p, x);
				if (basis) {
					expect(one_of(a.p + i) == p, what + " at " + std::to_string(i));
				} else {
					expect(at(a.p, x) * (power(x, n) - Fr::one()) == p, what + " at a random point");
				}
			}
		}
}

__global__ void witness_kernel(Fr* w, uint64_t n, uint32_t full_per_mille) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	uint64_t z = mix(i);
	Fr x = z % 1000 < full_per_mille ? random_element(7, i) : (z >> 32 & 1) ? Fr::one() : Fr::zero();
	if (i == 0) x = Fr::one();
	x.store(w + i);
}

__global__ void terms_kernel(uint32_t* wire, uint16_t* coeff, uint64_t n, uint64_t wires, uint32_t nb, bool local, uint64_t per_row) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	uint64_t z = mix(i + 77);
	uint64_t at = local ? (i / per_row + wires - z % 4096) % wires : z % wires;
	wire[i] = (uint32_t)at;
	uint64_t y = mix(z);
	coeff[i] = y % 8 < 6 ? y % 2 : (uint16_t)(y / 8 % nb);
}

__global__ void plain_rows(Fr* out, const uint32_t* start, const uint32_t* wire, const uint16_t* coeff, const Fr* coeffs, const Fr* w, uint64_t rows) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= rows) return;
	Fr sum = Fr::zero();
	for (uint32_t k = start[i]; k < start[i + 1]; k++) sum = sum + Fr::load(coeffs + coeff[k]) * Fr::load(w + wire[k]);
	sum.store(out + i);
}

void synthetic(int log, bool timed) {
	const uint64_t rows = (1ull << log) - 5, wires = (1ull << log) - 1, terms = rows * 5 / 2;
	std::vector<uint32_t> start(rows + 1);
	for (uint64_t i = 0; i <= rows; i++) start[i] = (uint32_t)(i * 5 / 2);
	std::vector<Fr> dictionary = {Fr::one(), -Fr::one()};
	for (int i = 2; i < 2300; i++) dictionary.push_back(i % 3 == 0 ? random_element(8, i) : i % 3 == 1 ? Fr::from_u32(1u << (i % 31)) : -Fr::from_u32(i));
	Device<uint32_t> dstart(start), wire(terms);
	Device<uint16_t> coeff(terms);
	Device<Fr> coeffs(dictionary), w(wires), out(rows + 5), want(rows);
	Device<uint64_t> codes(witness_code_words(wires));
	Device<WitnessCounts> counts(1);
	for (int full : {15, 990}) {
		witness_kernel<<<(unsigned)((wires + 255) / 256), 256>>>(w.p, wires, full);
		WitnessCall wc;
		wc.wires = wc.listed = wires;
		wc.list = w.p;
		wc.scalars = w.p;
		wc.codes = codes.p;
		wc.counts = counts.p;
		CUDA_OK(witness_expand(wc, 0));
		for (int local = 0; local < 2; local++) {
			terms_kernel<<<(unsigned)((terms + 255) / 256), 256>>>(wire.p, coeff.p, terms, wires, 2300, local, 2);
			SpmvCall c;
			c.matrix.rows = rows;
			c.matrix.terms = terms;
			c.matrix.start = dstart.p;
			c.matrix.wire = wire.p;
			c.matrix.coeff = coeff.p;
			c.matrix.coeff_bytes = 2;
			c.coeffs = coeffs.p;
			c.nb_coeffs = 2300;
			c.scalars = w.p;
			c.codes = codes.p;
			c.log_n = log;
			c.out = out.p;
			Device<char> work(spmv_workspace(rows, terms, 2300));
			CUDA_OK(spmv(c, work.p, work.n, 0));
			plain_rows<<<(unsigned)((rows + 127) / 128), 128>>>(want.p, dstart.p, wire.p, coeff.p, coeffs.p, w.p, rows);
			CUDA_OK(cudaGetLastError());
			expect(differ(out.p, want.p, rows) == 0, "sparse product 2^" + std::to_string(log));
			if (!timed) continue;
			double ms = median_ms(9, [&] { CUDA_OK(spmv(c, work.p, work.n, 0)); });
			double bytes = 4.0 * rows + 6.0 * terms + 32.0 * rows;
			printf("spmv rows 2^%d, 2.5 terms a row, %.1f %% full, %s wires: %.3f ms = %.1f G terms/s; floors: %.3f ms streams at 4.2 TB/s, %.3f ms for 8-byte gathers at 129 G/s\n", log,
			       full / 10.0, local ? "near" : "random", ms, terms / ms / 1e6, bytes / 4.2e9, terms / 129e6);
		}
		if (!timed) continue;
		double ms = median_ms(9, [&] { CUDA_OK(witness_expand(wc, 0)); });
		printf("witness in place, dense 2^%d, %.1f %% full: %.3f ms; floor %.3f ms to read it\n", log, full / 10.0, ms, 32.0 * wires / 4.2e9);
	}
	if (!timed) return;
	// Compact: all bits but 1.5 %.
	witness_kernel<<<(unsigned)((wires + 255) / 256), 256>>>(w.p, wires, 15);
	std::vector<Fr> host = w.get(), list;
	std::vector<uint64_t> is_bit((wires + 63) / 64), value(is_bit.size());
	std::vector<uint32_t> rank((wires + 511) / 512);
	for (uint64_t i = 0; i < wires; i++) {
		if (i % 512 == 0) rank[i / 512] = (uint32_t)list.size();
		uint32_t c = host_code(host[i]);
		if (c <= code_one) {
			is_bit[i / 64] |= 1ull << (i % 64);
			value[i / 64] |= (uint64_t)c << (i % 64);
		} else {
			list.push_back(host[i]);
		}
	}
	Device<uint64_t> db(is_bit), dv(value);
	Device<uint32_t> dr(rank);
	Device<Fr> dl(list), s(wires);
	WitnessCall wc;
	wc.compact = true;
	wc.wires = wires;
	wc.listed = list.size();
	wc.is_bit = db.p, wc.value = dv.p, wc.rank = dr.p, wc.list = dl.p;
	wc.scalars = s.p;
	wc.codes = codes.p;
	wc.counts = counts.p;
	CUDA_OK(witness_expand(wc, 0));
	expect(differ(s.p, w.p, wires) == 0, "compact witness 2^" + std::to_string(log));
	double ms = median_ms(9, [&] { CUDA_OK(witness_expand(wc, 0)); });
	printf("witness compact 2^%d, 1.5 %% full: %.3f ms; floor %.3f ms to write it\n", log, ms, 32.0 * wires / 4.2e9);
	Device<uint32_t> signs(wires), rest(wires), rest_wires(wires), n(2);
	SelectCall sc;
	sc.codes = codes.p;
	sc.points = wires;
	sc.signs = signs.p, sc.rest = rest.p, sc.rest_wires = rest_wires.p, sc.counts = n.p;
	Device<char> sw(select_workspace(wires));
	ms = median_ms(9, [&] { CUDA_OK(witness_select(sc, sw.p, sw.n, 0)); });
	printf("select 2^%d points: %.3f ms\n", log, ms);
}

void times(int max_log) {
	printf("quotient, median ms; floor: 6 (7) transforms of (n/2 log n) products and 4 (5) n more, at 60.8 G/s\n");
	for (int log : {16, 18, 20, 22, 24, 26}) {
		if (log > max_log) break;
		const uint64_t n = 1ull << log;
		Tables t(log, NttTableKind::full);
		Device<Fr> a(n), b(n), c(n), r(1);
		Device<char> work(quotient_workspace(log));
		for (int basis = 1; basis >= 0; basis--)
			for (int product = 0; product < 2; product++) {
				fill(a.p, n, 1), fill(b.p, n, 2), fill(c.p, n, 3);
				QuotientCall q;
				q.log_n = log;
				q.basis = basis ? HBasis::odd_coset : HBasis::monomial;
				q.product = product;
				q.a = a.p, q.b = b.p, q.c = c.p;
				q.remainder = r.p;
				double ms = median_ms(9, [&] { CUDA_OK(quotient(t.t, q, work.p, 0)); });
				double products = (n / 2.0 * log - n) * (basis ? 6 : 7) + n * (basis ? 3 + 3 : 3 + 2 + 2);
				printf("2^%d %s%s: %.3f; floor %.3f; ratio %.2f\n", log, basis ? "odd coset" : "monomial", product ? ", c = a b" : "", ms, products / 60.8e6, ms / (products / 60.8e6));
			}
	}
}

}  // namespace

int main(int argc, char** argv) {
	std::string dir;
	int max_log = 24;
	bool timed = true, checked = true, only_small = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-max") && i + 1 < argc) max_log = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-no-times")) timed = false;
		else if (!strcmp(argv[i], "-times")) checked = false;
		else if (!strcmp(argv[i], "-small")) only_small = true;
		else dir = argv[i];
	}
	if (dir.empty()) {
		printf("poly_check VECTORS [-max LOG] [-small] [-no-times] [-times]\n");
		return 1;
	}
	cudaDeviceProp p;
	CUDA_OK(cudaGetDeviceProperties(&p, 0));
	printf("%s\n", p.name);
	if (checked) {
		std::vector<const char*> names = {"random-1", "random-2", "random-3", "random-4-noc", "random-5", "random-6-full", "circom-multiplier", "circom-nopublic"};
		if (!only_small)
			names = {"random-1", "random-2", "random-3", "random-4-noc", "random-5", "random-6-full", "random-8", "random-9-256", "random-9-257", "random-10",
		                         "random-11", "random-11-1024", "random-11-1025", "random-12", "random-12-noc",
		                         "random-12-full", "circom-allzero", "circom-dom_1022", "circom-dom_1023", "circom-multiplier", "circom-nopublic", "circom-publics100",
		                         "circom-unused_input", "circom-zero_constraints"};
		for (const char* name : names)
			circuit_file(dir + "/" + name + ".wvec", name);
		if (only_small) return finish("poly_check");
		for (int log : {10, 11, 16, 18, 21, 22}) {
			if (log <= max_log) large_quotient(log);
		}
		synthetic(20, false);
		expect(witness_launches() > 0 && spmv_launches() > 0 && ntt_launches() > 0, "kernels were launched");
		if (finish("poly_check") != 0) return 1;
	}
	if (!timed) return 0;
	times(max_log);
	synthetic(std::min(max_log, 24), true);
	return finish("poly_check");
}
