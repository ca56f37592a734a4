// Checks transforms on a GPU, then times them.
//
//	ntt_check VECTORS [-max LOG] [-small] [-no-times] [-times] [-tune]
//
// VECTORS is the folder that backend-cuda/internal/vectors wrote. Small sizes are compared with what the CPU backend's transforms give and with sums of products on the
// host (with -small that is all: for a memory checker; with -times nothing is checked); large ones at random points with Horner's rule on the device (itself compared with the host), by round trips and by different ways to the same vector. Exit
// status 0 only if everything agreed.
#include "../ntt.h"

#include "../ntt_device.cuh"
#include "../poly.h"
#include "fr_check.cuh"

using namespace check;
using namespace weir;

namespace {

const char* name_of(Order o) { return o == Order::natural ? "N" : "R"; }

std::vector<Fr> reversed(const std::vector<Fr>& v) {
	std::vector<Fr> r(v.size());
	int log = 0;
	while ((size_t(1) << log) < v.size()) log++;
	for (size_t i = 0; i < v.size(); i++) {
		size_t j = 0;
		for (int b = 0; b < log; b++) j |= (i >> b & 1) << (log - 1 - b);
		r[j] = v[i];
	}
	return r;
}

struct Tables {
	Device<char> memory;
	NttTables t;
	Tables(int log, NttTableKind kind) : memory(ntt_tables_bytes(log, kind)) { CUDA_OK(ntt_tables_make(&t, log, kind, memory.p, 0)); }
};

struct Shifts {
	Device<char> forward_memory, inverse_memory;
	NttShift forward, inverse;
	Shifts(int log, const Fr& g) : forward_memory(ntt_shift_bytes(log)), inverse_memory(ntt_shift_bytes(log)) {
		CUDA_OK(ntt_shift_make(&forward, log, g, Fr::one(), forward_memory.p, 0));
		CUDA_OK(ntt_shift_make(&inverse, log, g.inverse(), Fr::one(), inverse_memory.p, 0));
	}
};

__global__ void device_products(Fr* out, const Fr* x, const Fr* y, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) (Fr::load(x + i) * Fr::load(y + i)).store(out + i);
}

__global__ void transform_products(Fr* out, const Fr* x, const Fr* y, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) ntt_detail::product(Fr::load(x + i), Fr::load(y + i)).store(out + i);
}

// The device's arithmetic is the host's, and the host's is right about the roots.
void arithmetic() {
	expect(ntt_root(0) == Fr::one() && ntt_root(1) == -Fr::one(), "roots of order 1 and 2");
	for (int log = 2; log <= 32; log++) expect(ntt_root(log).sqr() == ntt_root(log - 1), "root of order 2^" + std::to_string(log));
	std::vector<Fr> edge = {Fr::zero(), Fr::one(), -Fr::one(), Fr::from_u32(2), -Fr::from_u32(2)};
	Fr raw = Fr::zero();
	raw.v[0] = 1;
	edge.push_back(raw);
	edge.push_back(-raw);
	for (int k = 0; k < 8; k++) {
		Fr x = Fr::zero();
		x.v[k] = k == 7 ? 0x73eda753u - 1 : 0xffffffffu;
		edge.push_back(x);
	}
	std::vector<Fr> x, y, want;
	for (auto& a : edge)
		for (auto& b : edge) x.push_back(a), y.push_back(b);
	for (int i = 0; i < 20000; i++) x.push_back(random_element(1, i)), y.push_back(random_element(2, i));
	for (size_t i = 0; i < x.size(); i++) want.push_back(x[i] * y[i]);
	Device<Fr> dx(x), dy(y), out(x.size());
	device_products<<<(unsigned)(x.size() + 127) / 128, 128>>>(out.p, dx.p, dy.p, (int)x.size());
	CUDA_OK(cudaGetLastError());
	expect(same(out.get(), want), "products on the device");
	transform_products<<<(unsigned)(x.size() + 127) / 128, 128>>>(out.p, dx.p, dy.p, (int)x.size());
	CUDA_OK(cudaGetLastError());
	expect(same(out.get(), want), "products of transforms on the device");
}

// All orders, cosets and batches of one size against given vectors.
void against(const NttTables& t, int log, const std::vector<Fr>& coeffs, const std::map<Coset, std::vector<Fr>>& values, const Shifts& s, const NttTuning& tuning, const std::string& what) {
	size_t n = coeffs.size();
	for (auto& [coset, want] : values)
		for (int inverse = 0; inverse < 2; inverse++)
			for (int in = 0; in < 2; in++)
				for (int out = 0; out < 2; out++)
					for (int place = 0; place < 2; place++) {
						NttCall c;
						c.log_n = log;
						c.inverse = inverse;
						c.in_order = in ? Order::reversed : Order::natural;
						c.out_order = out ? Order::reversed : Order::natural;
						c.coset = coset;
						c.shift = inverse ? s.inverse : s.forward;
						c.tuning = tuning;
						c.count = place ? 1 : 3;
						std::vector<Fr> from = inverse ? want : coeffs, to = inverse ? coeffs : want;
						if (in) from = reversed(from);
						if (out) to = reversed(to);
						Device<Fr> x[3], y[3], scratch[3];
						for (int i = 0; i < c.count; i++) {
							std::vector<Fr> v = from;
							if (i == 1)
								for (auto& e : v) e = e.dbl();
							x[i].make(n);
							x[i].put(v);
							c.in[i] = x[i].p;
							if (place) {
								c.out[i] = x[i].p;
								if (ntt_needs_scratch(c)) scratch[i].make(n), c.scratch[i] = scratch[i].p;
							} else {
								y[i].make(n);
								c.out[i] = y[i].p;
							}
						}
						std::string label = what + " 2^" + std::to_string(log) + (inverse ? " inverse " : " forward ") + name_of(c.in_order) + name_of(c.out_order) + " coset " +
						                    std::to_string((int)coset) + (place ? " in place" : " out of place");
						if (!expect(ntt(t, c, 0) == cudaSuccess, label + ": launch")) continue;
						for (int i = 0; i < c.count; i++) {
							std::vector<Fr> got = (place ? x[i] : y[i]).get(), w = to;
							if (i == 1)
								for (auto& e : w) e = e.dbl();
							expect(same(got, w), label + ", vector " + std::to_string(i));
						}
					}
}

void small(const std::string& dir, int most) {
	Tables full(20, NttTableKind::full), composed(20, NttTableKind::composed);
	for (int log = 0; log <= most; log++) {
		char file[32];
		snprintf(file, sizeof file, "/ntt-%02d.wvec", log);
		Vectors v(dir + file);
		auto coeffs = v.get<Fr>("coeffs");
		Shifts s(log, Fr::from_u32(7));
		std::map<Coset, std::vector<Fr>> values = {{Coset::none, v.get<Fr>("values")}, {Coset::odd, v.get<Fr>("odd")}, {Coset::shift, v.get<Fr>("shift7")}};
		if (log <= 6) {  // by the definition, too
			Fr w = ntt_root(log), u = ntt_root(log + 1), g = Fr::from_u32(7);
			for (size_t i = 0; i < coeffs.size(); i++) {
				Fr x = power(w, i), sum[3] = {Fr::zero(), Fr::zero(), Fr::zero()};
				for (size_t j = coeffs.size(); j-- > 0;) {
					sum[0] = sum[0] * x + coeffs[j];
					sum[1] = sum[1] * (u * x) + coeffs[j];
					sum[2] = sum[2] * (g * x) + coeffs[j];
				}
				expect(sum[0] == values[Coset::none][i] && sum[1] == values[Coset::odd][i] && sum[2] == values[Coset::shift][i], "vectors by the definition");
			}
		}
		against(full.t, log, coeffs, values, s, {}, "full table");
		if (log >= 10) against(composed.t, log, coeffs, values, s, {}, "composed table");
		if (log >= 12) {
			NttTuning t;
			t.passes = 2;
			t.levels[0] = log - 4;
			t.levels[1] = 4;
			against(full.t, log, coeffs, values, s, t, "other passes");
			t.levels[0] = 5;
			t.levels[1] = log - 5;
			t.tile_log = 11;
			against(full.t, log, coeffs, values, s, t, "larger tiles");
		}
	}
}

// Horner's rule on the device against the host.
void horner() {
	Device<char> work(power_sum_workspace());
	Device<Fr> out(1);
	for (uint64_t n : {0ull, 1ull, 2ull, 127ull, 128ull, 129ull, 5000ull, 300001ull}) {
		std::vector<Fr> v;
		for (uint64_t i = 0; i < n; i++) v.push_back(random_element(3, i));
		Device<Fr> d(v);
		Fr x = random_element(4, n), want = Fr::zero();
		for (size_t j = v.size(); j-- > 0;) want = want * x + v[j];
		CUDA_OK(power_sum(out.p, d.p, n, x, work.p, 0));
		expect(one_of(out.p) == want, "power sum of " + std::to_string(n));
	}
}

void large(int log, NttTableKind kind) {
	const uint64_t n = 1ull << log;
	std::string what = "2^" + std::to_string(log) + (kind == NttTableKind::full ? " full" : " composed");
	Tables tables(log, kind);
	const Fr g = random_element(9, 0);
	Shifts s(log, g);
	Device<Fr> coeffs(n), x(n), y(n), out(1);
	Device<char> work(power_sum_workspace());
	fill(coeffs.p, n, 10 + log);
	auto call = [&](bool inverse, Order in, Order to, Coset coset, Fr* from, Fr* dest, Fr* scratch) {
		NttCall c;
		c.log_n = log;
		c.inverse = inverse;
		c.in_order = in;
		c.out_order = to;
		c.coset = coset;
		c.shift = inverse ? s.inverse : s.forward;
		c.in[0] = from;
		c.out[0] = dest;
		c.scratch[0] = scratch;
		expect(ntt(tables.t, c, 0) == cudaSuccess, what + ": launch");
	};
	auto fresh = [&] { CUDA_OK(cudaMemcpyAsync(x.p, coeffs.p, 32 * n, cudaMemcpyDeviceToDevice)); };
	for (Coset coset : {Coset::none, Coset::odd, Coset::shift}) {
		std::string which = what + " coset " + std::to_string((int)coset);
		Fr shift = coset == Coset::none ? Fr::one() : coset == Coset::odd ? ntt_root(log + 1) : g, w = ntt_root(log);
		fresh();
		call(false, Order::natural, Order::natural, coset, x.p, y.p, nullptr);  // y: values
		for (int k = 0; k < 12; k++) {
			uint64_t i = k < 3 ? k : k < 5 ? n - k + 2 : mix(100 * log + k) % n;
			CUDA_OK(power_sum(out.p, coeffs.p, n, shift * power(w, i), work.p, 0));
			expect(one_of(out.p) == one_of(y.p + i), which + " value " + std::to_string(i));
		}
		fresh();
		call(false, Order::natural, Order::reversed, coset, x.p, x.p, nullptr);
		expect(differ(x.p, y.p, n, log) == 0, which + " natural to reversed");
		call(true, Order::reversed, Order::natural, coset, x.p, x.p, nullptr);
		expect(differ(x.p, coeffs.p, n) == 0, which + " and back");
		CUDA_OK(bit_reverse(x.p, x.p, log, 0));
		expect(differ(x.p, coeffs.p, n, log) == 0, which + " reversal in place");
		call(false, Order::reversed, Order::natural, coset, x.p, x.p, nullptr);
		expect(differ(x.p, y.p, n) == 0, which + " reversed to natural");
		call(true, Order::natural, Order::reversed, coset, x.p, x.p, nullptr);
		expect(differ(x.p, coeffs.p, n, log) == 0, which + " and back, reversed");
		call(true, Order::natural, Order::natural, coset, y.p, x.p, nullptr);
		expect(differ(x.p, coeffs.p, n) == 0, which + " and back, natural");
	}
}

// The same transform by other passes.
void other_passes() {
	struct {
		int log, levels[3], tile;
	} all[] = {{17, {6, 5, 6}, 10}, {18, {6, 6, 6}, 10}, {19, {9, 5, 5}, 10}, {20, {7, 7, 6}, 10}, {20, {10, 10, 0}, 11}, {21, {10, 6, 5}, 11}, {22, {8, 7, 7}, 10}};
	for (auto& a : all) {
		const uint64_t n = 1ull << a.log;
		Tables t(a.log, NttTableKind::full);
		Device<Fr> in(n), x(n), y(n), z(n);
		fill(in.p, n, a.log);
		for (int inverse = 0; inverse < 2; inverse++) {
			NttCall c;
			c.log_n = a.log;
			c.inverse = inverse;
			c.coset = Coset::odd;
			for (int k = 0; k < 2; k++) {
				CUDA_OK(cudaMemcpyAsync(x.p, in.p, 32 * n, cudaMemcpyDeviceToDevice));
				c.in[0] = x.p;
				c.out[0] = k ? z.p : y.p;
				if (k) {
					c.tuning.passes = a.levels[2] ? 3 : 2;
					std::copy(a.levels, a.levels + 3, c.tuning.levels);
					c.tuning.tile_log = a.tile;
				}
				expect(ntt(t.t, c, 0) == cudaSuccess, "other passes: launch");
			}
			expect(differ(y.p, z.p, n) == 0, "other passes of 2^" + std::to_string(a.log));
		}
	}
}

void refusals() {
	Tables t(11, NttTableKind::full);
	Device<Fr> x(2048);
	NttCall c;
	c.log_n = 11;
	c.in[0] = c.out[0] = x.p;
	expect(ntt_needs_scratch(c) && ntt(t.t, c, 0) == cudaErrorInvalidValue, "natural to natural in place without scratch is refused");
	c.log_n = 12;
	expect(ntt(t.t, c, 0) == cudaErrorInvalidValue, "a domain beyond the tables is refused");
	c.log_n = 11;
	c.out_order = Order::reversed;
	c.tuning.passes = 2;
	c.tuning.levels[0] = 9;
	c.tuning.levels[1] = 2;
	expect(ntt(t.t, c, 0) == cudaErrorInvalidValue, "passes that do not fit are refused");
	expect(ntt_tables_bytes(29, NttTableKind::full) == 0, "2^29 is refused");
}

__global__ void __launch_bounds__(256) product_rate(Fr* out, int rounds) {
	Fr x = random_element(1, threadIdx.x), y = random_element(2, threadIdx.x + blockIdx.x);
	for (int i = 0; i < rounds; i++) {
		x = ntt_detail::product(x, y);
		y = ntt_detail::product(y, x);
	}
	if (x == y) x.store(out);
}

void times(int max_log, bool tune) {
	Device<Fr> sink(1);
	const int rounds = 2000;
	double ms = median_ms(5, [&] { product_rate<<<132 * 4, 256>>>(sink.p, rounds); });
	double rate = 132.0 * 4 * 256 * 2 * rounds / ms / 1e6;
	printf("products in chains: %.1f G/s\n", rate);
	printf("median ms, resident data; floors: products (n/2 log n - n + 1) at 60.8 G/s, bytes 64 n a pass at 4.2 TB/s\n");
	printf("%5s %8s %8s %8s %8s %8s %8s %8s %8s | %8s %8s | %s\n", "log n", "fwd NN", "inv NN", "fwd NR", "inv NR", "fwd RN", "odd RN", "inv oNN", "composed", "floor*", "floor B", "fwd NN over floor*");
	for (int log : {11, 12, 14, 16, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28}) {
		if (log > max_log) break;
		const uint64_t n = 1ull << log;
		Tables full(log, NttTableKind::full);
		Tables composed(log, NttTableKind::composed);
		Device<Fr> x(n), y(n);
		fill(x.p, n, 1);
		fill(y.p, n, 2);
		auto time = [&](const NttTables& t, bool inverse, Order in, Order out, Coset coset, NttTuning tuning = {}) {
			NttCall c;
			c.log_n = log;
			c.inverse = inverse;
			c.in_order = in;
			c.out_order = out;
			c.coset = coset;
			c.tuning = tuning;
			c.in[0] = x.p;
			c.out[0] = in == Order::natural && out == Order::natural ? y.p : x.p;
			return median_ms(log >= 26 ? 5 : 15, [&] { CUDA_OK(ntt(t, c, 0)); });
		};
		const Order N = Order::natural, R = Order::reversed;
		double fwd = time(full.t, false, N, N, Coset::none);
		double t[7] = {time(full.t, true, N, N, Coset::none),  time(full.t, false, N, R, Coset::none), time(full.t, true, N, R, Coset::none), time(full.t, false, R, N, Coset::none),
		               time(full.t, false, R, N, Coset::odd),  time(full.t, true, N, N, Coset::odd),   time(composed.t, false, N, N, Coset::none)};
		double products = (n / 2.0 * log - n + 1) / 60.8e6, bytes = 64.0 * n * ntt_tuning(log).passes / 4.2e9;
		printf("%5d %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f | %8.3f %8.3f | %.2f\n", log, fwd, t[0], t[1], t[2], t[3], t[4], t[5], t[6], products, bytes, fwd / products);
		if (!tune || log < 20) continue;
		for (int a = 5; a <= 10; a++)
			for (int b = 5; b <= 10; b++)
				for (int tile = 10; tile <= 11; tile++) {
					NttTuning u;
					u.tile_log = tile;
					u.levels[0] = a;
					u.levels[1] = b;
					u.levels[2] = log - a - b;
					u.passes = u.levels[2] == 0 ? 2 : 3;
					if (u.levels[2] < 0 || u.levels[2] > 10 || (u.passes == 3 && u.levels[2] < 5)) continue;
					NttCall c;
					c.log_n = log;
					c.in[0] = x.p;
					c.out[0] = y.p;
					c.tuning = u;
					if (ntt(full.t, c, 0) != cudaSuccess) continue;
					printf("      passes %d %d %d, tile 2^%d: fwd NN %.3f\n", a, b, u.levels[2], tile, time(full.t, false, N, N, Coset::none, u));
				}
	}
}

}  // namespace

int main(int argc, char** argv) {
	std::string dir;
	int max_log = 27;
	bool timed = true, tune = false, checked = true, only_small = false;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "-max") && i + 1 < argc) max_log = atoi(argv[++i]);
		else if (!strcmp(argv[i], "-no-times")) timed = false;
		else if (!strcmp(argv[i], "-times")) checked = false;
		else if (!strcmp(argv[i], "-small")) only_small = true;
		else if (!strcmp(argv[i], "-tune")) tune = true;
		else dir = argv[i];
	}
	if (dir.empty()) {
		printf("ntt_check VECTORS [-max LOG] [-small] [-no-times] [-times] [-tune]\n");
		return 1;
	}
	cudaDeviceProp p;
	CUDA_OK(cudaGetDeviceProperties(&p, 0));
	printf("%s\n", p.name);
	arithmetic();
	if (!checked) {
		times(max_log, tune);
		return finish("ntt_check");
	}
	small(dir, only_small ? 11 : 13);
	if (only_small) return finish("ntt_check");
	horner();
	refusals();
	other_passes();
	for (int log : {11, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28}) {
		if (log > max_log) break;
		large(log, NttTableKind::full);
		if (log >= 17 && log <= 25) large(log, NttTableKind::composed);
	}
	expect(ntt_launches() > 0, "transforms were launched");
	int rc = finish("ntt_check");
	if (timed && rc == 0) times(max_log, tune);
	return rc;
}
