// Package gate has a mutex that may be held over a slow call: who waits for it can give up.
package gate

import (
	"context"

	"github.com/weir-zk/weir/sdk/errs"
)

// Gate lets one in at a time. Make one with New.
type Gate struct{ c chan struct{} }

// New makes an open gate.
func New() Gate { return Gate{make(chan struct{}, 1)} }

// Enter waits until the gate is free, or ctx ends.
func (g Gate) Enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(err, "wait")
	}
	select {
	case g.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errs.Wrap(ctx.Err(), "wait")
	}
}

// Leave lets the next one in.
func (g Gate) Leave() { <-g.c }
