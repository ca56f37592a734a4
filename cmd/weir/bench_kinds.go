package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
)

// benchKind is a kind of job that a bench asks for: real files, or a circuit of a profile of the model.
type benchKind struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
	Priority   string `json:"priority"`
	Share      int    `json:"share"` // how many in a row, in turn with the other kinds

	model *model.Circuit // nil: real files
	job   host.Job
}

// maxShare bounds what one kind can be in a row.
const maxShare = 10_000

// benchKinds reads the flags that say what is proved. profile is nil where there is no model.
func benchKinds(s *session, profile *model.Profile) ([]benchKind, error) {
	c := s.c
	keys, circuits, witnesses, specs := c.StringSlice("key"), c.StringSlice("circuit"), c.StringSlice("witness"), c.StringSlice("kind")
	modelOnly := s.cfg.Backend == modelBackend
	var out []benchKind
	switch {
	case modelOnly && len(keys)+len(witnesses) > 0:
		return nil, usageError("weir bench", "--backend model proves circuits of its profile: no --key and no --witness")
	case modelOnly:
		for _, name := range circuits {
			k, err := modelKind(profile, name)
			if err != nil {
				return nil, err
			}
			out = append(out, k)
		}
	case len(keys) > 1 && len(witnesses) != len(keys), len(keys) > 1 && len(circuits) != 0 && len(circuits) != len(keys):
		return nil, usageError("weir bench", "expected one --key, or with several as many --witness and as many --circuit, or none; found %d keys, %d circuits, %d witnesses", len(keys), len(circuits), len(witnesses))
	case len(keys) == 1 && len(circuits) > 1:
		return nil, usageError("weir bench", "expected at most one --circuit with one --key, found %d", len(circuits))
	case len(keys) == 0 && len(circuits)+len(witnesses) > 0:
		return nil, usageError("weir bench", "flag --key is required")
	case len(keys) == 1:
		k := benchKind{job: host.Job{Key: keys[0]}}
		if len(circuits) == 1 {
			k.job.Circuit = circuits[0]
		}
		for _, w := range witnesses {
			k.job.Partitions = append(k.job.Partitions, host.Partition{Witness: w})
		}
		out = append(out, k)
	default:
		for i := range keys {
			k := benchKind{job: host.Job{Key: keys[i], Partitions: []host.Partition{{Witness: witnesses[i]}}}}
			if len(circuits) > 0 {
				k.job.Circuit = circuits[i]
			}
			out = append(out, k)
		}
	}
	for _, spec := range specs {
		k, err := parseKind(spec, profile, modelOnly)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	if len(out) == 0 && modelOnly {
		k, err := modelKind(profile, "")
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, usageError("weir bench", "nothing to prove: give --key and --witness, or --kind, or --backend model")
	}
	for i := range out {
		if err := out[i].complete(s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// complete fills in what every kind has, and refuses what cannot be proved.
func (k *benchKind) complete(s *session) error {
	k.Share = max(k.Share, 1)
	k.Priority = k.job.Priority.String()
	if k.model != nil {
		k.Name, k.Partitions = k.model.Name, k.model.Partitions
		return nil
	}
	k.Partitions = len(k.job.Partitions)
	k.job.Backend = s.cfg.Backend
	if !s.cfg.CheckWitness {
		k.job.Check = host.CheckOff
	}
	if k.Name == "" {
		k.Name = strings.TrimSuffix(filepath.Base(k.job.Key), filepath.Ext(k.job.Key))
	}
	if k.job.Key == "" || k.Partitions == 0 {
		return usageError("weir bench", "a kind of job needs a key and at least one witness")
	}
	return nil
}

func modelKind(p *model.Profile, name string) (benchKind, error) {
	if p == nil {
		return benchKind{}, usageError("weir bench", "the circuit %q is the model's: give --profile", name)
	}
	c, err := p.Circuit(name)
	if err != nil {
		return benchKind{}, err
	}
	return benchKind{model: c}, nil
}

// parseKind reads --kind: "key=k.wkey,circuit=c.r1cs,witness=a.wtns,witness=b.wtns,priority=high,share=3", or "filecoin/porep-32g,priority=low" of the model's.
func parseKind(spec string, profile *model.Profile, modelOnly bool) (benchKind, error) {
	bad := func(format string, args ...any) (benchKind, error) {
		return benchKind{}, usageError("weir bench", "--kind %q: %s", spec, fmt.Sprintf(format, args...))
	}
	fields := strings.Split(spec, ",")
	var k benchKind
	if first := fields[0]; !strings.Contains(first, "=") {
		var err error
		if k, err = modelKind(profile, first); err != nil {
			return k, err
		}
		fields = fields[1:]
	}
	var program string
	var inputs []string
	for _, f := range fields {
		name, value, ok := strings.Cut(f, "=")
		if !ok || value == "" {
			return bad("expected NAME=VALUE, found %q", f)
		}
		if k.model != nil && name != "priority" && name != "share" {
			return bad("a circuit of the model has priority and share only, found %q", name)
		}
		switch name {
		case "key":
			k.job.Key = value
		case "circuit":
			k.job.Circuit = value
		case "witness":
			k.job.Partitions = append(k.job.Partitions, host.Partition{Witness: value})
		case "wasm":
			program = value
		case "input":
			inputs = append(inputs, value)
		case "name":
			k.Name = value
		case "priority":
			p, err := host.ParsePriority(value)
			if err != nil {
				return bad("expected the priority low, normal, high or critical, found %q", value)
			}
			k.job.Priority = p
		case "share":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxShare {
				return bad("expected a share from 1 to %d, found %q", maxShare, value)
			}
			k.Share = n
		default:
			return bad("expected key, circuit, witness, wasm, input, name, priority or share, found %q", name)
		}
	}
	if (program == "") != (len(inputs) == 0) {
		return bad("wasm and input belong together")
	}
	for _, in := range inputs {
		k.job.Partitions = append(k.job.Partitions, host.Partition{Program: program, Inputs: in})
	}
	if modelOnly && k.model == nil {
		return bad("--backend model has the circuits of its profile only")
	}
	return k, nil
}

// inTurn lists the kinds as they are asked for.
func inTurn(kinds []benchKind) []*benchKind {
	var out []*benchKind
	for i := range kinds {
		for range kinds[i].Share {
			out = append(out, &kinds[i])
		}
	}
	return out
}

// inputs are the files that the kinds read.
func kindInputs(kinds []benchKind) []string {
	var out []string
	for i := range kinds {
		j := &kinds[i].job
		out = append(out, j.Key, j.Circuit)
		for _, p := range j.Partitions {
			out = append(out, p.Witness, p.Program, p.Inputs)
		}
	}
	return out
}

// benchNumber reads a flag that is a number.
func benchNumber(c *cli.Context, flag string, least, most float64, whole bool) (float64, error) {
	text := c.String(flag)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= least && v <= most) || whole && v != float64(int64(v)) {
		kind := "a number"
		if whole {
			kind = "a whole number"
		}
		return 0, usageError("weir bench", "expected --%s as %s from %v to %v, found %q", flag, kind, least, most, text)
	}
	return v, nil
}

// absolute makes a path that a plugin process can open, wherever it runs.
func absolute(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", errs.Wrap(err, "find "+path)
	}
	return abs, nil
}
