package host

import (
	"context"
	"time"
)

// Clock is where the engine takes its time from, so that a simulation can run the same code in its own time.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of its own after d; stop prevents that unless it has begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
	// WithTimeout is context.WithTimeout.
	WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
func (systemClock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d)
}
