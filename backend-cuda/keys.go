package cuda

import (
	"context"
	"errors"
	"time"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// key is a key that is loaded, or being loaded. Fields but users are fixed once ready is closed.
type key struct {
	id    string
	ready chan struct{}
	err   error // of the load

	g         *gpu
	shape     groth16.Shape
	vk        groth16.VerifyingKey
	plan      *plan
	block     cudalib.Block // what is resident
	sections  [nbSections]cudalib.Addr
	index     [nbSections]cudalib.Addr // wires of the points, of A, B1 and B2
	tables    cudalib.Addr
	hasTables bool

	evaluates bool
	hasC      bool
	coeffs    cudalib.Addr
	nbCoeffs  int
	rows      [3]matrix

	file     *keyfile.Key // open while something of it is streamed
	resident int64        // host bytes

	users int // proofs at work; guarded by Backend.mu
}

// matrix is where a matrix lies on the device; nothing of it when it is streamed.
type matrix struct {
	start, wire, coeff cudalib.Addr
	host               *r1cs.Matrix // when it is streamed
	terms              int
}

// LoadKey implements contract.Prover. Calls that ask for one id at the same time share one load; a failed load leaves nothing behind, nor does one whose
// caller gave up before it was done: nobody would know of its key.
func (b *Backend) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	const op = "load key"
	if req.KeyID == "" {
		return nil, errs.New(errs.InvalidArgument, op, "no key id")
	}
	start := time.Now()
	for {
		b.mu.Lock()
		k, there := b.keys[req.KeyID]
		if !there {
			k = &key{id: req.KeyID, ready: make(chan struct{})}
			b.keys[req.KeyID] = k
		}
		b.mu.Unlock()
		if !there {
			b.load(ctx, k, req)
		} else {
			select {
			case <-k.ready:
			case <-ctx.Done():
				return nil, errs.Wrap(ctx.Err(), op)
			}
		}
		switch {
		case k.err == nil:
			return &contract.LoadedKey{Shape: k.shape, ResidentBytes: k.resident, Elapsed: time.Since(start)}, nil
		case there && errs.Is(k.err, errs.Canceled) && ctx.Err() == nil:
			continue // the one who loaded gave up, this caller did not
		}
		return nil, errs.Wrap(k.err, op)
	}
}

// load opens a key that is in the map already and says so to those who wait for it.
func (b *Backend) load(ctx context.Context, k *key, req *contract.LoadKeyRequest) {
	defer close(k.ready)
	if k.err = b.open(ctx, k, req); k.err == nil {
		if k.err = errs.Wrap(ctx.Err(), "read key"); k.err == nil {
			return
		}
	}
	_ = k.forget() // the first error says more
	b.mu.Lock()
	delete(b.keys, k.id)
	b.mu.Unlock()
}

// UnloadKey implements contract.Prover. A key in use is refused with errs.Conflict, retryable.
func (b *Backend) UnloadKey(_ context.Context, id string) error {
	b.mu.Lock()
	k, ok := b.keys[id]
	if !ok {
		b.mu.Unlock()
		return nil
	}
	select {
	case <-k.ready:
	default:
		b.mu.Unlock()
		return inUse(id, "it is being loaded")
	}
	if k.users > 0 {
		b.mu.Unlock()
		return inUse(id, "a proof uses it")
	}
	delete(b.keys, id)
	b.mu.Unlock()
	return errs.Wrap(k.forget(), "unload key")
}

func inUse(id, why string) error {
	e := errs.New(errs.Conflict, "unload key", "key %s cannot be unloaded now: %s", id, why)
	e.Retryable = true
	return e
}

// acquire takes a reference to a loaded key.
func (b *Backend) acquire(id string) (*key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k, ok := b.keys[id]; ok {
		select {
		case <-k.ready:
			if k.err == nil {
				k.users++
				return k, nil
			}
		default:
		}
	}
	return nil, errs.New(errs.NotFound, "prove", "key %s is not loaded", id)
}

func (b *Backend) release(k *key) {
	b.mu.Lock()
	k.users--
	b.mu.Unlock()
}

// forget gives back all that the key holds; nobody uses it. It may be called for a key that is half loaded.
func (k *key) forget() error {
	var all []error
	if g := k.g; g != nil {
		all = append(all, g.vram.free(forKeys, &k.block))
		if k.hasTables {
			all = append(all, g.dropTables(k.shape.LogDomain))
			k.hasTables = false
		}
		g.mu.Lock()
		delete(g.demands, k)
		g.mu.Unlock()
		t := g.target(demand{})
		if t.lanes == 0 {
			t.lanes = g.opts.Lanes
		}
		all = append(all, g.lanes.settle(t.lanes, t.bytes))
		if g.dev.Lost() != nil {
			all = nil // with the process everything is given back
		}
	}
	if k.file != nil {
		all = append(all, k.file.Close())
		k.file = nil
	}
	return errors.Join(all...)
}
