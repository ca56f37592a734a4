package circuit_test

import (
	"context"
	"fmt"
	"log"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// cubic states that x is a root of x^3 + x + 5 = y, for a secret x and a public y.
type cubic struct{ X, Y fr.Element }

func (c *cubic) Synthesize(b *circuit.Builder) error {
	y := b.AllocInput(&c.Y)
	x := b.AllocNum(&c.X)
	square := b.Mul("square", x, x)
	cube := b.Mul("cube", square, x)
	five := fr.NewElement(5)
	b.Enforce("equation", func(r *circuit.Row) {
		r.A.Add(cube.Var)
		r.A.Add(x.Var)
		r.A.AddScaled(circuit.One, &five)
		r.B.Add(circuit.One)
		r.C.Add(y)
	})
	return nil
}

func Example() {
	ctx := context.Background()

	// Once a circuit: the matrices, from which keys are made.
	sys, err := circuit.System(ctx, &cubic{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sys.NbConstraints(), "rows,", sys.NbPublic, "public input")

	// Once a proof: the witness.
	secret := &cubic{X: fr.NewElement(3), Y: fr.NewElement(35)}
	w, _, err := circuit.NewWitness(ctx, secret, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Len(), "variables")

	// When in doubt: the first row that does not hold.
	broken, err := circuit.Check(ctx, secret, w)
	fmt.Println(broken.Err(), err)

	wrong := &cubic{X: fr.NewElement(4), Y: fr.NewElement(35)}
	w, _, err = circuit.NewWitness(ctx, wrong, 1)
	if err != nil {
		log.Fatal(err)
	}
	broken, err = circuit.Check(ctx, wrong, w)
	fmt.Println(broken.Err(), err)

	// Output:
	// 3 rows, 1 public input
	// 5 variables
	// <nil> <nil>
	// check witness: row 2 (equation) does not hold <nil>
}
