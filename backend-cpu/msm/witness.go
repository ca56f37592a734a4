package msm

import (
	"context"
	"math/bits"
	"runtime"
	"sync/atomic"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Witness is an assignment sorted by what its values cost: zeros nothing, ones and minus ones one addition, the rest a share of
// a multi-scalar multiplication. In circuits over bits nearly all values are of the first three kinds. It is made once for an assignment and serves
// all sums over it; it refers to the assignment's buffer and is as secret: Forget overwrites it. Safe for concurrent use.
type Witness struct {
	n          int
	one, minus []uint64 // bitmaps; minus is nil where no value is -1
	rest       []uint32 // the other variables, ascending
	at         []uint32 // and where in values they are; nil: values[i] is variable i
	values     []fr.Element
}

// Classify sorts the variables of w. It takes n/4 bytes, and 4 bytes for each value of the dense form or 8 for each listed value of the compact one.
func Classify(w *assignment.Vector) *Witness { return In{}.Classify(w) }

// Classify is the function Classify in m: the Witness is of no use when what was taken since is given back.
func (m In) Classify(w *assignment.Vector) *Witness {
	words := (w.Len() + 63) / 64
	out := &Witness{n: w.Len(), values: w.List()}
	var minusOne fr.Element
	minusOne.SetOne()
	minusOne.Neg(&minusOne)
	isBit, value := w.Bits()
	out.one = arena.Take[uint64](m.Arena, words)
	// Of their final size at once: a list that grows leaves copies behind, which nobody would overwrite.
	out.rest = arena.Take[uint32](m.Arena, len(out.values))[:0]
	if isBit != nil {
		out.at = arena.Take[uint32](m.Arena, len(out.values))[:0]
	}
	listed := 0
	for k := range out.one {
		todo := ^uint64(0) // variables of this word that are in the list
		if k == words-1 && w.Len()%64 != 0 {
			todo = 1<<(w.Len()%64) - 1
		}
		if isBit != nil {
			out.one[k] = isBit[k] & value[k] & todo
			todo &^= isBit[k]
		}
		for ; todo != 0; todo &= todo - 1 {
			bit := bits.TrailingZeros64(todo)
			x := &out.values[listed]
			listed++
			switch {
			case x.IsZero():
			case x.IsOne():
				out.one[k] |= 1 << bit
			case *x == minusOne:
				if out.minus == nil {
					out.minus = arena.Take[uint64](m.Arena, words)
				}
				out.minus[k] |= 1 << bit
			default:
				out.rest = append(out.rest, uint32(64*k+bit))
				if isBit != nil {
					out.at = append(out.at, uint32(listed-1))
				}
			}
		}
	}
	return out
}

// Forget overwrites what w knows of the values. No sum can be made over it afterwards; the assignment's buffer is its owner's.
func (w *Witness) Forget() {
	clear(w.one)
	clear(w.minus)
	clear(w.rest)
	clear(w.at)
	*w = Witness{}
}

// Len is the number of variables.
func (w *Witness) Len() int { return w.n }

// Counts tells how many values are 1, -1, and none of 0, 1 and -1.
func (w *Witness) Counts() (one, minus, rest int) {
	return groth16.Bitmap(w.one).Count(), groth16.Bitmap(w.minus).Count(), len(w.rest)
}

func (w *Witness) value(i int) *fr.Element {
	if w.at != nil {
		return &w.values[w.at[i]]
	}
	return &w.values[w.rest[i]]
}

// Wires tells which variable each point of a list belongs to: the points are those of the present variables, in ascending order.
type Wires struct {
	n     int // variables
	count int
	has   []uint64
	rank  []uint32 // present variables before each word of has
}

// NewWires makes the map for points of the variables whose bit is set, out of n.
func NewWires(has groth16.Bitmap, n int) (*Wires, error) {
	words := (n + 63) / 64
	if n < 0 || len(has) < words || n >= maxList {
		return nil, errs.Mismatch(errs.InvalidArgument, "map of wires", "bitmap", words, len(has))
	}
	w := &Wires{n: n, has: make([]uint64, words), rank: make([]uint32, words)}
	copy(w.has, has)
	if n%64 != 0 {
		w.has[words-1] &= 1<<(n%64) - 1
	}
	w.index()
	return w, nil
}

// WiresFrom makes the map for points of the variables first to n-1.
func WiresFrom(first, n int) (*Wires, error) {
	if first < 0 || first > n || n >= maxList {
		return nil, errs.Mismatch(errs.InvalidArgument, "map of wires", "first variable", n, first)
	}
	w := &Wires{n: n, has: make([]uint64, (n+63)/64), rank: make([]uint32, (n+63)/64)}
	for i := range w.has {
		lo, hi := max(first-64*i, 0), min(n-64*i, 64)
		if lo < hi {
			w.has[i] = ^uint64(0) >> (64 - hi) &^ (1<<lo - 1)
		}
	}
	w.index()
	return w, nil
}

func (w *Wires) index() {
	for k, x := range w.has {
		w.rank[k] = uint32(w.count)
		w.count += bits.OnesCount64(x)
	}
}

// Count is the number of points that the map is for.
func (w *Wires) Count() int { return w.count }

// point returns the index of a present variable's point.
func (w *Wires) point(wire uint32) (uint32, bool) {
	x, bit := w.has[wire>>6], uint64(1)<<(wire&63)
	return w.rank[wire>>6] + uint32(bits.OnesCount64(x&(bit-1))), x&bit != 0
}

// WitnessG1 returns the sum of the points times their variables' values. points belong to the variables as wires says.
func WitnessG1(ctx context.Context, points []bls12381.G1Affine, wires *Wires, w *Witness, tasks int) (bls12381.G1Jac, error) {
	return In{}.WitnessG1(ctx, points, wires, w, tasks)
}

// WitnessG1 is the function WitnessG1 in m.
func (m In) WitnessG1(ctx context.Context, points []bls12381.G1Affine, wires *Wires, w *Witness, tasks int) (bls12381.G1Jac, error) {
	return newEngineG1(m.Arena).witness(ctx, points, wires, w, tasks)
}

// WitnessG2 is WitnessG1 for the other group.
func WitnessG2(ctx context.Context, points []bls12381.G2Affine, wires *Wires, w *Witness, tasks int) (bls12381.G2Jac, error) {
	return In{}.WitnessG2(ctx, points, wires, w, tasks)
}

// WitnessG2 is the function WitnessG2 in m.
func (m In) WitnessG2(ctx context.Context, points []bls12381.G2Affine, wires *Wires, w *Witness, tasks int) (bls12381.G2Jac, error) {
	return newEngineG2(m.Arena).witness(ctx, points, wires, w, tasks)
}

// ScratchWitnessG1 is the memory in bytes that WitnessG1 allocates for a witness with the given number of values that are not 0, 1 or -1.
func ScratchWitnessG1(rest, tasks int) int64 { return newEngineG1(nil).scratchWitness(rest, tasks) }

// ScratchWitnessG2 is ScratchWitnessG1 for the other group.
func ScratchWitnessG2(rest, tasks int) int64 { return newEngineG2(nil).scratchWitness(rest, tasks) }

// scratchWitness: the ones are summed before anything is allocated for the rest.
func (e engine[P, J]) scratchWitness(rest, tasks int) int64 {
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	ones := int64(tasks * e.batch() * (e.pointBytes() + 8 + affine.RunsBytes + e.kernelBytes()))
	return max(ones, e.scratch(rest, tasks)+8*int64(min(rest, MaxChunk)))
}

func (e engine[P, J]) witness(ctx context.Context, points []P, wires *Wires, w *Witness, tasks int) (J, error) {
	const op = "multi-scalar multiplication of a witness"
	if wires.n != w.n {
		return e.infinity(), errs.Mismatch(errs.InvalidArgument, op, "variables", wires.n, w.n)
	}
	if wires.count != len(points) {
		return e.infinity(), errs.Mismatch(errs.InvalidArgument, op, "points", wires.count, len(points))
	}
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	total := e.signs(ctx, points, wires, w, tasks)
	defer e.mem.Reset(e.mem.Mark())
	most := min(len(w.rest), MaxChunk)
	term, point := arena.Take[uint32](e.mem, most)[:0], arena.Take[uint32](e.mem, most)[:0]
	defer func() {
		clear(term[:cap(term)])
		clear(point[:cap(point)])
	}()
	for lo := 0; lo < len(w.rest) && ctx.Err() == nil; lo += MaxChunk {
		term, point = term[:0], point[:0]
		for i := lo; i < min(lo+MaxChunk, len(w.rest)); i++ {
			if p, ok := wires.point(w.rest[i]); ok {
				term, point = append(term, uint32(i)), append(point, p)
			}
		}
		part, err := e.sum(ctx, points, terms{len(term), func(i int) (*fr.Element, uint32) {
			return w.value(int(term[i])), point[i]
		}}, tasks)
		if err != nil {
			return total, err
		}
		e.add(&total, &part)
	}
	return total, ctx.Err()
}

// signs adds the points of the ones and subtracts those of the minus ones. Each task adds to a batch of running sums side by side, one
// inversion for all of them, and folds them up in the end.
func (e engine[P, J]) signs(ctx context.Context, points []P, wires *Wires, w *Witness, tasks int) J {
	const blockWords = 128
	blocks := (len(w.one) + blockWords - 1) / blockWords
	tasks = min(tasks, blocks)
	sums := make([]P, tasks)
	var next atomic.Int64
	parallel.Each(tasks, func(t int) {
		n := min(e.batch(), w.n)
		acc := accumulator[P]{k: e.kernel(n), points: points, sums: make([]P, n), at: make([]uint32, n), idx: make([]uint32, 0, n), runs: affine.NewRuns(n)}
		for i := range acc.at {
			acc.at[i] = uint32(i)
		}
		for ctx.Err() == nil {
			lo := (int(next.Add(1)) - 1) * blockWords
			if lo >= len(w.one) {
				break
			}
			for k := lo; k < min(lo+blockWords, len(w.one)); k++ {
				has := wires.has[k]
				acc.word(w.one[k]&has, has, wires.rank[k], 0)
				if w.minus != nil {
					acc.word(w.minus[k]&has, has, wires.rank[k], affine.Negate)
				}
			}
		}
		sums[t] = acc.total()
		acc.forget()
	})
	total := e.infinity()
	for i := range sums {
		e.addAffine(&total, &sums[i])
	}
	return total
}

// accumulator adds up points of a list.
type accumulator[P any] struct {
	k      affine.Kernel[P]
	points []P
	idx    []uint32 // points waiting to be added
	sums   []P      // running sums
	at     []uint32 // 0, 1, 2, ...
	runs   *affine.Runs
}

// word adds the points of the variables chosen out of the present ones of a word.
func (a *accumulator[P]) word(chosen, has uint64, rank, sign uint32) {
	for ; chosen != 0; chosen &= chosen - 1 {
		below := chosen&-chosen - 1
		a.idx = append(a.idx, rank+uint32(bits.OnesCount64(has&below))|sign)
		if len(a.idx) == cap(a.idx) {
			a.flush()
		}
	}
}

// forget overwrites which points were added.
func (a *accumulator[P]) forget() {
	clear(a.idx[:cap(a.idx)])
	clear(a.sums)
}

func (a *accumulator[P]) flush() {
	at := a.at[:len(a.idx)]
	a.k.Add(a.sums, a.sums, a.points, affine.Ops{Dst: at, A: at, B: a.idx})
	a.idx = a.idx[:0]
}

func (a *accumulator[P]) total() P {
	a.flush()
	affine.Fold(a.k, a.sums, len(a.sums), a.runs)
	return a.sums[0]
}
