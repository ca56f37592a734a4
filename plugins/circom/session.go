package circom

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
)

// session is an open request.
type session struct {
	id       string
	s        *synthesizer
	threads  int
	entries  []*entry // circuit and programs, pinned until close
	circuit  *circuit
	check    bool
	parts    []*part
	resident int64 // beside the entries

	ctx     context.Context // ends when the session is closed
	stop    context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// part is one partition: either witness, or program and inputs.
type part struct {
	witness     *witnessFile
	program     *program
	programName string
	inputs      *inputs
	symbols     *source // may be nil
	describe    contract.Partition
}

func newSession(s *synthesizer, threads int) *session {
	ses := &session{id: contract.NewCallID(), s: s, threads: threads}
	ses.ctx, ses.stop = context.WithCancel(context.Background())
	return ses
}

// begin registers a call on the session; its context ends with the session.
func (s *session) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errs.New(errs.NotFound, "synthesize", "session %q is closed", s.id)
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		detach()
		cancel()
		s.running.Done()
	}, nil
}

// close cancels the calls of the session, waits for them, and releases what it holds. Again is no error.
func (s *session) close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
	if was {
		return
	}
	for _, p := range s.parts {
		if p.inputs != nil {
			p.inputs.wipe()
		}
	}
	for _, e := range s.entries {
		e.release()
	}
}

// symbolsOf yields the names of main's own signals without indexes: "main.in[3]" is "in".
func symbolsOf(src *source) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for s, err := range iden3.Symbols(src.reader()) {
			if err != nil {
				yield("", errs.InFile(err, src.name))
				return
			}
			name, ok := strings.CutPrefix(s.Name, "main.")
			name, _, _ = strings.Cut(name, "[")
			if ok && !strings.Contains(name, ".") && !yield(name, nil) {
				return
			}
		}
	}
}
