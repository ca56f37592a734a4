package ledger

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// pump grants whom it can, until nobody can be granted. l.mu is held. Every change that gives something back, or lets somebody stand elsewhere, ends with it.
func (l *Ledger) pump() {
	for l.step() {
	}
	if len(l.line) == 0 && l.aging != nil {
		l.aging()
		l.aging = nil
		l.agingTurn++
	}
	l.check()
}

// window is how many of the line, from its front, are considered: who stands further back waits for its turn. It bounds what a change costs.
const window = 16

// step grants one waiter, or begins to make room for the first; false: nothing is left to be done now. l.mu is held.
func (l *Ledger) step() bool {
	for i, w := range l.line[:min(len(l.line), window)] {
		if l.letIn(w, l.line[:i]) {
			l.grant(w, i)
			return true
		}
		if i == 0 && l.makeRoom(w) {
			return true
		}
	}
	return false
}

// letIn reports whether w can be granted now although those ahead are not. l.mu is held.
func (l *Ledger) letIn(w *waiter, ahead []*waiter) bool {
	n, ready := l.lacking(w)
	return ready && l.fits(n, w.critical()) && (len(ahead) == 0 || len(ahead) < window && l.mayPass(w, ahead))
}

// lacking is what must be charged for w now; ready is false when one of its residents is on its way out, or turned out larger than what is charged for
// it: if those who wait for the true size were let in at the old one, there would always be one who holds it there. l.mu is held.
func (l *Ledger) lacking(w *waiter) (n amounts, ready bool) {
	n = make(amounts, l.pots())
	copy(n, w.own)
	for _, r := range w.Residents {
		if r.evicting || r.charged && r.next > 0 {
			return nil, false
		}
		if !r.charged {
			r.addTo(n)
		}
	}
	return n, true
}

func (l *Ledger) fits(n amounts, critical bool) bool {
	for d, x := range n {
		if x > 0 && x > l.pot(d).free(critical) {
			return false
		}
	}
	return true
}

// grant gives w, which stands at i, all it asks for. l.mu is held.
func (l *Ledger) grant(w *waiter, i int) {
	l.remove(i)
	for _, r := range w.Residents {
		if w.critical() {
			r.becomeCritical()
		}
		if !r.charged {
			r.charged = true
			l.note(Loaded, r.name, w.Priority, r.charge(1), 0, 0)
		}
		r.refs++
	}
	g := &Grant{l: l, owner: w.Owner, priority: w.Priority, level: w.level, critical: w.critical(), parts: slices.Clone(w.parts), permit: w.Permit, residents: w.Residents}
	for i := range g.parts {
		for p, n := range g.parts[i].Bytes {
			g.charge(i, Purpose(p), n)
		}
	}
	permits := 0
	if w.Permit {
		permits = 1
		l.permits.take(1, g.critical)
		l.peakPermits = max(l.peakPermits, int(l.permits.used))
	}
	l.grants[g] = struct{}{}
	l.note(Granted, g.owner, g.priority, deltas(g.parts, 1), permits, i)
	w.grant = g
	close(w.ready)
}

// refuse answers all who wait for what they can never get. l.mu is held. Whatever changes the answer of impossible calls it.
func (l *Ledger) refuse() {
	for i := 0; i < len(l.line); {
		w := l.line[i]
		if w.err = l.impossible(&w.Request); w.err == nil {
			i++
			continue
		}
		l.remove(i)
		l.note(Refused, w.Owner, w.Priority, nil, 0, 0)
		close(w.ready)
	}
}

// impossible is the error for a request that could not be granted if nobody else held anything. l.mu is held.
func (l *Ledger) impossible(req *Request) error {
	if most := l.permits.most(req.critical()); req.Permit && most < 1 {
		found := fmt.Sprint(l.permits.capacity)
		if l.permits.reserve > 0 {
			found += fmt.Sprintf(", less %d kept for critical requests", l.permits.reserve)
		}
		return errs.Mismatch(errs.Exhausted, "admit "+req.Owner, "permits", "at least one", found).WithHint("raise the number of partition workers")
	}
	for _, a := range l.accounts {
		if err := l.impossibleIn(a, req); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) impossibleIn(a *Account, req *Request) error {
	var whole Bytes
	if a.index == 1 {
		whole = req.Need
	}
	for i := range req.Devices {
		if req.Devices[i].Account == a {
			whole = req.Devices[i].Bytes
		}
	}
	for _, r := range req.Residents {
		whole[r.purpose] = plus(whole[r.purpose], r.most(a))
	}
	asked := whole.Total()
	var stuck int64
	never := false // one of its residents is larger than what is charged for it, and stays so
	for r := range l.residents {
		switch {
		case !r.stuck:
		case !req.uses(r):
			whole[r.purpose] = plus(whole[r.purpose], r.in(a.index))
			stuck += r.in(a.index)
		case r.next > 0 && a.index == 1:
			stuck += r.next
			never = true
		}
	}
	// Nothing of this account is asked for, so that what is stuck there does not matter; a sum that cannot be counted fits into no budget.
	if total, most := whole.Total(), a.most(req.critical()); asked == 0 || !never && total <= most && total < math.MaxInt64 {
		return nil
	}
	where, from := "memory", ""
	if a.index > 1 {
		where = "memory of " + a.name
	}
	if a.from != "" {
		from = " (" + a.from + ")"
	}
	if !req.critical() && a.reserve > 0 {
		from += fmt.Sprintf(", less %v kept for critical requests", Size(a.reserve))
	}
	e := errs.Mismatch(errs.Exhausted, "admit "+req.Owner, where, fmt.Sprintf("at most the budget of %v, %d bytes%s", Budget(a.capacity), a.capacity, from),
		fmt.Sprintf("a need of %v, %d bytes: %v", Size(whole.Total()), whole.Total(), whole.String()))
	if stuck > 0 {
		e.Found += fmt.Sprintf(", %v of it memory that a plugin did not give back", Size(stuck))
		return e.WithHint("start again; the log says which plugin failed")
	}
	need := whole.Total()
	if !req.critical() {
		need = plus(need, a.reserve)
	}
	if a.index > 1 {
		return e.WithHint("raise the budget of the device to %d bytes or more, or use one with more memory", need)
	}
	return e.WithHint("raise the memory budget to %d bytes or more, or use a machine with more memory", need)
}

// makeRoom starts to evict idle residents, least recently used first, if that lets w in; otherwise they stay. It reports whether some were gone at once.
// l.mu is held.
func (l *Ledger) makeRoom(w *waiter) (gone bool) {
	n, ready := l.lacking(w)
	if !ready || n[0] > l.permits.free(w.critical()) {
		return false
	}
	left := make([]pot, l.pots()) // as the pots will be
	for d := range left {
		left[d] = *l.pot(d)
	}
	leave := func(r *Resident) {
		for d := range left {
			left[d].take(-r.in(d), r.critical)
		}
	}
	short := func(d int) bool { return n[d] > 0 && n[d] > left[d].free(w.critical()) }
	anyShort := func() bool {
		for d := range left {
			if short(d) {
				return true
			}
		}
		return false
	}
	var idle []*Resident
	for r := range l.residents {
		switch {
		case r.evicting:
			leave(r)
		case r.charged && r.refs == 0 && !r.stuck && !w.uses(r):
			idle = append(idle, r)
		}
	}
	// What critical requests brought lies in their reserve: for others it makes little room, and goes last.
	late := func(r *Resident) bool { return r.critical && !w.critical() }
	sort.Slice(idle, func(i, j int) bool {
		if a, b := late(idle[i]), late(idle[j]); a != b {
			return b
		}
		return idle[i].used < idle[j].used
	})
	var out []*Resident
	for _, r := range idle {
		helps := false
		for d := range left {
			helps = helps || short(d) && r.in(d) > 0
		}
		if helps {
			leave(r)
			out = append(out, r)
		}
	}
	if anyShort() {
		return false
	}
	for _, r := range out {
		gone = l.evict(r) || gone
	}
	return gone
}

// raiseAfter sets the timer that raises levels. l.mu is held.
func (l *Ledger) raiseAfter(d time.Duration) {
	l.agingTurn++
	turn := l.agingTurn
	l.aging = l.opts.Clock.AfterFunc(d, func() { l.raise(turn) })
}

// raise raises the level of all who have waited long enough.
func (l *Ledger) raise(turn uint64) {
	l.mu.Lock()
	defer l.unlock()
	if turn != l.agingTurn {
		return
	}
	l.aging = nil
	now := l.opts.Clock.Now()
	next := time.Duration(-1)
	for _, w := range l.line {
		for w.level < High && !w.rises.After(now) {
			w.level++
			w.rises = w.rises.Add(l.opts.AgeAfter)
			l.note(Aged, w.Owner, w.level, nil, 0, 0)
		}
		if d := w.rises.Sub(now); w.level < High && (next < 0 || d < next) {
			next = d
		}
	}
	slices.SortFunc(l.line, func(a, b *waiter) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	if next >= 0 {
		l.raiseAfter(next)
	}
	l.pump()
}
