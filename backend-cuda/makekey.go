package cuda

import (
	"context"
	"errors"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/slab"
)

// MakeKey implements contract.KeyMaker: a development key, whose points the device makes by fixed-base tables. For the same scalars its bytes are the CPU backend's.
func (b *Backend) MakeKey(ctx context.Context, req *contract.MakeKeyRequest, progress func(stage string, fraction float64)) (*contract.LoadedKey, error) {
	g, err := b.device()
	if err != nil {
		return nil, err
	}
	o := setup.Options{Tasks: b.threads(req.Threads), Progress: progress}
	o.Multiplier = func(ctx context.Context, g1 *bls.G1Affine, g2 *bls.G2Affine) (setup.Multiplier, error) {
		m, err := newMultiplier(ctx, g, g1, g2, o.Tasks)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return setup.Answer(ctx, b.resolver, req, o, "weir "+b.opts.Version)
}

// mostMultiples is how many points are made at a time: what the set-up asks for at most.
const mostMultiples = 1 << 18

// multiplier makes multiples of two points on the loader's lane.
type multiplier struct {
	g       *gpu
	tasks   int
	tables  [2]cudalib.Block // of G1 and G2
	scalars cudalib.Block    // of a call, and the base before
	points  cudalib.Block
}

func newMultiplier(ctx context.Context, g *gpu, g1 *bls.G1Affine, g2 *bls.G2Affine, tasks int) (_ *multiplier, err error) {
	m := &multiplier{g: g, tasks: tasks}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for i, need := range []cudalib.Need{{LogN: -1, FixedG1: mostMultiples}, {LogN: -1, FixedG2: mostMultiples}} {
		z, err := g.dev.Sizes(need)
		if err != nil {
			return nil, err
		}
		if m.tables[i], err = g.vram.alloc(forSetup, "a table of multiples", z.FixedBase); err != nil {
			return nil, err
		}
	}
	if m.scalars, err = g.vram.alloc(forSetup, "scalars of a set-up", frBytes*mostMultiples); err != nil {
		return nil, err
	}
	if m.points, err = g.vram.alloc(forSetup, "points of a set-up", g2Bytes*mostMultiples); err != nil {
		return nil, err
	}
	for i, base := range [][]byte{slab.BytesOf([]bls.G1Affine{*g1}), slab.BytesOf([]bls.G2Affine{*g2})} {
		if err := m.run(ctx, base, func(up cudalib.Ticket) error {
			_, err := g.loader.dev.FixedBase(&cudalib.FixedBase{Group: i + 1, Base: m.scalars.At, Scalars: m.scalars.At, Points: m.points.At, MakeTable: true, Scratch: m.tables[i]}, up)
			return err
		}, nil); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// run uploads bytes to where scalars lie, makes a step of them, and brings out back. Key loads use the same lane: they wait.
func (m *multiplier) run(ctx context.Context, in []byte, step func(cudalib.Ticket) error, out []byte) error {
	select {
	case m.g.load <- struct{}{}:
		defer func() { <-m.g.load }()
	case <-ctx.Done():
		return ctx.Err()
	}
	l := m.g.loader
	return l.on.do(func() error {
		up, err := l.ring.uploadBytes(m.scalars.At, in, 0, m.tasks)
		if err != nil {
			return err
		}
		if err := step(up); err != nil {
			return err
		}
		if err := l.ring.download(out, m.points.At); err != nil {
			return err
		}
		return l.dev.Wait(cudalib.QueueWork, 0)
	})
}

func (m *multiplier) multiply(ctx context.Context, group int, out []byte, scalars []fr.Element) error {
	return m.run(ctx, slab.BytesOf(scalars), func(up cudalib.Ticket) error {
		_, err := m.g.loader.dev.FixedBase(&cudalib.FixedBase{Group: group, Scalars: m.scalars.At, N: len(scalars), Points: m.points.At, Scratch: m.tables[group-1]}, up)
		return err
	}, out)
}

// MulG1 implements setup.Multiplier.
func (m *multiplier) MulG1(ctx context.Context, points []bls.G1Affine, scalars []fr.Element) error {
	return m.multiply(ctx, 1, slab.BytesOf(points), scalars)
}

// MulG2 implements setup.Multiplier.
func (m *multiplier) MulG2(ctx context.Context, points []bls.G2Affine, scalars []fr.Element) error {
	return m.multiply(ctx, 2, slab.BytesOf(points), scalars)
}

// Close implements setup.Multiplier. The scalars of a set-up are its secrets.
func (m *multiplier) Close() error {
	var all []error
	if m.scalars.Bytes > 0 {
		l := m.g.loader
		all = append(all, l.on.do(func() error {
			_, err := l.dev.Clear(m.scalars.At, m.scalars.Bytes)
			l.ring.wipe()
			return errors.Join(err, l.dev.Wait(cudalib.QueueWork, 0))
		}))
	}
	for _, b := range []*cudalib.Block{&m.tables[0], &m.tables[1], &m.scalars, &m.points} {
		all = append(all, m.g.vram.free(forSetup, b))
	}
	return errors.Join(all...)
}
