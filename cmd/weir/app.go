package main

import (
	"context"
	"io"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/internal/config"
)

// newApp builds the command line. Each command is a package variable in a file of its own.
func newApp(t *terminal) *cli.App {
	app := &cli.App{
		Name:  "weir",
		Usage: "Groth16 proofs over BLS12-381, in bounded memory",
		Description: `weir prove makes proofs, weir verify checks them; files are recognised by their content, not by their names.
Flags may stand before or after arguments. "weir COMMAND --help" explains a command.

Exit codes: 0 done or valid, 1 a proof or witness is not valid, 3 input that cannot be used, 4 out of memory or disk, 5 a backend or service is gone,
70 a bug in weir, 124 deadline exceeded, 130 stopped by a signal, 141 the reader of stdout went away.`,
		Commands: []*cli.Command{proveCommand, verifyCommand, setupCommand, benchCommand, keyCommand, inspectCommand, planCommand, filecoinCommand, pluginCommand, configCommand, doctorCommand,
			versionCommand, completionCommand},
		Writer:                    t.out,
		ErrWriter:                 t.err,
		HideVersion:               true,
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // errors are told in run, after every deferred call
		Metadata:                  map[string]any{termKey: t},
	}
	prepare(app.Commands)
	return app
}

const termKey = "terminal"

// prepare sets what all commands have in common.
func prepare(cmds []*cli.Command) {
	for _, c := range cmds {
		c.HideHelpCommand = true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // all are off
			}
		}
		c.OnUsageError = func(ctx *cli.Context, err error, _ bool) error {
			return usageError(ctx.Command.HelpName, "%v", err)
		}
		prepare(c.Subcommands)
	}
}

// commonFlags are on every command, and may stand before it.
func commonFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Usage: "configuration `FILE` (docs/config.md)", Category: "common"},
		&cli.StringFlag{Name: "log-level", Usage: "what is logged on stderr: off, error, warn, info, debug, trace", Category: "common"},
		&cli.BoolFlag{Name: "json", Usage: "print one JSON object on stdout, errors too", Category: "common"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print errors and warnings only", Category: "common"},
	}
}

// engineFlags set the keys of the configuration that an engine obeys.
func engineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "backend", Usage: "prover to use: `NAME` of weir plugin list", Category: "engine"},
		&cli.StringFlag{Name: "partition-workers", Usage: "partitions whose evaluations may be alive at once: `N`", Category: "engine"},
		&cli.StringFlag{Name: "lookahead", Usage: "synthesised partitions that may wait for a backend: `N`", Category: "engine"},
		&cli.StringFlag{Name: "threads", Usage: "threads for synthesis and for proving, each: `N`", Category: "engine"},
		&cli.StringFlag{Name: "memory-budget", Usage: "`BYTES` that may be used, such as 8GiB, or auto", Category: "engine"},
	}
}

// settings are the flags that set a key of the configuration.
var settings = map[string]string{"backend": "backend", "partition-workers": "partition_workers", "lookahead": "lookahead", "threads": "threads",
	"memory-budget": "memory_budget", "permit-release": "permit_release", "log-level": "log_level"}

func flags(lists ...[]cli.Flag) []cli.Flag {
	var out []cli.Flag
	for _, l := range lists {
		out = append(out, l...)
	}
	return append(out, commonFlags()...)
}

// session is one command at work.
type session struct {
	*terminal
	c   *cli.Context
	cfg *config.Config
	log hclog.Logger
}

// action makes a command's function: the configuration is loaded, the logger made.
func action(f func(ctx context.Context, s *session) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		t := c.App.Metadata[termKey].(*terminal)
		t.json, t.quiet = c.Bool("json"), c.Bool("quiet")
		s := &session{terminal: t, c: c}
		given := map[string]string{}
		for flag, key := range settings {
			if c.IsSet(flag) {
				given[key] = c.String(flag)
			}
		}
		if c.Bool("check") {
			given["check_witness"] = "true"
		}
		if c.Bool("no-check") {
			given["check_witness"] = "false"
		}
		var err error
		if s.cfg, err = config.Load(config.Options{Path: c.String("config"), Flags: given}); err != nil {
			return err
		}
		for _, w := range s.cfg.Warnings {
			s.warn("%s", w)
		}
		s.warnEnv(commandPath(c) == "weir config show")
		s.log = newLogger(s.cfg.LogLevel, t.err)
		return f(c.Context, s)
	}
}

// plain makes the function of a command that needs no configuration: nothing that is wrong with it can stop the command.
func plain(f func(ctx context.Context, s *session) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		t := c.App.Metadata[termKey].(*terminal)
		t.json, t.quiet = c.Bool("json"), c.Bool("quiet")
		return f(c.Context, &session{terminal: t, c: c, log: hclog.NewNullLogger()})
	}
}

func newLogger(level string, w io.Writer) hclog.Logger {
	if level == "off" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: "weir", Level: hclog.LevelFromString(level), Output: w})
}
