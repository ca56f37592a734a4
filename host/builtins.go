package host

import (
	"fmt"
	"strings"

	"github.com/weir-zk/weir/sdk/errs"
)

// testRandomnessEnv tells a built-in backend to accept fixed randomness. Only the engine sets it, for Config.TestRandomness.
const testRandomnessEnv = "WEIR_INSECURE_TEST_RANDOMNESS"

// builtin is a plugin inside this executable.
type builtin struct {
	name  string
	kind  string // "prover" or "synthesizer"
	about string
	serve func() error // runs until the host goes away
}

// builtins lists everything that is compiled in. There is no other registry.
func builtins() []builtin {
	return []builtin{}
}

// BuiltinInfo describes a plugin that is compiled in.
type BuiltinInfo struct{ Name, Kind, About string }

// Builtins lists the plugins that are compiled in.
func Builtins() []BuiltinInfo {
	var out []BuiltinInfo
	for _, b := range builtins() {
		out = append(out, BuiltinInfo{b.name, b.kind, b.about})
	}
	return out
}

// BuiltinBackends are the provers that are compiled in, as configurations of plugin processes.
func BuiltinBackends() []BackendConfig {
	var out []BackendConfig
	for _, b := range builtins() {
		if b.kind == "prover" {
			out = append(out, BackendConfig{Name: b.name, Plugin: Plugin{Builtin: b.name}})
		}
	}
	return out
}

// BuiltinSynthesizers are the circuit front-ends that are compiled in.
func BuiltinSynthesizers() []SynthesizerConfig {
	var out []SynthesizerConfig
	for _, b := range builtins() {
		if b.kind == "synthesizer" {
			out = append(out, SynthesizerConfig{Name: b.name, Plugin: Plugin{Builtin: b.name}})
		}
	}
	return out
}

// ServePlugin is what "weir plugin serve NAME" does: it serves a built-in plugin until the host that started this process goes away.
func ServePlugin(name string) error {
	var known []string
	for _, b := range builtins() {
		if b.name == name {
			return b.serve()
		}
		known = append(known, b.name)
	}
	return errs.Mismatch(errs.NotFound, "plugin serve", "", "one of "+strings.Join(known, ", "), fmt.Sprintf("%q", name))
}

// PluginMain serves a built-in plugin and returns true if args (os.Args) are "... plugin serve NAME". A program that uses the engine
// with built-in plugins calls it first in main, because the engine starts the program itself again with these arguments.
func PluginMain(args []string) (served bool, err error) {
	if len(args) != 4 || args[1] != "plugin" || args[2] != "serve" {
		return false, nil
	}
	return true, ServePlugin(args[3])
}
