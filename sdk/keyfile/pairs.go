package keyfile

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

func pairFailed(err error) error {
	return &errs.Error{Class: errs.Internal, Op: "compare points", Err: err}
}

// samePairs tests that B1 and B2, which pairs has taken, and delta1 and delta2 are the same multiples of beta1 and beta2: a key where they differ gives
// proofs that do not hold. lists says where B1 and B2 are.
func samePairs(op string, pairs *points.Pairs, vk *groth16.VerifyingKey, lists string) error {
	refuse := func(where, names string, ok bool, err error) error {
		if err != nil {
			return pairFailed(err)
		}
		if ok {
			return nil
		}
		return errs.Mismatch(errs.InvalidFile, op, where, names+" to be the same multiples of beta", "different ones").
			WithHint("proofs of this key would not hold; fetch the file again")
	}
	ok, err := pairs.Same(&vk.BetaG1, &vk.BetaG2)
	if err := refuse(lists, "B1 and B2", ok, err); err != nil {
		return err
	}
	ok, err = points.SameMultiple(&vk.DeltaG1, &vk.DeltaG2, &vk.BetaG1, &vk.BetaG2)
	return refuse("delta_g1, delta_g2", "delta in G1 and in G2", ok, err)
}

// checkPairs is samePairs for lists in memory.
func checkPairs(op string, vk *groth16.VerifyingKey, b1 []bls12381.G1Affine, b2 []bls12381.G2Affine, tasks int, lists string) error {
	pairs, err := points.NewPairs()
	if err == nil {
		err = pairs.AddG1(b1, tasks)
	}
	if err == nil {
		err = pairs.AddG2(b2, tasks)
	}
	if err != nil {
		return pairFailed(err)
	}
	return samePairs(op, pairs, vk, lists)
}
