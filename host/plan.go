package host

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/memlimit"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// PlanRequest asks how a machine should be configured for a circuit.
type PlanRequest struct {
	// Profile is the machine.
	Profile *model.Profile
	// Circuit is one of the profile's; empty: its first.
	Circuit string
	// Budget is the bytes that may be used; 0: what the machine has, less a margin.
	Budget int64
	// WhatIf asks for a table of other numbers of permits and lanes.
	WhatIf bool
	// Progress, when not nil, is called with the fraction done, 0 to 1.
	Progress func(fraction float64)
}

// Plan is the answer. Times are seconds, and a proof is a job with all its partitions.
type Plan struct {
	Profile    string `json:"profile"`
	Circuit    string `json:"circuit"`
	Partitions int    `json:"partitions"` // of a proof

	PartitionWorkers int    `json:"partition_workers"`
	Lanes            int    `json:"lanes"` // of a device
	PermitRelease    string `json:"permit_release"`
	Budget           int64  `json:"memory_budget_bytes"` // of all, with the processes' base: the engine's memory_budget is less by that

	PlanPoint
	DevicePeak   int64            `json:"device_est_peak_bytes"` // of each device's memory: the key, and what all lanes take of it
	DeviceMemory int64            `json:"device_memory_bytes"`
	Latency      float64          `json:"latency_s"` // of one proof when there is no other
	PurposesPeak map[string]int64 `json:"purposes_peak_bytes"`

	// Limit is what keeps the machine from being faster: synthesis, kernels, link or memory. Bounds are the seconds a proof would take if each of them were the only
	// limit; that of memory is there if it is one.
	Limit  string             `json:"limit"`
	Bounds map[string]float64 `json:"bounds_s"`

	WhatIf []PlanPoint `json:"what_if,omitempty"`
}

// PlanPoint is what one configuration does.
type PlanPoint struct {
	Permits     int     `json:"permits"`
	DeviceLanes int     `json:"device_lanes"`
	SPerProof   float64 `json:"s_per_proof"` // once the pipeline is full
	EstPeak     int64   `json:"est_peak_bytes"`
}

// Tolerances of a plan.
const (
	planSlower = 1.01 // permits are saved for up to so much more time
	planHelps  = 1.02 // more memory helps if without its bound a proof takes so much less time
	planJitter = 0.1  // no machine takes the same time twice
)

// MakePlan simulates the engine on the machine, with times that vary by a tenth, and finds the fewest permits, and the fewest lanes from the profile's own on, that are within one
// percent of the best that the budget allows. Errors: errs.Exhausted, with the numbers, where not even one partition fits, or not the key into the device; errs.NotFound for a circuit that the profile does not have.
func MakePlan(ctx context.Context, req PlanRequest) (*Plan, error) {
	p := &planner{ctx: ctx, req: req, known: map[[2]int]*planned{}}
	if err := p.machine(); err != nil {
		return nil, err
	}
	most := p.mostPermits(p.budget)
	if most < 1 {
		need := int64(p.profile.Machine.Base) + int64(p.circuit.Key) + p.partition
		return nil, errs.Mismatch(errs.Exhausted, "plan", "memory", fmt.Sprintf("%d bytes (%v) or more: base, key and one partition of %s", need, ledger.Size(need), p.circuit.Name),
			fmt.Sprintf("a budget of %d bytes (%v)", p.budget, ledger.Size(p.budget)))
	}
	if need, have := p.circuit.OfDevice(), int64(p.profile.Machine.DeviceMemory); have > 0 && need > have {
		return nil, errs.Mismatch(errs.Exhausted, "plan", "memory of "+p.profile.Machine.Device, fmt.Sprintf("%d bytes (%v) or more: the key of %s and what lanes take", need, ledger.Size(need), p.circuit.Name),
			fmt.Sprintf("%d bytes (%v)", have, ledger.Size(have)))
	}
	lanes, best, err := p.fewestLanes(most)
	if err != nil {
		return nil, err
	}
	workers, err := p.fewestPermits(most, lanes, best*planSlower)
	if err != nil {
		return nil, err
	}
	chosen, err := p.at(workers, lanes)
	if err != nil {
		return nil, err
	}
	out := &Plan{Profile: p.profile.Name, Circuit: p.circuit.Name, Partitions: p.circuit.Partitions, PartitionWorkers: workers, Lanes: lanes, PermitRelease: PermitFreed, Budget: p.budget,
		PlanPoint: chosen.PlanPoint, DevicePeak: chosen.device, DeviceMemory: int64(p.profile.Machine.DeviceMemory), PurposesPeak: chosen.purposes, Bounds: p.bounds()}
	if out.Latency, err = p.alone(workers, lanes); err != nil {
		return nil, err
	}
	if err := p.limits(out, most, best); err != nil {
		return nil, err
	}
	if req.WhatIf {
		if out.WhatIf, err = p.whatIf(workers, lanes, most); err != nil {
			return nil, err
		}
	}
	p.progress(1)
	return out, nil
}

// planner is one search.
type planner struct {
	ctx     context.Context
	req     PlanRequest
	profile *model.Profile // with its one circuit
	circuit *model.Circuit
	budget  int64

	partition int64 // bytes of one, with its evaluations
	known     map[[2]int]*planned
	done      int
}

// planned is a simulation's outcome.
type planned struct {
	PlanPoint
	device   int64
	purposes map[string]int64
}

// machine takes the request's profile apart.
func (p *planner) machine() error {
	if p.req.Profile == nil {
		return errs.Mismatch(errs.InvalidArgument, "plan", "", "a profile", "none")
	}
	c, err := p.req.Profile.Circuit(p.req.Circuit)
	if err != nil {
		return err
	}
	one := *p.req.Profile
	one.Circuits = []model.Circuit{*c}
	p.profile, p.circuit = &one, &one.Circuits[0]
	if err := one.Validate(); err != nil {
		return err
	}
	p.circuit.Jitter = max(p.circuit.Jitter, planJitter)
	p.circuit.Failures = model.Failures{}
	p.partition = slab.RoundSize(p.circuit.EvaluationBytes()) + slab.RoundSize(int64(p.circuit.Witness)) + int64(p.circuit.SynthesisScratch) + int64(p.circuit.ProverScratch)
	if p.budget = p.req.Budget; p.budget == 0 {
		p.budget = memlimit.Of(int64(one.Machine.Memory), one.Name).Bytes
	}
	return nil
}

// planPermits is up to how many permits are looked at.
const planPermits = 512

// mostPermits is how many partitions fit into a budget beside base and key, up to what can be of use.
func (p *planner) mostPermits(budget int64) int {
	fit := (budget - int64(p.profile.Machine.Base) - int64(p.circuit.Key)) / p.partition
	return int(min(max(fit, 0), int64(p.usefulPermits())))
}

// usefulPermits is enough for the device to be busy all the time, or for synthesis to be as fast as it gets, and half as many again.
func (p *planner) usefulPermits() int {
	cycle := p.onDevice().Seconds() / float64(max(p.profile.Machine.Devices, 1)) // from partition to partition
	enough := 1
	for k := 1; k <= planPermits; k++ {
		enough = k
		if p.circuit.SynthesisAt(k).Seconds()/float64(k) <= cycle {
			break
		}
		if p.circuit.SynthesisAt(2*k).Seconds()/float64(2*k) >= 0.995*p.circuit.SynthesisAt(k).Seconds()/float64(k) {
			break // it saturates
		}
	}
	return min(planPermits, enough+enough/2+p.maxLanes()*max(p.profile.Machine.Devices, 1)+2)
}

// maxLanes is up to how many lanes of a device are tried.
func (p *planner) maxLanes() int { return max(4, p.profile.Machine.Lanes) }

func (p *planner) onDevice() time.Duration { return p.circuit.OnDevice(&p.profile.Machine) }

// fewestLanes is the least number of lanes, from the profile's own on, to which one more adds nothing, and how long a proof takes with it and all permits.
func (p *planner) fewestLanes(permits int) (lanes int, best float64, err error) {
	lanes = p.profile.Machine.Lanes
	r, err := p.at(permits, lanes)
	if err != nil {
		return 0, 0, err
	}
	for lanes < p.maxLanes() {
		more, err := p.at(permits, lanes+1)
		if err != nil {
			return 0, 0, err
		}
		if more.SPerProof*planSlower >= r.SPerProof {
			break
		}
		r = more
		lanes++
	}
	return lanes, r.SPerProof, nil
}

// fewestPermits is the least number of permits, up to most, that takes at most so long from proof to proof.
func (p *planner) fewestPermits(most, lanes int, limit float64) (int, error) {
	low, high := 0, most // high is good enough, low is not
	for high-low > 1 {
		mid := (low + high) / 2
		r, err := p.at(mid, lanes)
		if err != nil {
			return 0, err
		}
		if r.SPerProof <= limit {
			high = mid
		} else {
			low = mid
		}
	}
	return high, nil
}

// planPartitions is about how many partitions are proved while a simulation is watched.
const planPartitions = 60

// at simulates so many permits and lanes, once.
func (p *planner) at(permits, lanes int) (*planned, error) { return p.under(p.budget, permits, lanes) }

func (p *planner) under(budget int64, permits, lanes int) (*planned, error) {
	id := [2]int{permits, lanes}
	if r := p.known[id]; r != nil && budget == p.budget {
		return r, nil
	}
	prof := *p.profile
	prof.Machine.Lanes = lanes
	n := p.circuit.Partitions
	// What is watched is proved while the pipeline is full: after the first jobs, and before the last ones.
	atOnce := (permits+prof.Machine.AllLanes()+n-1)/n + 1
	watched := max(4, planPartitions/n)
	var mu sync.Mutex
	var ends []time.Time
	r, err := Simulate(p.ctx, Simulation{Profile: &prof, Proofs: watched + 2*atOnce, Concurrency: atOnce, Seed: 1,
		Config: Config{PartitionWorkers: permits, MemoryBudget: budget, Listener: &Listener{Timeline: func(i TimelineInfo) {
			if i.Stage == "verify" && !i.Start {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, i.End)
			}
		}}}})
	if err != nil {
		return nil, err
	}
	if r.Failed > 0 {
		return nil, errs.New(errs.Internal, "plan", "the simulation of %d permits and %d lanes failed: %s", permits, lanes, r.FirstError)
	}
	out := &planned{PlanPoint{Permits: permits, DeviceLanes: lanes, SPerProof: float64(n) * slope(ends[atOnce*n:(atOnce+watched)*n]), EstPeak: r.EstPeak}, r.DevicePeak, r.PurposesPeak}
	maps.DeleteFunc(out.purposes, func(_ string, n int64) bool { return n < r.EstPeak/1000 }) // of no account
	if budget == p.budget {
		p.known[id] = out
	}
	p.done++
	p.progress(1 - 1/(1+float64(p.done)/10))
	return out, nil
}

// slope is the seconds from one of list to the next, by least squares: partitions may come in bunches.
func slope(list []time.Time) float64 {
	mean := float64(len(list)-1) / 2
	var xt, xx float64
	for i, at := range list {
		x := float64(i) - mean
		xt += x * at.Sub(list[0]).Seconds()
		xx += x * x
	}
	return xt / xx
}

func (p *planner) progress(fraction float64) {
	if p.req.Progress != nil {
		p.req.Progress(fraction)
	}
}

// alone is how long one proof takes when there is no other.
func (p *planner) alone(permits, lanes int) (float64, error) {
	prof := *p.profile
	prof.Machine.Lanes = lanes
	r, err := Simulate(p.ctx, Simulation{Profile: &prof, Proofs: 1, Concurrency: 1, Seed: 1, Config: Config{PartitionWorkers: permits, MemoryBudget: p.budget}})
	if err != nil {
		return 0, err
	}
	return r.Latency.Mean, nil
}

// bounds are what a proof takes at least, for each of the machine's parts.
func (p *planner) bounds() map[string]float64 {
	c, m := p.circuit, &p.profile.Machine
	n, devices := float64(c.Partitions), float64(max(m.Devices, 1))
	synthesis := math.Inf(1)
	for k := 1; k <= planPermits; k++ {
		synthesis = min(synthesis, c.SynthesisAt(k).Seconds()/float64(k))
	}
	out := map[string]float64{"synthesis": n * synthesis, "kernels": n * c.Kernels.Seconds() / devices}
	if m.Link > 0 {
		out["link"] = n * float64(c.Upload) / float64(m.Link) / devices
	}
	return out
}

// limits says which part of the machine is the bound: memory, if more of it would help, else the slowest. best is what the memory that there is allows.
func (p *planner) limits(out *Plan, most int, best float64) error {
	for _, name := range []string{"synthesis", "kernels", "link"} {
		if b, ok := out.Bounds[name]; ok && (out.Limit == "" || b > out.Bounds[out.Limit]) {
			out.Limit = name
		}
	}
	if more := p.usefulPermits(); more > most {
		r, err := p.under(NoBudget, more, out.Lanes)
		if err != nil {
			return err
		}
		if r.SPerProof*planHelps < best {
			out.Limit = "memory"
			out.Bounds["memory"] = best
		}
	}
	return nil
}

// whatIf is a table of permits and lanes around the plan's.
func (p *planner) whatIf(workers, lanes, most int) ([]PlanPoint, error) {
	var permits []int
	for _, n := range []int{workers / 2, workers - 2, workers - 1, workers, workers + 1, workers + 2} {
		if n >= 1 && n <= most {
			permits = append(permits, n)
		}
	}
	slices.Sort(permits)
	var out []PlanPoint
	for _, n := range slices.Compact(permits) {
		for _, lanes := range slices.Compact([]int{1, max(1, lanes-1), lanes, lanes + 1}) {
			r, err := p.at(n, lanes)
			if err != nil {
				return nil, err
			}
			out = append(out, r.PlanPoint)
		}
	}
	return out, nil
}
