// The C border: the steps of a proof, over the device level (ntt.h, poly.h, witness.h, spmv.h, msm.h).
#include "api.cuh"
#include "fixed_base.h"
#include "launch.cuh"
#include "msm.h"
#include "poly.h"
#include "spmv.h"
#include "witness.h"

namespace weir {
namespace api {
namespace {

// A step of one lane should not ask for more scratch than this at once: sums then do their windows in several passes.
uint64_t scratch_limit(const Device* d) {
	uint64_t tenth = d->memory / 10, least = 64ull << 20;
	return tenth > least ? tenth : least;
}

// A full table spares one product in three beyond 2^16; it may take a sixteenth of the memory.
NttTableKind table_kind(const Device* d, int log_n) {
	return ntt_tables_bytes(log_n, NttTableKind::full) <= d->memory / 16 ? NttTableKind::full : NttTableKind::composed;
}

// Plans a sum within limit bytes, with smaller windows where those of the table do not fit; 0: what the table says, whatever it takes.
cudaError_t plan_msm(MsmPlan* plan, Group g, uint64_t n, uint64_t limit) {
	cudaError_t err = msm_plan(plan, g, n, limit, 0);
	for (int bits = plan->window_bits - 1; err == cudaErrorMemoryAllocation && bits >= 4; bits--) err = msm_plan(plan, g, n, limit, bits);
	return err;
}

// What a sum of n dense scalars takes.
cudaError_t dense_bytes(const Device* d, Group g, uint64_t n, uint64_t* bytes) {
	*bytes = 0;
	if (n == 0) return cudaSuccess;
	MsmPlan plan;
	cudaError_t err = plan_msm(&plan, g, n, scratch_limit(d));
	if (err == cudaErrorMemoryAllocation) {  // more than usual, then: one window at a time
		err = msm_plan(&plan, g, n, 0, 0);
		if (err == cudaSuccess) err = msm_plan(&plan, g, n, plan.workspace / plan.windows * 2, 0);
		if (err == cudaErrorMemoryAllocation) err = msm_plan(&plan, g, n, 0, 0);
	}
	if (err != cudaSuccess) return err;
	*bytes = up256(plan.workspace);
	return cudaSuccess;
}

// The scratch of a sum over a witness: which points have a value 1 or -1, which another, and either the sum of the former and the windows of the latter, whose points
// are gathered as long as they are at most half of all; else one sum over everything. Whatever the values are, it fits.
struct WitnessSum {
	uint64_t signs, rest, wires, counts, select, points, sum;  // offsets
	uint64_t select_bytes;
};

WitnessSum lay(uint64_t base, Group g, uint64_t n) {
	Parts p{base};
	WitnessSum w;
	w.counts = p.take(8);
	w.signs = p.take(4 * n);
	w.rest = p.take(4 * n);
	w.wires = p.take(4 * n);
	w.select_bytes = select_workspace(n);
	w.select = p.take(w.select_bytes);
	w.points = p.take((g == Group::g1 ? 96 : 192) * (n / 2));
	w.sum = base + p.used;
	return w;
}

cudaError_t msm_bytes(const Device* d, Group g, uint64_t n, uint64_t* bytes) {
	*bytes = 0;
	if (n == 0) return cudaSuccess;
	uint64_t dense;
	WEIR_TRY(dense_bytes(d, g, n, &dense));
	MsmPlan sum;
	WEIR_TRY(sum_plan(&sum, g, n, 0));
	*bytes = lay(0, g, n).sum + (dense > sum.workspace ? dense : up256(sum.workspace));
	return cudaSuccess;
}

void used(weir_cuda_msm_args* a, uint64_t workspace, const MsmPlan& plan) {
	uint64_t end = workspace + plan.workspace - a->scratch;
	if (end > a->scratch_used) a->scratch_used = end;
}

// Sums points times scalars in windows, within limit bytes at scratch.
cudaError_t run_windows(weir_cuda_msm_args* a, Group g, uint64_t n, const MsmInput& in, uint64_t scratch, uint64_t limit, cudaStream_t stream) {
	MsmPlan plan;
	WEIR_TRY(plan_msm(&plan, g, n, limit));
	if (plan.windows > (int)WEIR_CUDA_MSM_WINDOWS) return cudaErrorInvalidValue;
	MsmInput with = in;
	with.windows = at<void>(a->result + (g == Group::g1 ? 96 : 192));
	used(a, scratch, plan);
	WEIR_TRY(msm_run(plan, with, nullptr, at<void>(scratch), stream));
	a->windows = (uint32_t)plan.windows;
	a->window_bits = (uint32_t)plan.window_bits;
	return cudaSuccess;
}

cudaError_t run_dense(weir_cuda_msm_args* a, Group g, const Step& s) {
	MsmInput in = {at<void>(a->points), at<Fr>(a->scalars) + (a->index ? 0 : a->first), at<uint32_t>(a->index), true};
	return run_windows(a, g, a->nb_points, in, a->scratch, a->scratch_bytes, s.stream);
}

cudaError_t run_witness(weir_cuda_msm_args* a, Group g, const Step& s) {
	const uint64_t n = a->nb_points, affine = g == Group::g1 ? 96 : 192;
	const WitnessSum w = lay(a->scratch, g, n);
	const uint64_t left = a->scratch + a->scratch_bytes - w.sum;
	a->scratch_used = w.sum - a->scratch;
	SelectCall select;
	select.codes = at<uint64_t>(a->classes + 256);
	select.points = n;
	select.index = at<uint32_t>(a->index);
	select.first = a->first;
	select.signs = at<uint32_t>(w.signs);
	select.rest = at<uint32_t>(w.rest);
	select.rest_wires = at<uint32_t>(w.wires);
	select.counts = at<uint32_t>(w.counts);
	WEIR_TRY(witness_select(select, at<void>(w.select), w.select_bytes, s.stream));
	WEIR_TRY(cudaMemcpyAsync(s.lane->figures, select.counts, 8, cudaMemcpyDeviceToHost, s.stream));
	WEIR_TRY(cudaStreamSynchronize(s.stream));
	const uint64_t signs = s.lane->figures[0], rest = s.lane->figures[1];
	if (signs + rest > n) return cudaErrorUnknown;  // the device does not count
	if (rest > n / 2) return run_windows(a, g, n, {at<void>(a->points), at<Fr>(a->scalars) + (a->index ? 0 : a->first), at<uint32_t>(a->index), true}, w.sum, left, s.stream);
	if (rest > 0) {
		WEIR_TRY(gather_elements(at<void>(w.points), at<void>(a->points), select.rest, rest, (uint32_t)affine, s.stream));
		WEIR_TRY(run_windows(a, g, rest, {at<void>(w.points), at<Fr>(a->scalars), select.rest_wires, true}, w.sum, left, s.stream));
	}
	if (signs == 0) return cudaSuccess;
	MsmPlan plan;
	WEIR_TRY(sum_plan(&plan, g, signs, left));
	used(a, w.sum, plan);
	return sum_run(plan, at<void>(a->points), select.signs, select.counts, at<void>(a->result), at<void>(w.sum), s.stream);
}

bool too_small(weir_cuda_call* call, uint64_t have, uint64_t need, const char* what) {
	if (have >= need) return false;
	fail(call, WEIR_CUDA_INVALID, what);
	return true;
}

}  // namespace
}  // namespace api
}  // namespace weir

using namespace weir;
using namespace weir::api;

void weir_cuda_sizes(weir_cuda_sizes_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	if (a->log_n > 28 || a->g1_points > msm_max_points || a->g2_points > msm_max_points || a->wires > witness_max_wires || a->coeffs > UINT32_MAX) {
		fail(&a->call, WEIR_CUDA_UNSUPPORTED, "at most 2^28 rows and points and 2^31 wires");
		return;
	}
	const int log_n = (int)a->log_n;
	a->tables_bytes = a->has_domain ? up256(ntt_tables_bytes(log_n, table_kind(d, log_n))) : 0;
	a->quotient_bytes = a->has_domain ? up256(quotient_workspace(log_n)) : 0;
	a->classes_bytes = a->wires ? 256 + up256(8 * witness_code_words(a->wires)) : 0;
	a->witness_bytes = 0;
	a->evaluate_bytes = a->rows || a->coeffs ? up256(spmv_workspace(a->rows, a->terms, (uint32_t)a->coeffs)) : 0;
	a->fixed_base_bytes = a->fixed_g2 ? fixed_base_bytes(Group::g2) : a->fixed_g1 ? fixed_base_bytes(Group::g1) : 0;
	cudaError_t err = msm_bytes(d, Group::g1, a->g1_points, &a->g1_bytes);
	if (err == cudaSuccess) err = msm_bytes(d, Group::g2, a->g2_points, &a->g2_bytes);
	if (err != cudaSuccess) fail_cuda(&a->call, err, "sizes");
}

void weir_cuda_tables(weir_cuda_tables_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	const int log_n = (int)a->log_n;
	const NttTableKind kind = table_kind(s.device, log_n > 28 ? 28 : log_n);
	if (log_n > 28 || too_small(&a->call, a->tables_bytes, ntt_tables_bytes(log_n, kind), "tables are smaller than weir_cuda_sizes says")) {
		if (a->call.code == WEIR_CUDA_OK) fail(&a->call, WEIR_CUDA_INVALID, "domain");
		return;
	}
	NttTables t;
	cudaError_t err = ntt_tables_make(&t, log_n, kind, at<void>(a->tables), s.stream);
	if (err == cudaSuccess) {
		std::lock_guard<std::mutex> lock(s.device->mutex);
		Device::Tables* slot = nullptr;
		for (auto& x : s.device->tables)
			if (x.at == a->tables || (x.at == 0 && slot == nullptr)) slot = &x;
		if (slot == nullptr) {
			fail(&a->call, WEIR_CUDA_UNSUPPORTED, "tables of more than 32 domains");
			return;
		}
		slot->at = a->tables;
		slot->tables = t;
	}
	finish(&a->call, s, err, "tables", &a->ticket);
}

void weir_cuda_witness(weir_cuda_witness_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	if (too_small(&a->call, a->classes_bytes, 256 + 8 * witness_code_words(a->wires), "classes are smaller than weir_cuda_sizes says")) return;
	WitnessCall w;
	w.compact = a->compact != 0;
	w.wires = a->wires;
	w.listed = a->listed;
	w.is_bit = at<uint64_t>(a->is_bit);
	w.value = at<uint64_t>(a->value);
	w.rank = at<uint32_t>(a->rank);
	w.list = at<Fr>(a->list);
	w.scalars = at<Fr>(a->scalars);
	w.counts = at<WitnessCounts>(a->classes);
	w.codes = at<uint64_t>(a->classes + 256);
	finish(&a->call, s, witness_expand(w, s.stream), "witness", &a->ticket);
}

void weir_cuda_evaluate(weir_cuda_evaluate_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	if (a->row_order > 1 || a->nb_coeffs > UINT32_MAX) {
		fail(&a->call, WEIR_CUDA_INVALID, "row order or dictionary");
		return;
	}
	SpmvCall c;
	c.matrix.rows = a->rows;
	c.matrix.terms = a->terms;
	c.matrix.start = at<void>(a->start);
	c.matrix.wire = at<uint32_t>(a->wire);
	c.matrix.coeff = at<void>(a->coeff);
	c.coeffs = at<Fr>(a->coeffs);
	c.nb_coeffs = (uint32_t)a->nb_coeffs;
	c.scalars = at<Fr>(a->scalars);
	c.codes = at<uint64_t>(a->classes + 256);
	c.order = a->row_order == WEIR_CUDA_ROWS_FIVE ? RowOrder::five : RowOrder::seven;
	c.log_n = (int)a->log_n;
	c.first_row = a->first_row;
	c.extra = a->extra;
	c.out = at<Fr>(a->out);
	finish(&a->call, s, spmv(c, at<void>(a->scratch), a->scratch_bytes, s.stream), "evaluate", &a->ticket);
}

void weir_cuda_quotient(weir_cuda_quotient_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	if (a->log_n > 28 || a->basis > 1) {
		fail(&a->call, WEIR_CUDA_INVALID, "domain or basis");
		return;
	}
	if (too_small(&a->call, a->scratch_bytes, quotient_workspace((int)a->log_n), "scratch is smaller than weir_cuda_sizes says")) return;
	NttTables tables{};
	bool found = false;
	{
		std::lock_guard<std::mutex> lock(s.device->mutex);
		for (const auto& x : s.device->tables)
			if (x.at != 0 && x.at == a->tables) {
				tables = x.tables;
				found = true;
			}
	}
	if (!found || tables.log_n < (int)a->log_n) {
		fail(&a->call, WEIR_CUDA_INVALID, "tables of another domain, or none");
		return;
	}
	QuotientCall q;
	q.log_n = (int)a->log_n;
	q.basis = a->basis == WEIR_CUDA_H_ODD_COSET ? HBasis::odd_coset : HBasis::monomial;
	q.product = a->product != 0;
	q.a = at<Fr>(a->a);
	q.b = at<Fr>(a->b);
	q.c = at<Fr>(a->c);
	q.remainder = at<Fr>(a->remainder);
	finish(&a->call, s, quotient(tables, q, at<void>(a->scratch), s.stream), "quotient", &a->ticket);
}

void weir_cuda_msm(weir_cuda_msm_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	if ((a->group != 1 && a->group != 2) || a->kind > 1 || a->nb_points > msm_max_points) {
		fail(&a->call, WEIR_CUDA_INVALID, "group, kind or number of points");
		return;
	}
	const Group g = a->group == 2 ? Group::g2 : Group::g1;
	uint64_t need = 0;
	cudaError_t err = msm_bytes(s.device, g, a->nb_points, &need);
	// A key in pieces has the scratch of its largest piece; the last one, which is smaller, plans itself into it.
	if (err == cudaSuccess && a->kind == WEIR_CUDA_SCALARS_WITNESS && lay(0, g, a->nb_points).sum > a->scratch_bytes) {
		fail(&a->call, WEIR_CUDA_INVALID, "scratch is smaller than weir_cuda_sizes says");
		return;
	}
	a->windows = a->window_bits = 0;
	a->scratch_used = 0;
	// A point that is not needed is infinity, which is all zero.
	if (err == cudaSuccess) err = cudaMemsetAsync(at<void>(a->result), 0, g == Group::g1 ? 96 : 192, s.stream);
	if (err == cudaSuccess && a->nb_points > 0) err = a->kind == WEIR_CUDA_SCALARS_WITNESS ? run_witness(a, g, s) : run_dense(a, g, s);
	finish(&a->call, s, err, g == Group::g1 ? "sum in G1" : "sum in G2", &a->ticket);
}

void weir_cuda_fixed_base(weir_cuda_fixed_base_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (!s) return;
	if (a->group != 1 && a->group != 2) {
		fail(&a->call, WEIR_CUDA_INVALID, "group");
		return;
	}
	const Group g = a->group == 2 ? Group::g2 : Group::g1;
	if (too_small(&a->call, a->scratch_bytes, fixed_base_bytes(g), "scratch is smaller than weir_cuda_sizes says")) return;
	cudaError_t err = a->make_table ? fixed_base_table(g, at<void>(a->base), at<void>(a->scratch), s.stream) : cudaSuccess;
	if (err == cudaSuccess) err = fixed_base(g, at<void>(a->scratch), at<Fr>(a->scalars), a->nb_scalars, at<void>(a->points), s.stream);
	finish(&a->call, s, err, "multiples of a point", &a->ticket);
}
