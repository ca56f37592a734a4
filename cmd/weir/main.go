// Command weir makes and checks Groth16 proofs over BLS12-381. README.md begins where a user does; docs/cli.md lists the commands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/errs"
)

func main() { os.Exit(run(os.Args)) }

// testCommands are none but in tests, which need a command that panics.
var testCommands []*cli.Command

// run does everything and returns the exit code, so that deferred calls have been made when the process ends.
func run(args []string) (code int) {
	host.Version, _, _ = buildVersion()
	// A plugin is this executable again. It must come first: nothing of what follows is meant for it.
	if len(args) < 4 || !strings.HasPrefix(args[3], "-") { // weir plugin serve --help is for people
		if served, err := host.PluginMain(args); served {
			return newTerm(os.Stdout, os.Stderr).fail(err)
		}
	}
	t := newTerm(os.Stdout, os.Stderr)
	t.json = asksJSON(args)
	defer func() {
		if r := recover(); r != nil {
			t.stack(debug.Stack())
			code = t.fail(errs.New(errs.Internal, "panic", "%v", r).WithHint("this is a bug in weir; please report it with the lines above"))
		}
	}()
	// Whoever reads our output may stop reading. With the signal taken, a write then fails with EPIPE in place of ending the process without clean-up.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	defer stop()
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the process at once
		t.endAnyway()
	})

	cli.HelpPrinter = printHelp
	app := newApp(t)
	app.Commands = append(app.Commands, testCommands...)
	args, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if err != nil && ctx.Err() != nil && errs.Is(err, errs.Canceled) {
		err = errs.New(errs.Canceled, "stopped", "a signal asked for it")
	}
	return t.fail(advise(err))
}

// stopSignals are the signals that end a command. SIGQUIT is not among them: it shows what every goroutine does. nohup ignores SIGHUP, and so it stays.
func stopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// endAnyway ends a process that a signal did not end: one that waits for a file system or for the reader of a pipe. An engine stops its plugins first,
// and has limits of its own.
func (t *terminal) endAnyway() {
	for waited := time.Duration(0); waited == 0 || (t.engines.Load() > 0 && waited < 3*closeTimeout); waited += signalGrace {
		time.Sleep(signalGrace)
	}
	fmt.Fprintln(t.err, "weir: error: stopped: a signal asked for it, and the command did not end by itself")
	t.aside.Range(func(name, _ any) bool {
		_ = os.Remove(name.(string))
		return true
	})
	os.Exit(errs.ExitCanceled)
}

// signalGrace is how long a command without an engine may take to end after a signal.
const signalGrace = 2 * time.Second
