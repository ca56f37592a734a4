package ledger

import (
	"sort"
	"testing"

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

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1: "1B", 512: "512B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 96 << 20: "96MiB", 141 << 30: "141GiB",
		3 << 29: "1.5GiB", 256 << 30: "256GiB", 1 << 40: "1TiB", -2048: "-2KiB", 1<<63 - 1: "8EiB", -1 << 63: "-8EiB"} {
		if got := Size(n).String(); got != want {
			t.Errorf("%d is printed as %s, want %s", n, got, want)
		}
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
