package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/errs"
)

// closeTimeout is how long running work may take to end once the command is over; plugins are killed after their own time.
const closeTimeout = 10 * time.Second

// withEngine runs f with an engine and stops the engine and its plugins before it returns, whatever happened.
func (s *session) withEngine(ctx context.Context, change func(*host.Config), listener *host.Listener, f func(*host.Engine) error) error {
	return s.withEngineOf(ctx, host.New, change, listener, f)
}

// withEngineOf is withEngine with an engine of another kind.
func (s *session) withEngineOf(ctx context.Context, start func(context.Context, host.Config) (*host.Engine, error), change func(*host.Config), listener *host.Listener, f func(*host.Engine) error) (err error) {
	cfg := s.cfg.Host()
	cfg.Logger = s.log
	cfg.KeepResults = -1
	cfg.Listener = host.LogListener(s.log)
	if listener != nil {
		cfg.Listener = host.TeeListener(cfg.Listener, listener)
	}
	if change != nil {
		change(&cfg)
	}
	if known := backendNames(cfg.Backends); cfg.Backend != "" && !slices.Contains(known, cfg.Backend) {
		e := errs.Mismatch(errs.InvalidArgument, "backend", s.cfg.Source("backend"), "one of "+strings.Join(known, ", "), fmt.Sprintf("%q", cfg.Backend))
		if cfg.Backend == host.CUDABackend {
			if !s.cfg.GPU {
				return e.WithHint("GPUs are switched off: gpu = false, %s", s.cfg.Source("gpu"))
			}
			return e.WithHint("install %s and libweir_cuda.so beside weir, or put them on PATH and in /usr/local/lib; weir doctor says what is found", host.CUDAExecutable)
		}
		return e.WithHint("see weir plugin list for what there is, docs/config.md for how to add one")
	}
	s.engines.Add(1)
	defer s.engines.Add(-1)
	e, err := start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if cerr := e.Close(cctx); cerr != nil {
			if err == nil {
				err = errs.Wrap(cerr, "stop")
			} else {
				s.warn("stop: %v", cerr)
			}
		}
	}()
	return f(e)
}

func backendNames(list []host.BackendConfig) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return out
}
