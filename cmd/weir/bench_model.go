package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/eventclock"
	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/plugins/model"
)

// readModel loads the profile.
func (b *bencher) readModel() error {
	c := b.s.c
	name := c.String("profile")
	if name == "" {
		name = "reference"
	}
	p, err := model.LoadProfile(name)
	if err != nil {
		return err
	}
	b.profile, b.modelSpeed = p, 1
	if b.s.cfg.Backend == modelBackend && !c.Bool("real") {
		return nil
	}
	speed, err := benchNumber(c, "speed", 0.001, 1e6, false)
	if err != nil {
		return err
	}
	shrink, err := benchNumber(c, "shrink", 0, 30, true)
	if err != nil {
		return err
	}
	if strings.ContainsAny(name, "?&") {
		return usageError("weir bench", "a profile whose name has ? or & cannot be given to a plugin process: %q", name)
	}
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".toml") {
		if name, err = absolute(name); err != nil {
			return err
		}
	}
	b.modelSpec = fmt.Sprintf("%s?speed=%g&shrink=%d&touch=true&seed=%s", name, speed, int(shrink), c.String("seed"))
	if c.IsSet("lanes") {
		b.modelSpec += "&lanes=" + c.String("lanes")
	}
	b.profile, b.modelSpeed = p.Shrink(int(shrink)), speed
	return nil
}

// simulate runs the model in process, in virtual memory, under a clock of its own.
func (b *bencher) simulate(ctx context.Context, r *benchReport) (rec *record.Recording, failed, err error) {
	s := b.s
	bar := s.progress("simulating", max(b.proofs, 1))
	defer bar.end()
	cfg := host.Config{
		PartitionWorkers: fromFlag(s, "partition_workers", s.cfg.PartitionWorkers), Lookahead: fromFlag(s, "lookahead", s.cfg.Lookahead), MemoryBudget: fromFlag(s, "memory_budget", s.cfg.MemoryBudget),
		PermitRelease: fromFlag(s, "permit_release", s.cfg.PermitRelease), MaxAttempts: s.cfg.MaxAttempts, QuarantineAfter: s.cfg.QuarantineAfter, MaxPartitions: s.cfg.MaxPartitions, Logger: s.log,
		Listener: host.TeeListener(host.LogListener(s.log), b.recorder.Listener(), &host.Listener{Job: func(i host.JobInfo) {
			if i.State == "done" || i.State == "failed" {
				bar.step("simulating")
			}
		}}),
	}
	var mix []host.SimulatedJob
	for _, k := range inTurn(b.kinds) {
		mix = append(mix, host.SimulatedJob{Circuit: k.model.Name, Priority: k.job.Priority})
	}
	b.recorder.Begin(eventclock.Epoch)
	sim, err := host.Simulate(ctx, host.Simulation{Profile: b.profile, Config: cfg, Proofs: b.proofs, Concurrency: b.concurrency, Duration: b.duration, CancelRate: b.cancelRate, Mix: mix, Seed: b.seed})
	if err != nil {
		return nil, nil, err
	}
	bar.finish()
	rec = b.recorder.End(eventclock.Epoch.Add(time.Duration(sim.Elapsed * float64(time.Second))))

	b.configured(r, sim.Permits, cfg.PermitRelease)
	r.Config.Warmup = 0
	r.Device, r.Lanes = "model of "+b.profile.Machine.Device, b.profile.Machine.AllLanes()
	r.recorded(rec)
	r.Proofs, r.Partitions, r.Verified, r.Canceled, r.Failed, r.FirstError, r.Attempts, r.Elapsed = sim.Proofs, sim.Partitions, sim.Verified, sim.Canceled, sim.Failed, sim.FirstError, sim.Attempts, sim.Elapsed
	r.SPerProof, r.Latency = sim.SPerProof, sim.Latency
	for _, row := range r.Stages.rows() {
		*row.q = sim.Stages[row.key]
	}
	r.DeviceBusy = &sim.DeviceUtilisation // of the jobs that were done
	r.budget(sim.Budget)
	r.EstPeak, r.RSSPeak = sim.EstPeak, &sim.RSSPeak
	r.PurposesPeak["base"] = sim.PurposesPeak["base"]
	end := sim.CountersAtEnd
	r.CountersAtEnd = countersOf(end.Gauges, end.Permits, end.Waiting, end.Reserved, end.ResidentKeys)
	return rec, sim.Err, nil
}
