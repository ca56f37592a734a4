package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// ServeConfig says what a plugin serves.
type ServeConfig struct {
	// Name and Kind ("prover", "synthesizer") are for people: they appear in the host's messages.
	Name, Kind string
	// Versions registers the services of each contract version that the plugin can speak. The newest one that the host
	// can speak too is used; the resolver is where the buffers that its messages name are found.
	Versions map[int]func(*grpc.Server, slab.Resolver) error
	// MaxMessage bounds a gRPC message in bytes. Default, and most, is the host's figure.
	MaxMessage int
	// OOMScoreAdj is added to the kernel's wish to kill this process first when memory runs out, so that it is not the
	// host (proc(5)). Default 500; negative leaves it alone.
	OOMScoreAdj int
	// ServerOptions are further options of the gRPC server, such as interceptors.
	ServerOptions []grpc.ServerOption
	// OnStop, if set, runs after the last call ended, before Serve returns. The host's patience is its KillTimeout.
	OnStop func()
	// Log gets what Serve has to say. Default is NewLogger.
	Log *slog.Logger
}

// Serve runs a plugin until the host asks it to stop (nil). Call it early in main, before anything starts processes or
// prints; it is of no use outside a process that Launch started (errs.InvalidArgument). When the host dies Serve does not
// return: the process exits with ExitHostGone, within a second and whatever it computes.
//
// GOMAXPROCS and GOMEMLIMIT, which the host sets, are obeyed by the Go runtime; code that counts CPUs itself should ask
// runtime.GOMAXPROCS(0).
func Serve(cfg ServeConfig) error {
	const op = "serve plugin"
	// First of all: what was inherited must not go on to grandchildren, or they keep the life line and sockets open.
	closeOnExecAll()
	if os.Getenv(cookieKey) != cookieValue {
		return errs.New(errs.InvalidArgument, op, "not started by a host").
			WithHint("this program is a plugin: name it in the configuration of weir, which starts it")
	}
	if len(cfg.Versions) == 0 {
		return errs.New(errs.InvalidArgument, op, "no contract version is served")
	}
	if cfg.Log == nil {
		cfg.Log = NewLogger()
	}
	line, err := inherited(envLifeLine, syscall.S_IFIFO)
	if err != nil {
		return errs.Wrap(err, op)
	}
	// A dead host reads no stderr. A line written to it then would end the process before the life line's watch has cleared up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go watchLifeLine(line, filepath.Dir(os.Getenv(goplugin.EnvUnixSocketDir))) // go-plugin puts a directory into ours

	stdout, err := moveStdout()
	if err != nil {
		return &errs.Error{Class: errs.Internal, Op: op, Where: "move stdout", Err: err}
	}
	defer func() { _ = stdout.Close() }()

	socket, err := inherited(envChannel, syscall.S_IFSOCK)
	if err != nil {
		return errs.Wrap(err, op)
	}
	limit := clampMessage(cfg.MaxMessage, DefaultMaxMessage)
	if n, err := strconv.Atoi(os.Getenv(envMaxMessage)); err == nil {
		limit = clampMessage(n, limit)
		if cfg.MaxMessage > 0 {
			limit = min(limit, clampMessage(cfg.MaxMessage, limit))
		}
	}
	for _, name := range []string{cookieKey, envLifeLine, envChannel, envMaxMessage} {
		_ = os.Unsetenv(name)
	}
	if cfg.OOMScoreAdj == 0 {
		cfg.OOMScoreAdj = 500
	}
	if cfg.OOMScoreAdj > 0 {
		raiseOOMScore(cfg.OOMScoreAdj)
	}

	info, err := json.Marshal(hello{Name: cfg.Name, Kind: cfg.Kind, MaxMessage: limit})
	if err != nil {
		return &errs.Error{Class: errs.Internal, Op: op, Err: err}
	}
	mapper, err := slab.NewMapper(os.NewFile(uintptr(socket), "buffers"), info)
	if err != nil {
		return errs.Wrap(err, op)
	}
	go func() {
		if err := mapper.Serve(); err != nil {
			cfg.Log.Error("buffer channel failed", "error", err.Error())
		}
	}()

	options := append([]grpc.ServerOption{grpc.MaxRecvMsgSize(limit), grpc.MaxSendMsgSize(limit)}, cfg.ServerOptions...)
	err = serveGRPC(cfg, mapper, options, stdout)
	if cfg.OnStop != nil {
		cfg.OnStop()
	}
	return err
}

// serveGRPC runs go-plugin's server. Its test mode is used on purpose: outside it, go-plugin puts pipes that are read
// over gRPC in the place of os.Stdout and os.Stderr, which loses the last words of a crash and blocks a plugin whose
// host does not read; and it exits the process in place of returning. So the handshake line is written here.
func serveGRPC(cfg ServeConfig, resolver slab.Resolver, options []grpc.ServerOption, stdout *os.File) error {
	versions := map[int]goplugin.PluginSet{}
	var failed error
	for v, register := range cfg.Versions {
		versions[v] = goplugin.PluginSet{serviceSet: &services{register: func(s *grpc.Server) error {
			failed = register(s, resolver)
			return failed
		}}}
	}
	ready := make(chan *goplugin.ReattachConfig, 1)
	done := make(chan struct{})
	go goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  handshake,
		VersionedPlugins: versions,
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, options...)...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Error, JSONFormat: true}),
		Test:   &goplugin.ServeTestConfig{Context: context.Background(), ReattachConfigCh: ready, CloseCh: done},
	})
	select {
	case r := <-ready:
		// The line begins with a line break: whatever was printed before Serve may have left its last line open.
		_, err := fmt.Fprintf(stdout, "\n%d|%d|%s|%s|%s|\n", goplugin.CoreProtocolVersion, r.ProtocolVersion, r.Addr.Network(), r.Addr.String(), r.Protocol)
		if err != nil {
			return &errs.Error{Class: errs.BackendGone, Op: "serve plugin", Where: "handshake", Err: err}
		}
		_ = stdout.Close()
		<-done
		return nil
	case <-done:
		if failed != nil {
			return errs.Wrap(failed, "register services")
		}
		return errs.New(errs.Internal, "serve plugin", "no socket for calls in %q (the reason is on stderr)", os.Getenv(goplugin.EnvUnixSocketDir))
	}
}

// services adapts a registration function to go-plugin's table.
type services struct {
	goplugin.NetRPCUnsupportedPlugin
	register func(*grpc.Server) error
}

var _ goplugin.GRPCPlugin = (*services)(nil)

func (s *services) GRPCServer(_ *goplugin.GRPCBroker, server *grpc.Server) error {
	return s.register(server)
}

func (s *services) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// inherited returns the descriptor that the host named in the environment, after a look at what it is.
func inherited(env string, kind uint32) (int, error) {
	fd, err := strconv.Atoi(os.Getenv(env))
	if err != nil || fd < 3 {
		return 0, errs.New(errs.InvalidArgument, "take over descriptor", "%s=%q", env, os.Getenv(env))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &errs.Error{Class: errs.InvalidArgument, Op: "take over descriptor", Where: env, Err: err}
	}
	if uint32(st.Mode)&syscall.S_IFMT != kind {
		return 0, errs.Mismatch(errs.InvalidArgument, "take over descriptor", env, fmt.Sprintf("file type %#o", kind), fmt.Sprintf("%#o", st.Mode&syscall.S_IFMT))
	}
	return fd, nil
}

// watchLifeLine ends the process when the host is gone. It reads with a plain system call, on a thread of its own, so
// that it depends on nothing but the kernel and a moment of the scheduler. The host's socket directory, which nobody else would remove before
// the next start, goes with it.
func watchLifeLine(fd int, sockets string) {
	_ = unix.SetNonblock(fd, false)
	var b [1]byte
	for {
		n, err := unix.Read(fd, b[:])
		if err == unix.EINTR || err == unix.EAGAIN || n > 0 {
			continue
		}
		if isSocketDirName(filepath.Base(sockets), dirPrefix) {
			time.AfterFunc(500*time.Millisecond, func() { os.Exit(ExitHostGone) }) // a file system that hangs must not keep us
			_ = os.RemoveAll(sockets)
		}
		os.Exit(ExitHostGone)
	}
}

// moveStdout makes descriptor 1 another name of stderr, for Go and native code alike, and returns the former stdout.
func moveStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup2(2, 1); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "handshake"), nil
}

// clampMessage returns n within what gRPC can do, or def for n <= 0.
func clampMessage(n, def int) int {
	if n <= 0 {
		return def
	}
	return min(max(n, minMaxMessage), maxMaxMessage)
}
