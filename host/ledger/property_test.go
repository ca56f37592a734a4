package ledger

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-zk/weir/sdk/errs"
)

// schedules is rapid.Check with n cases; a quarter of them under the race detector, where each costs more, and a fifth (of rapid's own accord) with -short.
func schedules(t *testing.T, n int, f func(*rapid.T)) {
	t.Helper()
	if raceEnabled {
		n /= 4
	}
	checks := flag.Lookup("rapid.checks")
	was := checks.Value.String()
	if was == checks.DefValue { // else somebody asked for another number
		if err := checks.Value.Set(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = checks.Value.Set(was) }()
	}
	rapid.Check(t, f)
}

// plan is one schedule: who asks when for what, how long they keep it, and what goes wrong.
type plan struct {
	opts   Options
	device DeviceOptions // none without a name
	keys   []keyPlan
	jobs   []jobPlan
}

type keyPlan struct {
	size, actual, onDevice int64
	load, unload           time.Duration
	failedUnloads          int // from the first on
}

type jobPlan struct {
	at, patience                       time.Duration
	req                                Request // without devices and residents
	onDevice                           int64
	key                                int // -1: none
	synthesis, proving, pause, finish  time.Duration
	permitFirst, crashes, lost, failed bool // failed: its load fails after it began
}

func drawPlan(t *rapid.T) *plan {
	draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	ms := func(name string, least, most int) time.Duration {
		return time.Duration(draw(name, least, most)) * time.Millisecond
	}
	yes := func(name string, in int) bool { return draw(name, 0, in-1) == 0 }
	p := &plan{opts: Options{Budget: int64(draw("budget", 60, 300)), Permits: draw("permits", 1, 4), AgeAfter: ms("age", 5, 60)}}
	if yes("keeps", 2) {
		p.opts.ReserveCritical = Reserve{Permits: draw("reserved permits", 0, p.opts.Permits-1), Bytes: int64(draw("reserved", 0, 50))}
	}
	if yes("device", 2) {
		p.device = DeviceOptions{Name: "gpu", Budget: int64(draw("device budget", 40, 100)), Reserve: int64(draw("device reserve", 0, 15))}
	}
	for range draw("keys", 0, 3) {
		k := keyPlan{size: int64(draw("size", 1, 60)), load: ms("load", 0, 4), unload: ms("unload", 0, 3)}
		k.actual = max(0, k.size+int64(draw("larger", -20, 10)))
		if p.device.Name != "" {
			k.onDevice = int64(draw("on device", 0, 30))
		}
		if yes("sticks", 12) {
			k.failedUnloads = draw("failures", 1, 2)
		}
		p.keys = append(p.keys, k)
	}
	for i := range draw("jobs", 1, 14) {
		j := jobPlan{at: ms("at", 0, 25), patience: time.Hour, key: draw("key", -1, len(p.keys)-1), synthesis: ms("synthesis", 1, 8), proving: ms("proving", 1, 8), pause: ms("pause", 0, 2), finish: ms("finish", 0, 4),
			permitFirst: yes("permit first", 2), crashes: yes("crashes", 6), lost: yes("lost", 2), failed: yes("fails", 10)}
		j.req = Request{Owner: fmt.Sprint("job", i), Priority: Priority(draw("priority", -1, 2)), Order: uint64(i / 2), Front: yes("front", 8), Permit: draw("permit", 0, 3) > 0}
		for _, what := range []Purpose{Evaluations, Witness, Synthesis, Scratch} {
			j.req.Need[what] = int64(draw("need", 0, 30))
		}
		if p.device.Name != "" {
			j.onDevice = int64(draw("on device", 0, 30))
		}
		if yes("impatient", 4) {
			j.patience = ms("patience", 0, 40)
		}
		if yes("impossible", 20) {
			j.req.Need[Scratch] = p.opts.Budget + 1
		}
		p.jobs = append(p.jobs, j)
	}
	return p
}

// steps are what a job does with the ledger; the table of planted bugs replaces them.
type steps struct {
	prepare func(*Ledger)
	acquire func(context.Context, *Ledger, *judge, Request) (*Grant, error)
	// freed is called when the evaluations are free; the permit goes back after it, or before.
	granted func(*Grant) error
	permit  func(*Grant) error
	close   func(*Grant) error
}

func rightSteps() steps {
	return steps{
		prepare: func(*Ledger) {},
		acquire: func(ctx context.Context, l *Ledger, j *judge, req Request) (*Grant, error) {
			j.ask(&req)
			late := ctx.Err() != nil
			g, err := l.Acquire(ctx, req)
			if late {
				j.mu.Lock()
				defer j.mu.Unlock()
				j.tooLate[req.Owner] = true
			}
			return g, err
		},
		granted: func(*Grant) error { return nil },
		permit:  (*Grant).ReleasePermit,
		close:   (*Grant).Close,
	}
}

// world is a plan under way.
type world struct {
	*plan
	do     steps
	l      *Ledger
	judge  *judge
	device *Account
	keys   []*worldKey
	sets   int // of evaluations alive; guarded by judge.mu
}

type worldKey struct {
	keyPlan
	r       *Resident
	loading chan struct{}
	using   int // guarded by judge.mu
}

// play runs a plan in virtual time and returns the faults that were found. Call it inside of a synctest bubble.
func play(p *plan, do steps) (faults []string, passed int) {
	w := &world{plan: p, do: do, l: New(p.opts), judge: newJudge(p.opts)}
	do.prepare(w.l)
	stop := w.l.Watch(w.judge.tell)
	if p.device.Name != "" {
		w.device = w.l.Device(p.device)
		w.judge.addDevice(p.device)
	}
	for i, k := range p.keys {
		key := &worldKey{keyPlan: k, loading: make(chan struct{}, 1)}
		name, bytes := fmt.Sprint("key", i), map[string]int64{"host": k.size}
		var on []Amount
		if w.device != nil {
			on, bytes["gpu"] = append(on, Amount{w.device, k.onDevice}), k.onDevice
		}
		key.r = w.l.NewResident(name, Key, k.size, func() error { return w.unload(key) }, on...)
		w.judge.addResident(name, bytes, max(k.size, k.actual))
		w.keys = append(w.keys, key)
	}
	var all sync.WaitGroup
	for i := range p.jobs {
		all.Go(func() {
			defer func() {
				if x := recover(); x != nil { // under the tag invariants the ledger finds faults itself
					w.fault("panic: %v", x)
				}
			}()
			w.job(&p.jobs[i])
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for tick := 0; ; tick++ {
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.judge.quiet(w.l, time.Now())
		select {
		case <-done:
		default:
			if tick < 2000 {
				continue
			}
			w.fault("after 2 s some still wait: %d", len(w.judge.line))
			w.l.mu.Lock() // let them go
			for _, x := range w.l.line {
				x.err = errors.New("the test gives up")
				close(x.ready)
			}
			w.l.line = nil
			w.l.mu.Unlock()
			<-done
			stop()
			return w.judge.faults, w.judge.passed
		}
		break
	}
	gone := make(chan struct{}, len(w.keys))
	for _, k := range w.keys {
		k.r.Retire(func() { gone <- struct{}{} })
	}
	for range w.keys {
		<-gone
	}
	synctest.Wait()
	w.judge.end(w.l)
	stop()
	return w.judge.faults, w.judge.passed
}

func (w *world) fault(format string, args ...any) {
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	w.judge.fault(format, args...)
}

func (w *world) must(err error) {
	if err != nil {
		w.fault("%v", err)
	}
}

func (w *world) unload(k *worldKey) error {
	time.Sleep(k.unload)
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	if k.using != 0 {
		w.judge.fault("%s is unloaded under %d users", k.r.name, k.using)
	}
	if k.failedUnloads--; k.failedUnloads >= 0 {
		return errs.New(errs.Internal, "unload", "the plan says so")
	}
	return nil
}

// alive counts sets of evaluations: invariant 2.
func (w *world) alive(n int) {
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	if w.sets += n; w.sets > w.opts.Permits {
		w.judge.fault("%d sets of evaluations are alive, %d permits", w.sets, w.opts.Permits)
	}
}

func (w *world) user(k *worldKey, n int) {
	w.judge.mu.Lock()
	defer w.judge.mu.Unlock()
	k.using += n
}

func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errAgain = errors.New("larger than planned")

// job is the life of a partition as the host has it.
func (w *world) job(p *jobPlan) {
	time.Sleep(p.at)
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	req := p.req
	if p.onDevice > 0 {
		req.Devices = []Part{{Account: w.device, Bytes: Bytes{Scratch: p.onDevice}}}
	}
	var key *worldKey
	if p.key >= 0 {
		key = w.keys[p.key]
		req.Residents = []*Resident{key.r}
	}
	crash, failed := p.crashes, p.failed
	for attempt := 1; ; attempt++ {
		g, err := w.do.acquire(ctx, w.l, w.judge, req)
		if err != nil {
			if !errs.IsOneOf(err, errs.Exhausted, errs.Deadline) {
				w.fault("%s: %v", req.Owner, err)
			}
			return
		}
		w.must(w.do.granted(g))
		h := &held{w: w, p: p, g: g, req: req, key: key}
		err = h.work(ctx, &crash, &failed)
		w.must(h.end())
		if err != errAgain {
			return
		}
		req.Owner = fmt.Sprintf("%s.%d", p.req.Owner, attempt)
		req.Front = true
	}
}

// held is what a job holds.
type held struct {
	w     *world
	p     *jobPlan
	g     *Grant
	req   Request
	key   *worldKey
	inUse bool
	alive bool // the set of evaluations
}

func (h *held) work(ctx context.Context, crash, failed *bool) error {
	w, p := h.w, h.p
	for {
		if h.req.Permit {
			h.alive = true
			w.alive(1)
		}
		if h.key != nil {
			if err := h.load(ctx, failed); err != nil {
				return err
			}
			h.inUse = true
			w.user(h.key, 1)
		}
		if err := pass(ctx, p.synthesis); err != nil {
			return err
		}
		w.must(h.g.ReleaseAll(Synthesis))
		if !*crash {
			break
		}
		*crash = false
		if !h.retry() {
			return errAgain
		}
	}
	if err := pass(ctx, p.proving); err != nil {
		return err
	}
	h.dead()
	back := []func() error{func() error { return h.g.ReleaseAll(Evaluations) }, h.givePermit}
	if p.permitFirst {
		slices.Reverse(back)
	}
	w.must(back[0]())
	w.must(h.g.Move(Witness, Shell))
	if err := pass(ctx, p.pause); err != nil { // others may come between
		return err
	}
	w.must(back[1]())
	return pass(ctx, p.finish)
}

func (h *held) dead() {
	if h.alive {
		h.alive = false
		h.w.alive(-1)
	}
}

func (h *held) givePermit() error {
	if !h.req.Permit {
		return nil
	}
	return h.w.do.permit(h.g)
}

func (h *held) load(ctx context.Context, failed *bool) error {
	k := h.key
	select {
	case k.loading <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.loading }()
	switch {
	case k.r.Loaded():
		return nil
	case k.r.Outgrown():
		return errAgain
	}
	k.r.SetLoading()
	err := pass(ctx, k.load)
	if err == nil && *failed {
		*failed = false
		err = errAgain
	}
	if err != nil {
		return err // and nobody says what became of it
	}
	if !k.r.SetLoaded(k.actual) {
		k.r.SetUnloaded()
		return errAgain
	}
	return nil
}

// leaveKey is the end of a use.
func (h *held) leaveKey() {
	if h.inUse {
		h.inUse = false
		h.w.user(h.key, -1)
	}
}

// retry is what the host does when the backend died: only the witness is kept, and the rest asked for again.
func (h *held) retry() bool {
	w := h.w
	h.leaveKey()
	if h.key != nil && h.p.lost {
		h.key.r.SetUnloaded()
	}
	h.dead()
	more := h.req
	more.Owner += "+"
	more.Front = true
	more.Need[Witness] = 0
	w.judge.ask(&more)
	w.judge.mu.Lock()
	w.judge.into[more.Owner] = h.g.owner
	w.judge.mu.Unlock()
	ok, err := h.g.Exchange([]Purpose{Evaluations, Synthesis, Scratch}, more)
	w.must(err)
	if !ok {
		w.judge.mu.Lock()
		delete(w.judge.requests, more.Owner)
		w.judge.mu.Unlock()
	}
	return ok
}

func (h *held) end() error {
	h.leaveKey()
	h.dead()
	return h.w.do.close(h.g)
}

// Any order of requests, grants, loads, crashes, cancels: the books agree with what is told at every step, budgets and reserves hold, a grant is whole and nobody's who
// stands further back, whoever is first and fits does not wait, everybody is answered once, and at the end nothing is held.
func TestSchedules(t *testing.T) {
	passed := 0
	schedules(t, 2000, func(rt *rapid.T) {
		p := drawPlan(rt)
		var faults []string
		synctest.Test(t, func(*testing.T) {
			var n int
			faults, n = play(p, rightSteps())
			passed += n
		})
		if len(faults) > 0 {
			rt.Fatalf("%s", faults)
		}
	})
	t.Logf("%d requests passed others", passed)
	if passed == 0 {
		t.Error("nobody passed")
	}
}

// A hundred at once, and room for two: the urgent ones first, the older ones first, never more than two, and what can never fit is refused at once.
func TestAHundredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{Budget: 100, Permits: 2, AgeAfter: -1}
		l, j := New(opts), newJudge(opts)
		stop := l.Watch(j.tell)
		var order []string
		stopOrder := l.Watch(func(c Change) {
			if c.Event == Granted {
				order = append(order, c.Owner)
			}
			if c.Accounts[0].Total > 100 || c.PermitsUsed > 2 {
				t.Error(c.String())
			}
		})
		ask := func(req Request) (*Grant, error) {
			j.ask(&req)
			return l.Acquire(t.Context(), req)
		}
		first, err := ask(Request{Owner: "first", Need: Bytes{Evaluations: 100}})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"first"}
		for _, priority := range []Priority{Critical, High, Normal, Low} {
			for i := range 25 {
				want = append(want, fmt.Sprintf("%v %02d", priority, i))
			}
		}
		var all sync.WaitGroup
		for i := range 100 {
			n := i * 37 % 100 // in any order
			req := Request{Owner: want[1+n], Priority: Critical - Priority(n/25), Order: uint64(n % 25), Permit: true, Need: Bytes{Evaluations: 40, Witness: 10}}
			all.Go(func() {
				g, err := ask(req)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := ask(Request{Owner: "too large", Priority: Critical, Need: Bytes{Evaluations: 101}}); !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "101 bytes: evaluations 101B") {
			t.Errorf("too large: %v", err)
		}
		if s := l.Stats(); s.Waiting != 100 || s.PeakWaiting != 100 {
			t.Errorf("%d wait, %d did", s.Waiting, s.PeakWaiting)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
		synctest.Wait()
		j.end(l)
		stop()
		stopOrder()
		if !slices.Equal(order, want) {
			t.Errorf("granted in the order %v", order)
		}
		if len(j.faults) > 0 {
			t.Error(j.faults)
		}
	})
}
