package ifma

import (
	"math/rand/v2"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// values are special field elements and random ones, by their words as they lie in memory.
func values(n int) []fp.Element {
	one := fp.One()
	out := []fp.Element{{}, {1}, one}
	for _, x := range out {
		out = append(out, *new(fp.Element).Neg(&x))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(out) < n {
		var b [48]byte
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		out = append(out, *new(fp.Element).SetBytes(b[:]))
	}
	return out
}

func TestBlock(t *testing.T) {
	var b Block
	for i, x := range values(200) {
		b.Set(i%Lanes, (*[6]uint64)(&x))
		if got := fp.Element(b.Get(i % Lanes)); got != x {
			t.Fatalf("%v came back as %v", x, got)
		}
		for limb, row := range b {
			if row[i%Lanes]>>52 != 0 {
				t.Fatalf("limb %d of %v has more than 52 bits", limb, x)
			}
		}
	}
}

// blocks puts pairs of every value with every value into lanes.
func blocks(v []fp.Element) (x, y []Block) {
	n := 0
	for i := range v {
		for j := range v {
			if n%Lanes == 0 {
				x, y = append(x, Block{}), append(y, Block{})
			}
			x[n/Lanes].Set(n%Lanes, (*[6]uint64)(&v[i]))
			y[n/Lanes].Set(n%Lanes, (*[6]uint64)(&v[j]))
			n++
		}
	}
	return x, y
}

func need(t *testing.T) {
	if !Available() {
		t.Skip("this processor has no AVX-512 IFMA")
	}
}

func TestMul(t *testing.T) {
	need(t)
	x, y := blocks(values(40))
	z := make([]Block, len(x))
	mul(&z[0], &x[0], &y[0], len(z))
	reduce(&z[0], len(z))
	check(t, z, func(i, l int) (w fp.Element) {
		a, b := fp.Element(x[i].Get(l)), fp.Element(y[i].Get(l))
		return *w.Mul(&a, &b)
	})
}

// x y + u v, with u and v from another order of the same values.
func TestMul2(t *testing.T) {
	need(t)
	x, y := blocks(values(40))
	n := len(x)
	u, v := make([]Block, n), make([]Block, n)
	for i := range u {
		u[i], v[i] = x[(i*7+3)%n], y[(i*11+5)%n]
	}
	z := make([]Block, n)
	mul2(&z[0], &x[0], &y[0], &u[0], &v[0], n)
	reduce(&z[0], n)
	check(t, z, func(i, l int) (w fp.Element) {
		a, b, c, d := fp.Element(x[i].Get(l)), fp.Element(y[i].Get(l)), fp.Element(u[i].Get(l)), fp.Element(v[i].Get(l))
		w.Mul(&a, &b)
		return *w.Add(&w, c.Mul(&c, &d))
	})
}

// Sums of up to three reduced elements, limb by limb.
func TestReduce(t *testing.T) {
	need(t)
	x, y := blocks(values(40))
	for terms := 1; terms <= 3; terms++ {
		z := make([]Block, len(x))
		for i := range z {
			for limb := range z[i] {
				for l := range Lanes {
					z[i][limb][l] = x[i][limb][l]
					for range terms - 1 {
						z[i][limb][l] += y[i][limb][l]
					}
				}
			}
		}
		reduce(&z[0], len(z))
		check(t, z, func(i, l int) fp.Element {
			a, b := fp.Element(x[i].Get(l)), fp.Element(y[i].Get(l))
			for range terms - 1 {
				a.Add(&a, &b)
			}
			return a
		})
	}
}

func check(t *testing.T, z []Block, want func(i, lane int) fp.Element) {
	t.Helper()
	for i := range z {
		for l := range Lanes {
			if got, want := fp.Element(z[i].Get(l)), want(i, l); got != want {
				t.Fatalf("block %d, lane %d: %x, want %x", i, l, got, want)
			}
		}
	}
}
