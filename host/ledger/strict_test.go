package ledger

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// lineage is a list of requests in discrete time: when each comes, and when after its grant each of its amounts goes back.
type lineage struct {
	opts   Options
	device DeviceOptions
	keys   []keyPlan
	items  []item // by arrival; nobody stands before who came earlier
}

type item struct {
	at       int
	req      Request
	onDevice int64
	key      int
	back     [3]int // evaluations, scratch, permit
	end      int
}

func drawLine(t *rapid.T) *lineage {
	draw := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	p := &lineage{opts: Options{Budget: int64(draw("budget", 60, 150)), Permits: draw("permits", 1, 6), AgeAfter: -1}}
	if draw("keeps", 0, 2) == 0 {
		p.opts.ReserveCritical = Reserve{Permits: draw("reserved permits", 0, p.opts.Permits-1), Bytes: int64(draw("reserved", 0, 30))}
	}
	if draw("device", 0, 2) == 0 {
		p.device = DeviceOptions{Name: "gpu", Budget: int64(draw("device budget", 40, 100))}
	}
	keys := draw("keys", 0, 3)
	if p.opts.ReserveCritical.Bytes > 0 {
		keys = 0 // one that was evicted earlier lies in the reserve no more, and has to find room outside
	}
	for range keys {
		k := keyPlan{size: int64(draw("size", 1, 30))}
		if p.device.Name != "" {
			k.onDevice = int64(draw("on device", 0, 30))
		}
		p.keys = append(p.keys, k)
	}
	at, priority := 0, Critical
	for i := range draw("items", 3, 20) {
		at += draw("after", 0, 4)
		if priority > Low && draw("less urgent", 0, 3) == 0 {
			priority--
		}
		x := item{at: at, key: draw("key", -1, len(p.keys)-1), end: draw("end", 4, 20)}
		x.req = Request{Owner: fmt.Sprint("r", i), Priority: priority, Order: uint64(i), Permit: draw("permit", 0, 2) > 0}
		for _, what := range []Purpose{Evaluations, Witness, Scratch} {
			if draw("has", 0, 1) == 0 {
				x.req.Need[what] = int64(draw("need", 0, 40))
			}
		}
		for j := range x.back {
			x.back[j] = draw("back", 1, x.end)
		}
		if p.device.Name != "" {
			x.onDevice = int64(draw("on device", 0, 40))
		}
		p.items = append(p.items, x)
	}
	return p
}

// run plays it and returns when each was granted, or -1, and how many passed others.
func (p *lineage) run(prepare func(*Ledger)) (granted []int, passed int) {
	l := New(p.opts)
	prepare(l)
	count := l.mayPass
	l.mayPass = func(w *waiter, ahead []*waiter) bool {
		ok := count(w, ahead)
		if ok {
			passed++
		}
		return ok
	}
	var device *Account
	if p.device.Name != "" {
		device = l.Device(p.device)
	}
	var keys []*Resident
	for i, k := range p.keys {
		var on []Amount
		if device != nil {
			on = append(on, Amount{device, k.onDevice})
		}
		keys = append(keys, l.NewResident(fmt.Sprint("key", i), Key, k.size, nil, on...))
	}
	waiters := make([]*waiter, len(p.items))
	granted = make([]int, len(p.items))
	for i := range granted {
		granted[i] = -1
	}
	look := func(now int) {
		for i, w := range waiters {
			if w != nil && w.grant != nil && granted[i] < 0 {
				granted[i] = now
				for _, r := range w.Residents {
					r.SetLoading()
					r.SetLoaded(r.size)
				}
			}
		}
	}
	last := p.items[len(p.items)-1].at
	for now := 0; now <= last+25*len(p.items); now++ {
		for i := range p.items {
			x := &p.items[i]
			if granted[i] < 0 || waiters[i].grant.closed {
				continue
			}
			g, d := waiters[i].grant, now-granted[i]
			if d == x.back[0] {
				_ = g.ReleaseAll(Evaluations)
				look(now)
			}
			if d == x.back[1] {
				_ = g.ReleaseAll(Scratch)
				look(now)
			}
			if d == x.back[2] && g.permit {
				_ = g.ReleasePermit()
				look(now)
			}
			if d == x.end {
				_ = g.Close()
				look(now)
			}
		}
		for i := range p.items {
			if x := &p.items[i]; x.at == now {
				req := x.req
				if x.key >= 0 {
					req.Residents = []*Resident{keys[x.key]}
				}
				if x.onDevice > 0 {
					req.Devices = []Part{{Account: device, Bytes: Bytes{Scratch: x.onDevice}}}
				}
				waiters[i], _ = l.enter(req) // or refused
				look(now)
			}
		}
	}
	return granted, passed
}

// later is the first who is granted later than in strict order, or -1.
func later(strict, got []int) int {
	for i := range strict {
		if got[i] != strict[i] && (got[i] < 0 || strict[i] >= 0 && got[i] > strict[i]) {
			return i
		}
	}
	return -1
}

// Passing makes nobody later than strict order does, whoever he is, where nobody comes later and stands further in front.
func TestNobodyIsLaterThanInStrictOrder(t *testing.T) {
	passed, earlier := 0, 0
	schedules(t, 2500, func(t *rapid.T) {
		p := drawLine(t)
		strict, _ := p.run(func(l *Ledger) { l.mayPass = func(*waiter, []*waiter) bool { return false } })
		got, n := p.run(func(*Ledger) {})
		passed += n
		if i := later(strict, got); i >= 0 {
			t.Fatalf("%s is granted at %d, in strict order at %d", p.items[i].req.Owner, got[i], strict[i])
		}
		if !slices.Equal(strict, got) {
			earlier++
		}
	})
	t.Logf("%d passed, and in %d schedules somebody was earlier", passed, earlier)
	if passed == 0 || earlier == 0 {
		t.Error("nobody passed")
	}
}
