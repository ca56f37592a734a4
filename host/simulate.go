package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/eventclock"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/memlimit"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// NewSimulated starts an engine for models: the same code as New, but key files may be those that the model writes, whose sizes are a profile's, and buffers are, where
// virtual is set, counted and not allocated. The configuration names the plugins; where buffers are real, real provers may be among them.
func NewSimulated(ctx context.Context, cfg Config, virtual bool) (*Engine, error) {
	return newEngine(ctx, cfg, modelDeps(virtual))
}

func modelDeps(virtual bool) deps {
	d := realDeps()
	d.virtual = virtual
	check := d.newVerifier
	d.newVerifier = func(vk *groth16.VerifyingKey) (verifier, error) {
		v, err := check(vk)
		if err != nil {
			return nil, err
		}
		return &remembering{v: v, known: map[string]error{}}, nil
	}
	d.readKey = func(f *os.File) (*keyHeader, error) {
		h, err := readModelKey(f)
		if !virtual && errs.Is(err, errs.InvalidFile) { // not the model's
			return readKeyHeader(f)
		}
		return h, err
	}
	return d
}

// remembering checks a proof once: the model makes the same few over and over.
type remembering struct {
	v verifier

	mu    sync.Mutex
	known map[string]error // by proof and public inputs
}

// Verify implements verifier.
func (r *remembering) Verify(proof *groth16.Proof, public []fr.Element) error {
	b := proof.Bytes()
	id := string(b[:])
	for i := range public {
		id += string(groth16.ScalarBytes(&public[i]))
	}
	r.mu.Lock()
	err, ok := r.known[id]
	r.mu.Unlock()
	if ok {
		return err
	}
	err = r.v.Verify(proof, public)
	if err == nil || errs.Is(err, errs.InvalidProof) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.known) < rememberedProofs {
			r.known[id] = err
		}
	}
	return err
}

// rememberedProofs bounds what is remembered where real provers are among the plugins.
const rememberedProofs = 64

func readModelKey(f *os.File) (*keyHeader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, errs.Wrap(err, "open key")
	}
	c, vk, err := model.ReadKey(f, st.Size())
	if err != nil {
		return nil, err
	}
	return &keyHeader{Shape: c.Shape(), VK: vk}, nil
}

// Simulation is a run of the engine over a model, in its own time.
type Simulation struct {
	Profile *model.Profile
	// Config is the engine's. Plugins, clock and threads are the simulation's; a MemoryBudget of 0 is what the profile's machine has.
	Config Config
	// Proofs is how many jobs are asked for, Concurrency how many at once: as one is done the next is asked for.
	Proofs, Concurrency int
	// Duration is after how long no job is asked for any more; 0: Proofs decides alone. With a Duration, Proofs may be 0, which is no bound.
	Duration time.Duration
	// CancelRate is the part of the jobs, from 0 to 1, that their callers give up at some moment. What they hold comes back at one moment, on many goroutines: figures may
	// differ a little from run to run then.
	CancelRate float64
	// Mix is what jobs are of, in turn; empty: the first circuit of the profile.
	Mix []SimulatedJob
	// Seed decides jitter and failures of the profile.
	Seed uint64
}

// SimulatedJob is a kind of job.
type SimulatedJob struct {
	Circuit  string // of the profile; empty: its first
	Priority Priority
}

// Simulate runs s to its end. Its figures are the same every time. Errors: errs.InvalidArgument for a simulation that cannot be, and what the engine reports of the
// configuration; a job that fails is a figure.
func Simulate(ctx context.Context, s Simulation) (*Simulated, error) {
	if s.Profile == nil || s.Proofs < 0 || s.Duration < 0 || s.Proofs == 0 && s.Duration == 0 || s.Concurrency < 1 {
		return nil, errs.Mismatch(errs.InvalidArgument, "simulate", "", "a profile, at least one proof or a duration, and one at a time",
			fmt.Sprintf("profile: %t, proofs: %d, duration: %v, at once: %d", s.Profile != nil, s.Proofs, s.Duration, s.Concurrency))
	}
	if !(s.CancelRate >= 0 && s.CancelRate <= 1) {
		return nil, errs.Mismatch(errs.InvalidArgument, "simulate", "cancel rate", "0 to 1", s.CancelRate)
	}
	if err := s.Profile.Validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "weir-model-*")
	if err != nil {
		return nil, errs.Wrap(err, "simulate")
	}
	defer os.RemoveAll(dir)
	clock := eventclock.New()
	var out *Simulated
	rerr := clock.Run(func() { out, err = s.run(ctx, clock, dir) })
	if err = errors.Join(rerr, err); err != nil {
		return nil, err
	}
	return out, nil
}

// run is called under the clock.
func (s *Simulation) run(ctx context.Context, clock *eventclock.Clock, dir string) (_ *Simulated, err error) {
	cfg := s.Config
	opts := model.Options{Profile: s.Profile, Clock: clock, Seed: s.Seed, Version: Version}
	cfg.Backends = []BackendConfig{{Name: "model", New: func(r slab.Resolver) (contract.Prover, error) { return model.NewProver(r, opts), nil }}}
	cfg.Synthesizers = []SynthesizerConfig{{Name: "model", New: func(r slab.Resolver) (contract.Synthesizer, error) { return model.NewSynthesizer(r, opts), nil }}}
	cfg.Backend, cfg.Clock, cfg.Threads, cfg.KeepResults = "model", clock, s.Profile.Machine.Cores, -1
	// What the processes take anyway is not the ledger's.
	budget, base := cfg.MemoryBudget, int64(s.Profile.Machine.Base)
	if budget == 0 {
		budget = memlimit.Of(int64(s.Profile.Machine.Memory), s.Profile.Name).Bytes
	}
	if budget != NoBudget {
		if budget <= base {
			return nil, errs.Mismatch(errs.Exhausted, "simulate", "memory", fmt.Sprintf("a budget above the base of %v that the processes of profile %s take", ledger.Size(base), s.Profile.Name), ledger.Size(budget))
		}
		cfg.MemoryBudget = budget - base
	}
	seen := &observer{circuits: map[string]*model.Circuit{}, begun: map[partitionID]time.Time{}}
	cfg.Listener = TeeListener(cfg.Listener, seen.listener())
	jobs, circuits, err := s.jobs(dir)
	if err != nil {
		return nil, err
	}
	// One after the other, in an order that does not change, a nanosecond apart: then nothing depends on which goroutine is faster.
	turn := func(i int) { clock.Sleep(time.Duration(i)) }
	d := modelDeps(true)
	d.turn = turn
	e, err := newEngine(ctx, cfg, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	begin := clock.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for w := range s.Concurrency {
		wg.Go(func() {
			turn(w)
			for {
				asked := clock.Now()
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if s.Proofs > 0 && i >= s.Proofs || s.Duration > 0 && asked.Sub(begin) >= s.Duration {
					return
				}
				job := jobs[i%len(jobs)]
				job.ID, job.Options = jobID(i), map[string]string{model.OptionJob: strconv.Itoa(i)}
				seen.begins(job.ID, circuits[i%len(jobs)])
				jctx, cancel := s.caller(ctx, clock, i, circuits[i%len(jobs)])
				r, err := e.Prove(jctx, &job)
				seen.done(job.ID, asked.Sub(begin), clock.Now().Sub(begin), r, err, jctx.Err() != nil && ctx.Err() == nil && errs.Is(err, errs.Canceled))
				cancel()
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(err, "simulate")
	}
	return seen.result(s.Profile, budget, clock.Now().Sub(begin), e.Report())
}

// caller is the context of job i, which may end before the job does.
func (s *Simulation) caller(ctx context.Context, clock *eventclock.Clock, i int, c *model.Circuit) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	luck := rand.New(rand.NewPCG(s.Seed, uint64(i)))
	if luck.Float64() >= s.CancelRate {
		return ctx, cancel
	}
	alone := c.SynthesisAt(1) + time.Duration(c.Partitions)*time.Duration(c.Prepare+c.Kernels+c.Tail+c.Finish)
	stop := clock.AfterFunc(time.Duration(luck.Float64()*float64(s.Concurrency)*float64(alone)), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func jobID(i int) string { return fmt.Sprintf("job-%d", i) }

// jobs writes the files of the mix, and makes a job of each of its kinds.
func (s *Simulation) jobs(dir string) (jobs []Job, circuits []*model.Circuit, err error) {
	witness := filepath.Join(dir, "witness")
	if err := os.WriteFile(witness, nil, 0o600); err != nil {
		return nil, nil, errs.Wrap(err, "simulate")
	}
	mix := s.Mix
	if len(mix) == 0 {
		mix = []SimulatedJob{{}}
	}
	for i, m := range mix {
		c, err := s.Profile.Circuit(m.Circuit)
		if err != nil {
			return nil, nil, err
		}
		key, err := modelKey(filepath.Join(dir, fmt.Sprintf("%d.key", i)), c)
		if err != nil {
			return nil, nil, err
		}
		job := Job{Priority: m.Priority, Kind: model.Kind, Key: key}
		for range c.Partitions {
			job.Partitions = append(job.Partitions, Partition{Witness: witness})
		}
		jobs, circuits = append(jobs, job), append(circuits, c)
	}
	return jobs, circuits, nil
}

// modelKey writes the key file of c and returns its path.
func modelKey(path string, c *model.Circuit) (string, error) {
	f, err := os.Create(path)
	if err != nil {
		return "", errs.Wrap(err, "write key of the model")
	}
	if err := errors.Join(model.WriteKey(f, c), f.Close()); err != nil {
		return "", errs.Wrap(err, "write key of the model")
	}
	return path, nil
}
