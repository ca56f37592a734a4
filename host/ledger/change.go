package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Event says what a change is.
type Event string

// The events. Requests arrive, and are granted, refused or canceled; a grant gives back until it is closed; residents are charged with the first grant that uses
// them, and leave.
const (
	Arrived        Event = "arrived"
	Aged           Event = "aged" // has waited so long that it counts as one priority higher
	Granted        Event = "granted"
	Refused        Event = "refused"
	Canceled       Event = "canceled"
	Released       Event = "released"
	Moved          Event = "moved" // to another purpose
	PermitReleased Event = "permit released"
	Absorbed       Event = "absorbed" // into another grant of the same owner: no bytes change
	Closed         Event = "closed"   // with what was left
	Loaded         Event = "loaded"   // a resident is charged
	Resized        Event = "resized"  // a resident's true size is known
	Outgrown       Event = "outgrown" // it is larger, and does not fit: it will be loaded again
	Unloading      Event = "unloading"
	Unloaded       Event = "unloaded"
	Stuck          Event = "stuck" // a resident could not be unloaded, and stays charged
)

// Change is one step of the ledger. Nothing happens between two steps.
type Change struct {
	Seq      uint64 // 1 more than that of the change before
	Time     time.Time
	Event    Event
	Owner    string   // of the request or grant, or the resident's name
	Priority Priority // of the request
	Passed   int      // of a grant: how many stood before it in line
	Deltas   []Delta  // by account, those that changed
	Permits  int      // more in use than before

	// And after it:
	Accounts    []AccountStats // the host's first
	PermitsUsed int
	Waiting     int
}

// Delta is what one change adds to one account.
type Delta struct {
	Account string
	Bytes   Bytes
}

// String is one line: "12 granted job 1 partition 0: host evaluations 96MiB, witness 32MiB; permits 1".
func (c *Change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s", c.Seq, c.Event, c.Owner)
	if c.Passed > 0 {
		fmt.Fprintf(&b, " passing %d", c.Passed)
	}
	sep := ": "
	for _, d := range c.Deltas {
		b.WriteString(sep + d.Account + " " + d.Bytes.String())
		sep = "; "
	}
	if c.Permits != 0 {
		fmt.Fprintf(&b, "%spermits %d", sep, c.Permits)
	}
	return b.String()
}

// hook is told of the changes after and until these numbers, the second one included.
type hook struct {
	f            func(Change)
	after, until uint64
}

// Watch has f told of every later change: one at a time, in order, without gaps, without any lock held (it may call the ledger), and soon: perhaps on another
// goroutine than the change was made on, and after the call that made it has returned. It should be quick; what it has not been told yet is kept. stop returns
// when f has been told of everything before the call of stop, and will not be called again; f itself must not call it.
func (l *Ledger) Watch(f func(Change)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &hook{f: f, after: l.changes, until: math.MaxUint64}
	l.hooks = append(l.hooks, h)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		h.until = min(h.until, l.changes)
		for l.telling && l.toldTo < h.until {
			l.told.Wait()
		}
		l.hooks = slices.DeleteFunc(l.hooks, func(o *hook) bool { return o == h })
	}
}

// note adds a change for the hooks. l.mu is held, and the sums are those after it.
func (l *Ledger) note(e Event, owner string, p Priority, deltas []Delta, permits, passed int) {
	l.changes++
	if len(l.hooks) == 0 {
		return
	}
	c := Change{Seq: l.changes, Time: l.opts.Clock.Now(), Event: e, Owner: owner, Priority: p, Passed: passed, Deltas: deltas, Permits: permits,
		PermitsUsed: int(l.permits.used), Waiting: len(l.line)}
	for _, a := range l.accounts {
		c.Accounts = append(c.Accounts, a.stats())
	}
	l.news = append(l.news, c)
}

// unlock ends a change: it unlocks l.mu and tells the hooks, unless another goroutine is doing that, which then tells these changes too.
func (l *Ledger) unlock() {
	mine := !l.telling && len(l.news) > 0
	l.telling = l.telling || mine
	for mine {
		news := l.news
		l.news = nil
		hooks := make([]hook, len(l.hooks))
		for i, h := range l.hooks {
			hooks[i] = *h
		}
		l.mu.Unlock()
		for _, c := range news {
			for _, h := range hooks {
				if h.after < c.Seq && c.Seq <= h.until {
					h.f(c)
				}
			}
		}
		l.mu.Lock()
		l.toldTo = news[len(news)-1].Seq
		mine = len(l.news) > 0
		l.telling = mine
		l.told.Broadcast()
	}
	l.mu.Unlock()
}
