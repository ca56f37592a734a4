package setup

import (
	"context"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// InMemory makes a key and keeps it in memory: for small circuits and tests.
func InMemory(ctx context.Context, sys *r1cs.System, opts Options) (*groth16.ProvingKey, error) {
	var s memorySink
	opts.AltH = AltNever // a ProvingKey has no place for it
	if err := Make(ctx, sys, opts, &s); err != nil {
		return nil, err
	}
	return &s.pk, nil
}

type memorySink struct{ pk groth16.ProvingKey }

func (s *memorySink) Begin(shape *groth16.Shape, vk *groth16.VerifyingKey, aWires, bWires groth16.Bitmap) error {
	s.pk = groth16.ProvingKey{Shape: *shape, VK: *vk, AWires: aWires, BWires: bWires,
		A: make([]bls.G1Affine, 0, shape.NbA), B1: make([]bls.G1Affine, 0, shape.NbB), B2: make([]bls.G2Affine, 0, shape.NbB),
		K: make([]bls.G1Affine, 0, shape.NbPrivate()), H: make([]bls.G1Affine, 0, shape.NbH)}
	// There is no file that could carry the matrices.
	s.pk.HasMatrices, s.pk.HasC = false, false
	return nil
}

func (s *memorySink) G1(sec Section, part []bls.G1Affine) error {
	to := map[Section]*[]bls.G1Affine{A: &s.pk.A, B1: &s.pk.B1, K: &s.pk.K, H: &s.pk.H}[sec]
	*to = append(*to, part...)
	return nil
}

func (s *memorySink) G2(_ Section, part []bls.G2Affine) error {
	s.pk.B2 = append(s.pk.B2, part...)
	return nil
}
