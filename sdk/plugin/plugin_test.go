package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// The tests start their own binary as plugin, or as a host that is to be killed: envMode says as what.
const envMode = "WEIR_TEST_MODE"

func TestMain(m *testing.M) {
	mode, arg, _ := strings.Cut(os.Getenv(envMode), ":")
	if mode == "" {
		os.Exit(m.Run())
	}
	if mode == "host" {
		victimHost(arg)
		return
	}
	os.Exit(testPlugin(mode, arg))
}

// A panic in the initialisation of a package, before main.
var _ = func() int {
	if os.Getenv(envMode) == "panic-init" {
		panic("device library is missing")
	}
	return 0
}()

// testPlugin is the plugin's main.
func testPlugin(mode, arg string) int {
	cfg := ServeConfig{
		Name: "test", Kind: "tester",
		Versions: map[int]func(*grpc.Server, slab.Resolver) error{
			3: func(s *grpc.Server, r slab.Resolver) error {
				s.RegisterService(&testService, &server{r, 3})
				return nil
			},
			4: func(s *grpc.Server, r slab.Resolver) error {
				s.RegisterService(&testService, &server{r, 4})
				return nil
			},
		},
	}
	switch mode {
	case "ok":
	case "old":
		cfg.Versions = map[int]func(*grpc.Server, slab.Resolver) error{1: cfg.Versions[3]}
	case "noise":
		fmt.Println("a library says hello")
		fmt.Println("1|2|three")
		fmt.Println(strings.Repeat("x", 1<<20))
		fmt.Println()
		fmt.Print("and leaves its last line open")
	case "long-stderr":
		fmt.Fprintln(os.Stderr, strings.Repeat("e", 1<<20))
	case "only-noise":
		for i := range 100 {
			fmt.Println("noise", i)
		}
		return 0
	case "panic-main":
		panic("no GPU here")
	case "slow":
		d, _ := time.ParseDuration(arg)
		fmt.Fprintln(os.Stderr, "looking for devices")
		time.Sleep(d)
	case "mute": // the handshake, and nothing behind it
		l, err := os.CreateTemp(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
		if err != nil {
			return 9
		}
		fmt.Printf("1|3|unix|%s|grpc|\n", l.Name())
		time.Sleep(time.Hour)
	case "foreign": // sends the host to a socket outside its directory
		fmt.Printf("1|3|unix|/tmp/elsewhere.sock|grpc|\n")
		time.Sleep(time.Hour)
	case "register":
		cfg.Versions[4] = func(*grpc.Server, slab.Resolver) error { return errors.New("cannot register this") }
	case "small":
		cfg.MaxMessage, _ = strconv.Atoi(arg)
	case "stubborn":
		cfg.OnStop = func() { time.Sleep(time.Hour) }
	default:
		fmt.Fprintln(os.Stderr, "unknown mode", mode)
		return 7
	}
	if err := Serve(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		return 1
	}
	return 0
}

// server is the test's service: calls by hand, so that no generated code is needed.
type server struct {
	resolver slab.Resolver
	version  int
}

type bytesValue = wrapperspb.BytesValue

func method(name string, h func(*server, context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := &bytesValue{}
		if err := dec(in); err != nil {
			return nil, err
		}
		out, err := h(srv.(*server), ctx, in.GetValue())
		if err != nil {
			return nil, err
		}
		return &bytesValue{Value: out}, nil
	}}
}

var testService = grpc.ServiceDesc{
	ServiceName: "weir.test.Test", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		method("Len", func(_ *server, _ context.Context, b []byte) ([]byte, error) { return []byte(strconv.Itoa(len(b))), nil }),
		method("Blob", func(_ *server, _ context.Context, b []byte) ([]byte, error) {
			n, err := strconv.Atoi(string(b))
			return make([]byte, n), err
		}),
		method("Do", (*server).do),
		method("Sum", (*server).sum),
	},
	Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		in := &bytesValue{}
		if err := s.RecvMsg(in); err != nil {
			return err
		}
		if err := s.SendMsg(&bytesValue{Value: []byte("first")}); err != nil {
			return err
		}
		_, err := srv.(*server).do(s.Context(), in.GetValue())
		return err
	}}},
}

func (s *server) do(ctx context.Context, b []byte) ([]byte, error) {
	what, arg, _ := strings.Cut(string(b), " ")
	switch what {
	case "hold":
		<-ctx.Done()
		return nil, ctx.Err()
	case "spin": // all threads, for ever, deaf to ctx
		for range runtime.GOMAXPROCS(0) - 1 {
			go spin()
		}
		spin()
	case "segv":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		time.Sleep(time.Hour)
	case "abort":
		signal.Reset(syscall.SIGABRT)
		_ = syscall.Kill(os.Getpid(), syscall.SIGABRT)
		time.Sleep(time.Hour)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case "panic":
		panic("index out of range in kernel table")
	case "eat": // memory, at most 256 MiB
		var eaten [][]byte
		for range 256 {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			eaten = append(eaten, b)
		}
		return []byte(strconv.Itoa(len(eaten))), nil
	case "exit":
		n, _ := strconv.Atoi(arg)
		os.Exit(n)
	case "env":
		return []byte(strings.Join(os.Environ(), "\n")), nil
	case "version":
		return []byte(strconv.Itoa(s.version)), nil
	case "procs":
		return []byte(strconv.Itoa(runtime.GOMAXPROCS(0))), nil
	case "read":
		return os.ReadFile(arg)
	case "stdin":
		return io.ReadAll(os.Stdin)
	case "exe":
		p, err := os.Readlink("/proc/self/exe")
		return []byte(p), err
	case "print":
		n, _ := strconv.Atoi(arg)
		fmt.Println(strings.Repeat("p", n))
		_, err := syscall.Write(1, []byte("raw line on descriptor one\n"))
		return nil, err
	case "log":
		NewLogger().Warn("device is hot", "celsius", 91)
		return nil, nil
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "said by the handler")
	case "busy":
		return nil, errs.ToStatus(errs.New(errs.Unavailable, "test", "draining"))
	case "child": // what a process started by the plugin inherits; it stays
		out, err := exec.Command("sh", "-c", "ls -l /proc/$$/fd").CombinedOutput()
		if err != nil {
			return nil, err
		}
		c := exec.Command("sleep", "1000")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if arg == "own-session" {
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if err := c.Start(); err != nil {
			return nil, err
		}
		return append([]byte(strconv.Itoa(c.Process.Pid)+"\n"), out...), nil
	default:
		return nil, status.Error(codes.Unimplemented, what)
	}
	return nil, nil
}

var spinSink uint64

func spin() {
	for x := uint64(1); ; x = x*6364136223846793005 + 1 {
		if x == 0 {
			spinSink = x
		}
	}
}

// sum adds up a buffer's words on all threads.
func (s *server) sum(_ context.Context, b []byte) ([]byte, error) {
	var r slab.Ref
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	data, err := s.resolver.Bytes(r)
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	words, err := slab.View[uint64](data)
	if err != nil {
		return nil, errs.ToStatus(err)
	}
	return []byte(strconv.FormatUint(sumParallel(words), 10)), nil
}

func sumParallel(words []uint64) uint64 {
	const parts = 64 // more than threads: a busy machine does not run them evenly
	sums := make([]uint64, parts)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < parts; i = int(next.Add(1)) - 1 {
				sums[i] = sumWords(words[len(words)*i/parts : len(words)*(i+1)/parts])
			}
		})
	}
	wg.Wait()
	return sumWords(sums)
}

func sumWords(w []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(w) >= 8; w = w[8:] {
		a += w[0] + w[4]
		b += w[1] + w[5]
		c += w[2] + w[6]
		d += w[3] + w[7]
	}
	for _, x := range w {
		a += x
	}
	return a + b + c + d
}

// victimHost starts a plugin, has it compute, tells its pid, and waits to be killed.
func victimHost(dir string) {
	p, err := Launch(context.Background(), testConfig("ok", func(c *LaunchConfig) { c.Dir = dir; c.Threads = 1 }))
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	go func() { _, _ = call(context.Background(), p, "Do", "spin") }()
	time.Sleep(100 * time.Millisecond)
	fmt.Println("plugin", p.PID())
	select {}
}

func testConfig(mode string, change ...func(*LaunchConfig)) LaunchConfig {
	self, err := SelfPath()
	if err != nil {
		panic(err)
	}
	cfg := LaunchConfig{Path: self, Name: "test", Env: []string{envMode + "=" + mode}, ContractVersions: []int{3, 4}, StartTimeout: 20 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	return cfg
}

// launch starts a test plugin and takes care that nothing of it is left.
func launchTest(t testing.TB, mode string, change ...func(*LaunchConfig)) *Process {
	t.Helper()
	dir, err := os.MkdirTemp("", "wt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := testConfig(mode, append([]func(*LaunchConfig){func(c *LaunchConfig) { c.Dir = dir }}, change...)...)
	p, err := Launch(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		noneLeft(t, cfg.Dir)
	})
	return p
}

func noneLeft(t testing.TB, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "weir-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("socket directories left: %v %v", left, err)
	}
}

func call(ctx context.Context, p *Process, name, arg string) (string, error) {
	out, err := callBytes(ctx, p, name, []byte(arg))
	return string(out), err
}

func callBytes(ctx context.Context, p *Process, name string, arg []byte, opts ...grpc.CallOption) ([]byte, error) {
	out := &bytesValue{}
	err := p.Conn().Invoke(ctx, "/weir.test.Test/"+name, &bytesValue{Value: arg}, out, opts...)
	return out.GetValue(), err
}

func mustCall(t testing.TB, p *Process, name, arg string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := call(ctx, p, name, arg)
	if err != nil {
		t.Fatalf("%s %s: %v", name, arg, err)
	}
	return out
}

// logBuffer collects what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// eventually waits for what another process does.
func eventually(t testing.TB, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// stopProcess sends SIGSTOP and waits until every thread has obeyed.
func stopProcess(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		time.Sleep(200 * time.Millisecond)
		return
	}
	eventually(t, "all threads are stopped", 5*time.Second, func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if _, rest, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(rest, "T") {
				return false
			}
		}
		return true
	})
}

// running tells whether pid is a process that is not a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux"
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func wantClass(t testing.TB, err error, c errs.Class, words ...string) {
	t.Helper()
	if !errs.Is(err, c) {
		t.Fatalf("error %v, want class %v", err, c)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}
