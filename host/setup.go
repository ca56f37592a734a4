package host

import (
	"context"

	"github.com/weir-zk/weir/sdk/errs"
)

// Setup makes a development key.
func (e *Engine) Setup(ctx context.Context, job *SetupJob) (*SetupResult, error) {
	return nil, errs.New(errs.Unavailable, "setup", "not built yet")
}
