package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/memlimit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/plugin"
	"github.com/weir-zk/weir/sdk/slab"
)

// Engine runs jobs. Methods are safe for concurrent use.
type Engine struct {
	cfg      Config
	deps     deps
	pool     *slab.Pool
	ledger   *ledger.Ledger
	gauges   gauges
	keys     *keyStore
	circuits *circuitStore
	backends []*backend
	fronts   []*front

	mu       sync.Mutex
	closing  bool
	jobs     map[string]*run // running
	kept     map[string]*run // finished well, for repeated ids
	keptIDs  []string        // oldest first
	keptSize int64           // bytes of their results
	keepSize int64           // and what they may come to
	accepted int             // partitions accepted and not finished
	order    uint64
	setups   map[uint64]context.CancelCauseFunc
	idle     *sync.Cond // jobs or setups may have become empty

	deviceMu     sync.Mutex
	deviceMemory map[string]map[*backend]int64 // by device: what each of its backends says that it has

	unwatch   func() // stops telling the listener of the account; nil: nobody listens
	closeOnce sync.Once
	closeErr  error
}

// deps is what a test may put in the place of the real thing.
type deps struct {
	readKey     func(*os.File) (*keyHeader, error)
	newVerifier func(*groth16.VerifyingKey) (verifier, error)
	virtual     bool                // buffers without bytes
	turn        func(partition int) // returns when it is the partition's turn to begin; nil: at once
}

func realDeps() deps {
	return deps{readKey: readKeyHeader, newVerifier: func(vk *groth16.VerifyingKey) (verifier, error) { return groth16.NewVerifier(vk) }}
}

// New starts an engine. Plugin processes are started when they are first needed. The end of ctx does not end the engine: see Close.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	return newEngine(ctx, cfg, realDeps())
}

func newEngine(ctx context.Context, cfg Config, d deps) (*Engine, error) {
	if plugin.Unserved() {
		return nil, errs.New(errs.InvalidArgument, "start engine", "this process was started as a plugin").
			WithHint("call host.PluginMain(os.Args) first in main: it serves when the engine started the program as a plugin")
	}
	if err := cfg.EnsureDefaults().Validate(); err != nil {
		return nil, err
	}
	if dir := cfg.RuntimeDir; dir != "" {
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return nil, errs.Mismatch(errs.InvalidArgument, "configuration", "runtime_dir", "an existing folder, for the sockets of plugins", fmt.Sprintf("%q", dir))
		}
	}
	budget, from := cfg.MemoryBudget, "from the configuration"
	switch budget {
	case 0:
		limit, err := memlimit.Auto()
		if err != nil {
			return nil, err
		}
		budget, from = limit.Bytes, limit.String()
	case NoBudget:
		if !d.virtual { // buffers without bytes fit anywhere
			cfg.Logger.Warn("there is no memory budget: what does not fit is killed by the system")
		}
	}
	reserve := ledger.Reserve{Bytes: cfg.CriticalReserve}
	if reserve.Bytes > 0 {
		reserve.Permits = 1
	}
	if reserve.Bytes >= budget {
		return nil, errs.Mismatch(errs.InvalidArgument, "configuration", "critical_reserve", fmt.Sprintf("less than the memory budget, %v %s", ledger.Size(budget), from), ledger.Size(reserve.Bytes).String())
	}
	e := &Engine{cfg: cfg, deps: d, jobs: map[string]*run{}, kept: map[string]*run{}, keepSize: keepBytes, setups: map[uint64]context.CancelCauseFunc{},
		deviceMemory: map[string]map[*backend]int64{}}
	e.idle = sync.NewCond(&e.mu)
	e.pool = slab.NewPool(slab.PoolOptions{MaxIdle: budget, Virtual: d.virtual})
	e.ledger = ledger.New(ledger.Options{Budget: budget, From: from, Permits: cfg.PartitionWorkers, ReserveCritical: reserve, Clock: cfg.Clock, MaxWaiting: maxWaiting(&cfg),
		Idle: func() int64 { return e.pool.Stats().IdleBytes }, Trim: func(keep int64) { e.pool.Trim(keep) }})
	if cfg.Listener.Ledger != nil {
		e.unwatch = e.ledger.Watch(cfg.Listener.Ledger)
	}
	e.keys = newKeyStore(e)
	e.circuits = newCircuitStore(e)
	for _, c := range cfg.Backends {
		b := &backend{name: c.Name}
		b.health.tell = func(state string, err error) { e.told(b, state, err) }
		b.health.died = func() { e.died(b) }
		src, tenant, err := proverSource(e, c, &b.health)
		if err != nil {
			return nil, errors.Join(err, e.Close(ctx))
		}
		b.tenant, b.prover = tenant, live.NewProver(src, e.pool)
		e.backends = append(e.backends, b)
	}
	for _, c := range cfg.Synthesizers {
		f := &front{name: c.Name, gate: gate.New()}
		f.health.tell = func(state string, err error) {
			e.cfg.Listener.synthesizer(SynthesizerInfo{Synthesizer: f.name, State: state, Err: err})
		}
		src, tenant, err := synthesizerSource(e, c, &f.health)
		if err != nil {
			return nil, errors.Join(err, e.Close(ctx))
		}
		f.tenant, f.synth = tenant, live.NewSynthesizer(src, e.pool)
		e.fronts = append(e.fronts, f)
	}
	cfg.Logger.Info("engine started", "budget", ledger.Budget(budget).String(), "budget_bytes", budget, "budget_from", from, "partition_workers", cfg.PartitionWorkers, "threads", cfg.Threads)
	return e, nil
}

// maxWaiting is the room of the line for memory: nobody who was accepted finds it full. A job has one request in it until it is opened, and then at most one for each of its
// partitions; MaxPartitions bounds those of all jobs, and set-ups apart from them.
func maxWaiting(cfg *Config) int { return 2 * cfg.MaxPartitions }

// threads of one synthesis of a job with so many partitions: those that run at once share them.
func (e *Engine) threads(partitions int) int {
	return max(1, e.cfg.Threads/min(partitions, e.cfg.PartitionWorkers))
}

// Prove runs a job to its end. When ctx ends, the job is canceled unless somebody else waits for it, and Prove returns when everything the job held
// has been given back. Errors: errs.Conflict for an id in use with other content; errs.Exhausted, with the numbers, for a job that can never fit;
// errs.InvalidProof when no backend made a proof that verifies; errs.Unavailable while the engine closes; and what files, synthesizers and backends report.
func (e *Engine) Prove(ctx context.Context, job *Job) (*Result, error) {
	for {
		r, stopping, err := e.submit(ctx, job)
		switch {
		case err != nil:
			return nil, err
		case stopping != nil: // the same id is being given up: the next look finds it kept, or gone
			select {
			case <-stopping.done:
				continue
			case <-ctx.Done():
				return nil, errs.Wrap(ctx.Err(), "prove")
			}
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			e.detach(r, ctx.Err())
			return nil, errs.Wrap(ctx.Err(), "job "+r.id)
		}
		if r.err != nil {
			return nil, r.err
		}
		return r.copyResult(), nil
	}
}

// submit starts a job, or attaches to the one that runs or ran already under this id. stopping is one that must end first.
func (e *Engine) submit(ctx context.Context, job *Job) (_, stopping *run, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, errs.Wrap(err, "prove")
	}
	if e.isClosing() { // before any file is opened
		return nil, nil, errDraining()
	}
	in, err := openJob(e.pool, job)
	if err != nil {
		return nil, nil, err
	}
	if job.InsecureTestRandomness != nil && !e.cfg.TestRandomness {
		err = errs.New(errs.InvalidArgument, "job", "fixed randomness: a proof made so is not zero-knowledge").WithHint("start the engine with the test option if this is a test")
	}
	r := &run{e: e, job: *job, in: in, done: make(chan struct{}), callers: 1, begin: e.cfg.Clock.Now()}
	if err == nil {
		r.keyFile, r.keyID, err = openInput("key", job.Key)
	}
	if err != nil {
		return nil, nil, errors.Join(err, in.close())
	}
	r.content = in.content(job, r.keyID)
	r.id = job.ID

	other, stopping, err := e.enter(r)
	if other != nil || stopping != nil || err != nil {
		_ = r.keyFile.Close()
		return other, stopping, errors.Join(err, in.close())
	}
	base, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r.stop = stop
	var noDeadline func() bool
	if !job.Deadline.IsZero() {
		noDeadline = e.cfg.Clock.AfterFunc(job.Deadline.Sub(e.cfg.Clock.Now()), func() {
			stop(&errs.Error{Class: errs.Deadline, Op: "job " + r.id, Found: "its deadline has passed", Err: context.DeadlineExceeded})
		})
	}
	close(r.started)
	e.cfg.Listener.job(JobInfo{Job: r.id, State: "accepted", Partitions: len(job.Partitions)})
	go func() {
		r.execute(base)
		if noDeadline != nil {
			noDeadline()
		}
		stop(nil)
		e.leave(r)
	}()
	return r, nil, nil
}

// enter puts r among the running jobs, or finds another with its id: one that r's caller is attached to, or one that is stopping and must end first.
func (e *Engine) enter(r *run) (other, stopping *run, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, nil, errDraining()
	}
	for r.id == "" {
		var b [8]byte
		rand.Read(b[:])
		id := "job-" + hex.EncodeToString(b[:])
		if e.jobs[id] == nil && e.kept[id] == nil {
			r.id = id
		}
	}
	for _, o := range []*run{e.jobs[r.id], e.kept[r.id]} {
		switch {
		case o == nil:
		case o.content != r.content:
			return nil, nil, errs.New(errs.Conflict, "job "+r.id, "the id is in use for a job with other content").WithHint("use another id; a repeated job must have the same files and options")
		case o.state == runStopping:
			return nil, o, nil
		default:
			o.callers++
			e.cfg.Listener.job(JobInfo{Job: r.id, State: "attached", Partitions: len(o.job.Partitions)})
			return o, nil, nil
		}
	}
	if n := e.accepted + len(r.job.Partitions); n > e.cfg.MaxPartitions {
		return nil, nil, &errs.Error{Class: errs.Unavailable, Op: "job " + r.id, Expected: fmt.Sprintf("at most %d partitions in work", e.cfg.MaxPartitions), Found: fmt.Sprint(n), Retryable: true, Hint: "try again later"}
	}
	e.accepted += len(r.job.Partitions)
	e.order++
	r.order = e.order
	r.started = make(chan struct{})
	e.jobs[r.id] = r
	return nil, nil, nil
}

// keepBytes bounds the results that are remembered, whatever their number: a proof is small, but its public inputs may be a million.
const keepBytes = 64 << 20

// leave takes a finished job out, and remembers it if it went well.
func (e *Engine) leave(r *run) {
	state := "done"
	if r.err != nil {
		state = "failed"
	}
	e.cfg.Listener.job(JobInfo{Job: r.id, State: state, Partitions: len(r.job.Partitions), Err: r.err, Elapsed: e.cfg.Clock.Now().Sub(r.begin)})
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.jobs, r.id)
	e.accepted -= len(r.job.Partitions)
	r.state = runDone
	r.in, r.key, r.front, r.candidates, r.session = nil, nil, nil, nil, nil // a kept result must not keep what made it
	if r.err == nil && e.cfg.KeepResults > 0 {
		r.state = runKept
		e.kept[r.id] = r
		e.keptIDs = append(e.keptIDs, r.id)
		e.keptSize += r.result.size()
		for len(e.keptIDs) > e.cfg.KeepResults || e.keptSize > e.keepSize {
			id := e.keptIDs[0]
			e.keptSize -= e.kept[id].result.size()
			delete(e.kept, id)
			e.keptIDs = e.keptIDs[1:]
		}
	}
	close(r.done)
	e.idle.Broadcast()
}

// detach is a caller that waits no longer. The last one takes a running job with it, and sees it end.
func (e *Engine) detach(r *run, cause error) {
	e.mu.Lock()
	r.callers--
	last := r.callers == 0 && (r.state == runRunning || r.state == runStopping)
	if last {
		r.state = runStopping
	}
	e.mu.Unlock()
	if last {
		<-r.started
		r.stop(cause)
		<-r.done
	}
}

func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

func errDraining() error {
	return &errs.Error{Class: errs.Unavailable, Op: "prove", Found: "the engine is closing and takes no new jobs", Retryable: true}
}

// Close refuses new jobs, lets those that run finish, and stops the plugins. When ctx ends, what still runs is canceled. It returns when nothing is
// left; an error of class Internal says that something was not given back.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() { e.closeErr = e.close(ctx) })
	return e.closeErr
}

func (e *Engine) close(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, stop := range e.setups {
			stop(&errs.Error{Class: errs.Unavailable, Op: "setup", Found: "given up: the engine was closed", Retryable: true})
		}
		for _, r := range e.jobs {
			r.state = runStopping
			go func() {
				<-r.started
				r.stop(&errs.Error{Class: errs.Unavailable, Op: "job " + r.id, Found: "given up: the engine was closed", Retryable: true})
			}()
		}
	})
	defer stop()
	e.mu.Lock()
	e.closing = true
	for len(e.jobs)+len(e.setups) > 0 {
		e.idle.Wait()
	}
	e.mu.Unlock()

	var all []error
	e.keys.closeAll()
	e.circuits.closeAll()
	// The plugins have nothing left to do; their own deadlines bound this.
	ctx = context.WithoutCancel(ctx)
	for _, b := range e.backends {
		all = append(all, b.prover.Close(ctx))
	}
	for _, f := range e.fronts {
		all = append(all, f.synth.Shutdown(ctx))
	}
	if e.unwatch != nil {
		e.unwatch() // the listener has been told of the last change when Close returns
	}
	if s := e.ledger.Stats(); s.Total != 0 || s.PermitsUsed != 0 || s.Grants != 0 || s.Waiting != 0 {
		all = append(all, errs.New(errs.Internal, "close engine", "not given back: %v; %d permits, %d grants, %d waiting", s.Reserved.String(), s.PermitsUsed, s.Grants, s.Waiting))
	}
	for _, d := range e.ledger.Stats().Devices {
		if d.Total != 0 {
			all = append(all, errs.New(errs.Internal, "close engine", "not given back: %v of %s", d.Reserved.String(), d.Name))
		}
	}
	e.gauges.mu.Lock()
	if now := e.gauges.now; now != (Gauges{}) {
		all = append(all, errs.New(errs.Internal, "close engine", "gauges are not zero: %+v", now))
	}
	e.gauges.mu.Unlock()
	all = append(all, e.pool.Close())
	return errors.Join(all...)
}

// proverSource and synthesizerSource choose between code in this process and a plugin process. A plugin that is not part of weir is a tenant of its own:
// buffers it has seen serve no other plugin.
func proverSource(e *Engine, c BackendConfig, h *health) (live.Source[contract.Prover], string, error) {
	if c.New == nil {
		return remoteProver(e, c, h)
	}
	p, err := c.New(e.pool)
	if err != nil {
		return nil, "", errs.Wrap(err, "backend "+c.Name)
	}
	return live.Static(p), "", nil
}

func synthesizerSource(e *Engine, c SynthesizerConfig, h *health) (live.Source[contract.Synthesizer], string, error) {
	if c.New == nil {
		return remoteSynthesizer(e, c, h)
	}
	s, err := c.New(e.pool)
	if err != nil {
		return nil, "", errs.Wrap(err, "synthesizer "+c.Name)
	}
	return live.Static(s), "", nil
}
