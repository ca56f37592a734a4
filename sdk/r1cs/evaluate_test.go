package r1cs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Evaluate against a sum in big integers, for both forms, both orders, with and without C, in used buffers, on the smallest domain and on a larger one.
func TestEvaluate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, rows := range []int{0, 1, 2, 7, 8, 9, 61, chunkRows - 1, chunkRows + 1} {
		for _, bits := range []int{0, 50, 98, 100} {
			if rows > 100 && (bits != 98 || testfiles.Race && rows < chunkRows) {
				continue // big integers are slow
			}
			wires, public := 2+rng.IntN(1500), 0
			public = min(rng.IntN(6), wires-1)
			hasC := rng.IntN(3) > 0
			s := randomSystem(t, rng, wires, public, rows, hasC)
			w := values(rng, wires, bits)
			want := [3][]fr.Element{}
			for k, m := range []*Matrix{&s.A, &s.B, &s.C} {
				for i := range rows {
					switch {
					case k < 2 || hasC:
						want[k] = append(want[k], naive(s, m, i, w))
					default:
						var p fr.Element
						p.Mul(&want[0][i], &want[1][i])
						want[2] = append(want[2], p)
					}
				}
			}
			for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
				v := vectorOf(t, form, w)
				for _, order := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
					n := 1 << (s.LogDomain() + rng.IntN(2))
					withC := rng.IntN(4) > 0
					bufs := [3][]fr.Element{make([]fr.Element, n), make([]fr.Element, n), nil}
					if withC {
						bufs[2] = make([]fr.Element, n)
					}
					for k := range bufs {
						for i := range bufs[k] {
							bufs[k][i] = elem(-7)
						}
					}
					if err := s.Evaluate(ctx, v, order, bufs[0], bufs[1], bufs[2], 1+rng.IntN(4)); err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%d rows, %d %% bits, form %d, %v, n %d", rows, bits, form, order, n)
					for k := range bufs {
						expect := make([]fr.Element, len(bufs[k]))
						for i := range expect[:min(rows, len(expect))] {
							expect[order.Position(uint64(i), uint64(n))] = want[k][i]
						}
						if k == 0 {
							for j := range public + 1 {
								expect[order.Position(uint64(rows+j), uint64(n))] = w[j]
							}
						}
						for i := range expect {
							if !bufs[k][i].Equal(&expect[i]) {
								t.Fatalf("%s: %c[%d] = %s, want %s", what, "abc"[k], i, bufs[k][i].String(), expect[i].String())
							}
						}
					}
				}
			}
		}
	}
}

func TestEvaluateRefuses(t *testing.T) {
	s := randomSystem(t, rand.New(rand.NewPCG(2, 1)), 5, 1, 6, true) // 6 + 2 rows: N = 8
	w := vectorOf(t, assignment.Dense, values(rand.New(rand.NewPCG(2, 2)), 5, 50))
	short := vectorOf(t, assignment.Dense, values(rand.New(rand.NewPCG(2, 2)), 4, 50))
	buf := func(n int) []fr.Element { return make([]fr.Element, n) }
	for name, tc := range map[string]struct {
		w       *assignment.Vector
		a, b, c []fr.Element
		class   errs.Class
	}{
		"too small":      {w, buf(4), buf(4), buf(4), errs.Internal},
		"not a power":    {w, buf(12), buf(12), buf(12), errs.Internal},
		"empty":          {w, nil, nil, nil, errs.Internal},
		"b another size": {w, buf(8), buf(16), buf(8), errs.Internal},
		"c another size": {w, buf(8), buf(8), buf(16), errs.Internal},
		"other witness":  {short, buf(8), buf(8), buf(8), errs.InvalidFile},
	} {
		if err := s.Evaluate(ctx, tc.w, groth16.RowsSeven, tc.a, tc.b, tc.c, 1); !errs.Is(err, tc.class) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Evaluate(c, w, groth16.RowsSeven, buf(8), buf(8), nil, 1); !errs.Is(err, errs.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := s.Check(c, w, 1); !errs.Is(err, errs.Canceled) {
		t.Errorf("canceled check: %v", err)
	}
}

// bitCircuit states rows times that a wire is a bit; wire i+1 belongs to row i.
func bitCircuit(t *testing.T, rows int) *System {
	b := NewBuilder(rows+1, 0, true, rows, 3*rows)
	one, minus := elem(1), elem(-1)
	for i := range uint32(rows) {
		b.Term(MatrixA, i+1, b.Coeff(&one))
		b.Term(MatrixB, i+1, b.Coeff(&one))
		b.Term(MatrixB, 0, b.Coeff(&minus))
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The first violated row is named, whatever the number of workers and of violations.
func TestCheckNamesTheFirstRow(t *testing.T) {
	rows := 3*chunkRows + 5
	s := bitCircuit(t, rows)
	rng := rand.New(rand.NewPCG(4, 4))
	n := 1 << s.LogDomain()
	a, b, c := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	for _, bad := range [][]int{nil, {0}, {rows - 1}, {chunkRows - 1, chunkRows}, {rows - 1, 2 * chunkRows, 5}, {1, 2, 3}} {
		w := values(rng, rows+1, 100)
		first := -1
		for _, i := range bad {
			w[i+1] = elem(2)
			if first < 0 || i < first {
				first = i
			}
		}
		for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
			v := vectorOf(t, form, w)
			for _, tasks := range []int{1, 2, 5} {
				for name, check := range map[string]func() (*Violation, error){
					"Check":            func() (*Violation, error) { return s.Check(ctx, v, tasks) },
					"EvaluateChecked":  func() (*Violation, error) { return s.EvaluateChecked(ctx, v, groth16.RowsFive, a, b, c, tasks) },
					"without c at all": func() (*Violation, error) { return s.EvaluateChecked(ctx, v, groth16.RowsSeven, a, b, nil, tasks) },
				} {
					got, err := check()
					if err != nil {
						t.Fatal(err)
					}
					if first < 0 {
						if got != nil {
							t.Errorf("%s: row %d of a good witness", name, got.Row)
						}
						continue
					}
					if got == nil || got.Row != first {
						t.Errorf("%s with %d tasks, bad rows %v: %+v", name, tasks, bad, got)
					}
				}
			}
		}
	}
	s.HasC = false
	if _, err := s.Check(ctx, vectorOf(t, assignment.Dense, values(rng, rows+1, 100)), 1); !errs.Is(err, errs.Unsupported) {
		t.Errorf("without C: %v", err)
	}
}
