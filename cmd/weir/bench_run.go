package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/memlimit"
	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/internal/procmem"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// run proves on plugin processes, in real memory and real time.
func (b *bencher) run(ctx context.Context, r *benchReport) (rec *record.Recording, failed, err error) {
	s := b.s
	dir, err := os.MkdirTemp("", "weir-bench-*")
	if err != nil {
		return nil, nil, errs.Wrap(err, "bench")
	}
	defer os.RemoveAll(dir)
	if err := b.modelFiles(dir); err != nil {
		return nil, nil, err
	}
	if b.killRate > 0 && procmem.Descriptors() < 0 {
		return nil, nil, errs.New(errs.Unsupported, "bench", "--kill-rate finds plugin processes in /proc, which this system does not have")
	}
	base, onlyModel := int64(0), b.profile != nil
	for i := range b.kinds {
		onlyModel = onlyModel && b.kinds[i].model != nil
		if b.profile != nil && b.kinds[i].model == nil && s.cfg.Backend == "" {
			return nil, nil, usageError("weir bench", "real files beside the model need --backend")
		}
	}
	if onlyModel {
		base, r.Config.Speed = int64(b.profile.Machine.Base), b.modelSpeed
	}
	start := host.New
	if b.profile != nil {
		start = func(ctx context.Context, cfg host.Config) (*host.Engine, error) {
			return host.NewSimulated(ctx, cfg, false)
		}
	}
	r.FDsAtStart, r.GoroutinesAtStart = openThings()
	var d *driver
	var cerr error
	err = s.withEngineOf(ctx, start, func(c *host.Config) { cerr = b.configure(c, onlyModel) }, b.recorder.Listener(), func(e *host.Engine) error {
		if cerr != nil {
			return cerr
		}
		if err := b.describe(ctx, e, r); err != nil {
			return err
		}
		d = &driver{b: b, e: e, turns: inTurn(b.kinds), expected: map[*benchKind]time.Duration{}, unchecked: map[*benchKind][]*host.Result{}}
		before, _ := procmem.Pss(os.Getpid()) // of plugins that have nothing yet
		if err := d.warmUp(ctx); err != nil {
			return err
		}
		d.begun = time.Now()
		b.recorder.Begin(d.begun)
		m := watchMemory(e, b.recorder, before)
		err := d.drive(ctx)
		rec = b.recorder.End(d.ended)
		m.stop()
		if err != nil {
			return err
		}
		report := e.Report()
		b.configured(r, report.Permits, s.cfg.PermitRelease)
		r.recorded(rec)
		r.budget(report.Budget)
		if base > 0 { // as in a simulation
			r.PurposesPeak["base"], r.EstPeak = base, r.EstPeak+base
			if r.Budget != nil {
				r.budget(report.Budget + base)
			}
		}
		m.figures(r, rec)
		n := report.Now
		r.CountersAtEnd = countersOf(n, report.PermitsUsed, report.Waiting, report.Reserved-report.Purposes[ledger.Key]-report.Purposes[ledger.Circuit], report.ResidentKeys)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	r.FDsAtEnd, r.GoroutinesAtEnd = openThings()
	for wait := 0; wait < 200 && (*r.GoroutinesAtEnd > *r.GoroutinesAtStart || r.FDsAtEnd != nil && *r.FDsAtEnd > *r.FDsAtStart); wait++ {
		time.Sleep(10 * time.Millisecond) // what has been told to end does so
		r.FDsAtEnd, r.GoroutinesAtEnd = openThings()
	}
	d.figures(r)
	return rec, d.first, nil
}

// configure changes the engine's configuration for the bench.
func (b *bencher) configure(c *host.Config, onlyModel bool) error {
	if b.profile != nil {
		backend, synthesizer := host.ModelPlugins(b.modelSpec)
		c.Backends, c.Synthesizers = append(c.Backends, backend), append(c.Synthesizers, synthesizer)
	}
	if onlyModel {
		c.PartitionWorkers, c.Lookahead = fromFlag(b.s, "partition_workers", c.PartitionWorkers), fromFlag(b.s, "lookahead", c.Lookahead)
		if c.PartitionWorkers == 0 {
			c.PartitionWorkers = (&host.Config{Threads: b.profile.Machine.Cores}).EnsureDefaults().PartitionWorkers
		}
		base := int64(b.profile.Machine.Base)
		c.MemoryBudget = fromFlag(b.s, "memory_budget", c.MemoryBudget)
		switch {
		case c.MemoryBudget == 0:
			here, err := memlimit.Auto()
			if err != nil {
				return err
			}
			c.MemoryBudget = min(memlimit.Of(int64(b.profile.Machine.Memory), b.profile.Name).Bytes-base, here.Bytes)
		case c.MemoryBudget != host.NoBudget && c.MemoryBudget <= base:
			return errs.Mismatch(errs.Exhausted, "bench", "memory", fmt.Sprintf("a budget above the base of %v of profile %s", ledger.Size(base), b.profile.Name), ledger.Size(c.MemoryBudget))
		case c.MemoryBudget != host.NoBudget:
			c.MemoryBudget -= base
		}
	}
	if b.lanes == 0 {
		return nil
	}
	for i := range c.Backends { // the model's are in its own options
		if p := &c.Backends[i].Plugin; c.Backends[i].Name == host.CUDABackend {
			p.Env = append(slices.DeleteFunc(slices.Clone(p.Env), func(v string) bool { return strings.HasPrefix(v, cudaLanes) }), fmt.Sprintf("%s=%d", cudaLanes, b.lanes))
		}
	}
	return nil
}

// cudaLanes is the variable that tells the CUDA backend its number of lanes.
const cudaLanes = "WEIR_CUDA_LANES"

// modelFiles writes the key files of the model's kinds and completes their jobs.
func (b *bencher) modelFiles(dir string) error {
	witness := filepath.Join(dir, "witness")
	for i := range b.kinds {
		k := &b.kinds[i]
		if k.model == nil {
			continue
		}
		if err := os.WriteFile(witness, nil, 0o600); err != nil {
			return errs.Wrap(err, "bench")
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.key", i)))
		if err != nil {
			return errs.Wrap(err, "bench")
		}
		err = model.WriteKey(f, k.model)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return errs.Wrap(err, "bench")
		}
		k.job.Backend, k.job.Kind, k.job.Key = modelBackend, model.Kind, f.Name()
		k.job.Partitions = make([]host.Partition, k.Partitions)
		for j := range k.job.Partitions {
			k.job.Partitions[j].Witness = witness
		}
	}
	return nil
}

// describe starts the plugins that the kinds need and says what they are.
func (b *bencher) describe(ctx context.Context, e *host.Engine, r *benchReport) error {
	seen := map[string]bool{}
	var devices []string
	for i := range b.kinds {
		j := &b.kinds[i].job
		if seen[j.Backend] {
			continue
		}
		seen[j.Backend] = true
		info, err := e.Describe(ctx, j.Backend, j.Kind)
		if err != nil {
			return err
		}
		if b.lanes > 0 && info.Lanes != b.lanes {
			return usageError("weir bench", "--lanes %d: %s has %s, and no setting for it", b.lanes, info.Name, count(info.Lanes, "lane"))
		}
		r.Lanes += info.Lanes
		devices = append(devices, info.Device)
		if r.Backend == "" {
			r.Backend = info.Name
		}
	}
	r.Device = strings.Join(devices, "; ")
	return nil
}

// driver asks an engine for jobs.
type driver struct {
	b     *bencher
	e     *host.Engine
	turns []*benchKind

	mu          sync.Mutex
	next        int
	stopped     bool // by a failure
	expected    map[*benchKind]time.Duration
	first       error // of a job that should not have failed
	begun       time.Time
	ended       time.Time
	latency     record.Times
	apart       record.Times
	stages      [8]record.Times
	last        time.Duration // end of the job before
	proofs      int
	verified    int
	parts       int
	attempts    int
	canceled    int
	lost        int
	failed      int
	kills       int
	unchecked   map[*benchKind][]*host.Result
	nbUnchecked int
}

// maxUnchecked bounds the results that wait for their second verification.
const maxUnchecked = 512

func (d *driver) warmUp(ctx context.Context) error {
	for i := range d.b.kinds {
		k := &d.b.kinds[i]
		d.expected[k] = time.Second
		for range d.b.warmup {
			job := k.job
			r, err := d.e.Prove(ctx, &job)
			if err != nil {
				return err
			}
			d.expected[k] = r.Elapsed
		}
	}
	return nil
}

// drive asks for jobs until there are enough, the time is over, or one has failed.
func (d *driver) drive(ctx context.Context) error {
	bar := d.b.s.progress("proving", max(d.b.proofs, 1000))
	defer bar.end()
	var wg sync.WaitGroup
	for range d.b.concurrency {
		wg.Go(func() {
			for ctx.Err() == nil {
				d.mu.Lock()
				i := d.next
				d.next++
				stopped := d.stopped
				d.mu.Unlock()
				asked := time.Since(d.begun)
				if stopped || d.b.proofs > 0 && i >= d.b.proofs || d.b.duration > 0 && asked >= d.b.duration {
					return
				}
				d.one(ctx, i, asked)
				if d.b.proofs > 0 {
					bar.step("proving")
				} else {
					bar.set("proving", time.Since(d.begun).Seconds()/d.b.duration.Seconds())
				}
			}
		})
	}
	wg.Wait()
	d.ended = time.Now()
	bar.finish()
	if ctx.Err() != nil {
		return errs.Wrap(ctx.Err(), "bench")
	}
	d.checkAgain(1)
	return nil
}

// one is a job from asking to its end.
func (d *driver) one(ctx context.Context, i int, asked time.Duration) {
	k := d.turns[i%len(d.turns)]
	job := k.job
	job.ID = fmt.Sprintf("bench-%d", i)
	if k.model != nil {
		job.Options = map[string]string{model.OptionJob: fmt.Sprint(i % (1 << 31))}
	}
	luck := rand.New(rand.NewPCG(d.b.seed, uint64(i)))
	d.mu.Lock()
	expected := float64(d.expected[k])
	d.mu.Unlock()
	jctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if luck.Float64() < d.b.cancelRate {
		defer time.AfterFunc(time.Duration(luck.Float64()*expected), cancel).Stop()
	}
	if luck.Float64() < d.b.killRate {
		which := luck.Uint64()
		defer time.AfterFunc(time.Duration(luck.Float64()*expected), func() { d.kill(which) }).Stop()
	}
	r, err := d.e.Prove(jctx, &job)
	ended := time.Since(d.begun)
	lost := d.b.killRate > 0 && errs.IsOneOf(err, errs.BackendGone, errs.Unavailable)
	d.mu.Lock()
	switch {
	case err == nil:
		d.done(k, r, ended-asked, ended)
	case ctx.Err() != nil:
	case jctx.Err() != nil && errs.Is(err, errs.Canceled):
		d.canceled++
	case lost:
		d.lost++
	default:
		d.failed++
		d.stop(errs.Wrap(err, "job "+job.ID))
	}
	d.mu.Unlock()
	d.checkAgain(maxUnchecked)
	if lost { // a plugin that has to start again refuses at once
		select {
		case <-time.After(lostPause):
		case <-ctx.Done():
		}
	}
}

// stop has no more jobs asked for: something is wrong. d.mu is held.
func (d *driver) stop(err error) {
	d.stopped = true
	if d.first == nil {
		d.first = err
	}
}

// lostPause is how long a caller waits after a job that was lost: while the breaker of a plugin that died too often is open, jobs are refused at once.
const lostPause = 500 * time.Millisecond

// done counts a job. d.mu is held.
func (d *driver) done(k *benchKind, r *host.Result, latency, ended time.Duration) {
	d.expected[k] = (3*d.expected[k] + latency) / 4
	d.proofs++
	d.parts += len(r.Proofs)
	d.latency.Add(latency)
	d.apart.Add(max(0, ended-d.last)) // two that end together may come here in the other order
	d.last = max(d.last, ended)
	for i := range r.Partitions {
		p := &r.Partitions[i]
		d.attempts += p.Attempts
		for s, t := range [...]time.Duration{p.Admission, p.KeyLoad, p.Synthesis, p.Queue, p.Consume, p.OnDevice, p.Finish, p.Verify} {
			d.stages[s].Add(t)
		}
	}
	d.unchecked[k] = append(d.unchecked[k], r)
	d.nbUnchecked++
}

// kill ends one of the plugin processes, as if it had crashed.
func (d *driver) kill(which uint64) {
	list := procmem.Children(os.Getpid())
	if len(list) == 0 {
		return
	}
	if syscall.Kill(list[which%uint64(len(list))], syscall.SIGKILL) == nil {
		d.mu.Lock()
		d.kills++
		d.mu.Unlock()
	}
}

// checkAgain verifies the proofs of the unchecked jobs, if they are at least least, a second time, those of one key together; other callers go on meanwhile.
func (d *driver) checkAgain(least int) {
	d.mu.Lock()
	list := d.unchecked
	if d.nbUnchecked < least {
		list = nil
	} else {
		d.unchecked, d.nbUnchecked = map[*benchKind][]*host.Result{}, 0
	}
	d.mu.Unlock()
	for _, results := range list {
		bad, err := wrongJobs(results)
		d.mu.Lock()
		if err != nil {
			d.stop(err)
		} else {
			d.verified += len(results) - len(bad)
			if len(bad) > 0 {
				d.stop(errs.New(errs.InvalidProof, "verify again", "the proofs of %d jobs do not hold, of %s first", len(bad), bad[0]))
			}
		}
		d.mu.Unlock()
	}
}

// wrongJobs are the ids of jobs of one key that have a proof which does not hold.
func wrongJobs(results []*host.Result) ([]string, error) {
	v, err := groth16.NewVerifier(results[0].VK)
	if err != nil {
		return nil, err
	}
	var claims []claim
	for _, r := range results {
		for i := range r.Proofs {
			claims = append(claims, claim{name: r.JobID, proof: r.Proofs[i], public: r.Public[i]})
		}
	}
	bad, err := checkClaims(v, claims)
	var out []string
	for _, c := range bad {
		if !slices.Contains(out, c.name) {
			out = append(out, c.name)
		}
	}
	return out, err
}

// figures sets what the driver counted. Times are the model's where there is nothing else.
func (d *driver) figures(r *benchReport) {
	speed := r.Config.Speed
	q := func(t *record.Times) host.Quantiles {
		x := t.Quantiles()
		return host.Quantiles{Mean: x.Mean * speed, P50: x.P50 * speed, P95: x.P95 * speed}
	}
	r.Proofs, r.Partitions, r.Verified, r.Canceled, r.Kills, r.Lost, r.Failed, r.Attempts = d.proofs, d.parts, d.verified, d.canceled, d.kills, d.lost, d.failed, d.attempts
	if d.first != nil {
		r.FirstError = d.first.Error()
	}
	r.SPerProof, r.Latency = q(&d.apart), q(&d.latency)
	for i, row := range r.Stages.rows() {
		*row.q = q(&d.stages[i])
	}
	r.Elapsed = d.ended.Sub(d.begun).Seconds() * speed
}

// openThings are the open files and goroutines of this process.
func openThings() (fds, goroutines *int64) {
	n := int64(runtime.NumGoroutine())
	if f := int64(procmem.Descriptors()); f >= 0 {
		fds = &f
	}
	return fds, &n
}
