# make cuda        bin/libweir_cuda.so for every architecture (nvcc 13 from PATH, else from pinned wheels)
# make cuda-fast   the same for one architecture (CUDA_ARCH, default sm_90a)
# make cuda-test   host-compiled arithmetic against gnark-crypto, and the programs that check kernels on a GPU (bin/cuda/*_check)

CUDA_DIR := backend-cuda/kernels
CUDA_SRC := $(wildcard $(CUDA_DIR)/*.cu)
CUDA_HDR := $(wildcard $(CUDA_DIR)/*.cuh $(CUDA_DIR)/*.h $(CUDA_DIR)/test/*.cuh $(CUDA_DIR)/test/*.h)
CUDA_CHECKS := $(patsubst $(CUDA_DIR)/test/%.cu,%,$(wildcard $(CUDA_DIR)/test/*_check.cu))
CUDA_ARCH ?= 90a
CUDA_ARCHS = 80 86 89 90a 100 120
# The newest entry brings PTX as well, for cards that come later.
CUDA_ALL = $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a),code=sm_$(a)) -gencode=arch=compute_120,code=compute_120
CUDA_ONE = -gencode=arch=compute_$(CUDA_ARCH),code=sm_$(CUDA_ARCH)
# DEBUG_SYNC=1 checks after every launch.
NVCCFLAGS = -std=c++17 -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wno-unknown-pragmas -cudart static $(if $(DEBUG_SYNC),-DWEIR_DEBUG_SYNC)

bin/cuda/toolchain.mk: scripts/cuda-toolchain.sh
	@mkdir -p bin/cuda
	scripts/cuda-toolchain.sh >$@.tmp && mv $@.tmp $@

# Only the goals below need a compiler; every other goal must not look for one.
ifneq ($(filter cuda cuda-fast cuda-test cuda-checks bin/libweir_cuda.so bin/cuda/%,$(MAKECMDGOALS)),)
include bin/cuda/toolchain.mk
endif

.PHONY: cuda cuda-fast cuda-test cuda-checks

bin/cuda/all/%.o: $(CUDA_DIR)/%.cu $(CUDA_HDR) mk/cuda.mk | bin/cuda/toolchain.mk
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) $(CUDA_ALL) $(CUDA_INC) -c $< -o $@

bin/cuda/fast/%.o: $(CUDA_DIR)/%.cu $(CUDA_HDR) mk/cuda.mk | bin/cuda/toolchain.mk
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) $(CUDA_ONE) $(CUDA_INC) -c $< -o $@

bin/cuda/all/libweir_cuda.so: $(CUDA_SRC:$(CUDA_DIR)/%.cu=bin/cuda/all/%.o)
	$(NVCC) -shared -cudart static $(CUDA_ALL) $(CUDA_LIB) $^ -o $@

bin/cuda/fast/libweir_cuda.so: $(CUDA_SRC:$(CUDA_DIR)/%.cu=bin/cuda/fast/%.o)
	$(NVCC) -shared -cudart static $(CUDA_ONE) $(CUDA_LIB) $^ -o $@

cuda: bin/cuda/all/libweir_cuda.so
	cp $< bin/libweir_cuda.so

cuda-fast: bin/cuda/fast/libweir_cuda.so
	cp $< bin/libweir_cuda.so

# The check programs use the kernels' own interface, below the C ABI.
bin/cuda/%_check: $(CUDA_DIR)/test/%_check.cu $(CUDA_SRC:$(CUDA_DIR)/%.cu=bin/cuda/fast/%.o) $(CUDA_HDR)
	$(NVCC) $(NVCCFLAGS) $(CUDA_ONE) $(CUDA_INC) -I$(CUDA_DIR) $(CUDA_LIB) $< $(filter %.o,$^) -o $@

cuda-checks: $(CUDA_CHECKS:%=bin/cuda/%)

cuda-test: cuda-checks
	$(GO) test -count=1 ./backend-cuda/kernels/test/...
