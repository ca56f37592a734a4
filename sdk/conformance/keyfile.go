package conformance

import (
	"context"
	"os"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// writeKey writes a prepared key: the form every backend must take.
func writeKey(path string, pk *groth16.ProvingKey, sys *r1cs.System) error {
	return create(path, func(ctx context.Context, f *os.File) error {
		return wkey.Write(ctx, f, pk, sys, wkey.Meta{Creator: creator})
	})
}

// writeKeyBothBases writes a key whose H points are there in the other basis too (alt), as development keys have them.
func writeKeyBothBases(path string, pk *groth16.ProvingKey, alt []bls.G1Affine, sys *r1cs.System) error {
	return create(path, func(ctx context.Context, f *os.File) error {
		w, err := wkey.NewWriter(f)
		if err != nil {
			return err
		}
		for _, step := range []error{
			w.VerifyingKey(ctx, &pk.VK),
			wkey.SectionOf(ctx, w, wkey.SecA, pk.A), wkey.SectionOf(ctx, w, wkey.SecAWires, pk.AWires),
			wkey.SectionOf(ctx, w, wkey.SecB1, pk.B1), wkey.SectionOf(ctx, w, wkey.SecB2, pk.B2), wkey.SectionOf(ctx, w, wkey.SecBWires, pk.BWires),
			wkey.SectionOf(ctx, w, wkey.SecK, pk.K), wkey.SectionOf(ctx, w, wkey.SecH, pk.H), wkey.SectionOf(ctx, w, wkey.SecHAlt, alt),
			w.System(ctx, sys),
		} {
			if step != nil {
				return step
			}
		}
		return w.Finish(wkey.Meta{Shape: pk.Shape, Creator: creator})
	})
}

const creator = "conformance suite"

func create(path string, write func(context.Context, *os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(context.Background(), f); err != nil {
		return err
	}
	return f.Close()
}
