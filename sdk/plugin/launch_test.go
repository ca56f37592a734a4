package plugin

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

func TestLaunch(t *testing.T) {
	p := launchTest(t, "ok", func(c *LaunchConfig) { c.Threads = 3 })
	if p.Name() != "test" || p.Kind() != "tester" || p.Version() != 4 || p.MaxMessage() != DefaultMaxMessage || p.ExitError() != nil {
		t.Errorf("%q %q version %d, %d bytes, %v", p.Name(), p.Kind(), p.Version(), p.MaxMessage(), p.ExitError())
	}
	if got := mustCall(t, p, "Do", "version"); got != "4" {
		t.Errorf("services of version %s", got)
	}
	if got := mustCall(t, p, "Do", "procs"); got != "3" {
		t.Errorf("GOMAXPROCS %s", got)
	}
	if got := mustCall(t, p, "Do", "stdin"); got != "" {
		t.Errorf("stdin gave %q", got)
	}
	if err := p.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "linux" {
		if got := mustCall(t, p, "Do", "read /proc/self/oom_score_adj"); strings.TrimSpace(got) != "500" {
			t.Errorf("oom_score_adj %s", got)
		}
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if got := mustCall(t, p, "Do", "exe"); got != exe {
			t.Errorf("runs %q, want %q", got, exe)
		}
	}
	start := time.Now()
	if err := p.Stop(context.Background()); err != nil || p.ExitError() != nil {
		t.Errorf("%v, %v", err, p.ExitError())
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("an idle plugin took %v to stop", took)
	}
	_, err := call(context.Background(), p, "Len", "")
	wantClass(t, err, errs.BackendGone)
	if errs.IsRetryable(err) {
		t.Error("a plugin that was stopped on purpose is not to be tried again")
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("WEIR_SECRET_TOKEN", "x")
	t.Setenv("LC_ALL", "C")
	t.Setenv("PASS_ME", "passed")
	p := launchTest(t, "ok", func(c *LaunchConfig) {
		c.Env = append(c.Env, "PASS_ME", "SET=a=b", "LC_ALL=POSIX", "NOT_SET_HERE")
		c.MemLimit = 1 << 30
	})
	env := map[string]string{}
	for line := range strings.Lines(mustCall(t, p, "Do", "env")) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		env[k] = v
	}
	for k, v := range map[string]string{"PASS_ME": "passed", "SET": "a=b", "LC_ALL": "POSIX", "GOMEMLIMIT": "1073741824", "PATH": os.Getenv("PATH")} {
		if env[k] != v {
			t.Errorf("%s=%q, want %q", k, env[k], v)
		}
	}
	for _, k := range []string{"WEIR_SECRET_TOKEN", "NOT_SET_HERE", cookieKey, envLifeLine, envChannel, envMaxMessage} {
		if v, ok := env[k]; ok {
			t.Errorf("the plugin sees %s=%q", k, v)
		}
	}
}

// TestStartTraps: each works or gives one clear error that names what happened (T11).
func TestStartTraps(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(data)
	sum := hex.EncodeToString(digest[:])
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(garbage, []byte("\x7fELFnot really"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+exe+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	scriptSum := sha256.Sum256([]byte("#!/bin/sh\nexec " + exe + "\n"))
	path := func(p string) func(*LaunchConfig) { return func(c *LaunchConfig) { c.Path = p } }
	check := func(p, s string) func(*LaunchConfig) { return func(c *LaunchConfig) { c.Path, c.SHA256 = p, s } }
	quick := func(c *LaunchConfig) { c.StartTimeout = 1500 * time.Millisecond }
	for _, c := range []struct {
		name   string
		mode   string
		change func(*LaunchConfig)
		class  errs.Class
		words  []string // none: it works
	}{
		{"noise on stdout", "noise", nil, 0, nil},
		{"1 MiB line on stderr", "long-stderr", nil, 0, nil},
		{"slow but in time", "slow:300ms", nil, 0, nil},
		{"checksum", "ok", check(exe, sum), 0, nil},
		{"checksum in capitals", "ok", check(exe, strings.ToUpper(sum)), 0, nil},
		{"script", "ok", path(script), 0, nil},
		{"script with checksum", "ok", check(script, hex.EncodeToString(scriptSum[:])), 0, nil},
		{"only noise", "only-noise", nil, errs.BackendGone, []string{"handshake", "status 0"}},
		{"panic in init", "panic-init", nil, errs.BackendGone, []string{"handshake", "status 2", "device library is missing"}},
		{"panic in main", "panic-main", nil, errs.BackendGone, []string{"handshake", "status 2", "no GPU here"}},
		{"registration fails", "register", nil, errs.BackendGone, []string{"status 1", "cannot register this"}},
		{"too slow", "slow:1h", quick, errs.BackendGone, []string{"handshake", "1.5s", "looking for devices"}},
		{"mute after the handshake", "mute", quick, errs.BackendGone, []string{"buffer channel", "1.5s"}},
		{"socket elsewhere", "foreign", nil, errs.BackendGone, []string{"/tmp/elsewhere.sock"}},
		{"old contract", "old", nil, errs.Unsupported, []string{"contract version", "[3 4]", "found 1"}},
		{"missing", "ok", path(filepath.Join(dir, "none")), errs.NotFound, []string{"none"}},
		{"missing on PATH", "ok", path("no-such-plugin-anywhere"), errs.NotFound, []string{"no-such-plugin-anywhere"}},
		{"directory", "ok", path(dir), errs.InvalidFile, []string{dir, "a directory"}},
		{"device", "ok", path(os.DevNull), errs.InvalidFile, []string{os.DevNull}},
		{"not executable", "ok", path(plain), errs.PermissionDenied, []string{plain}},
		{"no program", "ok", path(garbage), errs.BackendGone, []string{garbage, "format"}},
		{"wrong checksum", "ok", check(exe, strings.Repeat("ab", 32)), errs.InvalidFile, []string{exe, "sha256", sum}},
		{"no checksum", "ok", check(exe, "abc"), errs.InvalidArgument, []string{"64 hexadecimal digits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sockets := t.TempDir()
			if len(sockets) > 40 {
				sockets, _ = os.MkdirTemp("", "wt")
				defer os.RemoveAll(sockets)
			}
			cfg := testConfig(c.mode, func(l *LaunchConfig) { l.Dir = sockets })
			if c.change != nil {
				c.change(&cfg)
			}
			p, err := Launch(context.Background(), cfg)
			if len(c.words) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if got := mustCall(t, p, "Len", "four"); got != "4" {
					t.Errorf("Len: %s", got)
				}
				if err := p.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			} else {
				wantClass(t, err, c.class, c.words...)
			}
			noneLeft(t, sockets)
		})
	}
	_, err = Launch(context.Background(), LaunchConfig{Path: exe})
	wantClass(t, err, errs.InvalidArgument)
}

func TestServeByHand(t *testing.T) {
	err := Serve(ServeConfig{})
	wantClass(t, err, errs.InvalidArgument, "not started by a host")
	if errs.HintOf(err) == "" {
		t.Error("no hint")
	}
}

func TestLaunchCanceled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Launch(ctx, testConfig("slow:1h"))
	wantClass(t, err, errs.Deadline, "handshake")
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestNegotiation: the newest version of both is used.
func TestNegotiation(t *testing.T) {
	for _, c := range []struct {
		host []int
		want int
	}{{[]int{3}, 3}, {[]int{4}, 4}, {[]int{3, 4}, 4}, {[]int{1, 2, 3, 9}, 3}} {
		p := launchTest(t, "ok", func(l *LaunchConfig) { l.ContractVersions = c.host })
		if p.Version() != c.want || mustCall(t, p, "Do", "version") != strconv.Itoa(c.want) {
			t.Errorf("host %v: version %d, want %d", c.host, p.Version(), c.want)
		}
	}
}

func TestLongTempDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	for _, dir := range []string{"", long} {
		p, err := Launch(context.Background(), testConfig("ok", func(c *LaunchConfig) { c.Dir = dir }))
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(p.dir.path)
		if err != nil || st.Mode().Perm() != 0o700 || strings.HasPrefix(p.dir.path, long) {
			t.Errorf("socket directory %s, %v, %v", p.dir.path, st.Mode(), err)
		}
		if got := mustCall(t, p, "Len", "12345"); got != "5" {
			t.Error(got)
		}
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(p.dir.path); !os.IsNotExist(err) {
			t.Errorf("directory is left: %v", err)
		}
	}
}

// TestDeath: whatever ends the plugin in the middle of a call is noticed within a second and told with its cause (T12).
func TestDeath(t *testing.T) {
	for _, c := range []struct {
		do    string
		words []string
	}{
		{"kill", []string{"signal 9", "SIGKILL", "did not send this signal"}},
		{"segv", []string{"status 2", "SIGSEGV"}},
		{"abort", []string{"SIGABRT"}},
		{"panic", []string{"status 2", "panic: index out of range in kernel table"}},
		{"exit 3", []string{"status 3"}},
		{"exit 0", []string{"status 0"}},
	} {
		t.Run(c.do, func(t *testing.T) {
			p := launchTest(t, "ok")
			s, err := p.Conn().NewStream(context.Background(), &testService.Streams[0], "/weir.test.Test/Stream")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SendMsg(&bytesValue{Value: []byte("hold")}); err != nil {
				t.Fatal(err)
			}
			in := &bytesValue{}
			if err := s.RecvMsg(in); err != nil || string(in.GetValue()) != "first" {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = call(context.Background(), p, "Do", c.do)
			inTime(t, start)
			wantClass(t, err, errs.BackendGone, c.words...)
			wantClass(t, s.RecvMsg(in), errs.BackendGone, c.words...)
			if !errs.IsRetryable(err) {
				t.Errorf("not retryable: %v", err)
			}
			<-p.Done()
			wantClass(t, p.ExitError(), errs.BackendGone, c.words...)
			wantClass(t, p.Channel().Err(), errs.BackendGone)
			if _, err := os.Stat(p.dir.path); !os.IsNotExist(err) {
				t.Errorf("socket directory is left: %v", err)
			}
			_, err = call(context.Background(), p, "Len", "")
			wantClass(t, err, errs.BackendGone, c.words...)
		})
	}
}

// inTime checks that a death was noticed within a second.
func inTime(t *testing.T, start time.Time) {
	t.Helper()
	limit := time.Second
	if raceEnabled {
		limit = 5 * time.Second
	}
	if took := time.Since(start); took > limit {
		t.Errorf("noticed after %v", took)
	}
}

// TestFoldKeepsHandlersErrors: what a service says is not the death of its process.
func TestFoldKeepsHandlersErrors(t *testing.T) {
	p := launchTest(t, "ok")
	_, err := call(context.Background(), p, "Do", "busy")
	wantClass(t, errs.FromStatus(err), errs.Unavailable, "draining")
	_, err = call(context.Background(), p, "Do", "nonsense")
	wantClass(t, errs.FromStatus(err), errs.Unsupported)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = call(ctx, p, "Do", "hold")
	wantClass(t, errs.FromStatus(err), errs.Canceled)
	if err := p.Ping(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestStopKillsStubborn(t *testing.T) {
	for name, busy := range map[string]string{"spinning": "spin", "stubborn": ""} {
		t.Run(name, func(t *testing.T) {
			mode := "ok"
			if busy == "" {
				mode = "stubborn"
			}
			p := launchTest(t, mode, func(c *LaunchConfig) { c.KillTimeout = 300 * time.Millisecond })
			done := make(chan error, 1)
			if busy != "" {
				go func() { _, err := call(context.Background(), p, "Do", busy); done <- err }()
				time.Sleep(50 * time.Millisecond)
			}
			start := time.Now()
			if err := p.Stop(context.Background()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if busy != "" {
				wantClass(t, <-done, errs.BackendGone)
			}
			if running(p.PID()) {
				t.Error("still running")
			}
		})
	}
}

// TestStoppedProcess: a plugin under SIGSTOP answers nothing; every way to end it still works in time.
func TestStoppedProcess(t *testing.T) {
	p := launchTest(t, "ok", func(c *LaunchConfig) {
		c.KillTimeout = 300 * time.Millisecond
		c.HandOverTimeout = 100 * time.Millisecond
	})
	stopProcess(t, p.PID())
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	wantClass(t, p.Ping(ctx), errs.Deadline)
	start := time.Now()
	if err := p.Kill("no heartbeat"); err != nil {
		t.Fatal(err)
	}
	inTime(t, start)
	wantClass(t, p.ExitError(), errs.BackendGone, "killed by the host: no heartbeat")
}

// TestGrandchildren: processes that a plugin starts hold neither life line nor sockets, and die with its group; one
// that left the group does not delay the notice of the plugin's death.
func TestGrandchildren(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	for _, kind := range []string{"same-group", "own-session"} {
		t.Run(kind, func(t *testing.T) {
			p := launchTest(t, "ok")
			out := mustCall(t, p, "Do", "child "+kind)
			first, fds, _ := strings.Cut(out, "\n")
			pid, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			for line := range strings.Lines(fds) {
				if strings.Contains(line, "socket:") || strings.Contains(line, "memfd") || strings.Contains(line, "anon_inode") {
					t.Errorf("a grandchild holds %s", line)
				}
			}
			eventually(t, "the grandchild, once it has loaded its libraries, holds three descriptors", 5*time.Second, func() bool {
				links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
				return err == nil && len(links) == 3
			})
			start := time.Now()
			_, err = call(context.Background(), p, "Do", "kill")
			wantClass(t, err, errs.BackendGone, "SIGKILL")
			<-p.Done()
			inTime(t, start)
			if kind == "same-group" {
				eventually(t, "the grandchild dies with the group", 2*time.Second, func() bool { return !running(pid) })
			} else if !running(pid) {
				t.Error("a process of another session was killed")
			}
		})
	}
}

// TestHostKilled: SIGKILL of the host while the plugin's only thread computes: the plugin is gone within five seconds,
// and takes the dead host's sockets with it (T10). What remains when both are killed the next start sweeps: TestSweep.
func TestHostKilled(t *testing.T) {
	dir, err := os.MkdirTemp("", "wt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), envMode+"=host:"+dir)
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "plugin ") {
		t.Fatalf("host says %q, %v", line, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "plugin ")))
	if err != nil || !running(pid) {
		t.Fatalf("plugin %d does not run: %v", pid, err)
	}
	start := time.Now()
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin is gone", 5*time.Second, func() bool { return !running(pid) })
	t.Logf("plugin gone %v after the host", time.Since(start).Round(time.Millisecond))
	_ = host.Wait()

	noneLeft(t, dir)
	p, err := Launch(context.Background(), testConfig("ok", func(c *LaunchConfig) { c.Dir = dir }))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	noneLeft(t, dir)
}

// TestFreshClients: starts, good and bad, leave neither goroutines nor descriptors.
func TestFreshClients(t *testing.T) {
	runtime.GC()
	before, files := runtime.NumGoroutine(), countFiles(t)
	dir, err := os.MkdirTemp("", "wt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for i, mode := range []string{"ok", "ok", "panic-main", "slow:1h", "mute", "ok", "old"} {
		cfg := testConfig(mode, func(c *LaunchConfig) { c.Dir = dir })
		if mode == "slow:1h" || mode == "mute" {
			cfg.StartTimeout = 200 * time.Millisecond
		}
		p, err := Launch(context.Background(), cfg)
		if (err == nil) != (mode == "ok") {
			t.Fatal(err)
		}
		switch {
		case err != nil:
		case i%2 == 0:
			_ = p.Kill("test")
		default:
			_ = p.Stop(context.Background())
		}
	}
	noneLeft(t, dir)
	eventually(t, fmt.Sprintf("goroutines back to %d", before), 3*time.Second, func() bool { return runtime.NumGoroutine() <= before })
	eventually(t, fmt.Sprintf("open files back to %d", files), 3*time.Second, func() bool { return countFiles(t) <= files })
}

func countFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestOutput(t *testing.T) {
	var log logBuffer
	p := launchTest(t, "noise", func(c *LaunchConfig) { c.Log = log.logger() })
	mustCall(t, p, "Do", "print 1048576")
	mustCall(t, p, "Do", "log")
	eventually(t, "output is logged", 3*time.Second, func() bool { return strings.Contains(log.String(), "celsius=91") })
	out := log.String()
	for _, want := range []string{"a library says hello", "and leaves its last line open", "raw line on descriptor one", "[line of 1048577 bytes]", `level=WARN msg="device is hot" plugin=test`} {
		if !strings.Contains(out, want) {
			t.Errorf("log lacks %q", want)
		}
	}
	if len(out) > 64<<10 {
		t.Errorf("%d bytes of log for two long lines", len(out))
	}
}
