package circuit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
)

// Evaluate writes A·w, B·w and C·w to a, b and c, each of the domain's size: row i goes to place i, then come the extra rows of the inputs, all else is zero. c may be
// nil. It is r1cs.System.Evaluate for the order of bellman's keys, from the stored rows: a block is decoded once and evaluated for all equal parts while it
// lies in the cache, so that next to the witness and the results no memory is read.
//
// Memory: some 2 MiB a task.
func (s *ShapeFile) Evaluate(ctx context.Context, w *assignment.Vector, a, b, c []fr.Element, tasks int) error {
	n := s.head.counts
	if len(a) < n.Rows+n.Inputs || len(b) != len(a) || (c != nil && len(c) != len(a)) {
		return errs.Mismatch(errs.Internal, "evaluate", "buffers", fmt.Sprintf("three of at least %d", n.Rows+n.Inputs), fmt.Sprintf("%d, %d, %d", len(a), len(b), len(c)))
	}
	if w.Len() != n.Wires() {
		return errs.Mismatch(errs.InvalidFile, "evaluate", "witness", fmt.Sprintf("%d values", n.Wires()), w.Len()).WithHint("the witness belongs to another circuit")
	}
	e := newEvaluator(s, w)
	rest := n.Rows + n.Inputs
	chunks := (len(a) - rest + zeroChunk - 1) / zeroChunk
	blocks := len(s.blocks) / blockEntry
	var next atomic.Int64
	var stop atomic.Bool
	var once sync.Once
	var failed error
	var wg sync.WaitGroup
	for range max(1, tasks) {
		wg.Go(func() {
			var p Rows
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= blocks+chunks {
					return
				}
				err := ctx.Err()
				switch {
				case err != nil:
				case i < blocks:
					err = e.block(i, &p, a, b, c)
				default:
					lo := rest + (i-blocks)*zeroChunk
					for _, v := range [][]fr.Element{a, b, c} {
						if v != nil {
							clear(v[lo:min(len(v), lo+zeroChunk)])
						}
					}
				}
				if err != nil {
					once.Do(func() { failed = err })
					stop.Store(true)
				}
			}
		})
	}
	for i := range n.Inputs {
		a[n.Rows+i], b[n.Rows+i] = w.At(i), fr.Element{}
		if c != nil {
			c[n.Rows+i] = fr.Element{}
		}
	}
	wg.Wait()
	return failed
}

// zeroChunk is how many elements beyond the rows are zeroed at a time.
const zeroChunk = 1 << 16

// Coefficients are summed as machine words where variables are bits and coefficients are small; sums that most rows have are in a table.
const (
	maxSmall  = 1 << 40
	notSmall  = int64(-1) << 63
	longTerms = 1 << 21 // more could leave a machine word
	tableHalf = 256
)

// evaluator is what all blocks of an evaluation have in common.
type evaluator struct {
	s            *ShapeFile
	inputs       uint32
	list         []fr.Element
	isBit, value []uint64 // nil for the dense form
	rank         []uint32
	small        []int64 // [coefficients]
	table        [2*tableHalf + 1]fr.Element
}

func newEvaluator(s *ShapeFile, w *assignment.Vector) *evaluator {
	e := &evaluator{s: s, inputs: uint32(s.head.counts.Inputs), list: w.List(), rank: w.Ranks()}
	e.isBit, e.value = w.Bits()
	e.small = make([]int64, len(s.coeffs))
	for i := range s.coeffs {
		e.small[i] = smallValue(&s.coeffs[i])
	}
	for i := range e.table {
		e.table[i].SetInt64(int64(i) - tableHalf)
	}
	return e
}

func smallValue(x *fr.Element) int64 {
	if v := x.Bits(); v[1]|v[2]|v[3] == 0 && v[0] <= maxSmall {
		return int64(v[0])
	}
	var neg fr.Element
	neg.Neg(x)
	if v := neg.Bits(); v[1]|v[2]|v[3] == 0 && v[0] <= maxSmall {
		return -int64(v[0])
	}
	return notSmall
}

// block evaluates a block for all parts.
func (e *evaluator) block(number int, p *Rows, a, b, c []fr.Element) error {
	seg := 0
	for seg+1 < len(e.s.block0) && e.s.block0[seg+1] <= number {
		seg++
	}
	x := &e.s.segments[seg]
	if err := e.s.block(seg, number-e.s.block0[seg], p); err != nil {
		return err
	}
	for part := range x.Times {
		at := p.First + part*x.Each.Rows
		move := moves{
			fromInput: uint32(x.From.Inputs), byInput: uint32(part * x.Each.Inputs),
			fromAux: uint32(Aux(x.From.Aux)), byAux: uint32(part*x.Each.Aux) + e.inputs - auxFlag, aux: e.inputs - auxFlag,
		}
		if outer := &e.s.outer[seg]; part > 0 && len(outer.first) > 0 {
			move.outer, move.part = outer, part
		}
		lo := uint32(0)
		for i := range p.Len() {
			ends := p.Ends[3*i : 3*i+3]
			e.dot(p.Terms[lo:ends[0]], &move, &a[at+i])
			e.dot(p.Terms[ends[0]:ends[1]], &move, &b[at+i])
			if c != nil {
				e.dot(p.Terms[ends[1]:ends[2]], &move, &c[at+i])
			}
			lo = ends[2]
		}
	}
	return nil
}

// moves turns variables of the first part into wires of another one. Numbers wrap around, as a Var's highest bit says that it is no input.
type moves struct {
	fromInput, byInput uint32
	fromAux, byAux     uint32
	aux                uint32      // for auxiliary variables from before the segment
	outer              *outerTable // nil: those are the same in all parts
	part               int
}

func (m *moves) wire(v uint32) uint32 {
	if v >= m.fromAux {
		return v + m.byAux
	}
	if v < auxFlag && v >= m.fromInput {
		return v + m.byInput
	}
	if m.outer != nil {
		v = m.outer.of(v, m.part)
	}
	if v >= auxFlag {
		v += m.aux
	}
	return v
}

// dot is a combination's value.
func (e *evaluator) dot(terms []Term, m *moves, out *fr.Element) {
	var n int64
	var acc, t fr.Element
	plain := len(terms) < longTerms
	for _, x := range terms {
		wire, coeff := m.wire(uint32(x.Var())), x.Coeff()
		small := e.small[coeff]
		var value *fr.Element
		if e.isBit == nil {
			value = &e.list[wire]
		} else {
			word, bit := wire>>6, wire&63
			if e.isBit[word]>>bit&1 == 1 {
				on := int64(e.value[word] >> bit & 1)
				switch {
				case small != notSmall && len(terms) < longTerms:
					n += small & -on
				case on == 1:
					acc.Add(&acc, &e.s.coeffs[coeff])
					plain = false
				}
				continue
			}
			value = &e.list[assignment.ListIndex(e.isBit, e.rank, wire)]
		}
		plain = false
		switch small {
		case 1:
			acc.Add(&acc, value)
		case -1:
			acc.Sub(&acc, value)
		default:
			t.Mul(value, &e.s.coeffs[coeff])
			acc.Add(&acc, &t)
		}
	}
	switch {
	case n >= -tableHalf && n <= tableHalf && plain:
		*out = e.table[n+tableHalf]
		return
	case n >= -tableHalf && n <= tableHalf:
		t = e.table[n+tableHalf]
	default:
		t.SetInt64(n)
	}
	out.Add(&acc, &t)
}
