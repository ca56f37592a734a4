// What the programs that check Fr kernels on a GPU share: vectors from files (backend-cuda/internal/vectors), random data, comparisons on the device, timing.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fr.cuh"

namespace check {

using weir::Fr;

inline int failures = 0;
inline int checks = 0;

#define CUDA_OK(call)                                                                                          \
	do {                                                                                                   \
		cudaError_t err_ = (call);                                                                     \
		if (err_ != cudaSuccess) {                                                                     \
			printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(err_));    \
			exit(1);                                                                               \
		}                                                                                              \
	} while (0)

inline bool expect(bool ok, const std::string& what) {
	checks++;
	if (!ok) {
		failures++;
		if (failures <= 40) printf("FAIL %s\n", what.c_str());
	}
	return ok;
}

inline int finish(const char* name) {
	if (cudaDeviceSynchronize() != cudaSuccess) failures++;
	printf("%s: %d checks, %d failed\n", name, checks, failures);
	return failures == 0 && checks > 0 ? 0 : 1;
}

template <class T>
struct Device {
	T* p = nullptr;
	size_t n = 0;
	Device() = default;
	explicit Device(size_t count) { make(count); }
	explicit Device(const std::vector<T>& v) {
		make(v.size());
		put(v);
	}
	Device(const Device&) = delete;
	Device& operator=(const Device&) = delete;
	~Device() { cudaFree(p); }
	void make(size_t count) {
		cudaFree(p);
		n = count;
		CUDA_OK(cudaMalloc(&p, std::max<size_t>(1, count) * sizeof(T)));
		CUDA_OK(cudaMemset(p, 0xa5, std::max<size_t>(1, count) * sizeof(T)));  // what is not written shows
	}
	void put(const std::vector<T>& v) {
		if (!v.empty()) CUDA_OK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
	}
	std::vector<T> get() const {
		std::vector<T> v(n);
		if (n) CUDA_OK(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
		return v;
	}
};

// A file of vectors.
struct Vectors {
	std::map<std::string, std::vector<char>> sections;
	explicit Vectors(const std::string& path) {
		FILE* f = fopen(path.c_str(), "rb");
		if (!f) {
			printf("FAIL %s cannot be read: make it with go run ./backend-cuda/internal/vectors\n", path.c_str());
			exit(1);
		}
		char head[32];
		while (fread(head, 1, 32, f) == 32) {
			uint64_t size, count;
			memcpy(&size, head + 16, 8);
			memcpy(&count, head + 24, 8);
			std::vector<char> data(size * count), pad((16 - size * count % 16) % 16);
			if (fread(data.data(), 1, data.size(), f) != data.size() || fread(pad.data(), 1, pad.size(), f) != pad.size()) {
				printf("FAIL %s is cut short\n", path.c_str());
				exit(1);
			}
			sections[head] = std::move(data);
		}
		fclose(f);
	}
	template <class T>
	std::vector<T> get(const char* name) const {
		auto it = sections.find(name);
		if (it == sections.end()) {
			printf("FAIL no section %s\n", name);
			exit(1);
		}
		std::vector<T> v(it->second.size() / sizeof(T));
		if (!v.empty()) memcpy(v.data(), it->second.data(), v.size() * sizeof(T));
		return v;
	}
};

inline bool same(const std::vector<Fr>& x, const std::vector<Fr>& y) { return x.size() == y.size() && (x.empty() || memcmp(x.data(), y.data(), 32 * x.size()) == 0); }

WEIR_HD uint64_t mix(uint64_t z) {
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

// A canonical element from a number, full width.
WEIR_HD Fr random_element(uint64_t seed, uint64_t i) {
	Fr x;
	for (int k = 0; k < 4; k++) {
		uint64_t w = mix(seed * 0x10001 + 4 * i + k);
		x.v[2 * k] = (uint32_t)w;
		x.v[2 * k + 1] = (uint32_t)(w >> 32);
	}
	x.v[7] &= 0x7fffffff;  // below 2^255 < 2r
	x.reduce();
	return x;
}

__global__ void fill_kernel(Fr* v, uint64_t n, uint64_t seed) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) random_element(seed, i).store(v + i);
}
inline void fill(Fr* v, uint64_t n, uint64_t seed) {
	fill_kernel<<<(unsigned)((n + 255) / 256), 256>>>(v, n, seed);
	CUDA_OK(cudaGetLastError());
}

__global__ void differ_kernel(const Fr* x, const Fr* y, uint64_t n, int log_reverse, unsigned long long* count) {
	uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n) return;
	uint64_t j = log_reverse > 0 ? __brev((uint32_t)i) >> (32 - log_reverse) : i;
	if (Fr::load(x + i) != Fr::load(y + j)) atomicAdd(count, 1ull);
}
// How many elements of x differ from those of y, or from those at bit-reversed places (log_reverse > 0).
inline uint64_t differ(const Fr* x, const Fr* y, uint64_t n, int log_reverse = 0) {
	static Device<unsigned long long> count(1);
	count.put({0});
	differ_kernel<<<(unsigned)((n + 255) / 256), 256>>>(x, y, n, log_reverse, count.p);
	CUDA_OK(cudaGetLastError());
	return count.get()[0];
}

inline Fr one_of(const Fr* p) {
	Fr x;
	CUDA_OK(cudaMemcpy(&x, p, sizeof x, cudaMemcpyDeviceToHost));
	return x;
}

inline Fr power(Fr x, uint64_t e) {
	Fr r = Fr::one();
	for (; e; e >>= 1, x = x.sqr())
		if (e & 1) r = r * x;
	return r;
}

// Median milliseconds of f, which launches on the default stream, after two untimed runs.
template <class F>
double median_ms(int reps, F f) {
	cudaEvent_t start, stop;
	CUDA_OK(cudaEventCreate(&start));
	CUDA_OK(cudaEventCreate(&stop));
	std::vector<double> t;
	for (int i = -2; i < reps; i++) {
		CUDA_OK(cudaEventRecord(start));
		f();
		CUDA_OK(cudaEventRecord(stop));
		CUDA_OK(cudaEventSynchronize(stop));
		float ms;
		CUDA_OK(cudaEventElapsedTime(&ms, start, stop));
		if (i >= 0) t.push_back(ms);
	}
	CUDA_OK(cudaEventDestroy(start));
	CUDA_OK(cudaEventDestroy(stop));
	std::sort(t.begin(), t.end());
	return t[t.size() / 2];
}

}  // namespace check
