package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
)

// Scripts of a queue, where waiting counts after 10 minutes: +name:priority enters, -name leaves (out of the line, or with its lane), ~time passes. After each: lanes, then who is inside, then who is parked.
func TestLaneQueue(t *testing.T) {
	for _, tc := range []struct {
		name        string
		lanes, room int
		parks       bool
		script      string
		want        string
	}{
		{"in order", 1, 3, false, "+a +b +c -a -b -c", "a@0||; a@0|b|; a@0|b c|; b@0|c|; c@0||; ||"},
		{"urgent first", 1, 4, false, "+a +b +c:2 +d:1 -a -c -d", "a@0||; a@0|b|; a@0|c b|; a@0|c d b|; c@0|d b|; d@0|b|; b@0||"},
		{"lanes, the lowest first", 2, 3, false, "+a +b +c -b -c -a +d", "a@0||; a@0 b@1||; a@0 b@1|c|; a@0 c@1||; a@0||; ||; d@0||"},
		{"given up while waiting", 1, 3, false, "+a +b +c -b -a", "a@0||; a@0|b|; a@0|b c|; a@0|c|; c@0||"},
		{"full is a fault where permits are held", 1, 1, false, "+a +b +c", "a@0||; a@0|b|; error"},
		{"parked outside", 1, 1, true, "+a +b +c +d -a -b", "a@0||; a@0|b|; a@0|b|c; a@0|b|c d; b@0|c|d; c@0|d|"},
		{"urgent parked, let in first", 1, 1, true, "+a +b +c +d:2 -a -b", "a@0||; a@0|b|; a@0|b|c; a@0|b|d c; b@0|d|c; d@0|c|"},
		{"who has waited long is not overtaken for ever", 1, 4, false, "+a +b:-1 +c:1 ~19m +d:1 -a ~1m +e:1 -c -b",
			"a@0||; a@0|b|; a@0|c b|; a@0|c b|; a@0|c d b|; c@0|d b|; c@0|d b|; c@0|b d e|; b@0|d e|; d@0|e|"},
		{"but by the critical", 1, 4, false, "+a +b ~2h +c:1 +d:2 -a -d", "a@0||; a@0|b|; a@0|b|; a@0|b c|; a@0|d b c|; d@0|b c|; b@0|c|"},
		{"parked and given up", 1, 1, true, "+a +b +c -c -b -a", "a@0||; a@0|b|; a@0|b|c; a@0|b|; a@0||; ||"},
	} {
		test := func(t *testing.T) {
			q := newLaneQueue(tc.lanes, tc.room, tc.parks, systemClock{}, 10*time.Minute)
			all := map[*laneWaiter]string{}
			by := map[string]*laneWaiter{}
			var got []string
			for i, word := range strings.Fields(tc.script) {
				name, prio, _ := strings.Cut(word[1:], ":")
				switch word[0] {
				case '~':
					d, err := time.ParseDuration(word[1:])
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(d)
				case '-':
					q.leave(by[name])
					delete(all, by[name])
				default:
					var p int
					_, _ = fmt.Sscan(prio, &p)
					w, err := q.enter(ledger.Priority(p), false, uint64(i))
					if err != nil {
						if !errs.Is(err, errs.Internal) {
							t.Error(err)
						}
						got = append(got, "error")
						continue
					}
					all[w], by[name] = name, w
				}
				var lanes, inside, parked []string
				for lane := range tc.lanes {
					for w, name := range all {
						if w.lane == lane {
							lanes = append(lanes, fmt.Sprintf("%s@%d", name, lane))
						}
					}
				}
				for _, w := range q.line {
					if w.inside {
						inside = append(inside, all[w])
					} else {
						parked = append(parked, all[w])
					}
				}
				got = append(got, strings.Join(lanes, " ")+"|"+strings.Join(inside, " ")+"|"+strings.Join(parked, " "))
			}
			if g := strings.Join(got, "; "); g != tc.want {
				t.Errorf("got  %s\nwant %s", g, tc.want)
			}
		}
		t.Run(tc.name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// How many sets of evaluations are alive depends on when a permit is given back: never more than the permits, than permits and room and lanes, or only the memory's.
func TestPermitRelease(t *testing.T) {
	for _, tc := range []struct {
		release     string
		least, most int // 12 jobs, 3 permits, 1 lane, proving much slower than synthesis
	}{
		{PermitFreed, 3, 3},
		{PermitSent, 4, 3 + 3 + 1},
		{PermitSynthesized, 12, 12},
	} {
		t.Run(tc.release, func(t *testing.T) {
			w := newWorld(t)
			w.synthTime, w.proveTime = w.proveTime, 100*w.proveTime
			key := w.key("k", 4, 10, 1)
			synctest.Test(t, func(t *testing.T) {
				s := w.synth()
				e, seen := w.start(Config{PartitionWorkers: 3, PermitRelease: tc.release}, s, w.prover("p", 1))
				var list []int
				for i := range 12 {
					list = append(list, i+1)
				}
				seen.permits = tc.most
				r, err := e.Prove(context.Background(), w.job("", key, list...))
				if err != nil {
					t.Fatal(err)
				}
				w.right(key, r, list...)
				if n := seen.most.Provers; n < tc.least || n > tc.most {
					t.Errorf("%d sets of evaluations were alive, expected %d to %d", n, tc.least, tc.most)
				}
				w.finish(e, s)
			})
		})
	}
}
