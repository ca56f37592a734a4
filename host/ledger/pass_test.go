package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The definition of passing, by simulation: whoever passes makes no turn later. A scene is what one ledger holds, and one possible future of it: an order in
// which everything comes back, and who leaves the line when. It knows nothing of the sums that mayPass reasons with.
type scene struct {
	pots      []pot
	residents []*sceneResident
	holders   []*holder // who hold something
	line      []*holder // who wait, in order
	late      map[*holder]int
}

type sceneResident struct {
	r                 *Resident
	in                []int64 // of each pot
	charged, critical bool
	evicting          bool
	next              int64 // outgrown
	refs              int
}

// holder is a grant, or a waiter and what it will hold.
type holder struct {
	name      string
	critical  bool
	chunks    map[string][]int64 // what comes back at once, of each pot
	residents []*sceneResident
	ranks     map[string]float64 // when what comes back; "leave": the line
	holds     bool
}

func (h *holder) own(pots int) []int64 {
	n := make([]int64, pots)
	for _, c := range h.chunks {
		for d := range n {
			n[d] += c[d]
		}
	}
	return n
}

// newScene copies a ledger, of which l.mu is held. seed decides the future.
func newScene(l *Ledger, ahead []*waiter, w *waiter, seed uint64) *scene {
	rnd := rand.New(rand.NewPCG(seed, 5))
	s := &scene{late: map[*holder]int{}}
	for d := range l.pots() {
		s.pots = append(s.pots, *l.pot(d))
	}
	known := map[*Resident]*sceneResident{}
	list := make([]*Resident, 0, len(l.residents))
	for r := range l.residents {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Resident) int { return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.name, b.name)) })
	for _, r := range list {
		x := &sceneResident{r: r, charged: r.charged, critical: r.critical, evicting: r.evicting, next: r.next, in: make([]int64, l.pots())}
		for d := range x.in {
			x.in[d] = r.in(d)
		}
		known[r] = x
		s.residents = append(s.residents, x)
	}
	chunks := func(parts []Part, permit bool) map[string][]int64 {
		m := map[string][]int64{}
		for _, part := range parts {
			for p, n := range part.Bytes {
				if n == 0 {
					continue
				}
				name := Purpose(p).String()
				if m[name] == nil {
					m[name] = make([]int64, l.pots())
				}
				m[name][part.Account.index] += n
			}
		}
		if permit {
			m["permit"] = make([]int64, l.pots())
			m["permit"][0] = 1
		}
		return m
	}
	add := func(name string, critical bool, parts []Part, permit bool, residents []*Resident) *holder {
		h := &holder{name: name, critical: critical, chunks: chunks(parts, permit), ranks: map[string]float64{}}
		for _, r := range residents {
			h.residents = append(h.residents, known[r])
		}
		for _, c := range slices.Sorted(keysOf(h.chunks)) {
			h.ranks[c] = rnd.Float64()
		}
		h.ranks["close"] = rnd.Float64()
		return h
	}
	grants := make([]*Grant, 0, len(l.grants))
	for g := range l.grants {
		grants = append(grants, g)
	}
	slices.SortFunc(grants, func(a, b *Grant) int { return cmp.Compare(a.owner, b.owner) })
	for _, g := range grants {
		h := add(g.owner, g.critical, g.parts, g.permit, g.residents)
		h.holds = true
		for _, x := range h.residents {
			x.refs++
		}
		s.holders = append(s.holders, h)
	}
	for _, x := range s.residents {
		switch {
		case x.evicting:
			s.holders = append(s.holders, &holder{name: x.r.name, holds: true, residents: []*sceneResident{x}, ranks: map[string]float64{"evicted": rnd.Float64()}})
		case x.charged && x.r.state != loaded:
			s.holders = append(s.holders, shrinks(x, rnd))
		}
	}
	for _, a := range ahead {
		h := add(a.Owner, a.critical(), a.parts, a.Permit, a.Residents)
		if rnd.IntN(4) == 0 {
			h.ranks["leave"] = rnd.Float64()
		}
		s.line = append(s.line, h)
		for _, x := range h.residents { // brought in by h, perhaps, and then smaller, perhaps
			if !x.charged {
				sh := shrinks(x, rnd)
				sh.holds = false
				s.holders = append(s.holders, sh)
			}
		}
	}
	if w != nil {
		h := add(w.Owner, w.critical(), w.parts, w.Permit, w.Residents)
		h.ranks = nil // it gives back nothing
		s.take(h)
	}
	return s
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// shrinks is the future of a resident that is being loaded: it turns out smaller.
func shrinks(x *sceneResident, rnd *rand.Rand) *holder {
	h := &holder{name: x.r.name, holds: true, residents: []*sceneResident{x}, ranks: map[string]float64{"shrink": rnd.Float64()}, chunks: map[string][]int64{"shrink": make([]int64, len(x.in))}}
	if x.in[1] > 0 && rnd.IntN(2) == 0 {
		h.chunks["shrink"][1] = rnd.Int64N(x.in[1] + 1)
	}
	return h
}

func (s *scene) add(n []int64, sign int64, critical bool) {
	for d := range n {
		s.pots[d].take(sign*n[d], critical)
	}
}

// take gives h what it asks for.
func (s *scene) take(h *holder) {
	for _, x := range h.residents {
		if h.critical && !x.critical {
			x.critical = true
			if x.charged {
				for d := range x.in {
					s.pots[d].critical += x.in[d]
				}
			}
		}
		if !x.charged {
			x.charged = true
			s.add(x.in, 1, x.critical)
			for _, o := range s.holders {
				if o.chunks["shrink"] != nil && o.residents[0] == x {
					o.holds = true
				}
			}
		}
		x.refs++
	}
	s.add(h.own(len(s.pots)), 1, h.critical)
	h.holds = true
	s.holders = append(s.holders, h)
}

// fits reports whether h can be granted, once everything idle that it does not use is evicted, and evicts it.
func (s *scene) fits(h *holder) bool {
	n := h.own(len(s.pots))
	for _, x := range h.residents {
		if x.evicting || x.charged && x.next > 0 {
			return false
		}
		if !x.charged {
			for d := range n {
				n[d] += x.in[d]
			}
		}
	}
	short := func(pots []pot) bool {
		for d := range n {
			if n[d] > 0 && n[d] > pots[d].free(h.critical) {
				return true
			}
		}
		return false
	}
	left := slices.Clone(s.pots)
	var out []*sceneResident
	for _, late := range []bool{false, true} {
		for _, x := range s.residents {
			if short(left) && x.charged && x.refs == 0 && !x.evicting && !slices.Contains(h.residents, x) && (x.critical && !h.critical) == late {
				for d := range left {
					left[d].take(-x.in[d], x.critical)
				}
				out = append(out, x)
			}
		}
	}
	if short(left) {
		return false
	}
	for _, x := range out {
		s.discharge(x)
	}
	return true
}

func (s *scene) discharge(x *sceneResident) {
	s.add(x.in, -1, x.critical)
	x.charged, x.critical, x.evicting = false, false, false
	if x.next > 0 {
		x.in[1], x.next = x.next, 0
	}
}

// run plays the future and returns when each of the line has its turn: the number of the step, or -1 for never.
func (s *scene) run(names []string) map[string]int {
	turns := map[string]int{}
	for _, n := range names {
		turns[n] = -1
	}
	for step := 0; ; step++ {
		for len(s.line) > 0 && s.fits(s.line[0]) {
			h := s.line[0]
			s.line = s.line[1:]
			turns[h.name] = step
			delete(h.ranks, "leave")
			s.take(h)
		}
		var who *holder
		what, rank := "", 2.0
		for _, h := range append(slices.Clone(s.holders), s.line...) {
			for event, r := range h.ranks {
				if (h.holds != (event == "leave")) && r < rank {
					who, what, rank = h, event, r
				}
			}
		}
		if who == nil {
			return turns
		}
		s.happen(who, what)
	}
}

func (s *scene) happen(h *holder, event string) {
	delete(h.ranks, event)
	switch event {
	case "leave":
		s.line = slices.DeleteFunc(s.line, func(o *holder) bool { return o == h })
	case "evicted":
		s.discharge(h.residents[0])
	case "shrink":
		x := h.residents[0]
		if n := h.chunks[event]; x.charged && x.next == 0 && n[1] <= x.in[1] {
			s.add(n, -1, x.critical)
			x.in[1] -= n[1]
		}
	case "close":
		for c := range h.chunks {
			s.add(h.chunks[c], -1, h.critical)
		}
		h.chunks, h.ranks = nil, nil
		for _, x := range h.residents {
			if x.refs--; x.refs == 0 && x.next > 0 {
				s.discharge(x)
			}
		}
	default:
		s.add(h.chunks[event], -1, h.critical)
		delete(h.chunks, event)
	}
}

// delay looks for a future in which w makes somebody ahead wait longer: it says which, or nothing. l.mu is held.
func delay(l *Ledger, w *waiter, ahead []*waiter, seeds uint64) string {
	var names []string
	for _, a := range ahead {
		names = append(names, a.Owner)
	}
	for seed := range seeds {
		without, with := newScene(l, ahead, nil, seed).run(names), newScene(l, ahead, w, seed).run(names)
		for _, n := range names {
			if without[n] != with[n] {
				return fmt.Sprintf("future %d: the turn of %s comes at step %d, and at %d when %s passes", seed, n, without[n], with[n], w.Owner)
			}
		}
	}
	return ""
}

// crowd makes a ledger in which some hold and some wait, from rapid's draws. judge is called when somebody may pass (with l.mu held).
func crowd(t *rapid.T, judge func(l *Ledger, w *waiter, ahead []*waiter, may bool)) {
	draw := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
	opts := Options{Budget: int64(30 + draw("budget", 90)), Permits: 1 + draw("permits", 5), AgeAfter: -1}
	if draw("keeps", 2) == 0 {
		opts.ReserveCritical = Reserve{Permits: draw("reserved permits", min(1, opts.Permits-1)), Bytes: int64(draw("reserved", 25))}
	}
	l := New(opts)
	l.mayPass = func(w *waiter, ahead []*waiter) bool {
		may := l.delaysNobody(w, ahead)
		judge(l, w, ahead, may)
		return may
	}
	var device *Account
	if draw("device", 2) == 0 {
		device = l.Device(DeviceOptions{Name: "gpu", Budget: int64(20 + draw("device budget", 40)), Reserve: int64(draw("device reserve", 10))})
	}
	var keys []*Resident
	for i := range draw("keys", 3) {
		var on []Amount
		if device != nil {
			on = append(on, Amount{device, int64(draw("key on device", 20))})
		}
		keys = append(keys, l.NewResident(fmt.Sprint("key", i), Key, int64(draw("key", 30)), nil, on...))
	}
	id := 0
	request := func() Request {
		id++
		req := Request{Owner: fmt.Sprintf("r%02d", id), Order: uint64(id), Permit: draw("permit", 2) > 0, Front: draw("front", 9) == 0, Priority: Priority(max(0, draw("priority", 5)-3))}
		for _, p := range []Purpose{Evaluations, Witness, Scratch} {
			if draw("has", 1) == 0 {
				req.Need[p] = int64(draw("need", 30))
			}
		}
		if device != nil && draw("on device", 1) == 0 {
			req.Devices = []Part{{Account: device, Bytes: Bytes{Scratch: int64(draw("device need", 20))}}}
		}
		if len(keys) > 0 && draw("key or none", 1) == 0 {
			req.Residents = []*Resident{keys[draw("which", len(keys)-1)]}
		}
		return req
	}
	var waiters []*waiter
	holders := map[*Grant]bool{}
	look := func() { // who has been granted
		for _, w := range waiters {
			if w.grant != nil && !w.grant.closed {
				holders[w.grant] = true
			}
		}
	}
	for range 4 + draw("acts", 16) {
		switch act := draw("act", 9); {
		case act < 5:
			if w, err := l.enter(request()); err == nil {
				waiters = append(waiters, w)
			}
		case act == 5:
			if len(l.line) > 0 {
				l.leave(l.line[draw("leaves", len(l.line)-1)])
			}
		default:
			var list []*Grant
			for g := range holders {
				if !g.closed {
					list = append(list, g)
				}
			}
			if len(list) == 0 {
				continue
			}
			slices.SortFunc(list, func(a, b *Grant) int { return cmp.Compare(a.owner, b.owner) })
			g := list[draw("who", len(list)-1)]
			switch what := draw("what", 5); {
			case what < 2:
				_ = g.ReleaseAll([]Purpose{Evaluations, Scratch}[what])
			case what == 2 && g.permit:
				_ = g.ReleasePermit()
			case what == 3:
				for _, r := range g.residents {
					r.SetLoading()
					r.SetLoaded(r.size + int64(draw("larger", 10)-7))
				}
			default:
				_ = g.Close()
			}
		}
		look()
	}
}

// Whoever is let past others delays none of them, in any future that is tried.
func TestPassingDelaysNobody(t *testing.T) {
	passed, refused, needless := 0, 0, 0
	schedules(t, 2500, func(t *rapid.T) {
		crowd(t, func(l *Ledger, w *waiter, ahead []*waiter, may bool) {
			if !may {
				if refused++; delay(l, w, ahead, 40) == "" {
					needless++
				}
				return
			}
			passed++
			if text := delay(l, w, ahead, 60); text != "" {
				t.Logf("%s", describe(l, w, ahead))
				t.Fatalf("%s", text)
			}
		})
	})
	t.Logf("%d passed; %d did not, and for %d of them no future was found in which it would have mattered", passed, refused, needless)
	if passed == 0 || refused == 0 {
		t.Error("nothing was tried")
	}
}

// A rule that lets anybody pass who fits is found out.
func TestPassingAnybodyIsFoundOut(t *testing.T) {
	found := 0
	schedules(t, 600, func(t *rapid.T) {
		crowd(t, func(l *Ledger, w *waiter, ahead []*waiter, may bool) {
			if !may && delay(l, w, ahead, 60) != "" {
				found++
			}
		})
	})
	if found == 0 {
		t.Error("the simulation finds no delay at all")
	}
}

// hasSum says yes whenever there is such a choice, and no otherwise unless there are very many sums.
func TestHasSum(t *testing.T) {
	schedules(t, 3000, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 40), 0, 10).Draw(t, "sizes")
		least := rapid.Int64Range(-10, 150).Draw(t, "least")
		below := least + rapid.Int64Range(-3, 20).Draw(t, "width")
		want := false
		for choice := range 1 << len(sizes) {
			var sum int64
			for i, n := range sizes {
				if choice>>i&1 == 1 {
					sum += n
				}
			}
			want = want || least <= sum && sum < below
		}
		if got := hasSum(slices.Clone(sizes), least, below); got != want {
			t.Fatalf("%v from %d to less than %d: %t", sizes, least, below, got)
		}
	})
	var many []int64
	for i := range 40 {
		many = append(many, 1<<20+int64(i*i*i))
	}
	if !hasSum(many, 20<<20, 20<<20+1) {
		t.Error("too many sums to tell, and it says no")
	}
	huge := []int64{1<<63 - 1, 1<<63 - 1, 5}
	if hasSum(huge, 6, 1<<63-1) || !hasSum(huge, 4, 6) {
		t.Error("sizes near the end of the numbers")
	}
}

func describe(l *Ledger, w *waiter, ahead []*waiter) string {
	out := ""
	for d := range l.pots() {
		out += fmt.Sprintf("pot %d: %+v\n", d, *l.pot(d))
	}
	for r := range l.residents {
		out += fmt.Sprintf("resident %s in %d %d charged %t critical %t state %d refs %d next %d evicting %t\n", r.name, r.in(1), r.in(2), r.charged, r.critical, r.state, r.refs, r.next, r.evicting)
	}
	for g := range l.grants {
		out += fmt.Sprintf("grant %s critical %t permit %t", g.owner, g.critical, g.permit)
		for _, p := range g.parts {
			out += " " + p.Account.name + " " + p.Bytes.String()
		}
		for _, r := range g.residents {
			out += " " + r.name
		}
		out += "\n"
	}
	for _, x := range append(slices.Clone(ahead), w) {
		out += fmt.Sprintf("line %s %v own %v", x.Owner, x.Priority, x.own)
		for _, r := range x.Residents {
			out += " " + r.name
		}
		out += "\n"
	}
	return out
}
