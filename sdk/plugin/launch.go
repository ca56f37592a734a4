package plugin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// LaunchConfig says which plugin to start and how. Only Path and ContractVersions are required.
type LaunchConfig struct {
	// Path is the executable; SelfPath gives that of the running program.
	Path string
	// Args are its arguments, without the program's name.
	Args []string
	// Name is used in messages until the plugin has told its own. Default is the base name of Path.
	Name string
	// SHA256 is the checksum of the executable in 64 hexadecimal digits, required by the host for third-party plugins;
	// empty checks nothing. On Linux exactly the file that was checked is started.
	SHA256 string
	// Env adds to the few variables that a plugin inherits: "NAME=value" sets one, "NAME" passes the host's.
	Env []string
	// ContractVersions are those that the host can speak.
	ContractVersions []int
	// Dir is the parent of the plugin's socket directory. Default is the system's directory for temporary files; a path
	// too long for a socket is passed over for a shorter one.
	Dir string
	// StartTimeout bounds the time from start to the first answer. Default 30 s.
	StartTimeout time.Duration
	// KillTimeout is how long Stop waits before it kills. Default 5 s.
	KillTimeout time.Duration
	// MaxMessage bounds a gRPC message in bytes, both ways, in host and plugin. Default DefaultMaxMessage.
	MaxMessage int
	// Threads is the plugin's GOMAXPROCS; 0 leaves it to the runtime.
	Threads int
	// MemLimit is the plugin's GOMEMLIMIT in bytes; 0 sets none. It covers the Go heap, not buffers.
	MemLimit int64
	// HandOverTimeout bounds one hand-over of a buffer. Default slab.DefaultDeadline.
	HandOverTimeout time.Duration
	// Log gets the plugin's stderr and what happens to the process. Default drops it.
	Log *slog.Logger

	oomRoot string // where tests keep a faked /proc and /sys
}

func (c *LaunchConfig) ensureDefaults() {
	if c.Name == "" {
		c.Name = filepath.Base(c.Path)
	}
	if c.StartTimeout <= 0 {
		c.StartTimeout = 30 * time.Second
	}
	if c.KillTimeout <= 0 {
		c.KillTimeout = 5 * time.Second
	}
	c.MaxMessage = clampMessage(c.MaxMessage, DefaultMaxMessage)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Descriptors of the child, in the order of exec.Cmd.ExtraFiles.
const (
	fdLifeLine = 3
	fdChannel  = 4
	fdProgram  = 5
)

// Launch starts a plugin and returns when it has answered. Errors: errs.NotFound, PermissionDenied or InvalidFile for
// the executable (InvalidFile also for a wrong checksum), Unsupported when no contract version is shared, BackendGone
// when the plugin died or was too slow, with the phase it was in and its last words; Canceled or Deadline when ctx ended.
// Nothing is left behind by a start that failed.
func Launch(ctx context.Context, cfg LaunchConfig) (*Process, error) {
	cfg.ensureDefaults()
	op := "start plugin " + cfg.Name
	if len(cfg.ContractVersions) == 0 {
		return nil, errs.New(errs.InvalidArgument, op, "no contract version is given")
	}
	path, program, err := openProgram(&cfg)
	if err != nil {
		return nil, errs.InFile(err, cfg.Path)
	}
	if program != nil {
		defer func() { _ = program.Close() }()
	}
	l := &launch{cfg: cfg, op: op, path: path, program: program}
	p, err := l.run(ctx)
	if err != nil {
		l.undo()
		return nil, err
	}
	return p, nil
}

// openProgram looks at the executable and checks its sum. With a sum, program is the file that was checked, where
// the system can start an open file.
func openProgram(cfg *LaunchConfig) (path string, program *os.File, err error) {
	op := "start plugin " + cfg.Name
	path = cfg.Path
	if !strings.ContainsRune(path, '/') {
		if path, err = exec.LookPath(path); err != nil {
			return "", nil, &errs.Error{Class: errs.NotFound, Op: op, Err: err, Hint: "give the path of the executable, or put it on PATH"}
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", nil, &errs.Error{Class: errs.InvalidArgument, Op: op, Err: err}
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, errs.New(errs.NotFound, op, "no such executable").WithHint("check the path of the plugin in the configuration")
	case err != nil:
		return "", nil, &errs.Error{Class: errs.ClassOf(err), Op: op, Err: err}
	case st.IsDir():
		return "", nil, errs.Mismatch(errs.InvalidFile, op, "", "an executable file", "a directory")
	case !st.Mode().IsRegular():
		return "", nil, errs.Mismatch(errs.InvalidFile, op, "", "an executable file", st.Mode().Type())
	case st.Mode()&0o111 == 0:
		return "", nil, errs.New(errs.PermissionDenied, op, "the file is not executable (mode %v)", st.Mode().Perm()).WithHint("chmod +x it if it is the plugin")
	}
	if cfg.SHA256 == "" {
		return path, nil, nil
	}
	want, err := hex.DecodeString(cfg.SHA256)
	if err != nil || len(want) != sha256.Size {
		return "", nil, errs.Mismatch(errs.InvalidArgument, op, "checksum", "64 hexadecimal digits", strconv.Quote(cut(cfg.SHA256, 80)))
	}
	f, err := os.Open(path)
	if err != nil {
		return "", nil, &errs.Error{Class: errs.ClassOf(err), Op: op, Err: err}
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		_ = f.Close()
		return "", nil, &errs.Error{Class: errs.InvalidFile, Op: op, Err: err}
	}
	if got := sum.Sum(nil); subtle.ConstantTimeCompare(got, want) != 1 {
		_ = f.Close()
		return "", nil, errs.Mismatch(errs.InvalidFile, op, "sha256", hex.EncodeToString(want), hex.EncodeToString(got)).
			WithHint("the executable is not the one that was approved; update the checksum only if you trust the new one")
	}
	if !canRunOpenFile {
		_ = f.Close()
		return path, nil, nil
	}
	return path, f, nil
}

// launch is one attempt. Its phases, in order, are named by errors: a start that takes too long says in which it was.
type launch struct {
	cfg     LaunchConfig
	op      string
	path    string
	program *os.File

	phase    atomic.Value // string
	dir      *socketDir
	lifeLine *os.File
	socket   *os.File // our end, until the channel has it
	child    *child
	client   *goplugin.Client
	channel  *slab.Channel
	protocol goplugin.ClientProtocol
}

func (l *launch) run(ctx context.Context) (*Process, error) {
	cfg := &l.cfg
	started := time.Now()
	l.phase.Store("start of the process")
	cmd, err := l.command()
	if err != nil {
		return nil, err
	}
	p := &Process{name: cfg.Name, started: started, killAfter: cfg.KillTimeout, gone: make(chan struct{}), done: make(chan struct{})}
	p.maxMessage.Store(int64(cfg.MaxMessage))
	if l.child, err = newChild(cfg.Name, cmd, cfg.Log.With("plugin", cfg.Name), l.dir.path); err != nil {
		return nil, err
	}
	l.child.probe.root = cfg.oomRoot
	p.child = l.child

	versions := map[int]goplugin.PluginSet{}
	for _, v := range cfg.ContractVersions {
		versions[v] = goplugin.PluginSet{serviceSet: &services{}}
	}
	l.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions,
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			cmd.Env = append(cmd.Env, spec.Env...) // go-plugin's own variables
			return l.child, nil
		},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           hclog.NewNullLogger(),
		SkipHostEnv:      true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: l.dir.path},
		StartTimeout:     cfg.StartTimeout + time.Minute, // ours is the one that ends
		GRPCDialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream),
			grpc.WithIdleTimeout(0), // minutes without a call are no reason to reconnect
		},
	})

	timed, cancel := context.WithTimeout(ctx, cfg.StartTimeout)
	defer cancel()
	// go-plugin's calls take no context: when time is over the process is killed, which ends them.
	unarm := context.AfterFunc(timed, func() { l.child.kill("its start took too long") })
	defer unarm()

	err = l.dial(timed, p)
	if err == nil && !unarm() {
		err = timed.Err()
	}
	if err != nil {
		return nil, l.explain(ctx, timed, err)
	}
	p.client, p.channel, p.lifeLine, p.dir = l.client, l.channel, l.lifeLine, l.dir
	l.child.recountOOM()
	cfg.Log.Debug("plugin started", "plugin", p.name, "kind", p.kind, "pid", p.PID(), "contract", p.Version(), "took", time.Since(started))
	go p.bury()
	return p, nil
}

// dial goes through the phases after the process was made ready.
func (l *launch) dial(ctx context.Context, p *Process) error {
	l.phase.Store("handshake")
	if _, err := l.client.Start(); err != nil {
		return err
	}
	if v := int(l.child.version.Load()); !slices.Contains(l.cfg.ContractVersions, v) {
		return errs.New(errs.Internal, l.op, "go-plugin agreed on contract version %d", v)
	}
	l.phase.Store("opening of the buffer channel")
	wait := l.cfg.StartTimeout
	if d, ok := ctx.Deadline(); ok {
		wait = time.Until(d) + time.Minute // the end of ctx ends this by killing the plugin
	}
	channel, info, err := slab.Connect(l.socket, nil, wait)
	l.socket = nil
	if err != nil {
		return err
	}
	l.channel = channel
	channel.SetDeadline(l.cfg.HandOverTimeout)
	var h hello
	if err := json.Unmarshal(info, &h); err != nil {
		return errs.New(errs.InvalidArgument, l.op, "what the plugin tells about itself is not understood: %v", err)
	}
	if h.Name != "" {
		p.name = cut(h.Name, 100)
	}
	p.kind = cut(h.Kind, 100)
	p.maxMessage.Store(int64(min(l.cfg.MaxMessage, clampMessage(h.MaxMessage, l.cfg.MaxMessage))))

	l.phase.Store("first call")
	protocol, err := l.client.Client()
	if err != nil {
		return err
	}
	l.protocol = protocol
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return errs.New(errs.Unsupported, l.op, "the plugin does not speak gRPC")
	}
	p.protocol, p.conn = protocol, grpcClient.Conn
	return p.firstPing(ctx, l.child.exited)
}

// firstPing asks for health once, before anyone has the process.
func (p *Process) firstPing(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	return p.Ping(ctx)
}

// command makes socket directory, life line and channel, and the command with its environment.
func (l *launch) command() (*exec.Cmd, error) {
	cfg := &l.cfg
	var err error
	if l.dir, err = makeSocketDir(cfg.Dir); err != nil {
		return nil, errs.Wrap(err, l.op)
	}
	lineR, lineW, err := os.Pipe()
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: l.op, Err: err}
	}
	l.lifeLine = lineW
	ours, theirs, err := slab.NewSocketPair()
	if err != nil {
		_ = lineR.Close()
		return nil, errs.Wrap(err, l.op)
	}
	l.socket = ours
	arg0 := cfg.Path
	if self, err := SelfPath(); err == nil && self == cfg.Path {
		arg0 = os.Args[0] // a name that says something in a list of processes
	}
	cmd := &exec.Cmd{Path: l.path, Args: append([]string{arg0}, cfg.Args...), ExtraFiles: []*os.File{lineR, theirs}}
	if l.program != nil {
		// A copy, because the child's files are closed here after the start.
		fd, err := syscall.Dup(int(l.program.Fd()))
		if err != nil {
			_ = lineR.Close()
			_ = theirs.Close()
			return nil, &errs.Error{Class: errs.Exhausted, Op: l.op, Err: err}
		}
		syscall.CloseOnExec(fd)
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), l.path))
		cmd.Path = runnable(l.path, fdProgram)
	}
	extra := slices.Clone(cfg.Env)
	if cfg.Threads > 0 {
		extra = append(extra, fmt.Sprintf("GOMAXPROCS=%d", cfg.Threads))
	}
	if cfg.MemLimit > 0 {
		extra = append(extra, fmt.Sprintf("GOMEMLIMIT=%d", cfg.MemLimit))
	}
	extra = append(extra, fmt.Sprintf("%s=%d", envLifeLine, fdLifeLine), fmt.Sprintf("%s=%d", envChannel, fdChannel),
		fmt.Sprintf("%s=%d", envMaxMessage, cfg.MaxMessage))
	cmd.Env = pluginEnv(os.Environ(), extra)
	return cmd, nil
}

// explain makes the one clear error out of a failed start.
func (l *launch) explain(ctx, timed context.Context, err error) error {
	phase, _ := l.phase.Load().(string)
	gone := &errs.Error{Class: errs.BackendGone, Op: l.op, Path: l.cfg.Path, Where: phase, Retryable: true}
	switch {
	case ctx.Err() != nil:
		return &errs.Error{Class: errs.ClassOf(ctx.Err()), Op: l.op, Path: l.cfg.Path, Where: phase, Err: ctx.Err()}
	case timed.Err() != nil:
		gone.Expected = fmt.Sprintf("a start within %v", l.cfg.StartTimeout)
		gone.Found = "none: the plugin was killed"
		if w := l.child.words.cause(); w != "" {
			gone.Found += fmt.Sprintf("; its last words: %q", w)
		}
		gone.Hint = "a plugin that needs longer, to open a device for instance, needs a longer start timeout in the configuration"
		return gone
	}
	if v := int(l.child.version.Load()); v >= 0 && !slices.Contains(l.cfg.ContractVersions, v) {
		return errs.Mismatch(errs.Unsupported, l.op, "contract version", fmt.Sprintf("one of %v", l.cfg.ContractVersions), strconv.Itoa(v)).
			WithPath(l.cfg.Path).WithHint("host and plugin are from releases too far apart: update the older one")
	}
	if l.child.pid == 0 {
		gone.Err = err
		gone.Retryable = false
		if c := errs.ClassOf(err); c == errs.NotFound || c == errs.PermissionDenied {
			gone.Class = c
		}
		return gone
	}
	// The process may be about to die of what it has just shown.
	timer := time.NewTimer(exitWait)
	defer timer.Stop()
	select {
	case <-l.child.exited:
		if cause := l.child.cause(); cause != "killed by the host: its start failed" {
			gone.Found = cause
			return gone
		}
	case <-timer.C:
	}
	gone.Err = err
	return gone
}

// undo clears up after a start that failed.
func (l *launch) undo() {
	if l.child != nil {
		l.child.kill("its start failed")
		if l.child.pid == 0 {
			l.child.discard()
		}
	}
	if l.channel != nil {
		_ = l.channel.Close()
	}
	for _, f := range []*os.File{l.socket, l.lifeLine} {
		if f != nil {
			_ = f.Close()
		}
	}
	if l.child != nil && l.child.pid != 0 {
		timer := time.NewTimer(deathWait)
		defer timer.Stop()
		select {
		case <-l.child.exited:
		case <-timer.C:
		}
	}
	if l.protocol != nil { // go-plugin's Kill is of no use here: it would open a connection where there was none yet
		_ = l.protocol.Close()
	}
	if l.dir != nil {
		l.dir.remove()
	}
}
