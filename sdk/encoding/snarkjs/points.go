package snarkjs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"runtime"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// blockPoints points are read and checked at a time by one goroutine: 1.5 MiB of G1, 3 MiB of G2. A multiple of 64, so that no two workers share a word of
// a bitmap.
const blockPoints = 1 << 14

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
	for i := range x {
		x[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	if x[fp.Limbs-1] < modulus[fp.Limbs-1] { // nearly always
		return true
	}
	var borrow uint64
	for i := range x {
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

// eachBlock reads points lo to hi-1 of a section in blocks and hands these to f, which several goroutines call at a time for different blocks: at is the
// index of the block's first point. lo is a multiple of 64.
func (z *ZKey) eachBlock(ctx context.Context, s iden3.Section, size, lo, hi, tasks int, f func(at int, raw []byte) error) error {
	return points.Each(ctx, tasks, hi-lo, blockPoints, func(a, b int) error {
		buf, _ := z.buffers.Get().(*[]byte)
		if buf == nil || cap(*buf) < size*(b-a) {
			buf = new([]byte)
			*buf = make([]byte, size*(b-a))
		}
		defer z.buffers.Put(buf)
		raw := (*buf)[:size*(b-a)]
		if err := z.c.ReadAt(s, raw, int64(lo+a)*int64(size)); err != nil {
			return err
		}
		return f(lo+a, raw)
	})
}

const onCurve = "a point of the curve, coordinates below q"

// readDense reads points lo to hi-1 of a section into dst and checks that each is on the curve.
func readDense[T any](ctx context.Context, z *ZKey, cd codec[T], s iden3.Section, lo, hi, tasks int, dst []T) error {
	return z.eachBlock(ctx, s, cd.size, lo, hi, tasks, func(at int, raw []byte) error {
		for i := range len(raw) / cd.size {
			if !cd.decode(&dst[at-lo+i], raw[i*cd.size:]) {
				return z.badPoint(s, at+i, cd.size, onCurve)
			}
		}
		return nil
	})
}

// readKept is readDense for the points in keep alone; it returns their number.
func readKept[T any](ctx context.Context, z *ZKey, cd codec[T], s iden3.Section, keep groth16.Bitmap, lo, hi, tasks int, dst []T) (int, error) {
	var before []int // kept points before each block
	n := 0
	for at := lo; at < hi; at += blockPoints {
		before = append(before, n)
		n += keep[at/64 : (min(hi, at+blockPoints)+63)/64].Count()
	}
	return n, z.eachBlock(ctx, s, cd.size, lo, hi, tasks, func(at int, raw []byte) error {
		k := before[(at-lo)/blockPoints]
		for i := range len(raw) / cd.size {
			if !keep.Has(at + i) {
				continue
			}
			if !cd.decode(&dst[k], raw[i*cd.size:]) {
				return z.badPoint(s, at+i, cd.size, onCurve)
			}
			k++
		}
		return nil
	})
}

// readH reads the points of section 9 that belong to places lo to lo+len(dst)-1 of the order of the generator 7.
func (z *ZKey) readH(ctx context.Context, lo, tasks int, dst []bls.G1Affine) error {
	s := z.sections[secH]
	return z.eachBlock(ctx, s, sizeG1, 0, 1<<z.h.LogDomain, tasks, func(at int, raw []byte) error {
		for i := range len(raw) / sizeG1 {
			j := hPosition(at+i, z.h.LogDomain) - lo
			if uint(j) >= uint(len(dst)) {
				continue
			}
			if !decodeG1(&dst[j], raw[i*sizeG1:]) {
				return z.badPoint(s, at+i, sizeG1, onCurve)
			}
		}
		return nil
	})
}

// subgroupG1 tests points that were read from a section; index tells which of the section's points ps[i] is.
func (z *ZKey) subgroupG1(ctx context.Context, s iden3.Section, ps []bls.G1Affine, opt ReadOptions, index func(i int) int) error {
	c := points.NewCheckerG1(ctx, opt.tasks(), len(ps))
	if err := points.AddG1(c, ps); err != nil {
		return err
	}
	if err := c.Bad(); err == nil || !isBadPoint(err) {
		return err
	}
	return z.outside(s, sizeG1, points.SubgroupG1(ctx, opt.tasks(), ps), index)
}

// subgroupG2 is subgroupG1 for points of the twist.
func (z *ZKey) subgroupG2(ctx context.Context, s iden3.Section, ps []bls.G2Affine, opt ReadOptions, index func(i int) int) error {
	c := points.NewCheckerG2(ctx, opt.tasks(), len(ps))
	if err := points.AddG2(c, ps); err != nil {
		return err
	}
	if err := c.Bad(); err == nil || !isBadPoint(err) {
		return err
	}
	return z.outside(s, sizeG2, points.SubgroupG2(ctx, opt.tasks(), ps), index)
}

func isBadPoint(err error) bool {
	var bad *points.BadPoint
	return errors.As(err, &bad)
}

// outside names the point that a test of each found, after the test of all together found that there is one.
func (z *ZKey) outside(s iden3.Section, size int, err error, index func(i int) int) error {
	var bad *points.BadPoint
	if errors.As(err, &bad) {
		return z.badPoint(s, index(bad.Index), size, "a point of the subgroup of order r")
	}
	if err == nil {
		return errs.New(errs.Internal, "read .zkey", "section %d: the batch check refused points that pass one by one", s.ID)
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
	err := z.eachBlock(ctx, s, size, 0, n, tasks, func(at int, raw []byte) error {
		for i := at; len(raw) > 0; i++ {
			p := raw[:size]
			raw = raw[size:]
			for len(p) > 0 && binary.LittleEndian.Uint64(p) == 0 {
				p = p[8:]
			}
			if len(p) > 0 {
				bm.Set(i)
			}
		}
		return nil
	})
	return bm, err
}
