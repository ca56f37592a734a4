package groth16

import (
	"crypto/rand"
	"fmt"
	"math/big"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Verifier checks proofs of one verifying key; it holds the key's part of the pairing equation. Safe for concurrent use.
type Verifier struct {
	vk        *VerifyingKey
	alphaBeta bls.GT
	negGamma  bls.G2Affine
	negDelta  bls.G2Affine
}

// NewVerifier prepares vk. Points must be on the curve, in the subgroup and, but for IC, not infinity: readers of key files check that.
func NewVerifier(vk *VerifyingKey) (*Verifier, error) {
	if len(vk.IC) == 0 {
		return nil, errs.Mismatch(errs.InvalidFile, "verifying key", "ic", "at least one point", 0)
	}
	for _, p := range []struct {
		name     string
		infinity bool
	}{{"alpha", vk.AlphaG1.IsInfinity()}, {"beta", vk.BetaG2.IsInfinity()}, {"gamma", vk.GammaG2.IsInfinity()}, {"delta", vk.DeltaG2.IsInfinity()}} {
		if p.infinity {
			return nil, errs.Mismatch(errs.InvalidFile, "verifying key", p.name, "a finite point", "infinity")
		}
	}
	v := &Verifier{vk: vk}
	ab, err := bls.Pair([]bls.G1Affine{vk.AlphaG1}, []bls.G2Affine{vk.BetaG2})
	if err != nil {
		return nil, &errs.Error{Class: errs.Internal, Op: "verifying key", Err: err}
	}
	v.alphaBeta = ab
	v.negGamma.Neg(&vk.GammaG2)
	v.negDelta.Neg(&vk.DeltaG2)
	return v, nil
}

// NbPublic is the number of public inputs a proof needs.
func (v *Verifier) NbPublic() int { return v.vk.NbPublic() }

// inSubgroup refuses the points a verifier must not pair.
func (p *Proof) inSubgroup() error {
	for _, c := range []struct {
		name string
		ok   bool
	}{{"A", p.A.IsInSubGroup()}, {"B", p.B.IsInSubGroup()}, {"C", p.C.IsInSubGroup()}} {
		if !c.ok {
			return errs.Mismatch(errs.InvalidProof, "verify", "point "+c.name, "a point of the r-order subgroup", "another")
		}
	}
	return nil
}

func (v *Verifier) checkPublic(public []fr.Element) error {
	if len(public) != v.NbPublic() {
		return errs.Mismatch(errs.InvalidArgument, "verify", "public inputs", v.NbPublic(), len(public)).
			WithHint("the proof belongs to another circuit, or the public file to another proof")
	}
	return nil
}

// Verify checks e(A, B) = e(alpha, beta) e(IC(public), gamma) e(C, delta). The error is of class InvalidProof when it does not hold,
// InvalidArgument when the number of public inputs is wrong.
func (v *Verifier) Verify(proof *Proof, public []fr.Element) error {
	if err := v.checkPublic(public); err != nil {
		return err
	}
	if err := proof.inSubgroup(); err != nil {
		return err
	}
	ic, err := v.inputs(public)
	if err != nil {
		return err
	}
	ml, err := bls.MillerLoop([]bls.G1Affine{proof.A, ic, proof.C}, []bls.G2Affine{proof.B, v.negGamma, v.negDelta})
	if err != nil {
		return &errs.Error{Class: errs.Internal, Op: "verify", Err: err}
	}
	got := bls.FinalExponentiation(&ml)
	if !got.Equal(&v.alphaBeta) {
		return errs.New(errs.InvalidProof, "verify", "the pairing equation does not hold")
	}
	return nil
}

// fewInputs is where single multiplications (80 us each) stop being quicker than the set-up of a multi-exponentiation.
const fewInputs = 4

// inputs is IC[0] + sum public_i IC[i+1].
func (v *Verifier) inputs(public []fr.Element) (bls.G1Affine, error) {
	var acc bls.G1Jac
	if len(public) > fewInputs {
		if _, err := acc.MultiExp(v.vk.IC[1:], public, ecc.MultiExpConfig{}); err != nil {
			return bls.G1Affine{}, &errs.Error{Class: errs.Internal, Op: "verify", Err: err}
		}
	} else {
		var t bls.G1Jac
		var b big.Int
		for i := range public {
			t.FromAffine(&v.vk.IC[i+1])
			t.ScalarMultiplication(&t, public[i].BigInt(&b))
			acc.AddAssign(&t)
		}
	}
	acc.AddMixed(&v.vk.IC[0])
	var out bls.G1Affine
	out.FromJacobian(&acc)
	return out, nil
}

// VerifyBatch checks many proofs with one final exponentiation: the equation of each is raised to a random 128-bit power (the first to
// one) and all are multiplied. When the whole does not hold, each is checked alone, and the error names the bad ones by index.
func (v *Verifier) VerifyBatch(proofs []Proof, public [][]fr.Element) error {
	if len(proofs) != len(public) {
		return errs.Mismatch(errs.InvalidArgument, "verify batch", "lists", fmt.Sprintf("%d lists of public inputs", len(proofs)), len(public))
	}
	if len(proofs) == 0 {
		return errs.New(errs.InvalidArgument, "verify batch", "no proof given")
	}
	if len(proofs) == 1 {
		return v.Verify(&proofs[0], public[0])
	}
	for i := range public {
		if err := v.checkPublic(public[i]); err != nil {
			return errs.Wrap(err, fmt.Sprintf("proof %d", i))
		}
	}
	ok, err := v.batchHolds(proofs, public)
	if err != nil || ok {
		return err
	}
	var bad []int
	for i := range proofs {
		if err := v.Verify(&proofs[i], public[i]); err != nil {
			if !errs.Is(err, errs.InvalidProof) {
				return err
			}
			bad = append(bad, i)
		}
	}
	if len(bad) == 0 {
		return errs.New(errs.Internal, "verify batch", "the batch equation fails but every proof holds alone")
	}
	return errs.New(errs.InvalidProof, "verify batch", "%d of %d proofs do not hold: %v (counted from 0)", len(bad), len(proofs), bad)
}

func (v *Verifier) batchHolds(proofs []Proof, public [][]fr.Element) (bool, error) {
	var sum fr.Element                           // of the powers
	inputs := make([]fr.Element, len(v.vk.IC))   // of the powers times the public inputs
	g1 := make([]bls.G1Affine, 0, len(proofs)+2) // z_i A_i, then the two sums
	g2 := make([]bls.G2Affine, 0, len(proofs)+2) // B_i
	var cAcc bls.G1Jac                           // sum z_i C_i
	for i := range proofs {
		if proofs[i].inSubgroup() != nil {
			return false, nil
		}
		var z fr.Element
		z.SetOne()
		if i > 0 {
			var buf [16]byte
			if _, err := rand.Read(buf[:]); err != nil {
				return false, &errs.Error{Class: errs.Internal, Op: "verify batch", Err: err}
			}
			z.SetBigInt(new(big.Int).SetBytes(buf[:]))
		}
		sum.Add(&sum, &z)
		inputs[0].Add(&inputs[0], &z)
		for j := range public[i] {
			var t fr.Element
			t.Mul(&z, &public[i][j])
			inputs[j+1].Add(&inputs[j+1], &t)
		}
		var zi big.Int
		z.BigInt(&zi)
		var a, c bls.G1Affine
		a.ScalarMultiplication(&proofs[i].A, &zi)
		c.ScalarMultiplication(&proofs[i].C, &zi)
		cAcc.AddMixed(&c)
		g1 = append(g1, a)
		g2 = append(g2, proofs[i].B)
	}
	var icAcc bls.G1Jac
	if _, err := icAcc.MultiExp(v.vk.IC, inputs, ecc.MultiExpConfig{}); err != nil {
		return false, &errs.Error{Class: errs.Internal, Op: "verify batch", Err: err}
	}
	var ic, c bls.G1Affine
	ic.FromJacobian(&icAcc)
	c.FromJacobian(&cAcc)
	g1 = append(g1, ic, c)
	g2 = append(g2, v.negGamma, v.negDelta)
	ml, err := bls.MillerLoop(g1, g2)
	if err != nil {
		return false, &errs.Error{Class: errs.Internal, Op: "verify batch", Err: err}
	}
	got := bls.FinalExponentiation(&ml)
	var want bls.GT
	var e big.Int
	sum.BigInt(&e)
	want.Exp(v.alphaBeta, &e)
	return got.Equal(&want), nil
}
