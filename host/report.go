package host

import (
	"fmt"

	"github.com/weir-zk/weir/host/ledger"
)

// Report is a snapshot of the account with the most that each line of it ever was.
type Report struct {
	Budget     int64
	BudgetFrom string // how the budget was found: the configuration, or the limit in force
	Permits    int

	Now  Gauges
	Peak Gauges // each one's own peak, not one moment

	Reserved     int64 // bytes granted
	PeakReserved int64
	Purposes     ledger.Bytes // granted, by purpose
	PeakPurposes ledger.Bytes
	Idle         int64 // free slabs kept for reuse
	ResidentKeys int
	Waiting      int // requests in line
	PermitsUsed  int
	PeakPermits  int

	Devices []ledger.AccountStats // of the backends that have said who they are, and have memory of their own
}

// String is one line: the peaks of the BUFFERS counters.
func (r Report) String() string {
	p := r.Peak
	return fmt.Sprintf("BUFFERS peak: synth=%d provers=%d aux=%d shells=%d pending=%d est=%s reserved=%s budget=%s",
		p.Synth, p.Provers, p.Aux, p.Shells, p.Pending, ledger.Size(p.Est), ledger.Size(r.PeakReserved), ledger.Budget(r.Budget))
}
