package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// fakeSynth answers kind "circom".
type fakeSynth struct {
	w *world
	r slab.Resolver

	mu       sync.Mutex
	sessions map[string]*fakeSession
	last     int
	tries    map[string]int
	opens    int
	options  map[string]string // of the last opening
	fault    func(n int) error // of the n-th opening
	form     assignment.Form
	circuit  int64 // bytes of a shared circuit; 0: it does not know of them
	shared   int   // circuits that are open
	parsed   int   // circuits that were ever opened
}

type fakeSession struct {
	shared    bool
	base      *fakeSession
	shape     groth16.Shape
	witnesses []string
}

func (w *world) synth() *fakeSynth {
	return &fakeSynth{w: w, form: assignment.Dense, sessions: map[string]*fakeSession{}, tries: map[string]int{}}
}

func (s *fakeSynth) config() SynthesizerConfig {
	return SynthesizerConfig{Name: "fake", New: func(r slab.Resolver) (contract.Synthesizer, error) { s.r = r; return s, nil }}
}

func (s *fakeSynth) Describe(context.Context) (*contract.SynthesizerInfo, error) {
	info := &contract.SynthesizerInfo{Identity: contract.Identity{Name: "fake", Version: "1"}, Kinds: []string{"circom"}}
	if s.circuit > 0 {
		info.Abilities = []string{contract.AbilitySharedCircuits}
	}
	return info, nil
}

func (s *fakeSynth) Open(ctx context.Context, req *contract.OpenRequest) (*contract.Session, error) {
	ses := &fakeSession{shared: req.Shared}
	out := &contract.Session{ResidentBytes: s.w.session + s.w.moreSession}
	if req.Shared {
		out.ResidentBytes = s.circuit
	}
	for _, in := range req.Inputs {
		text, err := readAll(s.r, in.Handle)
		if err != nil {
			return nil, err
		}
		switch in.Role {
		case contract.RoleKey:
			if _, ses.shape, err = parseKey(text); err != nil {
				return nil, err
			}
		case contract.RoleWitness:
			ses.witnesses = append(ses.witnesses, text)
		}
	}
	if err := sleep(ctx, time.Millisecond); err != nil {
		return nil, err
	}
	for range ses.witnesses {
		out.Partitions = append(out.Partitions, contract.Partition{NbWires: ses.shape.NbWires, NbPublic: ses.shape.NbPublic, NbConstraints: ses.shape.NbConstraints,
			WitnessBytes: assignment.DenseSize(ses.shape.NbWires), ScratchBytes: s.w.synthScratch})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.opens++
	if s.fault != nil {
		if err := s.fault(s.opens); err != nil {
			return nil, err
		}
	}
	if s.circuit > 0 && !req.Shared {
		if ses.base = s.sessions[req.Base]; ses.base == nil || !ses.base.shared {
			return nil, errs.New(errs.Internal, "open", "the base %q is not open", req.Base)
		}
	}
	if req.Shared {
		s.shared++
		s.parsed++
	}
	s.options = req.Options
	out.ID = fmt.Sprint("ses", s.last)
	s.sessions[out.ID] = ses
	return out, nil
}

// marker fills evaluations, so that a prover notices any that are not its partition's.
func marker(text string, i int) byte {
	sum := sha256.Sum256([]byte(text))
	return sum[0] ^ byte(i+1)
}

func (s *fakeSynth) Synthesize(ctx context.Context, req *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	s.mu.Lock()
	ses := s.sessions[req.Session]
	var n int
	if ses != nil {
		text := ses.witnesses[req.Partition]
		s.tries[text]++
		n = s.tries[text]
	}
	s.mu.Unlock()
	if ses == nil {
		return nil, errs.New(errs.NotFound, "synthesize", "no session %s", req.Session)
	}
	text := ses.witnesses[req.Partition]
	value, err := strconv.Atoi(text)
	if err != nil {
		return nil, errs.New(errs.InvalidFile, "read witness", "%q", text)
	}
	if err := sleep(ctx, s.w.synthTime); err != nil {
		return nil, err
	}
	if s.w.synthFault != nil {
		if err := s.w.synthFault(text, n); err != nil {
			return nil, err
		}
	}
	buf, err := s.r.Bytes(req.Witness)
	if err != nil {
		return nil, err
	}
	b, err := assignment.NewBuilder(buf, s.form, ses.shape.NbWires)
	if err != nil {
		return nil, err
	}
	public := publicOf(value, ses.shape.NbPublic)
	out := &contract.Synthesized{WitnessBytes: int64(len(buf)), Elapsed: s.w.synthTime}
	one := fr.One()
	if err := b.Append(&one); err != nil {
		return nil, err
	}
	for i := range public {
		if err := b.Append(&public[i]); err != nil {
			return nil, err
		}
		out.Public = append(out.Public, groth16.ScalarBytes(&public[i]))
	}
	for range ses.shape.NbPrivate() {
		var x fr.Element
		x.SetUint64(uint64(value))
		if err := b.Append(&x); err != nil {
			return nil, err
		}
	}
	v, err := b.Finish()
	if err != nil {
		return nil, err
	}
	out.WitnessBytes = v.Size()
	for i, r := range []slab.Ref{req.A, req.B, req.C} {
		if r.Length == 0 {
			continue
		}
		if r.Length != 32<<req.LogDomain {
			return nil, errs.New(errs.InvalidArgument, "synthesize", "evaluations of %d bytes", r.Length)
		}
		e, err := s.r.Bytes(r)
		if err != nil {
			return nil, err
		}
		m := marker(text, i)
		for j := range e {
			e[j] = m
		}
	}
	return out, nil
}

func (s *fakeSynth) Close(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[id]; ses != nil && ses.shared {
		for _, other := range s.sessions {
			if other.base == ses {
				return errs.New(errs.Internal, "close", "a session still uses the circuit")
			}
		}
		s.shared--
	}
	delete(s.sessions, id)
	return nil
}

// fakeProver is a backend. fault is asked before each proof is answered: it may change the bytes or return an error.
type fakeProver struct {
	w     *world
	r     slab.Resolver
	name  string
	lanes int
	able  []string
	fault func(n int, witness string, proof []byte) ([]byte, error)
	plan  func(*contract.KeyPlan) error // changes the answer of PlanKey
	load  error                         // of LoadKey
	// A device of its own; deviceKey is what a key takes of it.
	device          string
	vram, deviceKey int64

	mu     sync.Mutex
	keys   map[string]string // loaded: id to name
	proofs int
	loads  int
	using  map[string]int
	order  []string // witnesses, in the order of their proofs' starts
}

func (w *world) prover(name string, lanes int) *fakeProver {
	return &fakeProver{w: w, name: name, lanes: lanes, keys: map[string]string{}, using: map[string]int{}}
}

func (p *fakeProver) config() BackendConfig {
	return BackendConfig{Name: p.name, New: func(r slab.Resolver) (contract.Prover, error) { p.r = r; return p, nil }}
}

func (p *fakeProver) Describe(context.Context) (*contract.ProverInfo, error) {
	return &contract.ProverInfo{Identity: contract.Identity{Name: p.name, Version: "1"}, Device: "fake " + p.name, Lanes: p.lanes, Abilities: p.able, DeviceID: p.device, DeviceMemory: p.vram}, nil
}

func (p *fakeProver) PlanKey(context.Context, *groth16.Shape) (*contract.KeyPlan, error) {
	plan := &contract.KeyPlan{ResidentBytes: p.w.keyBytes, ScratchBytes: p.w.scratch, DeviceBytes: p.deviceKey, Evaluations: p.w.evaluations}
	if p.plan != nil {
		if err := p.plan(plan); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

func (p *fakeProver) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	text, err := readAll(p.r, req.Key.Handle)
	if err != nil {
		return nil, err
	}
	name, shape, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, p.w.loadTime); err != nil || p.load != nil {
		return nil, errors.Join(err, p.load)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.keys[req.KeyID]; !ok {
		p.loads++
	}
	p.keys[req.KeyID] = name
	return &contract.LoadedKey{Shape: shape, ResidentBytes: p.w.keyBytes + p.w.moreKey}, nil
}

func (p *fakeProver) UnloadKey(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.using[id] > 0 {
		p.w.t.Errorf("key %s unloaded under %d proofs", id, p.using[id])
	}
	delete(p.keys, id)
	return nil
}

func (p *fakeProver) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	p.mu.Lock()
	name, ok := p.keys[req.KeyID]
	p.using[req.KeyID]++
	p.proofs++
	n := p.proofs
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.using[req.KeyID]--
		p.mu.Unlock()
	}()
	if !ok {
		return nil, errs.New(errs.NotFound, "prove", "no key %s", req.KeyID)
	}
	buf, err := p.r.Bytes(req.Witness)
	if err != nil {
		return nil, err
	}
	v, err := assignment.Parse(buf)
	if err != nil {
		return nil, err
	}
	p.w.mu.Lock()
	door := p.w.keys[name]
	p.w.mu.Unlock()
	public, err := v.Public(len(door.ic) - 1)
	if err != nil {
		return nil, err
	}
	last := v.At(v.Len() - 1)
	text := last.String()
	p.mu.Lock()
	p.order = append(p.order, text)
	p.mu.Unlock()
	event(contract.Accepted)
	if err := sleep(ctx, p.w.proveTime/2); err != nil {
		return nil, err
	}
	for i, ref := range []slab.Ref{req.A, req.B, req.C} {
		if ref.Length == 0 {
			continue
		}
		e, err := p.r.Bytes(ref)
		if err != nil {
			return nil, err
		}
		if want := bytes.Repeat([]byte{marker(text, i)}, len(e)); !bytes.Equal(e, want) {
			p.w.t.Errorf("evaluations of witness %s are not its own", text)
		}
		clear(e) // a backend may write to them
	}
	event(contract.EvaluationsConsumed)
	if err := sleep(ctx, p.w.proveTime/2); err != nil {
		return nil, err
	}
	event(contract.DeviceDone)
	if err := sleep(ctx, p.w.finishTime); err != nil {
		return nil, err
	}
	// The witness must still be there.
	if again, err := assignment.Parse(buf); err != nil || again.At(v.Len()-1) != last {
		p.w.t.Errorf("witness %s changed under its proof: %v", text, err)
	}
	proof := door.prove(public)
	out := proof.Bytes()
	b := out[:]
	if p.fault != nil {
		if b, err = p.fault(n, text, b); err != nil {
			return nil, err
		}
	}
	return &contract.Proof{Bytes: b, Times: []contract.StageTime{{Stage: "fake", Elapsed: p.w.proveTime}}}, nil
}
