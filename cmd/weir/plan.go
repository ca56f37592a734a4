package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
)

var planCommand = &cli.Command{
	Name:  "plan",
	Usage: "find the configuration for a machine, before it is bought",
	Description: `Simulates the engine over a model of the machine and tells the fewest permits that are within one percent of the fastest, how long a proof takes then, how
much memory, and what keeps it from being faster: synthesis, kernels, link or memory. What is printed is a configuration file.

  weir plan --circuit filecoin/porep-32g --ram 256GiB --cores 32 --gpu h200
  weir plan --gpu reference --what-if
  weir plan --gpu h200 --circuit circuit.r1cs --partitions 4 --json

--gpu is a profile: a machine with measured times (` + strings.Join(model.Profiles(), ", ") + `), or a TOML file of one's own. What is not given is as
on that machine. With other numbers of cores syntheses are assumed to share them; a circuit that the profile does not have is a file, whose times are those of the
profile's first circuit in proportion to sizes. Both are guesses: measure with the machine at hand.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "gpu", Usage: "`PROFILE` of the accelerator"},
		&cli.StringFlag{Name: "circuit", Usage: "`NAME` in the profile (the first without it), or a circuit's or key's file"},
		&cli.IntFlag{Name: "partitions", Usage: "partitions of a proof, for a file: `N`", Value: 1},
		&cli.StringFlag{Name: "ram", Usage: "`BYTES` of the host's memory"},
		&cli.StringFlag{Name: "budget", Usage: "`BYTES` of it that may be used; without it all but a margin"},
		&cli.IntFlag{Name: "cores", Usage: "`N` threads of the processor", DefaultText: "the profile's"},
		&cli.IntFlag{Name: "gpus", Usage: "`N` accelerators", DefaultText: "the profile's"},
		&cli.StringFlag{Name: "vram", Usage: "`BYTES` of each one's memory"},
		&cli.StringFlag{Name: "link", Usage: "`BYTES` a second to each of them, such as 54.5GB"},
		&cli.BoolFlag{Name: "what-if", Usage: "also what other numbers of permits and lanes would do"},
	}),
	Action: action(plan),
}

func plan(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	req, err := planRequest(ctx, s.c)
	if err != nil {
		return err
	}
	bar := s.progress("simulating", 1000)
	defer bar.end()
	req.Progress = func(fraction float64) { bar.set("simulating", fraction) }
	p, err := host.MakePlan(ctx, *req)
	if err != nil {
		return err
	}
	bar.finish()
	here := placement(ctx, s, s.c.String("circuit"), s.c.String("vram"))
	m := &req.Profile.Machine
	if s.json {
		s.object(struct {
			OK bool `json:"ok"`
			*host.Plan
			Placement string `json:"placement,omitempty"` // of the key on this machine's GPU
			Config    string `json:"config"`
		}{true, p, here, planConfig(p, m)})
		return nil
	}
	w := sayer{s.terminal}
	planComments(w, p, m)
	if here != "" {
		fmt.Fprintf(w, "# this machine's GPU: %s\n", oneLine(here))
	}
	fmt.Fprint(w, planConfig(p, m))
	return nil
}

// planRequest is what the flags ask for.
func planRequest(ctx context.Context, c *cli.Context) (*host.PlanRequest, error) {
	gpu, err := required(c, "gpu")
	if err != nil {
		return nil, err
	}
	var h model.Hardware
	var budget int64
	for _, f := range []struct {
		flag string
		to   *int64
	}{{"ram", &h.Memory}, {"vram", &h.DeviceMemory}, {"link", &h.Link}, {"budget", &budget}} {
		if !c.IsSet(f.flag) {
			continue
		}
		n, err := units.ParseBytes(c.String(f.flag))
		if err != nil {
			return nil, errs.Wrap(err, "--"+f.flag)
		}
		if n == 0 {
			return nil, usageError("weir plan", "--%s is 0", f.flag)
		}
		*f.to = n
	}
	for _, f := range []struct {
		flag string
		to   *int
		most int
	}{{"cores", &h.Cores, 1 << 16}, {"gpus", &h.Devices, 1024}, {"partitions", new(int), 4096}} {
		if n := c.Int(f.flag); c.IsSet(f.flag) && (n < 1 || n > f.most) {
			return nil, usageError("weir plan", "expected --%s from 1 to %d, found %d", f.flag, f.most, n)
		}
		*f.to = c.Int(f.flag)
	}
	p, err := model.ForGPU(gpu, h.DeviceMemory)
	if err != nil {
		return nil, err
	}
	req := &host.PlanRequest{Circuit: c.String("circuit"), Budget: budget, WhatIf: c.Bool("what-if")}
	if _, err := p.Circuit(req.Circuit); err != nil {
		circuit, ferr := circuitOfFile(ctx, p, req.Circuit, c.Int("partitions"))
		if errors.Is(ferr, fs.ErrNotExist) {
			return nil, err // which names the profile's circuits
		}
		if ferr != nil {
			return nil, ferr
		}
		one := *p
		one.Circuits = []model.Circuit{*circuit}
		p = &one
	} else if c.IsSet("partitions") {
		return nil, usageError("weir plan", "--partitions is for files: the profile knows how many its circuits have")
	}
	req.Profile = p.On(h)
	return req, nil
}

// circuitOfFile makes a circuit of the sizes of a file, in proportion to the first circuit of p.
func circuitOfFile(ctx context.Context, p *model.Profile, path string, partitions int) (*model.Circuit, error) {
	f, size, err := openFile("plan", path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := keyfile.Inspect(ctx, f, size, path, false)
	if err != nil {
		return nil, errs.InFile(err, path)
	}
	var shape groth16.Shape
	switch {
	case r.Key != nil:
		k := r.Key
		shape = groth16.Shape{LogDomain: k.LogDomain, NbWires: k.Wires, NbPublic: k.Public, NbConstraints: k.Rows, NbA: k.PointsA, NbB: k.PointsB}
		if shape.NbConstraints < 0 { // the file does not tell: at most
			shape.NbConstraints = 1<<k.LogDomain - k.Public - 1
		}
	case r.Circuit != nil:
		shape = groth16.Shape{LogDomain: groth16.DomainFor(r.Circuit.Rows, r.Circuit.Public), NbWires: r.Circuit.Wires, NbPublic: r.Circuit.Public, NbConstraints: r.Circuit.Rows, NbA: r.Circuit.Wires, NbB: r.Circuit.Wires}
	default:
		return nil, errs.Mismatch(errs.InvalidFile, "plan", "", "a circuit or a proving key", r.Text).WithPath(path)
	}
	c := p.Circuits[0].Like(path, &shape)
	c.Partitions = partitions
	return c, nil
}

// planConfig is the configuration file of a plan. The engine's budget is for what it charges; what the processes take anyway is outside of it.
func planConfig(p *host.Plan, m *model.Machine) string {
	return fmt.Sprintf("partition_workers = %d\npermit_release = %q\nmemory_budget = %q\nthreads = %d\n", p.PartitionWorkers, p.PermitRelease, units.FormatBytes((p.Budget-int64(m.Base))&^(1<<20-1)), m.Cores)
}

// planComments tells a person about a plan, as comments of its configuration file.
func planComments(w io.Writer, p *host.Plan, m *model.Machine) {
	say := func(format string, args ...any) { fmt.Fprintf(w, "# %s\n", oneLine(fmt.Sprintf(format, args...))) }
	devices := m.Device
	if m.Devices > 1 {
		devices = fmt.Sprintf("%d x %s", m.Devices, devices)
	}
	say("%s on %s (profile %s), %d threads, %v", p.Circuit, devices, p.Profile, m.Cores, ledger.Size(m.Memory))
	say("%s a proof of %s once the pipeline is full (%.0f a day), %s for one alone", seconds(p.SPerProof), count(p.Partitions, "partition"), 86400/p.SPerProof, seconds(p.Latency))
	say("%s, each device with %s, all %s", count(p.PartitionWorkers, "permit"), count(p.Lanes, "lane"), p.PermitRelease)
	var bounds []string
	for _, name := range []string{"synthesis", "kernels", "link", "memory"} {
		if b, ok := p.Bounds[name]; ok {
			bounds = append(bounds, fmt.Sprintf("%s %s", name, seconds(b)))
		}
	}
	say("the limit is %s; a proof takes at least, by each: %s", p.Limit, strings.Join(bounds, ", "))
	var purposes []string
	for name, n := range p.PurposesPeak {
		purposes = append(purposes, fmt.Sprintf("%s %v", name, ledger.Size(n)))
	}
	slices.Sort(purposes)
	say("memory %v at most, of %v that may be used: %s; the base is outside of memory_budget", ledger.Size(p.EstPeak), ledger.Size(p.Budget), strings.Join(purposes, ", "))
	if p.DevicePeak > 0 {
		say("of each device's memory %v, of %v", ledger.Size(p.DevicePeak), ledger.Size(p.DeviceMemory))
	}
	if len(p.WhatIf) == 0 {
		return
	}
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "permits\tlanes\tper proof\tmemory\t\n")
	for _, row := range p.WhatIf {
		mark := ""
		if row == p.PlanPoint {
			mark = "  <- the plan"
		}
		fmt.Fprintf(tw, "%d\t%d\t%s\t%v\t%s\n", row.Permits, row.DeviceLanes, seconds(row.SPerProof), ledger.Size(row.EstPeak), mark)
	}
	_ = tw.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintf(w, "# %s", line)
	}
}

func seconds(s float64) string {
	switch {
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.1:
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.3g ms", s*1e3)
}
