package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weir-zk/weir/sdk/conformance"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/slab"
)

// The suite in process: quick, and under a debugger.
func TestConformanceInProcess(t *testing.T) {
	conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
		pool := slab.NewPool(slab.PoolOptions{Name: "test"})
		t.Cleanup(func() { pool.Close() })
		return &conformance.Subject{Prover: newProver(pool), Pool: pool}
	})
}

// The suite against the built executable, as the host runs it: own process, calls over gRPC, buffers and keys as descriptors.
func TestConformanceProcess(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "weir-prover")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	conformance.TestProver(t, func(t *testing.T) *conformance.Subject {
		pool := slab.NewPool(slab.PoolOptions{Name: "test"})
		t.Cleanup(func() { pool.Close() })
		proc, err := plugin.Launch(t.Context(), plugin.LaunchConfig{Path: exe, ContractVersions: []int{contract.Version}})
		if err != nil {
			t.Fatal(err)
		}
		pool.Attach(proc.Channel())
		t.Cleanup(func() { pool.Detach(proc.Channel()); proc.Kill("end of test") })
		return &conformance.Subject{
			Prover: contract.NewProverClient(proc.Conn(), contract.ClientOptions{Gone: proc.Done(), Kill: func() { proc.Kill("call does not end") }}),
			Pool:   pool,
			Hand: func(handles ...slab.Handle) error {
				for _, h := range handles {
					if err := pool.Hand(proc.Channel(), h); err != nil {
						return err
					}
				}
				return nil
			},
		}
	})
}
