package r1cs

import (
	"context"
	"math/big"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
)

var ctx = context.Background()

func elem(x int64) (e fr.Element) {
	e.SetInt64(x)
	return e
}

// special are the coefficients and values at which short ways begin and end.
func special() []fr.Element {
	var out []fr.Element
	for _, x := range []int64{0, 1, -1, 2, -2, 127, 128, 129, -128, -129, 1 << 39, 1 << 40, 1<<40 + 1, -1 << 40, -1<<40 - 1, 1<<62 - 1, -1 << 62} {
		out = append(out, elem(x))
	}
	var half, r2 fr.Element
	half.SetBigInt(new(big.Int).Rsh(fr.Modulus(), 1))
	r2.SetBigInt(new(big.Int).Lsh(big.NewInt(1), 256))
	return append(out, half, r2)
}

func pick(rng *rand.Rand) fr.Element {
	s := special()
	if rng.IntN(3) > 0 {
		return s[rng.IntN(len(s))]
	}
	x := elem(int64(rng.Uint64() >> 1))
	x.Square(&x).Square(&x).Square(&x)
	return x
}

// randomSystem has rows of few terms, some of many, some with repeated wires, some empty.
func randomSystem(t testing.TB, rng *rand.Rand, wires, public, rows int, hasC bool) *System {
	t.Helper()
	b := NewBuilder(wires, public, hasC, rows, 0)
	for range rows {
		for m := range 3 {
			if m == MatrixC && !hasC {
				continue
			}
			terms := rng.IntN(10)
			if rng.IntN(20) == 0 {
				terms = rng.IntN(3 * fewTerms)
			}
			for range terms {
				c := pick(rng)
				w := uint32(rng.IntN(wires))
				b.Term(m, w, b.Coeff(&c))
				if rng.IntN(8) == 0 { // again, often cancelling
					if rng.IntN(2) == 0 {
						c.Neg(&c)
					}
					b.Term(m, w, b.Coeff(&c))
				}
			}
		}
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// values are mostly bits.
func values(rng *rand.Rand, n, bits int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		if rng.IntN(100) < bits {
			out[i].SetUint64(rng.Uint64() & 1)
		} else {
			out[i] = pick(rng)
		}
	}
	out[0].SetOne()
	return out
}

func vectorOf(t testing.TB, form assignment.Form, w []fr.Element) *assignment.Vector {
	t.Helper()
	listed := 0
	for i := range w {
		if !w[i].IsZero() && !w[i].IsOne() {
			listed++
		}
	}
	size := assignment.DenseSize(len(w))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(w), listed)
	}
	words := make([]uint64, size/8)
	for i := range words {
		words[i] = 0xa5a5a5a5a5a5a5a5 // a used buffer
	}
	b, err := assignment.NewBuilder(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size), form, len(w))
	if err != nil {
		t.Fatal(err)
	}
	for i := range w {
		if err := b.Append(&w[i]); err != nil {
			t.Fatal(err)
		}
	}
	v, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// naive is the sum over the terms of row i, in big integers.
func naive(s *System, m *Matrix, i int, w []fr.Element) (out fr.Element) {
	wire, coeff := m.Row(i)
	sum, a, b := new(big.Int), new(big.Int), new(big.Int)
	for k := range wire {
		s.Coeffs[coeff[k]].BigInt(a)
		w[wire[k]].BigInt(b)
		sum.Add(sum, a.Mul(a, b))
	}
	out.SetBigInt(sum.Mod(sum, fr.Modulus()))
	return out
}
