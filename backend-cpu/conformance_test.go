package cpu

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-zk/weir/sdk/conformance"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/slab"
)

func conformancePool(t *testing.T) *slab.Pool {
	pool := slab.NewPool(slab.PoolOptions{Name: "conformance"})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func TestConformanceInProcess(t *testing.T) {
	conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
		pool := conformancePool(t)
		return &conformance.Subject{Prover: New(pool, Options{Version: "test", AllowInsecureTestRandomness: true}), Pool: pool}
	})
}

func TestConformanceOverGRPC(t *testing.T) {
	conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
		pool := conformancePool(t)
		lis := bufconn.Listen(1 << 20)
		srv := grpc.NewServer()
		contract.RegisterProver(srv, New(pool, Options{Version: "test"})) // without the test option: its refusal is checked
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
