package ledger

import (
	"slices"

	"github.com/weir-zk/weir/sdk/errs"
)

// Grant is what one partition holds. It is given back in whole amounts as they become free, and the rest by Close, exactly once.
type Grant struct {
	l         *Ledger
	owner     string
	priority  Priority
	level     Priority // at the time of the grant
	critical  bool
	parts     []Part // the host's first
	permit    bool
	residents []*Resident
	closed    bool
}

// Level is the priority of the request, raised by its waiting: who has waited long for memory does not start anew in the next line.
func (g *Grant) Level() Priority { return g.level }

// broken is a bookkeeping fault of the caller: an error, and a panic under the tag invariants.
func broken(owner, format string, args ...any) error {
	e := errs.New(errs.Internal, "account of "+owner, format, args...)
	if invariants {
		panic(e)
	}
	return e
}

// charge charges part i, or gives back (n < 0). g.l.mu is held, and g.parts[i].Bytes is the caller's business.
func (g *Grant) charge(i int, p Purpose, n int64) {
	if n != 0 {
		g.parts[i].Account.charge(p, n, g.critical)
	}
}

// ReleaseAll gives back all that is held of p, on the host and on devices. To give back none is no fault.
func (g *Grant) ReleaseAll(p Purpose) error {
	g.l.mu.Lock()
	defer g.l.unlock()
	if g.closed {
		return broken(g.owner, "%v given back after it was closed", p)
	}
	var out []Part
	for i := range g.parts {
		if n := g.parts[i].Bytes[p]; n != 0 {
			g.charge(i, p, -n)
			g.parts[i].Bytes[p] = 0
			var b Bytes
			b[p] = n
			out = append(out, Part{g.parts[i].Account, b})
		}
	}
	if len(out) > 0 {
		g.l.note(Released, g.owner, g.priority, deltas(out, -1), 0, 0)
		g.l.pump()
	}
	return nil
}

// Move gives all bytes held of one purpose another.
func (g *Grant) Move(from, to Purpose) error {
	g.l.mu.Lock()
	defer g.l.unlock()
	if g.closed {
		return broken(g.owner, "moved after it was closed")
	}
	if from == to {
		return nil
	}
	var out []Part
	for i := range g.parts {
		if n := g.parts[i].Bytes[from]; n != 0 {
			g.charge(i, from, -n)
			g.charge(i, to, n)
			g.parts[i].Bytes[from] = 0
			g.parts[i].Bytes[to] += n
			var b Bytes
			b[from], b[to] = -n, n
			out = append(out, Part{g.parts[i].Account, b})
		}
	}
	if len(out) > 0 {
		g.l.note(Moved, g.owner, g.priority, deltas(out, 1), 0, 0)
	}
	g.l.check()
	return nil
}

// ReleasePermit gives the permit back.
func (g *Grant) ReleasePermit() error {
	g.l.mu.Lock()
	defer g.l.unlock()
	if g.closed || !g.permit {
		return broken(g.owner, "permit given back that is not held")
	}
	g.dropPermit()
	g.l.note(PermitReleased, g.owner, g.priority, nil, -1, 0)
	g.l.pump()
	return nil
}

func (g *Grant) dropPermit() {
	g.permit = false
	g.l.permits.take(-1, g.critical)
}

// Absorb makes what o holds part of g, and ends o. Both are of the same priority.
func (g *Grant) Absorb(o *Grant) error {
	g.l.mu.Lock()
	defer g.l.unlock()
	if g.closed || o.closed || g == o || g.permit && o.permit || g.critical != o.critical {
		return broken(g.owner, "cannot take over the grant of %s", o.owner)
	}
	g.absorb(o)
	g.l.check()
	return nil
}

// absorb is called with g.l.mu held.
func (g *Grant) absorb(o *Grant) {
	for _, part := range o.parts {
		i := slices.IndexFunc(g.parts, func(mine Part) bool { return mine.Account == part.Account })
		if i < 0 {
			g.parts = append(g.parts, part)
			continue
		}
		for p, n := range part.Bytes {
			g.parts[i].Bytes[p] += n
		}
	}
	g.level, g.permit = max(g.level, o.level), g.permit || o.permit
	g.residents = append(slices.Clone(g.residents), o.residents...)
	o.parts, o.permit, o.residents, o.closed = nil, false, nil, true
	delete(g.l.grants, o)
	g.l.note(Absorbed, o.owner, o.priority, nil, 0, 0)
}

// Exchange gives back all that g holds of some purposes, its permit and its residents, and takes what req asks for instead, in one step: nobody is let in between. ok is
// false when that is not granted at once, and then g is as it was; like TryAcquire it passes nobody whom that could delay, and evicts nothing. req is of g's priority.
func (g *Grant) Exchange(back []Purpose, req Request) (ok bool, err error) {
	l := g.l
	l.mu.Lock()
	defer l.unlock()
	if g.closed || g.critical != req.critical() {
		return false, broken(g.owner, "cannot exchange what it holds for %s", req.Owner)
	}
	w, err := l.examine(req)
	if err != nil {
		return false, nil // it can never be granted: who waits for it is told why
	}
	out, over := g.without(back), make([]int64, len(l.accounts))
	for i, a := range l.accounts {
		over[i] = a.over
	}
	had, permits := g.permit, 0
	g.move(out, -1)
	if had {
		g.dropPermit()
		permits = -1
	}
	i := l.place(w)
	if !l.letIn(w, l.line[:i]) {
		g.move(out, 1)
		if had {
			g.permit = true
			l.permits.take(1, g.critical)
		}
		for i, a := range l.accounts {
			a.over = over[i]
		}
		return false, nil
	}
	l.note(Released, g.owner, g.priority, deltas(out, -1), permits, 0)
	residents := g.residents
	g.residents = nil
	l.insert(w, i)
	l.grant(w, i)
	g.absorb(w.grant)
	for _, r := range residents {
		r.unref()
	}
	l.pump()
	return true, nil
}

// without is what g holds of some purposes. g.l.mu is held.
func (g *Grant) without(purposes []Purpose) (out []Part) {
	for _, part := range g.parts {
		var b Bytes
		for _, p := range purposes {
			b[p] = part.Bytes[p]
		}
		if b != (Bytes{}) {
			out = append(out, Part{part.Account, b})
		}
	}
	return out
}

// move charges parts of g's accounts for sign 1, and gives them back for -1. g.l.mu is held.
func (g *Grant) move(parts []Part, sign int64) {
	for _, part := range parts {
		i := slices.IndexFunc(g.parts, func(mine Part) bool { return mine.Account == part.Account })
		for p, n := range part.Bytes {
			g.charge(i, Purpose(p), sign*n)
			g.parts[i].Bytes[p] += sign * n
		}
	}
}

// Close gives back everything that is still held. A second Close is an error and changes nothing.
func (g *Grant) Close() error {
	l := g.l
	l.mu.Lock()
	defer l.unlock()
	if g.closed {
		return broken(g.owner, "closed twice")
	}
	g.closed = true
	delete(l.grants, g)
	out := deltas(g.parts, -1)
	for i := range g.parts {
		for p, n := range g.parts[i].Bytes {
			g.charge(i, Purpose(p), -n)
		}
	}
	permits := 0
	if g.permit {
		permits = -1
		g.dropPermit()
	}
	g.parts = nil
	l.note(Closed, g.owner, g.priority, out, permits, 0)
	for _, r := range g.residents {
		r.unref()
	}
	l.pump()
	return nil
}
