package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/internal/config"
)

var configCommand = &cli.Command{
	Name:        "config",
	Usage:       "show the configuration",
	Subcommands: []*cli.Command{configShowCommand},
}

var configShowCommand = &cli.Command{
	Name:  "show",
	Usage: "print every setting, its value and where it comes from",
	Description: `The output is a valid configuration file. Values come from flags, else the environment (WEIR_KEY), else the configuration file, else defaults;
docs/config.md tells which file is read.`,
	Flags: flags(engineFlags()),
	Action: action(func(_ context.Context, s *session) error {
		if _, err := arguments(s.c); err != nil {
			return err
		}
		if s.json {
			values := map[string]any{}
			for _, v := range s.cfg.Values() {
				values[v.Key] = map[string]string{"value": v.Text, "source": v.Source}
			}
			s.object(map[string]any{"ok": true, "file": s.cfg.Path, "values": values, "backends": s.cfg.Backends, "synthesizers": s.cfg.Synthesizers})
			return nil
		}
		file := s.cfg.Path
		if file == "" {
			file = "none (looked for " + strings.Join(config.SearchPaths(), ", ") + ")"
		}
		s.say("# file: %s\n", oneLine(file))
		w := tabwriter.NewWriter(sayer{s.terminal}, 0, 0, 2, ' ', 0)
		for _, v := range s.cfg.Values() {
			text := v.Text
			if v.Quoted {
				text = tomlString(text)
			}
			fmt.Fprintf(w, "%s = %s\t# %s\n", v.Key, text, v.Source)
		}
		_ = w.Flush()
		for _, l := range []struct {
			name string
			list []config.Plugin
		}{{"backends", s.cfg.Backends}, {"synthesizers", s.cfg.Synthesizers}} {
			for _, p := range l.list {
				s.say("\n[[%s]]\nname = %s\ncommand = %s\nchecksum = %s\n", l.name, tomlString(p.Name), tomlString(p.Command), tomlString(p.Checksum))
				s.say("args = %s\nenv = %s\n", tomlStrings(p.Args), tomlStrings(p.Env))
			}
		}
		return nil
	}),
}

// sayer is say as a writer.
type sayer struct{ t *terminal }

func (w sayer) Write(b []byte) (int, error) {
	w.t.say("%s", b)
	return len(b), nil
}

// tomlString is a basic string of TOML. What %q escapes otherwise (\x, \a, \v) becomes \u.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func tomlStrings(l []string) string {
	out := make([]string, len(l))
	for i, s := range l {
		out[i] = tomlString(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
