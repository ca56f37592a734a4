package host_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
)

// Prove a circom circuit and write the proof as snarkjs does. The built-in plugins are this same program, started again.
func Example() {
	if served, err := host.PluginMain(os.Args); served {
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	ctx := context.Background()
	e, err := host.New(ctx, host.Config{MemoryBudget: 4 << 30})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	r, err := e.Prove(ctx, &host.Job{
		Key:        "circuit.zkey",
		Partitions: []host.Partition{{Program: "circuit.wasm", Inputs: "input.json"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := snarkjs.WriteProof(os.Stdout, &r.Proofs[0]); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Partitions[0].Total, r.Peak)
}
