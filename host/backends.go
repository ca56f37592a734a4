package host

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
)

// backend is one configured prover: its lanes, its queue, and how far it is trusted.
type backend struct {
	name   string
	tenant string // of buffers: empty for plugins of our own
	prover *live.Prover
	health health

	mu          sync.Mutex
	info        *contract.ProverInfo // from the first Describe on
	device      *ledger.Account      // nil: it works in the host's memory
	deaths      int                  // of its processes
	described   int                  // deaths before info and device
	queue       *laneQueue
	wrong       int // wrong proofs that were certainly the backend's fault
	quarantined bool
}

// lanes is the number of proofs that it works on at once. It was described.
func (b *backend) lanes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, b.info.Lanes)
}

// describe asks once who the backend is, and once more when its process has died, as the next one may find less memory free, or another device. The first answer sets
// the number of lanes, each one the device's account.
func (e *Engine) describe(ctx context.Context, b *backend) (*contract.ProverInfo, error) {
	b.mu.Lock()
	info, deaths := b.info, b.deaths
	known := info != nil && deaths == b.described
	b.mu.Unlock()
	if known {
		return info, nil
	}
	info, err := b.prover.Describe(ctx)
	if err != nil {
		if ctx.Err() == nil {
			b.health.set(down, err)
		}
		return nil, errs.Wrap(err, "backend "+b.name)
	}
	device := e.openDevice(b, info)
	b.mu.Lock()
	if b.queue == nil {
		b.queue = newLaneQueue(max(1, info.Lanes), max(e.cfg.Lookahead, e.cfg.PartitionWorkers), e.cfg.PermitRelease != PermitFreed, e.cfg.Clock, ledger.DefaultAgeAfter)
	}
	b.info, b.device, b.described = info, device, deaths
	b.mu.Unlock()
	b.health.set(up, nil)
	return info, nil
}

// openDevice is the account of the device that info names; nil: it has no memory of its own. Backends that share a device share its account. Its budget is what the one
// says that found most: what the others lack is what was taken when they looked, and that is charged.
func (e *Engine) openDevice(b *backend, info *contract.ProverInfo) *ledger.Account {
	if info.DeviceMemory <= 0 {
		return nil
	}
	name := info.DeviceID
	if name == "" || name == e.ledger.Host().Name() {
		name = "device of backend " + b.name
	}
	e.deviceMu.Lock()
	defer e.deviceMu.Unlock()
	if e.deviceMemory[name] == nil {
		e.deviceMemory[name] = map[*backend]int64{}
	}
	e.deviceMemory[name][b] = info.DeviceMemory
	budget := int64(0)
	for _, n := range e.deviceMemory[name] {
		budget = max(budget, n)
	}
	return e.ledger.Device(ledger.DeviceOptions{Name: name, Budget: budget, From: fmt.Sprintf("%s, as backend %s says", info.Device, b.name)})
}

// died is told when a process of b is gone: it holds no keys any more.
func (e *Engine) died(b *backend) {
	b.mu.Lock()
	b.deaths++
	b.mu.Unlock()
	go e.keys.lost(b)
}

// life is the account that b's keys are charged to beside the host's, and which of its processes that is true of.
func (b *backend) life() (device *ledger.Account, described int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.device, b.described
}

// told is an event of b with its device. One that is quarantined is not up, whatever its process does.
func (e *Engine) told(b *backend, state string, err error) {
	b.mu.Lock()
	i := BackendInfo{Backend: b.name, State: state, Err: err}
	if b.info != nil {
		i.Device, i.DeviceID = b.info.Device, b.info.DeviceID
	}
	quiet := b.quarantined && state == up
	b.mu.Unlock()
	if !quiet {
		e.cfg.Listener.backend(i)
	}
}

// candidates are the backends a job may use, in the order of preference. A job that names one gets no other.
func (e *Engine) candidates(job *Job) ([]*backend, error) {
	if job.Backend != "" {
		for _, b := range e.backends {
			if b.name == job.Backend {
				return []*backend{b}, nil
			}
		}
		return nil, errs.New(errs.NotFound, "choose backend", "no backend is called %q", job.Backend).WithHint("the configuration defines: %v", names(e.backends, func(b *backend) string { return b.name }))
	}
	var out []*backend
	for _, b := range e.backends {
		if b.name == e.cfg.Backend {
			out = append([]*backend{b}, out...)
		} else {
			out = append(out, b)
		}
	}
	return out, nil
}

// pick chooses the first candidate that is well. Those in avoid come last: they failed this partition before, but a lone backend gets another
// chance.
func (e *Engine) pick(ctx context.Context, candidates []*backend, avoid map[*backend]bool) (*backend, error) {
	var first error
	for _, again := range []bool{false, true} {
		for _, b := range candidates {
			if avoid[b] != again {
				continue
			}
			if err := b.refused(); err != nil {
				first = either(first, err)
				continue
			}
			if _, err := e.describe(ctx, b); err != nil {
				if ctx.Err() != nil {
					return nil, err
				}
				first = either(first, err)
				continue
			}
			return b, nil
		}
	}
	return nil, first
}

func either(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (b *backend) refused() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.quarantined {
		return nil
	}
	e := errs.New(errs.Unavailable, "backend "+b.name, "quarantined after %d wrong proofs", b.wrong)
	if b.info != nil {
		e.Where = b.info.Device
	}
	return e.WithHint("the device may be faulty (memory errors, overclocking); test it, then restart")
}

// blame counts a wrong proof that was certainly the backend's fault.
func (e *Engine) blame(b *backend, cause error) {
	b.mu.Lock()
	b.wrong++
	became := !b.quarantined && b.wrong >= e.cfg.QuarantineAfter
	b.quarantined = b.quarantined || became
	b.mu.Unlock()
	e.told(b, "wrong proof", cause)
	if became {
		e.told(b, "quarantined", cause)
	}
}

// front is one configured synthesizer.
type front struct {
	name   string
	tenant string
	synth  *live.Synthesizer
	health health

	gate  gate.Gate
	kinds []string // from the first Describe on
	keeps bool     // it has contract.AbilitySharedCircuits
}

// frontFor finds the synthesizer that takes requests of a kind.
func (e *Engine) frontFor(ctx context.Context, kind string) (*front, error) {
	var known []string
	var first error
	for _, f := range e.fronts {
		if err := f.gate.Enter(ctx); err != nil {
			return nil, err
		}
		if f.kinds == nil {
			info, err := f.synth.Describe(ctx)
			if err != nil {
				f.gate.Leave()
				if ctx.Err() != nil {
					return nil, errs.Wrap(err, "synthesizer "+f.name)
				}
				f.health.set(down, err)
				first = either(first, errs.Wrap(err, "synthesizer "+f.name))
				continue
			}
			f.health.set(up, nil)
			f.kinds, f.keeps = info.Kinds, slices.Contains(info.Abilities, contract.AbilitySharedCircuits)
		}
		kinds := f.kinds
		f.gate.Leave()
		for _, k := range kinds {
			if k == kind {
				return f, nil
			}
			known = append(known, k)
		}
	}
	if first != nil {
		return nil, first
	}
	return nil, errs.New(errs.Unsupported, "choose synthesizer", "no synthesizer takes requests of kind %q", kind).WithHint("known kinds: %v", known)
}

// tenantOf is the tenant of buffers that a synthesizer and a backend share.
func tenantOf(f *front, b *backend) string {
	switch {
	case f.tenant == "" || f.tenant == b.tenant:
		return b.tenant
	case b.tenant == "":
		return f.tenant
	}
	return f.tenant + "+" + b.tenant
}
