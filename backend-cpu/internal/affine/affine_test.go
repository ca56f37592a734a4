package affine

import (
	"math/rand/v2"
	"testing"
	"time"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// ops is what the tests need of a group beside the kernel, from the library.
type ops[P any] struct {
	kernel func(n int) Kernel[P]
	pool   []P // points, with infinity, equal, opposite and order-2-free ones
	add    func(a, b *P) P
	neg    func(a *P) P
	equal  func(a, b *P) bool
}

func g1Ops() ops[bls12381.G1Affine] {
	g, _, _, _ := bls12381.Generators()
	var pool []bls12381.G1Affine
	for range 8 {
		var p bls12381.G1Affine
		pool = append(pool, *p.FromJacobian(&g))
		g.DoubleAssign()
		pool = append(pool, *p.Neg(&p))
	}
	pool = append(pool, bls12381.G1Affine{})
	return ops[bls12381.G1Affine]{
		kernel: func(n int) Kernel[bls12381.G1Affine] { return NewG1(n) },
		pool:   pool,
		add: func(a, b *bls12381.G1Affine) (z bls12381.G1Affine) {
			var x, y bls12381.G1Jac
			x.FromAffine(a)
			y.FromAffine(b)
			x.AddAssign(&y)
			return *z.FromJacobian(&x)
		},
		neg:   func(a *bls12381.G1Affine) (z bls12381.G1Affine) { return *z.Neg(a) },
		equal: func(a, b *bls12381.G1Affine) bool { return a.Equal(b) },
	}
}

func g2Ops() ops[bls12381.G2Affine] {
	_, g, _, _ := bls12381.Generators()
	var pool []bls12381.G2Affine
	for range 8 {
		var p bls12381.G2Affine
		pool = append(pool, *p.FromJacobian(&g))
		g.DoubleAssign()
		pool = append(pool, *p.Neg(&p))
	}
	pool = append(pool, bls12381.G2Affine{})
	return ops[bls12381.G2Affine]{
		kernel: func(n int) Kernel[bls12381.G2Affine] { return NewG2(n) },
		pool:   pool,
		add: func(a, b *bls12381.G2Affine) (z bls12381.G2Affine) {
			var x, y bls12381.G2Jac
			x.FromAffine(a)
			y.FromAffine(b)
			x.AddAssign(&y)
			return *z.FromJacobian(&x)
		},
		neg:   func(a *bls12381.G2Affine) (z bls12381.G2Affine) { return *z.Neg(a) },
		equal: func(a, b *bls12381.G2Affine) bool { return a.Equal(b) },
	}
}

func TestAddEveryPairOfSpecialPoints(t *testing.T) {
	t.Run("G1", func(t *testing.T) { testAdd(t, g1Ops()) })
	t.Run("G2", func(t *testing.T) { testAdd(t, g2Ops()) })
}

func testAdd[P any](t *testing.T, o ops[P]) {
	var pairs []Pair
	for i := range o.pool {
		for j := range o.pool {
			pairs = append(pairs, Pair{uint32(i), uint32(j)})
		}
		pairs = append(pairs, Pair{uint32(i), None})
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	for _, batch := range []int{1, 2, 7, len(pairs) - 1, len(pairs), len(pairs) + 1} {
		dst := make([]P, len(pairs))
		o.kernel(batch).Add(dst, o.pool, o.pool, pairs)
		for j, p := range pairs {
			want := o.pool[p.A]
			if p.B != None {
				want = o.add(&o.pool[p.A], &o.pool[p.B])
			}
			if !o.equal(&dst[j], &want) {
				t.Fatalf("batch %d: point %d + point %d is wrong", batch, p.A, int32(p.B))
			}
		}
	}
	// and with the result in the place of the first operand
	acc := append([]P(nil), o.pool...)
	same := make([]Pair, len(acc))
	Identity(same)
	o.kernel(5).Add(acc, acc, o.pool, same)
	for i := range acc {
		if want := o.add(&o.pool[i], &o.pool[i]); !o.equal(&acc[i], &want) {
			t.Fatalf("doubling point %d in place is wrong", i)
		}
	}
}

func TestAddPointsOfOrderTwo(t *testing.T) {
	// y = 0 happens on the curve (-4 need not be a cube: any point with y = 0 shows that it is taken for its own opposite)
	p := bls12381.G1Affine{}
	p.X.SetUint64(5)
	dst := make([]bls12381.G1Affine, 1)
	NewG1(1).Add(dst, []bls12381.G1Affine{p}, []bls12381.G1Affine{p}, []Pair{{0, 0}})
	if !dst[0].IsInfinity() {
		t.Error("twice a point of order 2 is not infinity")
	}
}

func TestGather(t *testing.T) {
	t.Run("G1", func(t *testing.T) { testGather(t, g1Ops()) })
	t.Run("G2", func(t *testing.T) { testGather(t, g2Ops()) })
}

func testGather[P any](t *testing.T, o ops[P]) {
	var idx []uint32
	for i := range o.pool {
		idx = append(idx, uint32(i)|Negate, uint32(len(o.pool)-1-i))
	}
	dst := make([]P, len(idx))
	o.kernel(1).Gather(dst, o.pool, idx)
	for j, i := range idx {
		want := o.pool[i&^Negate]
		if i&Negate != 0 {
			want = o.neg(&want)
		}
		if !o.equal(&dst[j], &want) {
			t.Fatalf("entry %d is wrong", j)
		}
	}
}

func TestSumRuns(t *testing.T) {
	t.Run("G1", func(t *testing.T) { testSumRuns(t, g1Ops()) })
	t.Run("G2", func(t *testing.T) { testSumRuns(t, g2Ops()) })
}

func testSumRuns[P any](t *testing.T, o ops[P]) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, lens := range [][]uint32{nil, {1}, {2}, {3}, {1, 1, 1}, {7, 1, 8}, {1, 9, 1}, {31, 32, 33, 1, 2}, {64}, {65}} {
		var work, want []P
		for _, l := range lens {
			var sum P
			for range l {
				p := o.pool[rng.IntN(len(o.pool))]
				work = append(work, p)
				sum = o.add(&sum, &p)
			}
			want = append(want, sum)
		}
		left := append([]uint32(nil), lens...)
		SumRuns(o.kernel(16), work, left, make([]Pair, len(work)))
		for i := range want {
			if !o.equal(&work[i], &want[i]) {
				t.Fatalf("runs %v: sum %d is wrong", lens, i)
			}
		}
	}
}

func TestSub(t *testing.T) {
	values := make([]fp.Element, 4, 64)
	values[1].SetOne()
	values[2].SetInt64(-1)
	values[3].SetRandom()
	raw := fp.Element{1} // smallest and largest representations
	values = append(values, raw)
	values = append(values, *raw.Neg(&raw))
	for range 50 {
		values = append(values, *raw.MustSetRandom())
	}
	for i := range values {
		for j := range values {
			var got, want fp.Element
			sub(&got, &values[i], &values[j])
			if want.Sub(&values[i], &values[j]); got != want {
				t.Fatalf("%v - %v is wrong", values[i], values[j])
			}
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	b.Run("G1", func(b *testing.B) { benchmarkAdd(b, g1Ops()) })
	b.Run("G2", func(b *testing.B) { benchmarkAdd(b, g2Ops()) })
}

func benchmarkAdd[P any](b *testing.B, o ops[P]) {
	const n = 1024
	acc, pairs := make([]P, n), make([]Pair, n)
	Identity(pairs)
	point := o.pool[2]
	for i := range acc { // all different
		point = o.add(&point, &o.pool[0])
		acc[i] = point
	}
	other := make([]P, n)
	for i := range other {
		point = o.add(&point, &o.pool[2])
		other[i] = point
	}
	k := o.kernel(n)
	for b.Loop() {
		k.Add(acc, acc, other, pairs)
	}
	perAdd := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / n
	b.ReportMetric(perAdd, "ns/add")
	b.ReportMetric(perAdd/mulTime(), "mul/add")
}

// mulTime is the time of a base field product, in ns.
func mulTime() float64 {
	x := *new(fp.Element).MustSetRandom()
	y := x
	const n = 1_000_000
	begin := time.Now()
	for range n {
		y.Mul(&y, &x)
	}
	return float64(time.Since(begin).Nanoseconds()) / n
}
