package affine

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
		kernel: func(n int) Kernel[bls12381.G1Affine] { return newG1(n) },
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
		kernel: func(n int) Kernel[bls12381.G2Affine] { return newG2(n) },
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

// kernels runs f for every group and both implementations.
func kernels(t *testing.T, g1 func(t *testing.T, o ops[bls12381.G1Affine]), g2 func(t *testing.T, o ops[bls12381.G2Affine])) {
	for _, wide := range []bool{false, true} {
		if wide && !wideAvailable {
			t.Log("this processor has no wide multiply-add")
			continue
		}
		o1, o2 := g1Ops(), g2Ops()
		name := "portable"
		if wide {
			name = "wide"
			o1.kernel = func(n int) Kernel[bls12381.G1Affine] { return newWide(n, newG1, (*bls12381.G1Affine).IsInfinity) }
			o2.kernel = func(n int) Kernel[bls12381.G2Affine] { return newWide(n, newG2, (*bls12381.G2Affine).IsInfinity) }
		}
		t.Run("G1/"+name, func(t *testing.T) { g1(t, o1) })
		t.Run("G2/"+name, func(t *testing.T) { g2(t, o2) })
	}
}

func (o *ops[P]) signed(i uint32) P {
	p := o.pool[i&^Negate]
	if i&Negate != 0 {
		p = o.neg(&p)
	}
	return p
}

func TestAddEveryPairOfSpecialPoints(t *testing.T) { kernels(t, testAdd, testAdd) }

func testAdd[P any](t *testing.T, o ops[P]) {
	var all Ops
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range o.pool {
		for j := range o.pool {
			for sign := range uint32(4) {
				all.A, all.B = append(all.A, uint32(i)|sign&1<<31), append(all.B, uint32(j)|sign>>1<<31)
			}
		}
	}
	n := len(all.A)
	for _, p := range rng.Perm(n) {
		all.Dst = append(all.Dst, uint32(p))
	}
	rng.Shuffle(n, func(i, j int) { all.A[i], all.A[j], all.B[i], all.B[j] = all.A[j], all.A[i], all.B[j], all.B[i] })
	for _, batch := range []int{1, 2, 7, 8, 9, 64, n - 1, n, n + 1} {
		dst := make([]P, n)
		o.kernel(batch).Add(dst, o.pool, o.pool, all)
		for j := range n {
			a, b := o.signed(all.A[j]), o.signed(all.B[j])
			if want := o.add(&a, &b); !o.equal(&dst[all.Dst[j]], &want) {
				t.Fatalf("batch %d: point %#x + point %#x is wrong", batch, all.A[j], all.B[j])
			}
		}
	}
	// and with the result in the place of an operand
	for _, negate := range []uint32{0, Negate} {
		acc := append([]P(nil), o.pool...)
		same := identity(len(acc))
		other := identity(len(acc)).B
		for i := range other {
			other[i] ^= negate
		}
		o.kernel(50).Add(acc, acc, o.pool, Ops{same.Dst, same.Dst, other})
		for i := range acc {
			a, b := o.signed(uint32(i)), o.signed(other[i])
			if want := o.add(&a, &b); !o.equal(&acc[i], &want) {
				t.Fatalf("point %d and point %#x in place is wrong", i, other[i])
			}
		}
	}
}

func identity(n int) Ops {
	o := NewOps(n)
	for i := range n {
		o.Dst[i], o.A[i], o.B[i] = uint32(i), uint32(i), uint32(i)
	}
	return o
}

func TestAddPointsOfOrderTwo(t *testing.T) {
	// y = 0 happens on the curve (-4 need not be a cube: any point with y = 0 shows that it is taken for its own opposite)
	kernels(t, func(t *testing.T, o ops[bls12381.G1Affine]) {
		p := bls12381.G1Affine{}
		p.X.SetUint64(5)
		testOrderTwo(t, o, p)
	}, func(t *testing.T, o ops[bls12381.G2Affine]) {
		p := bls12381.G2Affine{}
		p.X.A1.SetUint64(5)
		testOrderTwo(t, o, p)
	})
}

func testOrderTwo[P any](t *testing.T, o ops[P], p P) {
	list := make([]P, 32)
	for i := range list {
		list[i] = p
	}
	same := identity(len(list))
	for i := range same.B {
		same.B[i] ^= uint32(i%2) << 31
	}
	dst := make([]P, len(list))
	o.kernel(32).Add(dst, list, list, same)
	var infinity P
	for i := range dst {
		if !o.equal(&dst[i], &infinity) {
			t.Error("twice a point of order 2 is not infinity")
		}
	}
}

// Points with x = 0 are not infinity: (0, 2) is on the curve of G1, of order 3.
func TestAddPointsAtXZero(t *testing.T) {
	o := g1Ops()
	var p bls12381.G1Affine
	p.Y.SetUint64(2)
	o.pool = append(o.pool, p)
	kernels(t, func(t *testing.T, k ops[bls12381.G1Affine]) {
		o.kernel = k.kernel
		testAdd(t, o)
	}, func(*testing.T, ops[bls12381.G2Affine]) {})
}

func TestCopy(t *testing.T) { kernels(t, testCopy, testCopy) }

func testCopy[P any](t *testing.T, o ops[P]) {
	var to, from []uint32
	for i := range o.pool {
		from = append(from, uint32(i)|Negate, uint32(len(o.pool)-1-i))
	}
	for i := range from {
		to = append(to, uint32(len(from)-1-i))
	}
	dst := make([]P, len(from))
	o.kernel(1).Copy(dst, o.pool, to, from)
	for j, i := range from {
		if want := o.signed(i); !o.equal(&dst[to[j]], &want) {
			t.Fatalf("entry %d is wrong", j)
		}
	}
}

func TestSumRuns(t *testing.T) { kernels(t, testSumRuns, testSumRuns) }

func testSumRuns[P any](t *testing.T, o ops[P]) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, lens := range [][]uint32{nil, {1}, {2}, {3}, {1, 1, 1}, {7, 1, 8}, {1, 9, 1}, {31, 32, 33, 1, 2}, {64}, {65}} {
		var idx []uint32
		var want []P
		for _, l := range lens {
			var sum P
			for range l {
				i := uint32(rng.IntN(len(o.pool))) | rng.Uint32()&Negate
				idx = append(idx, i)
				p := o.signed(i)
				sum = o.add(&sum, &p)
			}
			want = append(want, sum)
		}
		work, folded := make([]P, len(idx)), make([]P, len(idx))
		for i := range idx {
			folded[i] = o.signed(idx[i])
		}
		r := NewRuns(len(idx))
		places := make([]uint32, len(lens))
		SumRuns(o.kernel(16), work, o.pool, idx, slices.Clone(lens), places, r)
		at := uint32(0)
		for i, l := range lens {
			if !o.equal(&work[places[i]], &want[i]) {
				t.Fatalf("runs %v: sum %d is wrong", lens, i)
			}
			Fold(o.kernel(16), folded[at:], int(l), r)
			if !o.equal(&folded[at], &want[i]) {
				t.Fatalf("runs %v: folded sum %d is wrong", lens, i)
			}
			at += l
		}
	}
}

// Both implementations give the same words, whatever collides.
func TestWideIsPortable(t *testing.T) {
	if !wideAvailable {
		t.Skip("this processor has no wide multiply-add")
	}
	t.Run("G1", func(t *testing.T) {
		testSame(t, g1Ops(), newG1(300), newWide(300, newG1, (*bls12381.G1Affine).IsInfinity))
	})
	t.Run("G2", func(t *testing.T) {
		testSame(t, g2Ops(), newG2(300), newWide(300, newG2, (*bls12381.G2Affine).IsInfinity))
	})
}

func testSame[P comparable](t *testing.T, o ops[P], portable, wide Kernel[P]) {
	rng := rand.New(rand.NewPCG(5, 5))
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		n := 1 + rng.IntN(400)
		// few different points, so that sums meet their own operands, and opposites, again and again
		few := 1 + rng.IntN(len(o.pool))
		acc := make([]P, n)
		for i := range acc {
			acc[i] = o.pool[rng.IntN(few)]
		}
		other := append([]P(nil), acc...)
		for range 4 {
			all := Ops{Dst: identity(n).Dst, B: make([]uint32, n)}
			for i := range all.B {
				all.B[i] = uint32(rng.IntN(len(o.pool))) | rng.Uint32()&Negate
			}
			if round%2 == 0 {
				rng.Shuffle(n, func(i, j int) { all.Dst[i], all.Dst[j] = all.Dst[j], all.Dst[i] })
			}
			all.A = all.Dst
			portable.Add(acc, acc, o.pool, all)
			wide.Add(other, other, o.pool, all)
			for i := range acc {
				if acc[i] != other[i] {
					t.Fatalf("round %d, %d additions: entry %d differs", round, n, i)
				}
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
	for _, n := range []int{512, 1024, 2048, 4096} {
		b.Run(fmt.Sprintf("G1/portable/%d", n), func(b *testing.B) { benchmarkAdd(b, g1Ops(), newG1(n), n) })
		b.Run(fmt.Sprintf("G2/portable/%d", n), func(b *testing.B) { benchmarkAdd(b, g2Ops(), newG2(n), n) })
		if wideAvailable {
			b.Run(fmt.Sprintf("G1/wide/%d", n), func(b *testing.B) { benchmarkAdd(b, g1Ops(), NewG1(n), n) })
			b.Run(fmt.Sprintf("G2/wide/%d", n), func(b *testing.B) { benchmarkAdd(b, g2Ops(), NewG2(n), n) })
		}
	}
}

func benchmarkAdd[P any](b *testing.B, o ops[P], k Kernel[P], n int) {
	acc := make([]P, n)
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
	all := identity(n)
	for b.Loop() {
		k.Add(acc, acc, other, all)
	}
	perAdd := float64(b.Elapsed().Nanoseconds()) / float64(b.N) / float64(n)
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
