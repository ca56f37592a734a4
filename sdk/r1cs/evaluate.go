package r1cs

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// chunkRows is how many rows a worker takes at a time; cancellation is looked at between.
const chunkRows = 1 << 13

// Evaluate writes A·w, B·w and C·w to a, b and c, each of the domain's N elements in natural order of the generator 7: row i goes to
// order.Position(i, N), then come the extra rows of the public inputs, all else is zero. c may be nil. Without C rows c gets
// a*b, which is the same for a satisfying assignment.
//
// In the compact form bits are looked up, not multiplied, and a row of bits with small coefficients is summed in a machine word: see dotCompact.
func (s *System) Evaluate(ctx context.Context, w *assignment.Vector, order groth16.RowOrder, a, b, c []fr.Element, tasks int) error {
	_, err := s.evaluate(ctx, w, order, a, b, c, tasks, false)
	return err
}

// EvaluateChecked is Evaluate and Check in one pass over the matrices, at the price of one multiplication a row whose A and B are neither zero nor one.
// A violation ends the pass early and leaves the buffers unfinished. It needs C rows.
func (s *System) EvaluateChecked(ctx context.Context, w *assignment.Vector, order groth16.RowOrder, a, b, c []fr.Element, tasks int) (*Violation, error) {
	if !s.HasC {
		return nil, errNoC()
	}
	return s.evaluate(ctx, w, order, a, b, c, tasks, true)
}

func (s *System) evaluate(ctx context.Context, w *assignment.Vector, order groth16.RowOrder, a, b, c []fr.Element, tasks int, check bool) (*Violation, error) {
	n, rows := len(a), s.NbConstraints()
	if n == 0 || n&(n-1) != 0 || len(b) != n || (c != nil && len(c) != n) || rows+s.NbPublic+1 > n {
		return nil, errs.Mismatch(errs.Internal, "evaluate", "buffers", fmt.Sprintf("three of one power of two >= %d", rows+s.NbPublic+1), fmt.Sprintf("%d, %d, %d", len(a), len(b), len(c)))
	}
	e, err := s.newEvaluator("evaluate", w)
	if err != nil {
		return nil, err
	}
	place, err := newPlacement(ctx, order, n, tasks)
	if err != nil {
		return nil, err
	}
	first := newFirstRow()
	var zero fr.Element
	// The rows beyond the constraints are part of the chunks, so that zeroing a half empty domain is shared out too.
	err = eachChunk(ctx, n, evaluationChunk(n), tasks, func(lo, hi int) error {
		if int64(lo) > first.Load() {
			return nil
		}
		at := place.chunk(lo)
		for i := lo; i < min(hi, rows); i++ {
			p := at.advance()
			e.dot(&s.A, i, &a[p])
			e.dot(&s.B, i, &b[p])
			switch {
			case c == nil && !check:
			case !s.HasC:
				mul(&c[p], &a[p], &b[p])
			default:
				var ci fr.Element
				e.dot(&s.C, i, &ci)
				if c != nil {
					c[p] = ci
				}
				if check && !isProduct(&ci, &a[p], &b[p]) {
					first.lower(int64(i))
					return nil
				}
			}
		}
		for i := max(lo, rows); i < hi; i++ {
			p := at.advance()
			if i <= rows+s.NbPublic {
				a[p] = w.At(i - rows)
			} else {
				a[p] = zero
			}
			b[p] = zero
			if c != nil {
				c[p] = zero
			}
		}
		return nil
	})
	if err == nil && first.Load() == math.MaxInt64 {
		vectors := [][]fr.Element{a, b}
		if c != nil {
			vectors = append(vectors, c)
		}
		err = place.settle(ctx, vectors, tasks)
	}
	if err != nil {
		return nil, err
	}
	return first.violation(), nil
}

// Violation is the first row that an assignment does not satisfy. The row's values are secret and no part of it.
type Violation struct {
	Row int
}

func errNoC() error {
	return errs.New(errs.Unsupported, "check witness", "the constraint system has no C rows").WithHint("give the .r1cs with --circuit")
}

// Check returns the first row that w does not satisfy, nil if there is none. It needs C rows.
func (s *System) Check(ctx context.Context, w *assignment.Vector, tasks int) (*Violation, error) {
	if !s.HasC {
		return nil, errNoC()
	}
	e, err := s.newEvaluator("check witness", w)
	if err != nil {
		return nil, err
	}
	first := newFirstRow()
	err = eachChunk(ctx, s.NbConstraints(), chunkRows, tasks, func(lo, hi int) error {
		if int64(lo) > first.Load() {
			return nil
		}
		for i := lo; i < hi; i++ {
			var a, b, c fr.Element
			e.dot(&s.A, i, &a)
			e.dot(&s.B, i, &b)
			e.dot(&s.C, i, &c)
			if !isProduct(&c, &a, &b) {
				first.lower(int64(i))
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return first.violation(), nil
}

// firstRow is the lowest row seen so far, by all workers.
type firstRow struct{ atomic.Int64 }

func newFirstRow() *firstRow {
	f := &firstRow{}
	f.Store(math.MaxInt64)
	return f
}

func (f *firstRow) lower(i int64) {
	for {
		old := f.Load()
		if i >= old || f.CompareAndSwap(old, i) {
			return
		}
	}
}

// mul is z = x*y, with short ways for the factors that rows of bits have.
func mul(z, x, y *fr.Element) {
	switch {
	case x.IsZero() || y.IsZero():
		z.SetZero()
	case x.IsOne():
		*z = *y
	case y.IsOne():
		*z = *x
	default:
		z.Mul(x, y)
	}
}

func isProduct(z, x, y *fr.Element) bool {
	var p fr.Element
	mul(&p, x, y)
	return p.Equal(z)
}

// Small coefficients are summed as machine words. A row's sum stays below 2^63 as long as the row has at most 2^(62-smallBits) terms.
const (
	smallBits = 40
	maxSmall  = 1 << smallBits
	notSmall  = int64(-1) << 63
	longRow   = 1 << (62 - smallBits)
)

// smallTable holds the field elements of -smallTableHalf to smallTableHalf: the sums that most rows of bits have.
const smallTableHalf = 128

// evaluator is what the rows of one evaluation have in common. Read only while it runs.
type evaluator struct {
	s            *System
	w            *assignment.Vector
	list         []fr.Element // dense: all values; compact: those that are not bits
	isBit, value []uint64     // nil for the dense form
	rank         []uint32
	small        []int64 // [len(s.Coeffs)] the coefficient as an integer, or notSmall
	table        [2*smallTableHalf + 1]fr.Element
}

func (s *System) newEvaluator(op string, w *assignment.Vector) (*evaluator, error) {
	if w.Len() != s.NbWires {
		return nil, errs.Mismatch(errs.InvalidFile, op, "witness", fmt.Sprintf("%d values", s.NbWires), w.Len()).WithHint("the witness belongs to another circuit")
	}
	e := &evaluator{s: s, w: w, list: w.List()}
	e.small = smallValues(s.Coeffs)
	if w.Form() == assignment.Compact {
		e.isBit, e.value = w.Bits()
		e.rank = w.Ranks()
		for i := range e.table {
			e.table[i].SetInt64(int64(i) - smallTableHalf)
		}
	}
	return e, nil
}

// smallValues costs at most two conversions a coefficient: never more than multiplying each of them once.
func smallValues(coeffs []fr.Element) []int64 {
	out := make([]int64, len(coeffs))
	for i := range coeffs {
		out[i] = notSmall
		if v := coeffs[i].Bits(); v[1]|v[2]|v[3] == 0 && v[0] <= maxSmall {
			out[i] = int64(v[0])
			continue
		}
		var neg fr.Element
		neg.Neg(&coeffs[i])
		if v := neg.Bits(); v[1]|v[2]|v[3] == 0 && v[0] <= maxSmall {
			out[i] = -int64(v[0])
		}
	}
	return out
}

func (e *evaluator) dot(m *Matrix, row int, out *fr.Element) {
	if e.isBit != nil {
		e.dotCompact(m, row, out)
	} else {
		e.dotDense(m, row, out)
	}
}

func (e *evaluator) dotDense(m *Matrix, row int, out *fr.Element) {
	wire, coeff := m.Row(row)
	coeff = coeff[:len(wire)]
	var acc, t fr.Element
	for k, w := range wire {
		x := &e.list[w]
		if x.IsZero() {
			continue
		}
		switch c := coeff[k]; {
		case e.small[c] == 1:
			acc.Add(&acc, x)
		case e.small[c] == -1:
			acc.Sub(&acc, x)
		case x.IsOne():
			acc.Add(&acc, &e.s.Coeffs[c])
		default:
			t.Mul(x, &e.s.Coeffs[c])
			acc.Add(&acc, &t)
		}
	}
	*out = acc
}

// dotCompact sums bits with small coefficients in n, everything else in acc. Most rows of a bit circuit end with acc zero and n in the
// table, and have then cost no field operation at all.
func (e *evaluator) dotCompact(m *Matrix, row int, out *fr.Element) {
	wire, coeff := m.Row(row)
	coeff = coeff[:len(wire)]
	if len(wire) > longRow {
		e.dotLong(wire, coeff, out)
		return
	}
	var n int64
	var acc, t fr.Element
	plain := true
	for k, w := range wire {
		word, bit, c := w>>6, w&63, coeff[k]
		small := e.small[c]
		if e.isBit[word]>>bit&1 == 1 {
			on := e.value[word] >> bit & 1
			if small != notSmall {
				n += small & -int64(on)
			} else if on == 1 {
				acc.Add(&acc, &e.s.Coeffs[c])
				plain = false
			}
			continue
		}
		plain = false
		x := e.listed(w)
		switch small {
		case 1:
			acc.Add(&acc, x)
		case -1:
			acc.Sub(&acc, x)
		default:
			t.Mul(x, &e.s.Coeffs[c])
			acc.Add(&acc, &t)
		}
	}
	if n >= -smallTableHalf && n <= smallTableHalf {
		if plain {
			*out = e.table[n+smallTableHalf]
			return
		}
		if n != 0 {
			acc.Add(&acc, &e.table[n+smallTableHalf])
		}
		*out = acc
		return
	}
	t.SetInt64(n)
	out.Add(&acc, &t)
}

// listed is the value of wire w, which is not a bit.
func (e *evaluator) listed(w uint32) *fr.Element {
	return &e.list[assignment.ListIndex(e.isBit, e.rank, w)]
}

// dotLong is the plain way: for rows whose sum of small coefficients might leave a machine word.
func (e *evaluator) dotLong(wire, coeff []uint32, out *fr.Element) {
	var acc fr.Element
	for k, w := range wire {
		x := e.w.At(int(w))
		if !x.IsZero() {
			x.Mul(&x, &e.s.Coeffs[coeff[k]])
			acc.Add(&acc, &x)
		}
	}
	*out = acc
}

// violation is nil when no row was found.
func (f *firstRow) violation() *Violation {
	if f.Load() == math.MaxInt64 {
		return nil
	}
	return &Violation{Row: int(f.Load())}
}

// eachChunk runs f over 0..n-1 in chunks of size, tasks at a time, and stops early when ctx ends or f fails.
func eachChunk(ctx context.Context, n, size, tasks int, f func(lo, hi int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	var stop atomic.Bool
	for range max(1, min(tasks, (n+size-1)/size)) {
		wg.Go(func() {
			for !stop.Load() {
				lo := int(next.Add(int64(size))) - size
				if lo >= n {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = f(lo, min(n, lo+size))
				}
				if err != nil {
					once.Do(func() { failed = err })
					stop.Store(true)
					return
				}
			}
		})
	}
	wg.Wait()
	return failed
}
