package host

import (
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/plugins/circom"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/slab"
)

// testRandomnessEnv tells a built-in backend to accept fixed randomness. Only the engine sets it, for Config.TestRandomness.
const testRandomnessEnv = "WEIR_INSECURE_TEST_RANDOMNESS"

// builtin is a plugin inside this executable.
type builtin struct {
	name  string
	kind  string // "prover" or "synthesizer"
	about string
	model bool         // simulates: no engine has it unless its configuration says so
	serve func() error // runs until the host goes away
}

// builtins lists everything that is compiled in. There is no other registry.
func builtins() []builtin {
	return []builtin{
		{name: cpu.Name, kind: "prover", about: "Groth16 on the processor", serve: func() error {
			return serveProver(cpu.Name, func(r slab.Resolver) contract.Prover {
				return cpu.New(r, cpu.Options{Version: Version, ReleaseKeyPages: true, AllowInsecureTestRandomness: os.Getenv(testRandomnessEnv) == "1"})
			})
		}},
		{name: defaultKind, kind: "synthesizer", about: "circuits written in circom", serve: func() error {
			return serveSynthesizer(defaultKind, func(r slab.Resolver) contract.Synthesizer {
				return circom.New(r, circom.Options{CacheBytes: -1}) // what is kept is charged
			})
		}},
		{name: model.ProverName, kind: "prover", about: "takes the time and the memory of a prover, by a profile", model: true, serve: func() error {
			opts, err := model.ParseOptions(os.Getenv(modelEnv))
			if err != nil {
				return err
			}
			return serveProver(model.ProverName, func(r slab.Resolver) contract.Prover { return model.NewProver(r, opts) })
		}},
		{name: model.SynthesizerName, kind: "synthesizer", about: "takes the time and the memory of a synthesis, by a profile", model: true, serve: func() error {
			opts, err := model.ParseOptions(os.Getenv(modelEnv))
			if err != nil {
				return err
			}
			return serveSynthesizer(model.SynthesizerName, func(r slab.Resolver) contract.Synthesizer { return model.NewSynthesizer(r, opts) })
		}},
	}
}

// modelEnv tells a plugin of the model its profile, as model.ParseOptions reads it.
const modelEnv = "WEIR_MODEL"

// ModelPlugins are the model's prover and synthesizer as configurations of plugin processes, for NewSimulated. options is what model.ParseOptions reads.
func ModelPlugins(options string) (BackendConfig, SynthesizerConfig) {
	env := []string{modelEnv + "=" + options}
	return BackendConfig{Name: "model", Plugin: Plugin{Builtin: model.ProverName, Env: env}}, SynthesizerConfig{Name: "model", Plugin: Plugin{Builtin: model.SynthesizerName, Env: env}}
}

// defaultKind is the kind of a request that names none, as the built-in synthesizer calls it, and checkOption the option by which a synthesizer is told
// whether to check witnesses.
const (
	defaultKind = "circom"
	checkOption = circom.OptionCheck
)

// Version is weir's, as built-in plugins report it. The program that serves them sets it before it does.
var Version = "dev"

func serveProver(name string, make func(slab.Resolver) contract.Prover) error {
	return plugin.Serve(plugin.ServeConfig{Name: name, Kind: "prover", Versions: map[int]func(*grpc.Server, slab.Resolver) error{
		contract.Version: func(s *grpc.Server, r slab.Resolver) error { contract.RegisterProver(s, make(r)); return nil }}})
}

func serveSynthesizer(name string, make func(slab.Resolver) contract.Synthesizer) error {
	return plugin.Serve(plugin.ServeConfig{Name: name, Kind: "synthesizer", Versions: map[int]func(*grpc.Server, slab.Resolver) error{
		contract.Version: func(s *grpc.Server, r slab.Resolver) error { contract.RegisterSynthesizer(s, make(r)); return nil }}})
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
		if b.kind == "prover" && !b.model {
			out = append(out, BackendConfig{Name: b.name, Plugin: Plugin{Builtin: b.name}})
		}
	}
	return out
}

// BuiltinSynthesizers are the circuit front-ends that are compiled in.
func BuiltinSynthesizers() []SynthesizerConfig {
	var out []SynthesizerConfig
	for _, b := range builtins() {
		if b.kind == "synthesizer" && !b.model {
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
