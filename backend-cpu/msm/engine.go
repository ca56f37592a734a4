package msm

import (
	"context"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/backend-cpu/internal/digits"
	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
)

// sum adds up the terms over the given points, chunk by chunk.
func (e engine[P, J]) sum(ctx context.Context, points []P, t terms, tasks int) (J, error) {
	total := e.infinity()
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	if t.n == 0 {
		return total, ctx.Err()
	}
	defer e.mem.Reset(e.mem.Mark())
	c := e.newChunk(e.plan(min(t.n, MaxChunk), tasks))
	defer c.forget()
	for lo := 0; lo < t.n; lo += MaxChunk {
		part, err := c.sum(ctx, points, t, lo, min(lo+MaxChunk, t.n))
		if err != nil {
			return total, err
		}
		e.add(&total, &part)
	}
	return total, nil
}

// plan says how a chunk of n terms is cut and what memory that takes.
type plan struct {
	digits.Window
	n       int
	teams   int // work on windows of their own
	members int // of each team work on its window together
	block   int // terms that a member takes at a time; their points should lie in the outer cache
	piece   int // terms that are added up at once, at most
	parts   int // the buckets are cut in parts, which a member adds to one after the other
	low     int // log2 of the buckets in a part
	lines   int // lines of the weighted sum, see reduce
}

const (
	minShared = 1 << 14 // terms from which on the tasks share each window
	minBlock  = 1 << 12
	maxBlock  = 1 << 16 // 6 MiB of G1 points
)

func (e engine[P, J]) plan(n, tasks int) plan {
	if tasks <= 0 {
		tasks = runtime.GOMAXPROCS(0)
	}
	p := plan{Window: chooseWindow(n), n: n, teams: tasks, members: 1}
	if n >= minShared {
		p.members = min(tasks, maxInner)
		p.teams = (tasks + p.members - 1) / p.members
	}
	p.teams = min(p.teams, p.Count)
	p.block = min(n, maxBlock, max(minBlock, n/(4*p.members)))
	e.cut(&p)
	return p
}

// cut chooses the pieces, parts and lines of a plan. Where scalars are uniform a part has at most half as many terms of a block as a piece may have.
func (e engine[P, J]) cut(p *plan) {
	p.piece = min(p.n, 2*e.batch())
	p.parts = 1
	for p.parts < p.Values() && p.block/p.parts > e.batch() {
		p.parts *= 2
	}
	p.low = bits.Len(uint(p.Values()/p.parts)) - 1
	p.lines = 1
	for p.lines < p.members*e.batch()/2 && p.lines*4 < p.Values() {
		p.lines *= 2
	}
}

func (e engine[P, J]) scratch(n, tasks int) int64 {
	if n <= 0 {
		return 0
	}
	p := e.plan(min(n, MaxChunk), tasks)
	pt, s, b := e.pointBytes(), p.piece, 1<<p.low
	member := 8*p.block + 4*p.parts + s*(pt+4+affine.RunsBytes) + b*(4+4+4+4) + e.batch()*e.kernelBytes()
	team := pt*(p.Values()+4*p.lines) + 8*p.parts + p.lines*2*12 + p.members*member
	return int64(p.n)*36 + int64(p.teams)*int64(team)
}

// ScratchG1 is the memory in bytes that G1 allocates for n terms and the given tasks: 36 bytes a term of a chunk, 96 bytes for each
// bucket of each window that is in work at once, and some 800 KiB a task.
func ScratchG1(n, tasks int) int64 { return newEngineG1(nil).scratch(n, tasks) }

// ScratchG2 is ScratchG1 for the other group, with 192 bytes a bucket.
func ScratchG2(n, tasks int) int64 { return newEngineG2(nil).scratch(n, tasks) }

// chunk is the memory in which chunks of up to n terms are summed.
type chunk[P, J any] struct {
	engine[P, J]
	plan
	scalars []digits.Recoded
	base    []uint32 // index of each term's point
	team    []*team[P, J]
}

// team is the memory in which one window at a time is summed.
type team[P, J any] struct {
	engine[P, J]
	plan
	bucket  []P          // and behind the buckets what reduce wants: four points for each line
	locks   []sync.Mutex // one a part of the buckets
	ops     affine.Ops   // two for each line
	members []member[P]
}

// member is the memory of one goroutine.
type member[P any] struct {
	k     affine.Kernel[P]
	order []uint64 // the terms of a block that have a digit, sorted by part, see entry
	ends  []uint32 // for each part, where it ends in order
	work  []P      // points of a piece in the order of their buckets
	idx   []uint32 // their indices
	count []uint32 // for each bucket of a part, its terms in a piece; then where they begin
	lens  []uint32 // length of each run of points with the same bucket
	at    []uint32 // where its sum is in work
	ids   []uint32 // its bucket
	runs  *affine.Runs
}

// entry is a term in a window: the number of its bucket in its part (32 bits), the sign and the index of its point (32 bits).
func entry(bucket, point, neg uint32) uint64 { return uint64(bucket)<<32 | uint64(point|neg<<31) }

func (e engine[P, J]) newChunk(p plan) *chunk[P, J] {
	c := &chunk[P, J]{engine: e, plan: p, scalars: arena.Take[digits.Recoded](e.mem, p.n), base: arena.Take[uint32](e.mem, p.n)}
	for range p.teams {
		c.team = append(c.team, e.newTeam(p))
	}
	return c
}

// forget overwrites the scalars, their digits and the sums.
func (c *chunk[P, J]) forget() {
	clear(c.scalars)
	clear(c.base)
	for _, t := range c.team {
		clear(t.bucket)
		for i := range t.members {
			m := &t.members[i]
			clear(m.order)
			clear(m.work)
			clear(m.idx)
			m.runs.Forget()
		}
	}
}

func (e engine[P, J]) newTeam(p plan) *team[P, J] {
	t := &team[P, J]{
		engine: e,
		plan:   p,
		bucket: arena.Take[P](e.mem, p.Values()+4*p.lines),
		locks:  make([]sync.Mutex, p.parts),
		ops:    affine.NewOps(2 * p.lines),
	}
	s, b := p.piece, 1<<p.low
	for range p.members {
		t.members = append(t.members, member[P]{
			k: e.kernel(e.batch()), order: arena.Take[uint64](e.mem, p.block), ends: make([]uint32, p.parts),
			work: arena.Take[P](e.mem, s), idx: arena.Take[uint32](e.mem, s), runs: affine.NewRuns(s),
			count: arena.Take[uint32](e.mem, b), lens: arena.Take[uint32](e.mem, b), at: arena.Take[uint32](e.mem, b), ids: arena.Take[uint32](e.mem, b),
		})
	}
	return t
}

// sum adds up terms lo to hi.
func (c *chunk[P, J]) sum(ctx context.Context, points []P, t terms, lo, hi int) (J, error) {
	total := c.infinity()
	n := hi - lo
	tasks := c.teams * c.plan.members
	parallel.Each(tasks, func(k int) {
		from, to := parallel.Share(n, tasks, k)
		for i := from; i < to; i++ {
			s, at := t.at(lo + i)
			c.scalars[i], c.base[i] = c.Recode(s), at
		}
	})
	values := make([]J, c.Count)
	var next atomic.Int64
	parallel.Each(c.teams, func(k int) {
		for ctx.Err() == nil {
			w := int(next.Add(1)) - 1
			if w >= c.Count {
				return
			}
			values[w] = c.team[k].value(ctx, points, c.scalars[:n], c.base[:n], c.Reader(w))
		}
	})
	if err := ctx.Err(); err != nil {
		return total, err
	}
	for w := c.Count - 1; w >= 0; w-- {
		for range c.C {
			c.double(&total)
		}
		c.add(&total, &values[w])
	}
	return total, nil
}

// value returns the value of one window. What it returns when ctx ends is of no use.
func (t *team[P, J]) value(ctx context.Context, points []P, scalars []digits.Recoded, base []uint32, r digits.Reader) J {
	clear(t.bucket)
	var next atomic.Int64
	var filled atomic.Bool
	parallel.Each(len(t.members), func(id int) {
		m := &t.members[id]
		for ctx.Err() == nil {
			lo := (int(next.Add(1)) - 1) * t.block
			if lo >= len(scalars) {
				return
			}
			hi := min(lo+t.block, len(scalars))
			if m.sort(scalars[lo:hi], base[lo:hi], r, t.low) == 0 {
				continue
			}
			filled.Store(true)
			for i := range t.parts { // every member begins elsewhere, so that locks are free
				t.addPart(m, points, (i+id*t.parts/len(t.members))%t.parts)
			}
		}
	})
	if !filled.Load() {
		return t.infinity()
	}
	return t.reduce(ctx)
}

// sort puts the terms that have a digit in the order of their parts and returns their number. There are so few parts that what is written to all
// of them stays in the inner caches; the rest of the sorting is done part by part.
func (m *member[P]) sort(scalars []digits.Recoded, base []uint32, r digits.Reader, low int) int {
	clear(m.ends)
	for i := range scalars {
		if d, _ := r.Digit(&scalars[i]); d != 0 {
			m.ends[(d-1)>>low]++
		}
	}
	at := uint32(0)
	for p, n := range m.ends {
		m.ends[p], at = at, at+n
	}
	if at == 0 {
		return 0
	}
	mask := uint32(1)<<low - 1
	for i := range scalars {
		if d, neg := r.Digit(&scalars[i]); d != 0 {
			to := &m.ends[(d-1)>>low]
			m.order[*to] = entry((d-1)&mask, base[i], neg)
			*to++
		}
	}
	return int(at)
}

// addPart adds the terms of one part of a block to the buckets.
func (t *team[P, J]) addPart(m *member[P], points []P, part int) {
	lo, hi := 0, int(m.ends[part])
	if part > 0 {
		lo = int(m.ends[part-1])
	}
	bucket := t.bucket[part<<t.low:][:1<<t.low]
	for ; lo < hi; lo += t.piece {
		order := m.order[lo:min(lo+t.piece, hi)]
		runs := m.sortPiece(order)
		affine.SumRuns(m.k, m.work, points, m.idx[:len(order)], m.lens[:runs], m.at[:runs], m.runs)
		ids := m.ids[:runs]
		t.locks[part].Lock()
		m.k.Add(bucket, bucket, m.work, affine.Ops{Dst: ids, A: ids, B: m.at[:runs]})
		t.locks[part].Unlock()
	}
}

// sortPiece writes the points of a piece to idx in the order of their buckets, and the lengths and buckets of the runs to lens and ids.
func (m *member[P]) sortPiece(order []uint64) (runs int) {
	clear(m.count)
	for _, e := range order {
		m.count[e>>32]++
	}
	at := uint32(0)
	for b, c := range m.count {
		if c != 0 {
			m.lens[runs], m.ids[runs] = c, uint32(b)
			runs++
		}
		m.count[b], at = at, at+c
	}
	for _, e := range order {
		to := &m.count[e>>32]
		m.idx[*to] = uint32(e)
		*to++
	}
	return runs
}

// reduce returns the sum of (b+1) * bucket[b]. The buckets are cut in lines of equal length. In each line, from its end, S += bucket and T
// += S give its sum and its weighted sum; all lines go in step, so that the additions of a step are one batch: T takes the S of the step before, and S
// has two places in turn. Then the total is sum(T) + length * sum(line number * S).
func (t *team[P, J]) reduce(ctx context.Context) J {
	values := t.Values()
	length := values / t.lines
	place := func(which, line int) uint32 { return uint32(values + which*t.lines + line) } // 0 and 1: S, 2: T, 3: copies of buckets
	parallel.Each(min(len(t.members), t.lines), func(m int) {
		lo, hi := parallel.Share(t.lines, min(len(t.members), t.lines), m)
		ops := t.ops.Slice(2*lo, 2*hi)
		k := t.members[m].k
		near := k.Near() // the buckets of a step are far apart
		for j := length - 1; j >= -1 && ctx.Err() == nil; j-- {
			if near && j >= 0 {
				to, from := ops.Dst[:hi-lo], ops.A[:hi-lo]
				for i := range to {
					to[i], from[i] = place(3, lo+i), uint32((lo+i)*length+j)
				}
				k.Copy(t.bucket, t.bucket, to, from)
			}
			n := 0
			set := func(dst, a, b uint32) {
				ops.Dst[n], ops.A[n], ops.B[n] = dst, a, b
				n++
			}
			before := (length - j) & 1 // S lies where in turn
			for i := lo; i < hi; i++ {
				if j >= 0 {
					b := uint32(i*length + j)
					if near {
						b = place(3, i)
					}
					set(place(1-before, i), place(before, i), b)
				}
				if j < length-1 {
					set(place(2, i), place(2, i), place(before, i))
				}
			}
			k.Add(t.bucket, t.bucket, t.bucket, ops.Slice(0, n))
		}
	})
	total, weighted, running := t.infinity(), t.infinity(), t.infinity()
	last := (length + 1) & 1
	for i := t.lines - 1; i >= 0; i-- {
		t.addAffine(&total, &t.bucket[place(2, i)])
		if i > 0 {
			t.addAffine(&running, &t.bucket[place(last, i)])
			t.add(&weighted, &running)
		}
	}
	for l := length; l > 1; l /= 2 {
		t.double(&weighted)
	}
	t.add(&total, &weighted)
	return total
}
