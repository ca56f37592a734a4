package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/contract"
)

// version is set by the linker (see Makefile); else the build information of Go tells.
var version string

var versionCommand = &cli.Command{
	Name:  "version",
	Usage: "print the version",
	Flags: flags(),
	Action: plain(func(_ context.Context, s *session) error {
		if _, err := arguments(s.c); err != nil {
			return err
		}
		v, revision, built := buildVersion()
		if s.json {
			s.object(map[string]any{"ok": true, "version": v, "revision": revision, "commit_time": built, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "contract": contract.Version})
			return nil
		}
		s.say("weir %s\n", v)
		if revision != "" {
			s.say("revision  %s %s\n", revision, built)
		}
		s.say("go        %s %s/%s\ncontract  %d\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, contract.Version)
		return nil
	}),
}

// buildVersion is the version, and the commit and its time where they are known.
func buildVersion() (v, revision, built string) {
	v = version
	info, ok := debug.ReadBuildInfo()
	if !ok {
		if v == "" {
			v = "unknown"
		}
		return v, "", ""
	}
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.time":
			built = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if revision != "" {
		revision += dirty
	}
	if v == "" {
		v = strings.TrimPrefix(info.Main.Version, "v")
	}
	if v == "" || v == "(devel)" {
		v = "development"
	}
	return v, revision, built
}
