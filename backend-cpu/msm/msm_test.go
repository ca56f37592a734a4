package msm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/digits"
	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
	"github.com/weir-zk/weir/sdk/errs"
)

// bases are points with known logarithms: point i is log[i] times the generator.
type bases struct {
	log []fr.Element
	g1  []bls12381.G1Affine
	g2  []bls12381.G2Affine
}

// newBases makes n points. With special set some are infinity, equal or opposite to others.
func newBases(n int, special bool) bases {
	g1, g2, _, _ := bls12381.Generators()
	const distinct = 1 << 10
	var jac1 []bls12381.G1Jac
	var b, few bases
	var log fr.Element
	log.SetOne()
	for i := range min(n, distinct) {
		few.log = append(few.log, log)
		jac1 = append(jac1, g1)
		few.g2 = append(few.g2, *new(bls12381.G2Affine).FromJacobian(&g2))
		if i%2 == 0 {
			log.Double(&log)
			g1.DoubleAssign()
			g2.DoubleAssign()
		} else {
			one := fr.One()
			log.Add(&log, &one)
			g1.AddMixed(&gen1)
			g2.AddMixed(&gen2)
		}
	}
	few.g1 = bls12381.BatchJacobianToAffineG1(jac1)
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	for i := range n {
		k := i % distinct
		l, p, q := few.log[k], few.g1[k], few.g2[k]
		if special {
			switch rng.IntN(8) {
			case 0:
				l, p, q = fr.Element{}, bls12381.G1Affine{}, bls12381.G2Affine{}
			case 1:
				l, p, q = few.log[0], few.g1[0], few.g2[0]
			case 2:
				l.Neg(&l)
				p.Neg(&p)
				q.Neg(&q)
			}
		}
		b.log, b.g1, b.g2 = append(b.log, l), append(b.g1, p), append(b.g2, q)
	}
	return b
}

var _, _, gen1, gen2 = bls12381.Generators()

// check compares sums with the generators times the sum of scalar*log.
func (b *bases) check(t *testing.T, what string, scalars []fr.Element, got1 *bls12381.G1Jac, got2 *bls12381.G2Jac) {
	t.Helper()
	var sum, x fr.Element
	for i := range scalars {
		sum.Add(&sum, x.Mul(&scalars[i], &b.log[i]))
	}
	k := sum.BigInt(new(big.Int))
	if got1 != nil {
		var want bls12381.G1Jac
		if want.ScalarMultiplicationBase(k); !got1.Equal(&want) {
			t.Errorf("%s: wrong sum in G1", what)
		}
	}
	if got2 != nil {
		var want bls12381.G2Jac
		if want.ScalarMultiplicationBase(k); !got2.Equal(&want) {
			t.Errorf("%s: wrong sum in G2", what)
		}
	}
}

// mixed is special and random scalars in random order.
func mixed(n int, seed uint64) []fr.Element {
	rng := rand.New(rand.NewPCG(seed, 3))
	special, out := fieldtest.Special(), fieldtest.Random(n, seed)
	for i := range out {
		if rng.IntN(2) == 0 {
			out[i] = special[rng.IntN(len(special))]
		}
	}
	return out
}

func TestSumsOfAllSizes(t *testing.T) {
	ctx := context.Background()
	b := newBases(1<<15+1, true)
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 127, 128, 129, 1023, 1024, 1025, 1<<14 - 1, 1 << 14, 1<<14 + 1, 1<<15 + 1} {
		for _, tasks := range []int{1, 2, 3, 17} {
			if n > 1025 && tasks == 17 && n != 1<<14 {
				continue
			}
			if fieldtest.Race && (tasks == 1 || n > 129 && n != 1<<14 || n > 129 && tasks != 3) {
				continue // one size of each kind shows the races there are
			}
			s := mixed(n, uint64(n))
			got1, err := G1(ctx, b.g1[:n], s, tasks)
			if err != nil {
				t.Fatal(err)
			}
			b.check(t, fmt.Sprintf("n = %d, %d tasks", n, tasks), s, &got1, nil)
			if n > 1<<14 || n > 1025 && (tasks != 2 || fieldtest.Race) {
				continue
			}
			got2, err := G2(ctx, b.g2[:n], s, tasks)
			if err != nil {
				t.Fatal(err)
			}
			b.check(t, fmt.Sprintf("n = %d, %d tasks", n, tasks), s, nil, &got2)
		}
	}
}

// The scalars of a real witness fill few buckets; all of them in one part is the worst case for the locks.
func TestSumsOfUnevenScalars(t *testing.T) {
	const n = 1<<14 + 3
	b := newBases(n, true)
	same, small := make([]fr.Element, n), make([]fr.Element, n)
	three := fr.NewElement(3)
	big := fieldtest.Random(1, 5)[0]
	for i := range n {
		same[i] = three
		small[i].SetInt64(int64(i%7 - 3))
	}
	allBig := make([]fr.Element, n)
	for i := range allBig {
		allBig[i] = big
	}
	for name, s := range map[string][]fr.Element{"all 3": same, "-3 to 3": small, "all alike": allBig, "all zero": make([]fr.Element, n)} {
		got, err := G1(context.Background(), b.g1, s, 4)
		if err != nil {
			t.Fatal(err)
		}
		b.check(t, name, s, &got, nil)
	}
}

// Narrow and wide windows, with teams and blocks so small that everything is cut.
func TestSumsWithEveryPlan(t *testing.T) {
	b := newBases(300, true)
	s := mixed(300, 9)
	all := terms{len(s), func(i int) (*fr.Element, uint32) { return &s[i], uint32(i) }}
	e := newEngineG1(nil)
	widths := []int{4, 5, 6, 8, 11, 13, 16, maxWindow}
	if fieldtest.Race {
		widths = []int{4, 7}
	}
	for _, c := range widths {
		for _, p := range []plan{
			{teams: 1, members: 1, block: 300, parts: 1, lines: 1},
			{teams: 2, members: 3, block: 7, parts: 2, lines: 2},
			{teams: 1, members: 2, block: 64, parts: 8, lines: 8},
		} {
			p.Window, p.n, p.piece = digits.New(c), 300, 50
			p.lines *= max(1, p.Values()/32) // short lines, so that it takes no time
			for p.low = c - 1; p.parts<<p.low > p.Values(); p.low-- {
			}
			ch := e.newChunk(p)
			for round := range 2 { // the memory is used again
				got, err := ch.sum(context.Background(), b.g1, all, 0, len(s))
				if err != nil {
					t.Fatal(err)
				}
				b.check(t, fmt.Sprintf("c = %d, %+v, round %d", c, p, round), s, &got, nil)
			}
		}
	}
}

func TestChunksAddUp(t *testing.T) {
	// more than one chunk, of few points so that it takes no time: MaxChunk is a constant, so the chunks' own function is called
	b := newBases(1000, true)
	s := mixed(1000, 4)
	e := newEngineG1(nil)
	c := e.newChunk(e.plan(400, 2))
	total := e.infinity()
	all := dense(s)
	for lo := 0; lo < 1000; lo += 400 {
		part, err := c.sum(context.Background(), b.g1, all, lo, min(lo+400, 1000))
		if err != nil {
			t.Fatal(err)
		}
		e.add(&total, &part)
	}
	b.check(t, "three chunks", s, &total, nil)
	c.forget()
	m := c.team[0].members[0]
	for name, left := range map[string]bool{
		"scalars": slices.ContainsFunc(c.scalars, func(r digits.Recoded) bool { return r != digits.Recoded{} }),
		"digits":  slices.ContainsFunc(m.order, func(x uint64) bool { return x != 0 }),
		"buckets": slices.ContainsFunc(c.team[0].bucket, func(p bls12381.G1Affine) bool { return !p.IsInfinity() }),
	} {
		if left {
			t.Errorf("%s stay", name)
		}
	}
}

func TestRefuses(t *testing.T) {
	_, err := G1(context.Background(), make([]bls12381.G1Affine, 3), make([]fr.Element, 2), 1)
	if !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("lengths differ: %v", err)
	}
	_, err = G2(context.Background(), make([]bls12381.G2Affine, 1), make([]fr.Element, 2), 1)
	if !errs.Is(err, errs.InvalidArgument) {
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

func newCountdown(n int) *countdown {
	c := &countdown{Context: context.Background()}
	c.left.Store(int64(n))
	return c
}

func TestCancel(t *testing.T) {
	b := newBases(1<<14, false)
	s := fieldtest.Random(1<<14, 1)
	for _, n := range []int{0, 1, 5, 50} {
		for _, size := range []int{0, 10, 1 << 14} {
			if size < 1000 && n > 5 {
				continue // may be done before it looks so often
			}
			if size == 0 && n > 0 {
				continue
			}
			if _, err := G1(newCountdown(n), b.g1[:size], s[:size], 2); !errors.Is(err, context.Canceled) {
				t.Errorf("size %d, cancelled after %d looks: error %v", size, n, err)
			}
		}
	}
}

// What is allocated is what is stated, so that a ledger can reserve it.
func TestScratchIsWhatIsAllocated(t *testing.T) {
	if fieldtest.Race {
		t.Skip("the race detector allocates on its own")
	}
	b := newBases(1<<15, false)
	s := fieldtest.Random(1<<15, 1)
	for _, tasks := range []int{1, 2, 8} {
		for _, n := range []int{100, 1 << 11, 1 << 15} {
			got := allocated(func() { G1(context.Background(), b.g1[:n], s[:n], tasks) })
			if want := ScratchG1(n, tasks); got > want*105/100+1<<16 || got < want*95/100-1<<12 {
				t.Errorf("G1, n = %d, %d tasks: %d bytes allocated, %d stated", n, tasks, got, want)
			}
		}
		n := 1 << 11
		got := allocated(func() { G2(context.Background(), b.g2[:n], s[:n], tasks) })
		if want := ScratchG2(n, tasks); got > want*105/100+1<<16 || got < want*95/100-1<<12 {
			t.Errorf("G2, n = %d, %d tasks: %d bytes allocated, %d stated", n, tasks, got, want)
		}
	}
}

func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
