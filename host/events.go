package host

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-zk/weir/host/ledger"
)

// BufferEvent names a change of the large buffers.
type BufferEvent string

// The events, in the order a partition passes them.
const (
	SynthStart   BufferEvent = "synth_start"
	SynthDone    BufferEvent = "synth_done"
	Queued       BufferEvent = "queued"
	ProveStart   BufferEvent = "prove_start"
	ABCFreed     BufferEvent = "abc_freed"
	DeviceDone   BufferEvent = "device_done"
	FinalizeDone BufferEvent = "finalize_done"
	DeallocDone  BufferEvent = "dealloc_done"
)

// Gauges count what is alive. Aux includes Shells.
type Gauges struct {
	Synth   int   // partitions being synthesised
	Provers int   // sets of evaluations
	Aux     int   // witnesses
	Shells  int   // witnesses whose evaluations are gone
	Pending int   // proofs between the device and the end of their check
	Est     int64 // bytes of live buffers, as taken from the pool
}

func (g *Gauges) add(d *Gauges) {
	g.Synth += d.Synth
	g.Provers += d.Provers
	g.Aux += d.Aux
	g.Shells += d.Shells
	g.Pending += d.Pending
	g.Est += d.Est
}

func (g *Gauges) sub(d *Gauges) {
	g.add(&Gauges{-d.Synth, -d.Provers, -d.Aux, -d.Shells, -d.Pending, -d.Est})
}

// BuffersInfo is one change.
type BuffersInfo struct {
	Event     BufferEvent
	Time      time.Time
	Job       string
	Partition int
	Gauges
	Budget int64
}

// String is the line of the debug log.
func (b BuffersInfo) String() string {
	return fmt.Sprintf("BUFFERS[%s]: synth=%d provers=%d aux=%d shells=%d pending=%d est=%s budget=%s",
		b.Event, b.Synth, b.Provers, b.Aux, b.Shells, b.Pending, ledger.Size(b.Est), ledger.Budget(b.Budget))
}

// TimelineInfo is a step of a partition: told once when it begins and once when it ends.
type TimelineInfo struct {
	Job       string
	Partition int
	Attempt   int    // from 1
	Stage     string // admission, key, synthesis, queue, consume, device, finish, verify
	Start     bool   // the step begins: End and Err are not known yet
	Begin     time.Time
	End       time.Time
	Backend   string // from the admission on
	Lane      int    // of the backend, from 0: in consume and device; otherwise -1
	Err       error  // why the step failed
}

// String is the line of the debug log, without its time: "job partition stage(start|end) lane", the lane "-" where the step has none.
func (i TimelineInfo) String() string {
	edge, lane := "end", "-"
	if i.Start {
		edge = "start"
	}
	if i.Lane >= 0 {
		lane = strconv.Itoa(i.Lane)
	}
	return fmt.Sprintf("%s %d %s(%s) %s", i.Job, i.Partition, i.Stage, edge, lane)
}

// at is when i was told.
func (i TimelineInfo) at() time.Time {
	if i.Start {
		return i.Begin
	}
	return i.End
}

// JobInfo is a job that was accepted or has ended.
type JobInfo struct {
	Job        string
	State      string // "accepted", "attached", "opened", "running" (one more partition is done), "done", "failed"
	Partitions int    // known from "opened" on
	Done       int    // partitions with a verified proof
	Err        error
	Elapsed    time.Duration
}

// BackendInfo is a change of a backend's health, or a proof of it that failed.
type BackendInfo struct {
	Backend  string
	Device   string
	DeviceID string
	State    string // "up", "down", "wrong proof", "quarantined"
	Err      error
}

// SynthesizerInfo is a change of a synthesizer's health.
type SynthesizerInfo struct {
	Synthesizer string
	State       string // "up", "down"
	Err         error
}

// KeyInfo is a key that was loaded or evicted, or given up after a load that failed.
type KeyInfo struct {
	Key     string // path
	Backend string
	State   string // "loaded", "evicted", "given up"
	Bytes   int64
	Elapsed time.Duration
	Err     error
}

// Listener is told of state changes. Functions that are nil are left out; the others are called from many goroutines, must return
// soon, and must not call the engine.
type Listener struct {
	Buffers     func(BuffersInfo)
	Timeline    func(TimelineInfo)
	Job         func(JobInfo)
	Backend     func(BackendInfo)
	Synthesizer func(SynthesizerInfo)
	Key         func(KeyInfo)
	// Ledger is told of every change of the account, in order; see ledger.Watch.
	Ledger func(ledger.Change)
}

func (l *Listener) buffers(i BuffersInfo) {
	if l != nil && l.Buffers != nil {
		l.Buffers(i)
	}
}

func (l *Listener) timeline(i TimelineInfo) {
	if l != nil && l.Timeline != nil {
		l.Timeline(i)
	}
}

func (l *Listener) job(i JobInfo) {
	if l != nil && l.Job != nil {
		l.Job(i)
	}
}

func (l *Listener) backend(i BackendInfo) {
	if l != nil && l.Backend != nil {
		l.Backend(i)
	}
}

func (l *Listener) synthesizer(i SynthesizerInfo) {
	if l != nil && l.Synthesizer != nil {
		l.Synthesizer(i)
	}
}

func (l *Listener) key(i KeyInfo) {
	if l != nil && l.Key != nil {
		l.Key(i)
	}
}

// TeeListener tells all of them, in order.
func TeeListener(all ...*Listener) *Listener {
	var watchers []func(ledger.Change)
	for _, l := range all {
		if l != nil && l.Ledger != nil {
			watchers = append(watchers, l.Ledger)
		}
	}
	tee := &Listener{
		Buffers: func(i BuffersInfo) {
			for _, l := range all {
				l.buffers(i)
			}
		},
		Timeline: func(i TimelineInfo) {
			for _, l := range all {
				l.timeline(i)
			}
		},
		Job: func(i JobInfo) {
			for _, l := range all {
				l.job(i)
			}
		},
		Backend: func(i BackendInfo) {
			for _, l := range all {
				l.backend(i)
			}
		},
		Synthesizer: func(i SynthesizerInfo) {
			for _, l := range all {
				l.synthesizer(i)
			}
		},
		Key: func(i KeyInfo) {
			for _, l := range all {
				l.key(i)
			}
		},
	}
	if len(watchers) > 0 { // an account that nobody watches need not describe its changes
		tee.Ledger = func(c ledger.Change) {
			for _, w := range watchers {
				w(c)
			}
		}
	}
	return tee
}

// LogListener writes events to log: what a person must know at warn and info, the rest at debug.
func LogListener(log hclog.Logger) *Listener {
	var once sync.Once
	var zero time.Time // of the timeline: its first event
	return &Listener{
		Buffers: func(i BuffersInfo) {
			if log.IsDebug() {
				log.Debug(i.String())
			}
		},
		Timeline: func(i TimelineInfo) {
			if !log.IsDebug() {
				return
			}
			once.Do(func() { zero = i.at() })
			line := fmt.Sprintf("TIMELINE %d %v attempt=%d", i.at().Sub(zero).Milliseconds(), i, i.Attempt) // one message: the logger would put a colon behind the lane
			if i.Backend != "" {
				line += " backend=" + i.Backend
			}
			if i.Err != nil {
				line += fmt.Sprintf(" error=%q", i.Err.Error())
			}
			log.Debug(line)
		},
		Job: func(i JobInfo) {
			if i.Err != nil {
				log.Debug("job "+i.State, "job", i.Job, "error", i.Err)
				return
			}
			log.Debug("job "+i.State, "job", i.Job, "partitions", i.Partitions, "done", i.Done)
		},
		Backend: func(i BackendInfo) {
			args := []any{"backend", i.Backend, "device", i.Device}
			if i.DeviceID != "" {
				args = append(args, "id", i.DeviceID)
			}
			if i.Err == nil {
				log.Debug("backend "+i.State, args...)
				return
			}
			log.Warn("backend "+i.State, append(args, "error", i.Err)...)
		},
		Synthesizer: func(i SynthesizerInfo) {
			if i.Err == nil {
				log.Debug("synthesizer "+i.State, "synthesizer", i.Synthesizer)
				return
			}
			log.Warn("synthesizer "+i.State, "synthesizer", i.Synthesizer, "error", i.Err)
		},
		Key: func(i KeyInfo) {
			args := []any{"key", i.Key, "backend", i.Backend, "size", ledger.Size(i.Bytes).String(), "ms", i.Elapsed.Milliseconds()}
			if i.Err != nil {
				args = append(args, "error", i.Err)
			}
			log.Debug("key "+i.State, args...)
		},
	}
}
