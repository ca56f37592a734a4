package main

import (
	"io"
	"reflect"
	"strings"
	"testing"

	cuda "github.com/weir-zk/weir/backend-cuda"
	"github.com/weir-zk/weir/sdk/errs"
)

func TestOptions(t *testing.T) {
	base := cuda.Options{Version: version}
	with := func(change func(*cuda.Options)) cuda.Options {
		o := base
		change(&o)
		return o
	}
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want cuda.Options
		bad  string // in the error
	}{
		{name: "nothing", want: base},
		{name: "flags", args: []string{"--library", "/x.so", "--lanes=3", "--vram-limit", "12GiB", "--host-evaluates"},
			want: with(func(o *cuda.Options) { o.Library, o.Lanes, o.VRAMLimit, o.HostEvaluates = "/x.so", 3, 12<<30, true })},
		{name: "environment", env: map[string]string{"WEIR_CUDA_LIBRARY": "/y.so", "WEIR_CUDA_DEVICE": "GPU-1", "WEIR_CUDA_LANES": "1", "WEIR_CUDA_VRAM_LIMIT": "1MiB", "WEIR_CUDA_HOST_EVALUATES": "true"},
			want: with(func(o *cuda.Options) {
				o.Library, o.Device, o.Lanes, o.VRAMLimit, o.HostEvaluates = "/y.so", "GPU-1", 1, 1<<20, true
			})},
		{name: "a flag wins", args: []string{"--lanes", "4"}, env: map[string]string{"WEIR_CUDA_LANES": "1"}, want: with(func(o *cuda.Options) { o.Lanes = 4 })},
		{name: "0, false and empty are off", env: map[string]string{"WEIR_CUDA_HOST_EVALUATES": "0", "WEIR_CUDA_LANES": "", "WEIR_CUDA_VRAM_LIMIT": ""}, want: base},
		{name: "test randomness", env: map[string]string{testRandomnessEnv: "1"}, want: with(func(o *cuda.Options) { o.AllowInsecureTestRandomness = true })},
		{name: "too many lanes", args: []string{"--lanes", "8"}, bad: "1 to 7"},
		{name: "a lane too few", args: []string{"--lanes", "-1"}, bad: "1 to 7"},
		{name: "no amount", args: []string{"--vram-limit", "much"}, bad: "vram-limit"},
		{name: "nothing to prove on", args: []string{"--vram-limit", "0"}, bad: "vram-limit"},
		{name: "bad environment", env: map[string]string{"WEIR_CUDA_LANES": "two"}, bad: "WEIR_CUDA_LANES"},
		{name: "an argument", args: []string{"GPU-1"}, bad: "GPU-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := options(c.args, func(k string) (string, bool) { v, ok := c.env[k]; return v, ok })
			if c.bad != "" {
				if !errs.Is(err, errs.InvalidArgument) || !strings.Contains(err.Error(), c.bad) {
					t.Fatalf("%v: want one about %q", err, c.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("%+v\nwant %+v", *got, c.want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	if err := run([]string{"prove"}, none, io.Discard); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("an unknown command: %v", err)
	}
	if err := run(nil, none, io.Discard); !errs.Is(err, errs.InvalidArgument) || !strings.Contains(err.Error(), "host") {
		t.Errorf("started by hand: %v", err)
	}
	for _, args := range [][]string{{"plan"}, {"check", "--key", "k.wkey"}} {
		if err := run(args, none, io.Discard); !errs.Is(err, errs.InvalidArgument) || !strings.Contains(err.Error(), "--key") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := run([]string{"check", "--library", "/nowhere/lib.so"}, none, io.Discard); !errs.Is(err, errs.Unavailable) || errs.HintOf(err) == "" {
		t.Errorf("no library: %v", err)
	}
}
