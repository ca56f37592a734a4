package points

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// r is the order of the subgroup, h1 that of G1's cofactor.
var (
	order, _ = new(big.Int).SetString("52435875175126190479447740508185965837690552500527637822603658699938581184513", 10)
	h1, _    = new(big.Int).SetString("396c8c005555e1568c00aaab0000aaab", 16)
)

func randomCurveG1(t testing.TB, seed uint64) bls.G1Affine {
	t.Helper()
	for x := seed; ; x++ {
		var p bls.G1Affine
		p.X.SetUint64(x*2 + 1)
		var y2 fp.Element
		y2.Square(&p.X).Mul(&y2, &p.X)
		var four fp.Element
		four.SetUint64(4)
		y2.Add(&y2, &four)
		if p.Y.Sqrt(&y2) != nil && p.IsOnCurve() && !p.IsInSubGroup() {
			return p
		}
	}
}

func mulG1(p *bls.G1Affine, k *big.Int) bls.G1Affine {
	var acc bls.G1Jac
	for i := k.BitLen() - 1; i >= 0; i-- { // plain: GLV methods are right for the subgroup alone
		acc.DoubleAssign()
		if k.Bit(i) == 1 {
			acc.AddMixed(p)
		}
	}
	var out bls.G1Affine
	out.FromJacobian(&acc)
	return out
}

// pointOfOrder3 is the worst case of a check by random multipliers.
func pointOfOrder3(t testing.TB) bls.G1Affine {
	t.Helper()
	k := new(big.Int).Mul(order, new(big.Int).Div(h1, big.NewInt(3)))
	for s := uint64(1); ; s++ {
		p := randomCurveG1(t, s)
		q := mulG1(&p, k)
		if !q.IsInfinity() {
			if c := mulG1(&q, big.NewInt(3)); !c.IsInfinity() {
				t.Fatal("order is not 3")
			}
			return q
		}
	}
}

func goodG1(n int) []bls.G1Affine {
	_, _, g, _ := bls.Generators()
	jac := make([]bls.G1Jac, n)
	var acc bls.G1Jac
	acc.FromAffine(&g)
	for i := range jac {
		jac[i] = acc
		acc.AddMixed(&g)
	}
	return bls.BatchJacobianToAffineG1(jac)
}

func goodG2(n int) []bls.G2Affine {
	_, _, _, g := bls.Generators()
	out := make([]bls.G2Affine, n)
	var acc bls.G2Jac
	acc.FromAffine(&g)
	for i := range out {
		out[i].FromJacobian(&acc)
		acc.AddMixed(&g)
	}
	return out
}

func batchG1(t testing.TB, ps []bls.G1Affine, piece int) error {
	t.Helper()
	c := NewCheckerG1(context.Background(), runtime.NumCPU(), len(ps))
	for lo := 0; lo < len(ps); lo += piece {
		if err := AddG1(c, ps[lo:min(len(ps), lo+piece)]); err != nil {
			t.Fatal(err)
		}
	}
	return c.Bad()
}

func TestCheckerG1(t *testing.T) {
	t3 := pointOfOrder3(t)
	var neg3 bls.G1Affine
	neg3.Neg(&t3)
	off := randomCurveG1(t, 77)
	for _, n := range []int{0, 1, 2, 100, 1<<9 - 1, 1 << 9, 1<<9 + 1, 1<<11 + 77, 1 << 15} {
		for _, piece := range []int{1 << 20, 999} {
			if n > 1<<12 && piece < n {
				continue
			}
			good := goodG1(n)
			if n > 50 { // equal, opposite and infinite points must not upset the additions
				good[3], good[4], good[5], good[6] = good[2], good[2], bls.G1Affine{}, bls.G1Affine{}
				good[7].Neg(&good[2])
			}
			if err := batchG1(t, good, piece); err != nil {
				t.Fatalf("n %d piece %d: %v", n, piece, err)
			}
			for name, plant := range map[string][]bls.G1Affine{"one of order 3": {t3}, "opposite of order 3": {t3, neg3}, "three of order 3": {t3, t3, t3}, "large order": {off}} {
				if n < 10 && len(plant) > n {
					continue
				}
				ps := append([]bls.G1Affine(nil), good...)
				for i, p := range plant {
					ps[(i+1)*(len(ps)-1)/len(plant)] = p
				}
				err := batchG1(t, ps, piece)
				var bad *BadPoint
				if !errors.As(err, &bad) {
					t.Fatalf("n %d, %s: not found", n, name)
				}
				if n < 1<<9 && bad.Index != (len(ps)-1)/len(plant) {
					t.Fatalf("n %d, %s: index %d", n, name, bad.Index)
				}
			}
		}
	}
}

// One round with few buckets misses about one time in B when the adversary plants a point and its opposite, never when one point alone is bad.
func TestRoundMissesAsOftenAsStated(t *testing.T) {
	t3 := pointOfOrder3(t)
	ps := goodG1(40)
	ps[7] = t3
	ps[29].Neg(&t3)
	missed, trials := 0, 400
	for range trials {
		c := NewCheckerG1(context.Background(), 1, 1<<12)
		c.logB, c.rounds, c.sums = 3, 1, c.sums[:1]
		c.sums[0] = c.sums[0][:8]
		if err := AddG1(c, ps); err != nil {
			t.Fatal(err)
		}
		if c.Bad() == nil {
			missed++
		}
	}
	if want := trials / 8; missed < want/2 || missed > want*8/5 {
		t.Fatalf("missed %d of %d, expected about %d", missed, trials, want)
	}
}

func TestCheckerG2(t *testing.T) {
	good := goodG2(1<<12 + 3)
	good[8], good[9] = good[10], bls.G2Affine{}
	var off bls.G2Affine
	for x := uint64(1); ; x++ {
		off.X.A0.SetUint64(x)
		var y2, b bls.E2
		y2.Square(&off.X).Mul(&y2, &off.X)
		b.A0.SetUint64(4)
		b.A1.SetUint64(4)
		y2.Add(&y2, &b)
		if y2.Legendre() == 1 {
			off.Y.Sqrt(&y2)
			if off.IsOnCurve() && !off.IsInSubGroup() {
				break
			}
		}
	}
	for _, bad := range []bool{false, true} {
		ps := append([]bls.G2Affine(nil), good...)
		if bad {
			ps[4000] = off
		}
		c := NewCheckerG2(context.Background(), 2, len(ps))
		if err := AddG2(c, ps); err != nil {
			t.Fatal(err)
		}
		if got := c.Bad() != nil; got != bad {
			t.Fatalf("bad %v: found %v", bad, got)
		}
		if got := SubgroupG2(context.Background(), 2, ps[3999:]) != nil; got != bad {
			t.Fatalf("one by one, bad %v: found %v", bad, got)
		}
	}
}

// The sums of the buckets of a round are those of plain additions.
func TestAdderAgainstJacobian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pool := append(goodG1(20), bls.G1Affine{}, pointOfOrder3(t))
	for i := range pool[:22] {
		var n bls.G1Affine
		n.Neg(&pool[i])
		pool = append(pool, n)
	}
	var s adder[fp.Element, *fp.Element]
	for _, n := range []int{1, 255, 256, 257, 700} {
		a, b := make([]bls.G1Affine, n), make([]bls.G1Affine, n)
		out := make([]bls.G1Affine, n)
		va, vb, vo := recast[affine[fp.Element]](a), recast[affine[fp.Element]](b), recast[affine[fp.Element]](out)
		for i := range a {
			a[i], b[i] = pool[rng.IntN(len(pool))], pool[rng.IntN(len(pool))]
			s.push(&va[i], &vb[i], &vo[i])
		}
		s.flush()
		for i := range a {
			var want bls.G1Affine
			want.Add(&a[i], &b[i])
			if !out[i].Equal(&want) {
				t.Fatalf("n %d, pair %d", n, i)
			}
		}
	}
}

func TestCodecAgainstGnark(t *testing.T) {
	g1, g2 := goodG1(50), goodG2(20)
	g1, g2 = append(g1, bls.G1Affine{}), append(g2, bls.G2Affine{})
	for i := range g1 {
		var b [G1Size]byte
		EncodeG1(&b, &g1[i])
		if b != g1[i].RawBytes() {
			t.Fatalf("G1 %d: encoding differs", i)
		}
		var p bls.G1Affine
		if bad := DecodeG1(&p, &b); bad != "" || !p.Equal(&g1[i]) {
			t.Fatalf("G1 %d: %s", i, bad)
		}
	}
	for i := range g2 {
		var b [G2Size]byte
		EncodeG2(&b, &g2[i])
		if b != g2[i].RawBytes() {
			t.Fatalf("G2 %d: encoding differs", i)
		}
		var p bls.G2Affine
		if bad := DecodeG2(&p, &b); bad != "" || !p.Equal(&g2[i]) {
			t.Fatalf("G2 %d: %s", i, bad)
		}
	}
	good := g1[0].RawBytes()
	for _, c := range []struct {
		name string
		edit func(b *[G1Size]byte)
	}{
		{"compressed flag", func(b *[G1Size]byte) { b[0] |= 0x80 }},
		{"sign flag", func(b *[G1Size]byte) { b[0] |= 0x20 }},
		{"infinity flag with coordinates", func(b *[G1Size]byte) { b[0] |= 0x40 }},
		{"infinity with both flags", func(b *[G1Size]byte) { *b = [G1Size]byte{0x60} }},
		{"infinity with a stray bit", func(b *[G1Size]byte) { *b = [G1Size]byte{0: 0x40, 95: 1} }},
		{"all zero", func(b *[G1Size]byte) { *b = [G1Size]byte{} }},
		{"x = p", func(b *[G1Size]byte) { copy(b[:], fp.Modulus().Bytes()) }},
		{"y = p", func(b *[G1Size]byte) { copy(b[48:], fp.Modulus().Bytes()) }},
		{"flag bits in y", func(b *[G1Size]byte) { b[48] |= 0x40 }},
		{"flipped bit", func(b *[G1Size]byte) { b[95] ^= 1 }},
	} {
		b := good
		c.edit(&b)
		var p bls.G1Affine
		if DecodeG1(&p, &b) == "" {
			t.Errorf("%s: accepted", c.name)
		}
	}
	b2 := g2[0].RawBytes()
	b2[191] ^= 1
	var p bls.G2Affine
	if DecodeG2(&p, &b2) == "" {
		t.Error("G2 with a flipped bit: accepted")
	}
}

func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 100} {
		for _, tasks := range []int{0, 1, 3} {
			seen := make([]int, n)
			if err := Each(context.Background(), tasks, n, 8, func(lo, hi int) error {
				for i := lo; i < hi; i++ {
					seen[i]++
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for i, s := range seen {
				if s != 1 {
					t.Fatalf("n %d tasks %d: %d seen %d times", n, tasks, i, s)
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Each(ctx, 2, 100, 8, func(lo, hi int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("canceled: %v", err)
	}
	want := fmt.Errorf("x")
	if err := Each(context.Background(), 1, 100, 8, func(lo, hi int) error { return want }); err != want {
		t.Fatal(err)
	}
}

func cpuTime() time.Duration {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// BenchmarkSubgroup compares the batch with single checks: ratio of ns/point.
func BenchmarkSubgroup(b *testing.B) {
	ps := goodG1(1 << 17)
	ps2 := goodG2(1 << 13)
	// processor time, since the machine may be busy with other things
	single := func(f func()) time.Duration { t := cpuTime(); f(); return cpuTime() - t }
	for b.Loop() {
		one := single(func() { _ = SubgroupG1(context.Background(), 1, ps[:2000]) }) / 2000
		many := single(func() {
			c := NewCheckerG1(context.Background(), 1, len(ps))
			_ = AddG1(c, ps)
			_ = c.Bad()
		}) / time.Duration(len(ps))
		b.ReportMetric(float64(one), "G1-single-ns/pt")
		b.ReportMetric(float64(many), "G1-batch-ns/pt")
		c := NewCheckerG1(context.Background(), 1, len(ps))
		adds := single(func() { _ = AddG1(c, ps) }) / time.Duration(len(ps))
		b.ReportMetric(float64(adds), "G1-batch-adds-ns/pt")
		one = single(func() { _ = SubgroupG2(context.Background(), 1, ps2[:500]) }) / 500
		c2 := NewCheckerG2(context.Background(), 1, 1<<20)
		adds = single(func() { _ = AddG2(c2, ps2) }) / time.Duration(len(ps2))
		b.ReportMetric(float64(one), "G2-single-ns/pt")
		b.ReportMetric(float64(adds), "G2-batch-adds-ns/pt")
	}
}
