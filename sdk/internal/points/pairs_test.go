package points

import (
	"math/big"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
)

func TestPairs(t *testing.T) {
	_, _, g1, g2 := bls.Generators()
	for _, n := range []int{0, 1, 2, 100} {
		a, b := make([]bls.G1Affine, n), make([]bls.G2Affine, n)
		for i := range n {
			k := big.NewInt(int64(i * i)) // zero among them
			a[i].ScalarMultiplication(&g1, k)
			b[i].ScalarMultiplication(&g2, k)
		}
		same := func(base1 *bls.G1Affine) bool {
			p, err := NewPairs()
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range []error{p.AddG1(a[:n/3], 2), p.AddG1(a[n/3:], 1), p.AddG2(b[:n/2], 2), p.AddG2(b[n/2:], 2)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			ok, err := p.Same(base1, &g2)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if !same(&g1) {
			t.Errorf("%d points: refused", n)
		}
		if n < 2 {
			continue
		}
		var twice bls.G1Affine
		if twice.Double(&g1); same(&twice) {
			t.Errorf("%d points: accepted with another base", n)
		}
		a[0], a[1] = a[1], a[0] // a plain sum would not see it
		if same(&g1) {
			t.Errorf("%d points: accepted out of order", n)
		}
	}
}

// The factors are whole numbers of 128 bits, distinct ones, and the same for both lists.
func TestPairsDraw(t *testing.T) {
	p, err := NewPairs()
	if err != nil {
		t.Fatal(err)
	}
	one, two := p.draw(p.one, 200), p.draw(p.two, 200)
	var low, high uint64 // bits seen
	for i := range one {
		if one[i] != two[i] {
			t.Fatal("the lists have different factors")
		}
		v := one[i].Bits()
		if v[2]|v[3] != 0 {
			t.Fatalf("factor %d has more than 128 bits", i)
		}
		low, high = low|v[0], high|v[1]
	}
	if low != ^uint64(0) || high != ^uint64(0) {
		t.Errorf("bits that occur: %x %x", high, low)
	}
}
