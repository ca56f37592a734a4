// Command library proves a circom circuit with weir's engine, from another Go program:
//
//	library circuit.zkey circuit.wasm input.json > proof.json
package main

import (
	"context"
	"log"
	"os"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
)

func main() {
	if served, err := host.PluginMain(os.Args); served { // the engine starts this program again, for its plugins
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	if len(os.Args) != 4 {
		log.Fatal("usage: library circuit.zkey circuit.wasm input.json > proof.json")
	}
	if err := prove(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func prove(ctx context.Context, key, program, inputs string) error {
	engine, err := host.New(ctx, host.Config{})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	result, err := engine.Prove(ctx, &host.Job{
		Key:        key,
		Partitions: []host.Partition{{Program: program, Inputs: inputs}},
	})
	if err != nil {
		return err
	}
	return snarkjs.WriteProof(os.Stdout, &result.Proofs[0])
}
