// The C border: who the library is, devices, memory, copies and waits. The steps of a proof are in api_steps.cu.
#include "api.cuh"
#include "launch.cuh"

#include <cstdio>
#include <cstring>
#include <new>

#include "fixed_base.h"
#include "msm.h"
#include "spmv.h"
#include "witness.h"

#ifndef WEIR_CUDA_PTX
#define WEIR_CUDA_PTX 0  // the architecture of the PTX in the build, 0: none
#endif
#ifndef WEIR_CUDA_BUILD
#define WEIR_CUDA_BUILD "libweir_cuda"
#endif

namespace weir {
namespace api {

bool fail(weir_cuda_call* call, int32_t code, const char* text) {
	call->code = code;
	snprintf(call->text, sizeof call->text, "%s", text);
	return false;
}

namespace {

// lost asks whether an error stays: after one that spoils the context every call fails.
bool lost(cudaError_t err) {
	switch (err) {
	case cudaSuccess:
	case cudaErrorMemoryAllocation:
	case cudaErrorInvalidValue:
	case cudaErrorInvalidDevice:
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorNoKernelImageForDevice:
	case cudaErrorHostMemoryAlreadyRegistered:
	case cudaErrorHostMemoryNotRegistered:
	case cudaErrorLaunchOutOfResources:
	case cudaErrorInvalidConfiguration: return false;
	default: break;
	}
	size_t free_bytes, total;
	cudaError_t again = cudaMemGetInfo(&free_bytes, &total);
	if (again != cudaSuccess) cudaGetLastError();
	return again != cudaSuccess;
}

}  // namespace

bool fail_cuda(weir_cuda_call* call, cudaError_t err, const char* what) {
	cudaGetLastError();  // the next call must not find it
	call->device_code = (int32_t)err;
	call->code = err == cudaErrorMemoryAllocation                                                             ? WEIR_CUDA_OUT_OF_MEMORY
		     : err == cudaErrorNoDevice || err == cudaErrorInvalidDevice                                      ? WEIR_CUDA_NO_DEVICE
		     : err == cudaErrorInsufficientDriver || err == cudaErrorSystemDriverMismatch                     ? WEIR_CUDA_NO_DRIVER
		     : err == cudaErrorNoKernelImageForDevice || err == cudaErrorUnsupportedPtxVersion                ? WEIR_CUDA_UNSUPPORTED
		     : err == cudaErrorInvalidValue                                                                   ? WEIR_CUDA_INVALID
													       : WEIR_CUDA_DEVICE_ERROR;
	if (call->code == WEIR_CUDA_DEVICE_ERROR && lost(err)) call->sticky = 1;
	snprintf(call->text, sizeof call->text, "%s: %s", what, cudaGetErrorString(err));
	return false;
}

bool begin(weir_cuda_call* call, uint64_t size) {
	uint32_t got = call->size;
	call->code = WEIR_CUDA_OK;
	call->device_code = 0;
	call->sticky = 0;
	memset(call->text, 0, sizeof call->text);
	return got == size || fail(call, WEIR_CUDA_INVALID, "the struct has another size than this library knows");
}

Device* device_of(weir_cuda_call* call, uint64_t handle) {
	Device* d = at<Device>(handle);
	if (d == nullptr || d->check != magic) {
		fail(call, WEIR_CUDA_INVALID, "no such device handle");
		return nullptr;
	}
	cudaError_t err = cudaSetDevice(d->ordinal);
	if (err == cudaSuccess) return d;
	fail_cuda(call, err, "cudaSetDevice");
	return nullptr;
}

Step step(weir_cuda_call* call, uint64_t size, uint64_t handle, uint32_t lane, uint32_t queue, uint64_t after) {
	Step s;
	if (!begin(call, size)) return s;
	Device* d = device_of(call, handle);
	if (d == nullptr) return s;
	if (lane >= d->lanes) {
		fail(call, WEIR_CUDA_INVALID, "no such lane");
		return s;
	}
	s.lane = &d->lane[lane];
	s.queue = &s.lane->queue[queue];
	s.stream = s.queue->stream;
	if (after != 0) {
		Queue& other = s.lane->queue[1 - queue];
		if (after > other.ticket) {
			fail(call, WEIR_CUDA_INVALID, "a ticket that nobody has");
			return s;
		}
		cudaError_t err = cudaStreamWaitEvent(s.stream, other.event[after % events], 0);
		if (err != cudaSuccess) {
			fail_cuda(call, err, "cudaStreamWaitEvent");
			return s;
		}
	}
	s.device = d;
	return s;
}

void finish(weir_cuda_call* call, const Step& s, cudaError_t err, const char* what, uint64_t* ticket) {
	if (err == cudaSuccess) {
		uint64_t t = s.queue->ticket + 1;
		err = cudaEventRecord(s.queue->event[t % events], s.stream);
		if (err == cudaSuccess) {
			s.queue->ticket = *ticket = t;
			return;
		}
		what = "cudaEventRecord";
	}
	fail_cuda(call, err, what);
}

namespace {

#ifdef __CUDA_ARCH_LIST__
constexpr int archs[] = {__CUDA_ARCH_LIST__};  // 900 for sm_90
#else
constexpr int archs[] = {0};
#endif

// probe is what an opened device is asked for: has the library code that it can run?
__global__ void probe() {}

// usable: machine code runs on its own major version from its minor version on; PTX on everything newer.
bool usable(int major, int minor) {
	for (int a : archs)
		if (a / 100 == major && a / 10 % 10 <= minor) return true;
	return WEIR_CUDA_PTX != 0 && 10 * major + minor >= WEIR_CUDA_PTX;
}

void pci_of(int ordinal, char* out, size_t room) {
	if (cudaDeviceGetPCIBusId(out, (int)room, ordinal) != cudaSuccess) {
		cudaGetLastError();
		out[0] = 0;
	}
}

cudaError_t open_lane(Lane* l) {
	for (Queue& q : l->queue) {
		WEIR_TRY(cudaStreamCreateWithFlags(&q.stream, cudaStreamNonBlocking));
		for (cudaEvent_t& e : q.event) WEIR_TRY(cudaEventCreateWithFlags(&e, cudaEventDisableTiming | cudaEventBlockingSync));
	}
	return cudaHostAlloc(reinterpret_cast<void**>(&l->figures), 256, cudaHostAllocDefault);
}

void close_device(Device* d) {
	for (uint32_t i = 0; i < d->lanes; i++) {
		for (Queue& q : d->lane[i].queue) {
			if (q.stream) cudaStreamSynchronize(q.stream);
			for (cudaEvent_t e : q.event)
				if (e) cudaEventDestroy(e);
			if (q.stream) cudaStreamDestroy(q.stream);
		}
		if (d->lane[i].figures) cudaFreeHost(d->lane[i].figures);
	}
	for (Range* r = d->blocks; r;) {
		Range* next = r->next;
		cudaFree(at<void>(r->address));
		delete r;
		r = next;
	}
	for (Range* r = d->pinned; r;) {
		Range* next = r->next;
		cudaHostUnregister(at<void>(r->address));
		delete r;
		r = next;
	}
	cudaGetLastError();
	d->check = 0;
	delete d;
}

void count(uint64_t to[6]) {
	to[0] = ntt_launches();
	to[1] = msm_launches(Group::g1);
	to[2] = msm_launches(Group::g2);
	to[3] = spmv_launches();
	to[4] = witness_launches();
	to[5] = fixed_base_launches();
}

// Takes the range that begins at address out of a list; null: there is none.
Range* take(Range** list, uint64_t address) {
	for (Range** p = list; *p; p = &(*p)->next)
		if ((*p)->address == address) {
			Range* r = *p;
			*p = r->next;
			return r;
		}
	return nullptr;
}

}  // namespace
}  // namespace api
}  // namespace weir

using namespace weir;
using namespace weir::api;

void weir_cuda_abi(weir_cuda_abi_args* a) {
	a->version = WEIR_CUDA_ABI;  // first of all, for a caller of another version
	if (!begin(&a->call, sizeof *a)) return;
	static const size_t sizes[] = {sizeof(weir_cuda_call), sizeof(weir_cuda_abi_args), sizeof(weir_cuda_device), sizeof(weir_cuda_devices_args), sizeof(weir_cuda_open_args),
				       sizeof(weir_cuda_device_args), sizeof(weir_cuda_memory_args), sizeof(weir_cuda_register_args), sizeof(weir_cuda_copy_args),
				       sizeof(weir_cuda_wait_args), sizeof(weir_cuda_sizes_args), sizeof(weir_cuda_tables_args), sizeof(weir_cuda_witness_args),
				       sizeof(weir_cuda_evaluate_args), sizeof(weir_cuda_quotient_args), sizeof(weir_cuda_msm_args), sizeof(weir_cuda_fixed_base_args)};
	a->nb_sizes = 0;
	for (size_t s : sizes) a->sizes[a->nb_sizes++] = (uint32_t)s;
	a->runtime_version = CUDART_VERSION;
	a->nb_archs = 0;
	for (int x : archs)
		if (x != 0 && a->nb_archs < 16) a->archs[a->nb_archs++] = (uint32_t)x / 10;
	a->ptx = WEIR_CUDA_PTX;
#ifdef WEIR_DEBUG_SYNC
	a->debug_sync = 1;
#else
	a->debug_sync = 0;
#endif
	snprintf(a->build, sizeof a->build, "%s, CUDA %d.%d", WEIR_CUDA_BUILD, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

void weir_cuda_devices(weir_cuda_devices_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	a->nb_devices = a->driver_version = 0;
	if (a->room > 0 && (a->devices == 0 || a->device_size != sizeof(weir_cuda_device))) {
		fail(&a->call, WEIR_CUDA_INVALID, "weir_cuda_device has another size than this library knows");
		return;
	}
	int driver = 0, n = 0;
	if (cudaDriverGetVersion(&driver) == cudaSuccess) a->driver_version = (uint32_t)driver;
	cudaError_t err = cudaGetDeviceCount(&n);
	if (err == cudaErrorNoDevice) {
		cudaGetLastError();
		return;
	}
	if (err != cudaSuccess) {
		fail_cuda(&a->call, err, "cudaGetDeviceCount");
		return;
	}
	a->nb_devices = (uint32_t)n;
	for (int i = 0; i < n && (uint32_t)i < a->room; i++) {
		cudaDeviceProp p;
		err = cudaGetDeviceProperties(&p, i);
		if (err != cudaSuccess) {
			fail_cuda(&a->call, err, "cudaGetDeviceProperties");
			return;
		}
		weir_cuda_device* d = at<weir_cuda_device>(a->devices) + i;
		memset(d, 0, sizeof *d);
		memcpy(d->uuid, p.uuid.bytes, sizeof d->uuid);
		snprintf(d->name, sizeof d->name, "%.127s", p.name);
		pci_of(i, d->pci, sizeof d->pci);
		d->memory = p.totalGlobalMem;
		d->arch = (uint32_t)(10 * p.major + p.minor);
		d->multiprocessors = (uint32_t)p.multiProcessorCount;
		d->usable = usable(p.major, p.minor);
	}
}

void weir_cuda_open(weir_cuda_open_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	a->device = 0;
	if (a->lanes < 1 || a->lanes > max_lanes) {
		fail(&a->call, WEIR_CUDA_INVALID, "lanes: 1 to 32");
		return;
	}
	int n = 0;
	cudaError_t err = cudaGetDeviceCount(&n);
	if (err != cudaSuccess) {
		fail_cuda(&a->call, err, "cudaGetDeviceCount");
		return;
	}
	for (int i = 0; i < n; i++) {
		cudaDeviceProp p;
		err = cudaGetDeviceProperties(&p, i);
		if (err != cudaSuccess) {
			fail_cuda(&a->call, err, "cudaGetDeviceProperties");
			return;
		}
		if (memcmp(p.uuid.bytes, a->uuid, sizeof a->uuid) != 0) continue;
		// A waiting thread sleeps: the processors have synthesis to do.
		err = cudaInitDevice(i, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
		if (err == cudaSuccess) err = cudaSetDevice(i);
		cudaFuncAttributes code;
		if (err == cudaSuccess) err = cudaFuncGetAttributes(&code, probe);
		if (err != cudaSuccess) {
			fail_cuda(&a->call, err, "cudaInitDevice");
			return;
		}
		Device* d = new (std::nothrow) Device;
		if (d == nullptr) {
			fail(&a->call, WEIR_CUDA_INTERNAL, "no host memory");
			return;
		}
		d->ordinal = i;
		d->lanes = a->lanes;
		d->memory = p.totalGlobalMem;
		count(d->launches_before);
		for (uint32_t l = 0; l < a->lanes && err == cudaSuccess; l++) err = open_lane(&d->lane[l]);
		size_t free_bytes = 0, total = 0;
		if (err == cudaSuccess) err = cudaMemGetInfo(&free_bytes, &total);
		if (err != cudaSuccess) {
			fail_cuda(&a->call, err, "open device");
			close_device(d);
			return;
		}
		a->device = (uint64_t) reinterpret_cast<uintptr_t>(d);
		memcpy(a->uuid, p.uuid.bytes, sizeof a->uuid);
		a->memory = total;
		a->memory_free = free_bytes;
		a->arch = (uint32_t)(10 * p.major + p.minor);
		return;
	}
	fail(&a->call, WEIR_CUDA_NO_DEVICE, "no device has this UUID");
}

void weir_cuda_close(weir_cuda_device_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	if (Device* d = device_of(&a->call, a->device)) close_device(d);
}

void weir_cuda_memory(weir_cuda_device_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	size_t free_bytes = 0, total = 0;
	cudaError_t err = cudaMemGetInfo(&free_bytes, &total);
	if (err != cudaSuccess) {
		fail_cuda(&a->call, err, "cudaMemGetInfo");
		return;
	}
	std::lock_guard<std::mutex> lock(d->mutex);
	a->memory = total;
	a->memory_free = free_bytes;
	a->allocated = d->allocated;
	a->registered = d->registered;
}

void weir_cuda_counters(weir_cuda_device_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	uint64_t now[6];
	count(now);
	uint64_t* to[6] = {&a->launches_ntt, &a->launches_g1, &a->launches_g2, &a->launches_spmv, &a->launches_witness, &a->launches_fixed_base};
	for (int i = 0; i < 6; i++) *to[i] = now[i] - d->launches_before[i];
}

void weir_cuda_alloc(weir_cuda_memory_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	a->address = 0;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	if (a->bytes == 0) {
		fail(&a->call, WEIR_CUDA_INVALID, "nothing to allocate");
		return;
	}
	Range* r = new (std::nothrow) Range;
	void* p = nullptr;
	cudaError_t err = r ? cudaMalloc(&p, a->bytes) : cudaErrorMemoryAllocation;
	if (err != cudaSuccess) {
		delete r;
		fail_cuda(&a->call, err, "cudaMalloc");
		return;
	}
	std::lock_guard<std::mutex> lock(d->mutex);
	*r = {(uint64_t) reinterpret_cast<uintptr_t>(p), a->bytes, d->blocks};
	d->blocks = r;
	d->allocated += r->bytes;
	a->address = r->address;
}

void weir_cuda_free(weir_cuda_memory_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	Range* r;
	{
		std::lock_guard<std::mutex> lock(d->mutex);
		r = take(&d->blocks, a->address);
		if (r) {
			d->allocated -= r->bytes;
			for (auto& t : d->tables)
				if (t.at >= r->address && t.at < r->address + r->bytes) t.at = 0;
		}
	}
	if (r == nullptr) {
		fail(&a->call, WEIR_CUDA_INVALID, "no block begins there");
		return;
	}
	delete r;
	cudaError_t err = cudaFree(at<void>(a->address));
	if (err != cudaSuccess) fail_cuda(&a->call, err, "cudaFree");
}

void weir_cuda_register(weir_cuda_register_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	Range* r = new (std::nothrow) Range;
	cudaError_t err = r ? cudaHostRegister(at<void>(a->address), a->bytes, cudaHostRegisterDefault) : cudaErrorMemoryAllocation;
	if (err != cudaSuccess) {
		delete r;
		fail_cuda(&a->call, err, "cudaHostRegister");
		return;
	}
	std::lock_guard<std::mutex> lock(d->mutex);
	*r = {a->address, a->bytes, d->pinned};
	d->pinned = r;
	d->registered += r->bytes;
}

void weir_cuda_unregister(weir_cuda_register_args* a) {
	if (!begin(&a->call, sizeof *a)) return;
	Device* d = device_of(&a->call, a->device);
	if (d == nullptr) return;
	Range* r;
	{
		std::lock_guard<std::mutex> lock(d->mutex);
		r = take(&d->pinned, a->address);
		if (r) d->registered -= r->bytes;
	}
	if (r == nullptr) {
		fail(&a->call, WEIR_CUDA_INVALID, "not registered");
		return;
	}
	delete r;
	cudaError_t err = cudaHostUnregister(at<void>(a->address));
	if (err != cudaSuccess) fail_cuda(&a->call, err, "cudaHostUnregister");
}

void weir_cuda_upload(weir_cuda_copy_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_COPY, a->after);
	if (s) finish(&a->call, s, a->bytes ? cudaMemcpyAsync(at<void>(a->to), at<void>(a->from), a->bytes, cudaMemcpyHostToDevice, s.stream) : cudaSuccess, "upload", &a->ticket);
}

void weir_cuda_download(weir_cuda_copy_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (s) finish(&a->call, s, a->bytes ? cudaMemcpyAsync(at<void>(a->to), at<void>(a->from), a->bytes, cudaMemcpyDeviceToHost, s.stream) : cudaSuccess, "download", &a->ticket);
}

void weir_cuda_clear(weir_cuda_copy_args* a) {
	Step s = step(&a->call, sizeof *a, a->device, a->lane, WEIR_CUDA_QUEUE_WORK, a->after);
	if (s) finish(&a->call, s, a->bytes ? cudaMemsetAsync(at<void>(a->to), 0, a->bytes, s.stream) : cudaSuccess, "clear", &a->ticket);
}

void weir_cuda_wait(weir_cuda_wait_args* a) {
	a->done = 0;
	if (a->queue > 1) {
		if (begin(&a->call, sizeof *a)) fail(&a->call, WEIR_CUDA_INVALID, "no such queue");
		return;
	}
	Step s = step(&a->call, sizeof *a, a->device, a->lane, a->queue, 0);
	if (!s) return;
	if (a->ticket > s.queue->ticket) {
		fail(&a->call, WEIR_CUDA_INVALID, "a ticket that nobody has");
		return;
	}
	cudaError_t err;
	if (a->ticket == 0)
		err = a->poll ? cudaStreamQuery(s.stream) : cudaStreamSynchronize(s.stream);
	else
		err = a->poll ? cudaEventQuery(s.queue->event[a->ticket % events]) : cudaEventSynchronize(s.queue->event[a->ticket % events]);
	if (err == cudaErrorNotReady && a->poll) {
		cudaGetLastError();
		return;
	}
	// An event tells nothing of a kernel that failed before it; the last error of the context does.
	if (err == cudaSuccess) err = cudaPeekAtLastError();
	if (err != cudaSuccess)
		fail_cuda(&a->call, err, "wait");
	else
		a->done = 1;
}
