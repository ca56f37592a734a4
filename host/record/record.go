// Package record listens to an engine and keeps what it did, over time and in bounded memory: the account by purpose, the counters of the BUFFERS lines, what waits, what every lane
// did, what the system measured. A run of seconds is kept event by event; of a long one short moments are put together, without losing a peak (series.go, lanes.go). The recording
// can be drawn (package plots) and written as a trace (trace.go).
package record

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
)

// Options of a Recorder.
type Options struct {
	// Points is how many moments of each curve are kept, Blocks how many of each lane. Default, 0, is 1024: about what a picture has columns.
	Points, Blocks int
	// Spans is how many steps of partitions are kept for a trace: the last ones. 0: none.
	Spans int
}

// Counts are what the engine has of each kind.
type Counts struct {
	Synth   int // partitions being synthesised
	Provers int // sets of evaluations, from the start of their synthesis
	Aux     int // witnesses, shells included
	Shells  int // witnesses whose evaluations are gone
	Pending int // proofs between the device and the end of their check
	Queued  int // synthesised partitions that wait for a lane
	Waiting int // requests that wait for memory, a permit or a key
	Permits int // in use
}

// most is each one's own peak.
func most(a, b Counts) Counts {
	return Counts{max(a.Synth, b.Synth), max(a.Provers, b.Provers), max(a.Aux, b.Aux), max(a.Shells, b.Shells), max(a.Pending, b.Pending), max(a.Queued, b.Queued), max(a.Waiting, b.Waiting), max(a.Permits, b.Permits)}
}

// larger is the moment of the greater sum.
func larger(a, b ledger.Bytes) ledger.Bytes {
	if b.Total() > a.Total() {
		return b
	}
	return a
}

// Span is one step of a partition.
type Span struct {
	Job                string
	Partition, Attempt int
	Stage              string        // as host.TimelineInfo has it
	Begin, End         time.Duration // since the beginning
	Backend            string
	Lane               int // -1: none
	Failed             bool
}

// Device is the account of a device's memory.
type Device struct {
	Name         string
	Budget       int64
	Peak         int64        // bytes
	PurposesPeak ledger.Bytes // each one's own
}

// Recording is what was kept. Times are since the beginning.
type Recording struct {
	Length   time.Duration
	Memory   []Point[ledger.Bytes] // the host's account by purpose
	Counts   []Point[Counts]
	Measured []Point[int64] // bytes, as Measured was told
	Lanes    []Lane         // by backend and number
	Spans    []Span         // by beginning
	Dropped  int            // earlier spans that were not kept

	Peak          Counts       // each one's own
	CompletePeak  int          // sets of evaluations whose synthesis has ended
	BuffersPeak   int64        // bytes of live buffers: est of the BUFFERS lines
	ReservedPeak  int64        // bytes of the host's account
	PurposesPeak  ledger.Bytes // each one's own
	Devices       []Device     // by name, those that something was charged of
	MeasuredPeak  int64
	NbMeasured    int
	FirstOnLane   time.Duration // when a lane had its first proof
	LastOffLane   time.Duration // when the last one left
	BusyLanes     time.Duration // of all lanes
	FailedOnLanes int           // proofs that were begun and lost
}

// Recorder collects. Methods are safe for concurrent use.
type Recorder struct {
	opts Options

	mu       sync.Mutex
	begun    bool
	zero     time.Time
	counts   Counts                // now
	account  ledger.Bytes          // now
	devices  []ledger.AccountStats // now
	est      int64                 // now: bytes of live buffers
	out      Recording             // peaks
	memory   series[ledger.Bytes]
	curve    series[Counts]
	measured series[int64]
	lanes    map[laneID]*lane
	spans    []Span // a ring once it is full
	next     int    // in the ring
}

type laneID struct {
	backend string
	lane    int
}

// New makes an empty recorder. The recording begins with the first event, or anew with Begin.
func New(opts Options) *Recorder {
	if opts.Points <= 0 {
		opts.Points = 1024
	}
	if opts.Blocks <= 0 {
		opts.Blocks = 1024
	}
	r := &Recorder{opts: opts}
	r.reset()
	return r
}

func (r *Recorder) reset() {
	r.out = Recording{FirstOnLane: -1}
	r.memory, r.curve, r.measured = newSeries(r.opts.Points, larger), newSeries(r.opts.Points, most), newSeries(r.opts.Points, func(a, b int64) int64 { return max(a, b) })
	r.lanes, r.spans, r.next = map[laneID]*lane{}, nil, 0
}

// Begin forgets what was recorded and begins at a time; what the engine has then it keeps.
func (r *Recorder) Begin(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reset()
	r.zero, r.begun = at, true
	r.note(at, func() {})
	r.charged(at)
	r.out.BuffersPeak = r.est
}

// since is the time of the recording. r.mu is held.
func (r *Recorder) since(at time.Time) time.Duration {
	if !r.begun {
		r.zero, r.begun = at, true
	}
	return at.Sub(r.zero)
}

// note applies a change of the counts. r.mu is held.
func (r *Recorder) note(at time.Time, change func()) {
	change()
	r.curve.add(r.since(at), r.counts)
	r.out.Peak = most(r.out.Peak, r.counts)
	r.out.CompletePeak = max(r.out.CompletePeak, r.counts.Provers-r.counts.Synth)
}

// Listener is what the engine tells. It does not block.
func (r *Recorder) Listener() *host.Listener {
	return &host.Listener{Buffers: r.buffers, Timeline: r.timeline, Ledger: r.ledger}
}

func (r *Recorder) buffers(i host.BuffersInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(i.Time, func() {
		c := &r.counts
		c.Synth, c.Provers, c.Aux, c.Shells, c.Pending = i.Synth, i.Provers, i.Aux, i.Shells, i.Pending
	})
	r.est = i.Est
	r.out.BuffersPeak = max(r.out.BuffersPeak, r.est)
}

func (r *Recorder) ledger(c ledger.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(c.Time, func() { r.counts.Waiting, r.counts.Permits = c.Waiting, c.PermitsUsed })
	r.account, r.devices = c.Accounts[0].Reserved, c.Accounts[1:]
	r.charged(c.Time)
}

// charged notes what the account has. r.mu is held.
func (r *Recorder) charged(at time.Time) {
	r.memory.add(r.since(at), r.account)
	r.out.ReservedPeak = max(r.out.ReservedPeak, r.account.Total())
	for p, n := range r.account {
		r.out.PurposesPeak[p] = max(r.out.PurposesPeak[p], n)
	}
	for i := range r.devices {
		r.onDevice(&r.devices[i])
	}
}

func (r *Recorder) onDevice(a *ledger.AccountStats) {
	i, known := slices.BinarySearchFunc(r.out.Devices, a.Name, func(d Device, name string) int { return cmp.Compare(d.Name, name) })
	if !known {
		if a.Total == 0 {
			return
		}
		r.out.Devices = slices.Insert(r.out.Devices, i, Device{Name: a.Name})
	}
	d := &r.out.Devices[i]
	d.Budget, d.Peak = a.Budget, max(d.Peak, a.Total)
	for p, n := range a.Reserved {
		d.PurposesPeak[p] = max(d.PurposesPeak[p], n)
	}
}

func (r *Recorder) timeline(i host.TimelineInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i.Stage == "queue" {
		if i.Start {
			r.note(i.Begin, func() { r.counts.Queued++ })
		} else {
			r.note(i.End, func() { r.counts.Queued-- })
		}
	}
	if i.Start {
		r.since(i.Begin)
		return
	}
	end := r.since(i.End)
	s := Span{Job: i.Job, Partition: i.Partition, Attempt: i.Attempt, Stage: i.Stage, Begin: max(r.since(i.Begin), 0), End: end, Backend: i.Backend, Lane: i.Lane, Failed: i.Err != nil}
	if end < 0 {
		return // it ended before the beginning, and was told late
	}
	if s.Lane >= 0 {
		r.onLane(&s)
	}
	switch {
	case r.opts.Spans <= 0:
	case len(r.spans) < r.opts.Spans:
		r.spans = append(r.spans, s)
	default:
		r.spans[r.next] = s
		r.next = (r.next + 1) % len(r.spans)
		r.out.Dropped++
	}
}

func (r *Recorder) onLane(s *Span) {
	id := laneID{s.Backend, s.Lane}
	l := r.lanes[id]
	if l == nil {
		l = &lane{Lane: Lane{Backend: s.Backend, Lane: s.Lane}, most: r.opts.Blocks}
		r.lanes[id] = l
	}
	l.add(Block{Begin: s.Begin, End: s.End, Stage: s.Stage, Job: s.Job, Partition: s.Partition, Proofs: 1, Failed: s.Failed})
	if r.out.FirstOnLane < 0 || s.Begin < r.out.FirstOnLane {
		r.out.FirstOnLane = s.Begin
	}
	r.out.LastOffLane = max(r.out.LastOffLane, s.End)
	r.out.BusyLanes += s.End - s.Begin
	if s.Failed {
		r.out.FailedOnLanes++
	}
}

// Measured notes how much memory the system says that the engine takes.
func (r *Recorder) Measured(at time.Time, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured.add(r.since(at), bytes)
	r.out.MeasuredPeak = max(r.out.MeasuredPeak, bytes)
	r.out.NbMeasured++
}

// End is the recording up to a time. The recorder may go on.
func (r *Recorder) End(at time.Time) *Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.out
	out.Devices = slices.Clone(r.out.Devices)
	out.Length = max(r.since(at), 0)
	out.Memory, out.Counts, out.Measured = r.memory.points(), r.curve.points(), r.measured.points()
	for _, l := range r.lanes {
		c := l.Lane
		c.Blocks = slices.Clone(c.Blocks)
		slices.SortStableFunc(c.Blocks, func(a, b Block) int { return cmp.Compare(a.Begin, b.Begin) })
		out.Lanes = append(out.Lanes, c)
	}
	slices.SortFunc(out.Lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Lane, b.Lane))
	})
	out.Spans = slices.Clone(r.spans)
	slices.SortStableFunc(out.Spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End)) })
	out.FirstOnLane = max(out.FirstOnLane, 0)
	return &out
}
