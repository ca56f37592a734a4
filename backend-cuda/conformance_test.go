package cuda

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-zk/weir/backend-cuda/internal/stubtest"
	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/conformance"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/slab"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stubtest.Clean()
	os.Exit(code)
}

// realLibrary names a libweir_cuda.so for a machine with a GPU (scripts/gpu-check.sh); the tests then run on the device in the place of the stub.
const realLibrary = "WEIR_TEST_CUDA_LIBRARY"

// library is what the tests run on, and whether it is the stub.
func library(t testing.TB) (path string, stub bool) {
	t.Helper()
	if p := os.Getenv(realLibrary); p != "" {
		return p, false
	}
	return stubtest.Build(t), true
}

// stub is for tests of failures, which no real device has on demand.
func stub(t testing.TB) (string, func(stubtest.Setting, uint64) uint64) {
	t.Helper()
	path, ok := library(t)
	if !ok {
		t.Skip("a real device does not fail on demand")
	}
	return path, stubtest.Knobs(t, path)
}

func newPool(t testing.TB) *slab.Pool {
	pool := slab.NewPool(slab.PoolOptions{Name: "cuda"})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

// newBackend makes a backend on the library that tests run on. When it is closed nothing may be left on the device, pinned, or in the account.
func newBackend(t testing.TB, pool *slab.Pool, opts Options) *Backend {
	t.Helper()
	path, isStub := library(t)
	opts.Version, opts.Library = "test", path
	b := New(pool, opts)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if isStub {
			knob := stubtest.Gauges(t, path)
			if alive, pinned := knob(stubtest.Alive, 0), knob(stubtest.Pinned, 0); alive != 0 || pinned != 0 {
				t.Errorf("left behind: %d bytes on the device, %d bytes pinned", alive, pinned)
			}
		}
	})
	return b
}

// small makes every part of a proof come in pieces: rings and chunks of a few points.
func small(o Options) Options {
	o.granule, o.ringBytes, o.maxChunk = 256, 4096, minChunk
	return o
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		opts Options
	}{
		{"device evaluates", Options{AllowInsecureTestRandomness: true}},
		{"device evaluates, one lane, small rings", small(Options{Lanes: 1, AllowInsecureTestRandomness: true})},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testfiles.Race && c.opts.Lanes == 1 {
				t.Skip("one lane has nothing to race with, and the stub takes its time")
			}
			conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
				opts := c.opts
				if strings.HasSuffix(t.Name(), "/BadRequests") {
					opts.HostEvaluates = true // the suite's bad evaluations are good where none are wanted
				}
				pool := newPool(t)
				return &conformance.Subject{Prover: newBackend(t, pool, opts), Pool: pool}
			})
		})
	}
}

func TestConformanceOverGRPC(t *testing.T) {
	conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
		pool := newPool(t)
		lis := bufconn.Listen(1 << 20)
		srv := grpc.NewServer()
		contract.RegisterProver(srv, newBackend(t, pool, Options{HostEvaluates: true})) // without the test option: its refusal is checked
		go srv.Serve(lis)
		conn, err := grpc.NewClient("passthrough:mem", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(); srv.Stop() })
		return &conformance.Subject{Prover: contract.NewProverClient(conn, contract.ClientOptions{}), Pool: pool}
	})
}
