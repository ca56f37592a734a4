package circuit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// fn is a circuit made of a function.
type fn func(b *circuit.Builder) error

func (f fn) Synthesize(b *circuit.Builder) error { return f(b) }

// The modes agree: what is recorded, measured and written have the same sizes; the witness satisfies the rows by two ways of looking; a changed value is found
// by both in the same row.
func TestModesAgree(t *testing.T) {
	ctx := t.Context()
	var sink circuit.SystemSink
	sum := circuit.Summary{ChunkRows: 64}
	shape, err := circuit.Record(ctx, newMixed(0), &sink, &sum)
	if err != nil {
		t.Fatal(err)
	}
	sys := sink.System()
	if shape.Rows != sys.NbConstraints() || shape.Wires() != sys.NbWires || shape.Inputs != sys.NbPublic+1 || shape.Bits != shape.Boolean.Count() {
		t.Errorf("shape %+v with %d bits marked, system of %d rows, %d wires, %d public", shape.Counts, shape.Boolean.Count(), sys.NbConstraints(), sys.NbWires, sys.NbPublic)
	}
	if got := sum.Digest; got != sys.Digest().ABC {
		t.Errorf("digest %x, system's %x", got, sys.Digest().ABC)
	}
	if len(sum.Chunks) != (shape.Rows+63)/64 {
		t.Errorf("%d chunks of %d rows", len(sum.Chunks), shape.Rows)
	}
	compareDensities(t, &sum, sys.Density)

	c := newMixed(3)
	measured, err := circuit.Measure(ctx, c)
	if err != nil || measured != shape.Counts {
		t.Errorf("measured %+v, %v; recorded %+v", measured, err, shape.Counts)
	}
	w, _, err := circuit.NewWitness(ctx, c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Form() != assignment.Compact || w.Size() != second(shape.Form()) {
		t.Errorf("form %d of %d bytes", w.Form(), w.Size())
	}
	parsed, err := w.Public(shape.Inputs - 1)
	if err != nil || !slices.Equal(parsed, c.public()) {
		t.Errorf("public inputs %v (%v), want %v", parsed, err, c.public())
	}
	if v, err := sys.Check(ctx, w, 2); v != nil || err != nil {
		t.Errorf("system: %+v, %v", v, err)
	}
	if v, err := circuit.Check(ctx, c, w); v != nil || err != nil {
		t.Errorf("check: %+v, %v", v, err)
	}

	values := make([]fr.Element, w.Len())
	for i := range values {
		values[i] = w.At(i)
	}
	found := 0
	for i := 1; i < len(values); i += 13 {
		changed := slices.Clone(values)
		changed[i].SetUint64(17)
		bad := dense(t, changed)
		v, err := sys.Check(ctx, bad, 2)
		if err != nil {
			t.Fatal(err)
		}
		got, err := circuit.Check(ctx, c, bad)
		if err != nil {
			t.Fatal(err)
		}
		if v == nil || got == nil {
			t.Fatalf("variable %d: system says %+v, check says %+v", i, v, got)
		}
		at, err := circuit.Locate(ctx, c, v.Row)
		if err != nil || *at != *got || got.Row != v.Row {
			t.Fatalf("variable %d: %+v, row %d located as %+v (%v)", i, got, v.Row, at, err)
		}
		found++
	}
	if found == 0 {
		t.Error("nothing was changed")
	}
}

func second(_ assignment.Form, n int64) int64 { return n }

func compareDensities(t *testing.T, sum *circuit.Summary, density func() (a, b groth16.Bitmap)) {
	t.Helper()
	a, b := density()
	for i := range sum.Aux {
		if sum.AAux.Has(i) != a.Has(sum.Inputs+i) || sum.BAux.Has(i) != b.Has(sum.Inputs+i) {
			t.Fatalf("density of auxiliary variable %d", i)
		}
	}
	for i := range sum.Inputs {
		if sum.BInput.Has(i) != b.Has(i) {
			t.Fatalf("density of input %d", i)
		}
	}
}

func dense(t *testing.T, values []fr.Element) *assignment.Vector {
	t.Helper()
	words := make([]uint64, assignment.DenseSize(len(values))/8)
	b, err := assignment.NewBuilder(bytesOf(words), assignment.Dense, len(values))
	if err != nil {
		t.Fatal(err)
	}
	for i := range values {
		if err := b.Append(&values[i]); err != nil {
			t.Fatal(err)
		}
	}
	v, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Parts that run side by side give the bytes of a loop, for every number of goroutines, and what is written parses.
func TestPartsSideBySide(t *testing.T) {
	ctx := t.Context()
	c := newMixed(5)
	n, err := circuit.Measure(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	form, size := n.Form()
	var first []uint64
	for _, tasks := range []int{1, 2, 3, 16} {
		buf := make([]uint64, (size+7)/8)
		for i := range buf {
			buf[i] = 0xa5a5a5a5a5a5a5a5 // what a slab held before
		}
		w, err := circuit.Witness(ctx, c, n, bytesOf(buf), tasks)
		if err != nil {
			t.Fatal(err)
		}
		again, err := assignment.Parse(bytesOf(buf))
		if err != nil || again.Form() != form || again.Size() != size || again.Len() != w.Len() {
			t.Fatalf("%d tasks: parsed as %+v, %v", tasks, again, err)
		}
		if again.Form() == assignment.Compact {
			isBit, _ := again.Bits()
			isBit[len(isBit)-1] &= ^uint64(0) >> (-again.Len() & 63) // the bits beyond the end are unspecified
		}
		if first == nil {
			first = buf
			continue
		}
		for i := range w.Len() {
			if got, want := again.At(i), at(t, first, i); got != want {
				t.Fatalf("%d tasks: variable %d", tasks, i)
			}
		}
	}
}

func at(t *testing.T, buf []uint64, i int) fr.Element {
	t.Helper()
	v, err := assignment.Parse(bytesOf(buf))
	if err != nil {
		t.Fatal(err)
	}
	return v.At(i)
}

func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// A circuit of few bits has a dense witness, with the values that the compact one would have.
func TestDenseWitness(t *testing.T) {
	x := fr.NewElement(77)
	c := fn(func(b *circuit.Builder) error {
		n := b.AllocNum(&x)
		for range 50 {
			n = b.Mul("square", n, n)
		}
		b.AllocBools("bit", 0b101, 3, nil)
		b.Inputize("last", n)
		return nil
	})
	w, n, err := circuit.NewWitness(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if w.Form() != assignment.Dense {
		t.Errorf("form %d", w.Form())
	}
	if v, err := circuit.Check(t.Context(), c, w); v != nil || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
	for i, want := range []uint64{1, 0, 1} {
		if got, e := w.At(n.Wires()-3+i), fr.NewElement(want); got != e {
			t.Errorf("bit %d is %v", i, got)
		}
	}
}

func TestMarksAndPaths(t *testing.T) {
	ctx := t.Context()
	list, err := circuit.Marks(ctx, newMixed(0), 2)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, m := range list {
		if !strings.Contains(m.Path, "inner") {
			names = append(names, m.Path)
		}
		if m.From.Rows > m.To.Rows || (i > 0 && m.From.Rows < list[i-1].From.Rows) {
			t.Errorf("%s from %+v to %+v", m.Path, m.From, m.To)
		}
	}
	if got := strings.Join(names, " | "); got != "numbers | bits | part 0 | part 1 | part 2 | part 3 | part 4 | end" {
		t.Error(got)
	}
	inner := list[4]
	if v, err := circuit.Locate(ctx, newMixed(0), inner.From.Rows); err != nil || v.Path != "part 0/inner 1/word" || inner.Path != "part 0/inner 1" {
		t.Errorf("%+v, %v; %s", v, err, inner.Path)
	}
	if _, err := circuit.Locate(ctx, newMixed(0), 1<<20); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("a row that is not there: %v", err)
	}
}

// Whatever goes wrong ends the run with its own error, in every mode.
func TestFailures(t *testing.T) {
	boom := errors.New("boom")
	x := fr.NewElement(3)
	unequal := fn(func(b *circuit.Builder) error {
		return b.Repeat("part", 3, func(b *circuit.Builder, i int) error {
			if i == 2 {
				b.Alloc(&x)
			}
			return nil
		})
	})
	inPart := fn(func(b *circuit.Builder) error {
		return b.Repeat("part", 8, func(b *circuit.Builder, i int) error {
			b.Alloc(&x)
			if i == 5 {
				return boom
			}
			return nil
		})
	})
	for _, test := range []struct {
		name    string
		c       circuit.Circuit
		record  func(error) bool
		witness func(error) bool
	}{
		{"own error", fn(func(b *circuit.Builder) error { return boom }), is(boom), is(boom)},
		{"error in a part", inPart, is(boom), is(boom)},
		{"unequal parts", unequal, class(errs.Internal), class(errs.Internal)},
		{"rows left out", fn(func(b *circuit.Builder) error { b.Skip(2); return nil }), class(errs.Internal), is(nil)},
		{"not left", fn(func(b *circuit.Builder) error { b.Enter("a"); return nil }), class(errs.Internal), is(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := circuit.Record(t.Context(), test.c); !test.record(err) {
				t.Errorf("record: %v", err)
			}
			if _, _, err := circuit.NewWitness(t.Context(), test.c, 2); !test.witness(err) {
				t.Errorf("witness: %v", err)
			}
		})
	}

	if _, err := circuit.Record(t.Context(), newMixed(0), failing{boom}); err != boom {
		t.Errorf("a sink's error: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := circuit.Record(canceled, newMixed(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("recording after the end: %v", err)
	}
	if _, _, err := circuit.NewWitness(canceled, newMixed(0), 2); !errors.Is(err, context.Canceled) {
		t.Errorf("a witness after the end: %v", err)
	}

	n, err := circuit.Measure(t.Context(), newMixed(0))
	if err != nil {
		t.Fatal(err)
	}
	_, size := n.Form()
	buf := make([]uint64, 2*size/8)
	if _, err := circuit.Witness(t.Context(), newMixed(0), n, bytesOf(buf)[:size-8], 1); !errs.Is(err, errs.Exhausted) {
		t.Errorf("a buffer too short: %v", err)
	}
	for name, change := range map[string]func(*circuit.Counts){
		"fewer variables": func(n *circuit.Counts) { n.Aux-- },
		"more variables":  func(n *circuit.Counts) { n.Aux += 100 },
		"fewer bits":      func(n *circuit.Counts) { n.Bits -= 3 },
		"more bits":       func(n *circuit.Counts) { n.Bits += 3 },
		"fewer inputs":    func(n *circuit.Counts) { n.Inputs -= 2 },
		"more inputs":     func(n *circuit.Counts) { n.Inputs += 2 },
		"fewer rows":      func(n *circuit.Counts) { n.Rows-- },
	} {
		wrong := n
		change(&wrong)
		if _, err := circuit.Witness(t.Context(), newMixed(0), wrong, bytesOf(buf), 2); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}

	w, _, err := circuit.NewWitness(t.Context(), &cubic{X: fr.NewElement(3), Y: fr.NewElement(35)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := circuit.Check(t.Context(), newMixed(0), w); err == nil {
		t.Error("another circuit's witness was taken")
	}
}

type failing struct{ err error }

func (f failing) Write(*circuit.Rows) error { return f.err }
func (f failing) End(*circuit.Shape) error  { return nil }

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }

func class(c errs.Class) func(error) bool { return func(err error) bool { return errs.Is(err, c) } }
