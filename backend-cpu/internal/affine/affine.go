// Package affine adds many independent pairs of curve points in affine coordinates, with one field inversion for a whole batch.
//
// An addition of two affine points needs the inverse of a difference of x coordinates. Montgomery's trick turns n inversions into one
// inversion and 3(n-1) products, so that an addition costs 5 products and 1 square (P. Montgomery, "Speeding the Pollard and elliptic curve
// methods of factorization", 1987, section 10.3.1), against 8 products and 2 squares for the best mixed addition in extended Jacobian
// coordinates. The additions of a batch must not depend on each other.
//
// Every case is right, not only the generic one: a point at infinity on either side, equal points, opposite points, and points of order 2.
//
// There are two implementations: one in Go over gnark-crypto's fields (g1.go, g2.go), and one that adds eight pairs at a time where the processor has the
// instructions for it (wide.go). Their results are the same words.
package affine

// Negate is the bit of an index that asks for the opposite point. Point lists are therefore shorter than 2^31.
const Negate = uint32(1) << 31

// Ops lists additions by the indices of their points. The three lists have the same length; A or B may be the same list as Dst.
type Ops struct{ Dst, A, B []uint32 }

// Slice returns the additions lo to hi-1.
func (o Ops) Slice(lo, hi int) Ops { return Ops{o.Dst[lo:hi], o.A[lo:hi], o.B[lo:hi]} }

// NewOps makes room for n additions.
func NewOps(n int) Ops { return Ops{make([]uint32, n), make([]uint32, n), make([]uint32, n)} }

// Kernel does batched arithmetic in one group. A kernel owns scratch memory: it serves one goroutine at a time.
type Kernel[P any] interface {
	// Add sets dst[Dst[j]] = a[A[j]] + b[B[j]] for every j, the opposite of a point where its index carries Negate. dst may share memory with a and
	// b, but no place that one addition writes may be written or read by another one.
	Add(dst, a, b []P, ops Ops)

	// Copy sets dst[to[j]] to the point src[from[j]], or to its opposite where from[j] carries Negate.
	Copy(dst, src []P, to, from []uint32)

	// Near tells whether Add is best given points that lie close together and carry no Negate: then it pays to copy scattered ones first. A kernel that
	// says so copies a point where B is none, and lets a result overwrite an operand of its own or of an earlier addition.
	Near() bool
}

// none as the second operand says that there is only one.
const none = ^uint32(0)

// Runs is the memory for SumRuns and Fold.
type Runs struct {
	ops      Ops
	to, from []uint32
}

// NewRuns makes memory for lists of up to n points.
func NewRuns(n int) *Runs {
	return &Runs{NewOps(n), make([]uint32, n), make([]uint32, n)}
}

// RunsBytes is the memory that NewRuns takes for each point.
const RunsBytes = 3*4 + 2*4

// Forget overwrites which points were added.
func (r *Runs) Forget() {
	for _, list := range [][]uint32{r.ops.Dst, r.ops.A, r.ops.B, r.to, r.from} {
		clear(list)
	}
}

// SumRuns adds up runs of points, all runs at once, halving each run in every round. idx lists the points of the runs one after the other, with Negate where
// the opposite is meant; lens[i] > 0 is the length of run i, and sum(lens) = len(idx). After it the sum of run i is work[at[i]]; the rest of work is spoiled,
// and idx and lens too.
func SumRuns[P any](k Kernel[P], work, points []P, idx, lens, at []uint32, r *Runs) {
	if k.Near() {
		for i := range idx {
			r.to[i] = uint32(i)
		}
		for i := range lens {
			at[i] = uint32(i)
		}
		k.Copy(work, points, r.to[:len(idx)], idx)
		compact(k, work, lens, r)
		return
	}
	var n, m int
	var place uint32
	ops := r.ops
	for i, l := range lens {
		at[i] = place
		end := place + l
		for ; place+1 < end; place += 2 {
			ops.Dst[n], ops.A[n], ops.B[n] = place, idx[place], idx[place+1]
			n++
		}
		if place < end {
			r.to[m], r.from[m] = place, idx[place]
			m++
			place++
		}
	}
	k.Copy(work, points, r.to[:m], r.from[:m])
	k.Add(work, points, points, ops.Slice(0, n))
	fold(k, work, lens, 2, r)
}

// compact adds up runs that lie one after the other in work, and moves what is left of them together in every round, for the nearer caches.
func compact[P any](k Kernel[P], work []P, lens []uint32, r *Runs) {
	for again := true; again; {
		again = false
		ops := r.ops
		var n, at uint32
		for i, l := range lens {
			end := at + l
			for ; at+1 < end; at += 2 {
				ops.Dst[n], ops.A[n], ops.B[n] = n, at, at+1
				n++
			}
			if at < end {
				ops.Dst[n], ops.A[n], ops.B[n] = n, at, none
				n++
				at++
			}
			lens[i] = (l + 1) / 2
			again = again || lens[i] > 1
		}
		if n < at { // else every run is a single point already
			k.Add(work, work, work, ops.Slice(0, int(n)))
		}
	}
}

// Fold adds up work[0] to work[n-1] in the place of work[0]. The rest is spoiled.
func Fold[P any](k Kernel[P], work []P, n int, r *Runs) { fold(k, work, []uint32{uint32(n)}, 1, r) }

// fold adds up runs of which every stride-th place is left.
func fold[P any](k Kernel[P], work []P, lens []uint32, stride uint32, r *Runs) {
	for ; ; stride *= 2 {
		ops := r.ops
		var n int
		var at uint32
		for _, l := range lens {
			for i := stride; i < l; i += 2 * stride {
				ops.Dst[n], ops.B[n] = at+i-stride, at+i
				n++
			}
			at += l
		}
		if n == 0 {
			return
		}
		k.Add(work, work, work, Ops{ops.Dst[:n], ops.Dst[:n], ops.B[:n]})
	}
}

// how a pair is added
const (
	generic  = uint8(iota) // different x
	first                  // the result is the first operand
	second                 // the result is the second operand
	infinity               // opposite points, or both at infinity
	doubling               // equal points
)
