package circuit_test

import (
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// mixed has everything in it: numbers and bits interleaved at odd places, words of every width, constants and negations, inputs between other variables, sums
// that cancel, long rows, and parts that are repeated inside and outside of one another.
type mixed struct {
	seed    uint64
	numbers [3]fr.Element
	words   []uint64
}

const (
	mixedParts = 5
	mixedWords = 19
)

func newMixed(seed uint64) *mixed {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &mixed{seed: seed}
	for i := range c.numbers {
		c.numbers[i] = fr.Element{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64() >> 2}
	}
	for range mixedWords {
		c.words = append(c.words, r.Uint64())
	}
	return c
}

func (c *mixed) Synthesize(b *circuit.Builder) error {
	b.Enter("numbers")
	x := b.AllocNum(&c.numbers[0])
	b.Inputize("x", x)
	y := b.AllocNum(&c.numbers[1])
	z := b.Mul("product", x, y)
	b.Inputize("z", z)
	b.Leave()

	b.Enter("bits")
	bits := b.ToBits("x", x)
	parity := circuit.Constant(false)
	for i, bit := range bits {
		if i%3 == 0 {
			bit = bit.Not()
		}
		parity = b.Xor(parity, bit)
		if i%7 == 0 {
			parity = b.Or(parity, circuit.Constant(i%14 == 0))
		}
	}
	b.Leave()

	sums := make([]circuit.Num, mixedParts)
	err := b.Repeat("part ", mixedParts, func(b *circuit.Builder, i int) error {
		return b.Repeat("inner ", 2, func(b *circuit.Builder, j int) error {
			for k, word := range c.words {
				n := (27*k)%65 + 1
				some := b.AllocBools("word", word+uint64(i), min(n, 64), nil)
				b.And(some[0], some[len(some)-1].Not())
				if k%5 == 0 {
					b.Enforce("cancels", func(r *circuit.Row) {
						r.A.AddBool(some[0].Not(), 3)
						r.A.SubBool(some[0].Not(), 3)
						r.B.Add(circuit.One)
					})
				}
				if k%9 == 0 {
					v := b.AllocNum(&c.numbers[k%3])
					sums[i] = b.Add("sum", v, z)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	b.Enter("end")
	defer b.Leave()
	var total circuit.Num
	for i := range sums {
		total.Value.Add(&total.Value, &sums[i].Value)
	}
	total.Var = b.Alloc(&total.Value)
	b.Enforce("total", func(r *circuit.Row) {
		for i := range sums {
			r.C.Add(sums[i].Var)
		}
		r.A.Add(total.Var)
		r.B.Add(circuit.One)
	})
	b.Inputize("total", total)
	return b.Err()
}

func (c *mixed) public() []fr.Element {
	out := make([]fr.Element, 3)
	out[0] = c.numbers[0]
	out[1].Mul(&c.numbers[0], &c.numbers[1])
	last := c.numbers[18%3] // the sum of each part is that of its last word with one
	for range mixedParts {
		out[2].Add(&out[2], &last).Add(&out[2], &out[1])
	}
	return out
}
