package cpu

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// chunkPoints is how many points a sum takes at a time; cancellation is looked at between.
const chunkPoints = 1 << 18

func sumG1(ctx context.Context, points []bls.G1Affine, scalars []fr.Element, tasks int) (bls.G1Jac, error) {
	var total bls.G1Jac
	for lo := 0; lo < len(points); lo += chunkPoints {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		hi := min(len(points), lo+chunkPoints)
		var part bls.G1Jac
		if _, err := part.MultiExp(points[lo:hi], scalars[lo:hi], ecc.MultiExpConfig{NbTasks: tasks}); err != nil {
			return total, &errs.Error{Class: errs.Internal, Op: "sum points", Err: err}
		}
		total.AddAssign(&part)
	}
	return total, ctx.Err()
}

func sumG2(ctx context.Context, points []bls.G2Affine, scalars []fr.Element, tasks int) (bls.G2Jac, error) {
	var total bls.G2Jac
	for lo := 0; lo < len(points); lo += chunkPoints {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		hi := min(len(points), lo+chunkPoints)
		var part bls.G2Jac
		if _, err := part.MultiExp(points[lo:hi], scalars[lo:hi], ecc.MultiExpConfig{NbTasks: tasks}); err != nil {
			return total, &errs.Error{Class: errs.Internal, Op: "sum points", Err: err}
		}
		total.AddAssign(&part)
	}
	return total, ctx.Err()
}

// selected is the values of the wires in set, ascending.
func selected(w *assignment.Vector, set groth16.Bitmap, count int) []fr.Element {
	out := make([]fr.Element, 0, count)
	for i := range w.Len() {
		if set.Has(i) {
			out = append(out, w.At(i))
		}
	}
	return out
}
