package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/internal/config"
	"github.com/weir-zk/weir/sdk/errs"
)

// asksJSON looks for --json before anything is parsed, so that an error of parsing can be told as asked.
func asksJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "-json", "--json=true", "--json=1":
			return true
		}
	}
	return false
}

// arrange brings a command line into the order that urfave/cli wants: commands, flags, "--", arguments. It parses flags only up to the first
// argument; people write them anywhere. Unknown commands and flags, flags without their value, and flags given twice that mean one thing are errors here.
func arrange(app *cli.App, args []string) ([]string, error) {
	a := &arranger{app: app, out: []string{args[0]}}
	if err := a.walk(args[1:]); err != nil {
		return nil, err
	}
	if a.cmd == nil && len(a.flags) == 0 {
		return append(a.out, "--help"), nil
	}
	if a.cmd == nil || len(a.cmd.Subcommands) > 0 {
		if !a.help {
			var names []string
			for _, c := range visible(a.commands()) {
				names = append(names, c.Name)
			}
			return nil, usageError(a.path(), "expected a command after %q: one of %s", a.path(), strings.Join(names, ", "))
		}
	}
	a.out = append(a.out, a.flags...)
	if len(a.rest) > 0 {
		a.out = append(append(a.out, "--"), a.rest...)
	}
	return a.out, nil
}

type arranger struct {
	app   *cli.App
	cmd   *cli.Command // innermost so far
	out   []string     // program and commands
	flags []string
	rest  []string
	help  bool
	seen  []string
}

func (a *arranger) path() string { return strings.Join(append([]string{"weir"}, a.out[1:]...), " ") }

func (a *arranger) commands() []*cli.Command {
	if a.cmd == nil {
		return a.app.Commands
	}
	return a.cmd.Subcommands
}

func (a *arranger) leaf() bool { return a.cmd != nil && len(a.cmd.Subcommands) == 0 }

func (a *arranger) walk(args []string) error {
	for i := 0; i < len(args); i++ {
		t := args[i]
		switch {
		case t == "--":
			for _, r := range args[i+1:] {
				if err := a.word(r); err != nil {
					return err
				}
			}
			return nil
		case len(t) > 1 && t[0] == '-':
			used, err := a.flag(t, args[i+1:])
			if err != nil {
				return err
			}
			i += used
		default:
			if err := a.word(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// word takes a command or an argument.
func (a *arranger) word(w string) error {
	if a.leaf() {
		a.rest = append(a.rest, w)
		return nil
	}
	if a.cmd == nil && w == "help" {
		a.askHelp()
		return nil
	}
	var names []string
	for _, c := range a.commands() {
		if c.HasName(w) {
			a.cmd = c
			a.out = append(a.out, c.Name)
			return nil
		}
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	e := errs.New(errs.InvalidArgument, a.path(), "unknown command %q", w)
	if near := config.Nearest(w, names); near != "" {
		return e.WithHint("did you mean %s %s?", a.path(), near)
	}
	return e.WithHint("commands are %s", strings.Join(names, ", "))
}

func (a *arranger) askHelp() {
	if !a.help {
		a.help = true
		a.flags = append(a.flags, "--help")
	}
}

// flag takes a flag and returns how many of the following words are its value.
func (a *arranger) flag(word string, next []string) (int, error) {
	name, _, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
	switch name {
	case "help", "h":
		a.askHelp()
		return 0, nil
	case "version", "v":
		if a.cmd == nil {
			return 0, a.word("version")
		}
	}
	known := commonFlags()
	if a.leaf() {
		known = a.cmd.Flags
	}
	f := findFlag(known, name)
	if f == nil {
		return 0, a.unknownFlag(name, known)
	}
	if !isSlice(f) {
		if slices.Contains(a.seen, name) {
			return 0, usageError(a.path(), "flag --%s is given twice", name)
		}
		a.seen = append(a.seen, name)
	}
	a.flags = append(a.flags, word)
	if given || isBool(f) {
		return 0, nil
	}
	if len(next) == 0 || isFlagWord(known, next[0]) {
		return 0, usageError(a.path(), "flag --%s needs a value", name)
	}
	a.flags[len(a.flags)-1] += "=" + next[0]
	return 1, nil
}

func (a *arranger) unknownFlag(name string, known []cli.Flag) error {
	e := errs.New(errs.InvalidArgument, a.path(), "unknown flag --%s", name)
	if !a.leaf() {
		return e.WithHint("flags of a command follow its name; see %s --help", a.path())
	}
	var names []string
	for _, f := range known {
		if v, ok := f.(cli.VisibleFlag); !ok || v.IsVisible() {
			names = append(names, f.Names()[0])
		}
	}
	if near := config.Nearest(name, names); near != "" {
		return e.WithHint("did you mean --%s? see %s --help", near, a.path())
	}
	return e.WithHint("see %s --help", a.path())
}

func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func isFlagWord(flags []cli.Flag, w string) bool {
	if !strings.HasPrefix(w, "--") {
		return false
	}
	name, _, _ := strings.Cut(w[2:], "=")
	return findFlag(flags, name) != nil
}

func isBool(f cli.Flag) bool {
	_, ok := f.(*cli.BoolFlag)
	return ok
}

func isSlice(f cli.Flag) bool {
	_, ok := f.(*cli.StringSliceFlag)
	return ok
}

func visible(cmds []*cli.Command) []*cli.Command {
	var out []*cli.Command
	for _, c := range cmds {
		if !c.Hidden {
			out = append(out, c)
		}
	}
	return out
}

// usageError is a command line that cannot work as given.
func usageError(command, format string, args ...any) *errs.Error {
	e := &errs.Error{Class: errs.InvalidArgument, Op: command, Found: fmt.Sprintf(format, args...)}
	return e.WithHint("see %s --help", command)
}

// arguments checks the number of arguments after the flags.
func arguments(c *cli.Context, names ...string) ([]string, error) {
	got := c.Args().Slice()
	path := commandPath(c)
	if len(got) < len(names) {
		return nil, usageError(path, "expected %s, found %d of %d", strings.Join(names, " "), len(got), len(names))
	}
	if len(got) > len(names) {
		return nil, usageError(path, "unexpected argument %q", got[len(names)])
	}
	return got, nil
}

// required returns the value of a flag that must be given.
func required(c *cli.Context, flag string) (string, error) {
	v := c.String(flag)
	if v == "" {
		return "", usageError(commandPath(c), "flag --%s is required", flag)
	}
	return v, nil
}

func commandPath(c *cli.Context) string { return c.Command.HelpName }
