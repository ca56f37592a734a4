package textbook

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// The textbook's proofs hold under the verifier, and not with another C.
func TestProofVerifies(t *testing.T) {
	for _, tc := range []struct{ rows, public int }{{0, 0}, {1, 0}, {0, 2}, {3, 1}, {6, 1}, {7, 0}, {8, 3}, {61, 2}} {
		for _, rows := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
			c := Random(uint64(tc.rows), tc.rows, tc.public)
			in := New(c.System, ToxicFrom(1), rows, groth16.HMonomial)
			vk := in.VerifyingKey()
			v, err := groth16.NewVerifier(&vk)
			if err != nil {
				t.Fatal(err)
			}
			rnd := groth16.Randomness{R: fr.NewElement(3), S: fr.NewElement(4)}
			p := in.Proof(c.W, rnd)
			if err := v.Verify(&p, c.W[1:1+tc.public]); err != nil {
				t.Fatalf("%+v: %v", tc, err)
			}
			p.C = vk.DeltaG1
			if err := v.Verify(&p, c.W[1:1+tc.public]); !errs.Is(err, errs.InvalidProof) {
				t.Fatalf("%+v: another C: %v", tc, err)
			}
		}
	}
}

// The evaluations of P on the odd coset times the H scalars sum to h(tau) Z(tau) / delta.
func TestOddCoset(t *testing.T) {
	c := Random(5, 60, 2)
	h := groth16.HOddCoset
	in := New(c.System, ToxicFrom(2), groth16.RowsSeven, h)
	pk := in.Key()
	if err := pk.Shape.Validate(); err != nil {
		t.Fatal(err)
	}
	var az, bz, cz, want fr.Element
	for j := range c.W {
		var x fr.Element
		az.Add(&az, x.Mul(&c.W[j], &in.a[j]))
		bz.Add(&bz, x.Mul(&c.W[j], &in.b[j]))
		cz.Add(&cz, x.Mul(&c.W[j], &in.c[j]))
	}
	want.Mul(&az, &bz)
	want.Sub(&want, &cz)
	want.Div(&want, &in.Toxic.Delta)
	// evaluations of P = a b - c on the odd coset, by interpolation from the rows
	var got fr.Element
	u, w := Root(in.LogN+1), Root(in.LogN)
	x := u
	for _, hj := range in.hScalars() {
		at := New(c.System, Toxic{Tau: x, Alpha: fr.One(), Beta: fr.One(), Gamma: fr.One(), Delta: fr.One()}, groth16.RowsSeven, h)
		var a, b, cc, t fr.Element
		for j := range c.W {
			a.Add(&a, t.Mul(&c.W[j], &at.a[j]))
			b.Add(&b, t.Mul(&c.W[j], &at.b[j]))
			cc.Add(&cc, t.Mul(&c.W[j], &at.c[j]))
		}
		a.Mul(&a, &b)
		a.Sub(&a, &cc)
		got.Add(&got, t.Mul(&a, &hj))
		x.Mul(&x, &w)
	}
	if !got.Equal(&want) {
		t.Fatal("odd-coset points do not sum to the quotient")
	}
}

func TestMultiples(t *testing.T) {
	var minus fr.Element
	minus.SetInt64(-1)
	scalars := []fr.Element{{}, fr.One(), minus, fr.NewElement(255), fr.NewElement(256), ToxicFrom(3).Tau}
	for i, p := range multiples1(scalars) {
		if want := g1(&scalars[i]); !p.Equal(&want) {
			t.Errorf("G1 times %v", scalars[i].String())
		}
	}
	for i, p := range multiples2(scalars) {
		if want := g2(&scalars[i]); !p.Equal(&want) {
			t.Errorf("G2 times %v", scalars[i].String())
		}
	}
}
