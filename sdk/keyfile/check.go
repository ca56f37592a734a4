package keyfile

import (
	"encoding/hex"
	"fmt"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

const notTogether = "circuit and key do not belong together"

func mismatch(where string, expected, found any) error {
	return errs.Mismatch(errs.InvalidFile, "match key with circuit", where, expected, found).WithHint(notTogether)
}

// CheckShape compares the sizes of a key with a circuit.
func CheckShape(s *groth16.Shape, sys *r1cs.System) error {
	switch {
	case s.NbWires != sys.NbWires:
		return mismatch("wires", fmt.Sprintf("%d of the key", s.NbWires), sys.NbWires)
	case s.NbPublic != sys.NbPublic:
		return mismatch("public inputs", fmt.Sprintf("%d of the key", s.NbPublic), sys.NbPublic)
	case s.NbConstraints >= 0 && s.NbConstraints != sys.NbConstraints():
		return mismatch("rows", fmt.Sprintf("%d of the key", s.NbConstraints), sys.NbConstraints())
	}
	// snarkjs has no domain of one point
	if log := sys.LogDomain(); log != s.LogDomain && !(log == 0 && s.LogDomain == 1) {
		return mismatch("domain", fmt.Sprintf("2^%d of the key", s.LogDomain), fmt.Sprintf("2^%d for %d rows", log, sys.NbConstraints()))
	}
	return nil
}

// CheckDigest compares what two files say about their circuits: A and B where both are known, and C where both have it. A zero digest is not known.
func CheckDigest(key, circuit r1cs.Digest) error {
	short := func(d [32]byte) string { return hex.EncodeToString(d[:8]) }
	var zero [32]byte
	if key.AB != zero && circuit.AB != zero && key.AB != circuit.AB {
		return mismatch("digest of A and B", short(key.AB)+"... of the key", short(circuit.AB)+"...")
	}
	if key.ABC != zero && circuit.ABC != zero && key.ABC != circuit.ABC {
		return mismatch("digest of A, B and C", short(key.ABC)+"... of the key", short(circuit.ABC)+"...")
	}
	return nil
}

// Check compares a key in memory with a circuit: sizes, and which wires have points in A and in B. digest is that of the key's circuit as its file
// tells it, zero if it does not; the circuit's own is computed only when there is something to compare it with.
func Check(pk *groth16.ProvingKey, digest r1cs.Digest, sys *r1cs.System) error {
	if err := CheckShape(&pk.Shape, sys); err != nil {
		return err
	}
	a, b := sys.Density()
	for _, x := range []struct {
		name      string
		key, circ groth16.Bitmap
	}{{"A", pk.AWires, a}, {"B", pk.BWires, b}} {
		for i := range x.key {
			if d := x.key[i] ^ x.circ[i]; d != 0 {
				wire := i * 64
				for d&1 == 0 {
					d, wire = d>>1, wire+1
				}
				has := map[bool]string{false: "no coefficient", true: "a coefficient"}
				return mismatch(fmt.Sprintf("matrix %s, wire %d", x.name, wire), has[x.key.Has(wire)]+" as in the key", has[x.circ.Has(wire)])
			}
		}
	}
	if digest != (r1cs.Digest{}) {
		return CheckDigest(digest, sys.Digest())
	}
	return nil
}
