// Command weir-backend-cuda is weir's CUDA backend: a plugin that weir starts, linked dynamically so that it can load libweir_cuda.so and NVIDIA's driver.
//
//	weir-backend-cuda [serve] [flags]   what weir runs
//	weir-backend-cuda check [flags]     says in a line what library and GPUs there are; ends with 1 if no proof could be made here
//	weir-backend-cuda plan --key FILE   says in a line what of a key would lie in the GPU's memory, and what be streamed; ends with 1 if it does not fit
//
// Every flag has an environment variable, WEIR_CUDA_ and its name in capitals, which the flag wins over: weir passes those on. An empty variable is none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	cuda "github.com/weir-zk/weir/backend-cuda"
	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/slab"
)

// version is set by the linker for a release.
var version = "dev"

// exitLost is the status of a process whose device is lost: only a new process can use it again.
const exitLost = 76

func main() {
	err := run(os.Args[1:], os.LookupEnv, os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "weir-backend-cuda: error:", err)
		if hint := errs.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, "weir-backend-cuda: hint:", hint)
		}
		os.Exit(1)
	}
}

func run(args []string, env func(string) (string, bool), out io.Writer) error {
	what := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		what, args = args[0], args[1:]
	}
	opts, key, err := options(args, env)
	if err != nil {
		return err
	}
	if (key != "") != (what == "plan") {
		return errs.New(errs.InvalidArgument, "arguments", "--key is for plan, which needs it")
	}
	switch what {
	case "serve":
		return serve(opts)
	case "check":
		text, err := cuda.Check(opts)
		if text != "" {
			fmt.Fprintln(out, text)
		}
		return err
	case "plan":
		text, err := cuda.Placement(context.Background(), *opts, key)
		if err == nil {
			fmt.Fprintln(out, text)
		}
		return err
	}
	return errs.Mismatch(errs.InvalidArgument, "command", "", "serve, check or plan", strconv.Quote(what))
}

// options reads flags, and the environment where a flag is not given. key is the file that a plan is made for.
func options(args []string, env func(string) (string, bool)) (o *cuda.Options, key string, err error) {
	o = &cuda.Options{Version: version}
	f := flag.NewFlagSet("weir-backend-cuda", flag.ContinueOnError)
	f.StringVar(&o.Library, "library", "", "path of libweir_cuda.so; else it is looked for beside this program and in the system's places")
	f.StringVar(&o.Device, "device", "", "UUID of the GPU (nvidia-smi -L); else the first that is usable")
	f.IntVar(&o.Lanes, "lanes", 0, "proofs in flight, 1 to 7; 0: 2")
	limit := f.String("vram-limit", "", "most device memory that is taken, such as 12GiB; else what is free, less a reserve")
	f.BoolVar(&o.HostEvaluates, "host-evaluates", false, "take a, b, c from the host even where a key has its matrices")
	f.VisitAll(func(x *flag.Flag) { x.Usage += " (" + envName(x.Name) + ")" })
	f.StringVar(&key, "key", "", "proving key that plan is for")
	if err := f.Parse(args); err != nil {
		return nil, "", err
	}
	if f.NArg() > 0 {
		return nil, "", errs.Mismatch(errs.InvalidArgument, "arguments", "", "flags", strconv.Quote(f.Arg(0)))
	}
	given := map[string]bool{}
	f.Visit(func(x *flag.Flag) { given[x.Name] = true })
	var bad error
	f.VisitAll(func(x *flag.Flag) {
		v, ok := env(envName(x.Name))
		if x.Name == "key" || !ok || v == "" || given[x.Name] {
			return
		}
		if err := f.Set(x.Name, v); err != nil && bad == nil {
			bad = errs.New(errs.InvalidArgument, "environment "+envName(x.Name), "%q: %v", v, err)
		}
	})
	if bad != nil {
		return nil, "", bad
	}
	if v, _ := env(testRandomnessEnv); v == "1" {
		o.AllowInsecureTestRandomness = true
	}
	if *limit != "" {
		n, err := units.ParseBytes(*limit)
		if err != nil {
			return nil, "", errs.Wrap(err, "vram-limit")
		}
		if n <= 0 {
			return nil, "", errs.Mismatch(errs.InvalidArgument, "vram-limit", "", "more than nothing", *limit)
		}
		o.VRAMLimit = n
	}
	if o.Lanes < 0 || o.Lanes > 7 {
		return nil, "", errs.Mismatch(errs.InvalidArgument, "lanes", "", "1 to 7, or 0", o.Lanes)
	}
	return o, key, nil
}

// testRandomnessEnv is how the host tells its own plugins to accept fixed randomness.
const testRandomnessEnv = "WEIR_INSECURE_TEST_RANDOMNESS"

func envName(name string) string {
	return "WEIR_CUDA_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func serve(opts *cuda.Options) error {
	log := plugin.NewLogger()
	// A lost device stays lost in this process. Its end gives the device's memory back, and the host starts another one, which may find the device well.
	opts.OnLost = func(err error) {
		log.Error("the device is lost, this process ends", "error", err.Error())
		os.Exit(exitLost)
	}
	var b *cuda.Backend
	return plugin.Serve(plugin.ServeConfig{Name: cuda.Name, Kind: "prover", Log: log, Versions: map[int]func(*grpc.Server, slab.Resolver) error{
		contract.Version: func(s *grpc.Server, r slab.Resolver) error {
			b = cuda.New(r, *opts)
			contract.RegisterProver(s, b)
			return nil
		}}, OnStop: func() {
		if b != nil {
			if err := b.Close(); err != nil {
				log.Warn("giving the device back", "error", err.Error())
			}
		}
	}})
}
