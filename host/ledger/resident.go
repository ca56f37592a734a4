package ledger

import "fmt"

// Resident is memory that outlives a partition: a loaded key, an open session. It has one purpose, and bytes of the host and perhaps of devices.
type Resident struct {
	l       *Ledger
	name    string
	purpose Purpose
	size    int64    // of the host
	devices []Amount // as planned, always
	unload  func() error

	charged  bool
	critical bool // a critical request was granted that uses it, since it was charged
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

// NewResident describes memory that nothing has been charged for yet: a grant that refers to it charges size bytes of the host and those of devices. unload gives
// the memory back and returns nil when it is free; it is called without locks held, on a goroutine of its own, and only while no grant refers to the resident.
// After an error the bytes stay charged, and nobody waits for them: a request that does not fit beside them is refused.
func (l *Ledger) NewResident(name string, p Purpose, size int64, unload func() error, devices ...Amount) *Resident {
	r := &Resident{l: l, name: name, purpose: p, size: max(size, 0), unload: unload}
	for _, a := range devices {
		if a.Device != nil && a.Bytes > 0 {
			r.devices = append(r.devices, a)
		}
	}
	l.mu.Lock()
	l.residents[r] = struct{}{}
	l.mu.Unlock()
	return r
}

// amounts are what is, or would be, charged of each account. l.mu is held.
func (r *Resident) amounts() []Amount {
	return append([]Amount{{r.l.host, r.size}}, r.devices...)
}

// in is what r takes of pot d. l.mu is held.
func (r *Resident) in(d int) (n int64) {
	if d == 1 {
		n = r.size
	}
	for _, a := range r.devices {
		if a.Device.index == d {
			n = plus(n, a.Bytes)
		}
	}
	return n
}

// most is what it takes of a, or will after it was discharged. l.mu is held.
func (r *Resident) most(a *Account) int64 {
	if a.index == 1 {
		return max(r.size, r.next)
	}
	return r.in(a.index)
}

// addTo adds what it takes to the pots of n. l.mu is held.
func (r *Resident) addTo(n amounts) {
	for d := range n {
		n[d] = plus(n[d], r.in(d))
	}
}

// charge charges all of it for sign 1, gives it back for -1, and says what that changed. l.mu is held.
func (r *Resident) charge(sign int64) (out []Delta) {
	for _, a := range r.amounts() {
		if a.Bytes != 0 {
			a.Device.charge(r.purpose, sign*a.Bytes, r.critical)
			d := Delta{Account: a.Device.name}
			d.Bytes[r.purpose] = sign * a.Bytes
			out = append(out, d)
		}
	}
	return out
}

// becomeCritical counts r to what critical requests hold. l.mu is held.
func (r *Resident) becomeCritical() {
	if r.critical {
		return
	}
	r.critical = true
	if r.charged {
		for d := range r.l.pots() {
			r.l.pot(d).critical += r.in(d)
		}
	}
}

// Size is what is, or would be, charged of the host.
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

// SetLoaded says that the memory is in use and takes actual bytes of the host. If that is more than planned and does not fit, it returns false: the owner
// unloads at once, no grant refers to r anew until those that do are closed, and later ones are planned with the actual size. The caller holds a grant that
// refers to r.
func (r *Resident) SetLoaded(actual int64) bool {
	l := r.l
	l.mu.Lock()
	defer l.unlock()
	actual = max(actual, 0)
	more := actual - r.size
	if host := l.host; more > 0 && more > host.free(r.critical) {
		r.state, r.next = doubtful, actual
		l.note(Outgrown, r.name, 0, nil, 0, 0)
		l.refuse() // who wait for it may never fit
		l.pump()
		return false
	}
	r.size, r.next = actual, 0
	r.state, r.stuck = loaded, false
	if more != 0 {
		l.host.charge(r.purpose, more, r.critical)
		d := Delta{Account: l.host.name}
		d.Bytes[r.purpose] = more
		l.note(Resized, r.name, 0, []Delta{d}, 0, 0)
		if more > 0 {
			l.refuse()
		}
	}
	l.pump()
	return true
}

// SetUnloaded says that the owner has made sure that the memory is not in use, at any time. It stays charged while grants refer to it, since they load it
// again; otherwise the bytes are free.
func (r *Resident) SetUnloaded() {
	r.l.mu.Lock()
	defer r.l.unlock()
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
	defer r.l.unlock()
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

// discharge is called with l.mu held.
func (r *Resident) discharge() {
	out := r.charge(-1)
	r.charged, r.critical, r.state, r.stuck = false, false, absent, false
	if r.next > 0 {
		r.size, r.next = r.next, 0
	}
	r.l.note(Unloaded, r.name, 0, out, 0, 0)
	if r.retired {
		r.remove()
	}
}

// evict begins to unload r, and reports whether it is gone already; the bytes stay charged until unload has returned. l.mu is held.
func (l *Ledger) evict(r *Resident) (gone bool) {
	if r.refs != 0 || r.evicting {
		panic(fmt.Sprintf("ledger: %s evicted with %d users", r.name, r.refs))
	}
	if r.state == absent || r.unload == nil {
		r.discharge()
		return true
	}
	r.evicting = true
	l.note(Unloading, r.name, 0, nil, 0, 0)
	go func() {
		err := r.unload()
		l.mu.Lock()
		defer l.unlock()
		r.evicting = false
		if err == nil || r.state == absent { // its owner has said so meanwhile
			r.discharge()
		} else {
			r.state, r.stuck = doubtful, true
			l.note(Stuck, r.name, 0, nil, 0, 0)
			if r.retired {
				r.tellGone()
			}
			l.refuse()
		}
		l.pump()
	}()
	return false
}
