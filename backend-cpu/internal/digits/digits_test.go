package digits

import (
	"math/big"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
)

func TestDigits(t *testing.T) {
	q := new(big.Int)
	for i := 3; i >= 0; i-- {
		q.Or(q.Lsh(q, 64), new(big.Int).SetUint64(order[i]))
	}
	if q.Cmp(fr.Modulus()) != 0 {
		t.Error("order is not the order")
	}
	h := new(big.Int)
	for i := 3; i >= 0; i-- {
		h.Or(h.Lsh(h, 64), new(big.Int).SetUint64(halfOrder[i]))
	}
	if h.Cmp(new(big.Int).Rsh(q, 1)) != 0 {
		t.Error("halfOrder is not half of it")
	}
	scalars := append(fieldtest.Special(), fieldtest.Random(200, 1)...)
	for c := 4; c <= 20; c++ {
		w := New(c)
		for i := range scalars {
			k := w.Recode(&scalars[i])
			sum := new(big.Int)
			for j := w.Count - 1; j >= 0; j-- {
				r := w.Reader(j)
				abs, neg := r.Digit(&k)
				if int(abs) > w.Values() {
					t.Fatalf("c = %d, scalar %s: digit %d is %d", c, scalars[i].String(), j, abs)
				}
				d := big.NewInt(int64(abs))
				if neg == 1 {
					d.Neg(d)
				}
				sum.Add(sum.Lsh(sum, uint(c)), d)
			}
			var got fr.Element
			if got.SetBigInt(sum); got != scalars[i] {
				t.Fatalf("c = %d: digits of %s give %s", c, scalars[i].String(), sum)
			}
			if sum.CmpAbs(h) > 0 {
				t.Fatalf("c = %d: digits of %s are not of the smaller of k and r-k", c, scalars[i].String())
			}
		}
	}
}
