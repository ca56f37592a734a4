package contract

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-zk/weir/sdk/contract/pb"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// ClientOptions tell a client about the process behind its connection. Without a process (tests in memory) they may be zero.
type ClientOptions struct {
	Gone          <-chan struct{} // closed when the process has been reaped: from then on it touches nothing
	Kill          func()          // ends the process at once
	CancelTimeout time.Duration   // how long a cancel may take before the process is killed; 0: 10 s
}

// caller keeps the promise of the interfaces: a call that has returned touches nothing any more. A canceled call waits for the
// plugin's answer to Cancel; a plugin that does not answer is killed; after a broken connection the process is waited for, and killed if need be.
type caller struct {
	opts   ClientOptions
	cancel func(ctx context.Context, callID string) error
}

func (c *caller) timeout() time.Duration {
	if c.opts.CancelTimeout > 0 {
		return c.opts.CancelTimeout
	}
	return 10 * time.Second
}

// do runs rpc under a context of its own, so that the end of ctx reaches the plugin as a Cancel call first. When it returns, the handler has
// ended: it answered (an answer is a result, or an error that carries weir's details), or it answered the Cancel, or its process was reaped.
// Nothing else proves that: a broken connection, a refused message or a stream that we gave up says nothing about the handler.
func (c *caller) do(ctx context.Context, callID string, rpc func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(err, "call")
	}
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- rpc(inner) }()
	select {
	case err := <-done:
		if err == nil || isAnswer(err) {
			return errs.FromStatus(err)
		}
		c.giveUp(callID, isTransport(err))
		return errs.FromStatus(err)
	case <-ctx.Done():
	}
	c.giveUp(callID, false)
	// The handler has ended; its answer may still be on its way, and may name what has to be given back.
	t := time.NewTimer(c.timeout())
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		stop()
		<-done
	}
	return errs.Wrap(ctx.Err(), "call")
}

// giveUp ends a call: by Cancel, or, when that is not answered in time, by the end of the process. After a broken transport the process is
// probably dying: it gets a moment to do so by itself.
func (c *caller) giveUp(callID string, transport bool) {
	if transport && c.opts.Gone != nil {
		t := time.NewTimer(2 * time.Second)
		defer t.Stop()
		select {
		case <-c.opts.Gone:
			return
		case <-t.C:
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), c.timeout())
	defer stop()
	if c.cancel(ctx, callID) != nil {
		c.reap()
	}
}

// isAnswer reports an error that the plugin's handler itself returned.
func isAnswer(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	if st.Code() == codes.Unimplemented { // no such handler
		return true
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == errs.Domain {
			return true
		}
	}
	return false
}

// isTransport reports an error of the connection.
func isTransport(err error) bool {
	var own *errs.Error
	if errors.As(err, &own) {
		return own.Class == errs.BackendGone
	}
	st, ok := status.FromError(err)
	return !ok || st.Code() == codes.Unavailable
}

// reap ends the process and waits until it is gone.
func (c *caller) reap() {
	if c.opts.Gone == nil {
		return
	}
	if c.opts.Kill != nil {
		c.opts.Kill()
	}
	<-c.opts.Gone
}

// maxBytes bounds every size a plugin reports: 64 TiB, more than any machine has and far from where sums overflow.
const maxBytes = 1 << 46

// sane reports sizes that can be.
func sane(sizes ...int64) bool {
	for _, n := range sizes {
		if n < 0 || n > maxBytes {
			return false
		}
	}
	return true
}

// quick is for calls that are answered at once: a plugin that does not is ended. No deadline travels with the call: the plugin's side would end
// the stream at that moment too, and whether it was late could not be told from its own error.
func (c *caller) quick(ctx context.Context, rpc func(ctx context.Context) error) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	var late atomic.Bool
	t := time.AfterFunc(c.timeout(), func() { late.Store(true); stop() })
	defer t.Stop()
	err := rpc(inner)
	switch {
	case err == nil || isAnswer(err):
		return errs.FromStatus(err)
	case ctx.Err() != nil:
		return errs.Wrap(ctx.Err(), "call")
	case late.Load():
		c.reap()
		return &errs.Error{Class: errs.BackendGone, Op: "call", Found: "no answer within " + c.timeout().String(), Retryable: true}
	}
	return errs.FromStatus(err)
}

// NewCallID is an id that no other call has.
func NewCallID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func withID(id string) string {
	if id == "" {
		return NewCallID()
	}
	return id
}

// NewSynthesizerClient speaks to a synthesizer plugin.
func NewSynthesizerClient(conn grpc.ClientConnInterface, opts ClientOptions) Synthesizer {
	s := &synthesizerClient{rpc: pb.NewSynthesizerClient(conn)}
	s.caller = caller{opts: opts, cancel: func(ctx context.Context, id string) error {
		_, err := s.rpc.CancelCall(ctx, &pb.Cancel{CallId: id})
		return err
	}}
	return s
}

type synthesizerClient struct {
	caller
	rpc pb.SynthesizerClient
}

func (s *synthesizerClient) Describe(ctx context.Context) (*SynthesizerInfo, error) {
	var r *pb.SynthesizerInfo
	err := s.quick(ctx, func(ctx context.Context) (err error) {
		r, err = s.rpc.Describe(ctx, &pb.DescribeSynthesizerRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &SynthesizerInfo{Identity: Identity{r.GetIdentity().GetName(), r.GetIdentity().GetVersion()}, Kinds: r.GetKinds(), Abilities: r.GetAbilities()}, nil
}

func (s *synthesizerClient) Open(ctx context.Context, req *OpenRequest) (*Session, error) {
	m := &pb.OpenRequest{CallId: withID(req.CallID), Kind: req.Kind, Options: req.Options, Threads: uint32(req.Threads), Shared: req.Shared, Base: req.Base}
	for _, in := range req.Inputs {
		m.Inputs = append(m.Inputs, inputToPB(in))
	}
	var r *pb.OpenReply
	err := s.do(ctx, m.CallId, func(ctx context.Context) (err error) {
		r, err = s.rpc.Open(ctx, m)
		return err
	})
	if err == nil {
		var out *Session
		if out, err = s.session(r, req.Shared); err == nil {
			return out, nil
		}
	}
	if r.GetSession() != "" { // opened, but nobody will know of it: too late, or nonsense
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), s.timeout())
		defer stop()
		_ = s.Close(ctx, r.GetSession())
	}
	return nil, err
}

// session checks what a plugin says of an opened session.
func (s *synthesizerClient) session(r *pb.OpenReply, shared bool) (*Session, error) {
	out := &Session{ID: r.GetSession(), ResidentBytes: r.GetResidentBytes()}
	for i, p := range r.GetPartitions() {
		q := Partition{NbWires: int(p.GetWires()), NbPublic: int(p.GetPublic()), NbConstraints: int(p.GetConstraints()), WitnessBytes: p.GetWitnessBytes(), ScratchBytes: p.GetScratchBytes()}
		if copy(q.CircuitDigest[:], p.GetCircuitDigest()) != 32 || q.NbWires < 1 || q.NbPublic < 0 || q.NbPublic >= q.NbWires || q.NbConstraints < 0 || q.WitnessBytes < 1 || !sane(q.WitnessBytes, q.ScratchBytes) {
			return nil, s.broken("open", fmt.Sprintf("partition %d", i), "sizes that can be", p.String())
		}
		out.Partitions = append(out.Partitions, q)
	}
	if (len(out.Partitions) == 0) != shared || out.ID == "" || !sane(out.ResidentBytes) {
		return nil, s.broken("open", "session", "an id and at least one partition, or none if it is shared", r.String())
	}
	return out, nil
}

func (s *synthesizerClient) Synthesize(ctx context.Context, req *SynthesizeRequest) (*Synthesized, error) {
	m := &pb.SynthesizeRequest{CallId: withID(req.CallID), Session: req.Session, Partition: int32(req.Partition), Witness: refToPB(req.Witness),
		A: refToPB(req.A), B: refToPB(req.B), C: refToPB(req.C), LogDomain: int32(req.LogDomain), RowOrder: uint32(req.Rows), Threads: uint32(req.Threads)}
	var r *pb.SynthesizeReply
	err := s.do(ctx, m.CallId, func(ctx context.Context) (err error) {
		r, err = s.rpc.Synthesize(ctx, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.GetWitnessBytes() < 1 || r.GetWitnessBytes() > req.Witness.Length {
		return nil, s.broken("synthesize", "witness bytes", fmt.Sprintf("1 to %d", req.Witness.Length), r.GetWitnessBytes())
	}
	return &Synthesized{WitnessBytes: r.GetWitnessBytes(), Public: r.GetPublicInputs(), Elapsed: fromMS(r.GetElapsedMs())}, nil
}

func (s *synthesizerClient) Close(ctx context.Context, session string) error {
	m := &pb.CloseRequest{CallId: NewCallID(), Session: session}
	return s.do(ctx, m.CallId, func(ctx context.Context) error {
		_, err := s.rpc.Close(ctx, m)
		return err
	})
}

// broken is a plugin that does not keep the contract; the same work may succeed with another.
func (c *caller) broken(op, where string, expected, found any) error {
	e := errs.Mismatch(errs.Internal, op+": plugin breaks the contract", where, expected, found)
	e.Retryable = true
	return e
}

// NewProverClient speaks to a prover plugin. The client is a KeyMaker too; whether the plugin is, its abilities say.
func NewProverClient(conn grpc.ClientConnInterface, opts ClientOptions) *ProverClient {
	p := &ProverClient{rpc: pb.NewProverClient(conn)}
	p.caller = caller{opts: opts, cancel: func(ctx context.Context, id string) error {
		_, err := p.rpc.CancelCall(ctx, &pb.Cancel{CallId: id})
		return err
	}}
	return p
}

// ProverClient is a Prover and a KeyMaker over gRPC.
type ProverClient struct {
	caller
	rpc pb.ProverClient
}

var (
	_ Prover   = (*ProverClient)(nil)
	_ KeyMaker = (*ProverClient)(nil)
)

// Describe implements Prover.
func (p *ProverClient) Describe(ctx context.Context) (*ProverInfo, error) {
	var r *pb.ProverInfo
	err := p.quick(ctx, func(ctx context.Context) (err error) {
		r, err = p.rpc.Describe(ctx, &pb.DescribeProverRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	info := &ProverInfo{Identity: Identity{r.GetIdentity().GetName(), r.GetIdentity().GetVersion()}, Device: r.GetDevice(), DeviceID: r.GetDeviceId(),
		Lanes: int(r.GetLanes()), DeviceMemory: r.GetDeviceMemory(), Abilities: r.GetAbilities()}
	if info.Lanes < 1 || info.Lanes > 64 {
		return nil, p.broken("describe", "lanes", "1 to 64", info.Lanes)
	}
	return info, nil
}

// PlanKey implements Prover.
func (p *ProverClient) PlanKey(ctx context.Context, shape *groth16.Shape) (*KeyPlan, error) {
	var r *pb.KeyPlan
	err := p.quick(ctx, func(ctx context.Context) (err error) {
		r, err = p.rpc.PlanKey(ctx, shapeToPB(shape))
		return err
	})
	if err != nil {
		return nil, err
	}
	k := &KeyPlan{ResidentBytes: r.GetResidentBytes(), ScratchBytes: r.GetScratchBytes(), DeviceBytes: r.GetDeviceBytes(), Evaluations: int(r.GetEvaluations())}
	if !sane(k.ResidentBytes, k.ScratchBytes, k.DeviceBytes) || (k.Evaluations != 0 && k.Evaluations != 2 && k.Evaluations != 3) {
		return nil, p.broken("plan key", "plan", "sizes that can be", r.String())
	}
	return k, nil
}

// LoadKey implements Prover.
func (p *ProverClient) LoadKey(ctx context.Context, req *LoadKeyRequest) (*LoadedKey, error) {
	m := &pb.LoadKeyRequest{CallId: withID(req.CallID), KeyId: req.KeyID, Key: inputToPB(req.Key), Threads: uint32(req.Threads), Trusted: req.Trusted}
	if req.Circuit != nil {
		m.Circuit = inputToPB(*req.Circuit)
	}
	var r *pb.LoadedKey
	err := p.do(ctx, m.CallId, func(ctx context.Context) (err error) {
		r, err = p.rpc.LoadKey(ctx, m)
		return err
	})
	if err == nil {
		var k *LoadedKey
		if k, err = loadedFromPB(r); err == nil {
			return k, nil
		}
		err = p.broken("load key", "answer", "a key", err)
	}
	if r != nil { // loaded, but nobody will know of it
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), p.timeout())
		defer stop()
		_ = p.UnloadKey(ctx, m.KeyId)
	}
	return nil, err
}

// UnloadKey implements Prover.
func (p *ProverClient) UnloadKey(ctx context.Context, keyID string) error {
	m := &pb.UnloadKeyRequest{CallId: NewCallID(), KeyId: keyID}
	return p.do(ctx, m.CallId, func(ctx context.Context) error {
		_, err := p.rpc.UnloadKey(ctx, m)
		return err
	})
}

// Prove implements Prover. Events out of order, repeated or missing are errors: the host frees buffers on their word.
func (p *ProverClient) Prove(ctx context.Context, req *ProveRequest, event func(ProveEvent)) (*Proof, error) {
	m := &pb.ProveRequest{CallId: withID(req.CallID), KeyId: req.KeyID, Witness: refToPB(req.Witness), A: refToPB(req.A), B: refToPB(req.B), C: refToPB(req.C), Threads: uint32(req.Threads)}
	if t := req.InsecureTestRandomness; t != nil {
		m.InsecureTestRandomness = &pb.InsecureTestRandomness{R: groth16.ScalarBytes(&t.R), S: groth16.ScalarBytes(&t.S)}
	}
	var proof *Proof
	err := p.do(ctx, m.CallId, func(inner context.Context) (err error) {
		proof, err = p.stream(inner, m, func(e ProveEvent) {
			if ctx.Err() == nil { // a canceled call reports nothing any more
				event(e)
			}
		})
		return err
	})
	if err == nil {
		err = errs.Wrap(ctx.Err(), "prove") // a canceled result is never delivered
	}
	if err != nil {
		return nil, err
	}
	return proof, nil
}

// maxEvent bounds a message of Prove's stream: 192 bytes of proof and the times of some stages.
const maxEvent = 64 << 10

// stream reads the events of one proof and holds them to their order.
func (p *ProverClient) stream(ctx context.Context, m *pb.ProveRequest, event func(ProveEvent)) (*Proof, error) {
	st, err := p.rpc.Prove(ctx, m, grpc.MaxCallRecvMsgSize(maxEvent))
	if err != nil {
		return nil, err
	}
	next := Accepted
	var proof *Proof
	for {
		e, err := st.Recv()
		if errors.Is(err, io.EOF) {
			if proof == nil {
				return nil, p.broken("prove", "stream", "a proof", "its end")
			}
			return proof, nil
		}
		if err != nil {
			return nil, err
		}
		switch k := e.GetKind(); {
		case proof == nil && next <= DeviceDone && uint32(k) == uint32(next):
			event(next)
			next++
		case proof == nil && next > DeviceDone && k == pb.ProveEvent_PROOF:
			proof = &Proof{Bytes: e.GetProof()}
			for _, t := range e.GetTimes() {
				proof.Times = append(proof.Times, StageTime{Stage: t.GetStage(), Elapsed: fromMS(t.GetMs())})
			}
		default:
			return nil, p.broken("prove", "stream", next, k)
		}
	}
}

// MakeKey implements KeyMaker.
func (p *ProverClient) MakeKey(ctx context.Context, req *MakeKeyRequest, progress func(string, float64)) (*LoadedKey, error) {
	m := &pb.MakeKeyRequest{CallId: withID(req.CallID), Circuit: inputToPB(req.Circuit), Out: uint64(req.Out), RowOrder: uint32(req.Rows), HBasis: uint32(req.H),
		Threads: uint32(req.Threads), Seed: req.Seed}
	if t := req.Scalars; t != nil {
		m.Scalars = &pb.ToxicScalars{Tau: t.Tau, Alpha: t.Alpha, Beta: t.Beta, Gamma: t.Gamma, Delta: t.Delta, G1: t.G1, G2: t.G2}
	}
	var made *LoadedKey
	err := p.do(ctx, m.CallId, func(inner context.Context) error {
		st, err := p.rpc.MakeKey(inner, m)
		for err == nil {
			var e *pb.MakeKeyEvent
			e, err = st.Recv()
			switch {
			case err != nil:
			case e.GetMade() != nil:
				made, err = loadedFromPB(e.GetMade())
			case progress != nil && ctx.Err() == nil:
				progress(e.GetStage(), e.GetFraction())
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	if err == nil && made == nil {
		err = p.broken("make key", "stream", "a key", "its end")
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}
