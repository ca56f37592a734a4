// Package live makes plugins that die and come back look like one that does not: a Prover and a Synthesizer that ask for a living instance at
// every call, hand over the slabs and files that the call names to that very instance, and bring back the open sessions that a new one has
// not heard of yet; of loaded keys they say that it has not. A call that an instance did not survive fails with errs.BackendGone, retryable; whether it is tried again is the caller's business.
package live

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Instance is one life of a plugin.
type Instance[T any] struct {
	Client  T
	Channel *slab.Channel             // nil: in this process, where handles resolve by themselves
	Kill    func(reason string) error // ends the process and returns nil when it has been reaped; nil: in this process, which cannot be ended
	Gone    <-chan struct{}           // closed when the process has been reaped
}

// dying is how long a process whose connection broke gets to go by itself, so that what it says of its end is true.
const dying = 2 * time.Second

// end ends the process if there is one, and returns nil when it has been reaped.
func (i *Instance[T]) end(reason string, broken bool) error {
	if broken {
		t := time.NewTimer(dying)
		defer t.Stop()
		select {
		case <-i.Gone:
			return nil
		case <-t.C:
		}
	}
	return i.Kill(reason)
}

// takeBack ends a call that asked an instance for memory back and was answered with err. When it returns nil the memory is free: it was given back, or the
// process is gone. There is no third way: what a plugin that fails to unload still holds, nobody knows.
func (i *Instance[T]) takeBack(err error) error {
	switch {
	case err == nil:
		return nil
	case i.Kill != nil:
		return i.end("it did not give memory back: "+err.Error(), errs.Is(err, errs.BackendGone))
	case errs.Is(err, errs.BackendGone):
		return nil
	}
	return err
}

// Source gives the living instance, and starts one when there is none.
type Source[T any] interface {
	Get(ctx context.Context) (*Instance[T], error)
	Close(ctx context.Context) error
}

// Static is a source of one instance in this process, which lives for ever.
func Static[T any](client T) Source[T] { return &static[T]{Instance[T]{Client: client}} }

type static[T any] struct{ i Instance[T] }

func (s *static[T]) Get(ctx context.Context) (*Instance[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(err, "use plugin")
	}
	return &s.i, nil
}
func (s *static[T]) Close(context.Context) error { return nil }

// safely turns a panic of code in this process into an error, as the server side of a plugin process does.
func safely(op string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errs.New(errs.Internal, op, "panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// hand gives an instance what a call is about to name. A process whose channel is broken is of no use, whether it is dying or not: it is ended here, so that
// whoever tries again gets a new one and does not spend his attempts on this one.
func hand[T any](pool *slab.Pool, i *Instance[T], handles ...slab.Handle) error {
	if i.Channel == nil {
		return nil
	}
	for _, h := range handles {
		if h == 0 {
			continue
		}
		if err := pool.Hand(i.Channel, h); err != nil {
			if i.Kill != nil && errs.Is(err, errs.BackendGone) {
				_ = i.end("its channel for buffers broke: "+err.Error(), true)
			}
			return err
		}
	}
	return nil
}

// Prover is a contract.Prover over a source.
type Prover struct {
	src  Source[contract.Prover]
	pool *slab.Pool

	mu   sync.Mutex
	keys map[string]*proverKey
}

type proverKey struct {
	req contract.LoadKeyRequest

	gate   gate.Gate                  // one load at a time
	in     *Instance[contract.Prover] // the last one that was asked to load it: it may have the key even if the load failed
	loaded bool                       // it has the key
}

var (
	_ contract.Prover   = (*Prover)(nil)
	_ contract.KeyMaker = (*Prover)(nil)
)

// NewProver makes a prover over src whose buffers and files lie in pool.
func NewProver(src Source[contract.Prover], pool *slab.Pool) *Prover {
	return &Prover{src: src, pool: pool, keys: map[string]*proverKey{}}
}

// Close ends the source.
func (p *Prover) Close(ctx context.Context) error { return p.src.Close(ctx) }

// Describe implements contract.Prover.
func (p *Prover) Describe(ctx context.Context) (info *contract.ProverInfo, err error) {
	i, err := p.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	err = safely("describe", func() (err error) { info, err = i.Client.Describe(ctx); return err })
	return info, err
}

// LoadKey implements contract.Prover. The key's files must stay registered until UnloadKey: a new instance gets them again.
func (p *Prover) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	p.mu.Lock()
	k, ok := p.keys[req.KeyID]
	if !ok {
		k = &proverKey{req: *req, gate: gate.New()}
		p.keys[req.KeyID] = k
	}
	p.mu.Unlock()
	i, err := p.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	if err := k.gate.Enter(ctx); err != nil {
		return nil, err
	}
	defer k.gate.Leave()
	return p.load(ctx, i, k)
}

// load is called inside the gate.
func (p *Prover) load(ctx context.Context, i *Instance[contract.Prover], k *proverKey) (loaded *contract.LoadedKey, err error) {
	files := []slab.Handle{k.req.Key.Handle}
	if k.req.Circuit != nil {
		files = append(files, k.req.Circuit.Handle)
	}
	if err := hand(p.pool, i, files...); err != nil {
		return nil, err
	}
	req := k.req
	req.CallID = contract.NewCallID()
	k.in, k.loaded = i, false
	err = safely("load key", func() (err error) { loaded, err = i.Client.LoadKey(ctx, &req); return err })
	if err != nil {
		return nil, err
	}
	k.loaded = true
	return loaded, nil
}

// UnloadKey implements contract.Prover. An instance that was never asked to load the key is not asked. When it returns nil the key's memory is free: a
// process that does not give it back is ended. After an error the key is remembered, so that it can be asked for again.
func (p *Prover) UnloadKey(ctx context.Context, id string) error {
	p.mu.Lock()
	k := p.keys[id]
	p.mu.Unlock()
	if k == nil {
		return nil
	}
	if err := k.gate.Enter(ctx); err != nil {
		return err
	}
	defer k.gate.Leave()
	if k.in != nil {
		err := safely("unload key", func() error { return k.in.Client.UnloadKey(ctx, id) })
		k.loaded = false
		if err := k.in.takeBack(err); err != nil {
			return err
		}
	}
	k.in = nil
	p.mu.Lock()
	delete(p.keys, id)
	p.mu.Unlock()
	return nil
}

// Forget reports whether no instance that lives can have the key in its memory, and then forgets it. No load of it may run meanwhile.
func (p *Prover) Forget(id string) bool {
	p.mu.Lock()
	k := p.keys[id]
	p.mu.Unlock()
	if k == nil {
		return true
	}
	if k.gate.Enter(context.Background()) != nil {
		return false
	}
	defer k.gate.Leave()
	if k.in != nil {
		select {
		case <-k.in.Gone:
		default:
			return false
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, id)
	return true
}

// ErrNotLoaded says that the instance has not the key that Prove names: it is another one than that which LoadKey asked. Nothing was begun, so that the caller may load
// the key again, of which the memory is his to account for.
var ErrNotLoaded = &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "the process that had the key is gone", Retryable: true}

// Prove implements contract.Prover: the events are held to their order, and a canceled call gives no proof.
func (p *Prover) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	i, err := p.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	k := p.keys[req.KeyID]
	p.mu.Unlock()
	if k == nil {
		return nil, ErrNotLoaded
	}
	if err := k.gate.Enter(ctx); err != nil {
		return nil, err
	}
	has := k.in == i && k.loaded
	k.gate.Leave()
	if !has {
		return nil, ErrNotLoaded
	}
	if err := hand(p.pool, i, req.Witness.Handle, req.A.Handle, req.B.Handle, req.C.Handle); err != nil {
		return nil, err
	}
	next, broken := contract.Accepted, false
	var proof *contract.Proof
	err = safely("prove", func() (err error) {
		proof, err = i.Client.Prove(ctx, req, func(e contract.ProveEvent) {
			switch {
			case ctx.Err() != nil || broken:
			case e != next:
				broken = true
			default:
				next++
				event(e)
			}
		})
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, errs.Wrap(ctx.Err(), "prove")
	case err != nil:
		return nil, err
	case broken || next <= contract.DeviceDone || proof == nil:
		e := errs.Mismatch(errs.Internal, "prove: backend breaks the contract", "events", "accepted, evaluations consumed, device done, proof", "another order")
		e.Retryable = true
		return nil, e
	}
	return proof, nil
}

// PlanKey implements contract.Prover.
func (p *Prover) PlanKey(ctx context.Context, shape *groth16.Shape) (plan *contract.KeyPlan, err error) {
	i, err := p.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	err = safely("plan key", func() (err error) { plan, err = i.Client.PlanKey(ctx, shape); return err })
	return plan, err
}

// MakeKey implements contract.KeyMaker.
func (p *Prover) MakeKey(ctx context.Context, req *contract.MakeKeyRequest, progress func(string, float64)) (made *contract.LoadedKey, err error) {
	i, err := p.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	maker, ok := i.Client.(contract.KeyMaker)
	if !ok {
		return nil, errs.New(errs.Unsupported, "make key", "this backend makes no development keys")
	}
	if err := hand(p.pool, i, req.Circuit.Handle, req.Out); err != nil {
		return nil, err
	}
	err = safely("make key", func() (err error) { made, err = maker.MakeKey(ctx, req, progress); return err })
	return made, err
}
