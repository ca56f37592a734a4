package conformance

import (
	"context"
	"os"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// writeKey writes a prepared key: the form every backend must take.
func writeKey(path string, pk *groth16.ProvingKey, sys *r1cs.System) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := wkey.Write(context.Background(), f, pk, sys, wkey.Meta{Creator: "conformance suite"}); err != nil {
		return err
	}
	return f.Close()
}
