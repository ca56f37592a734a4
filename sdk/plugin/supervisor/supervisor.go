// Package supervisor keeps a plugin alive for those who need it, without promising that any one process is.
//
// Nobody holds a process across a wait: each use asks Get, which returns the live process or starts one. Starts that
// follow a failure wait (capped exponential backoff with jitter); after several failures within a window a circuit
// breaker opens and Get refuses at once, until a cooldown is over and a single start, the probe, is let through. A live
// process is asked for a sign of life at intervals, and killed when it gives none several times in a row: an idle
// plugin answers, a stopped or wedged one does not.
//
// The package knows nothing of processes or gRPC: it supervises anything that is an Instance, and takes its time from
// package time, so that tests run it in virtual time (testing/synctest) over a fake.
package supervisor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// Instance is one life of what is supervised. plugin.Process is one.
type Instance interface {
	// Done is closed when the instance is dead.
	Done() <-chan struct{}
	// ExitError is why it died; nil while it lives and after a Stop.
	ExitError() error
	// Ping asks for a sign of life.
	Ping(context.Context) error
	// Stop ends it in order and returns when it is gone.
	Stop(context.Context) error
	// Kill ends it at once and returns when it is gone.
	Kill(reason string) error
}

// Options configure a Supervisor. The zero value of each field stands for its default.
type Options struct {
	// MinBackoff is the wait before the first restart after a failure; it doubles with each further one. Default 200 ms.
	MinBackoff time.Duration
	// MaxBackoff caps it. Default 30 s.
	MaxBackoff time.Duration
	// Jitter is the share by which a wait may be longer or shorter, 0 to 1, so that many do not restart in step. Default
	// 0.2; negative means none.
	Jitter float64
	// HealthyAfter is the uptime from which a start counts as good: backoff begins anew, a half-open breaker closes.
	// Default 10 s.
	HealthyAfter time.Duration

	// Window and Threshold open the breaker: Threshold failures within Window. Defaults 5 in 2 minutes; a negative
	// Threshold means no breaker.
	Window    time.Duration
	Threshold int
	// Cooldown is how long the breaker stays open; it doubles each time a probe fails, up to MaxCooldown. Defaults 30 s
	// and 10 minutes.
	Cooldown, MaxCooldown time.Duration

	// PingInterval, PingTimeout and PingMisses are the heartbeat: that many unanswered pings in a row and the instance
	// is killed. Defaults 5 s, 5 s and 3; a negative interval means no heartbeat.
	PingInterval, PingTimeout time.Duration
	PingMisses                int

	// Listener is told every event, in order, from whatever goroutine; it must not block. It may call State, not Get.
	Listener func(Event)
}

func (o *Options) ensureDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.MinBackoff, 200*time.Millisecond)
	def(&o.MaxBackoff, 30*time.Second)
	def(&o.HealthyAfter, 10*time.Second)
	def(&o.Window, 2*time.Minute)
	def(&o.Cooldown, 30*time.Second)
	def(&o.MaxCooldown, 10*time.Minute)
	def(&o.PingInterval, 5*time.Second)
	def(&o.PingTimeout, 5*time.Second)
	if o.Jitter == 0 {
		o.Jitter = 0.2
	}
	o.Jitter = min(max(o.Jitter, 0), 1)
	if o.Threshold == 0 {
		o.Threshold = 5
	}
	if o.PingMisses <= 0 {
		o.PingMisses = 3
	}
}

// BreakerState is whether starts are let through.
type BreakerState uint8

const (
	// Closed lets every start through.
	Closed BreakerState = iota
	// Open refuses.
	Open
	// HalfOpen has let one start through, to see.
	HalfOpen
)

// String names the state.
func (s BreakerState) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return fmt.Sprintf("breaker state %d", uint8(s))
}

// EventKind says what happened.
type EventKind uint8

const (
	// Started: an instance answered. Took is the time it needed.
	Started EventKind = iota
	// StartFailed: none did. Err says why.
	StartFailed
	// Exited: a live instance died unasked. Err is its ExitError, Took its uptime.
	Exited
	// Stopped: it ended because of Supervisor.Stop.
	Stopped
	// Backoff: the next start waits. Wait says how long.
	Backoff
	// PingMissed: no sign of life. Misses says how many times in a row; at the configured number it is killed.
	PingMissed
	// BreakerChanged: Breaker is the new state; Wait, for Open, the cooldown.
	BreakerChanged
	// Faulted: Fail was called. Err is its reason.
	Faulted
)

var kindNames = [...]string{"started", "start failed", "exited", "stopped", "backoff", "ping missed", "breaker", "fault"}

// String names the kind.
func (k EventKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is one change. Fields that a kind does not speak of are zero.
type Event struct {
	Kind    EventKind
	At      time.Time
	Took    time.Duration
	Wait    time.Duration
	Misses  int
	Breaker BreakerState
	Err     error
}

// State is what a status page shows.
type State struct {
	Live     bool
	Starting bool
	Starts   int // instances that answered, in all
	Failures int // failed starts, unasked deaths and faults, in all
	Breaker  BreakerState
	RetryAt  time.Time // the earliest next start; zero when at once
	LastErr  error     // the last failure
}

// Supervisor gives a live T. Make one with New. All methods are safe for concurrent use.
type Supervisor[T Instance] struct {
	launch func(context.Context) (T, error)
	opts   Options
	random func() float64 // in [0, 1)

	life context.Context // ends with Stop
	end  context.CancelFunc
	work sync.WaitGroup // goroutines of starts and watches

	mu       sync.Mutex
	closed   bool
	live     *instance[T]
	attempt  *attempt[T] // the start under way, waiting included
	backoff  time.Duration
	retryAt  time.Time
	failures []time.Time // within the window
	breaker  BreakerState
	cooldown time.Duration
	state    State
	pending  []Event

	emitting sync.Mutex
}

type instance[T Instance] struct {
	it      T
	started time.Time
	proven  bool
}

// attempt is a start that any number of callers wait for.
type attempt[T Instance] struct {
	done chan struct{}
	it   T
	err  error
}

// New makes a Supervisor over launch, which starts one instance and returns when it is ready. Nothing is started before
// the first Get.
func New[T Instance](launch func(context.Context) (T, error), opts Options) *Supervisor[T] {
	opts.ensureDefaults()
	s := &Supervisor[T]{launch: launch, opts: opts, random: rand.Float64, cooldown: opts.Cooldown}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Get returns the live instance, or starts one, or waits for a start that is under way. The start goes on when ctx ends:
// others may wait for it. Errors: errs.Unavailable (retryable) while the breaker is open, with the time until it lets a
// start through, and (not retryable) after Stop; the class of ctx's error; else what the start said, retryable as that is.
func (s *Supervisor[T]) Get(ctx context.Context) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, &errs.Error{Class: errs.ClassOf(err), Op: "get plugin", Err: err}
	}
	s.mu.Lock()
	s.reapLocked()
	if s.closed {
		s.mu.Unlock()
		s.emit()
		return none, errs.New(errs.Unavailable, "get plugin", "its supervisor is stopped")
	}
	if s.live != nil {
		it := s.live.it
		s.mu.Unlock()
		s.emit()
		return it, nil
	}
	a := s.attempt
	if a == nil {
		if wait := s.refusedLocked(); wait > 0 {
			err := &errs.Error{Class: errs.Unavailable, Op: "get plugin", Retryable: true, Err: s.state.LastErr,
				Found: fmt.Sprintf("circuit breaker is open for another %v after repeated failures", wait.Round(time.Millisecond))}
			s.mu.Unlock()
			s.emit()
			return none, err
		}
		a = &attempt[T]{done: make(chan struct{})}
		s.attempt = a
		wait := max(time.Until(s.retryAt), 0)
		if wait > 0 {
			s.event(Event{Kind: Backoff, Wait: wait})
		}
		s.work.Go(func() { s.start(a, wait) })
	}
	s.mu.Unlock()
	s.emit()
	select {
	case <-a.done:
		return a.it, a.err
	case <-ctx.Done():
		return none, &errs.Error{Class: errs.ClassOf(ctx.Err()), Op: "get plugin", Found: "it was still starting", Err: ctx.Err()}
	}
}

// refusedLocked is how long the breaker still refuses; when it no longer does, the caller's start is the probe.
func (s *Supervisor[T]) refusedLocked() time.Duration {
	if s.breaker != Open {
		return 0
	}
	if wait := time.Until(s.retryAt); wait > 0 {
		return wait
	}
	s.setBreaker(HalfOpen, 0)
	return 0
}

// start waits, launches, and hands the result to all who wait for a.
func (s *Supervisor[T]) start(a *attempt[T], wait time.Duration) {
	err := s.sleep(wait)
	began := time.Now()
	var it T
	if err == nil {
		it, err = s.launch(s.life)
	}
	s.mu.Lock()
	s.attempt = nil
	switch {
	case err == nil && s.closed:
		// Stop came while it started; it is ended here, since nobody else knows it.
		s.mu.Unlock()
		_ = it.Stop(context.Background())
		a.err = errs.New(errs.Unavailable, "get plugin", "its supervisor is stopped")
		close(a.done)
		return
	case err == nil:
		in := &instance[T]{it: it, started: time.Now()}
		s.live, a.it = in, it
		s.state.Starts++
		s.event(Event{Kind: Started, Took: time.Since(began)})
		s.work.Go(func() { s.watch(in) })
	case s.closed:
		a.err = errs.New(errs.Unavailable, "get plugin", "its supervisor is stopped")
	default:
		a.err = err
		s.event(Event{Kind: StartFailed, Err: err, Took: time.Since(began)})
		s.failedLocked(err)
	}
	s.mu.Unlock()
	s.emit()
	close(a.done)
}

func (s *Supervisor[T]) sleep(d time.Duration) error {
	if d <= 0 {
		return s.life.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.life.Err()
	case <-s.life.Done():
		return s.life.Err()
	}
}

// watch follows one instance from its start to its death.
func (s *Supervisor[T]) watch(in *instance[T]) {
	healthy := time.NewTimer(s.opts.HealthyAfter)
	defer healthy.Stop()
	var beat <-chan time.Time
	if s.opts.PingInterval > 0 {
		t := time.NewTicker(s.opts.PingInterval)
		defer t.Stop()
		beat = t.C
	}
	misses := 0
	for {
		select {
		case <-in.it.Done():
			s.mu.Lock()
			s.reapLocked()
			s.mu.Unlock()
			s.emit()
			return
		case <-healthy.C:
			s.mu.Lock()
			in.proven = true
			s.backoff, s.retryAt = 0, time.Time{}
			if s.breaker == HalfOpen {
				s.failures = nil
				s.cooldown = s.opts.Cooldown
				s.setBreaker(Closed, 0)
			}
			s.mu.Unlock()
			s.emit()
		case <-beat:
			if s.ping(in) {
				misses = 0
				continue
			}
			misses++
			s.mu.Lock()
			closed := s.closed
			if !closed {
				s.event(Event{Kind: PingMissed, Misses: misses})
			}
			s.mu.Unlock()
			s.emit()
			if misses == s.opts.PingMisses && !closed {
				_ = in.it.Kill(fmt.Sprintf("no sign of life in %d pings", misses))
			}
		}
	}
}

// ping is true when the instance answered, or is dead already, which is not the heartbeat's matter.
func (s *Supervisor[T]) ping(in *instance[T]) bool {
	ctx, cancel := context.WithTimeout(s.life, s.opts.PingTimeout)
	defer cancel()
	if in.it.Ping(ctx) == nil || s.life.Err() != nil {
		return true
	}
	select {
	case <-in.it.Done():
		return true
	default:
		return false
	}
}

// reapLocked forgets a live instance that is dead. Get does it too, so that nobody gets a dead one because its watch
// has not been scheduled yet.
func (s *Supervisor[T]) reapLocked() {
	in := s.live
	if in == nil {
		return
	}
	select {
	case <-in.it.Done():
	default:
		return
	}
	s.live = nil
	up := time.Since(in.started)
	err := in.it.ExitError()
	if s.closed {
		s.event(Event{Kind: Stopped, Took: up, Err: err})
		return
	}
	if err == nil { // somebody stopped it past the supervisor
		err = errs.New(errs.BackendGone, "plugin", "it was stopped")
	}
	s.event(Event{Kind: Exited, Took: up, Err: err})
	s.failedLocked(err)
}

// failedLocked counts a failure and sets when the next start may be.
func (s *Supervisor[T]) failedLocked(err error) {
	now := time.Now()
	s.state.Failures++
	s.state.LastErr = err
	keep := s.failures[:0]
	for _, t := range s.failures {
		if now.Sub(t) < s.opts.Window {
			keep = append(keep, t)
		}
	}
	s.failures = append(keep, now)

	probe := s.breaker == HalfOpen
	if s.breaker != Open && s.opts.Threshold > 0 && (probe || len(s.failures) >= s.opts.Threshold) {
		if probe {
			s.cooldown = min(2*s.cooldown, s.opts.MaxCooldown)
		}
		s.failures = nil
		s.backoff = 0
		s.retryAt = now.Add(s.cooldown)
		s.setBreaker(Open, s.cooldown)
		return
	}
	if s.breaker == Open {
		return
	}
	if s.backoff == 0 {
		s.backoff = s.opts.MinBackoff
	} else {
		s.backoff = min(2*s.backoff, s.opts.MaxBackoff)
	}
	s.retryAt = now.Add(time.Duration(float64(s.backoff) * (1 + s.opts.Jitter*(2*s.random()-1))))
}

func (s *Supervisor[T]) setBreaker(b BreakerState, wait time.Duration) {
	s.breaker = b
	s.event(Event{Kind: BreakerChanged, Breaker: b, Wait: wait})
}

// Fail counts a failure that only the caller can see, such as a wrong proof, towards the breaker. The instance lives on
// unless the breaker opens; then it is killed, because a sick backend is taken out of use.
func (s *Supervisor[T]) Fail(err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.event(Event{Kind: Faulted, Err: err})
	s.failedLocked(err)
	var sick *instance[T]
	if s.breaker == Open && s.live != nil {
		sick, s.live = s.live, nil
		s.event(Event{Kind: Exited, Took: time.Since(sick.started), Err: err})
	}
	s.mu.Unlock()
	s.emit()
	if sick != nil {
		_ = sick.it.Kill("circuit breaker opened after repeated faults")
	}
}

// State returns the present state.
func (s *Supervisor[T]) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state
	st.Starting = s.attempt != nil
	st.Breaker = s.breaker
	if time.Until(s.retryAt) > 0 {
		st.RetryAt = s.retryAt
	}
	if s.live != nil {
		select {
		case <-s.live.it.Done():
		default:
			st.Live = true
		}
	}
	return st
}

// Stop ends supervision and stops the live instance; a start under way is given up. It returns when all is gone, with
// what stopping the instance said.
func (s *Supervisor[T]) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	in := s.live
	s.mu.Unlock()
	s.end()
	if in != nil {
		if err := in.it.Stop(ctx); err != nil {
			return err
		}
	}
	gone := make(chan struct{})
	go func() {
		s.work.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return &errs.Error{Class: errs.ClassOf(ctx.Err()), Op: "stop plugin", Found: "a start was still under way", Err: ctx.Err()}
	}
}

// event queues an event; s.mu is held.
func (s *Supervisor[T]) event(e Event) {
	if s.opts.Listener == nil {
		return
	}
	e.At = time.Now()
	s.pending = append(s.pending, e)
}

// emit tells the listener what is queued, in order, without s.mu. Whoever is telling already tells the rest too.
func (s *Supervisor[T]) emit() {
	if s.opts.Listener == nil {
		return
	}
	for {
		if !s.emitting.TryLock() {
			return
		}
		s.mu.Lock()
		queue := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, e := range queue {
			s.opts.Listener(e)
		}
		s.emitting.Unlock()
		s.mu.Lock()
		more := len(s.pending) > 0
		s.mu.Unlock()
		if !more {
			return
		}
	}
}
