package host

import (
	"math"
	"strings"
	"testing"

	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
)

func makePlan(t *testing.T, req PlanRequest) *Plan {
	t.Helper()
	p, err := MakePlan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d permits, %d lanes, %.2f s/proof, %.0f GiB, limit %s of %v", p.Profile, p.PartitionWorkers, p.Lanes, p.SPerProof, float64(p.EstPeak)/gib, p.Limit, p.Bounds)
	if p.EstPeak > p.Budget || p.PermitRelease != PermitFreed || p.Permits != p.PartitionWorkers || p.DeviceLanes != p.Lanes || p.SPerProof < 0.97*p.Bounds[p.Limit] || p.Latency < p.SPerProof*0.9 {
		t.Errorf("%+v", p)
	}
	return p
}

// Twelve permits are what the reference machine wants: ten leave its device idle, more only take memory.
func TestPlanOfTheReferenceMachine(t *testing.T) {
	last := 0.0
	p := makePlan(t, PlanRequest{Profile: loadProfile(t, "reference").On(model.Hardware{}), WhatIf: true, Progress: func(f float64) {
		if f < last || f > 1 {
			t.Errorf("progress %v after %v", f, last)
		}
		last = f
	}})
	if p.PartitionWorkers != 12 || p.Limit != "kernels" || p.Bounds["kernels"] != 37.5 || math.Abs(p.SPerProof/37.5-1) > 0.02 || last != 1 {
		t.Errorf("%+v", p)
	}
	if n := p.PurposesPeak; n["evaluations"] != 12*12*gib || n["key"] < 44*gib || n["base"] < 24*gib {
		t.Errorf("%v", n)
	}
	found := false
	for i, row := range p.WhatIf {
		found = found || row == p.PlanPoint
		if i > 0 && row.Permits > p.WhatIf[i-1].Permits && row.SPerProof > 1.02*p.WhatIf[i-1].SPerProof {
			t.Errorf("more permits take longer: %+v after %+v", row, p.WhatIf[i-1])
		}
	}
	if !found {
		t.Errorf("the plan's own row is not in %+v", p.WhatIf)
	}
}

// What the bound is, on machines that lack one thing.
func TestPlanLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("many simulations")
	}
	for _, tc := range []struct {
		profile string
		on      model.Hardware
		budget  int64
		limit   string
		permits int // 0: whatever it takes
	}{
		{"h200", model.Hardware{Cores: 32, Memory: 256 * gib}, 0, "synthesis", 0},
		{"reference", model.Hardware{}, 120 * gib, "memory", 3}, // (120 - 69) / 16
		{"h200-streamed", model.Hardware{Link: 12e9}, 0, "link", 0},
	} {
		p := makePlan(t, PlanRequest{Profile: loadProfile(t, tc.profile).On(tc.on), Budget: tc.budget})
		if p.Limit != tc.limit || tc.permits > 0 && p.PartitionWorkers != tc.permits || tc.budget > 0 && p.Budget != tc.budget {
			t.Errorf("%s on %+v: limit %s with %d permits, want %s with %d", tc.profile, tc.on, p.Limit, p.PartitionWorkers, tc.limit, tc.permits)
		}
	}
	// Two devices do twice as much where they are the bound.
	one := makePlan(t, PlanRequest{Profile: loadProfile(t, "reference").On(model.Hardware{Cores: 512})})
	two := makePlan(t, PlanRequest{Profile: loadProfile(t, "reference").On(model.Hardware{Cores: 512, Devices: 2})})
	if ratio := one.SPerProof / two.SPerProof; one.Limit != "kernels" || two.Limit != "kernels" || ratio < 1.9 || ratio > 2.1 {
		t.Errorf("two devices are %.2f times as fast as one", ratio)
	}
}

func TestPlanRefused(t *testing.T) {
	p := loadProfile(t, "reference")
	for _, tc := range []struct {
		req   PlanRequest
		class errs.Class
		word  string
	}{
		{PlanRequest{}, errs.InvalidArgument, "profile"},
		{PlanRequest{Profile: p, Circuit: "x"}, errs.NotFound, "filecoin/porep-32g"},
		{PlanRequest{Profile: p, Budget: 80 * gib}, errs.Exhausted, "85GiB"},
		{PlanRequest{Profile: loadProfile(t, "h200").On(model.Hardware{DeviceMemory: 48 * gib})}, errs.Exhausted, "57GiB"},
	} {
		if r, err := MakePlan(t.Context(), tc.req); r != nil || !errs.Is(err, tc.class) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%+v: %v, %v", tc.req, r, err)
		}
	}
}
