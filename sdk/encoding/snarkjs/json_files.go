package snarkjs

import (
	"fmt"
	"io"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// ReadVerifyingKey reads verification_key.json. Every point must be on the curve and in the subgroup, and all but those of IC finite; otherwise the error is of class
// InvalidFile, of class Unsupported for another protocol or curve. BetaG1 and DeltaG1 are not in the file and stay infinity. vk_alphabeta_12 is not read.
func ReadVerifyingKey(r io.Reader) (*groth16.VerifyingKey, error) {
	b, err := readJSON(r, "read verification key")
	if err != nil {
		return nil, err
	}
	return ParseVerifyingKey(b)
}

// ParseVerifyingKey is ReadVerifyingKey for a text in memory.
func ParseVerifyingKey(b []byte) (*groth16.VerifyingKey, error) {
	n, err := parse("read verification key", b)
	if err != nil {
		return nil, err
	}
	m, err := n.object("protocol", "curve", "nPublic", "vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2", "IC")
	if err != nil {
		return nil, err
	}
	if err := n.called(m, "protocol", protocolName, true); err != nil {
		return nil, err
	}
	if err := n.called(m, "curve", curveName, true); err != nil {
		return nil, err
	}
	vk := &groth16.VerifyingKey{}
	alpha, err := n.need(m, "vk_alpha_1")
	if err != nil {
		return nil, err
	}
	if err := alpha.g1(&vk.AlphaG1, errs.InvalidFile); err != nil {
		return nil, err
	}
	if vk.AlphaG1.IsInfinity() {
		return nil, alpha.bad("a finite point", "infinity")
	}
	for _, x := range []struct {
		name string
		p    *bls.G2Affine
	}{{"vk_beta_2", &vk.BetaG2}, {"vk_gamma_2", &vk.GammaG2}, {"vk_delta_2", &vk.DeltaG2}} {
		p, err := n.need(m, x.name)
		if err != nil {
			return nil, err
		}
		if err := p.g2(x.p, errs.InvalidFile); err != nil {
			return nil, err
		}
		if x.p.IsInfinity() {
			return nil, p.bad("a finite point", "infinity")
		}
	}
	return vk, ic(n, m, vk)
}

// ic reads IC and compares its length with nPublic, where that is given.
func ic(n *node, m map[string]*node, vk *groth16.VerifyingKey) error {
	x, err := n.need(m, "IC")
	if err != nil {
		return err
	}
	err = x.each(func(e *node) error {
		var p bls.G1Affine
		if err := e.g1(&p, errs.InvalidFile); err != nil {
			return err
		}
		vk.IC = append(vk.IC, p)
		return nil
	})
	if err != nil {
		return err
	}
	if len(vk.IC) == 0 {
		return x.bad("at least one point", "none")
	}
	if p, ok := m["nPublic"]; ok && string(p.raw) != fmt.Sprint(vk.NbPublic()) {
		return p.bad(fmt.Sprintf("%d, one less than the points of IC", vk.NbPublic()), head(p.raw))
	}
	return nil
}

// WriteVerifyingKey writes verification_key.json, byte for byte as `snarkjs zkey export verificationkey` does.
func WriteVerifyingKey(w io.Writer, vk *groth16.VerifyingKey) error {
	ab, err := alphaBeta(vk)
	if err != nil {
		return err
	}
	points := make([]any, len(vk.IC))
	for i := range vk.IC {
		points[i] = g1Text(&vk.IC[i])
	}
	return put(w, []member{
		{"protocol", protocolName}, {"curve", curveName}, {"nPublic", vk.NbPublic()},
		{"vk_alpha_1", g1Text(&vk.AlphaG1)}, {"vk_beta_2", g2Text(&vk.BetaG2)}, {"vk_gamma_2", g2Text(&vk.GammaG2)}, {"vk_delta_2", g2Text(&vk.DeltaG2)},
		{"vk_alphabeta_12", ab}, {"IC", points},
	})
}

// alphaBeta is e(alpha, beta) as snarkjs writes it. A pairing is unique only up to a power; snarkjs and gnark-crypto take the same one (three times the least exponent: Hayashida,
// Hayasaka, Teruya, eprint 2020/875), which the tests check on snarkjs' files.
func alphaBeta(vk *groth16.VerifyingKey) ([]any, error) {
	gt, err := bls.Pair([]bls.G1Affine{vk.AlphaG1}, []bls.G2Affine{vk.BetaG2})
	if err != nil {
		return nil, &errs.Error{Class: errs.Internal, Op: "write verification key", Err: err}
	}
	six := func(x *bls.E6) []any { return []any{e2Text(&x.B0), e2Text(&x.B1), e2Text(&x.B2)} }
	return []any{six(&gt.C0), six(&gt.C1)}, nil
}

func put(w io.Writer, v any) error {
	_, err := w.Write(write(nil, v, 0))
	return errs.Wrap(err, "write JSON")
}

// ReadProofs reads proof.json: one proof, or a list of them (list is then true, also for a list of one). A malformed file is of class InvalidFile; a point that is off
// the curve or outside the subgroup is of class InvalidProof; another protocol or curve is Unsupported.
func ReadProofs(r io.Reader) (proofs []groth16.Proof, list bool, err error) {
	b, err := readJSON(r, "read proof")
	if err != nil {
		return nil, false, err
	}
	return ParseProofs(b)
}

// ParseProofs is ReadProofs for a text in memory.
func ParseProofs(b []byte) (proofs []groth16.Proof, list bool, err error) {
	n, err := parse("read proof", b)
	if err != nil {
		return nil, false, err
	}
	one := func(e *node) error {
		var p groth16.Proof
		if err := e.proof(&p); err != nil {
			return err
		}
		proofs = append(proofs, p)
		return nil
	}
	if n.isList() {
		list = true
		err = n.each(one)
	} else {
		err = one(n)
	}
	if err != nil {
		return nil, list, err
	}
	return proofs, list, nil
}

func (n *node) proof(p *groth16.Proof) error {
	m, err := n.object("protocol", "curve", "pi_a", "pi_b", "pi_c")
	if err != nil {
		return err
	}
	if err := n.called(m, "protocol", protocolName, false); err != nil {
		return err
	}
	if err := n.called(m, "curve", curveName, false); err != nil {
		return err
	}
	a, err := n.need(m, "pi_a")
	if err != nil {
		return err
	}
	b, err := n.need(m, "pi_b")
	if err != nil {
		return err
	}
	c, err := n.need(m, "pi_c")
	if err != nil {
		return err
	}
	if err := a.g1(&p.A, errs.InvalidProof); err != nil {
		return err
	}
	if err := b.g2(&p.B, errs.InvalidProof); err != nil {
		return err
	}
	return c.g1(&p.C, errs.InvalidProof)
}

func proofText(p *groth16.Proof) []member {
	return []member{{"pi_a", g1Text(&p.A)}, {"pi_b", g2Text(&p.B)}, {"pi_c", g1Text(&p.C)}, {"protocol", protocolName}, {"curve", curveName}}
}

// WriteProof writes one proof, byte for byte as `snarkjs groth16 prove` does.
func WriteProof(w io.Writer, p *groth16.Proof) error { return put(w, proofText(p)) }

// WriteProofs writes a list of proofs.
func WriteProofs(w io.Writer, proofs []groth16.Proof) error {
	l := make([]any, len(proofs))
	for i := range proofs {
		l[i] = proofText(&proofs[i])
	}
	return put(w, l)
}

// ReadPublic reads public.json: a list of decimal strings below r, or a list of such lists (list is then true). An empty list is one proof without public inputs.
func ReadPublic(r io.Reader) (public [][]fr.Element, list bool, err error) {
	b, err := readJSON(r, "read public inputs")
	if err != nil {
		return nil, false, err
	}
	return ParsePublic(b)
}

// ParsePublic is ReadPublic for a text in memory.
func ParsePublic(b []byte) (public [][]fr.Element, list bool, err error) {
	n, err := parse("read public inputs", b)
	if err != nil {
		return nil, false, err
	}
	if first, _ := value(n.listText()); len(first) == 0 || first[0] != '[' {
		one, err := scalars(n)
		return [][]fr.Element{one}, false, err
	}
	err = n.each(func(e *node) error {
		one, err := scalars(e)
		public = append(public, one)
		return err
	})
	return public, true, err
}

// listText is what stands between the brackets of a list; nothing for another value.
func (n *node) listText() []byte {
	if !n.isList() {
		return nil
	}
	return n.inside()
}

func scalars(n *node) ([]fr.Element, error) {
	out := []fr.Element{}
	err := n.each(func(e *node) error {
		x, err := e.scalar()
		out = append(out, x)
		return err
	})
	return out, err
}

func publicText(public []fr.Element) []any {
	l := make([]any, len(public))
	for i := range public {
		l[i] = frText(&public[i])
	}
	return l
}

// WritePublic writes the public inputs of one proof, byte for byte as `snarkjs groth16 prove` does.
func WritePublic(w io.Writer, public []fr.Element) error { return put(w, publicText(public)) }

// WritePublicLists writes a list of lists.
func WritePublicLists(w io.Writer, public [][]fr.Element) error {
	l := make([]any, len(public))
	for i := range public {
		l[i] = publicText(public[i])
	}
	return put(w, l)
}
