package circuit

import (
	"context"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
)

// Form is the smaller form for a witness of these counts, and its bytes: exact, whatever the values.
func (c Counts) Form() (assignment.Form, int64) { return assignment.Choose(c.Wires(), c.listed()) }

// listed is how many values are listed in the compact form: all but the bits, of which the one is one too.
func (c Counts) listed() int { return c.Wires() - c.Bits - 1 }

// Measure runs c without keeping rows or values, and of each Repeat only the first part. It takes a small part of the time and none of the memory of Record.
func Measure(ctx context.Context, c Circuit) (Counts, error) {
	b := &Builder{ctx: ctx, w: &writer{counting: true}, tasks: 1}
	if err := b.run(c); err != nil {
		return Counts{}, err
	}
	return b.n, nil
}

// Witness computes the values of c's variables and writes them to buf, which must be 8-byte aligned and have the bytes of want.Form(). want is what Measure or Record
// said of this circuit. tasks bounds the parts of a Repeat that run at a time.
func Witness(ctx context.Context, c Circuit, want Counts, buf []byte, tasks int) (*assignment.Vector, error) {
	const op = "compute witness"
	form, size := want.Form()
	if int64(len(buf)) < size {
		return nil, errs.Mismatch(errs.Exhausted, op, "buffer", size, len(buf))
	}
	listed := want.Wires()
	if form == assignment.Compact {
		listed = want.listed()
	}
	d, err := assignment.NewDirect(buf, form, want.Wires(), listed)
	if err != nil {
		return nil, err
	}
	w := &writer{want: want, list: d.List, isBit: d.IsBit, value: d.Value}
	b := &Builder{ctx: ctx, w: w.at(Counts{}), tasks: max(1, tasks)}
	if err := b.run(c); err != nil {
		return nil, err
	}
	b.w.pause()
	if b.n != want {
		return nil, errs.Mismatch(errs.Internal, op, "sizes", fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", b.n)).WithHint("the sizes are those of another circuit")
	}
	return d.Finish()
}

// NewWitness measures c and computes its witness in memory of its own.
func NewWitness(ctx context.Context, c Circuit, tasks int) (*assignment.Vector, Counts, error) {
	n, err := Measure(ctx, c)
	if err != nil {
		return nil, Counts{}, err
	}
	_, size := n.Form()
	words := make([]uint64, (size+7)/8) // for the alignment
	v, err := Witness(ctx, c, n, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), tasks)
	return v, n, err
}

// writer puts values where they belong in an assignment. The words at both ends of what it writes in the bitmaps may be shared with the writers of the parts before
// and after: these are or-ed atomically, those between are stored. What does not fit is dropped: Witness compares the counts in the end.
type writer struct {
	counting     bool // keeps nothing
	want         Counts
	list         []fr.Element
	isBit, value []uint64 // nil for the dense form

	pos                int    // wire of the next auxiliary variable
	listed             int    // place of the next listed value
	first              int    // the bitmap word where this writer began
	pendIsBit, pendVal uint64 // of the word of pos: what is not stored yet
}

// at is a writer to the same assignment for what comes after n.
func (w *writer) at(n Counts) *writer {
	c := &writer{counting: w.counting, want: w.want, list: w.list, isBit: w.isBit, value: w.value}
	c.pos = w.want.Inputs + n.Aux
	c.listed = c.pos
	if c.isBit != nil {
		c.listed -= n.Bits + 1
	}
	c.first = c.pos >> 6
	return c
}

// input writes an input. In the compact form the one is a bit.
func (w *writer) input(i int, x *fr.Element) {
	switch {
	case w.counting || i >= w.want.Inputs:
	case w.isBit == nil:
		w.list[i] = *x
	case i == 0:
		atomic.OrUint64(&w.isBit[0], 1)
		atomic.OrUint64(&w.value[0], 1)
	default:
		w.list[i-1] = *x
	}
}

// element writes the next auxiliary variable, which is not one of AllocBits.
func (w *writer) element(x *fr.Element) {
	if w.counting || w.listed >= len(w.list) {
		return
	}
	w.list[w.listed] = *x
	w.listed++
	w.pos++
	if w.isBit != nil && w.pos&63 == 0 {
		w.store(w.pos>>6 - 1)
	}
}

// bits writes the next n <= 64 auxiliary variables.
func (w *writer) bits(word uint64, n int) {
	if w.counting || n == 0 {
		return
	}
	if w.isBit == nil {
		w.spread(word, n)
		return
	}
	mask := ^uint64(0) >> (64 - n)
	word &= mask
	k, s := w.pos>>6, w.pos&63
	w.pendVal |= word << s
	w.pendIsBit |= mask << s
	w.pos += n
	if s+n >= 64 {
		w.store(k)
		w.pendVal = word >> (64 - s) // a shift by 64 gives zero
		w.pendIsBit = mask >> (64 - s)
	}
}

// spread writes bits in the dense form.
func (w *writer) spread(word uint64, n int) {
	one := fr.One()
	for ; n > 0 && w.listed < len(w.list); n-- {
		w.list[w.listed] = fr.Element{}
		if word&1 == 1 {
			w.list[w.listed] = one
		}
		w.listed++
		w.pos++
		word >>= 1
	}
}

// store writes the pending word, which is complete, to place k.
func (w *writer) store(k int) {
	switch {
	case k >= len(w.value):
	case k == w.first:
		atomic.OrUint64(&w.isBit[k], w.pendIsBit)
		atomic.OrUint64(&w.value[k], w.pendVal)
	default:
		w.isBit[k], w.value[k] = w.pendIsBit, w.pendVal
	}
	w.pendIsBit, w.pendVal = 0, 0
}

// pause stores what is pending. Nothing may be written after it: at gives the writer that goes on.
func (w *writer) pause() {
	if k := w.pos >> 6; w.isBit != nil && k < len(w.value) && w.pendIsBit != 0 {
		atomic.OrUint64(&w.isBit[k], w.pendIsBit)
		atomic.OrUint64(&w.value[k], w.pendVal)
		w.pendIsBit, w.pendVal = 0, 0
	}
}
