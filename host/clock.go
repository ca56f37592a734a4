package host

import "time"

// Clock is where the engine takes its time from, so that a simulation can run the same code in its own time.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of its own after d; stop prevents that unless it has begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
