package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/eventclock"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/plugins/model"
)

// A series of any length keeps its bound, its order, its greatest value and its last one.
func TestSeries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{0, 1, 2, 7, 8, 9, 100, 5000} {
		for _, gap := range []time.Duration{time.Microsecond, 3 * time.Millisecond, 7 * time.Second} {
			s := newSeries(8, func(a, b int) int { return max(a, b) })
			at, top, last := time.Duration(0), 0, 0
			truth := map[time.Duration]int{}
			for range n {
				at += time.Duration(rng.Int64N(int64(gap)))
				last = rng.IntN(1 << 30)
				s.add(at, last)
				top = max(top, last)
				truth[at] = max(truth[at], last)
			}
			if len(s.list) > 8 {
				t.Fatalf("%d values: %d buckets", n, len(s.list))
			}
			points := s.points()
			if n == 0 {
				if len(points) != 0 {
					t.Errorf("empty: %v", points)
				}
				continue
			}
			got := 0
			for i, p := range points {
				got = max(got, p.Value)
				if i > 0 && p.At < points[i-1].At || p.At > at {
					t.Errorf("%d values, %v apart: point %d is at %v, the last value at %v", n, gap, i, p.At, at)
				}
			}
			if got != top || points[len(points)-1].Value != last {
				t.Errorf("%d values, %v apart: peak %d, want %d; last %d, want %d", n, gap, got, top, points[len(points)-1].Value, last)
			}
			for when, v := range truth { // the peak of its own bucket is at least v
				i := slices.IndexFunc(s.list, func(b bucket[int]) bool { return b.at == int64(when/s.step) })
				if i < 0 || s.list[i].peak < v {
					t.Errorf("%d values, %v apart: %d at %v is lost", n, gap, v, when)
				}
			}
		}
	}
}

// What is told late counts for the last bucket.
func TestSeriesLate(t *testing.T) {
	s := newSeries(8, func(a, b int) int { return max(a, b) })
	s.add(5*time.Millisecond, 1)
	s.add(3*time.Millisecond, 9)
	s.add(-time.Hour, 2)
	if got := fmt.Sprint(s.points()); got != "[{5ms 9} {5ms 2}]" {
		t.Error(got)
	}
}

// A lane keeps its bound and the exact time it was busy; long blocks stay apart, short neighbours go together.
func TestLane(t *testing.T) {
	l := &lane{most: 64}
	rng := rand.New(rand.NewPCG(2, 1))
	at, busy, proofs := time.Duration(0), time.Duration(0), 0
	for i := range 100_000 {
		at += time.Duration(rng.Int64N(int64(10 * time.Millisecond)))
		d := time.Duration(rng.Int64N(int64(50 * time.Millisecond)))
		l.add(Block{Begin: at, End: at + d, Stage: []string{"consume", "device"}[i%2], Job: fmt.Sprint("job ", i/2), Proofs: 1, Failed: i == 7})
		at += d
		busy += d
		proofs++
	}
	if len(l.Blocks) > 64 || l.Busy != busy {
		t.Errorf("%d blocks, busy %v, want %v", len(l.Blocks), l.Busy, busy)
	}
	seen, failed := 0, 0
	for i, b := range l.Blocks {
		seen += b.Proofs
		if b.Failed {
			failed++
		}
		if b.End < b.Begin || i > 0 && b.Begin < l.Blocks[i-1].End || b.Proofs > 1 && b.Job != "" {
			t.Errorf("%+v", b)
		}
	}
	if failed != 1 || seen > proofs || seen < proofs/2 {
		t.Errorf("%d failed blocks, %d proofs in blocks, %d were told", failed, seen, proofs)
	}

	long := &lane{most: 4, finest: time.Second}
	for i := range 4 {
		begin := time.Duration(i) * 10 * time.Second
		long.Blocks = append(long.Blocks, Block{Begin: begin, End: begin + 9*time.Second, Stage: "consume", Job: fmt.Sprint(i), Proofs: 1}, Block{Begin: begin + 9*time.Second, End: begin + 9100*time.Millisecond, Stage: "device", Job: fmt.Sprint(i), Proofs: 1})
	}
	long.coarsen()
	if got := fmt.Sprint(long.Blocks[0]); len(long.Blocks) != 4 || got != "{0s 9.1s consume 0 0 1 false}" {
		t.Errorf("%v", long.Blocks)
	}
}

func TestTimes(t *testing.T) {
	var x Times
	if x.Quantiles() != (host.Quantiles{}) || x.Len() != 0 {
		t.Error(x.Quantiles())
	}
	for i := range 20 {
		x.Add(time.Duration(20-i) * time.Second)
	}
	if got := fmt.Sprint(x.Quantiles(), x.Len()); got != "{10.5 10 19} 20" {
		t.Error(got)
	}
	var long Times
	const n = 4 * maxTimes
	for i := range n {
		long.Add(time.Duration(i) * time.Millisecond)
	}
	q := long.Quantiles()
	if len(long.list) != maxTimes || math.Abs(q.Mean-float64(n-1)/2000) > 1e-6 || math.Abs(q.P50/q.Mean-1) > 0.05 || math.Abs(q.P95/q.Mean-1.9) > 0.05 {
		t.Errorf("%d kept, %+v", len(long.list), q)
	}
}

// simulate runs a small simulation that is recorded.
func simulate(t *testing.T, opts Options, failures model.Failures) (*Recording, *host.Simulated) {
	t.Helper()
	p, err := model.LoadProfile("reference")
	if err != nil {
		t.Fatal(err)
	}
	p.Circuits[0].Failures = failures
	r := New(opts)
	s, err := host.Simulate(t.Context(), host.Simulation{Profile: p, Proofs: 2, Concurrency: 2, Seed: 5, Config: host.Config{PartitionWorkers: 6, PermitRelease: host.PermitSent, Listener: r.Listener(), MaxAttempts: 20}})
	if err != nil {
		t.Fatal(err)
	}
	return r.End(eventclock.Epoch.Add(time.Duration(s.Elapsed * float64(time.Second)))), s
}

// The recording has the figures that the engine and the simulation have, found another way.
func TestAgreesWithEngine(t *testing.T) {
	r, s := simulate(t, Options{Spans: 1 << 16}, model.Failures{})
	base := s.EstPeak - r.ReservedPeak
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"synth", int64(r.Peak.Synth), int64(s.SynthPeak)}, {"provers", int64(r.Peak.Provers), int64(s.ProversPeak)}, {"complete", int64(r.CompletePeak), int64(s.ProversDonePeak)},
		{"aux", int64(r.Peak.Aux), int64(s.AuxPeak)}, {"shells", int64(r.Peak.Shells), int64(s.ShellsPeak)}, {"pending", int64(r.Peak.Pending), int64(s.PendingPeak)},
		{"queued", int64(r.Peak.Queued), int64(s.QueuePeak)}, {"permits", int64(r.Peak.Permits), int64(s.PermitsPeak)}, {"buffers", r.BuffersPeak, s.BuffersPeak},
		{"base", base, s.PurposesPeak["base"]}, {"evaluations", r.PurposesPeak[ledger.Evaluations], s.PurposesPeak["evaluations"]}, {"key", r.PurposesPeak[ledger.Key], s.PurposesPeak["key"]},
	} {
		if c.got != c.want || c.got == 0 {
			t.Errorf("%s: %d, the engine says %d", c.what, c.got, c.want)
		}
	}
	if got := r.BusyLanes.Seconds() / s.Elapsed / 2; len(r.Lanes) != 2 || math.Abs(got-s.LaneUtilisation) > 1e-6 || r.FailedOnLanes != 0 {
		t.Errorf("lanes %d, utilisation %v, the simulation says %v", len(r.Lanes), got, s.LaneUtilisation)
	}
	var top int64
	var counts Counts
	for _, p := range r.Memory {
		top = max(top, p.Value.Total())
	}
	for _, p := range r.Counts {
		counts = most(counts, p.Value)
	}
	last := r.Counts[len(r.Counts)-1]
	if top != r.ReservedPeak || counts != r.Peak || last.Value != (Counts{}) || last.At > r.Length {
		t.Errorf("curves: %d bytes of %d, %+v of %+v; at the end %+v", top, r.ReservedPeak, counts, r.Peak, last)
	}
	stages := map[string]int{}
	for _, s := range r.Spans {
		stages[s.Stage]++
	}
	for _, stage := range []string{"admission", "key", "synthesis", "queue", "consume", "device", "finish", "verify"} {
		if stages[stage] != 20 {
			t.Errorf("%d spans of %s, want one for each of 20 partitions", stages[stage], stage)
		}
	}
}

// A recorder that is begun anew forgets what was, and keeps what is.
func TestBegin(t *testing.T) {
	zero := time.Unix(1000, 0)
	r := New(Options{Spans: 4})
	l := r.Listener()
	held := ledger.Bytes{ledger.Key: 70}
	change := func(at time.Time, b ledger.Bytes) {
		l.Ledger(ledger.Change{Time: at, Accounts: []ledger.AccountStats{{Reserved: b, Total: b.Total()}}, Waiting: 1})
	}
	change(zero, ledger.Bytes{ledger.Key: 70, ledger.Witness: 900})
	change(zero, held)
	l.Timeline(host.TimelineInfo{Stage: "consume", Begin: zero, End: zero.Add(time.Second), Backend: "b", Err: errors.New("x")})
	r.Measured(zero, 5)
	if before := r.End(zero.Add(time.Second)); before.ReservedPeak != 970 || before.MeasuredPeak != 5 || before.FailedOnLanes != 1 || len(before.Spans) != 1 || len(before.Lanes) != 1 || before.Length != time.Second {
		t.Errorf("%+v", before)
	}
	r.Begin(zero.Add(10 * time.Second))
	l.Timeline(host.TimelineInfo{Stage: "consume", Begin: zero.Add(8 * time.Second), End: zero.Add(9 * time.Second), Backend: "b"}) // told late
	l.Timeline(host.TimelineInfo{Stage: "consume", Begin: zero.Add(8 * time.Second), End: zero.Add(12 * time.Second), Backend: "b"})
	got := r.End(zero.Add(13 * time.Second))
	if got.ReservedPeak != 70 || got.PurposesPeak != held || got.Peak.Waiting != 1 || got.MeasuredPeak != 0 || got.BusyLanes != 2*time.Second || got.Length != 3*time.Second || got.Memory[0].Value != held {
		t.Errorf("%+v", got)
	}
}

// An hour of small proofs, told in full, takes little memory.
func TestLongRunIsBounded(t *testing.T) {
	r := New(Options{Points: 256, Blocks: 256, Spans: 1000})
	l := r.Listener()
	at := time.Unix(0, 0)
	const proofs = 60_000
	for i := range proofs {
		job := fmt.Sprint("job-", i)
		l.Ledger(ledger.Change{Time: at, Accounts: []ledger.AccountStats{{Reserved: ledger.Bytes{ledger.Evaluations: int64(i)}}}, PermitsUsed: 1})
		l.Buffers(host.BuffersInfo{Time: at, Gauges: host.Gauges{Provers: 1 + i%3}})
		begin := at
		at = at.Add(60 * time.Millisecond)
		l.Timeline(host.TimelineInfo{Job: job, Stage: "consume", Begin: begin, End: at, Backend: "b", Lane: i % 2})
		r.Measured(at, int64(i))
	}
	got := r.End(at)
	if len(got.Memory) > 512 || len(got.Counts) > 512 || len(got.Measured) > 512 || len(got.Lanes) != 2 || len(got.Lanes[0].Blocks) > 256 || len(got.Spans) != 1000 || got.Dropped != proofs-1000 {
		t.Errorf("%d, %d, %d points, %d lanes, %d spans, %d dropped", len(got.Memory), len(got.Counts), len(got.Measured), len(got.Lanes), len(got.Spans), got.Dropped)
	}
	if got.ReservedPeak != proofs-1 || got.Peak.Provers != 3 || got.BusyLanes != got.Length || got.Spans[len(got.Spans)-1].Job != fmt.Sprint("job-", proofs-1) {
		t.Errorf("%d bytes, %+v, busy %v of %v", got.ReservedPeak, got.Peak, got.BusyLanes, got.Length)
	}
}

// What is written is what the trace event format asks for: every event has what its phase needs, nothing overlaps on a thread, what begins also ends.
func TestTrace(t *testing.T) {
	r, s := simulate(t, Options{Spans: 1 << 16}, model.Failures{Prover: 0.2})
	if r.FailedOnLanes != 0 || s.Attempts <= s.Partitions { // it is lost in finish, off the lanes
		t.Fatalf("nothing failed: %+v", s)
	}
	var b bytes.Buffer
	if err := r.WriteTrace(&b); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		DisplayTimeUnit string            `json:"displayTimeUnit"`
		OtherData       map[string]string `json:"otherData"`
		TraceEvents     []struct {
			Name, Cat, Ph, ID string
			TS                *float64
			Dur               *float64
			PID, TID          *int
			Args              map[string]any
		} `json:"traceEvents"`
	}
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc.DisplayTimeUnit != "ms" || doc.OtherData["dropped_spans"] != "0" {
		t.Errorf("%q, %v", doc.DisplayTimeUnit, doc.OtherData)
	}
	type thread struct{ pid, tid int }
	named, until, phases := map[thread]string{}, map[thread]float64{}, map[string]int{}
	open := map[string]float64{}
	failed := 0
	for i, e := range doc.TraceEvents {
		if e.TS == nil || *e.TS < 0 || e.PID == nil || e.TID == nil || e.Name == "" {
			t.Fatalf("event %d: %+v", i, e)
		}
		id := thread{*e.PID, *e.TID}
		phases[e.Ph]++
		switch e.Ph {
		case "M":
			if name, ok := e.Args["name"].(string); ok && e.Name == "thread_name" {
				named[id] = name
			}
		case "X":
			if e.Dur == nil || *e.Dur < 0 || named[id] == "" {
				t.Fatalf("event %d: %+v on %q", i, e, named[id])
			}
			if *e.TS < until[id]-1e-3 {
				t.Errorf("event %d: %s at %v overlaps what ends at %v on %q", i, e.Name, *e.TS, until[id], named[id])
			}
			until[id] = *e.TS + *e.Dur
			if *e.TS+*e.Dur > s.Elapsed*1e6+1 {
				t.Errorf("event %d ends after the run: %+v", i, e)
			}
			if e.Args["failed"] == true {
				failed++
			}
		case "b":
			open[e.ID] = *e.TS
		case "e":
			if begin, ok := open[e.ID]; !ok || begin > *e.TS {
				t.Errorf("event %d ends what has not begun: %+v", i, e)
			}
			delete(open, e.ID)
		case "C":
			for k, v := range e.Args {
				if n, ok := v.(float64); !ok || n < 0 {
					t.Errorf("event %d: counter %s is %v", i, k, v)
				}
			}
		default:
			t.Errorf("event %d: phase %q", i, e.Ph)
		}
	}
	if len(open) > 0 || phases["b"] != s.Attempts || phases["X"] < 9*s.Partitions || phases["C"] == 0 || failed != s.Attempts-s.Partitions {
		t.Errorf("left open: %v; %v; %d failed, %d attempts at %d partitions", open, phases, failed, s.Attempts, s.Partitions)
	}
	if named[thread{traceLanes, 1}] != "model lane 0" || named[thread{traceLanes, 2}] != "model lane 1" || !strings.HasPrefix(named[thread{tracePlaces, 1}], "partition") {
		t.Errorf("%v", named)
	}
	if err := r.WriteTrace(full{}); !errors.Is(err, errFull) {
		t.Errorf("a disk that is full: %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// Each device has its own peaks, from the changes after Begin, and what it has then.
func TestDevices(t *testing.T) {
	at := time.Unix(0, 0)
	r := New(Options{})
	l := r.Listener()
	tell := func(keys, scratch int64) {
		a := ledger.AccountStats{Name: "gpu-1", Budget: 100, Reserved: ledger.Bytes{ledger.Key: keys, ledger.Scratch: scratch}, Total: keys + scratch}
		l.Ledger(ledger.Change{Time: at, Accounts: []ledger.AccountStats{{Name: "host"}, {Name: "gpu-2"}, a, {Name: "gpu-0", Budget: 50, Total: 1}}})
	}
	tell(90, 0)
	tell(20, 0)
	r.Begin(at)
	tell(30, 5)
	tell(10, 20)
	tell(0, 0)
	want := []Device{{Name: "gpu-0", Budget: 50, Peak: 1}, {Name: "gpu-1", Budget: 100, Peak: 35, PurposesPeak: ledger.Bytes{ledger.Key: 30, ledger.Scratch: 20}}}
	if got := r.End(at).Devices; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
