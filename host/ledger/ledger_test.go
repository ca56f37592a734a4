package ledger

import (
	"context"
	"math"
	"math/big"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-zk/weir/sdk/errs"
)

func TestExactlyOnce(t *testing.T) {
	l := New(Options{Budget: 100, Permits: 1})
	get := func() *Grant {
		g, ok := l.TryAcquire(Request{Owner: "x", Permit: true, Need: Bytes{Evaluations: 60, Witness: 40}})
		if !ok {
			t.Fatal("not granted")
		}
		return g
	}
	// fails runs f, which is a bookkeeping fault: an error, or a panic under invariants.
	fails := func(name string, f func() error) {
		t.Helper()
		defer func() {
			if p := recover(); (p != nil) != invariants {
				t.Errorf("%s: panic %v", name, p)
			}
		}()
		if err := f(); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := get()
	if err := g.ReleasePermit(); err != nil {
		t.Fatal(err)
	}
	fails("permit twice", g.ReleasePermit)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	fails("close twice", g.Close)
	fails("release after close", func() error { return g.ReleaseAll(Witness) })
	fails("move after close", func() error { return g.Move(Witness, Shell) })
	if s := l.Stats(); s.Total != 0 || s.PermitsUsed != 0 {
		t.Errorf("%+v", s)
	}
	if err := get().Close(); err != nil {
		t.Fatal(err)
	}
}

// Whoever gives back and takes in one step gets what it gives back, though somebody waits for it; where one in front fits then, or it is too much, nothing has changed.
func TestExchange(t *testing.T) {
	for _, tc := range []struct {
		name       string
		front      bool
		need       Bytes
		other      Priority
		ok, atOnce bool // and whether the other is granted at the end of it
	}{
		{"as much", true, Bytes{Evaluations: 60}, Normal, true, false},
		{"less, and the rest is for others", true, Bytes{Evaluations: 10}, Normal, true, true},
		{"more", true, Bytes{Evaluations: 61}, Normal, false, false},
		{"behind one that fits then", true, Bytes{Evaluations: 60}, High, false, false},
		{"behind, by age", false, Bytes{Evaluations: 60}, Normal, false, false},
		{"more than there can be", true, Bytes{Evaluations: 101}, Normal, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := New(Options{Budget: 100, Permits: 1, AgeAfter: -1})
			unloads := 0
			old, young := l.NewResident("old", Key, 5, func() error { unloads++; return nil }), l.NewResident("young", Key, 5, nil)
			g, err := l.Acquire(t.Context(), Request{Owner: "g", Order: 9, Permit: true, Need: Bytes{Evaluations: 40, Scratch: 15, Witness: 40}, Residents: []*Resident{old}})
			if err != nil {
				t.Fatal(err)
			}
			w, err := l.enter(Request{Owner: "other", Priority: tc.other, Order: 1, Need: Bytes{Evaluations: 45}})
			if err != nil {
				t.Fatal(err)
			}
			before := l.Snapshot()
			more := Request{Owner: "g again", Order: 9, Front: tc.front, Permit: true, Need: tc.need, Residents: []*Resident{old}}
			if tc.need.Total() < 60 {
				more.Residents = []*Resident{young}
			} else {
				more.Need[Evaluations] -= 5
			}
			ok, err := g.Exchange([]Purpose{Evaluations, Scratch}, more)
			if err != nil || ok != tc.ok || (w.grant != nil) != tc.atOnce {
				t.Errorf("%t, %v; the other: %v", ok, err, w.grant)
			}
			if !ok {
				if after := l.Snapshot(); !reflect.DeepEqual(before, after) {
					t.Errorf("it was %+v and is %+v", before, after)
				}
			}
			if s := l.Stats(); ok && s.Reserved != (Bytes{Evaluations: more.Need[Evaluations] + 45*int64(one(tc.atOnce)), Witness: 40, Key: s.Reserved[Key]}) || s.PermitsUsed != 1 || s.PeakTotal != 100 {
				t.Errorf("%+v", s)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
			<-w.ready
			if err := w.grant.Close(); err != nil {
				t.Error(err)
			}
			if s := l.Stats(); s.Total != s.Reserved[Key] || s.PermitsUsed != 0 || s.Grants != 0 || s.Waiting != 0 {
				t.Errorf("left: %+v", s)
			}
			if invariants {
				return
			}
			if _, err := g.Exchange(nil, more); !errs.Is(err, errs.Internal) {
				t.Errorf("after it was closed: %v", err)
			}
		})
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A grant takes over another: amounts, permit, keys, and memory of devices it had none of.
func TestAbsorb(t *testing.T) {
	l := New(Options{Budget: 100, Permits: 2})
	gpu := l.Device(DeviceOptions{Name: "gpu", Budget: 50})
	key := l.NewResident("key", Key, 7, nil)
	get := func(req Request) *Grant {
		t.Helper()
		g, ok := l.TryAcquire(req)
		if !ok {
			t.Fatalf("%s is not granted", req.Owner)
		}
		return g
	}
	g := get(Request{Owner: "g", Need: Bytes{Witness: 10}})
	o := get(Request{Owner: "o", Permit: true, Need: Bytes{Witness: 1, Evaluations: 20}, Devices: []Part{{gpu, Bytes{Scratch: 30}}}, Residents: []*Resident{key}})
	if err := g.Absorb(o); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Reserved != (Bytes{Witness: 11, Evaluations: 20, Key: 7}) || s.Devices[0].Total != 30 || s.PermitsUsed != 1 || s.Grants != 1 {
		t.Errorf("%+v", s)
	}
	if !invariants { // where these panic
		for name, o := range map[string]*Grant{
			"itself": g, "what is gone": o, "a second permit": get(Request{Owner: "p", Permit: true}), "another priority": get(Request{Owner: "c", Priority: Critical}),
		} {
			if err := g.Absorb(o); !errs.Is(err, errs.Internal) {
				t.Errorf("%s: %v", name, err)
			}
			if !o.closed && o != g {
				if err := o.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if err := g.Move(Scratch, Scratch); err != nil {
		t.Error(err)
	}
	if err := g.ReleaseAll(Scratch); err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s.Devices[0].Total != 0 || s.Total != 38 {
		t.Errorf("%+v", s)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	gone := make(chan struct{}, 2)
	key.Retire(func() { gone <- struct{}{} })
	key.Retire(func() { t.Error("retired twice") })
	<-gone
	if s := l.Stats(); s.Total != 0 || s.PermitsUsed != 0 || s.Grants != 0 || s.Residents != 0 {
		t.Errorf("at the end: %+v", s)
	}
}

// Canceled while it is granted: either it holds all, or nothing is held.
func TestCanceledWhileGranted(t *testing.T) {
	l := New(Options{Budget: 10, Permits: 1})
	granted := 0
	for range 2000 {
		g, ok := l.TryAcquire(Request{Owner: "first", Permit: true, Need: Bytes{Witness: 10}})
		if !ok {
			t.Fatal("not everything was given back")
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *Grant)
		go func() {
			g, err := l.Acquire(ctx, Request{Owner: "second", Permit: true, Need: Bytes{Witness: 10}})
			if (err == nil) != (g != nil) || err != nil && !errs.Is(err, errs.Canceled) {
				t.Errorf("%v, %v", g, err)
			}
			got <- g
		}()
		for l.Stats().Waiting == 0 {
			runtime.Gosched()
		}
		cancel()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if g := <-got; g != nil {
			granted++
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Logf("%d of 2000 were granted", granted)
	if _, ok := l.TryAcquire(Request{Owner: "too large", Need: Bytes{Witness: 11}}); ok {
		t.Error("granted what does not fit")
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1: "1B", 512: "512B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 96 << 20: "96MiB", 141 << 30: "141GiB",
		3 << 29: "1.5GiB", 256 << 30: "256GiB", 1 << 40: "1TiB", -2048: "-2KiB", 1<<63 - 1: "8EiB", -1 << 63: "-8EiB", 1<<20 - 1: "1MiB", 10<<20 - 1: "10MiB"} {
		if got := Size(n).String(); got != want {
			t.Errorf("%d is printed as %s, want %s", n, got, want)
		}
	}
}

// A budget that is none is called so, and refuses nothing that can be counted; sums that cannot be counted fit nowhere, and harm nobody.
func TestNoBudget(t *testing.T) {
	for b, want := range map[Budget]string{NoBudget: "none", 256 << 30: "256GiB", 0: "0B"} {
		if got := b.String(); got != want {
			t.Errorf("a budget of %d is printed as %s, want %s", int64(b), got, want)
		}
	}
	l := New(Options{Budget: NoBudget, Permits: 2})
	big := Request{Owner: "big", Need: Bytes{Evaluations: math.MaxInt64 - 10}}
	g, ok := l.TryAcquire(big)
	if !ok {
		t.Fatal("not granted")
	}
	if o, ok := l.TryAcquire(Request{Owner: "rest", Need: Bytes{Witness: 10}}); !ok {
		t.Error("what is left is not granted")
	} else if err := o.Close(); err != nil {
		t.Error(err)
	}
	key := l.NewResident("key", Key, math.MaxInt64-5, nil)
	for _, req := range []Request{
		{Owner: "sum", Need: Bytes{Evaluations: math.MaxInt64 / 2, Witness: math.MaxInt64 / 2, Scratch: 2}},
		{Owner: "all", Need: Bytes{Evaluations: math.MaxInt64, Witness: math.MaxInt64}},
		{Owner: "with its key", Need: Bytes{Evaluations: 6}, Residents: []*Resident{key}},
	} {
		_, err := l.Acquire(t.Context(), req)
		if !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "at most the budget of none") {
			t.Errorf("%s: %v", req.Owner, err)
		}
	}
	// One that fits alone waits, and is granted when the other is back.
	w, err := l.enter(Request{Owner: "later", Need: Bytes{Scratch: math.MaxInt64 - 7}})
	if err != nil || w.grant != nil {
		t.Fatalf("%v, %v", w, err)
	}
	if _, ok := l.TryAcquire(Request{Owner: "small", Need: Bytes{Scratch: 8}}); ok {
		t.Error("it would be in the way of the one who waits")
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if w.grant == nil {
		t.Fatal("still not granted")
	}
	if err := w.grant.Close(); err != nil {
		t.Fatal(err)
	}
	l.opts.Idle = func() int64 { return 7 }
	if s := l.Stats(); s.Total != 0 || s.PeakTotal != math.MaxInt64 || s.Idle != 7 {
		t.Errorf("%+v", s)
	}
}

func TestPlus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		want := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		if !want.IsInt64() {
			if want = big.NewInt(math.MaxInt64); a < 0 {
				want = big.NewInt(math.MinInt64)
			}
		}
		if got := plus(a, b); got != want.Int64() {
			t.Fatalf("%d + %d = %d", a, b, got)
		}
	})
}

// What no caller should ask for is an error, and leaves nothing behind.
func TestAsksForNonsense(t *testing.T) {
	l, other := New(Options{Budget: 100, Permits: 1}), New(Options{Budget: 100, Permits: 1})
	gpu := l.Device(DeviceOptions{Name: "gpu", Budget: 100})
	foreign := other.Device(DeviceOptions{Name: "gpu", Budget: 100})
	for name, req := range map[string]Request{
		"less than nothing":             {Need: Bytes{Witness: -1}},
		"less than nothing on a device": {Devices: []Part{{gpu, Bytes{Scratch: -1}}}},
		"a device of another ledger":    {Devices: []Part{{foreign, Bytes{Scratch: 1}}}},
		"no device":                     {Devices: []Part{{nil, Bytes{Scratch: 1}}}},
		"a device twice":                {Devices: []Part{{gpu, Bytes{Scratch: 1}}, {gpu, Bytes{Scratch: 1}}}},
		"the host as a device":          {Devices: []Part{{l.Host(), Bytes{Scratch: 1}}}},
		"a resident of another ledger":  {Residents: []*Resident{other.NewResident("key", Key, 1, nil)}},
	} {
		if _, err := l.Acquire(t.Context(), req); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := l.Stats(); s.Total != 0 || s.Waiting != 0 || s.Grants != 0 {
		t.Errorf("%+v", s)
	}
}

func TestNames(t *testing.T) {
	for _, p := range []Priority{Low, Normal, High, Critical} {
		if q, err := ParsePriority(p.String()); err != nil || q != p {
			t.Errorf("%v: %v, %v", p, q, err)
		}
	}
	if _, err := ParsePriority("urgent"); !errs.Is(err, errs.InvalidArgument) {
		t.Error(err)
	}
	var all []string
	for p := range NumPurposes {
		all = append(all, p.String())
	}
	sort.Strings(all)
	for i, s := range all {
		if s == "" || i > 0 && s == all[i-1] {
			t.Errorf("purposes %v", all)
		}
	}
}
