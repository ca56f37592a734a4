package affine

import (
	"math/bits"
	"unsafe"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/backend-cpu/internal/ifma"
)

// wideAvailable is whether kernels add eight pairs at a time.
var wideAvailable = ifma.Available()

// Wide tells whether kernels use the processor's wide multiply-add instructions. What suits a batch depends on it.
func Wide() bool { return wideAvailable }

// NewG1 makes a kernel for G1 that adds batches of up to n pairs at once; longer lists are cut.
func NewG1(n int) Kernel[bls12381.G1Affine] {
	if wideAvailable {
		return newWide(n, newG1, (*bls12381.G1Affine).IsInfinity)
	}
	return newG1(n)
}

// NewG2 is NewG1 for the other group.
func NewG2(n int) Kernel[bls12381.G2Affine] {
	if wideAvailable {
		return newWide(n, newG2, (*bls12381.G2Affine).IsInfinity)
	}
	return newG2(n)
}

// ScratchG1 is the memory in bytes that a kernel for G1 takes for each pair of its batch size.
func ScratchG1() int {
	if wideAvailable {
		return scratchWide[bls12381.G1Affine]()
	}
	return scratchG1
}

// ScratchG2 is ScratchG1 for the other group.
func ScratchG2() int {
	if wideAvailable {
		return scratchWide[bls12381.G2Affine]()
	}
	return scratchG2
}

func scratchWide[P ifma.Point]() int {
	return ifma.Bytes[P]()/ifma.Lanes + int(unsafe.Sizeof(*new(P))) + 16
}

// wide is a Kernel that adds eight pairs at a time. Pairs that the formulas of the wide path are not for (equal and opposite points, and a point with x = 0
// that is not infinity) go to the other kernel, as do lists that would leave most lanes empty.
type wide[P ifma.Point] struct {
	n        int
	other    Kernel[P]
	infinite func(*P) bool
	batch    *ifma.Batch[P]

	// a list's last additions, filled up to a group
	tail       struct{ to, a, b [ifma.Lanes]uint32 }
	tailResult [ifma.Lanes]P

	// pairs for the other kernel, where their sums go, and the sums until they can be written there
	rest struct {
		n    int
		to   []uint32
		ops  Ops
		sums []P
	}
}

// fewest is the length from which on a list is worth the wide path.
const fewest = 6

// inner is the size in bytes of a list whose points lie in a core's own cache.
const inner = 1 << 19

// otherBatch is the batch size of the kernel for rare pairs.
const otherBatch = 64

func newWide[P ifma.Point, K Kernel[P]](n int, other func(n int) K, infinite func(*P) bool) *wide[P] {
	k := &wide[P]{n: n, other: other(min(n, otherBatch)), infinite: infinite, batch: ifma.NewBatch[P]((n + ifma.Lanes - 1) / ifma.Lanes)}
	for i := range k.tail.to {
		k.tail.to[i] = uint32(i)
	}
	k.rest.to, k.rest.ops, k.rest.sums = make([]uint32, n), NewOps(n), make([]P, n)
	for i := range k.rest.ops.Dst {
		k.rest.ops.Dst[i] = uint32(i)
	}
	return k
}

// Copy implements Kernel.
func (k *wide[P]) Copy(dst, src []P, to, from []uint32) { k.other.Copy(dst, src, to, from) }

// Near implements Kernel: many additions are under way at once, so that they wait for far points together.
func (k *wide[P]) Near() bool { return false }

// Add implements Kernel.
func (k *wide[P]) Add(dst, a, b []P, ops Ops) {
	for n := len(ops.Dst); n > 0; n = len(ops.Dst) {
		n = min(n, k.n)
		if n < fewest {
			k.other.Add(dst, a, b, ops.Slice(0, n))
		} else {
			k.add(dst, a, b, ops.Slice(0, n))
		}
		ops = ops.Slice(n, len(ops.Dst))
	}
}

func (k *wide[P]) add(dst, a, b []P, ops Ops) {
	n := len(ops.Dst)
	full := n / ifma.Lanes
	whole, tail := ops.Slice(0, full*ifma.Lanes), ops.Slice(full*ifma.Lanes, n)
	left := len(tail.Dst)
	if left > 0 { // the other lanes repeat the last pair
		for i := range k.tail.a {
			k.tail.a[i], k.tail.b[i] = tail.A[min(i, left-1)], tail.B[min(i, left-1)]
		}
	}
	t := k.batch
	t.Begin()
	t.Divisors(0, a, b, whole.A, whole.B, max(len(a), len(b))*int(unsafe.Sizeof(a[0])) > inner)
	groups := full
	if left > 0 {
		t.Divisors(full, a, b, k.tail.a[:], k.tail.b[:], false)
		groups++
		t.Flags[full] &= 1<<left - 1
	}
	for g, f := range t.Flags[:groups] {
		t.Copies[g] = [2]uint8{}
		if f != 0 {
			k.classify(a, b, ops, g, f)
		}
	}
	rest := k.rest.n // their operands may lie where the second pass writes
	k.other.Add(k.rest.sums, a, b, k.rest.ops.Slice(0, rest))
	t.Invert()
	if left > 0 {
		t.Sums(full, k.tailResult[:], a, b, k.tail.to[:], k.tail.a[:], k.tail.b[:])
		for i, to := range tail.Dst {
			dst[to] = k.tailResult[i]
		}
	}
	t.Sums(0, dst, a, b, whole.Dst, whole.A, whole.B)
	for i, to := range k.rest.to[:rest] {
		dst[to] = k.rest.sums[i]
	}
	clear(k.rest.sums[:rest])
	k.rest.n = 0
}

// classify looks at the flagged lanes of a group.
func (k *wide[P]) classify(a, b []P, ops Ops, group int, flags uint8) {
	for ; flags != 0; flags &= flags - 1 {
		lane := bits.TrailingZeros8(flags)
		j := group*ifma.Lanes + lane
		pa, pb := &a[ops.A[j]&^Negate], &b[ops.B[j]&^Negate]
		switch {
		case k.infinite(pa):
			k.batch.Copies[group][1] |= 1 << lane
		case k.infinite(pb):
			k.batch.Copies[group][0] |= 1 << lane
		default:
			i := k.rest.n
			k.rest.to[i], k.rest.ops.A[i], k.rest.ops.B[i] = ops.Dst[j], ops.A[j], ops.B[j]
			k.rest.n++
		}
	}
}
