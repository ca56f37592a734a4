package host

import (
	"context"

	"github.com/weir-zk/weir/sdk/errs"
)

// Engine runs jobs. Methods are safe for concurrent use.
type Engine struct {
	cfg Config
}

// New starts an engine. Plugin processes are started when they are first needed.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if err := cfg.EnsureDefaults().Validate(); err != nil {
		return nil, err
	}
	return &Engine{cfg: cfg}, nil
}

// Config is the configuration in force, defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// Prove runs a job to its end. The end of ctx cancels it, unless somebody else waits for the same job.
func (e *Engine) Prove(ctx context.Context, job *Job) (*Result, error) {
	return nil, errs.New(errs.Unavailable, "prove", "not built yet")
}

// Setup makes a development key.
func (e *Engine) Setup(ctx context.Context, job *SetupJob) (*SetupResult, error) {
	return nil, errs.New(errs.Unavailable, "setup", "not built yet")
}

// Report is the account now.
func (e *Engine) Report() Report { return Report{} }

// Close refuses new jobs, lets those that run finish, and stops the plugins. When ctx ends, what still runs is canceled.
func (e *Engine) Close(ctx context.Context) error { return nil }
