package fixedbase

import (
	"context"
	"errors"
	"math/big"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
	"github.com/weir-zk/weir/sdk/errs"
)

// scalars is n special, random, small and repeated values.
func scalars(n int) []fr.Element {
	s := append(fieldtest.Special(), fieldtest.Random(40, 1)...)
	for i := range 40 {
		s = append(s, fr.NewElement(uint64(i)), s[i])
	}
	for len(s) < n {
		s = append(s, fieldtest.Random(100, uint64(len(s)))...)
	}
	return s[:n]
}

func TestMultiples(t *testing.T) {
	_, _, gen1, gen2 := bls12381.Generators()
	var other1 bls12381.G1Affine
	other1.ScalarMultiplication(&gen1, big.NewInt(-12345))
	var other2 bls12381.G2Affine
	other2.ScalarMultiplication(&gen2, big.NewInt(-12345))
	ctx := context.Background()
	sizes := []int{0, 1, 100, 5000, 100_000} // the table's size
	if fieldtest.Race {
		sizes = []int{1, 100}
	}
	for _, planned := range sizes {
		for k, base1 := range []bls12381.G1Affine{gen1, other1, {}} {
			base2 := []bls12381.G2Affine{gen2, other2, {}}[k]
			if k > 0 && planned != 100 {
				continue
			}
			t1, err := NewG1(ctx, &base1, planned, 3)
			if err != nil {
				t.Fatal(err)
			}
			t2, err := NewG2(ctx, &base2, planned, 3)
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(len(t1.of)) * 96; got != BytesG1(planned) {
				t.Errorf("table for %d: %d bytes, stated %d", planned, got, BytesG1(planned))
			}
			if got := int64(len(t2.of)) * 192; got != BytesG2(planned) {
				t.Errorf("table for %d: %d bytes, stated %d", planned, got, BytesG2(planned))
			}
			for _, n := range []int{0, 1, 2, 255, 256, 257, 513, 800} {
				if n != 800 && (planned != 100 || k > 0) {
					continue
				}
				s := scalars(n)
				dst1, dst2 := make([]bls12381.G1Affine, n), make([]bls12381.G2Affine, n)
				for i := range dst1 { // what dst held does not matter
					dst1[i], dst2[i] = gen1, gen2
				}
				if err := t1.Mul(ctx, dst1, s, 2); err != nil {
					t.Fatal(err)
				}
				if err := t2.Mul(ctx, dst2, s, 2); err != nil {
					t.Fatal(err)
				}
				for i := range s {
					if i%5 != 0 && (fieldtest.Race || n == 800 && planned != 100) {
						continue
					}
					e := s[i].BigInt(new(big.Int))
					var want1 bls12381.G1Affine
					if want1.ScalarMultiplication(&base1, e); dst1[i] != want1 {
						t.Fatalf("table for %d, base %d, n = %d: %s times the base is wrong in G1", planned, k, n, s[i].String())
					}
					var want2 bls12381.G2Affine
					if want2.ScalarMultiplication(&base2, e); dst2[i] != want2 {
						t.Fatalf("table for %d, base %d, n = %d: %s times the base is wrong in G2", planned, k, n, s[i].String())
					}
				}
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	_, _, g, _ := bls12381.Generators()
	table, err := NewG1(context.Background(), &g, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Mul(context.Background(), make([]bls12381.G1Affine, 2), make([]fr.Element, 3), 1); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("lengths differ: %v", err)
	}
}

// countdown is a context that ends when it was asked n times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancel(t *testing.T) {
	_, _, g, _ := bls12381.Generators()
	for _, n := range []int{0, 1, 2} {
		c := &countdown{Context: context.Background()}
		c.left.Store(int64(n))
		if _, err := NewG1(c, &g, 5000, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("table, cancelled after %d looks: %v", n, err)
		}
	}
	table, err := NewG1(context.Background(), &g, 100, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 2} {
		c := &countdown{Context: context.Background()}
		c.left.Store(int64(n))
		if err := table.Mul(c, make([]bls12381.G1Affine, 5000), scalars(5000), 2); !errors.Is(err, context.Canceled) {
			t.Errorf("multiples, cancelled after %d looks: %v", n, err)
		}
	}
}

// BenchmarkG1 compares points a second with the library's function, table included on both sides.
func BenchmarkG1(b *testing.B) {
	_, _, g, _ := bls12381.Generators()
	for name, log := range map[string]int{"2^16": 16, "2^18": 18} {
		b.Run(name, func(b *testing.B) {
			s := fieldtest.Random(1<<log, 1)
			dst := make([]bls12381.G1Affine, len(s))
			few := s
			var ours, theirs time.Duration
			for b.Loop() {
				begin := time.Now()
				bls12381.BatchScalarMultiplicationG1(&g, few)
				mid := time.Now()
				table, err := NewG1(context.Background(), &g, len(s), runtime.NumCPU())
				if err == nil {
					err = table.Mul(context.Background(), dst, s, runtime.NumCPU())
				}
				if err != nil {
					b.Fatal(err)
				}
				theirs += mid.Sub(begin)
				ours += time.Since(mid)
			}
			perS := float64(b.N*len(s)) / ours.Seconds()
			b.ReportMetric(perS, "points/s")
			b.ReportMetric(perS/(float64(b.N*len(few))/theirs.Seconds()), "x-gnark")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkG2 is BenchmarkG1 for the other group.
func BenchmarkG2(b *testing.B) {
	_, _, _, g := bls12381.Generators()
	s := fieldtest.Random(1<<16, 1)
	dst := make([]bls12381.G2Affine, len(s))
	few := s
	var ours, theirs time.Duration
	for b.Loop() {
		begin := time.Now()
		bls12381.BatchScalarMultiplicationG2(&g, few)
		mid := time.Now()
		table, err := NewG2(context.Background(), &g, len(s), runtime.NumCPU())
		if err == nil {
			err = table.Mul(context.Background(), dst, s, runtime.NumCPU())
		}
		if err != nil {
			b.Fatal(err)
		}
		theirs += mid.Sub(begin)
		ours += time.Since(mid)
	}
	perS := float64(b.N*len(s)) / ours.Seconds()
	b.ReportMetric(perS, "points/s")
	b.ReportMetric(perS/(float64(b.N*len(few))/theirs.Seconds()), "x-gnark")
	b.ReportMetric(0, "ns/op")
}
