package main

import (
	"context"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/errs"
)

// closeTimeout is how long running work may take to end once the command is over; plugins are killed after their own time.
const closeTimeout = 10 * time.Second

// withEngine runs f with an engine and stops the engine and its plugins before it returns, whatever happened.
func (s *session) withEngine(ctx context.Context, change func(*host.Config), listener *host.Listener, f func(*host.Engine) error) (err error) {
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
	s.engines.Add(1)
	defer s.engines.Add(-1)
	e, err := host.New(ctx, cfg)
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
