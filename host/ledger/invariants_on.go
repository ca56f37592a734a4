//go:build invariants

package ledger

import "fmt"

const invariants = true

// check asserts the account against what it is the sum of. l.mu is held.
func (l *Ledger) check() {
	fail := func(format string, args ...any) { panic(fmt.Sprintf("ledger: "+format, args...)) }
	sums := make([]Bytes, l.pots())
	critical := make(amounts, l.pots())
	permits := int64(0)
	refs := map[*Resident]int{}
	for g := range l.grants {
		for _, part := range g.parts {
			for p, n := range part.Bytes {
				if n < 0 {
					fail("%s holds %d bytes of %v", g.owner, n, Purpose(p))
				}
				sums[part.Account.index][p] += n
				if g.critical {
					critical[part.Account.index] += n
				}
			}
		}
		if g.permit {
			permits++
			if g.critical {
				critical[0]++
			}
		}
		for _, r := range g.residents {
			refs[r]++
		}
	}
	for r := range l.residents {
		if r.refs != refs[r] {
			fail("%s has %d users, %d are counted", r.name, refs[r], r.refs)
		}
		if (r.refs > 0 || r.state != absent || r.evicting || r.stuck) && !r.charged || r.refs > 0 && r.evicting {
			fail("resident %s: %d users, memory %d, charged %t, evicting %t", r.name, r.refs, r.state, r.charged, r.evicting)
		}
		if r.charged {
			for d := 1; d < l.pots(); d++ {
				sums[d][r.purpose] += r.in(d)
				if r.critical {
					critical[d] += r.in(d)
				}
			}
		}
		delete(refs, r)
	}
	if len(refs) > 0 {
		fail("a grant refers to a resident that is gone")
	}
	if permits != l.permits.used || permits > l.permits.capacity {
		fail("%d permits of %d, %d counted", permits, l.permits.capacity, l.permits.used)
	}
	for d := range l.pots() {
		p := l.pot(d)
		if p.critical != critical[d] {
			fail("%d of pot %d is counted as critical, %d are", p.critical, d, critical[d])
		}
		if d == 0 {
			continue
		}
		a := l.accounts[d-1]
		if sums[d] != a.held || sums[d].Total() != a.used {
			fail("%v of %s is counted as %v (%d)", sums[d].String(), a.name, a.held.String(), a.used)
		}
		if a.used > max(a.capacity, a.over) {
			fail("%d of %d bytes of %s", a.used, a.capacity, a.name)
		}
	}
	waiting := map[Priority]int{}
	for i, w := range l.line {
		waiting[w.Priority]++
		if i > 0 && !l.line[i-1].before(w) {
			fail("the line is out of order")
		}
	}
	for p, n := range l.waiting {
		if n != waiting[p] {
			fail("%d requests of priority %v wait, %d are counted", waiting[p], p, n)
		}
	}
	if len(waiting) != len(l.waiting) {
		fail("requests of %d priorities wait, %d are counted", len(waiting), len(l.waiting))
	}
	if len(l.line) > 0 && l.letIn(l.line[0], nil) {
		fail("%s waits although it fits", l.line[0].Owner)
	}
}
