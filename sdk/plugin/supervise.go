package plugin

import (
	"context"

	"github.com/weir-zk/weir/sdk/plugin/supervisor"
)

// Supervisor gives a live Process of one plugin: see package supervisor.
type Supervisor = supervisor.Supervisor[*Process]

// Supervise makes a Supervisor over Launch with cfg. Each start is a fresh process with fresh sockets.
func Supervise(cfg LaunchConfig, opts supervisor.Options) *Supervisor {
	return supervisor.New(func(ctx context.Context) (*Process, error) { return Launch(ctx, cfg) }, opts)
}
