package circuit_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// memory is a file in memory.
type memory struct{ b []byte }

func (m *memory) WriteAt(p []byte, at int64) (int, error) {
	if need := int(at) + len(p); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[at:], p), nil
}

func writeShape(t testing.TB, c circuit.Circuit) []byte {
	t.Helper()
	var m memory
	if _, err := circuit.WriteShape(t.Context(), &m, c); err != nil {
		t.Fatal(err)
	}
	return m.b
}

// A shape that was written and read is the recorded one: rows, digest, bits; and writing what is read gives the same bytes.
func TestShapeFile(t *testing.T) {
	ctx := t.Context()
	file := writeShape(t, newMixed(0))
	s, err := circuit.OpenShape(file)
	if err != nil {
		t.Fatal(err)
	}
	var recorded, read circuit.SystemSink
	var sum circuit.Summary
	shape, err := circuit.Record(ctx, newMixed(0), &recorded)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Replay(ctx, &read, &sum)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(recorded.System(), read.System()) {
		t.Error("the systems differ")
	}
	if sum.Digest != s.Digest() || sum.NonZero != s.NonZero() || s.Counts() != shape.Counts || again.Counts != shape.Counts {
		t.Errorf("digest %x, %x in the file; %+v, %+v", sum.Digest, s.Digest(), s.Counts(), shape.Counts)
	}
	if !slices.Equal(s.Boolean(), shape.Boolean) {
		t.Error("the bits differ")
	}
	segments := s.Segments()
	if len(segments) != 3 || segments[1].Times != mixedParts || segments[0].Times != 1 || segments[1].From != segments[0].Each {
		t.Errorf("segments %+v", segments)
	}
	if len(file) > 16*shape.Rows/mixedParts+40<<10 {
		t.Errorf("%d bytes for %d rows of %d equal parts", len(file), shape.Rows, mixedParts)
	}
	if !bytes.Equal(writeShape(t, newMixed(9)), file) {
		t.Error("other values make another file")
	}
	if sys, err := s.System(ctx); err != nil || sys.NbConstraints() != shape.Rows {
		t.Errorf("system: %v", err)
	}
}

// Evaluation from the file is that of the system, for compact and dense witnesses, any number of tasks, and a domain that is tight or not.
func TestShapeEvaluate(t *testing.T) {
	ctx := t.Context()
	x := fr.NewElement(5)
	for _, test := range []struct {
		name string
		c    circuit.Circuit
		form assignment.Form
	}{
		{"bits", newMixed(4), assignment.Compact},
		{"numbers", &cubic{X: fr.NewElement(3), Y: fr.NewElement(35)}, assignment.Dense},
		{"no repeat, many bits", fn(func(b *circuit.Builder) error {
			n := b.AllocNum(&x)
			b.ToBits("bits", n)
			b.AllocInput(&x)
			return nil
		}), assignment.Compact},
		{"nothing", fn(func(b *circuit.Builder) error { return nil }), assignment.Dense},
		{"only parts", fn(func(b *circuit.Builder) error {
			return b.Repeat("p", 7, func(b *circuit.Builder, i int) error {
				n := b.AllocNum(&x)
				b.Inputize("in", n)
				b.ToBits("bits", n)
				return nil
			})
		}), assignment.Compact},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := circuit.OpenShape(writeShape(t, test.c))
			if err != nil {
				t.Fatal(err)
			}
			sys, err := circuit.System(ctx, test.c)
			if err != nil {
				t.Fatal(err)
			}
			w, n, err := circuit.NewWitness(ctx, test.c, 2)
			if err != nil {
				t.Fatal(err)
			}
			if w.Form() != test.form {
				t.Errorf("form %d", w.Form())
			}
			for _, size := range []int{n.Domain(), 4 * n.Domain()} {
				var want, got [3][]fr.Element
				for i := range want {
					want[i], got[i] = make([]fr.Element, size), make([]fr.Element, size)
					for k := range got[i] {
						got[i][k].SetUint64(77) // what the buffer held before
					}
				}
				if err := sys.Evaluate(ctx, w, groth16.RowsSeven, want[0], want[1], want[2], 1); err != nil {
					t.Fatal(err)
				}
				for _, tasks := range []int{1, 3} {
					if err := s.Evaluate(ctx, w, got[0], got[1], got[2], tasks); err != nil {
						t.Fatal(err)
					}
					for i := range want {
						if !slices.Equal(want[i], got[i]) {
							t.Errorf("%c differs with %d tasks on %d", 'a'+i, tasks, size)
						}
					}
				}
			}
		})
	}
}

// Parts that are not equal are all stored; parts that refer to other variables from before the Repeat are not.
func TestShapeOfUnequalParts(t *testing.T) {
	ctx := t.Context()
	x := fr.NewElement(5)
	for _, test := range []struct {
		name     string
		segments int
		c        circuit.Circuit
	}{
		{"refers to another part", 6, fn(func(b *circuit.Builder) error {
			var last circuit.Num
			return b.Repeat("p", 4, func(b *circuit.Builder, i int) error {
				n := b.AllocNum(&x)
				if i == 0 {
					last = n
				}
				b.Equal("equal", n.Var, last.Var)
				return nil
			})
		})},
		{"other coefficients", 6, fn(func(b *circuit.Builder) error {
			return b.Repeat("p", 4, func(b *circuit.Builder, i int) error {
				n := b.AllocNum(&x)
				b.Enforce("row", func(r *circuit.Row) { r.A.AddPower(n.Var, i/3) })
				return nil
			})
		})},
		{"other bits", 4, fn(func(b *circuit.Builder) error {
			return b.Repeat("p", 2, func(b *circuit.Builder, i int) error {
				for k := range 2 {
					if k == i {
						b.Alloc(&x)
					} else {
						b.AllocBits(0, 1)
					}
				}
				return nil
			})
		})},
		{"outer variables", 3, fn(func(b *circuit.Builder) error {
			outer := make([]circuit.Num, 9)
			for i := range outer {
				outer[i] = b.AllocNum(&x)
			}
			in := b.AllocInput(&x)
			return b.Repeat("p", 5, func(b *circuit.Builder, i int) error {
				n := b.AllocNum(&x)
				b.Inputize("in", n)
				b.Enforce("row", func(r *circuit.Row) {
					r.A.Add(outer[2].Var)
					r.A.AddPower(outer[8-i].Var, 1)
					r.A.Add(circuit.One)
					r.A.Add(in)
					r.B.Sub(outer[i/3].Var)
					r.C.Add(n.Var)
				})
				return nil
			})
		})},
		{"outer variables that change places", 7, fn(func(b *circuit.Builder) error {
			outer := make([]circuit.Num, 9)
			for i := range outer {
				outer[i] = b.AllocNum(&x)
			}
			return b.Repeat("p", 5, func(b *circuit.Builder, i int) error {
				n := b.AllocNum(&x)
				b.Enforce("row", func(r *circuit.Row) {
					r.A.Add(outer[4].Var)
					r.A.AddPower(outer[2+i].Var, 1)
					r.C.Add(n.Var)
				})
				return nil
			})
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := circuit.OpenShape(writeShape(t, test.c))
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Segments()) != test.segments {
				t.Errorf("%d segments, want %d", len(s.Segments()), test.segments)
			}
			want, err := circuit.System(ctx, test.c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.System(ctx)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("the systems differ: %v", err)
			}
			w, n, err := circuit.NewWitness(ctx, test.c, 1)
			if err != nil {
				t.Fatal(err)
			}
			var a, b [3][]fr.Element
			for i := range a {
				a[i], b[i] = make([]fr.Element, n.Domain()), make([]fr.Element, n.Domain())
			}
			if err := want.Evaluate(ctx, w, groth16.RowsSeven, a[0], a[1], a[2], 1); err != nil {
				t.Fatal(err)
			}
			if err := s.Evaluate(ctx, w, b[0], b[1], b[2], 2); err != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("the evaluations differ: %v", err)
			}
		})
	}
}

func TestShapeFileErrors(t *testing.T) {
	ctx := t.Context()
	file := writeShape(t, newMixed(0))
	all := func(b []byte) error {
		s, err := circuit.OpenShape(b)
		if err == nil {
			_, err = s.System(ctx)
		}
		return err
	}
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		bad := slices.Clone(file)
		bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		if err := all(bad); !errs.Is(err, errs.InvalidFile) {
			t.Fatalf("a changed bit: %v", err)
		}
		if err := all(file[:r.IntN(len(file))]); !errs.Is(err, errs.InvalidFile) {
			t.Fatalf("a short file: %v", err)
		}
	}

	s, err := circuit.OpenShape(file)
	if err != nil {
		t.Fatal(err)
	}
	n := s.Counts()
	w, _, err := circuit.NewWitness(ctx, newMixed(1), 1)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]fr.Element, n.Domain())
	if err := s.Evaluate(ctx, w, v[:n.Rows], v[:n.Rows], v[:n.Rows], 1); err == nil {
		t.Error("buffers that are too short were taken")
	}
	other, _, err := circuit.NewWitness(ctx, &cubic{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Evaluate(ctx, other, v, v, v, 1); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("another circuit's witness: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Evaluate(canceled, w, v, v, v, 2); err != context.Canceled {
		t.Errorf("after the end: %v", err)
	}
	if _, err := s.Replay(canceled); err != context.Canceled {
		t.Errorf("replay after the end: %v", err)
	}
}

func FuzzOpenShape(f *testing.F) {
	f.Add(writeShape(f, newMixed(0)))
	f.Add(writeShape(f, &cubic{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := circuit.OpenShape(b); err == nil {
			s.Replay(t.Context())
		}
	})
}
