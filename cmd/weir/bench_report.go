package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/record"
)

// benchReport is what --json prints: docs/bench.md says what each name means, and --assert knows every number of it by its name. Figures that this run cannot have are null.
type benchReport struct {
	OK        bool       `json:"ok"`
	Error     *jsonError `json:"error,omitempty"`
	Backend   string     `json:"backend"`
	Device    string     `json:"device"`
	Profile   string     `json:"profile"`   // of the model; empty: none
	Simulated bool       `json:"simulated"` // under a clock of its own, in buffers without bytes

	Config benchConfig `json:"config"`

	Proofs     int     `json:"proofs"` // jobs that were done
	Partitions int     `json:"partitions"`
	Verified   int     `json:"verified"` // jobs whose proofs were all verified again
	Canceled   int     `json:"canceled"`
	Kills      int     `json:"kills"`  // plugin processes that were killed
	Lost       int     `json:"lost"`   // jobs that did not survive that
	Failed     int     `json:"failed"` // jobs that ended otherwise
	FirstError string  `json:"first_error"`
	Attempts   int     `json:"attempts"`
	Elapsed    float64 `json:"elapsed_s"`

	SPerProof host.Quantiles `json:"s_per_proof"`
	Latency   host.Quantiles `json:"latency_s"`
	Stages    benchStages    `json:"stages_s"`

	Lanes           int      `json:"lanes"`
	LaneUtilisation float64  `json:"lane_utilisation"`
	LaneSteady      float64  `json:"lane_utilisation_steady"` // between the first proof on a lane and the last
	DeviceBusy      *float64 `json:"device_utilisation"`

	SynthPeak       int `json:"synth_peak"`
	ProversPeak     int `json:"provers_peak"`
	ProversDonePeak int `json:"provers_done_peak"`
	AuxPeak         int `json:"aux_peak"`
	ShellsPeak      int `json:"shells_peak"`
	PendingPeak     int `json:"pending_peak"`
	QueuePeak       int `json:"queue_peak"`
	WaitingPeak     int `json:"waiting_peak"`
	PermitsPeak     int `json:"permits_peak"`

	Budget       *int64           `json:"budget_bytes"`
	EstPeak      int64            `json:"est_peak_bytes"`
	BuffersPeak  int64            `json:"buffers_peak_bytes"`
	PurposesPeak map[string]int64 `json:"purposes_peak_bytes"`
	RSSPeak      *int64           `json:"rss_peak_bytes"`
	RSSBase      *int64           `json:"rss_base_bytes"`
	Agreement    *float64         `json:"memory_agreement_percent"`
	PeaksAgree   *float64         `json:"memory_peaks_percent"`
	SharedPeak   *int64           `json:"shared_peak_bytes"`
	SharedAgrees *float64         `json:"shared_agreement_percent"`
	Samples      int              `json:"memory_samples"`
	// Of the device that came nearest to its budget; null where nothing was charged of any.
	DevicePeak   *int64        `json:"device_est_peak_bytes"`
	DeviceBudget *int64        `json:"device_budget_bytes"`
	Devices      []benchDevice `json:"devices"`

	CountersAtEnd benchCounters `json:"counters_at_end"`

	FDsAtStart        *int64 `json:"fds_at_start"`
	FDsAtEnd          *int64 `json:"fds_at_end"`
	GoroutinesAtStart *int64 `json:"goroutines_at_start"`
	GoroutinesAtEnd   *int64 `json:"goroutines_at_end"`

	Asserts []verdict         `json:"asserts"`
	Files   map[string]string `json:"files"`
}

// benchConfig is what was asked for.
type benchConfig struct {
	Proofs           int         `json:"proofs"` // 0: as many as the duration allows
	Concurrency      int         `json:"concurrency"`
	PartitionWorkers int         `json:"partition_workers"`
	PermitRelease    string      `json:"permit_release"`
	Duration         float64     `json:"duration_s"`
	CancelRate       float64     `json:"cancel_rate"`
	KillRate         float64     `json:"kill_rate"`
	Seed             uint64      `json:"seed"`
	Warmup           int         `json:"warmup"`
	Speed            float64     `json:"speed"`
	Kinds            []benchKind `json:"kinds"`
}

// benchDevice is the account of a device's memory.
type benchDevice struct {
	Name         string           `json:"name"`
	Budget       int64            `json:"budget_bytes"`
	EstPeak      int64            `json:"est_peak_bytes"`
	PurposesPeak map[string]int64 `json:"purposes_peak_bytes"`
}

// benchStages are the times of a partition; docs/cli.md explains them.
type benchStages struct {
	Admission host.Quantiles `json:"admission"`
	Key       host.Quantiles `json:"key"`
	Synthesis host.Quantiles `json:"synthesis"`
	Queue     host.Quantiles `json:"queue"`
	Consume   host.Quantiles `json:"consume"`
	Device    host.Quantiles `json:"device"`
	Finish    host.Quantiles `json:"finish"`
	Verify    host.Quantiles `json:"verify"`
}

// rows are the stages in order.
func (s *benchStages) rows() []struct {
	key, name string
	q         *host.Quantiles
} {
	return []struct {
		key, name string
		q         *host.Quantiles
	}{{"admission", "wait for memory", &s.Admission}, {"key", "load key", &s.Key}, {"synthesis", "synthesis", &s.Synthesis}, {"queue", "wait for prover", &s.Queue},
		{"consume", "prove, with a/b/c", &s.Consume}, {"device", "prove, without", &s.Device}, {"finish", "put together", &s.Finish}, {"verify", "verify", &s.Verify}}
}

// benchCounters are zero when nothing runs, but for resident keys.
type benchCounters struct {
	Synth        int   `json:"synth"`
	Provers      int   `json:"provers"`
	Aux          int   `json:"aux"`
	Shells       int   `json:"shells"`
	Pending      int   `json:"pending"`
	Est          int64 `json:"est_bytes"`
	Permits      int   `json:"permits"`
	Waiting      int   `json:"waiting"`
	Reserved     int64 `json:"reserved_bytes"` // without the keys
	ResidentKeys int   `json:"resident_keys"`
}

func countersOf(g host.Gauges, permits, waiting int, reserved int64, keys int) benchCounters {
	return benchCounters{Synth: g.Synth, Provers: g.Provers, Aux: g.Aux, Shells: g.Shells, Pending: g.Pending, Est: g.Est, Permits: permits, Waiting: waiting, Reserved: reserved, ResidentKeys: keys}
}

// newBenchReport has every name that a report can have.
func newBenchReport() *benchReport {
	r := &benchReport{PurposesPeak: map[string]int64{"base": 0}, Devices: []benchDevice{}, Asserts: []verdict{}, Files: map[string]string{}}
	for p := range ledger.NumPurposes {
		r.PurposesPeak[p.String()] = 0
	}
	return r
}

// budget sets the budget; without one it is null.
func (r *benchReport) budget(n int64) {
	if n != host.NoBudget {
		r.Budget = &n
	}
}

// recorded sets what a recording tells; r.Lanes is known.
func (r *benchReport) recorded(rec *record.Recording) {
	p := rec.Peak
	r.SynthPeak, r.ProversPeak, r.ProversDonePeak, r.AuxPeak, r.ShellsPeak, r.PendingPeak = p.Synth, p.Provers, rec.CompletePeak, p.Aux, p.Shells, p.Pending
	r.QueuePeak, r.WaitingPeak, r.PermitsPeak = p.Queued, p.Waiting, p.Permits
	r.EstPeak, r.BuffersPeak = rec.ReservedPeak, rec.BuffersPeak
	for i, n := range rec.PurposesPeak {
		r.PurposesPeak[ledger.Purpose(i).String()] = n
	}
	for i := range rec.Devices {
		d := &rec.Devices[i]
		out := benchDevice{Name: d.Name, Budget: d.Budget, EstPeak: d.Peak, PurposesPeak: map[string]int64{}}
		for p, n := range d.PurposesPeak {
			if n > 0 {
				out.PurposesPeak[ledger.Purpose(p).String()] = n
			}
		}
		r.Devices = append(r.Devices, out)
		if r.DevicePeak == nil || d.Budget-d.Peak < *r.DeviceBudget-*r.DevicePeak {
			r.DevicePeak, r.DeviceBudget = &d.Peak, &d.Budget
		}
	}
	r.steady(rec)
	if rec.Length > 0 && r.Lanes > 0 {
		r.LaneUtilisation = rec.BusyLanes.Seconds() / rec.Length.Seconds() / float64(r.Lanes)
	}
}

func (r *benchReport) steady(rec *record.Recording) {
	if between := rec.LastOffLane - rec.FirstOnLane; between > 0 && r.Lanes > 0 {
		r.LaneSteady = rec.BusyLanes.Seconds() / between.Seconds() / float64(r.Lanes)
	}
}

// figures are those that an assertion can be about: whether all is well is what assertions decide.
func (r *benchReport) figures() (figures, error) {
	f, err := figuresOf(r)
	delete(f, "ok")
	return f, err
}

// judge checks the assertions.
func (r *benchReport) judge(list []*assertion) error {
	f, err := r.figures()
	if err != nil {
		return err
	}
	for _, a := range list {
		r.Asserts = append(r.Asserts, a.check(f))
	}
	return nil
}

// brokenAsserts are the reasons of those that do not hold.
func (r *benchReport) brokenAsserts() []string {
	var out []string
	for _, v := range r.Asserts {
		if !v.Holds {
			out = append(out, v.Why)
		}
	}
	return out
}

// ofSeconds is a time for people.
func ofSeconds(s float64) string { return short(time.Duration(s * float64(time.Second))) }

// title is one line that says what was done.
func (r *benchReport) title() string {
	var kinds []string
	for _, k := range r.Config.Kinds {
		kinds = append(kinds, k.Name)
	}
	what := strings.Join(kinds, ", ")
	with := r.Backend
	switch {
	case r.Profile != "" && r.Backend == modelBackend:
		with += " " + r.Profile
	case r.Profile != "":
		with += " and model " + r.Profile
	}
	return fmt.Sprintf("%s of %s on %s, %d at once, %s, back when %s: %.3g s/proof", count(r.Proofs, "proof"), what, with, r.Config.Concurrency, count(r.Config.PartitionWorkers, "permit"), r.Config.PermitRelease, r.SPerProof.Mean)
}

// table tells a person.
func (r *benchReport) table(w io.Writer) {
	how := ""
	if r.Simulated {
		how = " of simulated time"
	}
	fmt.Fprintf(w, "%s in %s%s: %s a proof (p50 %s, p95 %s), asked for to done %s (p95 %s)\n", count(r.Proofs, "proof"), ofSeconds(r.Elapsed), how, ofSeconds(r.SPerProof.Mean), ofSeconds(r.SPerProof.P50), ofSeconds(r.SPerProof.P95),
		ofSeconds(r.Latency.Mean), ofSeconds(r.Latency.P95))
	fmt.Fprintf(w, "verified  %d of %d again\n", r.Verified, r.Proofs)
	if n := r.Canceled + r.Kills + r.Lost + r.Failed; n > 0 || r.Attempts > r.Partitions {
		fmt.Fprintf(w, "faults    %d canceled, %s killed, %d lost with them, %d failed, %d attempts at %s\n", r.Canceled, count(r.Kills, "plugin"), r.Lost, r.Failed, r.Attempts, count(r.Partitions, "partition"))
	}
	fmt.Fprintf(w, "backend   %s (%s), %s\n", oneLine(r.Backend), oneLine(r.Device), count(r.Lanes, "lane"))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "stage\tmean\tp50\tp95\t\n")
	for _, row := range r.Stages.rows() {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t\n", row.name, ofSeconds(row.q.Mean), ofSeconds(row.q.P50), ofSeconds(row.q.P95))
	}
	_ = tw.Flush()
	device := ""
	if r.DeviceBusy != nil {
		device = fmt.Sprintf("; kernels run %.1f %%", 100**r.DeviceBusy)
	}
	fmt.Fprintf(w, "lanes     busy %.1f %% of the time, %.1f %% between the first proof and the last%s\n", 100*r.LaneUtilisation, 100*r.LaneSteady, device)
	fmt.Fprintf(w, "peaks     synth=%d provers=%d (complete: %d) aux=%d shells=%d pending=%d queue=%d permits=%d of %d, released when %s\n", r.SynthPeak, r.ProversPeak, r.ProversDonePeak, r.AuxPeak, r.ShellsPeak, r.PendingPeak,
		r.QueuePeak, r.PermitsPeak, r.Config.PartitionWorkers, r.Config.PermitRelease)
	budget := "no budget"
	if r.Budget != nil {
		budget = "a budget of " + ledger.Size(*r.Budget).String()
	}
	fmt.Fprintf(w, "memory    peak of the account %v of %s; buffers alone %v\n", ledger.Size(r.EstPeak), budget, ledger.Size(r.BuffersPeak))
	var by []string
	if n := r.PurposesPeak["base"]; n > 0 {
		by = append(by, "processes "+ledger.Size(n).String())
	}
	for p := range ledger.NumPurposes {
		if n := r.PurposesPeak[p.String()]; n > 0 {
			by = append(by, fmt.Sprintf("%v %v", p, ledger.Size(n)))
		}
	}
	if len(by) > 0 {
		fmt.Fprintf(w, "          by purpose: %s\n", strings.Join(by, ", "))
	}
	for i := range r.Devices {
		d := &r.Devices[i]
		var by []string
		for p := range ledger.NumPurposes {
			if n := d.PurposesPeak[p.String()]; n > 0 {
				by = append(by, fmt.Sprintf("%v %v", p, ledger.Size(n)))
			}
		}
		fmt.Fprintf(w, "          device %s: peak %v of %v: %s\n", oneLine(d.Name), ledger.Size(d.EstPeak), ledger.Size(d.Budget), strings.Join(by, ", "))
	}
	switch {
	case r.RSSPeak != nil && r.Simulated:
		fmt.Fprintf(w, "          processes would show %v\n", ledger.Size(*r.RSSPeak))
	case r.RSSPeak != nil:
		fmt.Fprintf(w, "          measured %v (Pss of weir and its plugins, less %v that they take idle)", ledger.Size(*r.RSSPeak), ledger.Size(*r.RSSBase))
		if r.Agreement != nil {
			fmt.Fprintf(w, ": %.1f %% of the account at that moment", *r.Agreement)
		}
		if r.SharedAgrees != nil {
			fmt.Fprintf(w, "; shared buffers %.1f %%", *r.SharedAgrees)
		}
		fmt.Fprintln(w)
	}
	c := &r.CountersAtEnd
	fmt.Fprintf(w, "at end    synth=%d provers=%d aux=%d shells=%d pending=%d est=%v permits=%d waiting=%d reserved=%v resident keys=%d\n", c.Synth, c.Provers, c.Aux, c.Shells, c.Pending, ledger.Size(c.Est), c.Permits, c.Waiting,
		ledger.Size(c.Reserved), c.ResidentKeys)
	if r.FDsAtStart != nil && r.FDsAtEnd != nil && r.GoroutinesAtStart != nil && r.GoroutinesAtEnd != nil {
		fmt.Fprintf(w, "          open files %d, before %d; goroutines %d, before %d\n", *r.FDsAtEnd, *r.FDsAtStart, *r.GoroutinesAtEnd, *r.GoroutinesAtStart)
	}
	for _, v := range r.Asserts {
		if v.Holds {
			fmt.Fprintf(w, "holds     %s\n", oneLine(v.Assert))
		}
	}
}
