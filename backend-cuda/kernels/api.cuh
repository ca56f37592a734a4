// What the parts of the C border share: the open device, its lanes and tickets, and errors as values. See weir_cuda.h.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "ntt.h"
#include "weir_cuda.h"

namespace weir {
namespace api {

constexpr uint32_t max_lanes = 32;
// A ticket is waited for through an event of its queue; after so many more the event is a later ticket's, which is a stronger wait.
constexpr uint64_t events = 64;
constexpr uint32_t max_tables = 32;
constexpr uint64_t magic = 0x7765697264657673ull;

struct Queue {
	cudaStream_t stream = nullptr;
	cudaEvent_t event[events] = {};
	uint64_t ticket = 0;  // the last that was given out
};

struct Lane {
	Queue queue[2];               // WEIR_CUDA_QUEUE_...
	uint32_t* figures = nullptr;  // pinned, 256 bytes: what a step needs to know of the device
};

// A block of weir_cuda_alloc or a range of weir_cuda_register.
struct Range {
	uint64_t address, bytes;
	Range* next;
};

struct Device {
	uint64_t check = magic;
	int ordinal = 0;
	uint32_t lanes = 0;
	uint64_t memory = 0;
	Lane lane[max_lanes];
	std::mutex mutex;  // of what follows
	Range *blocks = nullptr, *pinned = nullptr;
	uint64_t allocated = 0, registered = 0;
	struct Tables {
		uint64_t at = 0;
		NttTables tables;
	} tables[max_tables];
	uint64_t launches_before[6] = {};  // the families count for the process
};

// Writes the head of an answer. All return false, so that "return fail(...)" ends a step.
bool fail(weir_cuda_call* call, int32_t code, const char* text);
bool fail_cuda(weir_cuda_call* call, cudaError_t err, const char* what);

// Clears the answer, and checks the size of the struct.
bool begin(weir_cuda_call* call, uint64_t size);

// Finds the open device and makes it this thread's.
Device* device_of(weir_cuda_call* call, uint64_t handle);

// A step on a lane: begin, device, and the wait for a ticket of the other queue. null: the call has its error.
struct Step {
	Device* device = nullptr;
	Lane* lane = nullptr;
	Queue* queue = nullptr;
	cudaStream_t stream = nullptr;
	explicit operator bool() const { return device != nullptr; }
};
Step step(weir_cuda_call* call, uint64_t size, uint64_t handle, uint32_t lane, uint32_t queue, uint64_t after);

// Ends a step: an error of a launch, or a ticket.
void finish(weir_cuda_call* call, const Step& s, cudaError_t err, const char* what, uint64_t* ticket);

inline uint64_t up256(uint64_t n) { return (n + 255) & ~uint64_t(255); }

template <class T>
T* at(uint64_t address) {
	return reinterpret_cast<T*>(static_cast<uintptr_t>(address));
}

// Parts of a scratch block, one after another.
struct Parts {
	uint64_t base, used = 0;
	uint64_t take(uint64_t bytes) {
		uint64_t o = base + used;
		used += up256(bytes);
		return o;
	}
};

}  // namespace api
}  // namespace weir
