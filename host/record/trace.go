package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/weir-zk/weir/host/ledger"
)

// The processes of a trace: what they are called is what a viewer groups by.
const (
	traceLanes   = 1 + iota // a thread for each lane
	tracePlaces             // a thread for each place of a partition that has been admitted
	traceWaiting            // those that wait for admission, asynchronously
	traceMemory             // counters
)

// traceEvent is an event of the trace event format (Chromium: Trace Event Format, "JSON Object Format"), which Perfetto and chrome://tracing read. Times are microseconds.
type traceEvent struct {
	Name  string   `json:"name"`
	Cat   string   `json:"cat,omitempty"`
	Phase string   `json:"ph"` // X: complete, b and e: begin and end of something asynchronous, C: counter, M: metadata
	TS    float64  `json:"ts"`
	Dur   *float64 `json:"dur,omitempty"`
	PID   int      `json:"pid"`
	TID   int      `json:"tid"`
	ID    string   `json:"id,omitempty"`
	Args  any      `json:"args,omitempty"`
}

// stepArgs are the details of a step.
type stepArgs struct {
	Job       string `json:"job"`
	Partition int    `json:"partition"`
	Attempt   int    `json:"attempt"`
	Backend   string `json:"backend,omitempty"`
	Failed    bool   `json:"failed,omitempty"`
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// WriteTrace writes what was recorded for Perfetto (ui.perfetto.dev) or chrome://tracing: the lanes with their proofs; every partition from its admission to its checked proof, each in a
// place of its own while it is in work; those that wait for admission; memory by purpose and the counters.
func (r *Recording) WriteTrace(w io.Writer) error {
	b := bufio.NewWriter(w)
	t := tracer{w: b}
	_, t.err = fmt.Fprintf(b, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":\"%d\"},\"traceEvents\":[", r.Dropped)
	t.process(traceLanes, "lanes")
	t.process(tracePlaces, "partitions")
	t.process(traceWaiting, "waiting for memory, permit and key")
	t.process(traceMemory, "memory and counters")
	r.traceLanes(&t)
	r.tracePartitions(&t)
	r.traceCounters(&t)
	if t.err == nil {
		_, t.err = b.WriteString("\n]}\n")
	}
	if t.err != nil {
		return t.err
	}
	return b.Flush()
}

type tracer struct {
	w     *bufio.Writer
	count int
	err   error // the first
}

func (t *tracer) event(e traceEvent) {
	if t.err != nil {
		return
	}
	sep := ",\n"
	if t.count == 0 {
		sep = "\n"
	}
	t.count++
	text, err := json.Marshal(e)
	if err == nil {
		_, err = t.w.WriteString(sep)
	}
	if err == nil {
		_, err = t.w.Write(text)
	}
	t.err = err
}

func (t *tracer) process(pid int, name string) {
	t.event(traceEvent{Name: "process_name", Phase: "M", PID: pid, Args: map[string]string{"name": name}})
	t.event(traceEvent{Name: "process_sort_index", Phase: "M", PID: pid, Args: map[string]int{"sort_index": pid}})
}

func (t *tracer) thread(pid, tid int, name string) {
	t.event(traceEvent{Name: "thread_name", Phase: "M", PID: pid, TID: tid, Args: map[string]string{"name": name}})
	t.event(traceEvent{Name: "thread_sort_index", Phase: "M", PID: pid, TID: tid, Args: map[string]int{"sort_index": tid}})
}

func (t *tracer) step(pid, tid int, name string, s *Span) {
	dur := micros(s.End) - micros(s.Begin)
	t.event(traceEvent{Name: name, Cat: s.Stage, Phase: "X", TS: micros(s.Begin), Dur: &dur, PID: pid, TID: tid, Args: s.args()})
}

func (s *Span) name() string { return fmt.Sprintf("%s/%d", s.Job, s.Partition) }

func (s *Span) args() stepArgs {
	return stepArgs{Job: s.Job, Partition: s.Partition, Attempt: s.Attempt, Backend: s.Backend, Failed: s.Failed}
}

func (r *Recording) traceLanes(t *tracer) {
	tid := map[laneID]int{}
	for i, l := range r.Lanes {
		tid[laneID{l.Backend, l.Lane}] = i + 1
		t.thread(traceLanes, i+1, fmt.Sprintf("%s lane %d", l.Backend, l.Lane))
	}
	for i := range r.Spans {
		if s := &r.Spans[i]; s.Lane >= 0 {
			t.step(traceLanes, tid[laneID{s.Backend, s.Lane}], s.name(), s)
		}
	}
}

// tracePartitions gives every partition the first place that is free, from its admission to its end.
func (r *Recording) tracePartitions(t *tracer) {
	type id struct {
		job       string
		partition int
	}
	end := map[id]time.Duration{}
	for i := range r.Spans {
		s := &r.Spans[i]
		end[id{s.Job, s.Partition}] = max(end[id{s.Job, s.Partition}], s.End)
	}
	place := map[id]int{}
	var free []time.Duration // when each place is
	for i := range r.Spans {
		s := &r.Spans[i]
		k := id{s.Job, s.Partition}
		if s.Stage == "admission" {
			e := traceEvent{Name: s.name(), Cat: s.Stage, Phase: "b", TS: micros(s.Begin), PID: traceWaiting, TID: 1, ID: fmt.Sprintf("%s/%d", s.name(), s.Attempt), Args: s.args()}
			t.event(e)
			e.Phase, e.TS, e.Args = "e", micros(s.End), nil
			t.event(e)
			continue
		}
		n, ok := place[k]
		if !ok {
			for n < len(free) && free[n] > s.Begin {
				n++
			}
			if n == len(free) {
				free = append(free, 0)
				t.thread(tracePlaces, n+1, fmt.Sprintf("partition in work %d", n+1))
			}
			place[k], free[n] = n, end[k]
		}
		t.step(tracePlaces, n+1, s.Stage, s)
	}
}

func (r *Recording) traceCounters(t *tracer) {
	counter := func(at time.Duration, name string, args any) {
		t.event(traceEvent{Name: name, Phase: "C", TS: micros(at), PID: traceMemory, Args: args})
	}
	for _, p := range r.Memory {
		args := map[string]int64{}
		for i, n := range p.Value {
			args[ledger.Purpose(i).String()] = n
		}
		counter(p.At, "account, bytes", args)
	}
	for _, p := range r.Measured {
		counter(p.At, "measured, bytes", map[string]int64{"pss": p.Value})
	}
	for _, p := range r.Counts {
		c := p.Value
		counter(p.At, "partitions", map[string]int{"synth": c.Synth, "provers": c.Provers, "aux": c.Aux, "shells": c.Shells, "pending": c.Pending})
		counter(p.At, "waiting", map[string]int{"for a lane": c.Queued, "for memory": c.Waiting})
	}
}
