// Checks field arithmetic, MSMs and sums on a GPU, then times them. Ends with 1 if anything is wrong.
//
//   msm_check [check|time|all] [largest log2 n of the timings in G1, default 24; in G2 at most 24]
//   msm_check small           a few small sums of either group, for a memory checker
//   msm_check once [log2 n]   one MSM over G1, for a profiler
#include <cstring>

#include "msm.h"
#include "msm_points.cuh"

using namespace weir;

namespace {

Tally tally;

// ---- field: the device's carry chains against the host's C++ ----

template <class F>
__global__ void field_kernel(const F* a, const F* b, F* out, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	F x = F::load(a + i), y = F::load(b + i);
	F r[6] = {x * y, x.sqr(), x + y, x - y, -x, x.inverse()};
	for (int k = 0; k < 6; k++) r[k].store(out + 6 * i + k);
}

template <class F>
std::vector<F> special_values() {
	std::vector<F> v;
	F m;
	for (int i = 0; i < F::limbs; i++) m.v[i] = F::Params::modulus(i);
	auto small = [&](uint32_t x, bool minus) {
		F f = F::zero();
		f.v[0] = x;
		return minus ? F::zero() - f : f;
	};
	for (uint32_t x : {0u, 1u, 2u, 3u}) v.push_back(small(x, false));
	for (uint32_t x : {1u, 2u, 3u}) v.push_back(small(x, true));
	F half = m;
	for (int i = 0; i < F::limbs; i++) half.v[i] = m.v[i] >> 1 | (i + 1 < F::limbs ? m.v[i + 1] << 31 : 0);
	v.push_back(half);
	v.push_back(half + small(1, false));
	v.push_back(F::one());
	for (int i = 0; i < F::limbs; i++) {  // limb edges
		F e = F::zero();
		e.v[i] = i == F::limbs - 1 ? 0x10000000u : 0xffffffffu;
		v.push_back(e);
		for (int j = 0; j < i; j++) e.v[j] = 0xffffffffu;
		v.push_back(e);
	}
	uint64_t seed = 1;
	while (v.size() < 128) {
		F f;
		for (int i = 0; i < F::limbs; i++) f.v[i] = (uint32_t)(mix(seed++) >> 11);
		f.v[F::limbs - 1] %= F::Params::modulus(F::limbs - 1);
		v.push_back(f);
	}
	return v;
}

template <class F>
void check_field(const char* name) {
	std::vector<F> v = special_values<F>(), a, b;
	for (auto& x : v)
		for (auto& y : v) {
			a.push_back(x);
			b.push_back(y);
		}
	int n = (int)a.size();
	DeviceArray<F> da(a), db(b), out((size_t)n * 6);
	field_kernel<F><<<(n + 127) / 128, 128>>>(da.p, db.p, out.p, n);
	CHECK_CUDA(cudaGetLastError());
	std::vector<F> got = out.host();
	std::vector<F> inv;
	for (auto& x : v) inv.push_back(x.inverse());
	static const char* ops[] = {"*", "sqr", "+", "-", "neg", "inverse"};
	for (int i = 0; i < n; i++) {
		F want[6] = {a[i] * b[i], a[i].sqr(), a[i] + b[i], a[i] - b[i], -a[i], inv[i / v.size()]};
		for (int k = 0; k < 6; k++) tally.check(got[6 * i + k] == want[k], std::string(name) + " " + ops[k] + " of pair " + std::to_string(i));
	}
}

// The lazy form: long chains of products and sums, compared modulo p, and the bound 2p on the way.
__global__ void lazy_kernel(const Fp* a, const Fp* b, Fp* out, int n, int* over) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	FpLazy x = FpLazy::from(Fp::load(a + i)), y = FpLazy::from(Fp::load(b + i));
	for (int k = 0; k < 300; k++) {
		FpLazy t = FpLazy::sum_wide(x, y) * (x - y);
		y = x + t.dbl();
		x = -t;
		uint32_t m[12], d[12];
		for (int j = 0; j < 12; j++) m[j] = FpParams::modulus2(j);
		if (!limb::sub<12>(d, x.v, m) || !limb::sub<12>(d, y.v, m)) atomicAdd(over, 1);
	}
	x.canonical().store(out + 2 * i);
	y.canonical().store(out + 2 * i + 1);
}

void check_lazy() {
	std::vector<Fp> v = special_values<Fp>(), a, b;
	for (auto& x : v)
		for (auto& y : v) {
			a.push_back(x);
			b.push_back(y);
		}
	int n = (int)a.size();
	DeviceArray<Fp> da(a), db(b), out((size_t)n * 2);
	DeviceArray<int> over(std::vector<int>{0});
	lazy_kernel<<<(n + 127) / 128, 128>>>(da.p, db.p, out.p, n, over.p);
	CHECK_CUDA(cudaGetLastError());
	std::vector<Fp> got = out.host();
	tally.check(over.host()[0] == 0, "lazy values stay below 2p");
	for (int i = 0; i < n; i += 7) {
		Fp x = a[i], y = b[i];
		for (int k = 0; k < 300; k++) {
			Fp t = (x + y) * (x - y);
			y = x + t.dbl();
			x = -t;
		}
		tally.check(got[2 * i] == x && got[2 * i + 1] == y, "lazy chain " + std::to_string(i));
	}
}

// ---- points ----

template <class F>
constexpr Group group_of() {
	return sizeof(F) == 48 ? Group::g1 : Group::g2;
}

template <class F>
struct Table {
	DeviceArray<Affine<F>> t{1024};
	Table() {
		table_kernel<F><<<4, 256>>>(generator<F>(), t.p);
		CHECK_CUDA(cudaGetLastError());
		CHECK_CUDA(cudaDeviceSynchronize());
	}
	void points(Points kind, uint64_t n, Affine<F>* out) const {
		points_kernel<F><<<132 * 8, 128>>>(t.p, kind, n, out);
		CHECK_CUDA(cudaGetLastError());
	}
};

template <class F>
bool same(const Affine<F>& a, const Affine<F>& b) {
	return memcmp(&a, &b, sizeof a) == 0;
}

template <class F>
Affine<F> expected(Points points, Scalars scalars, const uint32_t* index, uint64_t n) {
	DeviceArray<Fr> partial(64 * 128);
	expected_kernel<<<64, 128>>>(points, scalars, index, n, partial.p);
	CHECK_CUDA(cudaGetLastError());
	Fr sum = Fr::zero();
	for (const Fr& p : partial.host()) sum = sum + p;
	return host_multiple(generator<F>(), sum);
}

template <class F>
Affine<F> run_msm(const MsmPlan& plan, const MsmInput& in) {
	DeviceArray<char> ws(plan.workspace);
	CHECK_CUDA(cudaMemset(ws.p, 0xa5, plan.workspace));  // nothing may count on a clean workspace
	DeviceArray<Affine<F>> result(1);
	CHECK_CUDA(cudaMemset(result.p, 0xa5, sizeof(Affine<F>)));
	CHECK_CUDA(msm_run(plan, in, result.p, ws.p, 0));
	CHECK_CUDA(cudaDeviceSynchronize());
	return result.host()[0];
}

template <class F>
void check_case(const Table<F>& table, uint64_t n, Points points, Scalars scalars, bool montgomery, bool indexed, int bits, size_t limit) {
	DeviceArray<Affine<F>> p(n);
	DeviceArray<Fr> s(n);
	std::vector<uint32_t> order(n);
	for (uint64_t i = 0; i < n; i++) order[i] = (uint32_t)(mix(i) % n);
	DeviceArray<uint32_t> index(order);
	table.points(points, n, p.p);
	scalars_kernel<<<1024, 128>>>(scalars, montgomery, n, s.p);
	CHECK_CUDA(cudaGetLastError());
	MsmPlan plan;
	CHECK_CUDA(msm_plan(&plan, group_of<F>(), n, limit, bits));
	MsmInput in = {p.p, s.p, indexed ? index.p : nullptr, montgomery, nullptr, nullptr};
	Affine<F> got = run_msm<F>(plan, in), want = expected<F>(points, scalars, in.scalar_index, n);
	char what[200];
	snprintf(what, sizeof what, "msm G%d n %llu points %d scalars %d montgomery %d indexed %d window %d of %d a pass %d", (int)group_of<F>(), (unsigned long long)n,
		(int)points, (int)scalars, montgomery, indexed, plan.window_bits, plan.windows, plan.windows_per_pass);
	tally.check(same(got, want), what);
}

// Against double-and-add on the host, which shares no discrete logarithm with the others.
template <class F>
void check_naive(const Table<F>& table, uint64_t n) {
	DeviceArray<Affine<F>> p(n);
	DeviceArray<Fr> s(n);
	table.points(Points::infinity, n, p.p);
	scalars_kernel<<<64, 128>>>(Scalars::random, true, n, s.p);
	CHECK_CUDA(cudaGetLastError());
	MsmPlan plan;
	CHECK_CUDA(msm_plan(&plan, group_of<F>(), n, 0, 0));
	Affine<F> got = run_msm<F>(plan, {p.p, s.p, nullptr, true, nullptr, nullptr}), want;
	std::vector<Affine<F>> hp = p.host();
	std::vector<Fr> hs = s.host();
	Xyzz<F> sum = Xyzz<F>::infinity();
	for (uint64_t i = 0; i < n; i++) sum = sum + host_multiple(hp[i], hs[i]);
	sum.affine().store_canonical(&want);
	tally.check(same(got, want), "msm against double-and-add, n " + std::to_string(n));
}

template <class F>
void check_sum(const Table<F>& table, Points kind, uint64_t n, uint64_t refs, uint64_t room) {
	DeviceArray<Affine<F>> p(n);
	table.points(kind, n, p.p);
	std::vector<uint32_t> list(room);
	Fr want = Fr::zero();
	for (uint64_t i = 0; i < refs; i++) {
		uint32_t j = (uint32_t)(mix(i + 5) % n), negative = (uint32_t)(mix(i) & 1);
		list[i] = j | negative << 31;
		bool sign;
		Fr k = Fr::from_u32(log_of(kind, j, &sign));
		want = sign != (bool)negative ? want - k : want + k;
	}
	DeviceArray<uint32_t> dl(list), count(std::vector<uint32_t>{(uint32_t)refs});
	MsmPlan plan;
	CHECK_CUDA(sum_plan(&plan, group_of<F>(), room, 0));
	DeviceArray<char> ws(plan.workspace);
	CHECK_CUDA(cudaMemset(ws.p, 0xa5, plan.workspace));
	DeviceArray<Affine<F>> result(1);
	CHECK_CUDA(sum_run(plan, p.p, dl.p, count.p, result.p, ws.p, 0));
	CHECK_CUDA(cudaDeviceSynchronize());
	tally.check(same(result.host()[0], host_multiple(generator<F>(), want)),
		"sum G" + std::to_string((int)group_of<F>()) + " of " + std::to_string(refs) + " of " + std::to_string(room) + " points " + std::to_string((int)kind));
}

template <class F>
void check_group(bool large) {
	Table<F> table;
	for (uint64_t n : {1, 2, 3, 17, 40}) check_naive(table, n);
	for (uint64_t n : {0, 1, 2, 3, 4, 5, 31, 32, 33, 127, 1000, 1023, 1024, 1025, 16384, 65537})
		check_case(table, n, Points::random, Scalars::random, n % 2, n % 3 == 0 && n, 0, 0);
	for (int bits = 2; bits <= 20; bits++) check_case(table, 777 + bits, Points::random, bits % 2 ? Scalars::edge : Scalars::random, bits % 2, false, bits, 0);
	for (int p = 0; p <= (int)Points::one; p++)
		for (int s = 0; s <= (int)Scalars::edge; s++) check_case(table, 3000 + 100 * p + s, (Points)p, (Scalars)s, s % 2, p % 2, 0, 0);
	for (Scalars s : {Scalars::equal, Scalars::bits, Scalars::half_zero, Scalars::minus_one}) check_case(table, 200000, Points::random, s, true, false, 0, 0);
	// Passes: a limit that holds some windows only.
	for (int divide : {2, 5}) {
		MsmPlan plan;
		CHECK_CUDA(msm_plan(&plan, group_of<F>(), 50000, 0, 0));
		check_case(table, 50000, Points::infinity, Scalars::random, true, true, 0, plan.workspace / divide);
	}
	for (uint64_t m : {0, 1, 2, 3, 5, 64, 1000, 4097, 300001}) {
		check_sum(table, Points::random, 5000, m, m);
		check_sum(table, Points::infinity, 100, m, m + 3);
	}
	check_sum(table, Points::one, 64, 30000, 30000);
	check_sum(table, Points::opposite, 64, 30000, 40000);
	if (large) check_case(table, (1 << 20) + 1, Points::random, Scalars::random, false, false, 0, 0);
	MsmPlan plan;
	tally.check(msm_plan(&plan, group_of<F>(), msm_max_points + 1, 0, 0) == cudaErrorInvalidValue, "too many points are refused");
	tally.check(msm_plan(&plan, group_of<F>(), 1000, 0, 40) == cudaErrorInvalidValue, "a window too wide is refused");
	tally.check(msm_plan(&plan, group_of<F>(), 1 << 20, 1 << 20, 0) == cudaErrorMemoryAllocation, "a limit that holds no window is refused");
}

// Every kernel at sizes that a memory checker gets through.
template <class F>
void check_small() {
	Table<F> table;
	for (uint64_t n : {0, 1, 2, 33, 300}) check_case(table, n, Points::random, Scalars::random, true, n % 2 == 1, 0, 0);
	check_case(table, 200, Points::infinity, Scalars::edge, false, false, 4, 0);
	check_case(table, 200, Points::opposite, Scalars::equal, true, true, 9, 0);
	for (uint64_t m : {0, 1, 2, 700}) check_sum(table, Points::random, 100, m, m + 3);
}

// ---- timings ----

struct Phases {
	std::vector<cudaEvent_t> events;
	std::vector<std::string> names;
	static void mark(void* data, const char* phase, cudaStream_t stream) {
		auto* self = static_cast<Phases*>(data);
		cudaEvent_t e;
		CHECK_CUDA(cudaEventCreate(&e));
		CHECK_CUDA(cudaEventRecord(e, stream));
		self->events.push_back(e);
		self->names.push_back(phase);
	}
	void print() const {
		for (size_t i = 1; i < events.size(); i++) {
			float ms;
			CHECK_CUDA(cudaEventElapsedTime(&ms, events[i - 1], events[i]));
			printf("%s %.3f%s", names[i].c_str(), ms, i + 1 < events.size() ? ", " : "\n");
		}
	}
	~Phases() {
		for (auto e : events) cudaEventDestroy(e);
	}
};

template <class F>
void time_group(int most, const std::vector<std::pair<int, std::vector<int>>>& sizes) {
	Table<F> table;
	uint64_t n = 1ull << most;
	DeviceArray<Affine<F>> p(n);
	table.points(Points::random, n, p.p);
	for (Scalars kind : {Scalars::random, Scalars::bits, Scalars::equal}) {
		DeviceArray<Fr> s(n);
		scalars_kernel<<<1024, 128>>>(kind, true, n, s.p);
		CHECK_CUDA(cudaDeviceSynchronize());
		for (auto& size : sizes) {
			if (size.first > most) continue;
			if (kind != Scalars::random && size.first != 20 && size.first != most) continue;
			for (int bits : size.second) {
				if (kind != Scalars::random && bits != 0) continue;
				uint64_t m = 1ull << size.first;
				MsmPlan plan;
				CHECK_CUDA(msm_plan(&plan, group_of<F>(), m, 0, bits));
				DeviceArray<char> ws(plan.workspace);
				DeviceArray<Affine<F>> result(1);
				MsmInput in = {p.p, s.p, nullptr, true, nullptr, nullptr};
				double ms = median_ms(5, [&] { CHECK_CUDA(msm_run(plan, in, result.p, ws.p, 0)); });
				bool ok = same(result.host()[0], expected<F>(Points::random, kind, nullptr, m));
				tally.check(ok, "timed msm 2^" + std::to_string(size.first));
				// The floor: every nonzero digit but the first of a bucket is one addition of 6 (17) products at 27.8 G/s.
				double floor = (double)m * plan.windows * (group_of<F>() == Group::g1 ? 6 : 17) / 27.8e9 * 1e3;
				printf("G%d 2^%d scalars %d: %8.3f ms, window %d x %d, workspace %.2f GB, floor %.3f ms, ratio %.2f, %s\n", (int)group_of<F>(), size.first, (int)kind, ms,
					plan.window_bits, plan.windows, plan.workspace / 1e9, floor, ms / floor, ok ? "right" : "WRONG");
				if (size.first >= 18 && (bits == 0 || size.first == most)) {
					Phases phases;
					in.mark = Phases::mark;
					in.mark_data = &phases;
					CHECK_CUDA(msm_run(plan, in, result.p, ws.p, 0));
					CHECK_CUDA(cudaDeviceSynchronize());
					printf("    ");
					phases.print();
				}
				fflush(stdout);
			}
		}
	}
	// A plain sum of all points.
	std::vector<uint32_t> list(n);
	for (uint64_t i = 0; i < n; i++) list[i] = (uint32_t)i;
	DeviceArray<uint32_t> dl(list), count(std::vector<uint32_t>{(uint32_t)n});
	MsmPlan plan;
	CHECK_CUDA(sum_plan(&plan, group_of<F>(), n, 0));
	DeviceArray<char> ws(plan.workspace);
	DeviceArray<Affine<F>> result(1);
	double ms = median_ms(5, [&] { CHECK_CUDA(sum_run(plan, p.p, dl.p, count.p, result.p, ws.p, 0)); });
	printf("G%d sum of 2^%d points: %.3f ms, %.3f G additions/s\n", (int)group_of<F>(), most, ms, n / ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
	std::string what = argc > 1 ? argv[1] : "all";
	int most = argc > 2 ? atoi(argv[2]) : 24;
	cudaDeviceProp prop;
	CHECK_CUDA(cudaGetDeviceProperties(&prop, 0));
	printf("%s, %d SMs, sm_%d%d\n", prop.name, prop.multiProcessorCount, prop.major, prop.minor);
	if (what == "small") {
		check_small<G1>();
		check_small<G2>();
		printf("msm_check: %ld passed, %ld failed\n", tally.passed, tally.failed);
		return tally.failed ? 1 : 0;
	}
	if (what == "once") {
		Table<G1> table;
		check_case(table, 1ull << most, Points::random, Scalars::random, true, false, 0, 0);
		return tally.failed ? 1 : 0;
	}
	if (what != "time") {
		check_field<Fp>("Fp");
		check_field<Fr>("Fr");
		check_lazy();
		printf("field: %ld passed, %ld failed\n", tally.passed, tally.failed);
		fflush(stdout);
		if (tally.failed) return 1;
		check_group<G1>(true);
		printf("after G1: %ld passed, %ld failed\n", tally.passed, tally.failed);
		fflush(stdout);
		check_group<G2>(true);
		printf("after G2: %ld passed, %ld failed\n", tally.passed, tally.failed);
		fflush(stdout);
	}
	if (what != "check") {
		time_group<G1>(most, {{10, {0}}, {14, {0, 11}}, {16, {0, 12, 14}}, {18, {0, 14}}, {20, {0, 15, 17}}, {22, {0, 18, 19}}, {24, {0, 19, 21}}, {26, {0, 22}}, {27, {0}}});
		time_group<G2>(std::min(most, 24), {{10, {0}}, {16, {0, 14}}, {18, {0}}, {20, {0, 15, 17}}, {22, {0, 18}}, {24, {0, 19, 21}}});
	}
	tally.check(msm_launches(Group::g1) > 0 && msm_launches(Group::g2) > 0, "launches are counted");
	printf("msm_check: %ld passed, %ld failed\n", tally.passed, tally.failed);
	return tally.failed ? 1 : 0;
}
