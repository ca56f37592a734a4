package r1cs

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/groth16"
)

// Rows in the order of the generator 5 land all over the domain: row i at E*i mod N. Written one by one they cost a cache line and a page-table
// walk each, three times a row, which is more than the rest of the evaluation of a bit circuit. So they are written in two steps, as in a radix sort:
//
//  1. A row is appended to the bucket of its position (the position's high bits), in place: a bucket is a run of the vector itself, and as i -> E*i is a
//     permutation, it receives exactly as many rows as it has elements. This is a few hundred sequential streams.
//  2. Each bucket, which fits in the second-level cache, is put in order through a buffer of its size.
//
// A chunk of rows must know how many earlier rows each bucket has: they are counted first, which is one addition a row. In step 2 the rows
// of a bucket are walked in ascending order without a list: the times at which a rotation returns to an interval take three values (V. T. Sós, 1958;
// "three gap theorem"), d1, d2 and their sum.

const (
	// bucketLog is log2 of the elements of a bucket, 256 KiB, for domains up to 2^(bucketLog+maxBucketsLog); beyond that buckets grow.
	bucketLog     = 13
	maxBucketsLog = 8
	// skew turns each bucket by some elements more than the one before: the streams fill at one pace, and if they began at multiples of a
	// power of two they would all fight for the same few sets of the caches. An odd number of cache lines (33).
	skew = 66
)

// placement says where the rows of one evaluation are written.
type placement struct {
	n     uint64
	step  uint64     // E mod N; 0: row i is at i
	shift uint       // log2 of the elements of a bucket
	first [][]uint32 // chunk by chunk: rows that each bucket has before it; nil: written in place at once
}

// EvaluateScratch bounds the memory that an evaluation on a domain of 2^logDomain takes beside its buffers, in either order of rows.
func (s *System) EvaluateScratch(logDomain, tasks int) int64 {
	const fixed = 1 << 16
	counts := int64(4) << (2 * min(maxBucketsLog, max(0, logDomain-bucketLog)))
	return fixed + 8*int64(len(s.Coeffs)) + counts + int64(max(1, tasks))*fr.Bytes<<max(bucketLog, logDomain-maxBucketsLog)
}

// evaluationChunk is how many rows a worker takes at a time on a domain of n.
func evaluationChunk(n int) int { return max(chunkRows, n>>maxBucketsLog) }

func newPlacement(ctx context.Context, order groth16.RowOrder, n, tasks int) (*placement, error) {
	p := &placement{n: uint64(n)}
	if order == groth16.RowsSeven {
		return p, nil
	}
	p.step = order.Position(1, p.n)
	logN := 0
	for 1<<logN < n {
		logN++
	}
	if logN <= bucketLog+1 { // two buckets or less: all of it is in the cache
		return p, nil
	}
	p.shift = uint(max(bucketLog, logN-maxBucketsLog))
	size := evaluationChunk(n)
	p.first = make([][]uint32, n/size)
	err := eachChunk(ctx, n, size, tasks, func(lo, hi int) error {
		count := make([]uint32, p.n>>p.shift)
		for i, at := lo, p.position(lo); i < hi; i++ {
			count[at>>p.shift]++
			at = (at + p.step) & (p.n - 1)
		}
		p.first[lo/size] = count
		return nil
	})
	if err != nil {
		return nil, err
	}
	sum := make([]uint32, p.n>>p.shift)
	for _, count := range p.first {
		for b := range count {
			count[b], sum[b] = sum[b], sum[b]+count[b]
		}
	}
	return p, nil
}

func (p *placement) position(i int) uint64 {
	if p.step == 0 {
		return uint64(i)
	}
	return uint64(i) * p.step & (p.n - 1)
}

// cursor walks the rows of one chunk, which it uses up.
type cursor struct {
	p    *placement
	next []uint32
	at   uint64
}

func (p *placement) chunk(lo int) cursor {
	c := cursor{p: p, at: p.position(lo)}
	if p.first != nil {
		c.next = p.first[lo/evaluationChunk(int(p.n))]
	}
	return c
}

// advance returns where the next row is written.
func (c *cursor) advance() uint64 {
	at := c.at
	if c.p.step == 0 {
		c.at++
		return at
	}
	c.at = (at + c.p.step) & (c.p.n - 1)
	if c.next == nil {
		return at
	}
	b := at >> c.p.shift
	k := c.next[b]
	c.next[b]++
	return b<<c.p.shift + (uint64(k)+b*skew)&(1<<c.p.shift-1)
}

// settle is step 2 on all vectors.
func (p *placement) settle(ctx context.Context, vectors [][]fr.Element, tasks int) error {
	if p.first == nil {
		return nil
	}
	size := uint64(1) << p.shift
	up, down := p.returns(size)
	bufs := make(chan []fr.Element, max(1, tasks))
	defer func() { // what lay in them is secret
		close(bufs)
		for buf := range bufs {
			clear(buf)
		}
	}()
	return eachChunk(ctx, int(p.n), int(size), tasks, func(lo, hi int) error {
		var buf []fr.Element
		select {
		case buf = <-bufs:
		default:
			buf = make([]fr.Element, size)
		}
		defer func() { bufs <- buf }()
		skewed := uint64(lo) >> p.shift * skew
		start := uint64(0) // offset of the first row in the bucket
		for at := uint64(0); ; at = (at + p.step) & (p.n - 1) {
			if at-uint64(lo) < size {
				start = at - uint64(lo)
				break
			}
		}
		for _, v := range vectors {
			v := v[lo:hi]
			x := start
			for j := range size {
				buf[x] = v[(j+skewed)&(size-1)]
				rising, falling := x+up.by < size, x >= down.by
				switch {
				case rising && (!falling || up.after < down.after):
					x += up.by
				case falling:
					x -= down.by
				default:
					x = x + up.by - down.by
				}
			}
			copy(v, buf)
		}
		return nil
	})
}

// comeback is a move inside an interval and the number of rows until then.
type comeback struct{ by, after uint64 }

// returns finds the first return above and the first below, to an interval of the given size.
func (p *placement) returns(size uint64) (up, down comeback) {
	for i, at := uint64(1), p.step; up.after == 0 || down.after == 0; i, at = i+1, (at+p.step)&(p.n-1) {
		if at < size && up.after == 0 {
			up = comeback{at, i}
		}
		if p.n-at < size && down.after == 0 {
			down = comeback{p.n - at, i}
		}
	}
	return up, down
}
