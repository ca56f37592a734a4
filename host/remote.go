package host

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/plugin"
)

// remote is a source whose instances are processes.
type remote[T any] struct {
	e      *Engine
	kind   string
	name   string
	launch plugin.LaunchConfig
	client func(conn grpc.ClientConnInterface, opts contract.ClientOptions) T

	mu   sync.Mutex
	proc *plugin.Process
	inst *live.Instance[T]
}

func remoteProver(e *Engine, c BackendConfig) (live.Source[contract.Prover], string, error) {
	return newRemote(e, "backend", c.Name, c.Plugin, func(conn grpc.ClientConnInterface, o contract.ClientOptions) contract.Prover {
		return contract.NewProverClient(conn, o)
	})
}

func remoteSynthesizer(e *Engine, c SynthesizerConfig) (live.Source[contract.Synthesizer], string, error) {
	return newRemote(e, "synthesizer", c.Name, c.Plugin, contract.NewSynthesizerClient)
}

func newRemote[T any](e *Engine, kind, name string, p Plugin, client func(grpc.ClientConnInterface, contract.ClientOptions) T) (live.Source[T], string, error) {
	r := &remote[T]{e: e, kind: kind, name: name, client: client}
	r.launch = plugin.LaunchConfig{Path: p.Command, Args: p.Args, Name: name, SHA256: p.Checksum, Env: p.Env, ContractVersions: []int{contract.Version},
		Dir: e.cfg.RuntimeDir, StartTimeout: e.cfg.StartTimeout, Threads: e.cfg.Threads, Log: slog.New(&toHclog{log: e.cfg.Logger})}
	tenant := name
	if p.Builtin != "" {
		tenant = ""
		self, err := plugin.SelfPath()
		if err != nil {
			return nil, "", err
		}
		r.launch.Path, r.launch.Args = self, []string{"plugin", "serve", p.Builtin}
		if e.cfg.TestRandomness {
			r.launch.Env = append(append([]string(nil), p.Env...), testRandomnessEnv+"=1")
		}
	}
	return r, tenant, nil
}

// Get implements live.Source.
func (r *remote[T]) Get(ctx context.Context) (*live.Instance[T], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc != nil {
		select {
		case <-r.proc.Done():
			r.e.cfg.Listener.backend(BackendInfo{Backend: r.name, State: "down", Err: r.proc.ExitError()})
			r.proc, r.inst = nil, nil
		default:
			return r.inst, nil
		}
	}
	p, err := plugin.Launch(ctx, r.launch)
	if err != nil {
		return nil, err
	}
	r.proc = p
	r.inst = &live.Instance[T]{Channel: p.Channel(), Client: r.client(p.Conn(), contract.ClientOptions{Gone: p.Done(),
		Kill: func() { _ = p.Kill("it did not answer a cancel, or its connection broke") }, CancelTimeout: r.e.cfg.CancelTimeout})}
	return r.inst, nil
}

// Close implements live.Source.
func (r *remote[T]) Close(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return nil
	}
	return r.proc.Stop(ctx)
}

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
