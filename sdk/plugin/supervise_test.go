package plugin

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/plugin/supervisor"
)

// TestSupervised: over real processes, one that is killed is replaced, and one under SIGSTOP is found by the heartbeat
// and replaced too (T12).
func TestSupervised(t *testing.T) {
	dir, err := os.MkdirTemp("", "wt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var mu sync.Mutex
	var events []string
	s := Supervise(testConfig("ok", func(c *LaunchConfig) { c.Dir = dir }), supervisor.Options{
		MinBackoff: 20 * time.Millisecond, PingInterval: 100 * time.Millisecond, PingTimeout: 500 * time.Millisecond, PingMisses: 2, Threshold: -1,
		Listener: func(e supervisor.Event) {
			mu.Lock()
			defer mu.Unlock()
			text := e.Kind.String()
			if e.Err != nil {
				text += " " + e.Err.Error()
			}
			events = append(events, text)
		},
	})
	ctx := context.Background()
	pids := map[int]bool{}
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, 0} {
		p, err := s.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Get(ctx); err != nil || again != p {
			t.Errorf("another process while the first lives: %v", err)
		}
		if got := mustCall(t, p, "Len", "abc"); got != "3" || pids[p.PID()] {
			t.Errorf("pid %d, Len %s", p.PID(), got)
		}
		pids[p.PID()] = true
		if signal == 0 {
			break
		}
		call0 := make(chan error, 1)
		go func() { _, err := call(ctx, p, "Do", "hold"); call0 <- err }()
		if err := syscall.Kill(p.PID(), signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Done():
		case <-time.After(10 * time.Second):
			t.Fatalf("%v is not noticed", signal)
		}
		wantClass(t, <-call0, errs.BackendGone)
	}
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	noneLeft(t, dir)
	_, err = s.Get(ctx)
	wantClass(t, err, errs.Unavailable)
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(events, "\n")
	for _, want := range []string{"SIGKILL", "no sign of life in 2 pings", "ping missed"} {
		if !strings.Contains(all, want) {
			t.Errorf("events lack %q:\n%s", want, all)
		}
	}
	if n := strings.Count(all, "started"); n != 3 {
		t.Errorf("%d starts:\n%s", n, all)
	}
}
