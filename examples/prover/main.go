// Command weir-prover is the smallest complete prover backend: a module of its own that imports only weir's sdk. It proves with gnark-crypto's
// transforms and multi-scalar multiplications as they come. Copy it to start a backend; prover_test.go runs weir's conformance suite against it.
//
// A configuration names it so (the checksum is that of the built executable):
//
//	[[backends]]
//	name = "example"
//	command = "/usr/local/lib/weir/weir-prover"
//	checksum = "..."
package main

import (
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/slab"
)

func main() {
	err := plugin.Serve(plugin.ServeConfig{
		Name: "example",
		Kind: "prover",
		Versions: map[int]func(*grpc.Server, slab.Resolver) error{
			contract.Version: func(s *grpc.Server, r slab.Resolver) error {
				contract.RegisterProver(s, newProver(r))
				return nil
			},
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-prover:", err)
		os.Exit(1)
	}
}
