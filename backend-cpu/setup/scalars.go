package setup

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Scalars are the secrets of a set-up. Whoever knows them can prove anything. G1 and G2 are the multiples of the standard generators that take
// their place; one is usual.
type Scalars struct{ Tau, Alpha, Beta, Gamma, Delta, G1, G2 fr.Element }

// scalarBytes is what a scalar is made of: 384 bits, reduced modulo r, are closer to uniform than 2^-128.
const scalarBytes = 48

// seedSalt separates our use of a seed from others.
const seedSalt = "weir development key 1"

// five is the scalars that are drawn, in the order of their names in the derivation.
func (s *Scalars) five() map[string]*fr.Element {
	return map[string]*fr.Element{"tau": &s.Tau, "alpha": &s.Alpha, "beta": &s.Beta, "gamma": &s.Gamma, "delta": &s.Delta}
}

// Random draws fresh scalars; the generators are the standard ones.
func Random() (*Scalars, error) {
	s := withStandardGenerators()
	for _, x := range s.five() {
		var buf [scalarBytes]byte
		if _, err := rand.Read(buf[:]); err != nil {
			return nil, &errs.Error{Class: errs.Internal, Op: "set-up", Err: err}
		}
		x.SetBytes(buf[:])
		clear(buf[:])
	}
	return s, nil
}

// Seeded derives the scalars from a seed: the same seed gives the same key on every machine. Scalar NAME (tau, alpha, beta, gamma, delta) is
// HKDF-SHA256 (RFC 5869) with the seed as secret, the salt "weir development key 1" and info NAME, 48 bytes, read big-endian and reduced modulo r.
func Seeded(seed []byte) (*Scalars, error) {
	s := withStandardGenerators()
	for name, x := range s.five() {
		buf, err := hkdf.Key(sha256.New, seed, []byte(seedSalt), name, scalarBytes)
		if err != nil {
			return nil, &errs.Error{Class: errs.Internal, Op: "set-up", Err: err}
		}
		x.SetBytes(buf)
		clear(buf)
	}
	return s, nil
}

// Given reads scalars as messages carry them.
func Given(t *contract.ToxicScalars) (*Scalars, error) {
	s := withStandardGenerators()
	for _, f := range []struct {
		name     string
		b        []byte
		to       *fr.Element
		optional bool
	}{{"tau", t.Tau, &s.Tau, false}, {"alpha", t.Alpha, &s.Alpha, false}, {"beta", t.Beta, &s.Beta, false}, {"gamma", t.Gamma, &s.Gamma, false},
		{"delta", t.Delta, &s.Delta, false}, {"g1", t.G1, &s.G1, true}, {"g2", t.G2, &s.G2, true}} {
		if len(f.b) == 0 && f.optional {
			continue
		}
		x, err := groth16.ScalarFromBytes(f.b)
		if err != nil {
			return nil, errs.Wrap(err, "scalar "+f.name)
		}
		*f.to = x
	}
	return s, nil
}

func withStandardGenerators() *Scalars {
	s := &Scalars{}
	s.G1.SetOne()
	s.G2.SetOne()
	return s
}

// check refuses scalars that make no key: zeros, and a tau among the points of the domain or of its odd coset, where Lagrange's basis degenerates.
func (s *Scalars) check(logDomain int) error {
	const op = "set-up"
	for _, f := range []struct {
		name string
		x    *fr.Element
	}{{"tau", &s.Tau}, {"alpha", &s.Alpha}, {"beta", &s.Beta}, {"gamma", &s.Gamma}, {"delta", &s.Delta}, {"g1", &s.G1}, {"g2", &s.G2}} {
		if f.x.IsZero() {
			return errs.Mismatch(errs.InvalidArgument, op, "scalar "+f.name, "not zero", "0")
		}
	}
	t := s.Tau
	for range logDomain + 1 {
		t.Square(&t)
	}
	if t.IsOne() {
		return errs.Mismatch(errs.InvalidArgument, op, "scalar tau", "no root of unity of the domain's order", fmt.Sprintf("one of order 2^%d or less", logDomain+1))
	}
	return nil
}

// Forget overwrites the scalars.
func (s *Scalars) Forget() { *s = Scalars{} }
