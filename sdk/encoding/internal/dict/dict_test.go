package dict

import (
	"math/big"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

func le(x *big.Int) []byte {
	b := x.FillBytes(make([]byte, 32))
	for i, j := 0, 31; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

// More values than cache slots, each met three times, must keep one index each; one is always index 0.
func TestIDsAreStable(t *testing.T) {
	r := fr.Modulus()
	r2 := new(big.Int).Lsh(big.NewInt(1), 512) // R^2
	for _, tc := range []struct {
		name   string
		decode func([4]uint64) fr.Element
		factor *big.Int
	}{{"plain", Plain, big.NewInt(1)}, {"double montgomery", DoubleMontgomery, r2}} {
		t.Run(tc.name, func(t *testing.T) {
			d := New(tc.decode)
			ids := map[uint32]bool{}
			var first []uint32
			for round := range 3 {
				for i := range 3 * cacheSize {
					n := big.NewInt(int64(i - cacheSize)) // negatives too
					v := new(big.Int).Mul(n, tc.factor)
					v.Mod(v, r)
					id, ok := d.ID(le(v))
					if !ok {
						t.Fatalf("value %v refused", n)
					}
					var want fr.Element
					want.SetBigInt(n)
					if !d.Coeffs[id].Equal(&want) {
						t.Fatalf("value %v has coefficient %s", n, d.Coeffs[id].String())
					}
					if n.Int64() == 1 && id != 0 {
						t.Fatalf("one has index %d", id)
					}
					if round == 0 {
						first = append(first, id)
						ids[id] = true
					} else if first[i] != id {
						t.Fatalf("round %d: value %v has index %d, had %d", round, n, id, first[i])
					}
				}
			}
			if len(ids) != 3*cacheSize || len(d.Coeffs) != 3*cacheSize {
				t.Fatalf("%d indexes, %d coefficients for %d values", len(ids), len(d.Coeffs), 3*cacheSize)
			}
		})
	}
}

func TestRefusesValuesNotBelowTheModulus(t *testing.T) {
	r := fr.Modulus()
	max := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	for _, v := range []*big.Int{r, new(big.Int).Add(r, big.NewInt(1)), max, new(big.Int).Add(r, new(big.Int).Lsh(big.NewInt(1), 200))} {
		d := New(Plain)
		if _, ok := d.ID(le(v)); ok {
			t.Errorf("%v accepted", v)
		}
		if len(d.Coeffs) != 1 {
			t.Errorf("%v was remembered", v)
		}
	}
	if id, ok := New(Plain).ID(le(new(big.Int).Sub(r, big.NewInt(1)))); !ok || id != 1 {
		t.Errorf("r-1: index %d, %v", id, ok)
	}
}
