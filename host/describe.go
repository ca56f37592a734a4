package host

import (
	"context"

	"github.com/weir-zk/weir/sdk/contract"
)

// Describe starts the plugins that a job of a kind on a backend will need, unless they run, and tells what the backend is. Empty names are those that a Job's empty fields
// stand for. Errors are those that a job would end with before it is opened.
func (e *Engine) Describe(ctx context.Context, backend, kind string) (*contract.ProverInfo, error) {
	list, err := e.candidates(&Job{Backend: backend})
	if err != nil {
		return nil, err
	}
	b, err := e.pick(ctx, list, nil)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = defaultKind
	}
	if _, err := e.frontFor(ctx, kind); err != nil {
		return nil, err
	}
	info, err := e.describe(ctx, b)
	if err != nil {
		return nil, err
	}
	c := *info
	return &c, nil
}
