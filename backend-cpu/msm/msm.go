// Package msm computes sums of points with scalar factors (multi-scalar multiplications) in G1 and G2 of BLS12-381.
//
// The method is Pippenger's: scalars are cut in signed digits of c bits, points with the same digit are put into the same of 2^(c-1)
// buckets, and a window's value is the sum of bucket k times k (N. Pippenger, "On the evaluation of powers and monomials", 1980; section 4 of
// https://eprint.iacr.org/2012/549.pdf). What is ours is how the buckets are filled. A window's points are taken in blocks that fit into the
// outer cache; a block is sorted by bucket (a counting sort of indices, in two steps so that both stay in the inner caches), points of the same bucket
// are added up as a binary tree, and the sums are added to the buckets, all in batches of independent affine additions that share one inversion.
// No addition waits for another one's bucket, and blocks are independent but for a short lock, so that the tasks share a window evenly
// whatever the scalars are. The weighted sum of the buckets is made of batched affine additions as well.
//
// The endomorphism of G1 was considered: two points with half-length scalars for each point give the same number of bucket additions, and only
// halve the weighted sums, which here are some 7 % of the work at 2^20; storing the images costs half the points' memory again. It is not used.
//
// Points may lie in read-only memory; nothing here writes to them, keeps them, or needs them in any order. Points at infinity, repeated and
// opposite points are right. Times depend on the scalars: this is not for secrets that an observer of the machine's timing must not learn.
package msm

import (
	"context"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/sdk/errs"
)

const (
	// MaxChunk is the number of points that are in work at once. Longer sums are made chunk by chunk.
	MaxChunk = 1 << 20

	maxInner = 8       // tasks that share one window
	maxList  = 1 << 31 // an index and a sign fit in 32 bits
)

// In is the memory that sums are computed in: an arena of the caller's, which is as it was when they are done, or, for the zero value and for what is small, the Go heap.
type In struct{ Arena *arena.Arena }

// G1 returns sum(scalars[i] * points[i]) with at most tasks goroutines at work (all processors if tasks <= 0). Scalars are in Montgomery form, as fr
// keeps them. It errors if the lengths differ, and with the context's error soon after the context ends.
func G1(ctx context.Context, points []bls12381.G1Affine, scalars []fr.Element, tasks int) (bls12381.G1Jac, error) {
	return In{}.G1(ctx, points, scalars, tasks)
}

// G1 is the function G1 in m.
func (m In) G1(ctx context.Context, points []bls12381.G1Affine, scalars []fr.Element, tasks int) (bls12381.G1Jac, error) {
	if err := sameLength(len(points), len(scalars)); err != nil {
		return bls12381.G1Jac{}, err
	}
	return newEngineG1(m.Arena).sum(ctx, points, dense(scalars), tasks)
}

// G2 is G1 for the other group.
func G2(ctx context.Context, points []bls12381.G2Affine, scalars []fr.Element, tasks int) (bls12381.G2Jac, error) {
	if err := sameLength(len(points), len(scalars)); err != nil {
		return bls12381.G2Jac{}, err
	}
	return newEngineG2(nil).sum(ctx, points, dense(scalars), tasks)
}

func sameLength(points, scalars int) error {
	if points != scalars {
		return errs.Mismatch(errs.InvalidArgument, "multi-scalar multiplication", "scalars", points, scalars)
	}
	if points >= maxList {
		return errs.Mismatch(errs.InvalidArgument, "multi-scalar multiplication", "points", "fewer than 2^31", points)
	}
	return nil
}

// terms is a list of (scalar, point) pairs in which points are named by their index.
type terms struct {
	n int
	// at returns the scalar of term i and its point's index
	at func(i int) (*fr.Element, uint32)
}

func dense(scalars []fr.Element) terms {
	return terms{len(scalars), func(i int) (*fr.Element, uint32) { return &scalars[i], uint32(i) }}
}

// group is what the engine needs of G1 and G2: P is the affine, J the Jacobian form. All methods but kernel and add work on few points.
type group[P, J any] interface {
	kernel(batch int) affine.Kernel[P]
	batch() int // pairs a kernel call should have: a batch's points fit in a core's cache
	pointBytes() int
	kernelBytes() int // of kernel scratch per pair
	add(z, x *J)
	addAffine(z *J, x *P)
	double(z *J)
	infinity() J
}

type engine[P, J any] struct {
	group[P, J]
	mem *arena.Arena
}
