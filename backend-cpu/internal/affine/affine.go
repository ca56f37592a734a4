// Package affine adds many independent pairs of curve points in affine coordinates, with one field inversion for a whole batch.
//
// An addition of two affine points needs the inverse of a difference of x coordinates. Montgomery's trick turns n inversions into one
// inversion and 3(n-1) products, so that an addition costs 5 products and 1 square (P. Montgomery, "Speeding the Pollard and elliptic curve
// methods of factorization", 1987, section 10.3.1), against 8 products and 2 squares for the best mixed addition in extended Jacobian
// coordinates. The additions of a batch must not depend on each other.
//
// Every case is right, not only the generic one: a point at infinity on either side, equal points, opposite points, and points of order 2.
package affine

// None as Pair.B says that the pair has no second point: the first is copied.
const None = ^uint32(0)

// Negate is the bit of an index given to Kernel.Gather that asks for the opposite point. Point lists are therefore shorter than 2^31.
const Negate = uint32(1) << 31

// Pair names the operands of one addition by their indices.
type Pair struct{ A, B uint32 }

// Kernel does batched arithmetic in one group. A kernel owns scratch memory: it serves one goroutine at a time.
type Kernel[P any] interface {
	// Add sets dst[j] = a[pairs[j].A] + b[pairs[j].B] for every j. dst may share memory with a and b if every index that pair j reads of dst
	// is at least j: results are written in ascending order, after the operands of the same pair were read.
	Add(dst, a, b []P, pairs []Pair)

	// Gather sets dst[j] to the point src[idx[j]], or to its opposite where idx[j] carries Negate.
	Gather(dst, src []P, idx []uint32)
}

// SumRuns adds up runs of neighbouring points, all runs at once, halving each run in every round. work holds the runs one after the
// other; lens[i] > 0 is the length of run i, and sum(lens) = len(work). After it work[i] is the sum of run i, the rest of work and lens are
// spoiled. pairs is scratch of at least len(work) entries (half of them plus the number of runs are used).
func SumRuns[P any](k Kernel[P], work []P, lens []uint32, pairs []Pair) {
	for {
		var n, at uint32
		again := false
		for i, l := range lens {
			end := at + l
			for ; at+1 < end; at += 2 {
				pairs[n] = Pair{at, at + 1}
				n++
			}
			if at < end {
				pairs[n] = Pair{at, None}
				n++
				at++
			}
			l = (l + 1) / 2
			lens[i] = l
			again = again || l > 1
		}
		if int(n) == int(at) { // every run was a single point already
			return
		}
		k.Add(work, work, work, pairs[:n])
		if !again {
			return
		}
	}
}

// Identity fills pairs with {0,0}, {1,1}, ...: Add then works element by element.
func Identity(pairs []Pair) {
	for i := range pairs {
		pairs[i] = Pair{uint32(i), uint32(i)}
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
