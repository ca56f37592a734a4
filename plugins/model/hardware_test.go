package model

import (
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// A profile on other hardware: syntheses share its cores, the link may be the bound, and nothing else changes.
func TestOn(t *testing.T) {
	p := profile(t, "reference")
	q := p.On(Hardware{Cores: 32, Memory: 256 << 30, Devices: 2, DeviceMemory: 24 << 30, Link: 12e9, Lanes: 3})
	m := q.Machine
	if m.Cores != 32 || m.Memory != 256<<30 || m.Devices != 2 || m.DeviceMemory != 24<<30 || m.Link != 12e9 || m.Lanes != 3 || m.AllLanes() != 6 {
		t.Errorf("%+v", m)
	}
	if err := q.Validate(); err != nil {
		t.Error(err)
	}
	if p.Machine.Cores != 96 || len(p.Circuits[0].Synthesis) != 2 {
		t.Errorf("the original changed: %+v", p)
	}
	c := &q.Circuits[0]
	for k, want := range map[int]time.Duration{ // three on 96 cores disturb each other as one on 32; four times eight threads are 32
		1: 30667 * time.Millisecond, 2: 33167 * time.Millisecond, 4: 36500 * time.Millisecond, 8: 73 * time.Second, 64: 584 * time.Second, 128: 1168 * time.Second,
	} {
		if got := c.SynthesisAt(k).Round(time.Millisecond); got != want {
			t.Errorf("%d syntheses at once take %v, want %v", k, got, want)
		}
	}
	if d := c.OnDevice(&m); d != 5*time.Second { // 60 GB
		t.Errorf("on the device for %v", d)
	}
	same := p.On(Hardware{})
	for k := 1; k <= 12; k++ {
		if a, b := p.Circuits[0].SynthesisAt(k), same.Circuits[0].SynthesisAt(k); a != b {
			t.Errorf("%d at once: %v, as measured %v", k, b, a)
		}
	}
	if a, b := p.Circuits[0].SynthesisAt(24), same.Circuits[0].SynthesisAt(24); b != 2*a {
		t.Errorf("24 at once on 96 cores: %v, measured up to ten: %v", b, a)
	}
	if d := same.Circuits[0].OnDevice(&same.Machine); d != 3750*time.Millisecond {
		t.Errorf("%v", d)
	}
}

// A card that cannot hold the key streams it.
func TestForGPU(t *testing.T) {
	for _, tc := range []struct {
		name   string
		memory int64
		want   string
	}{{"h200", 0, "h200"}, {"h200", 57 << 30, "h200"}, {"h200", 24 << 30, "h200-streamed"}, {"h200-streamed", 0, "h200-streamed"}, {"reference", 8 << 30, "reference"}} {
		p, err := ForGPU(tc.name, tc.memory)
		if err != nil || p.Name != tc.want {
			t.Errorf("%s with %d bytes: %v, %v", tc.name, tc.memory, p, err)
		}
	}
	if _, err := ForGPU("h200", 8<<30); !errs.Is(err, errs.Exhausted) {
		t.Errorf("%v", err)
	}
	if _, err := ForGPU("nosuch", 0); !errs.Is(err, errs.NotFound) {
		t.Errorf("%v", err)
	}
}

// A circuit of half the size takes half the time and, but for a dense witness, half the memory.
func TestLike(t *testing.T) {
	c := profile(t, "h200").Circuits[0]
	half := c.Like("half", &groth16.Shape{LogDomain: 26, NbWires: c.Wires / 2, NbPublic: 1, NbConstraints: c.Constraints / 2, NbA: c.A / 2, NbB: c.B / 2})
	if err := half.Validate(); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if got < 0.99*want || got > 1.01*want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	near("synthesis", half.SynthesisAt(10).Seconds(), 18.25)
	near("kernels", half.Kernels.Seconds(), 0.91)
	near("prepare", half.Prepare.Seconds(), 1.7)
	near("key", float64(half.Key), float64(c.Key)/2)
	near("witness", float64(half.Witness), 16*float64(c.Wires))
	if half.Name != "half" || half.Partitions != 1 || half.EvaluationBytes() != 6<<30 || c.Synthesis[1].Time != Duration(36500*time.Millisecond) {
		t.Errorf("%+v", half)
	}
	// Down to the smallest.
	for _, s := range []groth16.Shape{{LogDomain: 3, NbWires: 2, NbConstraints: 1}, {LogDomain: 28, NbWires: 1 << 28, NbConstraints: 1 << 28, NbA: 1 << 28, NbB: 1 << 28}} {
		if err := c.Like("x", &s).Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
