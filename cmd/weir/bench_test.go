package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/internal/config"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
)

// TestAsserts reads testdata/bench/asserts. "figures" sets figures, one "name value" a line; "assert" judges each line.
func TestAsserts(t *testing.T) {
	f := figures{}
	datadriven.RunTest(t, "testdata/bench/asserts", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			switch d.Cmd {
			case "figures":
				name, value, _ := strings.Cut(line, " ")
				f[name] = nil
				if value != "null" {
					v, err := strconv.ParseFloat(value, 64)
					if err != nil {
						t.Fatal(err)
					}
					f[name] = &v
				}
			case "assert":
				a, err := parseAssertion(line, f.names())
				if err != nil {
					if !errs.Is(err, errs.InvalidArgument) {
						t.Errorf("%q: %v", line, err)
					}
					fmt.Fprintf(&out, "error: %v; hint: %s\n", err, errs.HintOf(err))
					continue
				}
				v := a.check(f)
				if v.Holds != (v.Why == "") {
					t.Errorf("%+v", v)
				}
				if v.Holds {
					v.Why = "holds"
				}
				fmt.Fprintln(&out, v.Why)
			default:
				t.Fatalf("unknown command %q", d.Cmd)
			}
		}
		return out.String()
	})
}

// TestBenchNames compares the names of --json, with their kinds, with testdata/bench/names: whoever reads reports relies on them. docs/bench.md explains each.
func TestBenchNames(t *testing.T) {
	r := newBenchReport()
	r.Error = &jsonError{Path: "x", Hint: "x"}
	r.Asserts = []verdict{{Why: "x"}}
	r.Config.Kinds = []benchKind{{}}
	names := nameKinds(t, r)
	datadriven.RunTest(t, "testdata/bench/names", func(t *testing.T, d *datadriven.TestData) string {
		return strings.Join(names, "\n") + "\n"
	})
	page, err := os.ReadFile("../../docs/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name, _, _ := strings.Cut(n, " ")
		name, _, _ = strings.Cut(name, ".") // a group is explained as one
		name = strings.TrimSuffix(name, "[]")
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/bench.md does not explain %s", name)
		}
	}
}

// nameKinds lists the names in v's JSON with their kinds: "s_per_proof.mean number".
func nameKinds(t *testing.T, v any) []string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				out = append(out, name+" object")
			}
			for k, x := range v {
				walk(strings.TrimPrefix(name+"."+k, "."), x)
			}
		case []any:
			if len(v) == 0 {
				out = append(out, name+"[]")
			}
			for _, x := range v {
				walk(name+"[]", x)
			}
		case float64:
			out = append(out, name+" number")
		case string:
			out = append(out, name+" text")
		case bool:
			out = append(out, name+" truth")
		case nil:
			out = append(out, name+" number or null")
		}
	}
	walk("", tree)
	slices.Sort(out)
	return out
}

// TestParseKind reads --kind.
func TestParseKind(t *testing.T) {
	p, err := model.LoadProfile("reference")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec      string
		profile   *model.Profile
		modelOnly bool
		want      string // or the error
	}{
		{"key=k,witness=a,witness=b", nil, false, "k [a b] normal 0"},
		{"key=k,circuit=c,witness=a,name=x,priority=high,share=3", nil, false, "k [a] high 3 x"},
		{"key=k,wasm=p,input=i,input=j", nil, false, "k [p:i p:j] normal 0"},
		{"filecoin/porep-32g", p, true, "filecoin/porep-32g normal 0"},
		{"filecoin/winningpost-32g,priority=critical,share=2", p, false, "filecoin/winningpost-32g critical 2"},
		{"filecoin/porep-32g", nil, false, "give --profile"},
		{"nosuch", p, true, "one of its circuits"},
		{"filecoin/porep-32g,key=k", p, true, "priority and share only"},
		{"key=k,witness=w", p, true, "circuits of its profile only"},
		{"key=k,input=i", nil, false, "belong together"},
		{"key=k,wasm=p", nil, false, "belong together"},
		{"key=k,witness=", nil, false, "NAME=VALUE"},
		{"key=k,witness", nil, false, "NAME=VALUE"},
		{"key=k,priority=urgent", nil, false, "low, normal, high or critical"},
		{"key=k,share=0", nil, false, "a share from 1"},
		{"key=k,share=x", nil, false, "a share from 1"},
		{"key=k,colour=red", nil, false, `found "colour"`},
		{"", nil, false, "give --profile"},
	} {
		k, err := parseKind(c.spec, c.profile, c.modelOnly)
		got := ""
		if err != nil {
			if !errs.IsOneOf(err, errs.InvalidArgument, errs.NotFound) {
				t.Errorf("%q: %v", c.spec, err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q: %v, want %q", c.spec, err, c.want)
			}
			continue
		}
		if k.model != nil {
			got = k.model.Name
		} else {
			var parts []string
			for _, p := range k.job.Partitions {
				if p.Program != "" {
					parts = append(parts, p.Program+":"+p.Inputs)
				} else {
					parts = append(parts, p.Witness)
				}
			}
			got = fmt.Sprint(k.job.Key, " ", parts)
		}
		if got = strings.TrimSpace(fmt.Sprint(got, " ", k.job.Priority, " ", k.Share, " ", k.Name)); got != c.want {
			t.Errorf("%q: %s, want %s", c.spec, got, c.want)
		}
	}
}

// What the engine is given: lanes by the CUDA backend's variable; of a model alone the permits and the budget of its machine, as far as this one has it.
func TestBenchConfigure(t *testing.T) {
	p, err := model.LoadProfile("reference")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		flags     map[string]string
		profile   *model.Profile
		onlyModel bool
		lanes     int
		check     func(c *host.Config, err error) bool
	}{
		{"cuda's lanes", nil, nil, false, 3, func(c *host.Config, err error) bool {
			return err == nil && slices.Equal(c.Backends[0].Plugin.Env, []string{"WEIR_CUDA_DEVICE", "WEIR_CUDA_LANES=3"}) && len(c.Backends[1].Plugin.Env) == 0
		}},
		{"its own", nil, nil, false, 0, func(c *host.Config, err error) bool {
			return err == nil && slices.Equal(c.Backends[0].Plugin.Env, []string{"WEIR_CUDA_LANES", "WEIR_CUDA_DEVICE"})
		}},
		{"beside the model", nil, p, false, 0, func(c *host.Config, err error) bool {
			return err == nil && len(c.Backends) == 3 && c.Backends[2].Name == modelBackend && len(c.Synthesizers) == 1 && c.MemoryBudget == 0 && c.PartitionWorkers == 7
		}},
		{"the model alone", nil, p.Shrink(12), true, 0, func(c *host.Config, err error) bool {
			return err == nil && c.PartitionWorkers == 14 && c.MemoryBudget > 0 && c.MemoryBudget < int64(p.Shrink(12).Machine.Memory)
		}},
		{"with a budget", map[string]string{"memory_budget": "100GiB", "partition_workers": "5"}, p, true, 0, func(c *host.Config, err error) bool {
			return err == nil && c.PartitionWorkers == 5 && c.MemoryBudget == 100<<30-int64(p.Machine.Base)
		}},
		{"without one", map[string]string{"memory_budget": "none"}, p, true, 0, func(c *host.Config, err error) bool {
			return err == nil && c.MemoryBudget == host.NoBudget
		}},
		{"with too small a one", map[string]string{"memory_budget": "1GiB"}, p, true, 0, func(_ *host.Config, err error) bool { return errs.Is(err, errs.Exhausted) }},
	} {
		cfg, err := config.Load(config.Options{LookupEnv: func(name string) (string, bool) { return "", name == config.EnvPath }, Flags: c.flags})
		if err != nil {
			t.Fatal(err)
		}
		b := &bencher{s: &session{cfg: cfg}, profile: c.profile, modelSpec: "reference", lanes: c.lanes}
		out := host.Config{PartitionWorkers: max(cfg.PartitionWorkers, 7), MemoryBudget: cfg.MemoryBudget, Backends: []host.BackendConfig{{Name: "cuda", Plugin: host.Plugin{Env: []string{"WEIR_CUDA_LANES", "WEIR_CUDA_DEVICE"}}}, {Name: "cpu"}}}
		if c.flags["partition_workers"] != "" {
			out.PartitionWorkers = cfg.PartitionWorkers
		}
		if err = b.configure(&out, c.onlyModel); !c.check(&out, err) {
			t.Errorf("%s: %+v, %v", c.name, out, err)
		}
	}
}

// Kinds come as often as their shares say, in turn.
func TestInTurn(t *testing.T) {
	kinds := []benchKind{{Name: "a", Share: 2}, {Name: "b", Share: 1}}
	var got []string
	for _, k := range inTurn(kinds) {
		got = append(got, k.Name)
	}
	if strings.Join(got, "") != "aab" {
		t.Error(got)
	}
}

// oneObject is "object FILE NAME...": the file is exactly one JSON object, and has the names.
func oneObject(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: object file name...")
	}
	var v map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, name := range args[1:] {
		at := any(v)
		for _, part := range strings.Split(name, ".") {
			m, ok := at.(map[string]any)
			if at, ok = m[part], ok && m != nil; !ok || at == nil {
				ts.Fatalf("%s has no %s", args[0], name)
			}
		}
	}
}
