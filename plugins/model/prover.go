package model

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// ProverName is how the prover is called.
const ProverName = "model-prover"

// Prover takes as long as a prover.
type Prover struct {
	*model
	device turnstile

	mu     sync.Mutex
	keys   map[string]*Circuit
	proofs uint64 // asked for so far
}

var _ contract.Prover = (*Prover)(nil)

// NewProver makes a prover that reads files and buffers through r.
func NewProver(r slab.Resolver, opts Options) *Prover {
	return &Prover{model: newModel(r, opts), device: turnstile{free: max(opts.Profile.Machine.Devices, 1)}, keys: map[string]*Circuit{}}
}

// Describe implements contract.Prover.
func (p *Prover) Describe(context.Context) (*contract.ProverInfo, error) {
	m := &p.opts.Profile.Machine
	return &contract.ProverInfo{Identity: contract.Identity{Name: ProverName, Version: p.opts.Version}, Device: "model of " + m.Device, DeviceID: "model-" + p.opts.Profile.Name, Lanes: m.AllLanes(),
		DeviceMemory: int64(m.DeviceMemory), Abilities: []string{contract.AbilityCompact}}, nil
}

// PlanKey implements contract.Prover. Errors: errs.Unsupported for a shape that the profile does not have.
func (p *Prover) PlanKey(_ context.Context, shape *groth16.Shape) (*contract.KeyPlan, error) {
	for i := range p.opts.Profile.Circuits {
		if c := &p.opts.Profile.Circuits[i]; c.Shape() == *shape {
			plan := &contract.KeyPlan{ResidentBytes: int64(c.Key), ScratchBytes: int64(c.ProverScratch), Evaluations: c.Evaluations}
			if p.opts.Profile.Machine.DeviceMemory > 0 { // every device has as much
				plan.DeviceBytes = c.OfDevice()
			}
			return plan, nil
		}
	}
	return nil, errs.Mismatch(errs.Unsupported, "plan key", "", "the key of a circuit of profile "+p.opts.Profile.Name, fmt.Sprintf("%+v", *shape))
}

// LoadKey implements contract.Prover.
func (p *Prover) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	c, err := p.readKey(req.Key.Handle)
	if err != nil {
		return nil, err
	}
	begin := p.opts.Clock.Now()
	if err := p.sleep(ctx, time.Duration(c.KeyLoad)); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[req.KeyID] = c
	return &contract.LoadedKey{Shape: c.Shape(), ResidentBytes: int64(c.Key), Elapsed: p.opts.Clock.Now().Sub(begin)}, nil
}

// UnloadKey implements contract.Prover.
func (p *Prover) UnloadKey(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, id)
	return nil
}

// Prove implements contract.Prover.
func (p *Prover) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	p.mu.Lock()
	c := p.keys[req.KeyID]
	p.proofs++
	luck := p.chance('p', p.proofs)
	p.mu.Unlock()
	if c == nil {
		return nil, errs.New(errs.NotFound, "prove", "no key %s", req.KeyID)
	}
	if req.InsecureTestRandomness != nil {
		return nil, errs.New(errs.Unsupported, "prove", "the model has one proof, and chooses no randomness")
	}
	factor := luck.jitter(c.Jitter)
	var out contract.Proof
	begin := p.opts.Clock.Now()
	step := func(name string) {
		now := p.opts.Clock.Now()
		out.Times = append(out.Times, contract.StageTime{Stage: name, Elapsed: now.Sub(begin)})
		begin = now
	}
	event(contract.Accepted)
	if err := p.sleep(ctx, times(c.Prepare, factor)); err != nil {
		return nil, err
	}
	step("prepare")
	if err := p.kernels(ctx, req, c, factor, step, event); err != nil {
		return nil, err
	}
	if err := p.sleep(ctx, times(c.Tail, factor)); err != nil {
		return nil, err
	}
	step("tail")
	event(contract.DeviceDone)
	if err := p.sleep(ctx, times(c.Finish, factor)); err != nil {
		return nil, err
	}
	step("finish")
	if luck.happens(c.Failures.Prover) {
		return nil, lose("prove")
	}
	t, err := tiny()
	if err != nil {
		return nil, err
	}
	proof := t.proof
	if luck.happens(c.Failures.WrongProof) {
		proof.A.Neg(&proof.A)
	}
	b := proof.Bytes()
	out.Bytes = b[:]
	return &out, nil
}

// kernels has the device for as long as they take.
func (p *Prover) kernels(ctx context.Context, req *contract.ProveRequest, c *Circuit, factor float64, step func(string), event func(contract.ProveEvent)) error {
	if p.opts.Profile.Machine.Exclusive {
		if err := p.device.enter(ctx); err != nil {
			return err
		}
		defer p.device.leave()
	}
	step("wait")
	if err := p.sleep(ctx, times(c.Consumed, factor)); err != nil {
		return err
	}
	if p.opts.Touch {
		if err := p.stamped(req.Witness, req.A, req.B, req.C); err != nil {
			return err
		}
	}
	event(contract.EvaluationsConsumed)
	if err := p.sleep(ctx, times(Duration(c.OnDevice(&p.opts.Profile.Machine))-c.Consumed, factor)); err != nil {
		return err
	}
	step("kernels")
	return nil
}
