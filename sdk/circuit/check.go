package circuit

import (
	"context"
	"errors"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
)

// Violation is the first row that a witness breaks. Row counts from 0; Path names it: the parts of the circuit around it and the name given to Enforce.
type Violation struct {
	Row  int
	Path string
}

// Err is the violation as an error of class Unsatisfied; nil for nil.
func (v *Violation) Err() error {
	if v == nil {
		return nil
	}
	return errs.New(errs.Unsatisfied, "check witness", "row %d (%s) does not hold", v.Row, v.Path)
}

// Check records c and looks at each row with the values of w, which were computed by Witness. It returns the first broken row, nil if all hold. One pass, in one
// goroutine; where the rows are at hand as an r1cs.System its Check is faster, and Locate gives the path.
func Check(ctx context.Context, c Circuit, w *assignment.Vector) (*Violation, error) {
	n, err := Measure(ctx, c)
	if err != nil {
		return nil, err
	}
	if n.Wires() != w.Len() {
		return nil, errs.Mismatch(errs.InvalidArgument, "check witness", "witness", fmt.Sprintf("%d variables", n.Wires()), w.Len()).WithHint("the witness belongs to another circuit")
	}
	if one := w.At(0); !one.IsOne() {
		return nil, errs.Mismatch(errs.InvalidArgument, "check witness", "variable 0", "one", "another value")
	}
	_, err = record(ctx, c, &recorder{check: &checker{w: w, inputs: n.Inputs}}, nil)
	var broken *brokenRow
	if errors.As(err, &broken) {
		return &Violation{broken.row, broken.path}, nil
	}
	return nil, err
}

// Locate gives the path of a row, for one that r1cs.System.Check has found.
func Locate(ctx context.Context, c Circuit, row int) (*Violation, error) {
	_, err := record(ctx, c, &recorder{check: &checker{stop: row + 1}}, nil)
	var broken *brokenRow
	if errors.As(err, &broken) {
		return &Violation{broken.row, broken.path}, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, errs.New(errs.InvalidArgument, "locate row", "the circuit has no row %d", row)
}

// brokenRow ends a recording.
type brokenRow struct {
	row  int
	path string
}

func (b *brokenRow) Error() string { return fmt.Sprintf("row %d (%s) does not hold", b.row, b.path) }

// checker looks at rows as they are stated.
type checker struct {
	w      *assignment.Vector // nil: nothing but stop matters
	inputs int
	stop   int // the row that is not let pass, from 1; 0: none
	seen   int
}

func (k *checker) holds(r *Row) bool {
	if k.seen++; k.w == nil {
		return k.seen != k.stop
	}
	a, b, c := k.eval(&r.A), k.eval(&r.B), k.eval(&r.C)
	a.Mul(&a, &b)
	return a.Equal(&c)
}

func (k *checker) eval(c *Combination) (sum fr.Element) {
	for _, t := range c.terms {
		x := k.w.At(t.Var().wire(k.inputs))
		switch {
		case x.IsZero():
		case x.IsOne():
			sum.Add(&sum, &c.dict.elems[t.Coeff()])
		default:
			x.Mul(&x, &c.dict.elems[t.Coeff()])
			sum.Add(&sum, &x)
		}
	}
	return sum
}
