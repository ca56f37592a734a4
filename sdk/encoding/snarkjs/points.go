package snarkjs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// pointsPerChunk points are read, checked and placed at a time by one goroutine. A multiple of 64, so that no two workers share a word of a bitmap.
const pointsPerChunk = 4096

// ReadOptions says how the points of a key are read.
type ReadOptions struct {
	// Tasks is how many goroutines read and check; 0 means GOMAXPROCS.
	Tasks int
	// Subgroup asks that every point is tested to be in the subgroup of order r (in batches, some microseconds a point; being on the curve is always tested), and that B1 and B2,
	// beta1 and beta2, delta1 and delta2 are multiples by the same numbers. For a key that comes from elsewhere, once.
	Subgroup bool
}

func (o ReadOptions) tasks() int {
	if o.Tasks > 0 {
		return o.Tasks
	}
	return runtime.GOMAXPROCS(0)
}

// modulus is q, least significant limb first.
var modulus = func() (m [fp.Limbs]uint64) {
	b := fp.Modulus().FillBytes(make([]byte, fp.Bytes))
	for i := range m {
		m[i] = binary.BigEndian.Uint64(b[fp.Bytes-8*(i+1):])
	}
	return m
}()

// decodeFp reads six little-endian limbs in Montgomery form (R = 2^384): the memory image of fp.Element. False when they are not below q.
func decodeFp(x *fp.Element, b []byte) bool {
	_ = b[fp.Bytes-1]
	var borrow uint64
	for i := range x {
		x[i] = binary.LittleEndian.Uint64(b[8*i:])
		_, borrow = bits.Sub64(x[i], modulus[i], borrow)
	}
	return borrow == 1
}

func encodeFp(b []byte, x *fp.Element) {
	for i := range x {
		binary.LittleEndian.PutUint64(b[8*i:], x[i])
	}
}

// decodeG1 reads x and y; infinity is all zero. It checks that the point is on the curve.
func decodeG1(p *bls.G1Affine, b []byte) bool {
	return decodeFp(&p.X, b) && decodeFp(&p.Y, b[fp.Bytes:]) && p.IsOnCurve()
}

// decodeG2 reads x.c0, x.c1, y.c0, y.c1.
func decodeG2(p *bls.G2Affine, b []byte) bool {
	return decodeFp(&p.X.A0, b) && decodeFp(&p.X.A1, b[fp.Bytes:]) && decodeFp(&p.Y.A0, b[2*fp.Bytes:]) && decodeFp(&p.Y.A1, b[3*fp.Bytes:]) && p.IsOnCurve()
}

func encodeG1(b []byte, p *bls.G1Affine) {
	encodeFp(b, &p.X)
	encodeFp(b[fp.Bytes:], &p.Y)
}

func encodeG2(b []byte, p *bls.G2Affine) {
	encodeFp(b, &p.X.A0)
	encodeFp(b[fp.Bytes:], &p.X.A1)
	encodeFp(b[2*fp.Bytes:], &p.Y.A0)
	encodeFp(b[3*fp.Bytes:], &p.Y.A1)
}

// codec is what differs between sections of G1 and of G2 points.
type codec[T any] struct {
	size   int
	decode func(*T, []byte) bool
}

var (
	g1Codec = codec[bls.G1Affine]{sizeG1, decodeG1}
	g2Codec = codec[bls.G2Affine]{sizeG2, decodeG2}
)

// readPoints reads the n points of a section, checks that each is on the curve and hands them in chunks to place, which is called by several goroutines at
// a time for different chunks.
func readPoints[T any](ctx context.Context, z *ZKey, cd codec[T], s iden3.Section, n int, opt ReadOptions, place func(lo int, p []T)) error {
	type scratch struct {
		raw []byte
		pts []T
	}
	pool := sync.Pool{New: func() any {
		return &scratch{make([]byte, cd.size*min(n, pointsPerChunk)), make([]T, min(n, pointsPerChunk))}
	}}
	return points.Each(ctx, opt.tasks(), n, pointsPerChunk, func(lo, hi int) error {
		sc := pool.Get().(*scratch)
		defer pool.Put(sc)
		raw, pts := sc.raw[:cd.size*(hi-lo)], sc.pts[:hi-lo]
		if err := z.c.ReadAt(s, raw, int64(lo)*int64(cd.size)); err != nil {
			return err
		}
		for i := range pts {
			if !cd.decode(&pts[i], raw[i*cd.size:]) {
				return z.badPoint(s, lo+i, cd.size, "a point of the curve, coordinates below q")
			}
		}
		place(lo, pts)
		return nil
	})
}

// subgroupG1 tests points that were read from a section; index tells which of the section's points ps[i] is.
func (z *ZKey) subgroupG1(ctx context.Context, s iden3.Section, ps []bls.G1Affine, opt ReadOptions, index func(i int) int) error {
	c := points.NewCheckerG1(ctx, opt.tasks(), len(ps))
	if err := points.AddG1(c, ps); err != nil {
		return err
	}
	if c.Bad() == nil {
		return nil
	}
	return z.outside(s, sizeG1, points.SubgroupG1(ctx, opt.tasks(), ps), index)
}

// subgroupG2 is subgroupG1 for points of the twist.
func (z *ZKey) subgroupG2(ctx context.Context, s iden3.Section, ps []bls.G2Affine, opt ReadOptions, index func(i int) int) error {
	c := points.NewCheckerG2(ctx, opt.tasks(), len(ps))
	if err := points.AddG2(c, ps); err != nil {
		return err
	}
	if c.Bad() == nil {
		return nil
	}
	return z.outside(s, sizeG2, points.SubgroupG2(ctx, opt.tasks(), ps), index)
}

// outside names the point that a test of each found.
func (z *ZKey) outside(s iden3.Section, size int, err error, index func(i int) int) error {
	var bad *points.BadPoint
	if errors.As(err, &bad) {
		return z.badPoint(s, index(bad.Index), size, "a point of the subgroup of order r")
	}
	return err
}

func identity(i int) int { return i }

func (z *ZKey) badPoint(s iden3.Section, i, size int, expected string) error {
	return z.c.Bad(errs.InvalidFile, fmt.Sprintf("section %d, offset %d, point %d", s.ID, s.Offset+int64(i)*int64(size), i), expected, "another value")
}

// finite finds which of the n points of a section are not infinity (all zero bytes), without decoding them.
func (z *ZKey) finite(ctx context.Context, s iden3.Section, n, size, tasks int) (groth16.Bitmap, error) {
	bm := groth16.NewBitmap(n)
	pool := sync.Pool{New: func() any {
		b := make([]byte, size*min(n, pointsPerChunk))
		return &b
	}}
	err := points.Each(ctx, tasks, n, pointsPerChunk, func(lo, hi int) error {
		buf := pool.Get().(*[]byte)
		defer pool.Put(buf)
		raw := (*buf)[:size*(hi-lo)]
		if err := z.c.ReadAt(s, raw, int64(lo)*int64(size)); err != nil {
			return err
		}
		for i := lo; i < hi; i++ {
			p := raw[(i-lo)*size : (i-lo+1)*size]
			var or uint64
			for ; len(p) > 0 && or == 0; p = p[8:] {
				or |= binary.LittleEndian.Uint64(p)
			}
			if or != 0 {
				bm.Set(i)
			}
		}
		return nil
	})
	return bm, err
}

// ranks is the number of ones before each chunk, and in all.
func ranks(bm groth16.Bitmap) (before []int, all int) {
	for k := range bm {
		if k%(pointsPerChunk/64) == 0 {
			before = append(before, all)
		}
		all += bits.OnesCount64(bm[k])
	}
	return before, all
}
