// Package fieldtest makes scalars for tests.
package fieldtest

import (
	"math/big"
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Special returns the values at which digits, carries and signs change.
func Special() []fr.Element {
	var out []fr.Element
	add := func(v *big.Int) {
		var x fr.Element
		x.SetBigInt(v)
		out = append(out, x)
		x.Neg(&x)
		out = append(out, x)
	}
	one := big.NewInt(1)
	half := new(big.Int).Rsh(fr.Modulus(), 1)
	for _, v := range []*big.Int{big.NewInt(0), one, big.NewInt(2), big.NewInt(255), half, new(big.Int).Add(half, one), new(big.Int).Sub(half, one)} {
		add(v)
	}
	for bit := range fr.Bits {
		p := new(big.Int).Lsh(one, uint(bit))
		add(p)
		if bit%16 < 2 {
			add(new(big.Int).Sub(p, one))
			add(new(big.Int).Add(p, one))
		}
	}
	return out
}

// Random returns n seeded scalars.
func Random(n int, seed uint64) []fr.Element {
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([]fr.Element, n)
	for i := range out {
		var b [48]byte
		for j := 0; j < len(b); j += 8 {
			v := rng.Uint64()
			for k := range 8 {
				b[j+k] = byte(v >> (8 * k))
			}
		}
		out[i].SetBytes(b[:])
	}
	return out
}
