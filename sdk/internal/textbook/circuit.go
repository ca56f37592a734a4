package textbook

import (
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/r1cs"
)

// Circuit is a constraint system with an assignment that satisfies it.
type Circuit struct {
	System *r1cs.System
	W      []fr.Element // [NbWires], w[0] = 1
}

// Random makes a circuit of the given rows and public inputs: some rows state that a private wire is a bit, the others
// multiply two combinations of earlier wires (coefficients 1, -1, small and full) into a new wire. Every private wire is constrained. Deterministic.
func Random(seed uint64, rows, public int) *Circuit {
	rng := rand.New(rand.NewPCG(seed, 7))
	random := func() fr.Element {
		var limbs [4]uint64
		for i := range limbs {
			limbs[i] = rng.Uint64()
		}
		limbs[3] >>= 2
		x := fr.Element(limbs)
		var zero fr.Element
		x.Add(&x, &zero) // reduces
		return x
	}
	one := fr.One()
	w := []fr.Element{one}
	for range public {
		switch rng.IntN(4) {
		case 0:
			w = append(w, fr.Element{})
		case 1:
			w = append(w, one)
		default:
			w = append(w, random())
		}
	}
	b := r1cs.NewBuilder(1+public+rows, public, true, rows, 0)
	var minus fr.Element
	minus.Neg(&one)
	coeff := func() fr.Element {
		switch rng.IntN(5) {
		case 0, 1:
			return one
		case 2:
			return minus
		case 3:
			return fr.NewElement(uint64(2 + rng.IntN(9)))
		}
		return random()
	}
	combination := func(matrix int) fr.Element {
		var sum fr.Element
		for range 1 + rng.IntN(3) {
			j := rng.IntN(len(w))
			c := coeff()
			b.Term(matrix, uint32(j), b.Coeff(&c))
			var t fr.Element
			t.Mul(&c, &w[j])
			sum.Add(&sum, &t)
		}
		return sum
	}
	cOne, cMinus := b.Coeff(&one), b.Coeff(&minus)
	for range rows {
		j := uint32(len(w))
		if rng.IntN(2) == 0 {
			bit := fr.NewElement(uint64(rng.IntN(2)))
			b.Term(r1cs.MatrixA, j, cOne)
			b.Term(r1cs.MatrixB, j, cOne)
			b.Term(r1cs.MatrixB, 0, cMinus)
			w = append(w, bit)
		} else {
			x, y := combination(r1cs.MatrixA), combination(r1cs.MatrixB)
			x.Mul(&x, &y)
			b.Term(r1cs.MatrixC, j, cOne)
			w = append(w, x)
		}
		if err := b.EndRow(); err != nil {
			panic(err)
		}
	}
	s, err := b.System()
	if err != nil {
		panic(err)
	}
	return &Circuit{System: s, W: w}
}
