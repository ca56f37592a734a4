// Package circom is the synthesizer for circuits written in circom: request kind "circom".
//
// A request names a circuit (.r1cs, or the matrices that a .zkey or .wkey carries) and for each partition a witness (.wtns), or a
// witness program (.wasm) with its inputs (.json). Files are told apart by what they hold, never by their names. A .zkey has no C
// matrix: the witness is checked only where an .r1cs or a prepared key with C is given.
//
// Reading order: open.go (what a request means), synthesize.go (what is done with it), witness.go and program.go (the two sources of a witness).
package circom

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/weir-zk/weir/internal/procmem"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// Kind is the request kind of this plugin.
const Kind = "circom"

// Version is the plugin's own version.
const Version = "0.1.0"

// OptionCheck says whether witnesses are checked against the constraints before a proof is begun: "on", "off", or "auto" (the default: when the C rows are at hand).
const OptionCheck = "check"

// Options configure a synthesizer. The zero value works.
type Options struct {
	// CacheBytes bounds what parsed circuits and compiled programs keep in memory when no session uses them. What sessions use is never
	// evicted, and is charged to them. Default is 256 MiB; negative keeps nothing.
	CacheBytes int64
	// MaxProgramMemory bounds the memory of one running witness program, in bytes. Default is 4 GiB, the most that WebAssembly has.
	MaxProgramMemory int64
}

func (o *Options) ensureDefaults() {
	if o.CacheBytes == 0 {
		o.CacheBytes = 256 << 20
	}
	if o.MaxProgramMemory <= 0 {
		o.MaxProgramMemory = 4 << 30
	}
}

// New makes a synthesizer that finds buffers and files through resolver.
func New(resolver slab.Resolver, opts Options) contract.Synthesizer {
	opts.ensureDefaults()
	return &synthesizer{resolver: resolver, opts: opts, cache: newCache(max(opts.CacheBytes, 0)), sessions: map[string]*session{}}
}

type synthesizer struct {
	resolver slab.Resolver
	opts     Options
	cache    *cache
	running  atomic.Int64 // bytes of memory of the programs that run now

	mu       sync.Mutex
	sessions map[string]*session
}

// Describe implements contract.Synthesizer.
func (s *synthesizer) Describe(context.Context) (*contract.SynthesizerInfo, error) {
	return &contract.SynthesizerInfo{Identity: contract.Identity{Name: "circom", Version: Version}, Kinds: []string{Kind}, Abilities: []string{contract.AbilitySharedCircuits}}, nil
}

// Open implements contract.Synthesizer.
func (s *synthesizer) Open(ctx context.Context, req *contract.OpenRequest) (out *contract.Session, err error) {
	defer recovered("open", &err)
	if req.Kind != Kind {
		return nil, errs.Mismatch(errs.Unsupported, "open", "request kind", Kind, req.Kind)
	}
	check, err := checkOption(req.Options)
	if err != nil {
		return nil, err
	}
	o := &opener{s: s, tasks: tasks(req.Threads), check: check, shared: req.Shared}
	ses, err := o.open(ctx, req.Inputs)
	procmem.GiveBack() // parsing makes garbage
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.sessions[ses.id] = ses
	base := s.sessions[req.Base]
	s.mu.Unlock()
	return ses.describe(base), nil
}

// Close implements contract.Synthesizer: it ends what still runs in the session, waits for that, and lets go of everything.
func (s *synthesizer) Close(_ context.Context, id string) error {
	s.mu.Lock()
	ses := s.sessions[id]
	delete(s.sessions, id)
	s.mu.Unlock()
	if ses != nil {
		ses.close()
		procmem.GiveBack()
	}
	return nil
}

// Synthesize implements contract.Synthesizer.
func (s *synthesizer) Synthesize(ctx context.Context, req *contract.SynthesizeRequest) (out *contract.Synthesized, err error) {
	defer recovered("synthesize", &err)
	s.mu.Lock()
	ses := s.sessions[req.Session]
	s.mu.Unlock()
	if ses == nil {
		return nil, errs.New(errs.NotFound, "synthesize", "no session %q is open", req.Session)
	}
	ctx, end, err := ses.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer procmem.GiveBack()
	defer end()
	return ses.synthesize(ctx, req)
}

// recovered turns a panic into an error: a bad file must never end the process.
func recovered(op string, err *error) {
	if p := recover(); p != nil {
		*err = errs.New(errs.Internal, op, "panic: %v\n%s", p, debug.Stack())
	}
}

// tasks is how many goroutines a thread limit allows; 0 is all.
func tasks(threads int) int {
	most := runtime.GOMAXPROCS(0)
	if threads <= 0 || threads > most {
		return most
	}
	return threads
}

type checkMode uint8

const (
	checkAuto checkMode = iota
	checkOn
	checkOff
)

func checkOption(options map[string]string) (checkMode, error) {
	mode := checkAuto
	for k, v := range options {
		if k != OptionCheck {
			return 0, errs.Mismatch(errs.InvalidArgument, "open", "options", `"check"`, k)
		}
		switch v {
		case "auto", "":
		case "on":
			mode = checkOn
		case "off":
			mode = checkOff
		default:
			return 0, errs.Mismatch(errs.InvalidArgument, "open", "option check", "auto, on or off", v)
		}
	}
	return mode, nil
}
