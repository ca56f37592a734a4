package cpu

import (
	"context"
	"time"
	"unsafe"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/backend-cpu/msm"
	"github.com/weir-zk/weir/backend-cpu/ntt"
	"github.com/weir-zk/weir/internal/procmem"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// section names the point vectors of a key.
type section int

const (
	sectionA section = iota
	sectionB1
	sectionB2
	sectionK
	sectionH
)

// key is a key that is loaded, or being loaded. Fields but users are fixed once ready is closed.
type key struct {
	id    string
	ready chan struct{}
	err   error // of the load

	pk       *groth16.ProvingKey
	tables   *arena.Arena // where the domain's lie
	domain   *ntt.Domain
	aWires   *msm.Wires // whose points A holds
	bWires   *msm.Wires
	kWires   *msm.Wires
	resident int64
	release  func(section) // gives a mapped section's pages back; nil: nothing is mapped
	close    func() error

	users int // proofs at work; guarded by Backend.mu
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
			procmem.GiveBack()
		} else {
			select {
			case <-k.ready:
			case <-ctx.Done():
				return nil, errs.Wrap(ctx.Err(), op)
			}
		}
		switch {
		case k.err == nil:
			return &contract.LoadedKey{Shape: k.pk.Shape, ResidentBytes: k.resident, Elapsed: time.Since(start)}, nil
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
		if k.close != nil {
			_ = k.close() // that the caller gave up says more
		}
	}
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
	defer procmem.GiveBack()
	if k.close != nil {
		return errs.Wrap(k.close(), "unload key")
	}
	return nil
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
			k.users++
			return k, nil
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

// adopt takes the key over and makes what proofs need of it.
func (b *Backend) adopt(k *key, pk *groth16.ProvingKey, mapped bool, tasks int) (err error) {
	if k.tables, err = arena.New(ntt.Bytes(pk.LogDomain)); err != nil {
		return err
	}
	if k.domain, err = ntt.NewDomainIn(k.tables, pk.LogDomain, tasks); err != nil {
		return err
	}
	if k.aWires, err = msm.NewWires(pk.AWires, pk.NbWires); err != nil {
		return err
	}
	if k.bWires, err = msm.NewWires(pk.BWires, pk.NbWires); err != nil {
		return err
	}
	if k.kWires, err = msm.WiresFrom(pk.NbPublic+1, pk.NbWires); err != nil {
		return err
	}
	k.pk, k.resident = pk, b.residentBytes(&pk.Shape, mapped)
	return nil
}

const (
	g1Bytes = int64(unsafe.Sizeof(bls.G1Affine{}))
	g2Bytes = int64(unsafe.Sizeof(bls.G2Affine{}))
)

// residentBytes is what a loaded key holds. Pages of a mapped key count like others: they are in the process' memory while they are used.
func (b *Backend) residentBytes(s *groth16.Shape, mapped bool) int64 {
	words := int64(s.NbWires+63) / 64
	tables := 3*12*words + ntt.Bytes(s.LogDomain) // three maps of wires: a word and a count each
	sections := []int64{g1Bytes * int64(s.NbA), g1Bytes * int64(s.NbB), g2Bytes * int64(s.NbB), g1Bytes * int64(s.NbPrivate()), g1Bytes * int64(s.NbH)}
	var sum, largest int64
	for _, n := range sections {
		sum += n
		largest = max(largest, n)
	}
	if mapped && b.opts.ReleaseKeyPages {
		return tables + 16*words + largest
	}
	return tables + 16*words + sum
}

// arenaSlack is for the beginnings of lists in an arena, which are at cache lines.
const arenaSlack = 16 << 10

// scratchBytes is what one proof allocates at most: the sums are made one after the other.
func scratchBytes(s *groth16.Shape, tasks int) int64 {
	classes := int64(s.NbWires)/4 + 8*int64(s.NbWires)
	return arenaSlack + max(msm.ScratchG1(s.NbH, tasks),
		classes+msm.ScratchWitnessG1(max(s.NbA, s.NbB, s.NbPrivate()), tasks),
		classes+msm.ScratchWitnessG2(s.NbB, tasks))
}
