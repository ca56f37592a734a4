package r1cs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// oddSystem has rows of every length and coefficients on both sides of each border that evaluation knows: 0, ±1, the largest small one, the next, random.
func oddSystem(r *rand.Rand, rows, wires, public int, hasC bool) *System {
	var coeffs []fr.Element
	add := func(x fr.Element) {
		coeffs = append(coeffs, x)
		x.Neg(&x)
		coeffs = append(coeffs, x)
	}
	for _, v := range []uint64{0, 1, 2, 127, 128, 129, 1 << 32, maxSmall - 1, maxSmall, maxSmall + 1, 1<<64 - 1} {
		var x fr.Element
		add(*x.SetUint64(v))
	}
	for range 20 {
		var x fr.Element
		x.MustSetRandom()
		add(x)
	}
	b := NewBuilder(wires, public, hasC, rows, 0)
	for i := range rows {
		for m := range 3 {
			if m == MatrixC && !hasC {
				break
			}
			terms := r.IntN(6)
			if i%50 == 0 {
				terms = r.IntN(400)
			}
			small := r.IntN(2) == 0 // a row whose sum stays a machine word
			for range terms {
				c := coeffs[r.IntN(len(coeffs))]
				if small {
					c = coeffs[r.IntN(20)]
				}
				b.Term(m, uint32(r.IntN(wires)), b.Coeff(&c)) // wires may repeat
			}
		}
		if err := b.EndRow(); err != nil {
			panic(err)
		}
	}
	s, err := b.System()
	if err != nil {
		panic(err)
	}
	return s
}

func formVector(t testing.TB, form assignment.Form, values []fr.Element) *assignment.Vector {
	t.Helper()
	size := max(assignment.DenseSize(len(values)), assignment.CompactSize(len(values), len(values)))
	words := make([]uint64, size/8)
	b, err := assignment.NewBuilder(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size), form, len(values))
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

// rowsByDefinition is M·w in the rows' own order.
func rowsByDefinition(s *System, m *Matrix, w []fr.Element) []fr.Element {
	out := make([]fr.Element, s.NbConstraints())
	for i := range m.Rows() {
		wire, coeff := m.Row(i)
		for k := range wire {
			var x fr.Element
			x.Mul(&s.Coeffs[coeff[k]], &w[wire[k]])
			out[i].Add(&out[i], &x)
		}
	}
	return out
}

// Every form, row order, domain, number of goroutines and choice of buffers gives what the definition gives, in every element of the buffers.
func TestEvaluateForms(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, rows := range []int{0, 1, 7, 8, 1000, chunkRows, chunkRows + 1, 40000} {
		for _, hasC := range []bool{true, false} {
			large := rows > 2*chunkRows // large enough for buckets of rows
			if large && !hasC {
				continue
			}
			wires, public := 1+rows/2+5, min(3, rows)
			s := oddSystem(r, rows, wires, public, hasC)
			values := make([]fr.Element, wires)
			values[0].SetOne()
			for i := 1; i < wires; i++ {
				switch r.IntN(8) {
				case 0:
					values[i].MustSetRandom()
				case 1:
					values[i].SetInt64(-1)
				case 2, 3, 4:
					values[i].SetOne()
				}
			}
			a, b := rowsByDefinition(s, &s.A, values), rowsByDefinition(s, &s.B, values)
			c := make([]fr.Element, rows)
			if hasC {
				c = rowsByDefinition(s, &s.C, values)
			} else {
				for i := range c {
					c[i].Mul(&a[i], &b[i])
				}
			}
			for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
				w := formVector(t, form, values)
				for _, order := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
					for extra := range 2 {
						if large && extra > 0 && form == assignment.Dense {
							continue
						}
						n := 1 << (s.LogDomain() + extra)
						var want [3][]fr.Element
						for m, from := range [][]fr.Element{a, b, c} {
							want[m] = make([]fr.Element, n)
							for i := range from {
								want[m][order.Position(uint64(i), uint64(n))] = from[i]
							}
						}
						for i := range public + 1 {
							want[0][order.Position(uint64(rows+i), uint64(n))] = values[i]
						}
						for _, tasks := range []int{0, 3} {
							name := fmt.Sprintf("%d rows, C %v, form %d, %v, domain %d, %d tasks", rows, hasC, form, order, n, tasks)
							var got [3][]fr.Element
							for m := range got {
								got[m] = make([]fr.Element, n)
								for i := range got[m] {
									got[m][i] = fr.Element{1, 2, 3, uint64(m)} // what was there before
								}
							}
							if err := s.Evaluate(context.Background(), w, order, got[0], got[1], got[2], tasks); err != nil {
								t.Fatal(name, err)
							}
							for m := range got {
								if !slices.Equal(got[m], want[m]) {
									t.Errorf("%s: vector %d differs", name, m)
								}
								got[m][0].SetUint64(99)
							}
							if err := s.Evaluate(context.Background(), w, order, got[0], got[1], nil, tasks); err != nil {
								t.Fatal(name, err)
							}
							if !slices.Equal(got[0], want[0]) || !slices.Equal(got[1], want[1]) {
								t.Errorf("%s: differs without c", name)
							}
						}
					}
				}
			}
		}
	}
}

// The first violated row is found, wherever it is and with however many goroutines, by Check and by EvaluateChecked, with and without c.
func TestFirstViolation(t *testing.T) {
	const rows = 4*chunkRows + 5
	one := fr.One()
	b := NewBuilder(rows+1, 0, true, rows, 3*rows)
	for i := range rows { // w[i+1] * w[i+1] = w[i+1]
		for m := range 3 {
			b.Term(m, uint32(i+1), b.Coeff(&one))
		}
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	n := 1 << s.LogDomain()
	va, vb, vc := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	r := rand.New(rand.NewPCG(7, 8))
	for _, bad := range [][]int{nil, {0}, {rows - 1}, {chunkRows - 1}, {chunkRows}, {3 * chunkRows, 2*chunkRows + 1}, {5, rows - 1, chunkRows}} {
		values := make([]fr.Element, rows+1)
		values[0].SetOne()
		for i := range values {
			if r.IntN(2) == 0 {
				values[i].SetOne()
			}
		}
		first := -1
		for _, i := range bad {
			values[i+1].SetUint64(2)
			if first < 0 || i < first {
				first = i
			}
		}
		for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
			w := formVector(t, form, values)
			for _, tasks := range []int{1, 4} {
				for how, f := range map[string]func() (*Violation, error){
					"check": func() (*Violation, error) { return s.Check(context.Background(), w, tasks) },
					"evaluate": func() (*Violation, error) {
						return s.EvaluateChecked(context.Background(), w, groth16.RowsFive, va, vb, vc, tasks)
					},
					"evaluate, without": func() (*Violation, error) {
						return s.EvaluateChecked(context.Background(), w, groth16.RowsSeven, va, vb, nil, tasks)
					},
				} {
					v, err := f()
					if err != nil {
						t.Fatal(err)
					}
					if (v == nil) != (first < 0) || (v != nil && v.Row != first) {
						t.Errorf("%s, %v, form %d, %d tasks: %+v, want row %d", how, bad, form, tasks, v, first)
					}
				}
			}
		}
	}
	s.HasC, s.C = false, Matrix{}
	w := formVector(t, assignment.Dense, make([]fr.Element, rows+1))
	if _, err := s.EvaluateChecked(context.Background(), w, groth16.RowsSeven, va, vb, vc, 1); !errs.Is(err, errs.Unsupported) {
		t.Errorf("no C: %v", err)
	}
}

// A row too long for machine words is summed the plain way.
func TestLongRow(t *testing.T) {
	var c, want fr.Element
	c.SetUint64(maxSmall)
	b := NewBuilder(3, 0, false, 1, 0)
	const terms = longRow + 10
	for range terms {
		b.Term(MatrixA, 1, b.Coeff(&c))
	}
	if err := b.EndRow(); err != nil {
		t.Fatal(err)
	}
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	one := fr.One()
	w := formVector(t, assignment.Compact, []fr.Element{one, one, one})
	n := 1 << s.LogDomain()
	a, bb := make([]fr.Element, n), make([]fr.Element, n)
	if err := s.Evaluate(context.Background(), w, groth16.RowsSeven, a, bb, nil, 1); err != nil {
		t.Fatal(err)
	}
	want.SetUint64(terms)
	want.Mul(&want, &c)
	if a[0] != want {
		t.Error("the sum is wrong")
	}
}

func TestEvaluateCanceled(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	s := oddSystem(r, 100, 60, 1, true)
	values := make([]fr.Element, 60)
	w := formVector(t, assignment.Compact, values)
	a := make([]fr.Element, 1<<s.LogDomain())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Evaluate(ctx, w, groth16.RowsSeven, a, slices.Clone(a), nil, 2); !errs.Is(err, errs.Canceled) {
		t.Error(err)
	}
	if _, err := s.Check(ctx, w, 2); !errs.Is(err, errs.Canceled) {
		t.Error(err)
	}
}
