package bellman

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// Options of reading points.
type Options struct {
	Tasks         int  // goroutines; at least one is used
	CheckSubgroup bool // test every point for the subgroup of order r: some 2 us a point of G1, 4 us of G2 for long lists
}

// Params is an open .params file.
type Params struct {
	Layout
	r io.ReaderAt
}

// Open reads the layout. r is used until the last call on the result.
func Open(r io.ReaderAt, size int64) (*Params, error) {
	l, err := ReadLayout(r, size)
	if err != nil {
		return nil, err
	}
	return &Params{Layout: *l, r: r}, nil
}

// VerifyingKey reads the verifying key; its points are always checked to be finite and in the subgroup.
func (p *Params) VerifyingKey() (*groth16.VerifyingKey, error) {
	b := make([]byte, p.IC.End())
	if err := readFull(p.r, b, 0); err != nil {
		return nil, &errs.Error{Class: ioClass(err), Op: "read params", Where: "verifying key", Err: err}
	}
	return parseVerifyingKey(b, "read params")
}

// chunkPoints bounds what is held besides the points asked for: 6 or 12 MiB a chunk.
const chunkPoints = 1 << 16

// ReadG1 reads len(dst) points of a list from index lo on, on tasks goroutines, and checks that they are on the curve and, but for list l,
// finite (bellman's generator makes no infinity at all; other tools leave one in l for a variable without constraints).
func (p *Params) ReadG1(ctx context.Context, s *Section, lo int, dst []bls12381.G1Affine, tasks int) error {
	finite := s.Name != "l"
	return p.read(ctx, s, lo, len(dst), tasks, func(i int, b []byte) string {
		if bad := points.DecodeG1(&dst[i], (*[points.G1Size]byte)(b)); bad != "" {
			return bad
		}
		if finite && dst[i].IsInfinity() {
			return "infinity"
		}
		return ""
	})
}

// ReadG2 is ReadG1 for list b_g2.
func (p *Params) ReadG2(ctx context.Context, s *Section, lo int, dst []bls12381.G2Affine, tasks int) error {
	return p.read(ctx, s, lo, len(dst), tasks, func(i int, b []byte) string {
		if bad := points.DecodeG2(&dst[i], (*[points.G2Size]byte)(b)); bad != "" {
			return bad
		}
		if dst[i].IsInfinity() {
			return "infinity"
		}
		return ""
	})
}

// pieceBytes is what one goroutine reads at a time.
const pieceBytes = 1 << 18

func (p *Params) read(ctx context.Context, s *Section, lo, n, tasks int, decode func(i int, b []byte) string) error {
	if lo < 0 || n < 0 || lo > s.Count-n {
		return errs.Mismatch(errs.Internal, "read params", "list "+s.Name, fmt.Sprintf("points within 0..%d", s.Count), fmt.Sprintf("%d..%d", lo, lo+n))
	}
	per := pieceBytes / s.PointSize
	bufs := make(chan []byte, max(1, tasks)) // one a goroutine, made on first use
	return points.Each(ctx, tasks, n, per, func(a, z int) error {
		var buf []byte
		select {
		case buf = <-bufs:
		default:
			buf = make([]byte, per*s.PointSize)
		}
		defer func() {
			select {
			case bufs <- buf:
			default:
			}
		}()
		b := buf[:(z-a)*s.PointSize]
		at := s.Offset + int64(lo+a)*int64(s.PointSize)
		if err := readFull(p.r, b, at); err != nil {
			return &errs.Error{Class: ioClass(err), Op: "read params", Where: fmt.Sprintf("list %s, offset %d", s.Name, at), Err: err}
		}
		for i := a; i < z; i++ {
			if bad := decode(i, b[(i-a)*s.PointSize:]); bad != "" {
				return pointError(s, lo+i, bad)
			}
		}
		return nil
	})
}

func pointError(s *Section, i int, found string) error {
	return errs.Mismatch(errs.InvalidFile, "read params", fmt.Sprintf("list %s, point %d, offset %d", s.Name, i, s.Offset+int64(i)*int64(s.PointSize)),
		"an uncompressed finite point of BLS12-381 of order r", found).WithHint("the file is damaged, or is a key of another curve")
}

// StreamG1 reads a whole list in chunks and hands each to f, with subgroup checks if asked for. The chunk is valid until f returns. A
// point outside the subgroup is found at the end of the list, after f has seen it.
func (p *Params) StreamG1(ctx context.Context, s *Section, o Options, f func([]bls12381.G1Affine) error) error {
	buf := make([]bls12381.G1Affine, min(s.Count, chunkPoints*max(1, o.Tasks)))
	var c = points.NewCheckerG1(ctx, o.Tasks, s.Count)
	for lo := 0; lo < s.Count; lo += len(buf) {
		ps := buf[:min(len(buf), s.Count-lo)]
		if err := p.ReadG1(ctx, s, lo, ps, o.Tasks); err != nil {
			return err
		}
		if o.CheckSubgroup {
			if err := points.AddG1(c, ps); err != nil {
				return errs.Wrap(err, "read params")
			}
		}
		if err := f(ps); err != nil {
			return err
		}
	}
	if !o.CheckSubgroup {
		return nil
	}
	return p.subgroupError(ctx, s, c.Bad(), func() error {
		for lo := 0; lo < s.Count; lo += len(buf) {
			ps := buf[:min(len(buf), s.Count-lo)]
			if err := p.ReadG1(ctx, s, lo, ps, o.Tasks); err != nil {
				return err
			}
			if err := at(points.SubgroupG1(ctx, o.Tasks, ps), lo); err != nil {
				return err
			}
		}
		return nil
	})
}

// StreamG2 is StreamG1 for list b_g2.
func (p *Params) StreamG2(ctx context.Context, s *Section, o Options, f func([]bls12381.G2Affine) error) error {
	buf := make([]bls12381.G2Affine, min(s.Count, chunkPoints*max(1, o.Tasks)/2))
	c := points.NewCheckerG2(ctx, o.Tasks, s.Count)
	for lo := 0; lo < s.Count; lo += len(buf) {
		ps := buf[:min(len(buf), s.Count-lo)]
		if err := p.ReadG2(ctx, s, lo, ps, o.Tasks); err != nil {
			return err
		}
		if o.CheckSubgroup {
			if err := points.AddG2(c, ps); err != nil {
				return errs.Wrap(err, "read params")
			}
		}
		if err := f(ps); err != nil {
			return err
		}
	}
	if !o.CheckSubgroup {
		return nil
	}
	return p.subgroupError(ctx, s, c.Bad(), func() error {
		for lo := 0; lo < s.Count; lo += len(buf) {
			ps := buf[:min(len(buf), s.Count-lo)]
			if err := p.ReadG2(ctx, s, lo, ps, o.Tasks); err != nil {
				return err
			}
			if err := at(points.SubgroupG2(ctx, o.Tasks, ps), lo); err != nil {
				return err
			}
		}
		return nil
	})
}

// at moves the index of a *BadPoint by lo.
func at(err error, lo int) error {
	var bad *points.BadPoint
	if errors.As(err, &bad) {
		return &points.BadPoint{Index: lo + bad.Index, What: bad.What}
	}
	return err
}

// subgroupError turns what a checker found into an error that names the point; where it does not know the index, search does.
func (p *Params) subgroupError(ctx context.Context, s *Section, err error, search func() error) error {
	var bad *points.BadPoint
	if err == nil {
		return nil
	}
	if errors.As(err, &bad) && bad.Index < 0 {
		err = search()
	}
	if errors.As(err, &bad) {
		return pointError(s, bad.Index, "a point "+bad.What)
	}
	if err == nil {
		return errs.New(errs.Internal, "read params", "list %s: the batch check refused points that pass one by one", s.Name)
	}
	return errs.Wrap(err, "read params")
}

// ProvingKey reads the whole key for the circuit of d. Every point is checked to be on the curve, and in the subgroup if asked for.
func (p *Params) ProvingKey(ctx context.Context, d *Densities, o Options) (*groth16.ProvingKey, error) {
	if err := p.Match(d); err != nil {
		return nil, err
	}
	vk, err := p.VerifyingKey()
	if err != nil {
		return nil, err
	}
	pk := &groth16.ProvingKey{Shape: p.Shape(), VK: *vk, AWires: d.A, BWires: d.B}
	pk.NbConstraints = d.NbConstraints
	for _, x := range []struct {
		s   *Section
		dst *[]bls12381.G1Affine
	}{{&p.H, &pk.H}, {&p.L, &pk.K}, {&p.A, &pk.A}, {&p.B1, &pk.B1}} {
		*x.dst = make([]bls12381.G1Affine, x.s.Count)
		if err := p.ReadG1(ctx, x.s, 0, *x.dst, o.Tasks); err != nil {
			return nil, err
		}
		if !o.CheckSubgroup {
			continue
		}
		c := points.NewCheckerG1(ctx, o.Tasks, x.s.Count)
		if err := points.AddG1(c, *x.dst); err != nil {
			return nil, errs.Wrap(err, "read params")
		}
		if err := p.subgroupError(ctx, x.s, c.Bad(), func() error { return points.SubgroupG1(ctx, o.Tasks, *x.dst) }); err != nil {
			return nil, err
		}
	}
	pk.B2 = make([]bls12381.G2Affine, p.B2.Count)
	if err := p.ReadG2(ctx, &p.B2, 0, pk.B2, o.Tasks); err != nil {
		return nil, err
	}
	if o.CheckSubgroup {
		c := points.NewCheckerG2(ctx, o.Tasks, p.B2.Count)
		if err := points.AddG2(c, pk.B2); err != nil {
			return nil, errs.Wrap(err, "read params")
		}
		if err := p.subgroupError(ctx, &p.B2, c.Bad(), func() error { return points.SubgroupG2(ctx, o.Tasks, pk.B2) }); err != nil {
			return nil, err
		}
	}
	return pk, nil
}
