package cpu

import (
	"context"
	"errors"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
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
	o := keyfile.Options{
		Name: req.Key.Name, Map: true, PointsOnly: true, CheckSubgroup: !req.Trusted, Tasks: b.threads(req.Threads),
		// On the odd coset the scalars of H are values, not coefficients: one transform less.
		PreferOddCoset: true,
	}
	// A circuit is read for the one format that needs it. Of a .wkey the checksums are compared at every load: a damaged point would cost a proof, which is
	// then refused, and nobody would know why.
	kind, err := keyfile.Sniff(file, file.Size())
	if err != nil {
		return err
	}
	if kind == keyfile.Params && req.Circuit != nil {
		if o.Circuit, err = b.circuit(ctx, req.Circuit, o.Tasks); err != nil {
			return err
		}
	}
	open, err := keyfile.OpenKey(ctx, file.OSFile(), o)
	if err != nil {
		return err
	}
	if err := b.adopt(k, open.ProvingKey, open.Mapped(), o.Tasks); err != nil {
		_, _ = open.Close(), k.tables.Close() // the first error says more
		return err
	}
	k.close = func() error { return errors.Join(open.Close(), k.tables.Close()) }
	if open.Mapped() {
		k.release = func(s section) {
			open.Release(map[section]keyfile.Section{sectionA: wkey.SecA, sectionB1: wkey.SecB1, sectionB2: wkey.SecB2, sectionK: wkey.SecK, sectionH: open.HSection()}[s])
		}
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
	return setup.Answer(ctx, b.resolver, req, setup.Options{Tasks: b.threads(req.Threads), Progress: progress}, "weir "+b.opts.Version)
}
