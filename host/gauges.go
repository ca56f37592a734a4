package host

import (
	"fmt"
	"sync"
)

// gauges are the counters of the BUFFERS line. Each change and its event are one step, so that a listener sees them in order.
type gauges struct {
	mu        sync.Mutex
	now, peak Gauges
}

// buffers applies a change to the counters and tells the listener. Buffers count from after their grant to before what they are charged with is
// given back, so that no counter ever runs ahead of the account.
func (e *Engine) buffers(event BufferEvent, job string, partition int, born, dead Gauges) {
	g := &e.gauges
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now.add(&born)
	g.now.sub(&dead)
	n, p := &g.now, &g.peak
	p.Synth, p.Provers, p.Aux = max(p.Synth, n.Synth), max(p.Provers, n.Provers), max(p.Aux, n.Aux)
	p.Shells, p.Pending, p.Est = max(p.Shells, n.Shells), max(p.Pending, n.Pending), max(p.Est, n.Est)
	if invariants {
		e.checkGauges(n)
	}
	e.cfg.Listener.buffers(BuffersInfo{Event: event, Time: e.cfg.Clock.Now(), Job: job, Partition: partition, Gauges: *n, Budget: e.ledger.Budget()})
}

func (e *Engine) checkGauges(n *Gauges) {
	switch {
	case n.Synth < 0 || n.Provers < 0 || n.Aux < 0 || n.Shells < 0 || n.Pending < 0 || n.Est < 0:
		panic(fmt.Sprintf("host: a gauge is below zero: %+v", *n))
	case n.Provers > e.cfg.PartitionWorkers && e.cfg.PermitRelease == PermitFreed:
		panic(fmt.Sprintf("host: %d sets of evaluations, %d permits", n.Provers, e.cfg.PartitionWorkers))
	case n.Shells > n.Aux:
		panic(fmt.Sprintf("host: %d shells of %d witnesses", n.Shells, n.Aux))
	case n.Est > e.ledger.Budget():
		panic(fmt.Sprintf("host: %d bytes of buffers, budget %d", n.Est, e.ledger.Budget()))
	}
}

// Report is the account now, with its peaks since the engine started.
func (e *Engine) Report() Report {
	s := e.ledger.Stats()
	e.gauges.mu.Lock()
	now, peak := e.gauges.now, e.gauges.peak
	e.gauges.mu.Unlock()
	return Report{
		Budget: s.Budget, BudgetFrom: s.From, Permits: s.Permits, Now: now, Peak: peak,
		Reserved: s.Total, PeakReserved: s.PeakTotal, Purposes: s.Reserved, PeakPurposes: s.Peak,
		Idle: e.pool.Stats().IdleBytes, ResidentKeys: e.keys.resident(), Waiting: s.Waiting, PermitsUsed: s.PermitsUsed, PeakPermits: s.PeakPermits,
		Devices: s.Devices,
	}
}
