package points

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"unsafe"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// The batch check of subgroup membership.
//
// One round puts every point into one of B = 2^b buckets by b random bits and adds up each bucket. For each of the b bits, the sum over the
// buckets whose number has that bit is tested for membership in the subgroup G of order r: a sum over a random half of the
// points. If a point P is outside G, fix everything but P's bucket: of the two values of a bit at most one puts that bit's sum into G, since
// the two sums differ by P. The bits are independent, so a round misses with probability at most 2^-b, whatever the order of P: small
// factors of the cofactor (3, 11, ...) do not matter, as they would with random multipliers and one sum. k independent rounds miss with
// probability at most 2^-bk <= 2^-64, for each list, over the draw alone. The draw comes from crypto/rand, after the points are
// fixed. (Random subset test with buckets: Bellare, Garay, Rabin, "Fast Batch Verification for Modular Exponentiation and Digital
// Signatures", EUROCRYPT 1998.)
//
// Cost: k additions a point, in affine form with shared inversions, and for each list 2 k B additions and b k single tests, against
// some 130 doublings a point one by one.
//
// Neither curve has points of order two (both cofactors are odd), so that the doublings below always exist.

// plan is the number of buckets and rounds of a list of n points; rounds 0 means one by one.
func plan(n int) (logB, rounds int) {
	switch {
	case n < 1<<9:
		return 0, 0
	case n < 1<<14:
		return 8, 8
	default:
		return 11, 6
	}
}

// elem is a field element by pointer: fp.Element or E2.
type elem[E any] interface {
	*E
	Add(x, y *E) *E
	Sub(x, y *E) *E
	Mul(x, y *E) *E
	Square(x *E) *E
	Double(x *E) *E
	Inverse(x *E) *E
	SetOne() *E
	IsZero() bool
	Equal(x *E) bool
}

// affine has the memory layout of G1Affine and G2Affine.
type affine[E any] struct{ X, Y E }

// batchPairs is how many additions share an inversion.
const batchPairs = 256

// Checker checks a list that comes in chunks. Add may be called from one goroutine at a time; Bad after the last. A chunk of up to
// 2^16 points costs most.
type Checker[E any, P elem[E]] struct {
	ctx          context.Context
	tasks        int
	logB, rounds int
	sums         [][]affine[E] // [rounds][B]
	mu           []sync.Mutex  // [rounds]
	one          func([]affine[E]) error
	direct       error // first failure of the one-by-one check
	seen         int
}

// NewCheckerG1 makes a checker for a list of n points of G1.
func NewCheckerG1(ctx context.Context, tasks, n int) *Checker[fp.Element, *fp.Element] {
	c := newChecker[fp.Element](ctx, tasks, n)
	c.one = func(ps []affine[fp.Element]) error { return SubgroupG1(ctx, tasks, recast[bls.G1Affine](ps)) }
	return c
}

// NewCheckerG2 makes a checker for a list of n points of G2.
func NewCheckerG2(ctx context.Context, tasks, n int) *Checker[bls.E2, *bls.E2] {
	c := newChecker[bls.E2](ctx, tasks, n)
	c.one = func(ps []affine[bls.E2]) error { return SubgroupG2(ctx, tasks, recast[bls.G2Affine](ps)) }
	return c
}

func newChecker[E any, P elem[E]](ctx context.Context, tasks, n int) *Checker[E, P] {
	c := &Checker[E, P]{ctx: ctx, tasks: max(1, tasks)}
	c.logB, c.rounds = plan(n)
	c.sums = make([][]affine[E], c.rounds)
	for i := range c.sums {
		c.sums[i] = make([]affine[E], 1<<c.logB)
	}
	c.mu = make([]sync.Mutex, c.rounds)
	return c
}

// recast views points of one type as another of the same layout.
func recast[T, S any](ps []S) []T {
	if len(ps) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&ps[0])), len(ps))
}

// AddG1 is Add for points of G1, which must be on the curve.
func AddG1(c *Checker[fp.Element, *fp.Element], ps []bls.G1Affine) error {
	return c.add(recast[affine[fp.Element]](ps))
}

// AddG2 is Add for points of G2.
func AddG2(c *Checker[bls.E2, *bls.E2], ps []bls.G2Affine) error {
	return c.add(recast[affine[bls.E2]](ps))
}

// chunk bounds the scratch of a worker: 6 MiB for G1, 12 MiB for G2.
const chunk = 1 << 16

func (c *Checker[E, P]) add(ps []affine[E]) error {
	if c.rounds == 0 {
		err := c.one(ps)
		if bad, ok := err.(*BadPoint); ok {
			if c.direct == nil {
				c.direct = &BadPoint{Index: c.seen + bad.Index, What: bad.What}
			}
			err = nil
		}
		c.seen += len(ps)
		return err
	}
	c.seen += len(ps)
	nChunks := (len(ps) + chunk - 1) / chunk
	return Each(c.ctx, c.tasks, nChunks*c.rounds, 1, func(i, _ int) error {
		lo := i / c.rounds * chunk
		return c.round(i%c.rounds, ps[lo:min(len(ps), lo+chunk)])
	})
}

func (c *Checker[E, P]) round(k int, ps []affine[E]) error {
	draw := make([]byte, 2*len(ps))
	if _, err := rand.Read(draw); err != nil {
		return err
	}
	mask := uint16(1)<<c.logB - 1
	start := make([]int32, 1<<c.logB+1)
	for i := range ps {
		start[binary.LittleEndian.Uint16(draw[2*i:])&mask+1]++
	}
	for b := 1; b < len(start); b++ {
		start[b] += start[b-1]
	}
	// sorted by bucket: each bucket is then a run
	sorted := make([]affine[E], len(ps))
	fill := append([]int32(nil), start[:len(start)-1]...)
	for i := range ps {
		b := binary.LittleEndian.Uint16(draw[2*i:]) & mask
		sorted[fill[b]] = ps[i]
		fill[b]++
	}
	var s adder[E, P]
	count := make([]int32, 1<<c.logB)
	for b := range count {
		count[b] = start[b+1] - start[b]
	}
	// halve every run until one point is left of each
	for {
		more := false
		for b := range count {
			run := sorted[start[b] : start[b]+count[b]]
			for j := 0; j+1 < len(run); j += 2 {
				s.push(&run[j], &run[j+1], &run[j/2])
			}
			if len(run)%2 == 1 && len(run) > 1 {
				// The last one moves down after the sums before it were written.
				s.move(&run[len(run)-1], &run[len(run)/2])
			}
			count[b] = (count[b] + 1) / 2
			more = more || count[b] > 1
		}
		s.flush()
		if !more {
			break
		}
	}
	c.mu[k].Lock()
	defer c.mu[k].Unlock()
	for b := range count {
		if count[b] == 1 {
			s.push(&c.sums[k][b], &sorted[start[b]], &c.sums[k][b])
		}
	}
	s.flush()
	return nil
}

// Bad reports whether a point of the list is outside the subgroup. The *BadPoint has the index of the first such point when
// the list was short enough to be checked one by one, else -1: find it with SubgroupG1 or SubgroupG2.
func (c *Checker[E, P]) Bad() error {
	if c.rounds == 0 {
		return c.direct
	}
	var tests []affine[E]
	var s adder[E, P]
	for k := range c.sums {
		sums := append([]affine[E](nil), c.sums[k]...)
		for half := len(sums) / 2; half > 0; half /= 2 {
			low, high := sums[:half], sums[half:2*half]
			for i := range low {
				s.push(&low[i], &high[i], &low[i])
			}
			s.flush()
			for n := half; n > 1; n /= 2 {
				for j := 0; j < n; j += 2 {
					s.push(&high[j], &high[j+1], &high[j/2])
				}
				s.flush()
			}
			tests = append(tests, high[0])
		}
	}
	err := c.one(tests)
	if _, bad := err.(*BadPoint); bad {
		return &BadPoint{Index: -1, What: notInSubgroup}
	}
	return err
}

// adder adds pairs of affine points, batchPairs of them with one inversion (Montgomery's trick). Infinity is (0, 0).
type adder[E any, P elem[E]] struct {
	n          int
	a, b, dst  [batchPairs]*affine[E]
	den, parts [batchPairs]E
	kind       [batchPairs]uint8
	acc        E // scratch lives here: locals would escape to the heap through the type parameter's methods
	l, t       E
	x          E
}

const (
	kindAdd    = iota
	kindDouble // equal points
	kindCancel // opposite points: infinity
	kindFirst  // second is infinity, or a move
	kindSecond // first is infinity
)

func (s *adder[E, P]) move(from, to *affine[E]) {
	if s.n == batchPairs {
		s.flush()
	}
	s.a[s.n], s.b[s.n], s.dst[s.n], s.kind[s.n] = from, from, to, kindFirst
	P(&s.den[s.n]).SetOne()
	s.n++
}

// push queues dst = a + b. Reads of later pairs must not be of places that earlier pairs write, which the runs above keep.
func (s *adder[E, P]) push(a, b, dst *affine[E]) {
	if s.n == batchPairs {
		s.flush()
	}
	i := s.n
	s.n++
	s.a[i], s.b[i], s.dst[i] = a, b, dst
	den := P(&s.den[i])
	switch {
	case P(&b.X).IsZero() && P(&b.Y).IsZero():
		s.kind[i] = kindFirst
		den.SetOne()
	case P(&a.X).IsZero() && P(&a.Y).IsZero():
		s.kind[i] = kindSecond
		den.SetOne()
	case P(&a.X).Equal(&b.X):
		if P(&a.Y).Equal(&b.Y) {
			s.kind[i] = kindDouble
			den.Double(&a.Y)
		} else {
			s.kind[i] = kindCancel
			den.SetOne()
		}
	default:
		s.kind[i] = kindAdd
		den.Sub(&b.X, &a.X)
	}
}

func (s *adder[E, P]) flush() {
	if s.n == 0 {
		return
	}
	acc := P(&s.acc)
	acc.SetOne()
	for i := range s.n {
		s.parts[i] = s.acc
		acc.Mul(acc, &s.den[i])
	}
	acc.Inverse(acc)
	for i := s.n - 1; i >= 0; i-- {
		P(&s.parts[i]).Mul(&s.parts[i], acc)
		acc.Mul(acc, &s.den[i])
	}
	l, t, x := P(&s.l), P(&s.t), P(&s.x)
	for i := range s.n {
		a, b := s.a[i], s.b[i]
		switch s.kind[i] {
		case kindFirst:
			*s.dst[i] = *a
			continue
		case kindSecond:
			*s.dst[i] = *b
			continue
		case kindCancel:
			*s.dst[i] = affine[E]{}
			continue
		}
		if s.kind[i] == kindDouble {
			t.Square(&a.X)
			l.Double(t)
			l.Add(l, t)
		} else {
			l.Sub(&b.Y, &a.Y)
		}
		l.Mul(l, &s.parts[i])
		x.Square(l)
		x.Sub(x, &a.X)
		x.Sub(x, &b.X)
		t.Sub(&a.X, x)
		t.Mul(t, l)
		t.Sub(t, &a.Y)
		*s.dst[i] = affine[E]{s.x, s.t}
	}
	s.n = 0
}
