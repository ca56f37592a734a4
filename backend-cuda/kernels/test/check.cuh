// What the check programs share: errors end the program, device memory frees itself, failures are counted and named.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK_CUDA(call)                                                                                                   \
	do {                                                                                                               \
		cudaError_t check_err = (call);                                                                            \
		if (check_err != cudaSuccess) {                                                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(check_err));      \
			exit(1);                                                                                           \
		}                                                                                                          \
	} while (0)

template <class T>
struct DeviceArray {
	T* p = nullptr;
	size_t n;
	explicit DeviceArray(size_t count) : n(count) { CHECK_CUDA(cudaMalloc(&p, std::max<size_t>(count, 1) * sizeof(T))); }
	explicit DeviceArray(const std::vector<T>& v) : DeviceArray(v.size()) {
		CHECK_CUDA(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
	}
	~DeviceArray() { cudaFree(p); }
	DeviceArray(const DeviceArray&) = delete;
	DeviceArray& operator=(const DeviceArray&) = delete;
	std::vector<T> host() const {
		std::vector<T> v(n);
		CHECK_CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
		return v;
	}
};

struct Tally {
	long passed = 0, failed = 0;
	void check(bool ok, const std::string& what) {
		if (ok) {
			passed++;
			return;
		}
		failed++;
		if (failed <= 30) fprintf(stderr, "FAIL %s\n", what.c_str());
	}
};

// Median of the milliseconds of reps runs after one for warming up, by events.
template <class Run>
double median_ms(int reps, Run run) {
	cudaEvent_t a, b;
	CHECK_CUDA(cudaEventCreate(&a));
	CHECK_CUDA(cudaEventCreate(&b));
	std::vector<float> t;
	for (int i = 0; i <= reps; i++) {
		CHECK_CUDA(cudaEventRecord(a));
		run();
		CHECK_CUDA(cudaEventRecord(b));
		CHECK_CUDA(cudaEventSynchronize(b));
		float ms;
		CHECK_CUDA(cudaEventElapsedTime(&ms, a, b));
		if (i) t.push_back(ms);
	}
	std::sort(t.begin(), t.end());
	cudaEventDestroy(a);
	cudaEventDestroy(b);
	return t[t.size() / 2];
}
