// Package plugin starts plugins as processes of their own and serves them: the glue around hashicorp/go-plugin, and the
// only package that imports it. It knows processes and connections, not the services that run over them: those come as
// registration functions (Serve) and use a *grpc.ClientConn (Launch).
//
// What it adds to go-plugin:
//
//   - a life line: a pipe whose other end the host holds; when the host dies, however it dies, the plugin exits;
//   - a socket for buffers (package slab) beside the one for calls;
//   - the plugin's stdout becomes its stderr before it serves, so that a stray print cannot break the handshake, and
//     noise from before that is skipped;
//   - the plugin sees no environment but a short list, and its stdin is /dev/null;
//   - every plugin leads a process group, which is killed whole, at the latest when its time to stop is over;
//   - death is noticed by waiting for the process, not for its pipes to close, and told with its cause;
//   - sockets live in a directory of their own, short enough for a socket's name, swept after a crash;
//   - message sizes are bounded and agree on both sides;
//   - every failure of the transport is one error: class errs.BackendGone.
//
// A Process is used for one life of a plugin. Package supervisor gives a live one, time and again.
package plugin

import (
	"log/slog"
	"os"
	"runtime"

	goplugin "github.com/hashicorp/go-plugin"
)

// DefaultMaxMessage bounds one gRPC message, in either direction and on both sides. Larger things travel in buffers.
const DefaultMaxMessage = 256 << 20

// Unserved reports that this process was started as a plugin and has not called Serve. A program that uses the engine must serve before it
// does anything else: otherwise every copy of it would start copies of its own.
func Unserved() bool { return os.Getenv(cookieKey) == cookieValue }

// The environment of a plugin, beside what go-plugin sets. Serve removes all of these before it serves.
const (
	cookieKey   = "WEIR_PLUGIN"
	cookieValue = "7f3ac8a5f6d94a4d8e0c1f0a2b6b7d11" // tells a start by the host from one by hand; no secret

	envLifeLine   = "WEIR_PLUGIN_LIFE_LINE_FD" // read end of a pipe: end of file means that the host is gone
	envChannel    = "WEIR_PLUGIN_BUFFERS_FD"   // socket of package slab
	envMaxMessage = "WEIR_PLUGIN_MAX_MESSAGE"  // bytes
)

var handshake = goplugin.HandshakeConfig{MagicCookieKey: cookieKey, MagicCookieValue: cookieValue}

// serviceSet is the name of the one set of services in go-plugin's table.
const serviceSet = "weir"

// maxMessageRange keeps a bound useful: below it not even an error fits, above it gRPC's own int32 lengths end.
const (
	minMaxMessage = 4 << 10
	maxMaxMessage = 1 << 30
)

// ExitHostGone is the exit code of a plugin whose host died.
const ExitHostGone = 75

// SelfPath names the running program for a Launch of the same one. On Linux that is /proc/self/exe, which stays the
// running file when an upgrade has put another one in its place.
func SelfPath() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// NewLogger makes a logger for plugins: JSON lines on stderr, which the host logs again with level and attributes.
func NewLogger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// hello is what a plugin tells about itself when the buffer channel opens.
type hello struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	MaxMessage int    `json:"max_message"`
}
