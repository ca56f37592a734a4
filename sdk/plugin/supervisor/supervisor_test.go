package supervisor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// fake is an instance that does as told, in virtual time.
type fake struct {
	id   int
	w    *world
	once sync.Once
	done chan struct{}
	err  error

	mu      sync.Mutex
	wedged  bool // answers no ping
	lost    int  // so many pings are still to be lost
	stopped bool
	killed  string
	died    time.Time
}

func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) ExitError() error {
	select {
	case <-f.done:
		return f.err
	default:
		return nil
	}
}

func (f *fake) die(err error) {
	f.once.Do(func() {
		f.err = err
		f.mu.Lock()
		f.died = time.Now()
		f.mu.Unlock()
		f.w.left()
		close(f.done)
	})
}

func (f *fake) Ping(ctx context.Context) error {
	f.mu.Lock()
	lost := f.wedged || f.lost > 0
	f.lost--
	f.mu.Unlock()
	if lost {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fake) Stop(context.Context) error {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.die(nil)
	return nil
}

func (f *fake) Kill(reason string) error {
	f.mu.Lock()
	f.killed = reason
	f.mu.Unlock()
	f.die(errs.New(errs.BackendGone, "plugin", "killed: %s", reason))
	return nil
}

func (f *fake) reason() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.killed
}

// world launches fakes and keeps the log.
type world struct {
	t     *testing.T
	began time.Time
	delay time.Duration

	mu       sync.Mutex
	fail     func(n int) error // for the n-th launch
	launches []time.Duration   // when, since the start of the test
	alive    int
	events   []string
}

func newWorld(t *testing.T) *world { return &world{t: t, began: time.Now()} }

func (w *world) launch(ctx context.Context) (*fake, error) {
	w.mu.Lock()
	n := len(w.launches)
	w.launches = append(w.launches, time.Since(w.began))
	fail := w.fail
	w.mu.Unlock()
	select {
	case <-time.After(w.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if fail != nil {
		if err := fail(n); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive++; w.alive > 1 {
		w.t.Errorf("%d instances alive at once", w.alive)
	}
	return &fake{id: n, w: w, done: make(chan struct{})}, nil
}

func (w *world) left() {
	w.mu.Lock()
	w.alive--
	w.mu.Unlock()
}

func (w *world) setFail(f func(int) error) {
	w.mu.Lock()
	w.fail = f
	w.mu.Unlock()
}

func (w *world) listen(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := fmt.Sprintf("%v %v", e.At.Sub(w.began), e.Kind)
	switch e.Kind {
	case Backoff:
		s += " " + e.Wait.String()
	case BreakerChanged:
		s += " " + e.Breaker.String()
		if e.Breaker == Open {
			s += " " + e.Wait.String()
		}
	case PingMissed:
		s += fmt.Sprintf(" %d", e.Misses)
	}
	w.events = append(w.events, s)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, "\n")
}

func (w *world) wantLog(want string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.log(); got != strings.TrimSpace(strings.ReplaceAll(want, "\t", "")) {
		w.t.Errorf("events:\n%s\nwant:%s", got, want)
	}
}

// inBubble runs a test in virtual time over a world.
func inBubble(t *testing.T, opts Options, f func(t *testing.T, w *world, s *Supervisor[*fake])) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		opts.Listener = w.listen
		if opts.Jitter == 0 {
			opts.Jitter = -1
		}
		s := New(w.launch, opts)
		f(t, w, s)
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if w.alive != 0 {
			t.Errorf("%d instances alive after Stop", w.alive)
		}
	})
}

func mustGet(t *testing.T, s *Supervisor[*fake]) *fake {
	t.Helper()
	f, err := s.Get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantClass(t *testing.T, err error, c errs.Class, retryable bool) {
	t.Helper()
	if !errs.Is(err, c) || errs.IsRetryable(err) != retryable {
		t.Fatalf("error %v, want class %v, retryable %t", err, c, retryable)
	}
}

var errCrash = &errs.Error{Class: errs.BackendGone, Op: "plugin", Found: "crashed", Retryable: true}

func TestGetSharesOneInstance(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		w.delay = time.Second
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if f := mustGet(t, s); f.id != 0 {
					t.Errorf("instance %d", f.id)
				}
			})
		}
		short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err := s.Get(short)
		wantClass(t, err, errs.Deadline, false)
		if st := s.State(); !st.Starting || st.Live {
			t.Errorf("state %+v", st)
		}
		wg.Wait()
		if len(w.launches) != 1 || time.Since(w.began) != time.Second {
			t.Errorf("%d launches, %v", len(w.launches), time.Since(w.began))
		}
		if st := s.State(); st.Starting || !st.Live || st.Starts != 1 || st.Failures != 0 {
			t.Errorf("state %+v", st)
		}
		_, err = s.Get(short)
		wantClass(t, err, errs.Deadline, false)
	})
}

func TestRestartAfterDeath(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		first := mustGet(t, s)
		first.die(errCrash)
		second := mustGet(t, s) // at once: the watch may not have seen the death yet
		if second.id != 1 {
			t.Fatalf("instance %d", second.id)
		}
		if st := s.State(); st.Failures != 1 || !errors.Is(st.LastErr, errCrash) {
			t.Errorf("state %+v", st)
		}
		w.wantLog(`
			0s started
			0s exited
			0s backoff 200ms
			200ms started`)
	})
}

// TestBackoff: waits double up to the cap, and begin anew after an instance stayed healthy.
func TestBackoff(t *testing.T) {
	inBubble(t, Options{Threshold: -1, MaxBackoff: time.Second}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		w.setFail(func(n int) error {
			if n < 5 {
				return errCrash
			}
			return nil
		})
		for range 5 {
			_, err := s.Get(context.Background())
			wantClass(t, err, errs.BackendGone, true)
		}
		f := mustGet(t, s)
		want := "[0s 200ms 600ms 1.4s 2.4s 3.4s]"
		if got := fmt.Sprint(w.launches); got != want {
			t.Errorf("launches at %v, want %v", got, want)
		}
		time.Sleep(9 * time.Second) // not yet healthy
		f.die(errCrash)
		f = mustGet(t, s)
		if got := w.launches[6]; got != 13400*time.Millisecond {
			t.Errorf("restart at %v", got)
		}
		time.Sleep(11 * time.Second)
		f.die(errCrash)
		mustGet(t, s)
		if got := w.launches[7]; got != 24600*time.Millisecond {
			t.Errorf("restart at %v: backoff did not begin anew", got)
		}
	})
}

func TestJitter(t *testing.T) {
	inBubble(t, Options{Jitter: 0.5, Threshold: -1, MinBackoff: time.Second, MaxBackoff: time.Second}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		rng := rand.New(rand.NewPCG(7, 7))
		s.random = rng.Float64
		w.setFail(func(int) error { return errCrash })
		for range 50 {
			_, _ = s.Get(context.Background())
		}
		seen := map[time.Duration]bool{}
		for i := 1; i < len(w.launches); i++ {
			gap := w.launches[i] - w.launches[i-1]
			if gap < 500*time.Millisecond || gap > 1500*time.Millisecond {
				t.Errorf("wait %v", gap)
			}
			seen[gap] = true
		}
		if len(seen) < 40 {
			t.Errorf("%d different waits of 49", len(seen))
		}
	})
}

func TestBreaker(t *testing.T) {
	opts := Options{Threshold: 3, Window: time.Minute, Cooldown: 10 * time.Second, MaxCooldown: 25 * time.Second, MinBackoff: time.Second, PingInterval: -1}
	inBubble(t, opts, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		fail := func(int) error { return errCrash }
		w.setFail(fail)
		for range 3 {
			_, err := s.Get(context.Background())
			wantClass(t, err, errs.BackendGone, true)
		}
		before := time.Now()
		_, err := s.Get(context.Background())
		wantClass(t, err, errs.Unavailable, true)
		if !strings.Contains(err.Error(), "10s") || !strings.Contains(err.Error(), "crashed") || time.Since(before) != 0 {
			t.Errorf("refused with %v after %v", err, time.Since(before))
		}
		if st := s.State(); st.Breaker != Open || !st.RetryAt.Equal(before.Add(10*time.Second)) {
			t.Errorf("state %+v", st)
		}
		for _, cooldown := range []time.Duration{10 * time.Second, 20 * time.Second, 25 * time.Second} {
			time.Sleep(cooldown - time.Nanosecond)
			_, err = s.Get(context.Background())
			wantClass(t, err, errs.Unavailable, true)
			time.Sleep(time.Nanosecond)
			_, err = s.Get(context.Background()) // the probe
			wantClass(t, err, errs.BackendGone, true)
		}
		w.setFail(nil)
		time.Sleep(25 * time.Second)
		f := mustGet(t, s)
		if st := s.State(); st.Breaker != HalfOpen {
			t.Errorf("state %+v", st)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if st := s.State(); st.Breaker != Closed {
			t.Errorf("state %+v", st)
		}
		// Closed for good: a single death opens nothing.
		f.die(errCrash)
		mustGet(t, s)
		w.wantLog(`
			0s start failed
			0s backoff 1s
			1s start failed
			1s backoff 2s
			3s start failed
			3s breaker open 10s
			13s breaker half-open
			13s start failed
			13s breaker open 20s
			33s breaker half-open
			33s start failed
			33s breaker open 25s
			58s breaker half-open
			58s start failed
			58s breaker open 25s
			1m23s breaker half-open
			1m23s started
			1m33s breaker closed
			1m33s exited
			1m33s backoff 1s
			1m34s started`)
	})
}

// TestProbeDies: an instance that starts but dies before it is healthy does not close the breaker.
func TestProbeDies(t *testing.T) {
	inBubble(t, Options{Threshold: 1, Cooldown: time.Second, PingInterval: -1}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		mustGet(t, s).die(errCrash)
		_, err := s.Get(context.Background())
		wantClass(t, err, errs.Unavailable, true)
		time.Sleep(time.Second)
		mustGet(t, s).die(errCrash)
		_, err = s.Get(context.Background())
		wantClass(t, err, errs.Unavailable, true)
		w.wantLog(`
			0s started
			0s exited
			0s breaker open 1s
			1s breaker half-open
			1s started
			1s exited
			1s breaker open 2s`)
	})
}

// TestWindow: failures that lie far apart do not open the breaker.
func TestWindow(t *testing.T) {
	inBubble(t, Options{Threshold: 3, Window: time.Minute, PingInterval: -1}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		for range 20 {
			mustGet(t, s).die(errCrash)
			time.Sleep(31 * time.Second) // two within each minute
		}
		if st := s.State(); st.Breaker != Closed || st.Starts != 20 {
			t.Errorf("state %+v", st)
		}
	})
}

func TestHeartbeat(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		f := mustGet(t, s)
		time.Sleep(6 * time.Minute) // six idle minutes are no crash
		if got := mustGet(t, s); got != f {
			t.Fatal("an idle instance was replaced")
		}
		f.mu.Lock()
		f.lost = 2 // one less than it takes
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if got := mustGet(t, s); got != f {
			t.Fatal("two lost pings cost the instance")
		}
		f.mu.Lock()
		f.wedged = true
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if f.reason() == "" {
			t.Fatal("a wedged instance lives")
		}
		if got := mustGet(t, s); got == f {
			t.Fatal("got a dead instance")
		}
		if out := w.log(); !strings.Contains(out, "ping missed 3\n") || strings.Count(out, "ping missed 1") != 2 || !strings.Contains(out, "exited") {
			t.Errorf("events:\n%s", out)
		}
	})
}

func TestHeartbeatTime(t *testing.T) {
	inBubble(t, Options{PingInterval: time.Second, PingTimeout: 500 * time.Millisecond, PingMisses: 2}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		f := mustGet(t, s)
		f.mu.Lock()
		f.wedged = true
		f.mu.Unlock()
		<-f.Done()
		if took := time.Since(w.began); took != 2500*time.Millisecond {
			t.Errorf("found after %v", took)
		}
	})
}

func TestFail(t *testing.T) {
	inBubble(t, Options{Threshold: 3, PingInterval: -1, Cooldown: time.Second}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
		f := mustGet(t, s)
		wrong := errs.New(errs.InvalidProof, "check", "wrong proof")
		s.Fail(wrong)
		s.Fail(wrong)
		if got := mustGet(t, s); got != f {
			t.Fatal("two faults of three took the instance out")
		}
		s.Fail(wrong)
		if f.reason() == "" {
			t.Error("a sick instance lives on")
		}
		_, err := s.Get(context.Background())
		wantClass(t, err, errs.Unavailable, true)
		time.Sleep(time.Second)
		if got := mustGet(t, s); got == f {
			t.Error("got the sick instance")
		}
		w.wantLog(`
			0s started
			0s fault
			0s fault
			0s fault
			0s breaker open 1s
			0s exited
			1s breaker half-open
			1s started`)
	})
}

func TestStop(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		inBubble(t, Options{}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
			f := mustGet(t, s)
			if err := s.Stop(context.Background()); err != nil || !f.stopped {
				t.Errorf("%v, stopped %t", err, f.stopped)
			}
			_, err := s.Get(context.Background())
			wantClass(t, err, errs.Unavailable, false)
			s.Fail(errCrash)
			w.wantLog("0s started\n0s stopped")
		})
	})
	for name, opts := range map[string]Options{"while starting": {}, "while backing off": {MinBackoff: time.Hour, MaxBackoff: time.Hour}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, opts, func(t *testing.T, w *world, s *Supervisor[*fake]) {
				if opts.MinBackoff > 0 {
					mustGet(t, s).die(errCrash)
				}
				w.delay = time.Hour
				got := make(chan error, 1)
				go func() { _, err := s.Get(context.Background()); got <- err }()
				time.Sleep(time.Second)
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				wantClass(t, <-got, errs.Unavailable, false)
				if since := time.Since(w.began); since != time.Second {
					t.Errorf("took until %v", since)
				}
			})
		})
	}
	t.Run("start that cannot be given up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := New(func(context.Context) (*fake, error) { time.Sleep(time.Minute); return w.launch(context.Background()) }, Options{})
			go func() { _, _ = s.Get(context.Background()) }()
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			wantClass(t, s.Stop(ctx), errs.Deadline, false)
			time.Sleep(2 * time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.alive != 0 || len(w.launches) != 1 {
				t.Errorf("%d alive of %d: what started after the stop is not stopped", w.alive, len(w.launches))
			}
		})
	})
}

// TestRandom: many users, random deaths, failing and slow starts. At most one instance lives (checked in world), nobody
// is given one that was dead when asked, and each launch has its event.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		inBubble(t, Options{Threshold: 4, Window: 20 * time.Second, Cooldown: 5 * time.Second}, func(t *testing.T, w *world, s *Supervisor[*fake]) {
			w.delay = 30 * time.Millisecond
			launchRng := rand.New(rand.NewPCG(seed, 99))
			w.setFail(func(int) error {
				if launchRng.IntN(4) == 0 {
					return errCrash
				}
				return nil
			})
			var wg sync.WaitGroup
			for g := range 6 {
				rng := rand.New(rand.NewPCG(seed, uint64(g)))
				wg.Go(func() {
					for range 40 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(2000))*time.Millisecond)
						asked := time.Now()
						f, err := s.Get(ctx)
						if err == nil {
							f.mu.Lock()
							if !f.died.IsZero() && f.died.Before(asked) {
								t.Errorf("seed %d: got an instance that had died before", seed)
							}
							f.mu.Unlock()
						}
						if err == nil && rng.IntN(6) == 0 {
							f.die(errCrash)
						}
						if err != nil && !errs.Is(err, errs.Deadline) && !errs.Is(err, errs.Unavailable) && !errs.Is(err, errs.BackendGone) {
							t.Errorf("%v", err)
						}
						cancel()
						time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			out := w.log()
			st := s.State()
			started, failed, exited := strings.Count(out, "started"), strings.Count(out, "start failed"), strings.Count(out, "exited")
			attempts := 0
			if st.Starting {
				attempts = 1
			}
			if d := len(w.launches) - started - failed; d < 0 || d > attempts || st.Starts != started || st.Failures != failed+exited {
				t.Errorf("seed %d: %d launches, %d started, %d failed, %d exited, state %+v", seed, len(w.launches), started, failed, exited, st)
			}
			if started == 0 || exited == 0 || !strings.Contains(out, "breaker open") && seed == 0 {
				t.Logf("seed %d is dull:\n%s", seed, out)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for k := Started; k <= Faulted; k++ {
		if strings.HasPrefix(k.String(), "event ") {
			t.Errorf("event kind %d has no name", k)
		}
	}
	if got := fmt.Sprint(Closed, Open, HalfOpen, BreakerState(7)); got != "closed open half-open breaker state 7" {
		t.Error(got)
	}
}
