// Command weir makes and checks Groth16 proofs over BLS12-381. README.md begins where a user does; docs/cli.md lists the commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/errs"
)

func main() { os.Exit(run(os.Args)) }

// run does everything and returns the exit code, so that deferred calls have been made when the process ends.
func run(args []string) (code int) {
	host.Version, _, _ = buildVersion()
	// A plugin is this executable again. It must come first: nothing of what follows is meant for it.
	if served, err := host.PluginMain(args); served {
		return newTerm(os.Stdout, os.Stderr).fail(err)
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	app := newApp(t)
	args, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	if err != nil && ctx.Err() != nil && errs.Is(err, errs.Canceled) {
		err = errs.New(errs.Canceled, "stopped", "a signal asked for it")
	}
	return t.fail(err)
}
