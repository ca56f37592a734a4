# make build   bin/weir, a static binary        make test    all tests (needs gcc only for "make race")
# make demo    build, prove, verify, figures    make lint    gofmt, go vet, staticcheck
# make bench   timings and memory               make proto   Go code of the contract (needs protoc)
# .ci/run runs everything that has to pass.

GO ?= go
# v1.2.3 from a tag; else weir tells the commit that Go recorded.
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --dirty 2>/dev/null))
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROTOC_GEN_GO = google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GO_GRPC = google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
FUZZTIME ?= 10s
TESTFLAGS ?=
BENCHFLAGS ?= -benchtime 1x

.PHONY: build demo test test-full race invariants examples fuzz lint proto bench microbench clean

GOBUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -ldflags "-s -w -X main.version=$(VERSION)"

build:
	$(GOBUILD) -o bin/weir ./cmd/weir

# One invocation, with the flags of build: every package is compiled once.
demo:
	$(GOBUILD) -o bin/ ./cmd/weir ./internal/circuitgen/cmd/circuitgen
	scripts/demo.sh

# testreport prints failures, every skipped test with its reason, and a line for each package.
test:
	$(GO) test -json -timeout 20m $(TESTFLAGS) ./... | $(GO) run ./internal/testreport

# What make test leaves out for its length: the largest circuits.
test-full:
	WEIR_TEST_FULL=1 $(MAKE) test TESTFLAGS="-timeout 4h $(TESTFLAGS)"

# gcc is needed for the race detector.
race:
	@command -v gcc >/dev/null || { echo "the race detector needs gcc" >&2; exit 1; }
	CGO_ENABLED=1 $(MAKE) test TESTFLAGS="-race $(TESTFLAGS)"

invariants:
	$(MAKE) test TESTFLAGS="-tags invariants $(TESTFLAGS)"

# Modules of their own, as third parties would write them.
examples:
	for m in $$(find examples -name go.mod); do (cd "$$(dirname $$m)" && $(GO) vet ./... && $(GO) test ./...) || exit 1; done

fuzz:
	scripts/fuzz.sh $(FUZZTIME)

lint:
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$out" ]; then echo "gofmt -w is needed for: $$out" >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags invariants ./...
	$(GO) run $(STATICCHECK) ./...

proto:
	mkdir -p bin/tools
	GOBIN="$(CURDIR)/bin/tools" $(GO) install $(PROTOC_GEN_GO)
	GOBIN="$(CURDIR)/bin/tools" $(GO) install $(PROTOC_GEN_GO_GRPC)
	cd sdk/contract/pb && PATH="$(CURDIR)/bin/tools:$$PATH" protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative *.proto

# Whole proofs on real files beside the peers (docs/benchmarks); WEIR_SNARKJS=.../cli.cjs measures snarkjs in the same run.
bench: build
	$(GO) run ./internal/bench -weir bin/weir

# Every Go benchmark once.
microbench:
	$(GO) test -run '^$$' -bench . -timeout 60m $(BENCHFLAGS) ./...

clean:
	rm -rf bin

-include mk/cuda.mk
