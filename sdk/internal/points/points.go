// Package points checks many curve points at once: on the curve, and in the subgroup of order r. It also turns ZCash's
// uncompressed big-endian encoding into gnark-crypto's memory form and back.
package points

import (
	"context"
	"sync"
	"sync/atomic"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// Sizes of uncompressed points in bytes: the ZCash encoding and gnark-crypto's affine memory image have the same.
const (
	G1Size = 2 * fp.Bytes
	G2Size = 4 * fp.Bytes
)

// grain is how many points a worker takes at a time: some milliseconds of work.
const grain = 1 << 11

// Each calls f for disjoint ranges that cover [0, n), at most grain long, on tasks goroutines, and stops early when ctx ends or
// f fails. The error of the lowest range that failed is returned, so that messages do not depend on timing.
func Each(ctx context.Context, tasks, n, grain int, f func(lo, hi int) error) error {
	var (
		next   atomic.Int64
		stop   atomic.Bool
		mu     sync.Mutex
		failed error
		at     = n
		wg     sync.WaitGroup
	)
	work := func() {
		for !stop.Load() {
			lo := int(next.Add(int64(grain))) - grain
			if lo >= n {
				return
			}
			err := ctx.Err()
			if err == nil {
				err = f(lo, min(n, lo+grain))
			}
			if err != nil {
				mu.Lock()
				if failed == nil || lo < at {
					failed, at = err, lo
				}
				mu.Unlock()
				stop.Store(true)
			}
		}
	}
	workers := min(max(1, tasks), (n+grain-1)/grain)
	if workers <= 1 {
		work()
		return failed
	}
	for range workers {
		wg.Go(work)
	}
	wg.Wait()
	return failed
}

// BadPoint is the first point of a list that fails a check.
type BadPoint struct {
	Index int
	What  string // "not on the curve", ...
}

func (b *BadPoint) Error() string { return b.What }

func first[P any](ctx context.Context, tasks int, ps []P, what string, ok func(*P) bool) error {
	return Each(ctx, tasks, len(ps), grain, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			if !ok(&ps[i]) {
				return &BadPoint{Index: i, What: what}
			}
		}
		return nil
	})
}

// OnCurveG1 returns a *BadPoint for the first point that is off the curve. Infinity is on it.
func OnCurveG1(ctx context.Context, tasks int, ps []bls.G1Affine) error {
	return first(ctx, tasks, ps, "not on the curve", (*bls.G1Affine).IsOnCurve)
}

// OnCurveG2 is OnCurveG1 for G2.
func OnCurveG2(ctx context.Context, tasks int, ps []bls.G2Affine) error {
	return first(ctx, tasks, ps, "not on the curve", (*bls.G2Affine).IsOnCurve)
}

const notInSubgroup = "not in the subgroup of order r"

// SubgroupG1 returns a *BadPoint for the first point outside the subgroup of order r, checking one by one: some 40 us a point.
func SubgroupG1(ctx context.Context, tasks int, ps []bls.G1Affine) error {
	return first(ctx, tasks, ps, notInSubgroup, (*bls.G1Affine).IsInSubGroup)
}

// SubgroupG2 is SubgroupG1 for G2.
func SubgroupG2(ctx context.Context, tasks int, ps []bls.G2Affine) error {
	return first(ctx, tasks, ps, notInSubgroup, (*bls.G2Affine).IsInSubGroup)
}
