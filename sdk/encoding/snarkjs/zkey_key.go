package snarkjs

import (
	"context"
	"fmt"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// Shape finds out which points of A and B are finite and how many rows there are: one pass over sections 4 to 7.
func (z *ZKey) Shape(ctx context.Context) (groth16.Shape, error) {
	p, err := z.Points(ctx, ReadOptions{})
	if err != nil {
		return z.Bound(), err
	}
	return p.Shape, nil
}

// List names a list of points of G1.
type List uint8

// The lists, as a groth16.ProvingKey has them.
const (
	ListA List = iota
	ListB1
	ListK
	ListH
)

var listSections = [...]uint32{ListA: secA, ListB1: secB1, ListK: secC, ListH: secH}

// Points is a key whose points are to be read, in weir's form: infinities leave A, B1 and B2 for the bitmaps, and the H points are brought from the order of
// snarkjs' root of unity into that of the generator 7. Every point is tested to be on the curve.
type Points struct {
	Shape          groth16.Shape
	AWires, BWires groth16.Bitmap

	z   *ZKey
	opt ReadOptions
	// Points of the file that a stream holds at a time: chunk enough for all goroutines, and for the subgroup check to be at its best; of H window. Section 9 is passed
	// over once for each window, since neighbours of one order are far apart in the other; so that it is not too often, windows grow with the domain.
	chunk, window int
}

// Points finds out the shape and the bitmaps: one pass over sections 4 to 7.
func (z *ZKey) Points(ctx context.Context, opt ReadOptions) (*Points, error) {
	p := &Points{Shape: z.Bound(), z: z, opt: opt}
	p.chunk, p.window = min(max(opt.tasks()*blockPoints, 1<<16), 1<<18), max(1<<18, p.Shape.NbH/16)
	n := z.h.NbWires
	b2 := groth16.Bitmap(nil)
	for _, x := range []struct {
		id   uint32
		size int
		to   *groth16.Bitmap
	}{{secA, sizeG1, &p.AWires}, {secB1, sizeG1, &p.BWires}, {secB2, sizeG2, &b2}} {
		var err error
		if *x.to, err = z.finite(ctx, z.sections[x.id], n, x.size, opt.tasks()); err != nil {
			return nil, err
		}
	}
	for i := range n {
		if p.BWires.Has(i) != b2.Has(i) {
			return nil, z.c.Bad(errs.InvalidFile, fmt.Sprintf("sections %d and %d, wire %d", secB1, secB2, i), "infinity in both or in neither", fmt.Sprintf("finite: %v, %v", p.BWires.Has(i), b2.Has(i)))
		}
	}
	var err error
	if p.Shape.NbConstraints, p.Shape.Rows, err = z.placement(ctx); err != nil {
		return nil, err
	}
	p.Shape.NbA, p.Shape.NbB = p.AWires.Count(), p.BWires.Count()
	contributions, err := z.Contributions()
	if err != nil {
		return nil, err
	}
	// Before the first contribution delta is 1, which everybody knows.
	p.Shape.Insecure = len(contributions.List) == 0
	return p, p.Shape.Validate()
}

// Count is the number of points of a list.
func (p *Points) Count(l List) int {
	return [...]int{ListA: p.Shape.NbA, ListB1: p.Shape.NbB, ListK: p.Shape.NbPrivate(), ListH: p.Shape.NbH}[l]
}

// StreamG1 reads a list in chunks and hands each to f, in order. A chunk is valid until f returns; it has at most 2^18 points, those of H a
// sixteenth of the list if that is more. A point outside the subgroup (if asked for) is found at the end of the list, after f has seen it.
func (p *Points) StreamG1(ctx context.Context, l List, f func([]bls.G1Affine) error) error {
	c := points.NewCheckerG1(ctx, p.opt.tasks(), p.Count(l))
	err := p.eachG1(ctx, l, func(ps []bls.G1Affine) error {
		if p.opt.Subgroup {
			if err := points.AddG1(c, ps); err != nil {
				return err
			}
		}
		return f(ps)
	})
	if err != nil || !p.opt.Subgroup {
		return err
	}
	if err := c.Bad(); err == nil || !isBadPoint(err) {
		return err
	}
	done, s := 0, p.z.sections[listSections[l]]
	err = p.eachG1(ctx, l, func(ps []bls.G1Affine) error {
		if err := points.SubgroupG1(ctx, p.opt.tasks(), ps); err != nil {
			return p.z.outside(s, sizeG1, err, func(i int) int { return p.inFile(l, done+i) })
		}
		done += len(ps)
		return nil
	})
	if err == nil {
		err = p.z.outside(s, sizeG1, nil, nil)
	}
	return err
}

func (p *Points) eachG1(ctx context.Context, l List, f func([]bls.G1Affine) error) error {
	s, tasks := p.z.sections[listSections[l]], p.opt.tasks()
	switch l {
	case ListA:
		return eachKept(ctx, p, g1Codec, s, p.AWires, f)
	case ListB1:
		return eachKept(ctx, p, g1Codec, s, p.BWires, f)
	}
	n, size := p.Count(l), p.chunk
	if l == ListH {
		size = p.window
	}
	buf := make([]bls.G1Affine, min(n, size))
	for lo := 0; lo < n; lo += len(buf) {
		ps := buf[:min(len(buf), n-lo)]
		var err error
		if l == ListH {
			err = p.z.readH(ctx, lo, tasks, ps)
		} else {
			err = readDense(ctx, p.z, g1Codec, s, lo, lo+len(ps), tasks, ps)
		}
		if err != nil {
			return err
		}
		if err := f(ps); err != nil {
			return err
		}
	}
	return nil
}

// eachKept streams the points of the wires in keep.
func eachKept[T any](ctx context.Context, p *Points, cd codec[T], s iden3.Section, keep groth16.Bitmap, f func([]T) error) error {
	n := p.Shape.NbWires
	buf := make([]T, min(keep.Count(), p.chunk))
	for lo := 0; lo < n; lo += p.chunk {
		k, err := readKept(ctx, p.z, cd, s, keep, lo, min(n, lo+p.chunk), p.opt.tasks(), buf)
		if err != nil {
			return err
		}
		if err := f(buf[:k]); err != nil {
			return err
		}
	}
	return nil
}

// StreamB2 is StreamG1 for the points of B in G2.
func (p *Points) StreamB2(ctx context.Context, f func([]bls.G2Affine) error) error {
	c := points.NewCheckerG2(ctx, p.opt.tasks(), p.Shape.NbB)
	s := p.z.sections[secB2]
	err := eachKept(ctx, p, g2Codec, s, p.BWires, func(ps []bls.G2Affine) error {
		if p.opt.Subgroup {
			if err := points.AddG2(c, ps); err != nil {
				return err
			}
		}
		return f(ps)
	})
	if err != nil || !p.opt.Subgroup {
		return err
	}
	if err := c.Bad(); err == nil || !isBadPoint(err) {
		return err
	}
	done := 0
	err = eachKept(ctx, p, g2Codec, s, p.BWires, func(ps []bls.G2Affine) error {
		if err := points.SubgroupG2(ctx, p.opt.tasks(), ps); err != nil {
			return p.z.outside(s, sizeG2, err, func(i int) int { return p.inFile(ListB1, done+i) })
		}
		done += len(ps)
		return nil
	})
	if err == nil {
		err = p.z.outside(s, sizeG2, nil, nil)
	}
	return err
}

// inFile is which point of its section point i of a list is.
func (p *Points) inFile(l List, i int) int {
	wires := p.AWires
	switch l {
	case ListK:
		return i
	case ListH:
		for j := range p.Shape.NbH {
			if hPosition(j, p.Shape.LogDomain) == i {
				return j
			}
		}
		return -1
	case ListB1:
		wires = p.BWires
	}
	for w := range p.Shape.NbWires {
		if wires.Has(w) {
			if i--; i < 0 {
				return w
			}
		}
	}
	return -1
}

// ProvingKey reads all points, into slices of their final size.
func (z *ZKey) ProvingKey(ctx context.Context, opt ReadOptions) (*groth16.ProvingKey, error) {
	p, err := z.Points(ctx, opt)
	if err != nil {
		return nil, err
	}
	vk, err := z.VerifyingKey(ctx)
	if err != nil {
		return nil, err
	}
	pk := &groth16.ProvingKey{Shape: p.Shape, VK: *vk, AWires: p.AWires, BWires: p.BWires}
	pk.A, pk.B1, pk.K, pk.H = make([]bls.G1Affine, p.Count(ListA)), make([]bls.G1Affine, p.Count(ListB1)), make([]bls.G1Affine, p.Count(ListK)), make([]bls.G1Affine, p.Count(ListH))
	pk.B2 = make([]bls.G2Affine, p.Shape.NbB)
	n, tasks := z.h.NbWires, opt.tasks()
	for _, read := range []func() error{
		func() error {
			_, err := readKept(ctx, z, g1Codec, z.sections[secA], p.AWires, 0, n, tasks, pk.A)
			return err
		},
		func() error {
			_, err := readKept(ctx, z, g1Codec, z.sections[secB1], p.BWires, 0, n, tasks, pk.B1)
			return err
		},
		func() error {
			_, err := readKept(ctx, z, g2Codec, z.sections[secB2], p.BWires, 0, n, tasks, pk.B2)
			return err
		},
		func() error { return readDense(ctx, z, g1Codec, z.sections[secC], 0, len(pk.K), tasks, pk.K) },
		func() error { return z.readH(ctx, 0, tasks, pk.H) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if !opt.Subgroup {
		return pk, nil
	}
	for l, ps := range [...][]bls.G1Affine{ListA: pk.A, ListB1: pk.B1, ListK: pk.K, ListH: pk.H} {
		if err := z.subgroupG1(ctx, z.sections[listSections[l]], ps, opt, func(i int) int { return p.inFile(List(l), i) }); err != nil {
			return nil, err
		}
	}
	if err := z.subgroupG2(ctx, z.sections[secB2], pk.B2, opt, func(i int) int { return p.inFile(ListB1, i) }); err != nil {
		return nil, err
	}
	if err := z.CheckHeaderPairs(); err != nil {
		return nil, err
	}
	return pk, z.samePoints(pk.B1, pk.B2, tasks)
}

// hPosition is where point i of section 9 belongs in the natural order of the generator 7. In the file, point i belongs to u' w'^i with the roots u', w' = u'^2 of
// the generator 5. Since u' = u^E with u the root of order 2N of the generator 7, u' w'^i = u^(E (2i+1)) = u w^j with j = (E (2i+1) - 1)/2 mod N.
func hPosition(i, logDomain int) int {
	mask2N := uint64(2)<<logDomain - 1
	return int((groth16.SnarkjsRootExponent * uint64(2*i+1) & mask2N) >> 1) // the product is odd: (x-1)/2
}

// CheckHeaderPairs checks that beta1 and beta2, delta1 and delta2 are multiples of the generators by the same numbers.
func (z *ZKey) CheckHeaderPairs() error {
	if err := z.samePair("beta1 and beta2", z.vk.BetaG1, z.vk.BetaG2); err != nil {
		return err
	}
	return z.samePair("delta1 and delta2", z.vk.DeltaG1, z.vk.DeltaG2)
}

func (z *ZKey) samePair(where string, p bls.G1Affine, q bls.G2Affine) error {
	_, _, g1, g2 := bls.Generators()
	return z.same(where)(points.SameMultiple(&p, &q, &g1, &g2))
}

// same makes an error of what a comparison found.
func (z *ZKey) same(where string) func(ok bool, err error) error {
	return func(ok bool, err error) error {
		switch {
		case err != nil:
			return &errs.Error{Class: errs.Internal, Op: "read .zkey", Err: err}
		case !ok:
			return z.c.Bad(errs.InvalidFile, where, "the same multiples of the two generators", "different ones")
		}
		return nil
	}
}

// samePoints checks that B1 and B2 are the same multiples of the generators.
func (z *ZKey) samePoints(b1 []bls.G1Affine, b2 []bls.G2Affine, tasks int) error {
	where := fmt.Sprintf("sections %d and %d", secB1, secB2)
	pairs, err := points.NewPairs()
	if err == nil {
		err = pairs.AddG1(b1, tasks)
	}
	if err == nil {
		err = pairs.AddG2(b2, tasks)
	}
	if err != nil {
		return z.same(where)(false, err)
	}
	_, _, g1, g2 := bls.Generators()
	return z.same(where)(pairs.Same(&g1, &g2))
}
