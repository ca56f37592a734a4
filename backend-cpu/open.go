package cpu

import (
	"context"
	"os"
	"time"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
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
	kind, err := keyfile.Sniff(file, file.Size())
	if err != nil {
		return err
	}
	var pk *groth16.ProvingKey
	switch kind {
	case keyfile.WKey:
		return b.openPrepared(ctx, k, file.OSFile(), req.Key.Name, tasks)
	case keyfile.ZKey:
		z, err := snarkjs.OpenZKey(file, file.Size())
		if err != nil {
			return err
		}
		if pk, err = z.ProvingKey(ctx, snarkjs.ReadOptions{Tasks: tasks, Subgroup: !req.Trusted}); err != nil {
			return err
		}
	case keyfile.Params:
		p, err := bellman.Open(file, file.Size())
		if err != nil {
			return err
		}
		if req.Circuit == nil {
			return errs.New(errs.InvalidArgument, "read key", "a bellman key does not tell which wires its points belong to").
				WithHint("give the circuit with --circuit, or import the key once with weir key import")
		}
		sys, err := b.circuit(ctx, req.Circuit, tasks)
		if err != nil {
			return err
		}
		if pk, err = p.ProvingKey(ctx, bellman.DensitiesOf(sys), bellman.Options{Tasks: tasks, CheckSubgroup: !req.Trusted}); err != nil {
			return err
		}
	default:
		return errs.Mismatch(errs.InvalidFile, "read key", "", "a proving key (.wkey, .zkey or .params)", kind)
	}
	return b.adopt(k, pk, false, tasks)
}

// openPrepared maps a .wkey. Its checksums are compared at every load: a damaged point would cost a proof, which is then refused, and nobody
// would know why.
func (b *Backend) openPrepared(ctx context.Context, k *key, f *os.File, name string, tasks int) error {
	file, err := wkey.Map(f, name)
	if err != nil {
		return err
	}
	h := wkey.SecH
	if err = file.VerifyChecksums(ctx, f, tasks); err == nil {
		var pk *groth16.ProvingKey
		// On the odd coset the scalars of H are values, not coefficients: one transform less.
		if pk, h, err = file.KeyWith(groth16.HOddCoset); err == nil {
			err = b.adopt(k, pk, file.Mapped(), tasks)
		}
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	k.close = file.Close
	k.release = func(s section) {
		file.Release(map[section]wkey.SectionID{sectionA: wkey.SecA, sectionB1: wkey.SecB1, sectionB2: wkey.SecB2, sectionK: wkey.SecK, sectionH: h}[s])
	}
	return nil
}

// circuit reads a constraint system from any file that holds one.
func (b *Backend) circuit(ctx context.Context, in *contract.Input, tasks int) (*r1cs.System, error) {
	file, err := b.resolver.File(in.Handle)
	if err != nil {
		return nil, err
	}
	sys, err := keyfile.OpenCircuit(ctx, file, file.Size(), tasks)
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
	sys, err := b.circuit(ctx, &req.Circuit, b.threads(req.Threads))
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	shape, err := setup.Write(ctx, out.OSFile(), sys, setup.Options{Scalars: scalars, Rows: req.Rows, H: req.H, Tasks: b.threads(req.Threads), Progress: progress}, "weir "+b.opts.Version)
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	return &contract.LoadedKey{Shape: *shape, Elapsed: time.Since(start)}, nil
}
