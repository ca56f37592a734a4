package host

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/plugin/supervisor"
)

// remote is a source whose instances are processes, kept by a supervisor.
type remote[T any] struct {
	super  *supervisor.Supervisor[*plugin.Process]
	client func(conn grpc.ClientConnInterface, opts contract.ClientOptions) T
	cancel time.Duration

	mu   sync.Mutex
	proc *plugin.Process // what inst belongs to
	inst *live.Instance[T]
}

func remoteProver(e *Engine, c BackendConfig, h *health) (live.Source[contract.Prover], string, error) {
	return newRemote(e, c.Name, c.Plugin, h, e.heapLimit(true), func(conn grpc.ClientConnInterface, o contract.ClientOptions) contract.Prover {
		return contract.NewProverClient(conn, o)
	})
}

func remoteSynthesizer(e *Engine, c SynthesizerConfig, h *health) (live.Source[contract.Synthesizer], string, error) {
	return newRemote(e, c.Name, c.Plugin, h, e.heapLimit(false), contract.NewSynthesizerClient)
}

// newRemote starts nothing yet: the first Get does.
func newRemote[T any](e *Engine, name string, p Plugin, h *health, heap int64, client func(grpc.ClientConnInterface, contract.ClientOptions) T) (live.Source[T], string, error) {
	launch := plugin.LaunchConfig{Path: p.Command, Args: p.Args, Name: name, SHA256: p.Checksum, Env: p.Env, ContractVersions: []int{contract.Version},
		Dir: e.cfg.RuntimeDir, StartTimeout: e.cfg.StartTimeout, Threads: e.cfg.Threads, MemLimit: heap, Log: slog.New(&toHclog{log: e.cfg.Logger})}
	tenant := name
	if p.Trusted {
		tenant = ""
	}
	if p.Builtin != "" {
		tenant = ""
		self, err := plugin.SelfPath()
		if err != nil {
			return nil, "", err
		}
		launch.Path, launch.Args = self, []string{"plugin", "serve", p.Builtin}
	}
	if tenant == "" && e.cfg.TestRandomness {
		launch.Env = append(append([]string(nil), p.Env...), testRandomnessEnv+"=1")
	}
	r := &remote[T]{client: client, cancel: e.cfg.CancelTimeout}
	r.super = supervisor.New(func(ctx context.Context) (*plugin.Process, error) { return plugin.Launch(ctx, launch) },
		supervisor.Options{Listener: func(ev supervisor.Event) {
			switch ev.Kind {
			case supervisor.Started:
				e.cfg.Logger.Debug("plugin started", "plugin", name, "ms", ev.Took.Milliseconds())
				h.started()
			case supervisor.Exited:
				h.set(down, ev.Err)
				if h.died != nil {
					h.died()
				}
			case supervisor.StartFailed:
				h.set(down, ev.Err)
			case supervisor.BreakerChanged, supervisor.PingMissed:
				e.cfg.Logger.Warn("plugin "+ev.Kind.String(), "plugin", name, "breaker", ev.Breaker.String(), "misses", ev.Misses)
			}
		}})
	return r, tenant, nil
}

// processHeap is what a Go process takes before it works: it is no part of a budget.
const processHeap = 32 << 20

// heapLimit is GOMEMLIMIT of one plugin process, beside processHeap: all of them together have the budget. Keys and their scratch are larger than circuits, so
// provers share three quarters of it and synthesizers the rest; a kind that runs in this process leaves its part to the other. The limit is soft: it
// makes the collector work harder and refuses nothing. Buffers are in no heap.
func (e *Engine) heapLimit(prover bool) int64 {
	provers, synths := int64(0), int64(0)
	for _, b := range e.cfg.Backends {
		if b.New == nil {
			provers++
		}
	}
	for _, s := range e.cfg.Synthesizers {
		if s.New == nil {
			synths++
		}
	}
	budget := e.ledger.Budget()
	if budget == NoBudget {
		return 0 // of the collector: none
	}
	forSynths := budget / 4
	switch {
	case provers == 0:
		forSynths = budget
	case synths == 0:
		forSynths = 0
	}
	if prover {
		return processHeap + (budget-forSynths)/max(provers, 1)
	}
	return processHeap + forSynths/max(synths, 1)
}

// Get implements live.Source.
func (r *remote[T]) Get(ctx context.Context) (*live.Instance[T], error) {
	p, err := r.super.Get(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc != p {
		r.proc = p
		r.inst = &live.Instance[T]{Channel: p.Channel(), Kill: p.Kill, Gone: p.Done(), Client: r.client(p.Conn(), contract.ClientOptions{Gone: p.Done(),
			Kill: func() { _ = p.Kill("it did not answer a cancel, or its connection broke") }, CancelTimeout: r.cancel})}
	}
	return r.inst, nil
}

// Close implements live.Source.
func (r *remote[T]) Close(ctx context.Context) error { return r.super.Stop(ctx) }

// toHclog writes slog records to an hclog logger.
type toHclog struct {
	log    hclog.Logger
	prefix string
}

func hclogLevel(l slog.Level) hclog.Level {
	switch {
	case l < slog.LevelDebug:
		return hclog.Trace
	case l < slog.LevelInfo:
		return hclog.Debug
	case l < slog.LevelWarn:
		return hclog.Info
	case l < slog.LevelError:
		return hclog.Warn
	}
	return hclog.Error
}

func (h *toHclog) Enabled(_ context.Context, l slog.Level) bool {
	return h.log.GetLevel() <= hclogLevel(l) && h.log.GetLevel() != hclog.Off
}

func (h *toHclog) Handle(_ context.Context, rec slog.Record) error {
	var args []any
	rec.Attrs(func(a slog.Attr) bool {
		args = append(args, h.prefix+a.Key, a.Value.Resolve().Any())
		return true
	})
	h.log.Log(hclogLevel(rec.Level), strings.TrimRight(rec.Message, "\n"), args...)
	return nil
}

func (h *toHclog) WithAttrs(attrs []slog.Attr) slog.Handler {
	var args []any
	for _, a := range attrs {
		args = append(args, h.prefix+a.Key, a.Value.Resolve().Any())
	}
	return &toHclog{log: h.log.With(args...), prefix: h.prefix}
}

func (h *toHclog) WithGroup(name string) slog.Handler {
	return &toHclog{log: h.log, prefix: h.prefix + name + "."}
}
