package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// drainTime is how long the output of a dead plugin is still waited for: it ends at once, unless a process that left
// the plugin's process group holds the pipe.
const drainTime = 250 * time.Millisecond

// child is one process. It is go-plugin's runner, and keeps from go-plugin everything but the handshake line: a runner
// of go-plugin's own would pass on the host's stdin, believe noise to be the handshake, and wait for the end of the
// pipes, which a grandchild can hold open, before it notices a death.
type child struct {
	name    string
	cmd     *exec.Cmd
	log     *slog.Logger
	sockets string // the directory that the plugin's socket must be in
	probe   oomProbe

	shaken    *io.PipeReader // the handshake line, then end of file
	shakenW   *io.PipeWriter
	version   atomic.Int64 // contract version of the handshake line, -1 before
	words     lastWords
	crashed   int // lines since a crash began; of the goroutine that reads stderr
	noise     atomic.Int64
	out, err  *os.File // our ends of the pipes
	closeHere []*os.File

	mu        sync.Mutex
	pid       int
	reaped    bool
	killed    string // the reason of our own kill
	oomBefore map[string]int64

	exited chan struct{} // closed when the fields below are final
	state  *os.ProcessState
	oom    string
}

var _ runner.Runner = (*child)(nil)

// handshakeLine is core version, contract version, network, address, protocol, and more.
var handshakeLine = regexp.MustCompile(`^\d+\|(\d+)\|(unix|tcp)\|[^|]+\|(grpc|netrpc)(\||$)`)

// newChild prepares cmd; files are its ExtraFiles, which are closed here once it runs.
func newChild(name string, cmd *exec.Cmd, log *slog.Logger, sockets string) (*child, error) {
	c := &child{name: name, cmd: cmd, log: log, sockets: sockets, exited: make(chan struct{})}
	c.version.Store(-1)
	c.shaken, c.shakenW = io.Pipe()
	c.closeHere = slices.Clone(cmd.ExtraFiles)
	outR, outW, err := os.Pipe()
	if err != nil {
		c.discard()
		return nil, &errs.Error{Class: errs.Exhausted, Op: "start plugin", Err: err}
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		_ = outW.Close()
		c.discard()
		return nil, &errs.Error{Class: errs.Exhausted, Op: "start plugin", Err: err}
	}
	c.out, c.err = outR, errR
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, outW, errW // stdin: /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.closeHere = append(c.closeHere, outW, errW)
	return c, nil
}

// Start implements runner.Runner.
func (c *child) Start(context.Context) error {
	err := c.cmd.Start()
	for _, f := range c.closeHere {
		_ = f.Close()
	}
	c.closeHere = nil
	if err != nil {
		_ = c.out.Close()
		_ = c.err.Close()
		_ = c.shakenW.Close()
		close(c.exited)
		return err
	}
	c.mu.Lock()
	c.pid = c.cmd.Process.Pid
	c.oomBefore = c.probe.counts(c.pid)
	c.mu.Unlock()
	var readers sync.WaitGroup
	readers.Go(c.readStdout)
	readers.Go(c.readStderr)
	go c.await(&readers)
	return nil
}

// recountOOM takes the counts again, once the plugin has settled in its cgroup.
func (c *child) recountOOM() {
	counts := c.probe.counts(c.pid)
	c.mu.Lock()
	c.oomBefore = counts
	c.mu.Unlock()
}

func (c *child) readStdout() {
	defer func() { _ = c.shakenW.Close() }()
	readLines(c.out, func(line string, length int) {
		if m := handshakeLine.FindStringSubmatch(line); m != nil && c.version.Load() < 0 && length <= maxLine {
			v, err := strconv.Atoi(m[1])
			if err == nil {
				c.version.Store(int64(v))
				_, _ = c.shakenW.Write([]byte(line + "\n"))
				_ = c.shakenW.Close()
				return
			}
		}
		if strings.TrimSpace(line) != "" {
			c.noise.Add(1)
			if c.version.Load() < 0 {
				c.words.add(line)
			}
			c.log.Debug("plugin printed on its stdout", "line", cut(line, maxLoggedLine), "bytes", length)
		}
	})
}

func (c *child) readStderr() {
	readLines(c.err, func(line string, length int) {
		c.words.add(line)
		logLine(c.log, line, length, &c.crashed)
	})
}

// await notices the end of the process, kills what is left of its group, and makes the report.
func (c *child) await(readers *sync.WaitGroup) {
	awaitExit(c.pid)
	c.mu.Lock()
	_ = unix.Kill(-c.pid, unix.SIGKILL)
	c.mu.Unlock()
	_ = c.cmd.Wait() // what it tells is in ProcessState
	c.mu.Lock()
	c.reaped = true
	before := c.oomBefore
	ours := c.killed
	c.mu.Unlock()

	drained := make(chan struct{})
	go func() {
		readers.Wait()
		close(drained)
	}()
	timer := time.NewTimer(drainTime)
	select {
	case <-drained:
	case <-timer.C:
		now := time.Now()
		_ = c.out.SetReadDeadline(now)
		_ = c.err.SetReadDeadline(now)
		<-drained
	}
	timer.Stop()
	_ = c.out.Close()
	_ = c.err.Close()

	c.state = c.cmd.ProcessState
	if s, ok := c.state.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL && ours == "" {
		c.oom = oomVerdict(before, c.probe.recount(before))
	}
	close(c.exited)
}

// kill ends the whole process group; the first reason stays.
func (c *child) kill(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 || c.reaped {
		return
	}
	if c.killed == "" {
		c.killed = reason
	}
	_ = unix.Kill(-c.pid, unix.SIGKILL)
}

// cause says how the process ended; only after exited is closed.
func (c *child) cause() string {
	if c.state == nil {
		return "never started"
	}
	c.mu.Lock()
	ours := c.killed
	c.mu.Unlock()
	s, _ := c.state.Sys().(syscall.WaitStatus)
	switch {
	case s.Signaled() && ours != "" && s.Signal() == syscall.SIGKILL:
		return "killed by the host: " + ours
	case s.Signaled():
		text := fmt.Sprintf("killed by signal %d (%s)", s.Signal(), unix.SignalName(s.Signal()))
		if c.oom != "" {
			return text + ": " + c.oom
		}
		return c.withWords(text)
	case s.ExitStatus() == ExitHostGone:
		return "exited: its life line to the host was cut"
	case s.ExitStatus() == 0:
		return "exited with status 0 although nobody asked it to"
	}
	return c.withWords(fmt.Sprintf("exited with status %d", s.ExitStatus()))
}

func (c *child) withWords(text string) string {
	if w := c.words.cause(); w != "" {
		return text + ": " + w
	}
	return text
}

// Wait implements runner.Runner.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return nil
}

// lastMoment is given to a plugin whose start failed because it closed its stdout: it is likely to be about to say why
// and exit.
const lastMoment = 300 * time.Millisecond

// Kill implements runner.Runner: go-plugin calls it when a start failed.
func (c *child) Kill(context.Context) error {
	timer := time.NewTimer(lastMoment)
	defer timer.Stop()
	select {
	case <-c.exited:
	case <-timer.C:
	}
	c.kill("its start failed")
	return nil
}

// Stdout implements runner.Runner: the handshake line and nothing else.
func (c *child) Stdout() io.ReadCloser { return c.shaken }

// Stderr implements runner.Runner: nothing, it is read here.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.name }

// ID implements runner.Runner.
func (c *child) ID() string { return strconv.Itoa(c.pid) }

// Diagnose implements runner.Runner: Launch explains failures itself.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner: a plugin may listen nowhere but in the directory made for it.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || !strings.HasPrefix(filepath.Clean(address), c.sockets+"/") {
		return "", "", errs.Mismatch(errs.InvalidArgument, "start plugin", "address of the handshake", "a unix socket in "+c.sockets, network+" "+cut(address, 200))
	}
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// discard closes what a child holds that was never started.
func (c *child) discard() {
	for _, f := range append(c.closeHere, c.out, c.err) {
		if f != nil {
			_ = f.Close()
		}
	}
	c.closeHere = nil
}
