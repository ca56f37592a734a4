package cpu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// open reads the key file into k. What kind of file it is is read from its first bytes.
func (b *Backend) open(ctx context.Context, k *key, req *contract.LoadKeyRequest) error {
	file, err := b.resolver.File(req.Key.Handle)
	if err != nil {
		return err
	}
	return errs.InFile(b.openFile(ctx, k, req, file), req.Key.Name)
}

func (b *Backend) openFile(ctx context.Context, k *key, req *contract.LoadKeyRequest, file slab.FileView) error {
	tasks := b.threads(req.Threads)
	magic := make([]byte, 8)
	if n, err := file.ReadAt(magic, 0); n < len(magic) {
		if err == nil || err == io.EOF {
			return errs.Mismatch(errs.InvalidFile, "read key", "size", "a key file", fmt.Sprintf("%d bytes", file.Size()))
		}
		return errs.Wrap(err, "read key")
	}
	switch {
	case string(magic) == wkey.Magic:
		return k.openPrepared(ctx, file.OSFile(), tasks, req.Trusted)
	case bytes.HasPrefix(magic, []byte("zkey")):
		z, err := snarkjs.OpenZKey(file, file.Size())
		if err != nil {
			return err
		}
		pk, err := z.ProvingKey(ctx, snarkjs.ReadOptions{Tasks: tasks, Subgroup: !req.Trusted})
		if err != nil {
			return err
		}
		return k.adopt(pk, false)
	}
	p, err := bellman.Open(file, file.Size())
	if err != nil {
		return err
	}
	if req.Circuit == nil {
		return errs.New(errs.InvalidArgument, "read key", "a bellman key does not tell which wires its points belong to").
			WithHint("give the circuit with --circuit, or import the key once with weir key import")
	}
	sys, err := b.circuit(ctx, req.Circuit)
	if err != nil {
		return err
	}
	pk, err := p.ProvingKey(ctx, bellman.DensitiesOf(sys), bellman.Options{Tasks: tasks, CheckSubgroup: !req.Trusted})
	if err != nil {
		return err
	}
	return k.adopt(pk, false)
}

// openPrepared maps a .wkey. Its checksums are compared at every load, unless the host knows the file's digest: a damaged point would cost a
// proof, which is then refused, and nobody would know why.
func (k *key) openPrepared(ctx context.Context, f *os.File, tasks int, trusted bool) error {
	file, err := wkey.Map(f)
	if err != nil {
		return err
	}
	if !trusted {
		err = file.VerifyChecksums(ctx, f, tasks)
	}
	if err == nil {
		err = k.adopt(file.Key(), file.Mapped())
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	k.close = file.Close
	k.release = func(s section) {
		file.Release(map[section]wkey.SectionID{sectionA: wkey.SecA, sectionB1: wkey.SecB1, sectionB2: wkey.SecB2, sectionK: wkey.SecK, sectionH: wkey.SecH}[s])
	}
	return nil
}

// circuit reads a constraint system from an .r1cs file.
func (b *Backend) circuit(ctx context.Context, in *contract.Input) (*r1cs.System, error) {
	file, err := b.resolver.File(in.Handle)
	if err != nil {
		return nil, err
	}
	f, err := iden3.OpenR1CS(file, file.Size())
	if err != nil {
		return nil, errs.InFile(err, in.Name)
	}
	sys, err := f.System(ctx)
	return sys, errs.InFile(err, in.Name)
}

// MakeKey implements contract.KeyMaker.
func (b *Backend) MakeKey(ctx context.Context, req *contract.MakeKeyRequest, progress func(stage string, fraction float64)) (*contract.LoadedKey, error) {
	const op = "make key"
	start := time.Now()
	var scalars *setup.Scalars
	var err error
	switch {
	case req.Scalars != nil && len(req.Seed) > 0:
		return nil, errs.New(errs.InvalidArgument, op, "both a seed and scalars are given")
	case req.Scalars != nil:
		scalars, err = setup.Given(req.Scalars)
	case len(req.Seed) > 0:
		scalars, err = setup.Seeded(req.Seed)
	default:
		scalars, err = setup.Random()
	}
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	defer scalars.Forget()
	out, err := b.resolver.File(req.Out)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	if progress != nil {
		progress("read circuit", 0)
	}
	sys, err := b.circuit(ctx, &req.Circuit)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	shape, err := setup.Write(ctx, out.OSFile(), sys, setup.Options{Scalars: scalars, Rows: req.Rows, H: req.H, Tasks: b.threads(req.Threads), Progress: progress}, "weir "+b.opts.Version)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	return &contract.LoadedKey{Shape: *shape, Elapsed: time.Since(start)}, nil
}
