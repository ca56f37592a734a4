# make cuda        bin/libweir_cuda.so for every architecture (nvcc 13 from PATH, else from pinned wheels)
# make cuda-fast   the same for one architecture (CUDA_ARCH, default sm_90a)
# make cuda-test   host-compiled arithmetic against gnark-crypto, and the programs that check kernels on a GPU (bin/cuda/*_check)
# make cuda-archive  dist/weir-cuda-VERSION-linux-amd64.tgz: weir, weir-backend-cuda, the library, licence and docs/cuda.md, to be unpacked anywhere together
# make gpu-check   checks and measures on this machine's GPU; make gpu-check-archive packs the same into bin/gpu-check.tgz, which runs on any machine with a
#                  driver: unpack it and start gpu-check/gpu-check.sh

CUDA_DIR := backend-cuda/kernels
CUDA_SRC := $(wildcard $(CUDA_DIR)/*.cu)
CUDA_CHECKS := $(patsubst $(CUDA_DIR)/test/%.cu,%,$(wildcard $(CUDA_DIR)/test/*_check.cu))
CUDA_ARCH ?= 90a
CUDA_ARCHS = 80 86 89 90a 100 120
# The newest brings PTX as well, for cards that come later.
CUDA_PTX = 120
CUDA_ALL = $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a),code=sm_$(a)) -gencode=arch=compute_$(CUDA_PTX),code=compute_$(CUDA_PTX) -DWEIR_CUDA_PTX=$(CUDA_PTX)
CUDA_ONE = -gencode=arch=compute_$(CUDA_ARCH),code=sm_$(CUDA_ARCH)
# DEBUG_SYNC=1 checks after every launch.
NVCCFLAGS = -std=c++17 -O3 -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wno-unknown-pragmas -cudart static -MMD -MF $(@:.o=).d $(if $(DEBUG_SYNC),-DWEIR_DEBUG_SYNC)

bin/cuda/toolchain.mk: scripts/cuda-toolchain.sh
	@mkdir -p bin/cuda
	scripts/cuda-toolchain.sh >$@.tmp && mv $@.tmp $@

# Only the goals below need a compiler; every other goal must not look for one.
ifneq ($(filter cuda cuda-archive cuda-fast cuda-test cuda-checks gpu-check gpu-check-files gpu-check-archive bin/libweir_cuda.so bin/cuda/%,$(MAKECMDGOALS)),)
include bin/cuda/toolchain.mk
endif

.PHONY: cuda-archive cuda cuda-fast cuda-test cuda-checks gpu-check gpu-check-files gpu-check-archive

bin/cuda/all/%.o: $(CUDA_DIR)/%.cu mk/cuda.mk | bin/cuda/toolchain.mk
	@mkdir -p $(@D)
	$(NVCC) $(NVCCFLAGS) $(CUDA_ALL) $(CUDA_INC) -c $< -o $@

bin/cuda/fast/%.o: $(CUDA_DIR)/%.cu mk/cuda.mk | bin/cuda/toolchain.mk
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

# The same sources give the same bytes: files in order, of nobody, and as old as the commit.
CUDA_ARCHIVE = weir-cuda$(if $(VERSION),-$(VERSION))-linux-amd64
cuda-archive: bin/cuda/all/libweir_cuda.so
	rm -rf dist/$(CUDA_ARCHIVE)
	mkdir -p dist/$(CUDA_ARCHIVE)
	GOOS=linux GOARCH=amd64 $(GOBUILD) -o dist/$(CUDA_ARCHIVE)/ ./cmd/weir ./backend-cuda/cmd/weir-backend-cuda
	cp bin/cuda/all/libweir_cuda.so LICENSE dist/$(CUDA_ARCHIVE)
	cp docs/cuda.md dist/$(CUDA_ARCHIVE)/README.md
	dist/$(CUDA_ARCHIVE)/weir doctor | grep -F dist/$(CUDA_ARCHIVE)/weir-backend-cuda | grep -F dist/$(CUDA_ARCHIVE)/libweir_cuda.so
	tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$$(git log -1 --format=%ct) -c $(CUDA_ARCHIVE) | gzip -n9 >dist/$(CUDA_ARCHIVE).tgz
	cd dist && sha256sum $(CUDA_ARCHIVE).tgz >$(CUDA_ARCHIVE).tgz.sha256
	rm -rf dist/$(CUDA_ARCHIVE)

# The check programs use the kernels' own interface, below the C ABI.
bin/cuda/%_check: $(CUDA_DIR)/test/%_check.cu bin/cuda/fast/libweir_cuda.so
	$(NVCC) $(NVCCFLAGS) $(CUDA_ONE) $(CUDA_INC) -I$(CUDA_DIR) $(CUDA_LIB) $< $(CUDA_SRC:$(CUDA_DIR)/%.cu=bin/cuda/fast/%.o) -o $@

-include $(wildcard bin/cuda/all/*.d bin/cuda/fast/*.d bin/cuda/*.d)

cuda-checks: $(CUDA_CHECKS:%=bin/cuda/%)

cuda-test: cuda-checks
	$(GO) test -count=1 ./backend-cuda/kernels/test/...

# Everything that gpu-check.sh needs, in one folder. With WEIR_SHARED the large fixtures go along.
GPU_CHECK := bin/gpu-check
gpu-check-files: cuda-checks bin/cuda/fast/libweir_cuda.so
	rm -rf $(GPU_CHECK)
	mkdir -p $(GPU_CHECK)/testdata
	cp scripts/gpu-check.sh bin/cuda/fast/libweir_cuda.so $(CUDA_CHECKS:%=bin/cuda/%) $(GPU_CHECK)
	cp -r testdata/circom $(GPU_CHECK)/testdata
	$(GO) run ./backend-cuda/internal/vectors -out $(GPU_CHECK)/vectors
	$(GOBUILD) -o $(GPU_CHECK)/ ./cmd/weir ./backend-cuda/cmd/weir-backend-cuda ./internal/circuitgen/cmd/circuitgen
	CGO_ENABLED=0 $(GO) test -c -trimpath -ldflags "-s -w" -o $(GPU_CHECK)/cuda.test ./backend-cuda
	@for f in $(if $(WEIR_SHARED),merkle20 sha256_64); do \
		mkdir -p $(GPU_CHECK)/shared/fixtures/circom/$$f && \
		for x in circuit.zkey circuit.r1cs witness.wtns; do \
			if [ -f "$(WEIR_SHARED)/fixtures/circom/$$f/$$x" ]; then gzip -c "$(WEIR_SHARED)/fixtures/circom/$$f/$$x" >$(GPU_CHECK)/shared/fixtures/circom/$$f/$$x.gz; \
			else cp "$(WEIR_SHARED)/fixtures/circom/$$f/$$x.gz" $(GPU_CHECK)/shared/fixtures/circom/$$f/; fi || exit 1; \
		done; \
	done

gpu-check-archive: gpu-check-files
	tar -C bin -czf bin/gpu-check.tgz gpu-check

gpu-check: gpu-check-files
	$(GPU_CHECK)/gpu-check.sh -o $(GPU_CHECK)/output
