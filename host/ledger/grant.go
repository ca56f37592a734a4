package ledger

import (
	"fmt"

	"github.com/weir-zk/weir/sdk/errs"
)

// Grant is what one partition holds. It is given back in parts as they become free, and the rest by Close, exactly once.
type Grant struct {
	l         *Ledger
	owner     string
	held      Bytes
	permit    bool
	residents []*Resident
	closed    bool
}

// broken is a bookkeeping fault of the caller: an error, and a panic under the tag invariants.
func broken(owner, format string, args ...any) error {
	e := errs.New(errs.Internal, "account of "+owner, format, args...)
	if invariants {
		panic(e)
	}
	return e
}

// Release gives back n bytes of p.
func (g *Grant) Release(p Purpose, n int64) error {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed || n < 0 || n > g.held[p] {
		return broken(g.owner, "%d bytes of %v given back, %d are held (closed: %t)", n, p, g.held[p], g.closed)
	}
	g.held[p] -= n
	g.l.charge(p, -n)
	g.l.pump()
	return nil
}

// ReleaseAll gives back all that is held of p.
func (g *Grant) ReleaseAll(p Purpose) error {
	g.l.mu.Lock()
	n := g.held[p]
	g.l.mu.Unlock()
	return g.Release(p, n)
}

// Move gives all bytes held of one purpose another.
func (g *Grant) Move(from, to Purpose) error {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed {
		return broken(g.owner, "moved after it was closed")
	}
	n := g.held[from]
	g.held[from] -= n
	g.held[to] += n
	g.l.charge(from, -n)
	g.l.charge(to, n)
	g.l.check()
	return nil
}

// ReleasePermit gives the permit back.
func (g *Grant) ReleasePermit() error {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed || !g.permit {
		return broken(g.owner, "permit given back that is not held")
	}
	g.permit = false
	g.l.permits--
	g.l.pump()
	return nil
}

// Absorb makes what o holds part of g, and ends o.
func (g *Grant) Absorb(o *Grant) error {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	if g.closed || o.closed || g == o || (g.permit && o.permit) {
		return broken(g.owner, "cannot take over the grant of %s", o.owner)
	}
	for p, n := range o.held {
		g.held[p] += n
	}
	g.permit = g.permit || o.permit
	g.residents = append(append([]*Resident(nil), g.residents...), o.residents...)
	o.held, o.permit, o.residents, o.closed = Bytes{}, false, nil, true
	delete(g.l.grants, o)
	g.l.check()
	return nil
}

// Close gives back everything that is still held. A second Close is an error and changes nothing.
func (g *Grant) Close() error {
	l := g.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.closed {
		return broken(g.owner, "closed twice")
	}
	g.closed = true
	delete(l.grants, g)
	for p, n := range g.held {
		l.charge(Purpose(p), -n)
	}
	g.held = Bytes{}
	if g.permit {
		g.permit = false
		l.permits--
	}
	for _, r := range g.residents {
		r.unref()
	}
	l.pump()
	return nil
}

// Resident is memory that outlives a partition: a loaded key, an open session.
type Resident struct {
	l       *Ledger
	name    string
	purpose Purpose
	size    int64
	unload  func() error

	charged  bool
	state    memory
	evicting bool
	stuck    bool // unload failed: the bytes stay charged and are not asked for again until the owner has loaded anew
	retired  bool
	gone     func()
	refs     int
	used     uint64
	next     int64 // size to be planned with after the next discharge; 0: the same
}

// memory is what is known of a resident's memory.
type memory uint8

const (
	absent   memory = iota // not in use
	doubtful               // a load began and has not succeeded: unload must be asked before the bytes are free
	loaded
)

// NewResident describes memory that nothing has been charged for yet: a grant that refers to it charges size bytes. unload gives the memory back and
// returns nil when it is free; it is called without locks held, on a goroutine of its own, and only while no grant refers to the resident. After an error
// the bytes stay charged, and nobody waits for them: a request that does not fit beside them is refused.
func (l *Ledger) NewResident(name string, p Purpose, size int64, unload func() error) *Resident {
	r := &Resident{l: l, name: name, purpose: p, size: max(size, 0), unload: unload}
	l.mu.Lock()
	l.residents[r] = struct{}{}
	l.mu.Unlock()
	return r
}

// Size is what is, or would be, charged.
func (r *Resident) Size() int64 {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.size
}

// Loaded reports whether the memory is in use. Only the holder of a grant that refers to r can rely on the answer.
func (r *Resident) Loaded() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.state == loaded
}

// Outgrown reports that the memory turned out larger than what is charged and did not fit: whoever holds a grant that refers to r closes it and asks again.
func (r *Resident) Outgrown() bool {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.next > 0
}

// SetLoading says that the memory may be in use from now on, whatever becomes of the load: if neither SetLoaded nor SetUnloaded follows, unload is called
// before the bytes are free. The caller holds a grant that refers to r.
func (r *Resident) SetLoading() {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.state == absent {
		r.state = doubtful
	}
}

// SetLoaded says that the memory is in use and takes actual bytes. If that is more than planned and does not fit, it returns false: the owner
// unloads at once, no grant refers to r anew until those that do are closed, and later ones are planned with the actual size. The caller holds a grant that
// refers to r.
func (r *Resident) SetLoaded(actual int64) bool {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if actual > r.size && l.total+actual-r.size > l.opts.Budget {
		r.state, r.next = doubtful, actual
		l.pump() // the head may have become impossible
		return false
	}
	l.charge(r.purpose, actual-r.size)
	r.size, r.next = actual, 0
	r.state, r.stuck = loaded, false
	l.pump()
	return true
}

// SetUnloaded says that the owner has made sure that the memory is not in use. It stays charged while grants refer to it, since they load it again.
func (r *Resident) SetUnloaded() {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	r.state, r.stuck = absent, false
	if r.refs == 0 && !r.evicting && r.charged {
		r.discharge()
		r.l.pump()
	}
}

// Retire says that no new grant will refer to r: it is unloaded as soon as none does, and then gone (may be nil) is called, on a goroutine
// of its own. It is called too when unload fails; then the bytes stay charged for good.
func (r *Resident) Retire(gone func()) {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	if r.retired {
		return
	}
	r.retired, r.gone = true, gone
	if r.refs == 0 {
		r.settle()
	}
	r.l.pump()
}

// remove takes a retired resident out of the account. l.mu is held.
func (r *Resident) remove() {
	delete(r.l.residents, r)
	r.tellGone()
}

func (r *Resident) tellGone() {
	if r.gone != nil {
		go r.gone()
		r.gone = nil
	}
}

// unref is called with l.mu held.
func (r *Resident) unref() {
	r.refs--
	r.l.tick++
	r.used = r.l.tick
	if r.refs == 0 {
		r.settle()
	}
}

// settle decides what becomes of r when no grant refers to it any more. l.mu is held.
func (r *Resident) settle() {
	switch {
	case r.evicting:
	case !r.charged:
		if r.retired {
			r.remove()
		}
	case r.retired:
		r.l.evict(r)
	case r.stuck:
	case r.state == absent:
		r.discharge()
	case r.state == doubtful:
		r.l.evict(r)
	}
}

func (r *Resident) discharge() {
	r.l.charge(r.purpose, -r.size)
	r.charged, r.state, r.stuck = false, absent, false
	if r.next > 0 {
		r.size, r.next = r.next, 0
	}
	if r.retired {
		r.remove()
	}
}

// evict is called with l.mu held; the bytes stay charged until unload has returned.
func (l *Ledger) evict(r *Resident) {
	if r.refs != 0 || r.evicting {
		panic(fmt.Sprintf("ledger: %s evicted with %d users", r.name, r.refs))
	}
	if r.state == absent || r.unload == nil {
		r.discharge()
		return
	}
	r.evicting = true
	go func() {
		err := r.unload()
		l.mu.Lock()
		defer l.mu.Unlock()
		r.evicting = false
		if err == nil {
			r.discharge()
		} else {
			r.state, r.stuck = doubtful, true
			if r.retired {
				r.tellGone()
			}
		}
		l.pump()
	}()
}
