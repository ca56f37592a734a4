package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Hardware is a machine that is not a profile's. Zero values: as there.
type Hardware struct {
	Cores        int
	Memory       int64
	Devices      int
	DeviceMemory int64
	Link         int64 // bytes a second to each device
	Lanes        int
}

// On returns the profile on other hardware. What the device does takes as long as before, unless the link is too slow for it. Syntheses are assumed to disturb each other
// as much as before where as many share a core, and to take longer in proportion where they would keep more threads busy than there are cores: the profile's own
// measurements tell nothing of so many.
func (p *Profile) On(h Hardware) *Profile {
	q := *p
	q.Circuits = slices.Clone(p.Circuits)
	m := &q.Machine
	for _, x := range []struct {
		to   *Bytes
		with int64
	}{{&m.Memory, h.Memory}, {&m.DeviceMemory, h.DeviceMemory}, {&m.Link, h.Link}} {
		if x.with > 0 {
			*x.to = Bytes(x.with)
		}
	}
	for _, x := range []struct {
		to   *int
		with int
	}{{&m.Devices, h.Devices}, {&m.Lanes, h.Lanes}} {
		if x.with > 0 {
			*x.to = x.with
		}
	}
	measured := m.Cores
	if h.Cores > 0 {
		m.Cores = h.Cores
	}
	for i := range q.Circuits {
		c := &q.Circuits[i]
		c.Synthesis = c.synthesisOn(measured, m.Cores)
	}
	return &q
}

// maxTogether is up to where synthesisOn makes an entry for every number of syntheses.
const maxTogether = 64

// synthesisOn is the times of syntheses, measured on so many cores, on another number of them.
func (c *Circuit) synthesisOn(measured, cores int) []Load {
	threads := max(c.Threads, 1)
	at := func(k int) Load {
		t := c.SynthesisAt(max(1, (k*measured+cores-1)/cores))
		if busy := k * threads; busy > cores {
			t = time.Duration(float64(t) * float64(busy) / float64(cores))
		}
		return Load{k, min(Duration(t), maxTime)}
	}
	var out []Load
	for k := 1; k <= maxTogether; k++ {
		out = append(out, at(k))
	}
	return append(out, at(4096)) // in proportion from there on
}

// ForGPU finds the profile of an accelerator, by name, that fits into memory bytes of it (0: the profile's own): the one of this name, or a variant of it ("NAME-...")
// that needs less.
func ForGPU(name string, memory int64) (*Profile, error) {
	p, err := LoadProfile(name)
	if err != nil {
		return nil, err
	}
	var least int64
	for _, variant := range Profiles() {
		if variant != p.Name && !strings.HasPrefix(variant, p.Name+"-") {
			continue
		}
		q := p
		if variant != p.Name {
			if q, err = LoadProfile(variant); err != nil {
				return nil, err
			}
		}
		need := q.Circuits[0].OfDevice()
		if have := max(memory, 0); need <= have || have == 0 && need <= int64(q.Machine.DeviceMemory) {
			return q, nil
		}
		if least == 0 || need < least {
			least = need
		}
	}
	if least == 0 { // a file's
		return p, nil
	}
	return nil, errs.Mismatch(errs.Exhausted, "plan", "device memory", fmt.Sprintf("%s or more for %s", units.FormatBytes(least), p.Circuits[0].Name), units.FormatBytes(memory))
}

// Like is a circuit of another shape, with the times and sizes of c in proportion: synthesis by constraints, kernels by the domain, the rest by wires. Its witness is dense.
func (c *Circuit) Like(name string, shape *groth16.Shape) *Circuit {
	out := *c
	out.Name, out.Partitions, out.LogDomain, out.Wires, out.Constraints = name, 1, shape.LogDomain, max(shape.NbWires, tinyPublic+1), min(shape.NbConstraints, 1<<shape.LogDomain-tinyPublic-1)
	out.A, out.B = min(shape.NbA, out.Wires), min(shape.NbB, out.Wires)
	rows, wires := float64(shape.NbConstraints)/float64(c.Constraints), float64(shape.NbWires)/float64(c.Wires)
	domain := float64(int64(1)<<shape.LogDomain) / float64(int64(1)<<c.LogDomain)
	out.Synthesis = slices.Clone(c.Synthesis)
	for i := range out.Synthesis {
		out.Synthesis[i].Time = max(1, Duration(times(out.Synthesis[i].Time, rows)))
	}
	for _, d := range []*Duration{&out.Kernels, &out.Consumed} {
		*d = Duration(times(*d, domain))
	}
	for _, d := range []*Duration{&out.KeyLoad, &out.Prepare, &out.Tail, &out.Finish} {
		*d = Duration(times(*d, wires))
	}
	for _, b := range []*Bytes{&out.SynthesisScratch, &out.ProverScratch, &out.Key, &out.DeviceKey, &out.DeviceScratch, &out.Upload} {
		*b = Bytes(float64(*b) * wires)
	}
	out.Witness = Bytes(assignment.DenseSize(out.Wires))
	return &out
}
