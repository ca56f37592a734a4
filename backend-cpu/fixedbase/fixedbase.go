// Package fixedbase computes many multiples of one point, as the making of a key needs them.
//
// A table holds the multiples 1 to 2^(c-1) of the base times every power of 2^c. A scalar is cut in signed digits of c bits, so that its
// multiple is the sum of one table entry for each digit (E. Brickell, D. Gordon, K. McCurley, D. Wilson, "Fast exponentiation with
// precomputation", 1992). The sums of many scalars go in step: the additions for one digit are one batch of affine additions with one inversion,
// and results come out affine.
//
// Times depend on the scalars.
package fixedbase

import (
	"context"
	"math"
	"unsafe"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/internal/digits"
	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/sdk/errs"
)

// maxWidth keeps tables at 48 MiB in G1, 96 MiB in G2.
const maxWidth = 16

// TableG1 holds multiples of a point of G1. Safe for concurrent use.
type TableG1 struct {
	table[bls12381.G1Affine]
}

// TableG2 holds multiples of a point of G2. Safe for concurrent use.
type TableG2 struct {
	table[bls12381.G2Affine]
}

// NewG1 makes a table of the size that is best for n multiples of base, with at most tasks goroutines (all processors if tasks <= 0). It errors
// only when ctx ends.
func NewG1(ctx context.Context, base *bls12381.G1Affine, n, tasks int) (*TableG1, error) {
	t := &TableG1{newTable[bls12381.G1Affine](n, 512, affine.NewG1)}
	powers := make([]bls12381.G1Jac, t.Count)
	var p bls12381.G1Jac
	p.FromAffine(base)
	for w := range powers {
		powers[w].Set(&p)
		for range t.C {
			p.DoubleAssign()
		}
	}
	return t, t.fill(ctx, bls12381.BatchJacobianToAffineG1(powers), tasks)
}

// NewG2 is NewG1 for the other group.
func NewG2(ctx context.Context, base *bls12381.G2Affine, n, tasks int) (*TableG2, error) {
	t := &TableG2{newTable[bls12381.G2Affine](n, 256, affine.NewG2)}
	powers := make([]bls12381.G2Affine, t.Count)
	var p bls12381.G2Jac
	p.FromAffine(base)
	for w := range powers {
		powers[w].FromJacobian(&p)
		for range t.C {
			p.DoubleAssign()
		}
	}
	return t, t.fill(ctx, powers, tasks)
}

// BytesG1 is the size of the table that NewG1 makes for n multiples; each task takes some 150 KiB more.
func BytesG1(n int) int64 {
	w := chooseWidth(n)
	return int64(w.Count*w.Values()) * int64(unsafe.Sizeof(bls12381.G1Affine{}))
}

// BytesG2 is BytesG1 for the other group.
func BytesG2(n int) int64 { return 2 * BytesG1(n) }

// chooseWidth makes the additions for the table and for n multiples fewest.
func chooseWidth(n int) digits.Window {
	best, bestCost := 2, math.Inf(1)
	for c := 2; c <= maxWidth; c++ {
		w := digits.New(c)
		if cost := float64(w.Count*w.Values()) + float64(n)*float64(w.Count-1); cost < bestCost {
			best, bestCost = c, cost
		}
	}
	return digits.New(best)
}

type table[P any] struct {
	digits.Window
	kernel func(n int) affine.Kernel[P]
	batch  int
	of     []P // multiple d of window w is of[w*Values + d-1]
}

func newTable[P any](n, batch int, kernel func(n int) affine.Kernel[P]) table[P] {
	w := chooseWidth(n)
	return table[P]{Window: w, kernel: kernel, batch: batch, of: make([]P, w.Count*w.Values())}
}

// each runs f for 0 to n-1, or until ctx ends, on at most tasks goroutines, each with a worker of its own.
func (t *table[P]) each(ctx context.Context, n, tasks int, f func(w *worker[P], i int)) error {
	return parallel.RunWith(ctx, n, tasks, func() *worker[P] {
		return &worker[P]{
			k: t.kernel(t.batch), ops: affine.NewOps(t.batch), scalars: make([]digits.Recoded, t.batch),
		}
	}, f)
}

// worker is the memory of one goroutine.
type worker[P any] struct {
	k       affine.Kernel[P]
	ops     affine.Ops
	scalars []digits.Recoded
}

// fill computes the table: with the multiples 1 to k of a window at hand, the next k are these plus the k-th.
func (t *table[P]) fill(ctx context.Context, powers []P, tasks int) error {
	return t.each(ctx, t.Count, tasks, func(w *worker[P], i int) {
		of := t.of[i*t.Values() : (i+1)*t.Values()]
		of[0] = powers[i]
		for k := 1; k < len(of); k *= 2 {
			for lo := 0; lo < k; lo += t.batch {
				ops := w.ops.Slice(0, min(t.batch, k-lo))
				for j := range ops.Dst {
					ops.Dst[j], ops.A[j], ops.B[j] = uint32(k+lo+j), uint32(k-1), uint32(lo+j)
				}
				w.k.Add(of, of, of, ops)
			}
		}
	})
}

// Mul sets dst[i] to scalars[i] times the base, as affine points (infinity is (0, 0)), with at most tasks goroutines (all processors if tasks <=
// 0). It errors if the lengths differ and when ctx ends; dst is of no use then.
func (t *table[P]) Mul(ctx context.Context, dst []P, scalars []fr.Element, tasks int) error {
	if len(dst) != len(scalars) {
		return errs.Mismatch(errs.InvalidArgument, "multiples of one base", "scalars", len(dst), len(scalars))
	}
	return t.each(ctx, (len(dst)+t.batch-1)/t.batch, tasks, func(w *worker[P], i int) {
		lo := i * t.batch
		hi := min(lo+t.batch, len(dst))
		t.mul(w, dst[lo:hi], scalars[lo:hi])
	})
}

func (t *table[P]) mul(w *worker[P], dst []P, scalars []fr.Element) {
	clear(dst)
	for i := range scalars {
		w.scalars[i] = t.Recode(&scalars[i])
	}
	for win := range t.Count {
		r := t.Reader(win)
		n := 0
		for i := range dst {
			if d, neg := r.Digit(&w.scalars[i]); d != 0 {
				w.ops.Dst[n], w.ops.B[n] = uint32(i), uint32(win*t.Values())+d-1|neg<<31
				n++
			}
		}
		w.k.Add(dst, dst, t.of, affine.Ops{Dst: w.ops.Dst[:n], A: w.ops.Dst[:n], B: w.ops.B[:n]})
	}
}
