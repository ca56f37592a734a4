package main

import (
	"context"
	"fmt"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

var verifyCommand = &cli.Command{
	Name:  "verify",
	Usage: "check proofs",
	Description: `Exit code 0: every proof is valid; 1: one is not, and it is named; 3: the input cannot be used.

  weir verify --vkey verification_key.json --public public.json --proof proof.json
  weir verify --vkey circuit.vk --public public.json --proof proofs.bin
  weir verify --vkey circuit.zkey --proof a.json --public a.public.json --proof b.json --public b.public.json

The verifying key is snarkjs' JSON, bellman's .vk, weir's eip2537 JSON, or any proving key. Proofs are snarkjs' JSON (one, or a list) or 192 bytes each
one after another; public inputs are a list, or one list for each proof. Many proofs are checked together, by one equation with random coefficients.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "vkey", Usage: "verifying `KEY`"},
		&cli.StringSliceFlag{Name: "public", Usage: "public inputs `JSON`; as often as --proof"},
		&cli.StringSliceFlag{Name: "proof", Usage: "proofs `FILE`; may be given more than once"},
		&cli.StringFlag{Name: "encoding", Value: "decimal", Usage: "`FORM` of the public inputs: decimal or hex-le"},
	}),
	Action: action(verify),
}

// claim is one proof with what it claims, and where it comes from.
type claim struct {
	name   string
	proof  groth16.Proof
	public []fr.Element
}

func verify(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	key, err := required(s.c, "vkey")
	if err != nil {
		return err
	}
	enc, err := encodingOf(s.c)
	if err != nil {
		return err
	}
	begin := time.Now()
	vk, err := readVerifyingKey(key)
	if err != nil {
		return err
	}
	claims, err := readClaims(ctx, s.c.StringSlice("proof"), s.c.StringSlice("public"), vk, enc)
	if err != nil {
		return err
	}
	v, err := groth16.NewVerifier(vk)
	if err != nil {
		return errs.InFile(err, key)
	}
	bad, err := checkClaims(v, claims)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		e := errs.New(errs.InvalidProof, "verify", "%s", bad[0].cause)
		e.Path = bad[0].name
		if len(claims) > 1 {
			e.Found = fmt.Sprintf("%d of %d proofs are not valid: this one (%s)", len(bad), len(claims), bad[0].cause)
			for _, b := range bad[1:min(len(bad), 20)] {
				e.Found += ", " + b.name
			}
			if len(bad) > 20 {
				e.Found += ", ..."
			}
		}
		return e.WithHint("the proof was not made for this key and these public inputs, or was changed")
	}
	insecure, err := keyIsInsecure(ctx, key)
	if err != nil {
		return err
	}
	if insecure {
		s.warnInsecure(key)
	}
	if s.json {
		s.object(map[string]any{"ok": true, "valid": true, "insecure": insecure, "proofs": len(claims), "public_inputs": vk.NbPublic(), "elapsed_ms": millis(time.Since(begin))})
		return nil
	}
	if len(claims) == 1 {
		s.say("valid: the proof holds for the key and its %s\n", count(vk.NbPublic(), "public input"))
	} else {
		s.say("valid: all %d proofs hold for the key and their public inputs\n", len(claims))
	}
	return nil
}

// invalid is a proof that does not hold.
type invalid struct {
	name  string
	cause string
}

// checkClaims checks all at once and, when that fails, one by one.
func checkClaims(v *groth16.Verifier, claims []claim) ([]invalid, error) {
	proofs, public := make([]groth16.Proof, len(claims)), make([][]fr.Element, len(claims))
	for i := range claims {
		proofs[i], public[i] = claims[i].proof, claims[i].public
	}
	if len(claims) > 1 {
		err := v.VerifyBatch(proofs, public)
		if err == nil || !errs.Is(err, errs.InvalidProof) {
			return nil, err
		}
	}
	var bad []invalid
	for i := range claims {
		err := v.Verify(&proofs[i], public[i])
		switch {
		case err == nil:
		case errs.Is(err, errs.InvalidProof):
			bad = append(bad, invalid{claims[i].name, causeOf(err)})
		default:
			return nil, errs.InFile(err, claims[i].name)
		}
	}
	if len(bad) == 0 && len(claims) > 1 {
		return nil, errs.New(errs.Internal, "verify", "the proofs hold one by one and not together")
	}
	return bad, nil
}

// causeOf is an error without what the caller says itself.
func causeOf(err error) string {
	if e, ok := err.(*errs.Error); ok && e.Path == "" {
		c := *e
		c.Op = ""
		if e.Where != "" {
			c.Op = e.Where
			c.Where = ""
		}
		return c.Error()
	}
	return err.Error()
}

// readClaims pairs proofs with public inputs. Files are paired in order, and a list of proofs takes a list of lists.
func readClaims(ctx context.Context, proofPaths, publicPaths []string, vk *groth16.VerifyingKey, enc encoding) ([]claim, error) {
	if len(proofPaths) == 0 {
		return nil, usageError("weir verify", "flag --proof is required")
	}
	if len(publicPaths) == 0 && vk.NbPublic() > 0 {
		return nil, usageError("weir verify", "flag --public is required: the key has %s", count(vk.NbPublic(), "public input"))
	}
	var claims []claim
	for _, path := range proofPaths {
		proofs, err := readProofs(ctx, path)
		if err != nil {
			return nil, err
		}
		for i := range proofs {
			name := path
			if len(proofs) > 1 {
				name = fmt.Sprintf("%s, proof %d", path, i)
			}
			claims = append(claims, claim{name: name, proof: proofs[i]})
		}
	}
	var public [][]fr.Element
	for _, path := range publicPaths {
		p, err := readPublic(ctx, path, enc)
		if err != nil {
			return nil, err
		}
		for i := range p {
			if len(p[i]) != vk.NbPublic() {
				e := errs.Mismatch(errs.InvalidFile, "read public inputs", fmt.Sprintf("list %d", i), fmt.Sprintf("%s, as the key has", count(vk.NbPublic(), "value")), len(p[i]))
				return nil, e.WithPath(path).WithHint("the key belongs to another circuit, or the public inputs to another proof")
			}
		}
		public = append(public, p...)
	}
	if len(publicPaths) == 0 {
		public = make([][]fr.Element, len(claims))
	}
	if len(public) != len(claims) {
		return nil, usageError("weir verify", "found %s and %s of public inputs", count(len(claims), "proof"), count(len(public), "list"))
	}
	for i := range claims {
		claims[i].public = public[i]
	}
	return claims, nil
}
