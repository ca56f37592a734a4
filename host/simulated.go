package host

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Simulated are the figures of a simulation. Times are the simulated machine's, in seconds; bytes are the account's.
type Simulated struct {
	Profile    string  `json:"profile"`
	Proofs     int     `json:"proofs"`     // jobs that were done
	Partitions int     `json:"partitions"` // of these
	Verified   int     `json:"verified"`   // jobs whose proofs were all verified again here
	Canceled   int     `json:"canceled"`   // jobs that their callers gave up
	Failed     int     `json:"failed"`     // other jobs that have no proofs
	FirstError string  `json:"first_error,omitempty"`
	Err        error   `json:"-"`        // the same
	Attempts   int     `json:"attempts"` // at partitions of jobs that were done
	Elapsed    float64 `json:"elapsed_s"`

	// SPerProof is the time from one proof to the next, the first counted from the start: its mean is the whole time by the number of proofs.
	SPerProof Quantiles `json:"s_per_proof"`
	// Latency is the time from asking for a proof to having it.
	Latency Quantiles            `json:"latency_s"`
	Stages  map[string]Quantiles `json:"stages_s"` // of a partition: admission, key, synthesis, queue, consume, device, finish

	// LaneUtilisation is the part of the time in which a lane has a proof, DeviceUtilisation that in which the device's kernels run.
	LaneUtilisation   float64 `json:"lane_utilisation"`
	DeviceUtilisation float64 `json:"device_utilisation"`

	SynthPeak       int `json:"synth_peak"`
	ProversPeak     int `json:"provers_peak"`      // sets of a, b, c, from the start of their synthesis
	ProversDonePeak int `json:"provers_done_peak"` // from its end
	AuxPeak         int `json:"aux_peak"`
	ShellsPeak      int `json:"shells_peak"`
	PendingPeak     int `json:"pending_peak"`
	QueuePeak       int `json:"queue_peak"` // partitions in line for a lane, those included that find no room in the queue
	PermitsPeak     int `json:"permits_peak"`
	Permits         int `json:"permits"` // that there were

	Budget       int64            `json:"budget_bytes"`
	EstPeak      int64            `json:"est_peak_bytes"`     // of all that is charged: buffers, keys, working memory, the machine's base
	BuffersPeak  int64            `json:"buffers_peak_bytes"` // of the buffers alone: est of the BUFFERS lines
	PurposesPeak map[string]int64 `json:"purposes_peak_bytes"`
	// Of the memory of one device, all of which have the same: what is charged of it, of how much.
	DevicePeak   int64 `json:"device_est_peak_bytes"`
	DeviceBudget int64 `json:"device_budget_bytes"`
	// RSSPeak is what processes would show that get fresh pages as a synthesis writes them, in proportion to its time, and give them back with the buffer.
	RSSPeak int64 `json:"rss_peak_bytes"`

	CountersAtEnd Counters `json:"counters_at_end"`
}

// Counters are what is zero when nothing runs, but for resident keys.
type Counters struct {
	Gauges
	Permits      int   `json:"permits"`
	Waiting      int   `json:"waiting"`
	Reserved     int64 `json:"reserved_bytes"` // of the ledger, without the keys
	ResidentKeys int   `json:"resident_keys"`
}

// Quantiles of a set of times in seconds, by the nearest rank.
type Quantiles struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
}

func quantiles(list []time.Duration) Quantiles {
	if len(list) == 0 {
		return Quantiles{}
	}
	slices.Sort(list)
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	rank := func(q float64) float64 {
		return list[int(math.Ceil(q*float64(len(list))))-1].Seconds()
	}
	return Quantiles{Mean: sum.Seconds() / float64(len(list)), P50: rank(0.5), P95: rank(0.95)}
}

type partitionID struct {
	job       string
	partition int
}

// observer collects the figures of a simulation.
type observer struct {
	mu       sync.Mutex
	complete int // most sets of evaluations whose synthesis has ended
	queued   int
	queue    int // most of them

	circuits map[string]*model.Circuit // of the jobs
	est      int64                     // of the last event
	begun    map[partitionID]time.Time // syntheses that run
	keys     int64                     // loaded
	resident int64                     // most bytes of keys, and of buffers that were written

	ends, latencies []time.Duration
	results         []*Result
	canceled        int
	failed          int
	first           error
}

func (o *observer) listener() *Listener {
	return &Listener{
		Buffers: func(i BuffersInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.complete = max(o.complete, i.Provers-i.Synth)
			o.resident = max(o.resident, o.keys+o.est-o.unwritten(i.Time)) // just before the event: between two of them it only grows
			o.est = i.Est
			switch id := (partitionID{i.Job, i.Partition}); i.Event {
			case SynthStart:
				o.begun[id] = i.Time
			case SynthDone:
				delete(o.begun, id)
			}
		},
		Key: func(i KeyInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			switch {
			case i.Err != nil:
			case i.State == "loaded":
				o.keys += i.Bytes
			case i.State == "evicted":
				o.keys -= i.Bytes
			}
		},
		Timeline: func(i TimelineInfo) {
			if i.Stage != "queue" {
				return
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			if !i.Start {
				o.queued--
				return
			}
			o.queued++
			o.queue = max(o.queue, o.queued)
		},
	}
}

// unwritten is how much of the buffers the running syntheses have not come to. o.mu is held.
func (o *observer) unwritten(now time.Time) int64 {
	var n float64
	for id, begin := range o.begun {
		c := o.circuits[id.job]
		written := now.Sub(begin).Seconds() / c.SynthesisAt(len(o.begun)).Seconds()
		n += max(0, 1-written) * float64(c.EvaluationBytes()+int64(c.Witness))
	}
	return int64(n)
}

// begins is a job that is asked for.
func (o *observer) begins(id string, c *model.Circuit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.circuits[id] = c
}

// done is a job that has ended; its times are counted from the beginning of the simulation.
func (o *observer) done(id string, asked, ended time.Duration, r *Result, err error, canceled bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.circuits, id)
	if err != nil && canceled {
		o.canceled++
		return
	}
	if err != nil {
		o.failed++
		if o.first == nil {
			o.first = err
		}
		return
	}
	o.ends, o.latencies, o.results = append(o.ends, ended), append(o.latencies, ended-asked), append(o.results, r)
}

// verified says whether all proofs of r hold; by finds the verifier of a key.
func verified(r *Result, by map[string]*remembering) (bool, error) {
	id := fmt.Sprintf("%v", *r.VK)
	v := by[id]
	if v == nil {
		real, err := groth16.NewVerifier(r.VK)
		if err != nil {
			return false, err
		}
		v = &remembering{v: real, known: map[string]error{}}
		by[id] = v
	}
	for i := range r.Proofs {
		if err := v.Verify(&r.Proofs[i], r.Public[i]); errs.Is(err, errs.InvalidProof) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// result sums up. r is the account when the last job has ended, without the machine's base.
func (o *observer) result(profile *model.Profile, budget int64, elapsed time.Duration, r Report) (*Simulated, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, base := r.Peak, int64(profile.Machine.Base)
	out := &Simulated{Profile: profile.Name, Proofs: len(o.results), Canceled: o.canceled, Failed: o.failed, Elapsed: elapsed.Seconds(), Latency: quantiles(o.latencies), Stages: map[string]Quantiles{},
		SynthPeak: p.Synth, ProversPeak: p.Provers, ProversDonePeak: o.complete, AuxPeak: p.Aux, ShellsPeak: p.Shells, PendingPeak: p.Pending, QueuePeak: o.queue, PermitsPeak: r.PeakPermits, Permits: r.Permits,
		Budget: budget, EstPeak: base + r.PeakReserved, BuffersPeak: p.Est, RSSPeak: base + o.resident, PurposesPeak: map[string]int64{"base": base},
		CountersAtEnd: Counters{Gauges: r.Now, Permits: r.PermitsUsed, Waiting: r.Waiting, Reserved: r.Reserved - r.Purposes[ledger.Key] - r.Purposes[ledger.Circuit], ResidentKeys: r.ResidentKeys}}
	if o.first != nil {
		out.Err, out.FirstError = o.first, o.first.Error()
	}
	for i, n := range r.PeakPurposes {
		if n > 0 {
			out.PurposesPeak[ledger.Purpose(i).String()] = n
		}
	}
	out.DeviceBudget = int64(profile.Machine.DeviceMemory)
	for _, d := range r.Devices {
		out.DevicePeak = max(out.DevicePeak, d.PeakTotal)
	}
	var apart []time.Duration
	var last time.Duration
	for _, at := range o.ends { // ascending: they were appended as they came
		apart = append(apart, at-last)
		last = at
	}
	out.SPerProof = quantiles(apart)

	stages := map[string][]time.Duration{}
	var onLanes, onDevice time.Duration
	by := map[string]*remembering{}
	for _, r := range o.results {
		good, err := verified(r, by)
		if err != nil {
			return nil, err
		}
		if good {
			out.Verified++
		}
		for i := range r.Partitions {
			t := &r.Partitions[i]
			out.Partitions++
			out.Attempts += t.Attempts
			for name, d := range map[string]time.Duration{"admission": t.Admission, "key": t.KeyLoad, "synthesis": t.Synthesis, "queue": t.Queue, "consume": t.Consume, "device": t.OnDevice, "finish": t.Finish} {
				stages[name] = append(stages[name], d)
			}
			onLanes += t.Consume + t.OnDevice
			for _, s := range t.Steps {
				if s.Stage == "kernels" {
					onDevice += s.Elapsed
				}
			}
		}
	}
	for name, list := range stages {
		out.Stages[name] = quantiles(list)
	}
	if elapsed > 0 {
		out.LaneUtilisation = onLanes.Seconds() / elapsed.Seconds() / float64(profile.Machine.AllLanes())
		out.DeviceUtilisation = onDevice.Seconds() / elapsed.Seconds() / float64(max(profile.Machine.Devices, 1))
	}
	return out, nil
}
