package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// Synthesizer is a contract.Synthesizer over a source. Its sessions outlive the instance that opened them.
type Synthesizer struct {
	src  Source[contract.Synthesizer]
	pool *slab.Pool
	last atomic.Uint64

	mu       sync.Mutex
	sessions map[string]*session
}

type session struct {
	req contract.OpenRequest

	gate   gate.Gate // one opening at a time
	in     *Instance[contract.Synthesizer]
	opened *contract.Session // as that instance knows it
}

var _ contract.Synthesizer = (*Synthesizer)(nil)

// NewSynthesizer makes a synthesizer over src whose buffers and files lie in pool.
func NewSynthesizer(src Source[contract.Synthesizer], pool *slab.Pool) *Synthesizer {
	return &Synthesizer{src: src, pool: pool, sessions: map[string]*session{}}
}

// Shutdown ends the source.
func (s *Synthesizer) Shutdown(ctx context.Context) error { return s.src.Close(ctx) }

// Describe implements contract.Synthesizer.
func (s *Synthesizer) Describe(ctx context.Context) (info *contract.SynthesizerInfo, err error) {
	i, err := s.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	err = safely("describe", func() (err error) { info, err = i.Client.Describe(ctx); return err })
	return info, err
}

// Open implements contract.Synthesizer. The inputs must stay registered until Close.
func (s *Synthesizer) Open(ctx context.Context, req *contract.OpenRequest) (*contract.Session, error) {
	i, err := s.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	x := &session{req: *req, gate: gate.New()}
	if err := s.open(ctx, i, x); err != nil {
		return nil, err
	}
	id := fmt.Sprintf("s%d", s.last.Add(1))
	s.mu.Lock()
	s.sessions[id] = x
	s.mu.Unlock()
	out := *x.opened
	out.ID = id
	return &out, nil
}

func (s *Synthesizer) open(ctx context.Context, i *Instance[contract.Synthesizer], x *session) error {
	var files []slab.Handle
	for _, in := range x.req.Inputs {
		files = append(files, in.Handle)
	}
	if err := hand(s.pool, i, files...); err != nil {
		return err
	}
	req := x.req
	req.CallID = contract.NewCallID()
	if req.Base != "" {
		var err error
		if req.Base, err = s.base(ctx, i, req.Base); err != nil {
			return err
		}
	}
	var opened *contract.Session
	if err := safely("open", func() (err error) { opened, err = i.Client.Open(ctx, &req); return err }); err != nil {
		if opened != nil && opened.ID != "" { // a failure that left something behind
			err = errors.Join(err, s.close(ctx, i, opened.ID))
		}
		return err
	}
	if x.opened != nil && len(opened.Partitions) != len(x.opened.Partitions) {
		if err := s.close(ctx, i, opened.ID); err != nil {
			return err
		}
		return errs.Mismatch(errs.InvalidFile, "open again", "partitions", len(x.opened.Partitions), len(opened.Partitions)).
			WithHint("the input files changed while the job ran")
	}
	x.in, x.opened = i, opened
	return nil
}

// base is a shared session as instance i knows it, opened there if it was not: empty when it is closed, for then it holds nothing.
func (s *Synthesizer) base(ctx context.Context, i *Instance[contract.Synthesizer], id string) (string, error) {
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return "", nil
	}
	if err := x.gate.Enter(ctx); err != nil {
		return "", err
	}
	defer x.gate.Leave()
	if x.in != i {
		if err := s.open(ctx, i, x); err != nil {
			return "", err
		}
	}
	return x.opened.ID, nil
}

// Synthesize implements contract.Synthesizer.
func (s *Synthesizer) Synthesize(ctx context.Context, req *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	i, err := s.src.Get(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	x := s.sessions[req.Session]
	s.mu.Unlock()
	if x == nil {
		return nil, errs.New(errs.Internal, "synthesize", "session %s is not open", req.Session)
	}
	if err := x.gate.Enter(ctx); err != nil {
		return nil, err
	}
	if x.in != i {
		err = s.open(ctx, i, x)
	}
	r := *req
	if x.opened != nil {
		r.Session = x.opened.ID
	}
	x.gate.Leave()
	if err != nil {
		return nil, err
	}
	if err := hand(s.pool, i, r.Witness.Handle, r.A.Handle, r.B.Handle, r.C.Handle); err != nil {
		return nil, err
	}
	var out *contract.Synthesized
	err = safely("synthesize", func() (err error) { out, err = i.Client.Synthesize(ctx, &r); return err })
	if ctx.Err() != nil {
		return nil, errs.Wrap(ctx.Err(), "synthesize")
	}
	return out, err
}

// Close implements contract.Synthesizer. When it returns nil the session's memory is free: a process that does not give it back is ended. After an error
// the session is remembered, so that it can be asked for again.
func (s *Synthesizer) Close(ctx context.Context, id string) error {
	s.mu.Lock()
	x := s.sessions[id]
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	if err := x.gate.Enter(ctx); err != nil {
		return err
	}
	defer x.gate.Leave()
	if err := x.in.takeBack(safely("close", func() error { return x.in.Client.Close(ctx, x.opened.ID) })); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.sessions, id)
	s.mu.Unlock()
	return nil
}

// closeTimeout bounds the end of a session that was opened for nothing.
const closeTimeout = 10 * time.Second

// close ends a session that nobody else knows of, also when ctx has ended.
func (s *Synthesizer) close(ctx context.Context, i *Instance[contract.Synthesizer], id string) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	return i.takeBack(safely("close", func() error { return i.Client.Close(ctx, id) }))
}
