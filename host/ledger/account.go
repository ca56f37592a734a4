package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// pot is one thing that is granted: the permits, or the bytes of one account.
type pot struct {
	capacity int64
	reserve  int64 // of capacity, only for critical requests
	used     int64
	critical int64 // of used: what critical requests hold, and the residents they use or have used last
}

// free is what can be granted now. What critical requests have taken already counts against the reserve.
func (p *pot) free(critical bool) int64 {
	n := p.capacity - p.used
	if !critical {
		n -= max(0, p.reserve-p.critical)
	}
	return n
}

// most is what a request can ever get.
func (p *pot) most(critical bool) int64 {
	if critical {
		return p.capacity
	}
	return p.capacity - p.reserve
}

func (p *pot) take(n int64, critical bool) {
	p.used += n
	if critical {
		p.critical += n
	}
}

// Account is one memory with a budget of its own: the host's or a device's.
type Account struct {
	pot
	index     int // of the pot
	name      string
	from      string
	held      Bytes
	peak      Bytes
	peakTotal int64
	over      int64 // what was charged when the budget became smaller than that, until it is given back
}

func (a *Account) charge(p Purpose, n int64, critical bool) {
	a.take(n, critical)
	a.held[p] += n
	a.peak[p] = max(a.peak[p], a.held[p])
	a.peakTotal = max(a.peakTotal, a.used)
	if a.over = min(a.over, a.used); a.used <= a.capacity {
		a.over = 0
	}
}

// Name is "host", or what the device was called.
func (a *Account) Name() string { return a.name }

// Amount is bytes of a device.
type Amount struct {
	Device *Account
	Bytes  int64
}

// Part is bytes by purpose of one account.
type Part struct {
	Account *Account
	Bytes   Bytes
}

// DeviceOptions describe the memory of a device.
type DeviceOptions struct {
	Name    string // as messages and plots call it; devices differ in it
	Budget  int64  // bytes
	From    string // where the budget comes from; for messages
	Reserve int64  // of Budget, only for critical requests
}

// Device returns the account of a device, and opens it when it is called with a new name. For a known one it takes over another budget (the device's
// plugin was started again, and finds more or less memory free): what is charged stays charged, and what waits and can never fit any more is refused.
func (l *Ledger) Device(o DeviceOptions) *Account {
	l.mu.Lock()
	defer l.unlock()
	for _, a := range l.accounts[1:] {
		if a.name == o.Name {
			a.from, a.capacity, a.reserve = o.From, max(o.Budget, 0), max(o.Reserve, 0)
			if a.used > a.capacity {
				a.over = a.used
			}
			l.refuse()
			l.pump()
			return a
		}
	}
	a := &Account{pot: pot{capacity: max(o.Budget, 0), reserve: max(o.Reserve, 0)}, index: l.pots(), name: o.Name, from: o.From}
	l.accounts = append(l.accounts, a)
	return a
}

// Host is the account of the host's memory.
func (l *Ledger) Host() *Account { return l.host }

// pot d is that of the permits for 0, else that of an account.
func (l *Ledger) pot(d int) *pot {
	if d == 0 {
		return &l.permits
	}
	return &l.accounts[d-1].pot
}

// pots is their number.
func (l *Ledger) pots() int { return 1 + len(l.accounts) }

// amounts has a number for every pot.
type amounts []int64

// deltas is sign times what the parts have, without those that have nothing.
func deltas(parts []Part, sign int64) []Delta {
	var out []Delta
	for _, part := range parts {
		if part.Bytes == (Bytes{}) {
			continue
		}
		d := Delta{Account: part.Account.name}
		for p, n := range part.Bytes {
			d.Bytes[p] = sign * n
		}
		out = append(out, d)
	}
	return out
}

// AccountStats is one account in a snapshot.
type AccountStats struct {
	Name      string
	Budget    int64
	From      string
	Reserve   int64 // of Budget, for critical requests
	Reserved  Bytes // charged now
	Total     int64
	Critical  int64 // of Total, for critical requests
	Peak      Bytes // each purpose's own peak
	PeakTotal int64
}

func (a *Account) stats() AccountStats {
	return AccountStats{Name: a.name, Budget: a.capacity, From: a.from, Reserve: a.reserve, Reserved: a.held, Total: a.used, Critical: a.critical, Peak: a.peak, PeakTotal: a.peakTotal}
}

// Stats are the sums of the account.
type Stats struct {
	AccountStats // of the host
	Devices      []AccountStats
	Idle         int64 // bytes of free slabs, beside Total
	Permits      int
	PermitsUsed  int
	PeakPermits  int
	Waiting      int
	PeakWaiting  int
	Grants       int
	Residents    int // charged
}

// Stats returns the sums now.
func (l *Ledger) Stats() Stats {
	var idle int64
	if l.opts.Idle != nil {
		idle = l.opts.Idle() // without the lock
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{AccountStats: l.host.stats(), Idle: idle, Permits: l.opts.Permits, PermitsUsed: int(l.permits.used), PeakPermits: l.peakPermits,
		Waiting: len(l.line), PeakWaiting: l.peakWaiting, Grants: len(l.grants)}
	for _, a := range l.accounts[1:] {
		s.Devices = append(s.Devices, a.stats())
	}
	for r := range l.residents {
		if r.charged {
			s.Residents++
		}
	}
	return s
}

// Entry is one line of the account.
type Entry struct {
	Account string
	Purpose Purpose
	Owner   string
	Bytes   int64
	Users   int // of a resident: grants that refer to it; else 0
}

// Waiting is one request in line.
type Waiting struct {
	Owner    string
	Priority Priority
	Level    Priority // what waiting has raised it to
	Since    time.Time
	Permit   bool
	Need     Bytes // of the host
	Devices  []Part
}

// Snapshot is everything that is charged and everybody who waits, at one moment.
type Snapshot struct {
	Entries []Entry   // by account, purpose and owner
	Permits []string  // their owners
	Line    []Waiting // in order
}

// Snapshot lists the account. The sums of its entries are those that Stats has.
func (l *Ledger) Snapshot() Snapshot {
	var s Snapshot
	l.mu.Lock()
	for g := range l.grants {
		if g.permit {
			s.Permits = append(s.Permits, g.owner)
		}
		for _, part := range g.parts {
			for p, n := range part.Bytes {
				if n != 0 {
					s.Entries = append(s.Entries, Entry{Account: part.Account.name, Purpose: Purpose(p), Owner: g.owner, Bytes: n})
				}
			}
		}
	}
	for r := range l.residents {
		if !r.charged {
			continue
		}
		for _, a := range r.amounts() {
			if a.Bytes != 0 {
				s.Entries = append(s.Entries, Entry{Account: a.Device.name, Purpose: r.purpose, Owner: r.name, Bytes: a.Bytes, Users: r.refs})
			}
		}
	}
	for _, w := range l.line {
		s.Line = append(s.Line, Waiting{Owner: w.Owner, Priority: w.Priority, Level: w.level, Since: w.since, Permit: w.Permit, Need: w.Need, Devices: w.Devices})
	}
	order := map[string]int{}
	for i, a := range l.accounts {
		order[a.name] = i
	}
	l.mu.Unlock()
	slices.Sort(s.Permits)
	slices.SortFunc(s.Entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(order[a.Account], order[b.Account]), cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Bytes, b.Bytes))
	})
	return s
}

// checkParts refuses amounts that no caller should ask for. l.mu is held.
func (l *Ledger) checkParts(owner string, parts []Part) error {
	for i, part := range parts {
		if !slices.Contains(l.accounts, part.Account) || slices.ContainsFunc(parts[:i], func(o Part) bool { return o.Account == part.Account }) {
			return errs.New(errs.Internal, "account of "+owner, "part %d is of no account of this ledger, or of one that comes twice", i)
		}
		for p, n := range part.Bytes {
			if n < 0 {
				return errs.New(errs.Internal, "account of "+owner, "%d bytes of %v", n, Purpose(p))
			}
		}
	}
	return nil
}
