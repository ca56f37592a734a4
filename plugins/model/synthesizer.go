package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// SynthesizerName is how the synthesizer is called.
const SynthesizerName = "model-synthesizer"

// OptionJob is a request's option, a number that decides with the seed what befalls its partitions: where jobs have different ones it does not matter in which
// order they come. Without it they are numbered as they come.
const OptionJob = "job"

// Synthesizer takes as long as a synthesis. A request has a key file of the model and one witness, of any content, for each partition.
type Synthesizer struct {
	*model
	crowd crowd

	mu       sync.Mutex
	sessions map[string]*session
	last     int
}

type session struct {
	circuit    *Circuit
	number     uint64
	partitions int
	tries      map[int]int // at a partition; guarded by Synthesizer.mu
}

var _ contract.Synthesizer = (*Synthesizer)(nil)

// NewSynthesizer makes a synthesizer that reads files and writes buffers through r.
func NewSynthesizer(r slab.Resolver, opts Options) *Synthesizer {
	m := newModel(r, opts)
	return &Synthesizer{model: m, crowd: crowd{clock: m.opts.Clock}, sessions: map[string]*session{}}
}

// Describe implements contract.Synthesizer.
func (s *Synthesizer) Describe(context.Context) (*contract.SynthesizerInfo, error) {
	return &contract.SynthesizerInfo{Identity: contract.Identity{Name: SynthesizerName, Version: s.opts.Version}, Kinds: []string{Kind}}, nil
}

// Open implements contract.Synthesizer.
func (s *Synthesizer) Open(_ context.Context, req *contract.OpenRequest) (*contract.Session, error) {
	ses := &session{tries: map[int]int{}}
	for _, in := range req.Inputs {
		switch in.Role {
		case contract.RoleKey:
			c, err := s.readKey(in.Handle)
			if err != nil {
				return nil, errs.InFile(err, in.Name)
			}
			ses.circuit = c
		case contract.RoleWitness:
			ses.partitions++
		default:
			return nil, errs.Mismatch(errs.InvalidArgument, "open", "inputs", "a key and witnesses", in.Role)
		}
	}
	for name, value := range req.Options {
		var err error
		if ses.number, err = strconv.ParseUint(value, 10, 32); name != OptionJob || err != nil {
			return nil, errs.Mismatch(errs.InvalidArgument, "open", "options", OptionJob+" and a number", fmt.Sprintf("%s %q", name, value))
		}
	}
	if ses.circuit == nil || ses.partitions == 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "open", "inputs", "a key and at least one witness", fmt.Sprintf("a key: %t, witnesses: %d", ses.circuit != nil, ses.partitions))
	}
	shape := ses.circuit.Shape()
	out := &contract.Session{}
	for range ses.partitions {
		out.Partitions = append(out.Partitions, contract.Partition{NbWires: shape.NbWires, NbPublic: shape.NbPublic, NbConstraints: shape.NbConstraints,
			WitnessBytes: int64(ses.circuit.Witness), ScratchBytes: int64(ses.circuit.SynthesisScratch)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	if req.Options[OptionJob] == "" {
		ses.number = uint64(s.last)
	}
	out.ID = fmt.Sprintf("model-%d", s.last)
	s.sessions[out.ID] = ses
	return out, nil
}

// Synthesize implements contract.Synthesizer.
func (s *Synthesizer) Synthesize(ctx context.Context, req *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	s.mu.Lock()
	ses := s.sessions[req.Session]
	if ses == nil || req.Partition < 0 || req.Partition >= ses.partitions {
		s.mu.Unlock()
		return nil, errs.New(errs.NotFound, "synthesize", "no partition %d of session %q", req.Partition, req.Session)
	}
	ses.tries[req.Partition]++
	luck := s.chance('s', ses.number, uint64(req.Partition), uint64(ses.tries[req.Partition]))
	s.mu.Unlock()
	c := ses.circuit
	begin := s.opts.Clock.Now()
	factor := luck.jitter(c.Jitter)
	age := ses.number<<32 | uint64(req.Partition)
	if err := s.crowd.do(ctx, age, func(k int) time.Duration { return times(Duration(c.SynthesisAt(k)), factor) }); err != nil {
		return nil, err
	}
	if luck.happens(c.Failures.Synthesis) {
		return nil, lose("synthesize")
	}
	if s.opts.Touch {
		if err := s.stamp(age+1, req.Witness, req.A, req.B, req.C); err != nil {
			return nil, err
		}
	}
	t, err := tiny()
	if err != nil {
		return nil, err
	}
	out := &contract.Synthesized{WitnessBytes: req.Witness.Length, Elapsed: s.opts.Clock.Now().Sub(begin)}
	for i := range t.public {
		out.Public = append(out.Public, groth16.ScalarBytes(&t.public[i]))
	}
	return out, nil
}

// Close implements contract.Synthesizer.
func (s *Synthesizer) Close(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
	return nil
}

// lose is a fault that the profile asked for.
func lose(op string) error {
	return &errs.Error{Class: errs.BackendGone, Op: op, Found: "the profile of the model asks for this failure", Retryable: true}
}

// page is how far apart buffers are touched.
const page = 4096

// stamp writes x to every page of the buffers.
func (m *model) stamp(x uint64, refs ...slab.Ref) error {
	return m.pages(refs, func(b []byte) error {
		binary.LittleEndian.PutUint64(b, x)
		return nil
	})
}

// stamped checks that every page of the buffers has the same stamp.
func (m *model) stamped(refs ...slab.Ref) error {
	var x uint64
	return m.pages(refs, func(b []byte) error {
		y := binary.LittleEndian.Uint64(b)
		if x == 0 {
			x = y
		}
		if y != x || x == 0 {
			return errs.Mismatch(errs.Internal, "prove", "buffers", fmt.Sprintf("those of partition %#x", x), fmt.Sprintf("one of %#x", y))
		}
		return nil
	})
}

func (m *model) pages(refs []slab.Ref, f func([]byte) error) error {
	for _, r := range refs {
		if r.Length == 0 {
			continue
		}
		b, err := m.r.Bytes(r)
		if err != nil {
			return err
		}
		for ; len(b) >= 8; b = b[min(page, len(b)):] {
			if err := f(b[:8]); err != nil {
				return err
			}
		}
	}
	return nil
}
