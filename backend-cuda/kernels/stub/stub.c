/* libweir_cuda without a GPU: the same calls, computed by the plainest algorithms on the processor, for tests of the Go side. It is no backend: the file
 * is compiled by tests only, and tells itself apart (runtime_version 0).
 *
 * It is strict where a GPU is not: every address must lie in a live block, every scratch be as large as weir_cuda_sizes says, no lane be used by two
 * threads at once; what a step of one queue touches must not be touched by the other queue before it is waited for; fresh and freed memory is filled with junk. And it fails on demand: weir_stub_set. What it shares with the real library is the header.
 *
 * Built with -D: STUB_VERSION (another ABI version), STUB_SIZE_DELTA (struct sizes that are off by so much), STUB_OMIT (weir_cuda_msm is missing),
 * STUB_STICKY_CALL (the device is lost from that call on, for processes that nobody can set a knob in). */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../weir_cuda.h"

#ifndef STUB_VERSION
#define STUB_VERSION WEIR_CUDA_ABI
#endif
#ifndef STUB_SIZE_DELTA
#define STUB_SIZE_DELTA 0
#endif
#ifndef STUB_STICKY_CALL
#define STUB_STICKY_CALL 0
#endif

/* ---- arithmetic ---- */

typedef struct { uint64_t v[4]; } fr;
#define T fr
#define L 4
#define F(op) fr_##op
#define MODULUS {0xffffffff00000001ull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull}
#include "field.inc"

typedef struct { uint64_t v[6]; } fp;
#define T fp
#define L 6
#define F(op) fp_##op
#define MODULUS {0xb9feffffffffaaabull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull}
#include "field.inc"

/* Fp2 = Fp[i], i^2 = -1. */
typedef struct { fp a, b; } fp2;
static int fp2_is_zero(const fp2 *x) { return fp_is_zero(&x->a) && fp_is_zero(&x->b); }
static void fp2_set_one(fp2 *z) { memset(z, 0, sizeof *z); fp_set_one(&z->a); }
static void fp2_add(fp2 *z, const fp2 *x, const fp2 *y) { fp_add(&z->a, &x->a, &y->a); fp_add(&z->b, &x->b, &y->b); }
static void fp2_sub(fp2 *z, const fp2 *x, const fp2 *y) { fp_sub(&z->a, &x->a, &y->a); fp_sub(&z->b, &x->b, &y->b); }
static void fp2_mul(fp2 *z, const fp2 *x, const fp2 *y)
{
	fp aa, bb, ab, ba;
	fp_mul(&aa, &x->a, &y->a);
	fp_mul(&bb, &x->b, &y->b);
	fp_mul(&ab, &x->a, &y->b);
	fp_mul(&ba, &x->b, &y->a);
	fp_sub(&z->a, &aa, &bb);
	fp_add(&z->b, &ab, &ba);
}
static void fp2_inverse(fp2 *z, const fp2 *x)
{
	fp n, t;
	fp_mul(&n, &x->a, &x->a);
	fp_mul(&t, &x->b, &x->b);
	fp_add(&n, &n, &t);
	fp_inverse(&n, &n);
	fp_mul(&z->a, &x->a, &n);
	fp_mul(&t, &x->b, &n);
	memset(&n, 0, sizeof n);
	fp_sub(&z->b, &n, &t);
}

static void fr_plain(uint64_t k[4], const fr *x)
{
	fr unit = {{1}}, o;
	fr_mul(&o, x, &unit);
	memcpy(k, o.v, sizeof o.v);
}

#define T fp
#define F(op) fp_##op
#define G(op) g1_##op
#include "curve.inc"
#define T fp2
#define F(op) fp2_##op
#define G(op) g2_##op
#include "curve.inc"

/* root is the 2^log-th root of unity of the generator 7, log at most 32. */
static fr root(uint32_t log)
{
	fr seven, w;
	memset(&seven, 0, sizeof seven);
	for (int i = 0; i < 7; i++)
		fr_add(&seven, &seven, &fr_one);
	/* (r-1)/2^32 */
	uint64_t e[4];
	for (int i = 0; i < 4; i++)
		e[i] = fr_modulus[i] >> 32 | (i < 3 ? fr_modulus[i + 1] << 32 : 0);
	fr_power(&w, &seven, e, 4);
	for (uint32_t i = log; i < 32; i++)
		fr_mul(&w, &w, &w);
	return w;
}

/* ntt: v[i] becomes the value at w^i of the polynomial with coefficients v. */
static void ntt(fr *v, uint32_t log, fr w)
{
	uint64_t n = 1ull << log;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t j = 0;
		for (uint32_t b = 0; b < log; b++)
			j |= (i >> b & 1) << (log - 1 - b);
		if (i < j) {
			fr t = v[i];
			v[i] = v[j];
			v[j] = t;
		}
	}
	for (uint32_t s = 1; s <= log; s++) {
		fr step = w;
		for (uint32_t i = s; i < log; i++)
			fr_mul(&step, &step, &step);
		uint64_t half = 1ull << (s - 1);
		for (uint64_t k = 0; k < n; k += 2 * half) {
			fr x = fr_one, t;
			for (uint64_t j = k; j < k + half; j++) {
				fr_mul(&t, &v[j + half], &x);
				fr_sub(&v[j + half], &v[j], &t);
				fr_add(&v[j], &v[j], &t);
				fr_mul(&x, &x, &step);
			}
		}
	}
}

static void intt(fr *v, uint32_t log)
{
	fr w = root(log), n = fr_one;
	fr_inverse(&w, &w);
	ntt(v, log, w);
	for (uint32_t i = 0; i < log; i++)
		fr_add(&n, &n, &n);
	fr_inverse(&n, &n);
	for (uint64_t i = 0; i < 1ull << log; i++)
		fr_mul(&v[i], &v[i], &n);
}

static void shift(fr *v, uint32_t log, fr u)
{
	fr x = fr_one;
	for (uint64_t i = 0; i < 1ull << log; i++) {
		fr_mul(&v[i], &v[i], &x);
		fr_mul(&x, &x, &u);
	}
}

/* ---- what is alive, and what is to fail ---- */

enum { MAX_DEVICES = 4, MAX_LANES = 32, JUNK = 0xa5 };

typedef struct block {
	struct block *next;
	unsigned char *at;
	uint64_t bytes;
	int device;
} block;

/* What the steps of a lane's two queues touch, until the other queue is known to come after them. */
enum { MAX_TOUCHED = 32, MAX_PENDING = 256 };
typedef struct { uint64_t ticket, from, to; } touch;
typedef struct { touch pending[2][MAX_PENDING]; uint32_t n[2]; } order;

typedef struct { int open; uint32_t lanes; uint64_t used, pinned, launches[6]; uint64_t ticket[MAX_LANES][2]; int busy[MAX_LANES]; order order[MAX_LANES]; } device_state;

enum { NTT, MSM1, MSM2, SPMV, WITNESS, FIXED };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static block *blocks, *pinned;
static device_state devices[MAX_DEVICES];

/* Settings of weir_stub_set, and their indexes. */
enum { DEVICES, MEMORY, NO_DRIVER, FAIL_ALLOC, FAIL_CALL, STICKY_CALL, FLIP, CALLS, ALIVE, PINNED, RESET, SWAP_UUID, NB_SETTINGS };
static uint64_t setting[NB_SETTINGS] = {[DEVICES] = 1, [MEMORY] = 1ull << 30, [STICKY_CALL] = STUB_STICKY_CALL};
static int sticky;

static void init(void)
{
	fr_init();
	fp_init();
}

WEIR_CUDA_EXPORT uint64_t weir_stub_set(uint32_t what, uint64_t value);
WEIR_CUDA_EXPORT uint64_t weir_stub_set(uint32_t what, uint64_t value)
{
	pthread_mutex_lock(&mutex);
	uint64_t old = 0;
	if (what == ALIVE || what == PINNED) {
		for (block *b = what == ALIVE ? blocks : pinned; b; b = b->next)
			old += b->bytes;
	} else if (what == RESET) {
		memset(setting, 0, sizeof setting);
		setting[DEVICES] = 1;
		setting[MEMORY] = 1ull << 30;
		sticky = 0;
	} else if (what < NB_SETTINGS) {
		old = setting[what];
		setting[what] = value;
	}
	pthread_mutex_unlock(&mutex);
	return old;
}

static void fail(weir_cuda_call *c, int32_t code, const char *text)
{
	c->code = code;
	snprintf(c->text, sizeof c->text, "%s", text);
}

/* begin checks what all calls have in common; 0: the call has its error. */
static int begin(weir_cuda_call *c, uint64_t size)
{
	pthread_once(&once, init);
	uint32_t got = c->size;
	c->code = WEIR_CUDA_OK;
	c->device_code = 0;
	c->sticky = 0;
	memset(c->text, 0, sizeof c->text);
	if (got != size) {
		fail(c, WEIR_CUDA_INVALID, "stub: the struct has another size");
		return 0;
	}
	pthread_mutex_lock(&mutex);
	setting[CALLS]++;
	if (setting[STICKY_CALL] && --setting[STICKY_CALL] == 0)
		sticky = 1;
	int lost = sticky, hit = setting[FAIL_CALL] && --setting[FAIL_CALL] == 0;
	pthread_mutex_unlock(&mutex);
	if (lost || hit) {
		fail(c, WEIR_CUDA_DEVICE_ERROR, lost ? "stub: an illegal memory access was encountered" : "stub: unspecified launch failure");
		c->device_code = lost ? 700 : 719;
		c->sticky = lost;
		return 0;
	}
	return 1;
}

static device_state *get(weir_cuda_call *c, uint64_t handle)
{
	if (handle == 0 || handle > MAX_DEVICES || !devices[handle - 1].open) {
		fail(c, WEIR_CUDA_INVALID, "stub: no such device handle");
		return NULL;
	}
	return &devices[handle - 1];
}

/* Of this thread's call: what it touches, and the ticket that it waits for. */
static __thread touch touched[MAX_TOUCHED];
static __thread uint32_t nb_touched;
static __thread uint64_t waited;

/* done: the steps of a queue up to a ticket are over for whatever comes. */
static void done(order *o, int queue, uint64_t ticket)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < o->n[queue]; i++)
		if (o->pending[queue][i].ticket > ticket)
			o->pending[queue][left++] = o->pending[queue][i];
	o->n[queue] = left;
}

/* in_order finds a step of the other queue that may still be at work on what this one touches, and remembers what this one touches. */
static int in_order(order *o, int queue, uint64_t ticket)
{
	if (waited)
		done(o, 1 - queue, waited);
	for (uint32_t k = 0; k < nb_touched; k++)
		for (uint32_t i = 0; i < o->n[1 - queue]; i++)
			if (touched[k].from < o->pending[1 - queue][i].to && o->pending[1 - queue][i].from < touched[k].to)
				return 0;
	for (uint32_t k = 0; k < nb_touched; k++) {
		if (o->n[queue] == MAX_PENDING)
			memmove(o->pending[queue], o->pending[queue] + 1, --o->n[queue] * sizeof(touch));
		touched[k].ticket = ticket;
		o->pending[queue][o->n[queue]++] = touched[k];
	}
	return 1;
}

static void *range(weir_cuda_call *c, uint64_t address, uint64_t bytes, const char *name)
{
	if (c->code != WEIR_CUDA_OK)
		return NULL;
	pthread_mutex_lock(&mutex);
	block *b = blocks;
	while (b && !((uint64_t)b->at <= address && bytes <= b->bytes && address - (uint64_t)b->at <= b->bytes - bytes))
		b = b->next;
	pthread_mutex_unlock(&mutex);
	if (!b && bytes > 0) {
		char text[120];
		snprintf(text, sizeof text, "stub: %s: %llu bytes outside of every block", name, (unsigned long long)bytes);
		fail(c, WEIR_CUDA_INVALID, text);
	}
	if (bytes > 32 && nb_touched < MAX_TOUCHED) { /* single scalars are too many, and never on their way */
		touched[nb_touched].from = address;
		touched[nb_touched++].to = address + bytes;
	}
	return (void *)address;
}

static void scratch(weir_cuda_call *c, uint64_t address, uint64_t bytes, uint64_t need)
{
	void *at = range(c, address, bytes, "scratch");
	if (c->code == WEIR_CUDA_OK && bytes < need)
		fail(c, WEIR_CUDA_INVALID, "stub: scratch is smaller than weir_cuda_sizes says");
	if (c->code == WEIR_CUDA_OK && need)
		memset(at, JUNK, need);
}

/* enter takes a lane; 0: the call has its error. */
static device_state *enter(weir_cuda_call *c, uint64_t size, uint64_t handle, uint32_t lane, uint64_t after)
{
	if (!begin(c, size))
		return NULL;
	device_state *d = get(c, handle);
	if (!d)
		return NULL;
	if (lane >= d->lanes) {
		fail(c, WEIR_CUDA_INVALID, "stub: no such lane");
		return NULL;
	}
	if (__atomic_exchange_n(&d->busy[lane], 1, __ATOMIC_SEQ_CST)) {
		fail(c, WEIR_CUDA_INVALID, "stub: two calls of one lane at the same time");
		return NULL;
	}
	if (after > d->ticket[lane][0] && after > d->ticket[lane][1]) {
		fail(c, WEIR_CUDA_INVALID, "stub: a ticket that nobody has");
		__atomic_store_n(&d->busy[lane], 0, __ATOMIC_SEQ_CST);
		return NULL;
	}
	nb_touched = 0;
	waited = after;
	return d;
}

static void leave(weir_cuda_call *c, device_state *d, uint32_t lane, int queue, int launch, uint64_t *ticket)
{
	pthread_mutex_lock(&mutex);
	int ordered = c->code != WEIR_CUDA_OK || !ticket || in_order(&d->order[lane], queue, d->ticket[lane][queue] + 1);
	pthread_mutex_unlock(&mutex);
	if (!ordered)
		fail(c, WEIR_CUDA_INVALID, "stub: a step of the other queue may still be at work there: nobody waits for it");
	if (c->code == WEIR_CUDA_OK) {
		if (ticket)
			*ticket = ++d->ticket[lane][queue];
		if (launch >= 0)
			__atomic_add_fetch(&d->launches[launch], 1, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&d->busy[lane], 0, __ATOMIC_SEQ_CST);
}

/* ---- calls ---- */

void weir_cuda_abi(weir_cuda_abi_args *a)
{
	uint32_t size = a->call.size;
	memset(&a->call, 0, sizeof a->call);
	a->call.size = size;
	a->version = STUB_VERSION;
	a->nb_sizes = 0;
	if (size != sizeof *a)
		return fail(&a->call, WEIR_CUDA_INVALID, "stub: the struct has another size");
#define SIZE(s) a->sizes[a->nb_sizes++] = (uint32_t)sizeof(s) + STUB_SIZE_DELTA
	SIZE(weir_cuda_call);
	SIZE(weir_cuda_abi_args);
	SIZE(weir_cuda_device);
	SIZE(weir_cuda_devices_args);
	SIZE(weir_cuda_open_args);
	SIZE(weir_cuda_device_args);
	SIZE(weir_cuda_memory_args);
	SIZE(weir_cuda_register_args);
	SIZE(weir_cuda_copy_args);
	SIZE(weir_cuda_wait_args);
	SIZE(weir_cuda_sizes_args);
	SIZE(weir_cuda_tables_args);
	SIZE(weir_cuda_witness_args);
	SIZE(weir_cuda_evaluate_args);
	SIZE(weir_cuda_quotient_args);
	SIZE(weir_cuda_msm_args);
	SIZE(weir_cuda_fixed_base_args);
	a->runtime_version = 0;
	a->nb_archs = 0;
	a->ptx = 0;
	snprintf(a->build, sizeof a->build, "stub for tests, no GPU");
}

static void uuid_of(uint8_t uuid[16], uint32_t i)
{
	if (setting[SWAP_UUID])
		i = (uint32_t)setting[DEVICES] - 1 - i;
	for (int k = 0; k < 16; k++)
		uuid[k] = (uint8_t)(0x10 * (i + 1) + k);
}

void weir_cuda_devices(weir_cuda_devices_args *a)
{
	if (!begin(&a->call, sizeof *a))
		return;
	a->nb_devices = a->driver_version = 0;
	if (setting[NO_DRIVER])
		return fail(&a->call, WEIR_CUDA_NO_DRIVER, "stub: CUDA driver version is insufficient for CUDA runtime version");
	a->driver_version = 13000;
	a->nb_devices = (uint32_t)setting[DEVICES];
	for (uint32_t i = 0; i < a->nb_devices && i < a->room; i++) {
		weir_cuda_device *d = (weir_cuda_device *)a->devices + i;
		memset(d, 0, sizeof *d);
		uuid_of(d->uuid, i);
		snprintf(d->name, sizeof d->name, "stub GPU %u", i);
		snprintf(d->pci, sizeof d->pci, "0000:0%u:00.0", i);
		d->memory = setting[MEMORY];
		d->arch = 90;
		d->multiprocessors = 1;
		d->usable = 1;
	}
}

void weir_cuda_open(weir_cuda_open_args *a)
{
	if (!begin(&a->call, sizeof *a))
		return;
	if (setting[NO_DRIVER])
		return fail(&a->call, WEIR_CUDA_NO_DRIVER, "stub: CUDA driver version is insufficient for CUDA runtime version");
	if (a->lanes < 1 || a->lanes > MAX_LANES)
		return fail(&a->call, WEIR_CUDA_INVALID, "stub: lanes");
	for (uint32_t i = 0; i < setting[DEVICES] && i < MAX_DEVICES; i++) {
		uint8_t uuid[16];
		uuid_of(uuid, i);
		if (memcmp(uuid, a->uuid, 16) != 0)
			continue;
		memset(&devices[i], 0, sizeof devices[i]);
		devices[i].open = 1;
		devices[i].lanes = a->lanes;
		a->device = i + 1;
		a->memory = a->memory_free = setting[MEMORY];
		a->arch = 90;
		return;
	}
	fail(&a->call, WEIR_CUDA_NO_DEVICE, "stub: no device has this UUID");
}

static void drop(block **list, int device, uint64_t address, int all)
{
	for (block **p = list; *p;) {
		block *b = *p;
		if (b->device == device && (all || (uint64_t)b->at == address)) {
			*p = b->next;
			if (list == &blocks) {
				memset(b->at, JUNK, b->bytes);
				free(b->at);
				devices[device].used -= b->bytes;
			} else {
				devices[device].pinned -= b->bytes;
			}
			free(b);
		} else {
			p = &b->next;
		}
	}
}

void weir_cuda_close(weir_cuda_device_args *a)
{
	if (!begin(&a->call, sizeof *a))
		return;
	device_state *d = get(&a->call, a->device);
	if (!d)
		return;
	pthread_mutex_lock(&mutex);
	drop(&blocks, (int)a->device - 1, 0, 1);
	drop(&pinned, (int)a->device - 1, 0, 1);
	d->open = 0;
	pthread_mutex_unlock(&mutex);
}

void weir_cuda_memory(weir_cuda_device_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	a->memory = setting[MEMORY];
	a->memory_free = setting[MEMORY] - d->used;
	a->allocated = d->used;
	a->registered = d->pinned;
}

void weir_cuda_counters(weir_cuda_device_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	a->launches_ntt = d->launches[NTT];
	a->launches_g1 = d->launches[MSM1];
	a->launches_g2 = d->launches[MSM2];
	a->launches_spmv = d->launches[SPMV];
	a->launches_witness = d->launches[WITNESS];
	a->launches_fixed_base = d->launches[FIXED];
}

void weir_cuda_alloc(weir_cuda_memory_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	if (a->bytes == 0)
		return fail(&a->call, WEIR_CUDA_INVALID, "stub: nothing to allocate");
	pthread_mutex_lock(&mutex);
	int full = setting[FAIL_ALLOC] && --setting[FAIL_ALLOC] == 0;
	block *b = NULL;
	if (!full && a->bytes <= setting[MEMORY] && d->used <= setting[MEMORY] - a->bytes && (b = malloc(sizeof *b)) && !(b->at = aligned_alloc(256, (a->bytes + 255) & ~255ull))) {
		free(b);
		b = NULL;
	}
	if (b) {
		memset(b->at, JUNK, a->bytes);
		b->bytes = a->bytes;
		b->device = (int)a->device - 1;
		b->next = blocks;
		blocks = b;
		d->used += b->bytes;
		a->address = (uint64_t)b->at;
	}
	pthread_mutex_unlock(&mutex);
	if (!b) {
		fail(&a->call, WEIR_CUDA_OUT_OF_MEMORY, "stub: out of memory");
		a->call.device_code = 2;
	}
}

void weir_cuda_free(weir_cuda_memory_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	pthread_mutex_lock(&mutex);
	uint64_t before = d->used;
	for (uint32_t l = 0; l < d->lanes; l++) /* the device frees when all it was asked for is done */
		for (int q = 0; q < 2; q++)
			done(&d->order[l], q, d->ticket[l][q]);
	drop(&blocks, (int)a->device - 1, a->address, 0);
	int found = d->used != before;
	pthread_mutex_unlock(&mutex);
	if (!found)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: no block begins there");
}

void weir_cuda_register(weir_cuda_register_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	pthread_mutex_lock(&mutex);
	int full = setting[FAIL_ALLOC] && --setting[FAIL_ALLOC] == 0;
	block *b = full ? NULL : malloc(sizeof *b);
	if (b) {
		b->at = (unsigned char *)a->address;
		b->bytes = a->bytes;
		b->device = (int)a->device - 1;
		b->next = pinned;
		pinned = b;
		d->pinned += b->bytes;
	}
	pthread_mutex_unlock(&mutex);
	if (!b)
		fail(&a->call, WEIR_CUDA_OUT_OF_MEMORY, "stub: cannot pin");
}

void weir_cuda_unregister(weir_cuda_register_args *a)
{
	device_state *d;
	if (!begin(&a->call, sizeof *a) || !(d = get(&a->call, a->device)))
		return;
	pthread_mutex_lock(&mutex);
	uint64_t before = d->pinned;
	drop(&pinned, (int)a->device - 1, a->address, 0);
	int found = d->pinned != before;
	pthread_mutex_unlock(&mutex);
	if (!found)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: not registered");
}

void weir_cuda_upload(weir_cuda_copy_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	void *to = range(&a->call, a->to, a->bytes, "upload");
	if (a->call.code == WEIR_CUDA_OK && a->bytes)
		memcpy(to, (void *)a->from, a->bytes);
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_COPY, -1, &a->ticket);
}

void weir_cuda_download(weir_cuda_copy_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	void *from = range(&a->call, a->from, a->bytes, "download");
	if (a->call.code == WEIR_CUDA_OK && a->bytes) {
		memcpy((void *)a->to, from, a->bytes);
		if (setting[FLIP])
			((unsigned char *)a->to)[0] ^= 1;
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, -1, &a->ticket);
}

void weir_cuda_clear(weir_cuda_copy_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	void *to = range(&a->call, a->to, a->bytes, "clear");
	if (a->call.code == WEIR_CUDA_OK && a->bytes)
		memset(to, 0, a->bytes);
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, -1, &a->ticket);
}

void weir_cuda_wait(weir_cuda_wait_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, 0);
	if (!d)
		return;
	if (a->queue > 1 || a->ticket > d->ticket[a->lane][a->queue])
		fail(&a->call, WEIR_CUDA_INVALID, "stub: a ticket that nobody has");
	a->done = 1;
	if (a->call.code == WEIR_CUDA_OK) {
		pthread_mutex_lock(&mutex);
		done(&d->order[a->lane], (int)a->queue, a->ticket ? a->ticket : d->ticket[a->lane][a->queue]);
		pthread_mutex_unlock(&mutex);
	}
	leave(&a->call, d, a->lane, 0, -1, NULL);
}

/* Figures that are easy to get wrong when somebody guesses them. */
static uint64_t need_quotient(uint32_t log_n) { return 96 + (32ull << log_n); }
static uint64_t need_msm(uint32_t group, uint64_t n) { return n ? 300 * group + 8 * n : 0; }
static uint64_t need_witness(uint64_t wires) { return wires ? 40 + wires / 8 : 0; }
static uint64_t need_classes(uint64_t wires) { return wires ? 24 + wires / 4 : 0; }
static uint64_t need_evaluate(uint64_t rows, uint64_t coeffs) { return rows || coeffs ? 56 + rows + coeffs : 0; }
static uint64_t need_fixed(uint64_t n) { return n ? 4096 + n : 0; }
static uint64_t need_tables(uint32_t log_n) { return 64 + (16ull << log_n); }

void weir_cuda_sizes(weir_cuda_sizes_args *a)
{
	if (!begin(&a->call, sizeof *a) || !get(&a->call, a->device))
		return;
	if (a->log_n > 28)
		return fail(&a->call, WEIR_CUDA_INVALID, "stub: domain");
	a->tables_bytes = a->has_domain ? need_tables(a->log_n) : 0;
	a->quotient_bytes = a->has_domain ? need_quotient(a->log_n) : 0;
	a->g1_bytes = need_msm(1, a->g1_points);
	a->g2_bytes = need_msm(2, a->g2_points);
	a->classes_bytes = need_classes(a->wires);
	a->witness_bytes = need_witness(a->wires);
	a->evaluate_bytes = need_evaluate(a->rows, a->coeffs);
	a->fixed_base_bytes = need_fixed(a->fixed_g1 > a->fixed_g2 ? a->fixed_g1 : a->fixed_g2);
}

void weir_cuda_tables(weir_cuda_tables_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	void *to = range(&a->call, a->tables, a->tables_bytes, "tables");
	if (a->call.code == WEIR_CUDA_OK && a->tables_bytes < need_tables(a->log_n))
		fail(&a->call, WEIR_CUDA_INVALID, "stub: tables are smaller than weir_cuda_sizes says");
	if (a->call.code == WEIR_CUDA_OK) {
		fr w = root(a->log_n);
		memcpy(to, &w, sizeof w);
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, -1, &a->ticket);
}

void weir_cuda_witness(weir_cuda_witness_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	fr *out = range(&a->call, a->scalars, 32 * a->wires, "scalars"), *list = range(&a->call, a->list, 32 * a->listed, "list");
	unsigned char *classes = range(&a->call, a->classes, a->classes_bytes, "classes");
	scratch(&a->call, a->scratch, a->scratch_bytes, need_witness(a->wires));
	if (a->call.code == WEIR_CUDA_OK && a->classes_bytes < need_classes(a->wires))
		fail(&a->call, WEIR_CUDA_INVALID, "stub: classes are smaller than weir_cuda_sizes says");
	if (!a->compact && a->listed != a->wires)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: a dense witness lists all wires");
	if (a->compact) {
		uint64_t words = (a->wires + 63) / 64, blocks512 = (a->wires + 511) / 512;
		uint64_t *is_bit = range(&a->call, a->is_bit, 8 * words, "is_bit"), *value = range(&a->call, a->value, 8 * words, "value");
		uint32_t *rank = range(&a->call, a->rank, 4 * blocks512, "rank");
		for (uint64_t i = 0, next = 0; i < a->wires && a->call.code == WEIR_CUDA_OK; i++) {
			if (i % 512 == 0 && rank[i / 512] != next) {
				fail(&a->call, WEIR_CUDA_INVALID, "stub: ranks do not fit the bitmap");
			} else if (is_bit[i / 64] >> (i % 64) & 1) {
				if (value[i / 64] >> (i % 64) & 1)
					out[i] = fr_one;
				else
					memset(&out[i], 0, sizeof *out);
			} else if (next < a->listed) {
				out[i] = list[next++];
			}
		}
	} else if (a->call.code == WEIR_CUDA_OK && out != list) {
		memcpy(out, list, 32 * a->wires);
	}
	if (a->call.code == WEIR_CUDA_OK)
		memset(classes, 0xc1, need_classes(a->wires)); /* so that a sum can tell whether it got them */
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, WITNESS, &a->ticket);
}

void weir_cuda_evaluate(weir_cuda_evaluate_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	uint64_t n = 1ull << a->log_n;
	uint32_t *start = range(&a->call, a->start, a->rows ? 4 * (a->rows + 1) : 0, "start");
	uint32_t *wire = range(&a->call, a->wire, 4 * a->terms, "wire"), *coeff = range(&a->call, a->coeff, 4 * a->terms, "coeff");
	fr *coeffs = range(&a->call, a->coeffs, 32 * a->nb_coeffs, "coeffs"), *w = (fr *)a->scalars, *out = range(&a->call, a->out, 32 * n, "out");
	scratch(&a->call, a->scratch, a->scratch_bytes, need_evaluate(a->rows, a->nb_coeffs));
	unsigned char *classes = range(&a->call, a->classes, 24, "classes");
	if (a->call.code == WEIR_CUDA_OK && classes[0] != 0xc1)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: classes of no witness");
	if (a->first_row + a->rows + a->extra > n)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: more rows than the domain has");
	for (uint64_t i = 0; i < a->rows + a->extra && a->call.code == WEIR_CUDA_OK; i++) {
		fr sum = {{0}}, t;
		if (i >= a->rows) {
			range(&a->call, (uint64_t)&w[i - a->rows], 32, "scalar");
			if (a->call.code == WEIR_CUDA_OK)
				sum = w[i - a->rows];
		} else {
			if (start[i + 1] < start[i] || start[i + 1] - start[0] > a->terms)
				fail(&a->call, WEIR_CUDA_INVALID, "stub: starts leave the terms");
			for (uint64_t k = start[i] - start[0]; k < start[i + 1] - start[0] && a->call.code == WEIR_CUDA_OK; k++) {
				range(&a->call, (uint64_t)&w[wire[k]], 32, "scalar");
				if (coeff[k] >= a->nb_coeffs)
					fail(&a->call, WEIR_CUDA_INVALID, "stub: coefficient");
				if (a->call.code != WEIR_CUDA_OK)
					break;
				fr_mul(&t, &w[wire[k]], &coeffs[coeff[k]]);
				fr_add(&sum, &sum, &t);
			}
		}
		uint64_t at = a->first_row + i;
		if (a->row_order == WEIR_CUDA_ROWS_FIVE)
			at = at * 3797895509ull & (n - 1);
		if (a->call.code == WEIR_CUDA_OK)
			out[at] = sum;
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, SPMV, &a->ticket);
}

void weir_cuda_quotient(weir_cuda_quotient_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	uint64_t n = 1ull << a->log_n;
	fr *v[3] = {range(&a->call, a->a, 32 * n, "a"), range(&a->call, a->b, 32 * n, "b"), range(&a->call, a->c, 32 * n, "c")};
	fr *tables = range(&a->call, a->tables, need_tables(a->log_n), "tables"), *remainder = range(&a->call, a->remainder, 32, "remainder");
	scratch(&a->call, a->scratch, a->scratch_bytes, need_quotient(a->log_n));
	fr w = root(a->log_n), u = root(a->log_n + 1), t;
	if (a->call.code == WEIR_CUDA_OK && !fr_equal(tables, &w))
		fail(&a->call, WEIR_CUDA_INVALID, "stub: tables of another domain");
	if (a->call.code == WEIR_CUDA_OK) {
		if (a->product)
			for (uint64_t i = 0; i < n; i++)
				fr_mul(&v[2][i], &v[0][i], &v[1][i]);
		for (int k = 0; k < 3; k++) {
			intt(v[k], a->log_n);
			shift(v[k], a->log_n, u);
			ntt(v[k], a->log_n, w);
		}
		for (uint64_t i = 0; i < n; i++) {
			fr_mul(&t, &v[0][i], &v[1][i]);
			fr_sub(&v[0][i], &t, &v[2][i]);
		}
		memcpy(v[1], v[0], 32 * n);
		intt(v[1], a->log_n);
		fr_inverse(&u, &u);
		shift(v[1], a->log_n, u);
		/* the polynomial of P on the coset is -2 h there */
		fr half = fr_one, zero = {{0}};
		fr_add(&half, &half, &half);
		fr_sub(&half, &zero, &half);
		fr_inverse(&half, &half);
		for (uint64_t i = 0; i < n; i++)
			fr_mul(&v[1][i], &v[1][i], &half);
		*remainder = v[1][n - 1];
		if (a->basis == WEIR_CUDA_H_MONOMIAL)
			memcpy(v[0], v[1], 32 * n);
		memset(v[1], JUNK, 32 * n);
		memset(v[2], JUNK, 32 * n);
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, NTT, &a->ticket);
}

#ifndef STUB_OMIT
void weir_cuda_msm(weir_cuda_msm_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	int g2 = a->group == 2;
	uint64_t affine = g2 ? sizeof(g2_affine) : sizeof(g1_affine);
	if (a->group != 1 && a->group != 2)
		fail(&a->call, WEIR_CUDA_INVALID, "stub: group");
	void *points = range(&a->call, a->points, affine * a->nb_points, "points");
	void *result = range(&a->call, a->result, affine + 2 * affine * WEIR_CUDA_MSM_WINDOWS, "result");
	uint32_t *index = a->index ? range(&a->call, a->index, 4 * a->nb_points, "index") : NULL;
	fr *w = (fr *)a->scalars;
	scratch(&a->call, a->scratch, a->scratch_bytes, need_msm(a->group, a->nb_points));
	for (uint64_t i = 0; i < a->nb_points && a->call.code == WEIR_CUDA_OK; i += index ? 1 : a->nb_points)
		range(&a->call, (uint64_t)&w[index ? index[i] : a->first], index ? 32 : 32 * a->nb_points, "scalar");
	if (a->call.code == WEIR_CUDA_OK && a->kind == WEIR_CUDA_SCALARS_WITNESS) {
		unsigned char *classes = range(&a->call, a->classes, 24, "classes");
		if (a->call.code == WEIR_CUDA_OK && classes[0] != 0xc1)
			fail(&a->call, WEIR_CUDA_INVALID, "stub: classes of no witness");
	}
	a->windows = a->window_bits = 0;
	a->scratch_used = a->scratch_bytes;
	if (a->call.code == WEIR_CUDA_OK) {
		a->window_bits = 3;
		a->windows = g2 ? g2_parts(result, points, a->nb_points, w, index, a->first) : g1_parts(result, points, a->nb_points, w, index, a->first);
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, g2 ? MSM2 : MSM1, &a->ticket);
}
#endif

void weir_cuda_fixed_base(weir_cuda_fixed_base_args *a)
{
	device_state *d = enter(&a->call, sizeof *a, a->device, a->lane, a->after);
	if (!d)
		return;
	int g2 = a->group == 2;
	uint64_t affine = g2 ? sizeof(g2_affine) : sizeof(g1_affine);
	void *base = a->make_table ? range(&a->call, a->base, affine, "base") : NULL, *points = range(&a->call, a->points, affine * a->nb_scalars, "points");
	fr *w = range(&a->call, a->scalars, 32 * a->nb_scalars, "scalars");
	/* the table is the base */
	if (a->make_table) {
		scratch(&a->call, a->scratch, a->scratch_bytes, need_fixed(1));
		if (a->call.code == WEIR_CUDA_OK)
			memcpy((void *)a->scratch, base, affine);
	} else {
		range(&a->call, a->scratch, need_fixed(a->nb_scalars), "scratch");
	}
	base = (void *)a->scratch;
	for (uint64_t i = 0; i < a->nb_scalars && a->call.code == WEIR_CUDA_OK; i++) {
		uint64_t k[4];
		fr_plain(k, &w[i]);
		if (g2) {
			g2_point p;
			g2_from_affine(&p, base);
			g2_times(&p, &p, k);
			g2_to_affine((g2_affine *)points + i, &p);
		} else {
			g1_point p;
			g1_from_affine(&p, base);
			g1_times(&p, &p, k);
			g1_to_affine((g1_affine *)points + i, &p);
		}
	}
	leave(&a->call, d, a->lane, WEIR_CUDA_QUEUE_WORK, FIXED, &a->ticket);
}
