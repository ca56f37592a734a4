//go:build invariants

package ledger

import "fmt"

const invariants = true

// check asserts the account against what it is the sum of. l.mu is held.
func (l *Ledger) check() {
	var sum Bytes
	permits := 0
	refs := map[*Resident]int{}
	for g := range l.grants {
		for p, n := range g.held {
			if n < 0 {
				panic(fmt.Sprintf("ledger: %s holds %d bytes of %v", g.owner, n, Purpose(p)))
			}
			sum[p] += n
		}
		if g.permit {
			permits++
		}
		for _, r := range g.residents {
			refs[r]++
		}
	}
	for r := range l.residents {
		if r.refs != refs[r] {
			panic(fmt.Sprintf("ledger: %s has %d users, %d are counted", r.name, refs[r], r.refs))
		}
		if (r.refs > 0 || r.state != absent || r.evicting || r.stuck) && !r.charged || r.refs > 0 && r.evicting {
			panic(fmt.Sprintf("ledger: resident %s: %d users, memory %d, charged %t, evicting %t", r.name, r.refs, r.state, r.charged, r.evicting))
		}
		if r.charged {
			sum[r.purpose] += r.size
		}
		delete(refs, r)
	}
	switch {
	case len(refs) > 0:
		panic("ledger: a grant refers to a resident that is gone")
	case sum != l.reserved || sum.Total() != l.total:
		panic(fmt.Sprintf("ledger: %v is counted as %v (%d)", sum.String(), l.reserved.String(), l.total))
	case l.total > l.opts.Budget:
		panic(fmt.Sprintf("ledger: %d of %d bytes", l.total, l.opts.Budget))
	case permits != l.permits || permits > l.opts.Permits:
		panic(fmt.Sprintf("ledger: %d permits of %d, %d counted", permits, l.opts.Permits, l.permits))
	}
	for i := 1; i < len(l.line); i++ {
		if !l.line[i-1].before(l.line[i]) {
			panic("ledger: the line is out of order")
		}
	}
}
