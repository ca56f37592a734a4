// Package ledger is the account of memory: every large buffer, loaded key and working memory of a plugin is in it with a purpose and an owner, in the account
// of the host or of a device, and what it grants never exceeds the budget of any.
//
// # Grants
//
// A partition asks once, for everything it will need: a permit, bytes by purpose, and the residents (keys, sessions) it uses. It gets all of it together or
// waits; nobody ever holds a part while waiting for the rest, so requests cannot block each other for good. What it holds comes back in whole amounts: all of a
// purpose, the permit, and the rest with Close. A request that does not fit into an empty budget is refused at once, with the numbers, and so is one that
// finds the line full.
//
// # Order
//
// The line is ordered by level, then retries before others, then the age of the job, then arrival. The level of a request is its priority; each AgeAfter of
// waiting raises it by one, up to High: so a stream of more urgent requests delays it, but not for ever, while what is critical stays first. Every change that could
// let somebody in tries the line under the same lock, so no wake-up is lost.
//
// # Reserve
//
// ReserveCritical, a permit and some bytes, is never granted to requests below Critical. What critical requests hold counts against it, and so do the residents
// that they were the last to bring or use: the key of a critical circuit may stay loaded inside the reserve.
//
// # Passing
//
// The first in line may wait for more than is free. Somebody behind it is granted before it, and before all others who stand between, only if that cannot delay any
// of them. Precisely: let the turn of a request be the moment at which it would be granted if the line were served strictly in its order. A request passes only
// if, in whatever order those who hold something give it back, and whoever in front of it leaves the line, no turn of those in front becomes later, even if the
// one that passes never gives anything back. This is the reservation of EASY backfilling (Lifka, The ANL/IBM SP scheduling system, 1995; Mu'alem and Feitelson,
// IEEE TPDS 12(6), 2001) without its estimates of running times, and made for everybody who is passed (conservative backfilling), not for the first alone: see
// delaysNobody. It follows that those behind are not granted later either, since the one that passes is done the earlier (but for a resident in the reserve that
// is evicted the earlier, too). Three things are outside of it: requests that arrive later and stand further in front, residents that turn out larger than
// planned, and how long an unload takes.
//
// A retry that keeps its witness and exchanges the rest (Exchange) is a request like any other, in the line at its place: what it gives back is free for it and for those
// in front, who come first if they fit then. If it is not granted, nothing is given back yet. So those in front lose nothing against a grant that gives back first and asks
// then, and those behind cannot take in between what the retry needs.
//
// # Residents
//
// A resident is charged while it is loaded or being loaded. While grants refer to it, it stays; afterwards it stays until the first in line would fit
// without it, and then the least recently used goes first. Evicting takes time (a plugin has to answer), during which the bytes stay charged; when it fails,
// they stay charged for good.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// Options of a ledger.
type Options struct {
	// Budget is the bytes of host memory that can be granted; NoBudget: no bound.
	Budget int64
	// From says where the budget comes from; for messages.
	From string
	// Permits is how many partitions may have their evaluations alive.
	Permits int
	// ReserveCritical is what only critical requests are granted. For devices see DeviceOptions.
	ReserveCritical Reserve
	// MaxWaiting bounds how many requests of each priority wait. Default is DefaultMaxWaiting.
	MaxWaiting int
	// AgeAfter is the time of waiting that raises a request by one priority. Default is DefaultAgeAfter; negative: never.
	AgeAfter time.Duration
	// Clock is where time is taken from. Default is the system's.
	Clock Clock
	// Idle is the bytes of free slabs in the pool, Trim drops them down to keep. They may be nil. See TrimIdle.
	Idle func() int64
	Trim func(keep int64)
}

// Reserve is permits and bytes of host memory.
type Reserve struct {
	Permits int
	Bytes   int64
}

// Defaults of Options.
const (
	DefaultMaxWaiting = 1 << 16
	// DefaultAgeAfter is longer than a full line of ordinary work takes (fifteen proofs of ten large partitions: 10 minutes on the machine of docs/backpressure.md), so that
	// priorities mean something while the machine keeps up; and short enough that what is low stands with the high after 20 minutes, before the half-hour deadlines of
	// Filecoin's window proofs. What must not wait even then is critical, to which nobody is raised.
	DefaultAgeAfter = 10 * time.Minute
)

// Clock is a source of time.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of its own after d; stop prevents that unless it has begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }
func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Ledger is the account. Methods are safe for concurrent use.
type Ledger struct {
	opts Options
	// mayPass decides who is granted before others; a test puts something else in its place.
	mayPass func(w *waiter, ahead []*waiter) bool

	mu          sync.Mutex
	permits     pot
	host        *Account
	accounts    []*Account // host first
	peakPermits int
	peakWaiting int
	line        []*waiter // in the order of granting
	waiting     map[Priority]int
	seq         uint64
	tick        uint64 // of the residents' last use
	grants      map[*Grant]struct{}
	residents   map[*Resident]struct{}

	aging     func() bool // stops the timer that raises levels; nil: none
	agingTurn uint64      // the timer that counts

	hooks   []*hook
	changes uint64
	news    []Change // not told yet
	telling bool     // by one goroutine
	toldTo  uint64
	told    *sync.Cond
}

// New makes an empty account.
func New(opts Options) *Ledger {
	if opts.MaxWaiting <= 0 {
		opts.MaxWaiting = DefaultMaxWaiting
	}
	if opts.AgeAfter == 0 {
		opts.AgeAfter = DefaultAgeAfter
	}
	if opts.Clock == nil {
		opts.Clock = systemClock{}
	}
	l := &Ledger{opts: opts, grants: map[*Grant]struct{}{}, residents: map[*Resident]struct{}{}, waiting: map[Priority]int{}}
	l.permits = pot{capacity: int64(opts.Permits), reserve: int64(max(opts.ReserveCritical.Permits, 0))}
	l.host = &Account{pot: pot{capacity: max(opts.Budget, 0), reserve: max(opts.ReserveCritical.Bytes, 0)}, index: 1, name: "host", from: opts.From}
	l.accounts = []*Account{l.host}
	l.told = sync.NewCond(&l.mu)
	l.mayPass = l.delaysNobody
	return l
}

// Budget is the bytes of host memory that can be granted.
func (l *Ledger) Budget() int64 { return l.opts.Budget }

// Request is all that one partition needs.
type Request struct {
	Owner     string // for messages
	Priority  Priority
	Front     bool   // a retry: before the others of its priority
	Order     uint64 // age: smaller goes first
	Permit    bool
	Need      Bytes  // of host memory
	Devices   []Part // of device memory
	Residents []*Resident
}

func (req *Request) critical() bool { return req.Priority >= Critical }

func (req *Request) uses(r *Resident) bool { return slices.Contains(req.Residents, r) }

// waiter is a request in line.
type waiter struct {
	Request
	parts []Part  // of every account
	own   amounts // and their sums, without the residents
	level Priority
	since time.Time
	rises time.Time // when the level does
	seq   uint64
	grant *Grant
	err   error
	ready chan struct{}
}

// in is what w itself takes of pot d.
func (w *waiter) in(d int) int64 {
	if d < len(w.own) {
		return w.own[d]
	}
	return 0 // of a device that was added later
}

func (w *waiter) before(o *waiter) bool {
	switch {
	case w.level != o.level:
		return w.level > o.level
	case w.Front != o.Front:
		return w.Front
	case w.Order != o.Order:
		return w.Order < o.Order
	}
	return w.seq < o.seq
}

// Acquire waits for everything that req asks for. Errors: errs.Exhausted, at once, when the request exceeds what it can ever be granted (or comes to, because a
// resident turned out larger), and when too many of its priority wait; the error of ctx when that ends first, and then nothing is held.
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
	if !l.leave(w) { // the answer came at the same time
		<-w.ready
		if w.grant != nil {
			if err := w.grant.Close(); err != nil {
				return nil, err
			}
		}
	}
	return nil, errs.Wrap(ctx.Err(), "wait for memory")
}

// TryAcquire is Acquire for a request that will not wait: ok is false when it is not granted at once. It evicts nothing.
func (l *Ledger) TryAcquire(req Request) (g *Grant, ok bool) {
	l.mu.Lock()
	defer l.unlock()
	w, err := l.examine(req)
	if err != nil {
		return nil, false
	}
	i := l.place(w)
	if !l.letIn(w, l.line[:i]) {
		return nil, false
	}
	l.insert(w, i)
	l.grant(w, i)
	l.check()
	return w.grant, true
}

// examine makes a waiter of a request that may be granted some time. l.mu is held.
func (l *Ledger) examine(req Request) (*waiter, error) {
	w := &waiter{Request: req, level: req.Priority, since: l.opts.Clock.Now(), ready: make(chan struct{})}
	w.parts = append([]Part{{l.host, req.Need}}, req.Devices...)
	if err := l.checkParts(req.Owner, w.parts); err != nil {
		return nil, err
	}
	for _, r := range req.Residents {
		if r.l != l {
			return nil, errs.New(errs.Internal, "account of "+req.Owner, "%s is of another ledger", r.name)
		}
	}
	w.own = make(amounts, l.pots())
	if req.Permit {
		w.own[0] = 1
	}
	for i := range w.parts {
		w.own[w.parts[i].Account.index] = w.parts[i].Bytes.Total()
	}
	if err := l.impossible(&w.Request); err != nil {
		return nil, err
	}
	l.seq++
	w.seq = l.seq
	return w, nil
}

// place is where w stands in line. l.mu is held.
func (l *Ledger) place(w *waiter) int {
	return sort.Search(len(l.line), func(i int) bool { return w.before(l.line[i]) })
}

// enter puts a request into the line, and answers it if that can be done at once.
func (l *Ledger) enter(req Request) (*waiter, error) {
	l.mu.Lock()
	defer l.unlock()
	w, err := l.examine(req)
	if err == nil && l.waiting[req.Priority] >= l.opts.MaxWaiting {
		err = errs.Mismatch(errs.Exhausted, "admit "+req.Owner, "", fmt.Sprintf("less than %d requests of priority %v waiting for memory", l.opts.MaxWaiting, req.Priority),
			fmt.Sprint(l.waiting[req.Priority])).WithHint("try again later")
	}
	if err != nil {
		l.note(Refused, req.Owner, req.Priority, nil, 0, 0)
		return nil, err
	}
	l.insert(w, l.place(w))
	if w.level < High && l.opts.AgeAfter > 0 {
		w.rises = w.since.Add(l.opts.AgeAfter)
		if l.aging == nil { // else it rings earlier, and looks again
			l.raiseAfter(l.opts.AgeAfter)
		}
	}
	l.pump()
	l.peakWaiting = max(l.peakWaiting, len(l.line))
	return w, nil
}

// insert puts w into the line at i. l.mu is held.
func (l *Ledger) insert(w *waiter, i int) {
	l.line = slices.Insert(l.line, i, w)
	l.waiting[w.Priority]++
	l.note(Arrived, w.Owner, w.Priority, nil, 0, 0)
}

// remove takes the waiter at i out of the line. l.mu is held.
func (l *Ledger) remove(i int) {
	w := l.line[i]
	l.line = slices.Delete(l.line, i, i+1)
	if l.waiting[w.Priority]--; l.waiting[w.Priority] == 0 {
		delete(l.waiting, w.Priority)
	}
}

// leave takes w out of the line, unless it has been answered.
func (l *Ledger) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.unlock()
	i := slices.Index(l.line, w)
	if i < 0 {
		return false
	}
	l.remove(i)
	l.note(Canceled, w.Owner, w.Priority, nil, 0, 0)
	l.pump() // the next may fit
	return true
}

// TrimIdle drops free slabs of the pool until they and everything granted fit into the budget together. A granted partition takes its buffers first (a fresh
// slab costs nothing before it is written, a free one is used again) and calls it before it writes to any.
func (l *Ledger) TrimIdle() {
	if l.opts.Idle == nil || l.opts.Trim == nil {
		return
	}
	l.mu.Lock()
	keep := l.host.free(true)
	l.mu.Unlock()
	if l.opts.Idle() > keep {
		l.opts.Trim(keep)
	}
}
