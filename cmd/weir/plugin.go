package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/internal/config"
)

var pluginCommand = &cli.Command{
	Name:        "plugin",
	Usage:       "list and serve plugins",
	Subcommands: []*cli.Command{pluginListCommand, pluginServeCommand},
}

var pluginListCommand = &cli.Command{
	Name:  "list",
	Usage: "list provers and circuit front-ends, built in and configured",
	Flags: flags(),
	Action: action(func(_ context.Context, s *session) error {
		if _, err := arguments(s.c); err != nil {
			return err
		}
		list := plugins(s.cfg)
		if s.json {
			s.object(map[string]any{"ok": true, "plugins": list})
			return nil
		}
		w := tabwriter.NewWriter(sayer{s.terminal}, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tKIND\tFROM\tABOUT")
		for _, p := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Kind, p.From, p.About)
		}
		return w.Flush()
	}),
}

var pluginServeCommand = &cli.Command{
	Name:      "serve",
	Usage:     "serve a built-in plugin to the engine that started this process",
	ArgsUsage: "NAME",
	Description: `The engine starts its built-in plugins with this command and talks to them; nothing else can. A person has no use for it, and meets it in lists of
processes. NAME is one that weir plugin list calls built in.`,
	Flags: flags(),
	// The engine's own call never comes here: run looks for it first. This is for the words of a person.
	Action: action(func(_ context.Context, s *session) error {
		args, err := arguments(s.c, "NAME")
		if err != nil {
			return err
		}
		return host.ServePlugin(args[0])
	}),
}

// pluginInfo is one plugin for people and for doctor.
type pluginInfo struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"` // "prover" or "synthesizer"
	From  string `json:"from"` // "built in", or the executable
	About string `json:"about,omitempty"`

	plugin host.Plugin
}

// plugins lists what an engine of this configuration has, in its order.
func plugins(cfg *config.Config) []pluginInfo {
	about := map[string]string{}
	for _, b := range host.Builtins() {
		about[b.Name] = b.About
	}
	var out []pluginInfo
	add := func(name, kind string, p host.Plugin) {
		info := pluginInfo{Name: name, Kind: kind, From: p.Command, plugin: p}
		if p.Builtin != "" {
			info.From, info.About = "built in", about[p.Builtin]
		}
		out = append(out, info)
	}
	h := cfg.Host()
	for _, b := range h.Backends {
		add(b.Name, "prover", b.Plugin)
	}
	for _, s := range h.Synthesizers {
		add(s.Name, "synthesizer", s.Plugin)
	}
	return out
}
