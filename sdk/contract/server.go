package contract

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"google.golang.org/grpc"

	"github.com/weir-zk/weir/sdk/contract/pb"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// calls knows the running calls of a server, so that Cancel can wait for their end. A Cancel may overtake its call (streams of one
// connection have no order): the last tombstones canceled ids are remembered and their calls refused.
type calls struct {
	mu      sync.Mutex
	running map[string]*call
	dead    map[string]struct{}
	order   []string
}

const tombstones = 4096

type call struct {
	stop context.CancelFunc
	done chan struct{}
}

// begin registers a call; end must be called when the handler touches nothing any more.
func (c *calls) begin(ctx context.Context, id string) (_ context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == "" {
		return nil, nil, errs.New(errs.InvalidArgument, "call", "no call id")
	}
	if _, ok := c.dead[id]; ok {
		return nil, nil, errs.New(errs.Canceled, "call "+id, "was canceled before it began")
	}
	if _, ok := c.running[id]; ok {
		return nil, nil, errs.New(errs.Conflict, "call "+id, "is running already")
	}
	if c.running == nil {
		c.running = map[string]*call{}
	}
	ctx, stop := context.WithCancel(ctx)
	r := &call{stop: stop, done: make(chan struct{})}
	c.running[id] = r
	return ctx, func() {
		stop()
		c.mu.Lock()
		delete(c.running, id)
		c.mu.Unlock()
		close(r.done)
	}, nil
}

func (c *calls) cancel(ctx context.Context, id string) (bool, error) {
	c.mu.Lock()
	r := c.running[id]
	if _, ok := c.dead[id]; !ok {
		if c.dead == nil {
			c.dead = map[string]struct{}{}
		}
		c.dead[id] = struct{}{}
		c.order = append(c.order, id)
		if len(c.order) > tombstones {
			delete(c.dead, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.mu.Unlock()
	if r == nil {
		return false, nil
	}
	r.stop()
	select {
	case <-r.done:
		return true, nil
	case <-ctx.Done():
		return true, errs.Wrap(ctx.Err(), "cancel")
	}
}

// run is the frame of every handler that can be canceled: registered, panics become Internal errors, errors become statuses.
func (c *calls) run(ctx context.Context, id string, f func(ctx context.Context) error) (err error) {
	ctx, end, err := c.begin(ctx, id)
	if err != nil {
		return errs.ToStatus(err)
	}
	defer end()
	return errs.ToStatus(safely(func() error { return f(ctx) }))
}

func safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			// Elsewhere the same work may succeed.
			err = &errs.Error{Class: errs.Internal, Op: "plugin", Found: fmt.Sprintf("panic: %v\n%s", p, debug.Stack()), Retryable: true}
		}
	}()
	return f()
}

// RegisterSynthesizer serves impl.
func RegisterSynthesizer(s grpc.ServiceRegistrar, impl Synthesizer) {
	pb.RegisterSynthesizerServer(s, &synthesizerServer{impl: impl})
}

type synthesizerServer struct {
	pb.UnimplementedSynthesizerServer
	impl  Synthesizer
	calls calls
}

func (s *synthesizerServer) Describe(ctx context.Context, _ *pb.DescribeSynthesizerRequest) (*pb.SynthesizerInfo, error) {
	var r *SynthesizerInfo
	err := safely(func() (err error) {
		r, err = s.impl.Describe(ctx)
		return err
	})
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	return &pb.SynthesizerInfo{Identity: &pb.Identity{Name: r.Name, Version: r.Version}, Kinds: r.Kinds, Abilities: r.Abilities}, nil
}

func (s *synthesizerServer) Open(ctx context.Context, m *pb.OpenRequest) (*pb.OpenReply, error) {
	var out *pb.OpenReply
	err := s.calls.run(ctx, m.GetCallId(), func(ctx context.Context) error {
		req := &OpenRequest{CallID: m.GetCallId(), Kind: m.GetKind(), Options: m.GetOptions(), Threads: int(m.GetThreads()), Shared: m.GetShared(), Base: m.GetBase()}
		for _, in := range m.GetInputs() {
			req.Inputs = append(req.Inputs, inputFromPB(in))
		}
		r, err := s.impl.Open(ctx, req)
		if err != nil {
			return err
		}
		out = &pb.OpenReply{Session: r.ID, ResidentBytes: r.ResidentBytes}
		for _, p := range r.Partitions {
			out.Partitions = append(out.Partitions, &pb.PartitionInfo{CircuitDigest: p.CircuitDigest[:], Wires: int64(p.NbWires), Public: int64(p.NbPublic),
				Constraints: int64(p.NbConstraints), WitnessBytes: p.WitnessBytes, ScratchBytes: p.ScratchBytes})
		}
		return nil
	})
	return out, err
}

func (s *synthesizerServer) Synthesize(ctx context.Context, m *pb.SynthesizeRequest) (*pb.SynthesizeReply, error) {
	var out *pb.SynthesizeReply
	err := s.calls.run(ctx, m.GetCallId(), func(ctx context.Context) error {
		r, err := s.impl.Synthesize(ctx, &SynthesizeRequest{CallID: m.GetCallId(), Session: m.GetSession(), Partition: int(m.GetPartition()), Witness: refFromPB(m.GetWitness()),
			A: refFromPB(m.GetA()), B: refFromPB(m.GetB()), C: refFromPB(m.GetC()), LogDomain: int(m.GetLogDomain()), Rows: groth16.RowOrder(m.GetRowOrder()), Threads: int(m.GetThreads())})
		if err != nil {
			return err
		}
		out = &pb.SynthesizeReply{WitnessBytes: r.WitnessBytes, PublicInputs: r.Public, ElapsedMs: toMS(r.Elapsed)}
		return nil
	})
	return out, err
}

func (s *synthesizerServer) Close(ctx context.Context, m *pb.CloseRequest) (*pb.CloseReply, error) {
	err := s.calls.run(ctx, m.GetCallId(), func(ctx context.Context) error { return s.impl.Close(ctx, m.GetSession()) })
	return &pb.CloseReply{}, err
}

func (s *synthesizerServer) CancelCall(ctx context.Context, m *pb.Cancel) (*pb.Canceled, error) {
	was, err := s.calls.cancel(ctx, m.GetCallId())
	return &pb.Canceled{WasRunning: was}, errs.ToStatus(err)
}

// RegisterProver serves impl. MakeKey is answered when impl is a KeyMaker.
func RegisterProver(s grpc.ServiceRegistrar, impl Prover) {
	pb.RegisterProverServer(s, &proverServer{impl: impl})
}

type proverServer struct {
	pb.UnimplementedProverServer
	impl  Prover
	calls calls
}

func (s *proverServer) Describe(ctx context.Context, _ *pb.DescribeProverRequest) (*pb.ProverInfo, error) {
	var r *ProverInfo
	err := safely(func() (err error) {
		r, err = s.impl.Describe(ctx)
		return err
	})
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	return &pb.ProverInfo{Identity: &pb.Identity{Name: r.Name, Version: r.Version}, Device: r.Device, DeviceId: r.DeviceID, Lanes: uint32(r.Lanes), DeviceMemory: r.DeviceMemory, Abilities: r.Abilities}, nil
}

func (s *proverServer) PlanKey(ctx context.Context, m *pb.KeyShape) (*pb.KeyPlan, error) {
	shape, err := shapeFromPB(m)
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	var r *KeyPlan
	err = safely(func() (err error) {
		r, err = s.impl.PlanKey(ctx, shape)
		return err
	})
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	return &pb.KeyPlan{ResidentBytes: r.ResidentBytes, ScratchBytes: r.ScratchBytes, DeviceBytes: r.DeviceBytes, Evaluations: uint32(r.Evaluations)}, nil
}

func (s *proverServer) LoadKey(ctx context.Context, m *pb.LoadKeyRequest) (*pb.LoadedKey, error) {
	var out *pb.LoadedKey
	err := s.calls.run(ctx, m.GetCallId(), func(ctx context.Context) error {
		req := &LoadKeyRequest{CallID: m.GetCallId(), KeyID: m.GetKeyId(), Key: inputFromPB(m.GetKey()), Threads: int(m.GetThreads()), Trusted: m.GetTrusted()}
		if m.GetCircuit() != nil {
			c := inputFromPB(m.GetCircuit())
			req.Circuit = &c
		}
		r, err := s.impl.LoadKey(ctx, req)
		if err == nil {
			out = loadedToPB(r)
		}
		return err
	})
	return out, err
}

func (s *proverServer) UnloadKey(ctx context.Context, m *pb.UnloadKeyRequest) (*pb.UnloadKeyReply, error) {
	err := s.calls.run(ctx, m.GetCallId(), func(ctx context.Context) error { return s.impl.UnloadKey(ctx, m.GetKeyId()) })
	return &pb.UnloadKeyReply{}, err
}

func (s *proverServer) Prove(m *pb.ProveRequest, st grpc.ServerStreamingServer[pb.ProveEvent]) error {
	return s.calls.run(st.Context(), m.GetCallId(), func(ctx context.Context) error {
		req := &ProveRequest{CallID: m.GetCallId(), KeyID: m.GetKeyId(), Witness: refFromPB(m.GetWitness()), A: refFromPB(m.GetA()), B: refFromPB(m.GetB()), C: refFromPB(m.GetC()), Threads: int(m.GetThreads())}
		if t := m.GetInsecureTestRandomness(); t != nil {
			req.InsecureTestRandomness = &groth16.Randomness{}
			for _, x := range []struct {
				b  []byte
				to *fr.Element
			}{{t.GetR(), &req.InsecureTestRandomness.R}, {t.GetS(), &req.InsecureTestRandomness.S}} {
				v, err := groth16.ScalarFromBytes(x.b)
				if err != nil {
					return err
				}
				*x.to = v
			}
		}
		// An event that cannot be sent means that the host has gone; ctx ends then, and the proof with it.
		r, err := s.impl.Prove(ctx, req, func(e ProveEvent) { _ = st.Send(&pb.ProveEvent{Kind: pb.ProveEvent_Kind(e)}) })
		if err != nil {
			return err
		}
		last := &pb.ProveEvent{Kind: pb.ProveEvent_PROOF, Proof: r.Bytes}
		for _, t := range r.Times {
			last.Times = append(last.Times, &pb.StageTime{Stage: t.Stage, Ms: toMS(t.Elapsed)})
		}
		return st.Send(last)
	})
}

func (s *proverServer) CancelCall(ctx context.Context, m *pb.Cancel) (*pb.Canceled, error) {
	was, err := s.calls.cancel(ctx, m.GetCallId())
	return &pb.Canceled{WasRunning: was}, errs.ToStatus(err)
}

func (s *proverServer) MakeKey(m *pb.MakeKeyRequest, st grpc.ServerStreamingServer[pb.MakeKeyEvent]) error {
	return s.calls.run(st.Context(), m.GetCallId(), func(ctx context.Context) error {
		maker, ok := s.impl.(KeyMaker)
		if !ok {
			return errs.New(errs.Unsupported, "make key", "this backend makes no development keys").WithHint("choose a backend with the ability %q", AbilityMakesKeys)
		}
		req := &MakeKeyRequest{CallID: m.GetCallId(), Circuit: inputFromPB(m.GetCircuit()), Out: slab.Handle(m.GetOut()), Rows: groth16.RowOrder(m.GetRowOrder()), H: groth16.HBasis(m.GetHBasis()),
			Threads: int(m.GetThreads()), Seed: m.GetSeed()}
		if t := m.GetScalars(); t != nil {
			req.Scalars = &ToxicScalars{Tau: t.GetTau(), Alpha: t.GetAlpha(), Beta: t.GetBeta(), Gamma: t.GetGamma(), Delta: t.GetDelta(), G1: t.GetG1(), G2: t.GetG2()}
		}
		r, err := maker.MakeKey(ctx, req, func(stage string, f float64) { _ = st.Send(&pb.MakeKeyEvent{Stage: stage, Fraction: f}) })
		if err != nil {
			return err
		}
		return st.Send(&pb.MakeKeyEvent{Stage: "done", Fraction: 1, Made: loadedToPB(r)})
	})
}
