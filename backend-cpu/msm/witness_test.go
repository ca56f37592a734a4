package msm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// vector writes values into an assignment.
func vector(t testing.TB, form assignment.Form, values []fr.Element) *assignment.Vector {
	t.Helper()
	size := assignment.DenseSize(len(values))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(values), len(values))
	}
	b, err := assignment.NewBuilder(make([]byte, size), form, len(values))
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

// witnessLike is n values of which bits, then minus ones, and so on are as frequent as the percentages say; the rest is random.
func witnessLike(n int, zero, one, minus, small int) []fr.Element {
	rng := rand.New(rand.NewPCG(uint64(n), 5))
	out := fieldtest.Random(n, 6)
	for i := range out {
		switch r := rng.IntN(100); {
		case r < zero:
			out[i].SetZero()
		case r < zero+one:
			out[i].SetOne()
		case r < zero+one+minus:
			out[i].SetInt64(-1)
		case r < zero+one+minus+small:
			out[i].SetInt64(int64(rng.IntN(1<<16) - 1<<15))
		}
	}
	return out
}

func TestWitnessSums(t *testing.T) {
	ctx := context.Background()
	sizes := []int{1, 2, 63, 64, 65, 127, 128, 129, 1000, 1 << 12, 1<<12 + 1, 70000}
	if fieldtest.Race {
		sizes = []int{1, 65, 20000} // 20000 bits are for more than one task
	}
	for _, n := range sizes {
		for name, values := range map[string][]fr.Element{
			"bits":  witnessLike(n, 55, 31, 14, 0),
			"mixed": witnessLike(n, 30, 20, 20, 20),
			"ones":  witnessLike(n, 0, 100, 0, 0),
			"zeros": witnessLike(n, 100, 0, 0, 0),
			"dense": witnessLike(min(n, 2000), 0, 0, 0, 0),
		} {
			if fieldtest.Race && n > 1000 && name != "bits" {
				continue
			}
			n := len(values)
			b := newBases(n, true)
			for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
				what := fmt.Sprintf("%d variables, %s, form %d", n, name, form)
				w := Classify(vector(t, form, values))
				one, minus, rest := w.Counts()
				zero := 0
				for i := range values {
					if values[i].IsZero() {
						zero++
					}
				}
				if w.Len() != n || zero+one+minus+rest != n {
					t.Fatalf("%s: classified as %d zero, %d one, %d minus one, %d rest", what, zero, one, minus, rest)
				}
				has, first := groth16.NewBitmap(n), n/3
				rng := rand.New(rand.NewPCG(uint64(n), 8))
				for i := range n {
					if rng.IntN(3) > 0 {
						has.Set(i)
					}
				}
				some, err := NewWires(has, n)
				if err != nil {
					t.Fatal(err)
				}
				from, err := WiresFrom(first, n)
				if err != nil {
					t.Fatal(err)
				}
				all, err := WiresFrom(0, n)
				if err != nil {
					t.Fatal(err)
				}
				for k, wires := range []*Wires{some, from, all} {
					var there bases
					var scalars []fr.Element
					for i := range n {
						if k == 0 && has.Has(i) || k == 1 && i >= first || k == 2 {
							there.log, scalars = append(there.log, b.log[i]), append(scalars, values[i])
							there.g1, there.g2 = append(there.g1, b.g1[i]), append(there.g2, b.g2[i])
						}
					}
					if wires.Count() != len(there.log) {
						t.Fatalf("%s: map %d counts %d points, want %d", what, k, wires.Count(), len(there.log))
					}
					got1, err := WitnessG1(ctx, there.g1, wires, w, 1+k)
					if err != nil {
						t.Fatal(err)
					}
					there.check(t, fmt.Sprintf("%s, map %d", what, k), scalars, &got1, nil)
					if k > 0 || n > 5000 {
						continue
					}
					got2, err := WitnessG2(ctx, there.g2, wires, w, 2)
					if err != nil {
						t.Fatal(err)
					}
					there.check(t, fmt.Sprintf("%s, map %d", what, k), scalars, nil, &got2)
				}
			}
		}
	}
}

func TestWitnessMapsThatDoNotFit(t *testing.T) {
	w := Classify(vector(t, assignment.Dense, witnessLike(100, 50, 50, 0, 0)))
	short, _ := WiresFrom(0, 99)
	fits, _ := WiresFrom(0, 100)
	for what, err := range map[string]error{
		"other number of variables": func() error {
			_, err := WitnessG1(context.Background(), make([]bls12381.G1Affine, 99), short, w, 1)
			return err
		}(),
		"other number of points": func() error {
			_, err := WitnessG2(context.Background(), make([]bls12381.G2Affine, 99), fits, w, 1)
			return err
		}(),
		"short bitmap":          func() error { _, err := NewWires(make(groth16.Bitmap, 1), 65); return err }(),
		"first past the end":    func() error { _, err := WiresFrom(5, 4); return err }(),
		"negative first":        func() error { _, err := WiresFrom(-1, 4); return err }(),
		"more than an index is": func() error { _, err := WiresFrom(0, 1<<31); return err }(),
	} {
		if !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// bits beyond the last variable mean nothing
	over, err := NewWires(groth16.Bitmap{^uint64(0), ^uint64(0)}, 70)
	if err != nil || over.Count() != 70 {
		t.Errorf("%v, %v", over.Count(), err)
	}
}

func TestWitnessCancel(t *testing.T) {
	values := witnessLike(5000, 40, 30, 10, 10)
	b := newBases(len(values), false)
	w := Classify(vector(t, assignment.Compact, values))
	all, _ := WiresFrom(0, len(values))
	for _, n := range []int{0, 1, 2, 3, 10} {
		if _, err := WitnessG1(newCountdown(n), b.g1, all, w, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d looks: %v", n, err)
		}
	}
}

// One witness serves the sums of a proof at the same time.
func TestWitnessConcurrently(t *testing.T) {
	values := witnessLike(3000, 40, 30, 10, 10)
	b := newBases(len(values), true)
	w := Classify(vector(t, assignment.Compact, values))
	all, _ := WiresFrom(0, len(values))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := WitnessG1(context.Background(), b.g1, all, w, 3)
			if err != nil {
				t.Error(err)
			}
			b.check(t, "concurrent", values, &got, nil)
		})
	}
	wg.Wait()
}

func TestWitnessScratchIsWhatIsAllocated(t *testing.T) {
	if fieldtest.Race {
		t.Skip("the race detector allocates on its own")
	}
	for _, values := range [][]fr.Element{witnessLike(1<<15, 50, 50, 0, 0), witnessLike(1<<13, 0, 0, 0, 0)} {
		b := newBases(len(values), false)
		w := Classify(vector(t, assignment.Dense, values))
		all, _ := WiresFrom(0, len(values))
		_, _, rest := w.Counts()
		got := allocated(func() { WitnessG1(context.Background(), b.g1, all, w, 2) })
		ones := ScratchWitnessG1(0, 2) // allocated, but not at the same time as what the rest needs
		if want := ScratchWitnessG1(rest, 2); got > (want+ones)*105/100+1<<16 || got < want*95/100 {
			t.Errorf("%d values, %d rest: %d bytes allocated, %d stated", len(values), rest, got, want)
		}
	}
}

func TestForgetLeavesNoTrace(t *testing.T) {
	values := witnessLike(3000, 30, 20, 20, 0)
	for _, form := range []assignment.Form{assignment.Dense, assignment.Compact} {
		v := vector(t, form, values)
		w := Classify(v)
		one, minus, rest, at := w.one, w.minus, w.rest, w.at
		if a, b, c := w.Counts(); a == 0 || b == 0 || c == 0 {
			t.Fatal("the test has nothing to forget")
		}
		if cap(rest) != len(v.List()) { // it never moved
			t.Errorf("room for %d of %d values", cap(rest), len(v.List()))
		}
		w.Forget()
		for name, trace := range map[string]bool{
			"ones": slices.ContainsFunc(one, func(x uint64) bool { return x != 0 }), "minus ones": slices.ContainsFunc(minus, func(x uint64) bool { return x != 0 }),
			"rest": slices.ContainsFunc(rest, func(x uint32) bool { return x != 0 }), "places": slices.ContainsFunc(at, func(x uint32) bool { return x != 0 }),
		} {
			if trace {
				t.Errorf("form %v: %s stay", form, name)
			}
		}
		if a, b, c := w.Counts(); a != 0 || b != 0 || c != 0 || w.Len() != 0 {
			t.Error("it still knows something")
		}
		if v.At(2) != values[2] {
			t.Error("the assignment was overwritten")
		}
	}
}
