package eventclock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

func run(t testing.TB, c *Clock, f func()) {
	t.Helper()
	if err := c.Run(f); err != nil {
		t.Fatal(err)
	}
}

// Timers fire one after the other, by time and then by the order of their setting; hours cost nothing.
func TestOrder(t *testing.T) {
	c := New()
	var mu sync.Mutex
	var got []string
	run(t, c, func() {
		var wg sync.WaitGroup
		at := func(name string, d time.Duration) {
			wg.Add(1)
			c.AfterFunc(d, func() {
				defer wg.Done()
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(name, c.Now().Sub(Epoch)))
			})
		}
		at("d", 2*time.Hour)
		at("b", time.Hour)
		at("c", time.Hour)
		at("a", -time.Hour)
		wg.Wait()
	})
	if want := "[a0s b1h0m0s c1h0m0s d2h0m0s]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	if c.Pending() != 0 || c.Fired() != 4 {
		t.Errorf("%d pending, %d fired", c.Pending(), c.Fired())
	}
}

func TestTimer(t *testing.T) {
	c := New()
	run(t, c, func() {
		since := func() time.Duration { return c.Now().Sub(Epoch) }
		m := c.NewTimer(time.Second)
		if !m.Stop() || m.Stop() {
			t.Error("a timer that is set can be stopped, once")
		}
		if m.Reset(2 * time.Second) {
			t.Error("it was not set")
		}
		if now := <-m.C; since() != 2*time.Second || !now.Equal(c.Now()) {
			t.Errorf("fired at %v and said %v", since(), now)
		}
		m.Reset(time.Second)
		c.Sleep(5 * time.Second) // it fires, and nobody receives
		if m.Reset(time.Second) {
			t.Error("it had fired")
		}
		if now := <-m.C; now.Sub(Epoch) != 8*time.Second {
			t.Errorf("a value of an earlier setting: %v", now.Sub(Epoch))
		}
		m.Reset(time.Second)
		c.Sleep(5 * time.Second)
		if m.Stop() {
			t.Error("stopped after it had fired")
		}
		select {
		case <-m.C:
			t.Error("a value after Stop")
		default:
		}
		stop := c.AfterFunc(time.Second, func() { t.Error("stopped, and called") })
		if !stop() || stop() {
			t.Error("a function can be stopped, once")
		}
		c.Sleep(time.Minute)
		if x := <-c.After(time.Second); x.Sub(Epoch) != since() {
			t.Error(x)
		}
	})
	run(t, c, func() { // the same clock again goes on where it stood
		c.Sleep(time.Second)
		if d := c.Now().Sub(Epoch); d != 75*time.Second {
			t.Errorf("%v", d)
		}
	})
}

func TestDeadline(t *testing.T) {
	type key struct{}
	c := New()
	run(t, c, func() {
		parent, stop := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
		defer stop()
		ctx, cancel := c.WithTimeout(parent, time.Minute)
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		later, cancelLater := c.WithTimeout(child, time.Hour)
		defer cancelLater()
		called := make(chan time.Time, 1)
		context.AfterFunc(later, func() { called <- c.Now() })
		never := context.AfterFunc(ctx, func() { t.Error("stopped, and called") })
		if !never() || never() {
			t.Error("a function can be stopped, once")
		}
		if at, ok := later.Deadline(); !ok || at.Sub(Epoch) != time.Minute || later.Value(key{}) != "v" || ctx.Err() != nil {
			t.Errorf("%v %v %v %v", at, ok, later.Value(key{}), ctx.Err())
		}
		<-later.Done()
		for _, x := range []context.Context{ctx, child, later} {
			if !errors.Is(x.Err(), context.DeadlineExceeded) || c.Now().Sub(Epoch) != time.Minute {
				t.Errorf("%v at %v", x.Err(), c.Now().Sub(Epoch))
			}
		}
		if at := <-called; at.Sub(Epoch) != time.Minute {
			t.Errorf("called at %v", at)
		}
		cancel()
		if ctx.Err() != context.DeadlineExceeded {
			t.Error(ctx.Err())
		}
		after := make(chan struct{})
		context.AfterFunc(ctx, func() { close(after) })
		<-after

		ctx, cancel = c.WithTimeout(parent, time.Minute)
		cancel()
		if <-ctx.Done(); ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		ctx, cancel = c.WithTimeout(parent, time.Minute)
		defer cancel()
		stop()
		if <-ctx.Done(); ctx.Err() != context.Canceled {
			t.Error(ctx.Err())
		}
		if d := c.Now().Sub(Epoch); d != time.Minute || c.Pending() != 0 {
			t.Errorf("%v, %d timers are left", d, c.Pending())
		}
	})
}

// Time stands while anybody computes, reads a file, sits in a system call, collects garbage, or has been woken and has not run yet; and when a lock is given from one to
// the next. A clock that took a pause for rest would move in one of these.
func TestStandsWhileSomebodyWorks(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	dir := t.TempDir()
	works := map[string]func(){
		"computes": func() {
			for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
			}
		},
		"system call": func() { // that blocks its thread until somebody who computes lets it go
			var fd [2]int
			if err := syscall.Pipe(fd[:]); err != nil {
				t.Error(err)
				return
			}
			go func() {
				for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
				}
				syscall.Close(fd[1])
			}()
			_, _ = syscall.Read(fd[0], make([]byte, 1))
			syscall.Close(fd[0])
		},
		"file": func() {
			path := filepath.Join(dir, fmt.Sprint(rand.Uint64()))
			if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
				t.Error(err)
			}
			if _, err := os.ReadFile(path); err != nil {
				t.Error(err)
			}
		},
		"garbage": func() {
			var keep [][]byte
			for range 50 {
				keep = append(keep, make([]byte, 64<<10))
			}
			_ = keep
		},
		"handed on": func() { // through 50 goroutines and a lock
			var mu sync.Mutex
			var wg sync.WaitGroup
			chain := make(chan int)
			in := chain
			for range 50 {
				from, to := in, make(chan int)
				wg.Go(func() { x := <-from; mu.Lock(); defer mu.Unlock(); to <- x + 1 })
				in = to
			}
			mu.Lock()
			chain <- 0
			mu.Unlock()
			if x := <-in; x != 50 {
				t.Error(x)
			}
			wg.Wait()
		},
	}
	for name, work := range works {
		t.Run(name, func(t *testing.T) {
			c := New()
			run(t, c, func() {
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						for n := range 5 {
							c.Sleep(time.Duration(i) * time.Nanosecond)
							before := c.Now()
							work()
							if moved := c.Now().Sub(before); moved != 0 {
								t.Errorf("%d, %d: the clock moved by %v", i, n, moved)
							}
							c.Sleep(time.Second)
						}
					})
				}
				// Somebody else's timers are due all the time.
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-c.After(time.Microsecond):
						}
						if c.Now().Sub(Epoch) > 100*time.Microsecond {
							return
						}
					}
				}()
				wg.Wait()
				close(stop)
			})
		})
	}
}

// world is a small queueing system whose log depends on every decision: users with random think times, two servers, a bounded queue, locks, conditions, deadlines.
func world(c *Clock, seed uint64, users, rounds int) []string {
	var mu sync.Mutex
	var log []string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf("%v ", c.Now().Sub(Epoch))+fmt.Sprintf(format, args...))
	}
	room := sync.NewCond(&sync.Mutex{})
	free := 2
	var wg sync.WaitGroup
	for u := range users {
		rng := rand.New(rand.NewPCG(seed, uint64(u)))
		wg.Go(func() {
			for r := range rounds {
				c.Sleep(time.Duration(rng.IntN(1000))*time.Millisecond + time.Duration(u)) // no two at one moment
				room.L.Lock()
				for free == 0 {
					room.Wait()
				}
				free--
				room.L.Unlock()
				ctx, cancel := c.WithTimeout(context.Background(), time.Duration(rng.IntN(20))*time.Millisecond)
				served := c.NewTimer(time.Duration(rng.IntN(20)) * time.Millisecond)
				select {
				case <-served.C:
					say("user %d round %d served", u, r)
				case <-ctx.Done():
					served.Stop()
					say("user %d round %d gave up", u, r)
				}
				cancel()
				room.L.Lock()
				free++
				room.L.Unlock()
				room.Signal() // conditions wake in the order of waiting
			}
		})
	}
	wg.Wait()
	return log
}

// Many runs, one result: real goroutines on several processors leave no trace in it.
func TestDeterministic(t *testing.T) {
	runs := 12
	if testing.Short() {
		runs = 5
	}
	var first []string
	for i := range runs {
		c := New()
		var log []string
		run(t, c, func() { log = world(c, 7, 20, 10) })
		if i == 0 {
			first = log
			if len(first) != 200 {
				t.Fatalf("%d lines", len(first))
			}
			continue
		}
		if !slices.Equal(first, log) {
			for k := range first {
				if first[k] != log[k] {
					t.Fatalf("run %d, line %d: %q, was %q", i, k, log[k], first[k])
				}
			}
		}
	}
}

// Thousands of timers, set by many goroutines, fire at their times and in their order.
func TestThousandsOfTimers(t *testing.T) {
	const goroutines, each = 40, 100
	c := New()
	var mu sync.Mutex
	var last time.Time
	woken := 0
	run(t, c, func() {
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					at := c.Now().Add(time.Duration((g*7919+i*104729)%1000) * time.Millisecond)
					c.Sleep(at.Sub(c.Now()))
					mu.Lock()
					if now := c.Now(); !now.Equal(at) || now.Before(last) {
						t.Errorf("woken at %v for %v, after %v", now, at, last)
					}
					last = c.Now()
					woken++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
	if c.Fired() != goroutines*each || woken != goroutines*each {
		t.Errorf("%d fired, %d woken", c.Fired(), woken)
	}
}

// Two clocks of one process take turns and do not mix their times.
func TestTwoClocks(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			c := New()
			err := c.Run(func() {
				for range 50 {
					c.Sleep(time.Duration(i+1) * time.Second)
				}
			})
			if d := c.Now().Sub(Epoch); err != nil || d != time.Duration(i+1)*50*time.Second {
				t.Errorf("clock %d: %v, %v", i, d, err)
			}
		})
	}
	wg.Wait()
}

// When nothing can ever happen again, the error says who waits where.
func TestDeadlock(t *testing.T) {
	c := New()
	never := make(chan int)
	err := c.Run(func() {
		c.Sleep(time.Hour)
		waitForGodot(never)
	})
	if !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "waitForGodot") || !strings.Contains(err.Error(), "1h0m0s") {
		t.Errorf("%v", err)
	}
	close(never)
	// Somebody from outside, who comes while it is being found out, is waited for.
	late := make(chan int)
	time.AfterFunc(grace/4, func() { close(late) })
	run(t, c, func() { <-late; c.Sleep(time.Second) })
}

//go:noinline
func waitForGodot(c chan int) { <-c }

// A child of the process that lives on, and a goroutine that waits for its end, hold nothing up.
func TestChildIsOutside(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skipf("no child to wait for: %v", err)
	}
	c := New()
	child := exec.Command(sleep, "600")
	ended := make(chan struct{})
	run(t, c, func() {
		if err := child.Start(); err != nil {
			t.Error(err)
			close(ended)
			return
		}
		go func() { defer close(ended); _ = child.Wait() }()
		for range 10 {
			c.Sleep(time.Hour)
		}
	})
	select {
	case <-ended:
		t.Error("the clock waited for the child")
	default:
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}

// What the runtime calls the states of a goroutine, and what they mean here.
func TestStates(t *testing.T) {
	me := "goroutine 1 [running]:\nmain.main()\n\t/x.go:1 +0x1\n"
	for head, want := range map[string]bool{
		"2 [chan receive]":                          true,
		"2 [chan receive (nil chan), 12 minutes]":   true,
		"2 [chan send, locked to thread]":           true,
		"2 [select (no cases)]":                     true,
		"2 [sync.WaitGroup.Wait (durable)]":         true,
		"2 [sync.RWMutex.RLock]":                    true,
		"2 [IO wait]":                               true,
		"2 gp=0xc000 m=nil [GC worker (idle)]":      true,
		"2 [running]":                               false,
		"2 [runnable]":                              false,
		"2 gp=0xc000 m=3 mp=0xc00 [runnable]":       false,
		"2 [syscall]":                               false,
		"77 [syscall, 3 minutes, locked to thread]": true, // it was there before
		"77 [runnable]":                             false,
		"2 [semacquire]":                            false,
		"2 [GC assist wait]":                        false,
		"2 [preempted]":                             false,
		"2 [a state of a later version of Go]":      false,
	} {
		w := &watcher{outside: map[string]bool{"77": true}, text: []byte(me + "\ngoroutine 5 [select]:\nx()\n\ngoroutine " + head + ":\nmain.f()\n\t/x.go:9 +0x1\ncreated by main.main in goroutine 1\n")}
		if w.quiet() != want {
			t.Errorf("%s: %v", head, w.quiet())
		}
	}
	w := &watcher{text: []byte(me + "\ngoroutine 9 [syscall]:\nos/signal.signal_recv()\n")}
	if !w.quiet() {
		t.Error("the signal handler's goroutine is nobody's")
	}
}

// BenchmarkStep is the time that one timer costs, with so many goroutines waiting.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := New()
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() { <-stop })
			}
			run(b, c, func() {
				for range b.N {
					c.Sleep(time.Second)
				}
			})
			close(stop)
			wg.Wait()
		})
	}
}
