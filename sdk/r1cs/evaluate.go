package r1cs

import (
	"context"
	"fmt"
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
// In the compact form bits are looked up, not multiplied: a row of bits with coefficients one costs additions only.
func (s *System) Evaluate(ctx context.Context, w *assignment.Vector, order groth16.RowOrder, a, b, c []fr.Element, tasks int) error {
	n := len(a)
	if n == 0 || n&(n-1) != 0 || len(b) != n || (c != nil && len(c) != n) || s.NbConstraints()+s.NbPublic+1 > n {
		return errs.Mismatch(errs.Internal, "evaluate", "buffers", fmt.Sprintf("three of one power of two >= %d", s.NbConstraints()+s.NbPublic+1), fmt.Sprintf("%d, %d, %d", len(a), len(b), len(c)))
	}
	if w.Len() != s.NbWires {
		return errs.Mismatch(errs.InvalidFile, "evaluate", "witness", fmt.Sprintf("%d values", s.NbWires), w.Len()).WithHint("the witness belongs to another circuit")
	}
	used := s.NbConstraints() + s.NbPublic + 1
	if order == groth16.RowsSeven {
		clear(a[used:])
		clear(b[s.NbConstraints():])
		if c != nil {
			clear(c[s.NbConstraints():])
		}
	} else {
		clear(a)
		clear(b)
		clear(c)
	}
	get := reader(w)
	err := s.eachChunk(ctx, tasks, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			p := order.Position(uint64(i), uint64(n))
			s.dot(&s.A, i, get, &a[p])
			s.dot(&s.B, i, get, &b[p])
			if c == nil {
				continue
			}
			if s.HasC {
				s.dot(&s.C, i, get, &c[p])
			} else {
				c[p].Mul(&a[p], &b[p])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; i <= s.NbPublic; i++ {
		a[order.Position(uint64(s.NbConstraints()+i), uint64(n))] = w.At(i)
	}
	return nil
}

// reader is w.At without the copy of the form test in the dense case.
func reader(w *assignment.Vector) func(i uint32) fr.Element {
	if w.Form() == assignment.Dense {
		list := w.List()
		return func(i uint32) fr.Element { return list[i] }
	}
	return func(i uint32) fr.Element { return w.At(int(i)) }
}

func (s *System) dot(m *Matrix, row int, get func(uint32) fr.Element, out *fr.Element) {
	wire, coeff := m.Row(row)
	var acc fr.Element
	for k, w := range wire {
		x := get(w)
		if x.IsZero() {
			continue
		}
		switch {
		case coeff[k] == 0: // the dictionary starts with 1
			acc.Add(&acc, &x)
		case x.IsOne():
			acc.Add(&acc, &s.Coeffs[coeff[k]])
		default:
			x.Mul(&x, &s.Coeffs[coeff[k]])
			acc.Add(&acc, &x)
		}
	}
	*out = acc
}

// Violation is the first row that an assignment does not satisfy, with its three values.
type Violation struct {
	Row     int
	A, B, C fr.Element
}

// Check returns the first row that w does not satisfy, nil if there is none. It needs C rows.
func (s *System) Check(ctx context.Context, w *assignment.Vector, tasks int) (*Violation, error) {
	if !s.HasC {
		return nil, errs.New(errs.Unsupported, "check witness", "the constraint system has no C rows").WithHint("give the .r1cs with --circuit")
	}
	if w.Len() != s.NbWires {
		return nil, errs.Mismatch(errs.InvalidFile, "check witness", "length", fmt.Sprintf("%d values", s.NbWires), w.Len()).WithHint("the witness belongs to another circuit")
	}
	get := reader(w)
	var first atomic.Int64
	first.Store(int64(s.NbConstraints()))
	err := s.eachChunk(ctx, tasks, func(lo, hi int) error {
		if int64(lo) > first.Load() {
			return nil
		}
		for i := lo; i < hi; i++ {
			var a, b, c fr.Element
			s.dot(&s.A, i, get, &a)
			s.dot(&s.B, i, get, &b)
			s.dot(&s.C, i, get, &c)
			a.Mul(&a, &b)
			if !a.Equal(&c) {
				for {
					old := first.Load()
					if int64(i) >= old || first.CompareAndSwap(old, int64(i)) {
						return nil
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	i := int(first.Load())
	if i == s.NbConstraints() {
		return nil, nil
	}
	v := &Violation{Row: i}
	s.dot(&s.A, i, get, &v.A)
	s.dot(&s.B, i, get, &v.B)
	s.dot(&s.C, i, get, &v.C)
	return v, nil
}

// eachChunk runs f over the rows in chunks, tasks at a time, and stops early when ctx ends or f fails.
func (s *System) eachChunk(ctx context.Context, tasks int, f func(lo, hi int) error) error {
	n := s.NbConstraints()
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	var stop atomic.Bool
	for range max(1, tasks) {
		wg.Go(func() {
			for !stop.Load() {
				lo := int(next.Add(chunkRows)) - chunkRows
				if lo >= n {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = f(lo, min(n, lo+chunkRows))
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
