package ledger

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// judge follows a ledger by what it tells, keeps books of its own, and finds faults. It shares no code with the ledger but the types.
type judge struct {
	mu       sync.Mutex
	faults   []string
	opts     Options
	accounts []string
	budget   map[string]int64
	reserve  map[string]int64
	requests map[string]*Request // by owner: each request has its own
	into     map[string]string   // whose grant absorbs that of an owner
	sizes    map[string]int64    // of the host, that residents may turn out to have

	seq       uint64
	now       time.Time
	line      []*queued
	arrivals  int
	held      map[string]*possession
	residents map[string]*lodger
	pending   []*lodger // charged, for the grant that follows
	answered  map[string]Event
	tooLate   map[string]bool // who did not even arrive
	passed    int
}

// queued is a request in line.
type queued struct {
	owner   string
	req     *Request
	level   Priority
	arrival int
	since   time.Time
}

func (q *queued) before(o *queued) bool {
	if q.level != o.level {
		return q.level > o.level
	}
	if q.req.Front != o.req.Front {
		return q.req.Front
	}
	if q.req.Order != o.req.Order {
		return q.req.Order < o.req.Order
	}
	return q.arrival < o.arrival
}

// possession is what an owner holds.
type possession struct {
	critical bool
	bytes    map[string]Bytes
	permits  int
	uses     []string
}

// lodger is a resident.
type lodger struct {
	name                                string
	bytes                               map[string]int64
	charged, critical, leaving, outgrew bool
	stuck                               bool
}

func newJudge(opts Options) *judge {
	return &judge{opts: opts, accounts: []string{"host"}, budget: map[string]int64{"host": opts.Budget}, reserve: map[string]int64{"host": opts.ReserveCritical.Bytes},
		requests: map[string]*Request{}, into: map[string]string{}, sizes: map[string]int64{}, held: map[string]*possession{}, residents: map[string]*lodger{}, answered: map[string]Event{}, tooLate: map[string]bool{}}
}

func (j *judge) fault(format string, args ...any) {
	if len(j.faults) < 10 {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

func (j *judge) addDevice(o DeviceOptions) {
	j.accounts = append(j.accounts, o.Name)
	j.budget[o.Name], j.reserve[o.Name] = o.Budget, o.Reserve
}

func (j *judge) addResident(name string, bytes map[string]int64, most int64) {
	j.residents[name] = &lodger{name: name, bytes: bytes}
	j.sizes[name] = most
}

// ask announces a request.
func (j *judge) ask(req *Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.requests[req.Owner] != nil {
		j.fault("the test asks twice for %s", req.Owner)
	}
	j.requests[req.Owner] = req
}

// needs is what req itself asks of an account.
func needs(req *Request, account string) Bytes {
	if account == "host" {
		return req.Need
	}
	for _, p := range req.Devices {
		if p.Account.Name() == account {
			return p.Bytes
		}
	}
	return Bytes{}
}

// used are the bytes of an account that are charged, and those for critical requests.
func (j *judge) used(account string) (all, critical int64) {
	add := func(n int64, c bool) {
		all += n
		if c {
			critical += n
		}
	}
	for _, p := range j.held {
		b := p.bytes[account]
		add(b.Total(), p.critical)
	}
	for _, r := range j.residents {
		if r.charged {
			add(r.bytes[account], r.critical)
		}
	}
	return all, critical
}

func (j *judge) usedPermits() (all, critical int) {
	for _, p := range j.held {
		all += p.permits
		if p.critical {
			critical += p.permits
		}
	}
	return all, critical
}

// fits reports whether a request could be granted now.
func (j *judge) fits(req *Request) bool {
	isCritical := req.Priority >= Critical
	if req.Permit {
		all, critical := j.usedPermits()
		free := j.opts.Permits - all
		if !isCritical {
			free -= max(0, j.opts.ReserveCritical.Permits-critical)
		}
		if free < 1 {
			return false
		}
	}
	for _, account := range j.accounts {
		b := needs(req, account)
		need := b.Total()
		for _, r := range req.Residents {
			switch x := j.residents[r.name]; {
			case x.leaving || x.outgrew:
				return false
			case !x.charged:
				need += x.bytes[account]
			}
		}
		all, critical := j.used(account)
		free := j.budget[account] - all
		if !isCritical {
			free -= max(0, j.reserve[account]-critical)
		}
		if need > 0 && need > free {
			return false
		}
	}
	return true
}

// never reports whether a request may be refused: it could not be granted alone, if its residents are as large as they may turn out.
func (j *judge) never(req *Request) bool {
	isCritical := req.Priority >= Critical
	permits := j.opts.Permits
	if !isCritical {
		permits -= j.opts.ReserveCritical.Permits
	}
	if req.Permit && permits < 1 {
		return true
	}
	for _, r := range j.residents {
		if r.stuck {
			return true // and then much may be refused
		}
	}
	for _, account := range j.accounts {
		b := needs(req, account)
		need := b.Total()
		for _, r := range req.Residents {
			x := j.residents[r.name]
			if account == "host" {
				need += max(x.bytes[account], j.sizes[r.name])
			} else {
				need += x.bytes[account]
			}
		}
		most := j.budget[account]
		if !isCritical {
			most -= j.reserve[account]
		}
		if need > most {
			return true
		}
	}
	return false
}

func (j *judge) leaveLine(owner string) *queued {
	for i, q := range j.line {
		if q.owner == owner {
			j.line = slices.Delete(j.line, i, i+1)
			return q
		}
	}
	j.fault("%s is answered and does not wait", owner)
	return nil
}

func (j *judge) answer(c *Change) {
	if was, ok := j.answered[c.Owner]; ok {
		j.fault("%s is %s, and was %s", c.Owner, c.Event, was)
	}
	j.answered[c.Owner] = c.Event
}

// tell is the hook.
func (j *judge) tell(c Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Seq != j.seq+1 {
		j.fault("change %d comes after %d", c.Seq, j.seq)
	}
	if c.Time.Before(j.now) {
		j.fault("change %d is of an earlier time", c.Seq)
	}
	j.seq, j.now = c.Seq, c.Time
	if len(j.pending) > 0 && c.Event != Loaded && c.Event != Granted {
		j.fault("%s is charged for nobody", j.pending[0].name)
		j.pending = nil
	}
	switch c.Event {
	case Arrived:
		req := j.requests[c.Owner]
		if req == nil {
			j.fault("%s arrived unasked", c.Owner)
			return
		}
		j.line = append(j.line, &queued{owner: c.Owner, req: req, level: req.Priority, arrival: j.arrivals, since: c.Time})
		j.arrivals++
		j.sort()
	case Aged:
		j.aged(&c)
	case Refused:
		if !slices.ContainsFunc(j.line, func(q *queued) bool { return q.owner == c.Owner }) {
			j.line = append(j.line, &queued{owner: c.Owner}) // refused at once
		}
		j.leaveLine(c.Owner)
		j.answer(&c)
		if req := j.requests[c.Owner]; req != nil && !j.never(req) {
			j.fault("%s is refused, and could be granted", c.Owner)
		}
	case Canceled:
		j.leaveLine(c.Owner)
		j.answer(&c)
	case Granted:
		j.granted(&c)
	case Released, Moved, PermitReleased, Closed:
		j.change(&c)
	case Absorbed:
		o, g := j.held[c.Owner], j.held[j.into[c.Owner]]
		if o == nil || g == nil {
			j.fault("%s is absorbed into %q", c.Owner, j.into[c.Owner])
			return
		}
		g.permits += o.permits
		g.uses = append(g.uses, o.uses...)
		for account, b := range o.bytes {
			g.bytes[account] = sum(g.bytes[account], b)
		}
		delete(j.held, c.Owner)
	case Loaded, Resized, Outgrown, Unloading, Unloaded, Stuck:
		j.resident(&c)
	default:
		j.fault("an event %q", c.Event)
	}
	if len(j.pending) == 0 {
		j.compare(&c)
	}
}

func (j *judge) sort() {
	slices.SortFunc(j.line, func(a, b *queued) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
}

func (j *judge) aged(c *Change) {
	for _, q := range j.line {
		if q.owner != c.Owner {
			continue
		}
		q.level++
		if waited := c.Time.Sub(q.since); q.level > High || c.Priority != q.level || waited < time.Duration(q.level-q.req.Priority)*j.opts.AgeAfter {
			j.fault("%s of priority %v counts as %v after %v", c.Owner, q.req.Priority, q.level, waited)
		}
		j.sort()
		return
	}
	j.fault("%s ages and does not wait", c.Owner)
}

// granted checks that a grant is whole, and in order: the first in line could not have been granted instead.
func (j *judge) granted(c *Change) {
	pending := j.pending
	j.pending = nil
	i := slices.IndexFunc(j.line, func(q *queued) bool { return q.owner == c.Owner })
	if i < 0 {
		j.fault("%s is granted and does not wait", c.Owner)
		return
	}
	q := j.line[i]
	if c.Passed != i {
		j.fault("%s is granted before %d others, and stands behind %d", c.Owner, c.Passed, i)
	}
	if i > 0 {
		j.passed++
	}
	if i > 0 && j.fits(j.line[0].req) { // those between may fit, and not be allowed to pass: TestPassingDelaysNobody
		j.fault("%s is granted before its turn: %s is the first in line, and fits", c.Owner, j.line[0].owner)
	}
	if !j.fits(q.req) {
		j.fault("%s is granted and does not fit", c.Owner)
	}
	j.leaveLine(c.Owner)
	j.answer(c)
	own := j.held[c.Owner]
	if own == nil {
		own = &possession{critical: q.req.Priority >= Critical, bytes: map[string]Bytes{}}
		j.held[c.Owner] = own
	}
	permits := 0
	if q.req.Permit {
		permits = 1
	}
	if c.Permits != permits {
		j.fault("%s is granted %d permits of %d", c.Owner, c.Permits, permits)
	}
	own.permits += c.Permits
	for _, account := range j.accounts {
		var got Bytes
		for _, d := range c.Deltas {
			if d.Account == account {
				got = d.Bytes
			}
		}
		if want := needs(q.req, account); got != want {
			j.fault("%s is granted %s of %s: %s", c.Owner, got.String(), account, want.String())
		}
		own.bytes[account] = sum(own.bytes[account], got)
	}
	for _, x := range pending {
		x.charged = true
		if !slices.ContainsFunc(q.req.Residents, func(r *Resident) bool { return r.name == x.name }) {
			j.fault("%s is charged for %s, which does not use it", x.name, c.Owner)
		}
	}
	for _, r := range q.req.Residents {
		x := j.residents[r.name]
		if !x.charged {
			j.fault("%s is granted without %s", c.Owner, x.name)
		}
		x.critical = x.critical || own.critical
		own.uses = append(own.uses, r.name)
	}
}

func sum(a, b Bytes) Bytes {
	for p, n := range b {
		a[p] += n
	}
	return a
}

// change is something given back, or moved.
func (j *judge) change(c *Change) {
	own := j.held[c.Owner]
	if own == nil {
		j.fault("%s gives back and holds nothing", c.Owner)
		return
	}
	own.permits += c.Permits
	empty := own.permits == 0
	for _, d := range c.Deltas {
		if (c.Event == Moved) != (d.Bytes.Total() == 0) {
			j.fault("%s: %s", c.Event, c.String())
		}
		own.bytes[d.Account] = sum(own.bytes[d.Account], d.Bytes)
	}
	for account, b := range own.bytes {
		for p, n := range b {
			if n < 0 || own.permits < 0 {
				j.fault("%s holds %d bytes of %v of %s, and %d permits", c.Owner, n, Purpose(p), account, own.permits)
			}
		}
		empty = empty && b == Bytes{}
	}
	if c.Event == Closed {
		if !empty {
			j.fault("%s is closed and holds something", c.Owner)
		}
		delete(j.held, c.Owner)
	}
}

func (j *judge) resident(c *Change) {
	x := j.residents[c.Owner]
	if x == nil {
		j.fault("a resident %s", c.Owner)
		return
	}
	users := 0
	for _, p := range j.held {
		for _, u := range p.uses {
			if u == c.Owner {
				users++
			}
		}
	}
	switch c.Event {
	case Loaded:
		if x.charged {
			j.fault("%s is charged twice", c.Owner)
		}
		for _, d := range c.Deltas {
			if d.Bytes.Total() != x.bytes[d.Account] {
				j.fault("%s: %d bytes", c.String(), x.bytes[d.Account])
			}
		}
		j.pending = append(j.pending, x)
	case Resized:
		for _, d := range c.Deltas {
			x.bytes[d.Account] += d.Bytes.Total()
		}
	case Outgrown:
		x.outgrew = true
	case Unloading:
		x.leaving = true
	case Stuck:
		x.leaving, x.stuck = false, true
	case Unloaded:
		for _, d := range c.Deltas {
			if -d.Bytes.Total() != x.bytes[d.Account] {
				j.fault("%s of %d bytes", c.String(), x.bytes[d.Account])
			}
		}
		if !x.charged {
			j.fault("%s is unloaded twice", c.Owner)
		}
		x.charged, x.critical, x.leaving, x.stuck = false, false, false, false
		if x.outgrew {
			x.outgrew = false
			x.bytes["host"] = j.sizes[c.Owner]
		}
	}
	if (c.Event == Unloading || c.Event == Unloaded) && users > 0 {
		j.fault("%s is %s under %d users", c.Owner, c.Event, users)
	}
}

// compare compares the books, and the budgets.
func (j *judge) compare(c *Change) {
	for i, account := range j.accounts {
		if i >= len(c.Accounts) {
			continue
		}
		a := &c.Accounts[i]
		var want Bytes
		for _, p := range j.held {
			want = sum(want, p.bytes[account])
		}
		for _, r := range j.residents {
			if r.charged {
				want[Key] += r.bytes[account]
			}
		}
		all, critical := j.used(account)
		if a.Reserved != want || a.Total != all || a.Critical != critical {
			j.fault("%s: %s has %s, %d in all, %d critical; the entries are %s, %d, %d", c.String(), account, a.Reserved.String(), a.Total, a.Critical, want.String(), all, critical)
		}
		if all > j.budget[account] || all-critical+max(critical, j.reserve[account]) > j.budget[account] {
			j.fault("%s: %d bytes of %s, %d of them critical, the budget is %d and %d for critical requests", c.String(), all, account, critical, j.budget[account], j.reserve[account])
		}
	}
	all, critical := j.usedPermits()
	if c.PermitsUsed != all || all > j.opts.Permits || all-critical+max(critical, j.opts.ReserveCritical.Permits) > j.opts.Permits {
		j.fault("%s: %d permits are counted, %d are held, %d of them critical, of %d, %d for critical requests", c.String(), c.PermitsUsed, all, critical, j.opts.Permits, j.opts.ReserveCritical.Permits)
	}
	if c.Waiting != len(j.line) {
		j.fault("%s: %d are counted as waiting, %d wait", c.String(), c.Waiting, len(j.line))
	}
}

// quiet is called when nothing happens: then nobody at the front waits for nothing, and nobody has aged unnoticed.
func (j *judge) quiet(l *Ledger, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.line) > 0 && j.fits(j.line[0].req) {
		j.fault("%s is the first in line and fits, and nobody wakes it up", j.line[0].owner)
	}
	for _, q := range j.line {
		if waited := now.Sub(q.since); j.opts.AgeAfter > 0 && q.level < High && waited >= time.Duration(q.level-q.req.Priority+1)*j.opts.AgeAfter {
			j.fault("%s waits %v and counts as %v", q.owner, waited, q.level)
		}
	}
	s := l.Snapshot()
	sums := map[string]Bytes{}
	for _, e := range s.Entries {
		b := sums[e.Account]
		b[e.Purpose] += e.Bytes
		sums[e.Account] = b
		if e.Owner == "" || e.Bytes <= 0 {
			j.fault("an entry %+v", e)
		}
	}
	st := l.Stats()
	for _, a := range append([]AccountStats{st.AccountStats}, st.Devices...) {
		if a.Reserved != sums[a.Name] {
			b := sums[a.Name]
			j.fault("the entries of %s are %s, the sums %s", a.Name, b.String(), a.Reserved.String())
		}
	}
	var owners []string
	for _, w := range s.Line {
		owners = append(owners, w.Owner)
	}
	for i, q := range j.line {
		if i >= len(owners) || owners[i] != q.owner {
			j.fault("the line is %v, and %s stands at %d", owners, q.owner, i)
			break
		}
	}
}

// end is called when everybody has gone.
func (j *judge) end(l *Ledger) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for owner := range j.requests {
		if _, ok := j.answered[owner]; !ok && !j.tooLate[owner] {
			j.fault("%s was never answered", owner)
		}
	}
	if len(j.line) > 0 || len(j.held) > 0 {
		j.fault("at the end %d wait and %d hold something", len(j.line), len(j.held))
	}
	var stuck int64
	n := 0
	for _, r := range j.residents {
		if r.charged && !r.stuck {
			j.fault("%s stays charged", r.name)
		} else if r.stuck {
			n++
			stuck += r.bytes["host"]
		}
	}
	if s := l.Stats(); s.Total != stuck || s.PermitsUsed != 0 || s.Waiting != 0 || s.Grants != 0 || s.Residents != n {
		j.fault("at the end: %+v", s)
	}
}
