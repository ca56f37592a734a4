package setup

import (
	"context"
	"time"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// Answer is what a backend does for contract.KeyMaker: it makes the key that req asks for and writes it to the request's file. The request decides the scalars, row order
// and basis of the options; creator is who made the key.
func Answer(ctx context.Context, r slab.Resolver, req *contract.MakeKeyRequest, opts Options, creator string) (*contract.LoadedKey, error) {
	const op = "make key"
	start := time.Now()
	var err error
	switch {
	case req.Scalars != nil && len(req.Seed) > 0:
		return nil, errs.New(errs.InvalidArgument, op, "both a seed and scalars are given")
	case req.Scalars != nil:
		opts.Scalars, err = Given(req.Scalars)
	case len(req.Seed) > 0:
		opts.Scalars, err = Seeded(req.Seed)
	default:
		opts.Scalars, err = Random()
	}
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	defer opts.Scalars.Forget()
	out, err := r.File(req.Out)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	if opts.Progress != nil {
		opts.Progress("read circuit", 0)
	}
	file, err := r.File(req.Circuit.Handle)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	sys, err := keyfile.OpenCircuit(ctx, file, file.Size(), opts.Tasks)
	if err != nil {
		return nil, errs.Wrap(errs.InFile(err, req.Circuit.Name), op)
	}
	opts.Rows, opts.H = req.Rows, req.H
	shape, err := Write(ctx, out.OSFile(), sys, opts, creator)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	return &contract.LoadedKey{Shape: *shape, Elapsed: time.Since(start)}, nil
}
