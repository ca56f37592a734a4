package plugin

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// Process is one running plugin, from Launch to its death. All methods are safe for concurrent use.
type Process struct {
	name       string
	kind       string
	started    time.Time
	killAfter  time.Duration
	child      *child
	client     *goplugin.Client
	protocol   goplugin.ClientProtocol
	conn       *grpc.ClientConn
	channel    *slab.Channel
	lifeLine   *os.File
	dir        *socketDir
	maxMessage atomic.Int64

	gone     chan struct{} // closed the moment the process is reaped
	done     chan struct{} // closed when everything of it is cleared away
	stopping atomic.Bool
	stopOnce sync.Once
	exitErr  error // final when done is closed
}

// Conn carries the calls. Every failure of the transport over it is an error of class errs.BackendGone with the cause
// of the plugin's death. Messages are bounded by MaxMessage in both directions: a larger one is refused with gRPC's
// ResourceExhausted.
func (p *Process) Conn() *grpc.ClientConn { return p.conn }

// Channel hands buffers and files to the plugin: see slab.Pool.Hand. It is closed with the process.
func (p *Process) Channel() *slab.Channel { return p.channel }

// Version is the contract version that host and plugin agreed on.
func (p *Process) Version() int { return int(p.child.version.Load()) }

// PID is the process, and its process group.
func (p *Process) PID() int { return p.child.pid }

// Name is the plugin's name for itself.
func (p *Process) Name() string { return p.name }

// Kind is what the plugin says it is.
func (p *Process) Kind() string { return p.kind }

// MaxMessage is the bound of one message in bytes, the same in host and plugin.
func (p *Process) MaxMessage() int { return int(p.maxMessage.Load()) }

// Started is when the process was started.
func (p *Process) Started() time.Time { return p.started }

// Done is closed when the process is dead and its sockets are removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitError says why the process ended: nil while it lives, and after a stop that was asked for; otherwise an
// errs.BackendGone with signal, exit code or last words, retryable.
func (p *Process) ExitError() error {
	select {
	case <-p.done:
		return p.exitErr
	default:
		return nil
	}
}

// Ping asks the plugin's health service, once. The plugin answers while it computes; it is sick when it does not
// answer several times in a row. A context without deadline gets one of five seconds.
func (p *Process) Ping(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	r, err := healthpb.NewHealthClient(p.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	if err != nil {
		return errs.FromStatus(err)
	}
	if r.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return errs.New(errs.Unavailable, "ping plugin "+p.name, "health status %v", r.GetStatus())
	}
	return nil
}

// Stop asks the plugin to end, which cancels its calls, and kills its process group when it has not ended within
// LaunchConfig.KillTimeout or when ctx is over. It returns when the process is gone and everything is cleared away
// (nil), or with errs.Internal when even a killed process does not go, as one stuck in a device driver may.
func (p *Process) Stop(ctx context.Context) error {
	p.stopping.Store(true)
	p.stopOnce.Do(func() { go p.askToEnd() })
	timer := time.NewTimer(p.killAfter)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	p.child.kill("it did not stop in time")
	return p.awaitDeath()
}

// Kill ends the process group at once. reason appears in ExitError.
func (p *Process) Kill(reason string) error {
	p.child.kill(reason)
	return p.awaitDeath()
}

// deathWait is how long a killed process may take to go.
const deathWait = 10 * time.Second

func (p *Process) awaitDeath() error {
	timer := time.NewTimer(deathWait)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errs.New(errs.Internal, "stop plugin "+p.name, "process %d is killed but does not go", p.PID()).
			WithHint("it may hang in a device driver; its memory stays taken until it goes")
	}
}

// askToEnd sends go-plugin's shutdown call, which has no deadline of its own: a plugin that does not answer is killed
// by Stop, which ends the call.
func (p *Process) askToEnd() {
	_ = p.protocol.Close()
}

// bury waits for the end of the process and clears up after it.
func (p *Process) bury() {
	<-p.child.exited
	close(p.gone)
	if !p.stopping.Load() {
		p.exitErr = &errs.Error{Class: errs.BackendGone, Op: "plugin " + p.name, Found: p.child.cause(), Retryable: true}
	}
	_ = p.channel.Close()
	_ = p.lifeLine.Close()
	p.client.Kill() // the process is dead: this ends go-plugin's goroutines and connection
	_ = p.conn.Close()
	p.dir.remove()
	close(p.done)
}
