// Package ledger is the host's account of memory: every large buffer, loaded key and working memory of a plugin is in it with a purpose and an
// owner, and what it grants never exceeds the budget.
//
// A partition asks once, for everything it will need: a permit, bytes by purpose, and the residents (keys, sessions) it uses. It gets all
// of it together or waits; nobody ever holds a part while waiting for the rest, so requests cannot block each other for good. The line is
// ordered by priority, then retries before others, then the age of the job. Only the head of the line is granted: a large request cannot be
// starved by small ones that slip past it. Every change that could let the head in tries it under the same lock, so no wake-up is lost. A request that does
// not fit into an empty budget is refused at once.
//
// A resident is charged while it is loaded or being loaded. While grants refer to it, it stays; afterwards it stays until the head of the line
// would fit without it, and then the least recently used goes first. Evicting takes time (a plugin has to answer), during which the bytes
// stay charged; when it fails, they stay charged for good.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/weir-zk/weir/sdk/errs"
)

// Options of a ledger.
type Options struct {
	Budget  int64 // bytes
	Permits int
	// From says where the budget comes from; for messages.
	From string
	// Idle is the bytes of free slabs in the pool, Trim drops them down to keep. They may be nil. See TrimIdle.
	Idle func() int64
	Trim func(keep int64)
}

// Ledger is the account. Methods are safe for concurrent use.
type Ledger struct {
	opts Options

	mu        sync.Mutex
	reserved  Bytes
	total     int64
	permits   int // in use
	peak      Bytes
	peakTotal int64
	peakPerm  int
	line      []*waiter // in the order of granting
	seq       uint64
	tick      uint64 // of the residents' last use
	grants    map[*Grant]struct{}
	residents map[*Resident]struct{}
}

// New makes an empty account.
func New(opts Options) *Ledger {
	return &Ledger{opts: opts, grants: map[*Grant]struct{}{}, residents: map[*Resident]struct{}{}}
}

// Budget is the bytes that can be granted.
func (l *Ledger) Budget() int64 { return l.opts.Budget }

// Request is all that one partition needs.
type Request struct {
	Owner     string // for messages
	Priority  Priority
	Front     bool   // a retry: before the others of its priority
	Order     uint64 // age: smaller goes first
	Permit    bool
	Need      Bytes
	Residents []*Resident
}

type waiter struct {
	Request
	seq   uint64
	grant *Grant
	err   error
	ready chan struct{}
}

func (w *waiter) before(o *waiter) bool {
	switch {
	case w.Priority != o.Priority:
		return w.Priority > o.Priority
	case w.Front != o.Front:
		return w.Front
	case w.Order != o.Order:
		return w.Order < o.Order
	}
	return w.seq < o.seq
}

// Acquire waits for everything that req asks for. Errors: errs.Exhausted, at once, when the request exceeds the whole budget (or comes to, because a
// resident turned out larger); the error of ctx when that ends first, and then nothing is held.
func (l *Ledger) Acquire(ctx context.Context, req Request) (*Grant, error) {
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(err, "wait for memory")
	}
	w, err := l.enter(req)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.ready:
		return w.grant, w.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	left := l.leave(w)
	l.mu.Unlock()
	if !left { // the answer came at the same time
		<-w.ready
		if w.grant != nil {
			if err := w.grant.Close(); err != nil {
				return nil, err
			}
		}
	}
	return nil, errs.Wrap(ctx.Err(), "wait for memory")
}

// TryAcquire is Acquire for a request that will not wait: ok is false when it is not granted at once.
func (l *Ledger) TryAcquire(req Request) (g *Grant, ok bool) {
	w, err := l.enter(req)
	if err != nil {
		return nil, false
	}
	l.mu.Lock()
	left := l.leave(w)
	l.mu.Unlock()
	if left {
		return nil, false
	}
	return w.grant, w.grant != nil
}

func (l *Ledger) enter(req Request) (*waiter, error) {
	w := &waiter{Request: req, ready: make(chan struct{})}
	for p, n := range req.Need {
		if n < 0 {
			return nil, errs.New(errs.Internal, "wait for memory", "%d bytes of %v", n, Purpose(p))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.impossible(&req); err != nil {
		return nil, err
	}
	l.seq++
	w.seq = l.seq
	i := sort.Search(len(l.line), func(i int) bool { return w.before(l.line[i]) })
	l.line = append(l.line, nil)
	copy(l.line[i+1:], l.line[i:])
	l.line[i] = w
	l.pump()
	return w, nil
}

// leave takes w out of the line, unless it has been answered. l.mu is held.
func (l *Ledger) leave(w *waiter) bool {
	for i := range l.line {
		if l.line[i] == w {
			l.line = append(l.line[:i], l.line[i+1:]...)
			l.pump() // the next may fit
			return true
		}
	}
	return false
}

// impossible is the error for a request that the whole budget cannot hold. l.mu is held.
func (l *Ledger) impossible(req *Request) error {
	whole := req.Need
	for _, r := range req.Residents {
		whole[r.purpose] += max(r.size, r.next)
	}
	var stuck int64
	never := false // one of its residents is larger than what is charged for it, and stays so
	for r := range l.residents {
		switch {
		case !r.stuck:
		case !req.uses(r):
			whole[r.purpose] += r.size
			stuck += r.size
		case r.next > 0:
			stuck += r.next
			never = true
		}
	}
	if !never && whole.Total() <= l.opts.Budget && (!req.Permit || l.opts.Permits > 0) {
		return nil
	}
	from := ""
	if l.opts.From != "" {
		from = " (" + l.opts.From + ")"
	}
	e := errs.Mismatch(errs.Exhausted, "admit "+req.Owner, "memory", fmt.Sprintf("at most the budget of %v, %d bytes%s", Size(l.opts.Budget), l.opts.Budget, from),
		fmt.Sprintf("a need of %v, %d bytes: %v", Size(whole.Total()), whole.Total(), whole.String()))
	if stuck > 0 {
		e.Found += fmt.Sprintf(", %v of it memory that a plugin did not give back", Size(stuck))
		return e.WithHint("start again; the log says which plugin failed")
	}
	return e.WithHint("raise the memory budget to %d bytes or more, or use a machine with more memory", whole.Total())
}

// lacking is what must be charged for w now; ready is false when one of its residents is on its way out, or turned out larger than what is charged for
// it: if those who wait for the true size were let in at the old one, there would always be one who holds it there. l.mu is held.
func (l *Ledger) lacking(w *waiter) (n int64, ready bool) {
	n = w.Need.Total()
	for _, r := range w.Residents {
		if r.evicting || r.charged && r.next > 0 {
			return 0, false
		}
		if !r.charged {
			n += r.size
		}
	}
	return n, true
}

// pump grants the head of the line as long as it fits. l.mu is held. Everything that gives something back ends with it.
func (l *Ledger) pump() {
	for len(l.line) > 0 {
		w := l.line[0]
		if w.err = l.impossible(&w.Request); w.err != nil {
			l.answer(w)
			continue
		}
		if w.Permit && l.permits >= l.opts.Permits {
			break
		}
		n, ready := l.lacking(w)
		if !ready {
			break
		}
		if l.total+n > l.opts.Budget {
			l.makeRoom(w, l.total+n-l.opts.Budget)
			break
		}
		l.grant(w)
		l.answer(w)
	}
	l.check()
}

func (l *Ledger) answer(w *waiter) {
	l.line = l.line[1:]
	close(w.ready)
}

func (l *Ledger) grant(w *waiter) {
	g := &Grant{l: l, owner: w.Owner, held: w.Need, permit: w.Permit, residents: w.Residents}
	for p, n := range w.Need {
		l.charge(Purpose(p), n)
	}
	for _, r := range w.Residents {
		if !r.charged {
			r.charged = true
			l.charge(r.purpose, r.size)
		}
		r.refs++
	}
	if w.Permit {
		l.permits++
		l.peakPerm = max(l.peakPerm, l.permits)
	}
	l.grants[g] = struct{}{}
	w.grant = g
}

func (l *Ledger) charge(p Purpose, n int64) {
	l.reserved[p] += n
	l.total += n
	l.peak[p] = max(l.peak[p], l.reserved[p])
	l.peakTotal = max(l.peakTotal, l.total)
}

// makeRoom starts to evict idle residents, least recently used first, if that lets w in; otherwise they stay. l.mu is held.
func (l *Ledger) makeRoom(w *waiter, want int64) {
	var idle []*Resident
	for r := range l.residents {
		switch {
		case r.evicting:
			want -= r.size
		case r.charged && r.refs == 0 && !r.stuck && !w.uses(r):
			idle = append(idle, r)
		}
	}
	sort.Slice(idle, func(i, j int) bool { return idle[i].used < idle[j].used })
	var enough int64
	for i, r := range idle {
		if want <= 0 {
			return
		}
		if enough += r.size; enough >= want {
			for _, r := range idle[:i+1] {
				l.evict(r)
			}
			return
		}
	}
}

func (req *Request) uses(r *Resident) bool { return slices.Contains(req.Residents, r) }

// TrimIdle drops free slabs of the pool until they and everything granted fit into the budget together. A granted partition takes its buffers first (a fresh
// slab costs nothing before it is written, a free one is used again) and calls it before it writes to any.
func (l *Ledger) TrimIdle() {
	if l.opts.Idle == nil || l.opts.Trim == nil {
		return
	}
	l.mu.Lock()
	keep := l.opts.Budget - l.total
	l.mu.Unlock()
	if l.opts.Idle() > keep {
		l.opts.Trim(keep)
	}
}

// Stats is a snapshot.
type Stats struct {
	Budget      int64
	From        string
	Permits     int
	PermitsUsed int
	PeakPermits int
	Reserved    Bytes
	Total       int64
	Peak        Bytes // each purpose's own peak
	PeakTotal   int64
	Waiting     int
	Grants      int
	Residents   int // charged
}

// Stats returns the account now.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Budget: l.opts.Budget, From: l.opts.From, Permits: l.opts.Permits, PermitsUsed: l.permits, PeakPermits: l.peakPerm, Reserved: l.reserved,
		Total: l.total, Peak: l.peak, PeakTotal: l.peakTotal, Waiting: len(l.line), Grants: len(l.grants)}
	for r := range l.residents {
		if r.charged {
			s.Residents++
		}
	}
	return s
}
