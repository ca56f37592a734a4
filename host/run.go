package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// run is the one execution of a job.
type run struct {
	e       *Engine
	id      string
	content string
	order   uint64 // age
	job     Job
	begin   time.Time
	in      *inputs
	keyFile *os.File // until the key store takes it over
	keyID   fileID
	key     *key

	front      *front
	candidates []*backend
	circuit    *sharedCircuit // nil: the session has it
	session    *session

	started chan struct{} // closed when stop is set
	stop    context.CancelCauseFunc
	callers int           // waiting for the answer; guarded by Engine.mu
	state   runState      // guarded by Engine.mu
	done    chan struct{} // closed when result and err are final and nothing is held any more
	result  *Result
	err     error
}

// runState is where a run is in its life: running, perhaps stopping, done, perhaps kept. Engine.jobs has those that run or stop, Engine.kept those that
// are kept. A run that is stopping may still succeed: then its result is kept like any other.
type runState uint8

const (
	runRunning  runState = iota
	runStopping          // being given up: nobody attaches to it any more
	runDone
	runKept // done well, and remembered for a repeated id
)

// execute runs the job to its end and gives everything back.
func (r *run) execute(ctx context.Context) {
	result, err := r.prove(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = r.ended(cause)
	}
	if r.session != nil {
		r.session.close()
	}
	if r.circuit != nil {
		r.e.circuits.close(r.circuit)
	}
	if r.key != nil {
		r.e.keys.close(r.key)
	}
	if cerr := r.in.close(); cerr != nil && err == nil {
		err = cerr
	}
	if err != nil {
		result = nil
	} else {
		result.Elapsed = r.e.cfg.Clock.Now().Sub(r.begin)
		result.Peak = r.e.Report()
	}
	r.result, r.err = result, err
}

// size is the bytes that a result takes while it is remembered, nearly.
func (r *Result) size() int64 {
	n := int64(len(r.Proofs))*int64(unsafe.Sizeof(groth16.Proof{})+unsafe.Sizeof(PartitionReport{})) + int64(len(r.VK.IC))*int64(unsafe.Sizeof(r.VK.IC[0]))
	for _, p := range r.Public {
		n += int64(len(p)) * fr.Bytes
	}
	return n
}

// copyResult is the answer for one of the callers, who may all change what they get.
func (r *run) copyResult() *Result {
	c := *r.result
	c.Proofs, c.Partitions = slices.Clone(c.Proofs), slices.Clone(c.Partitions)
	vk := *c.VK
	vk.IC = slices.Clone(vk.IC)
	c.VK = &vk
	c.Public = slices.Clone(c.Public)
	for i := range c.Public {
		c.Public[i] = slices.Clone(c.Public[i])
	}
	return &c
}

// ended is the error of a job that was given up for cause.
func (r *run) ended(cause error) error {
	if errs.ClassOf(cause) == errs.Internal {
		return cause
	}
	return errs.Wrap(cause, "job "+r.id)
}

func (r *run) prove(ctx context.Context) (*Result, error) {
	var circuit *contract.Input
	for i := range r.in.list {
		if r.in.list[i].Role == contract.RoleCircuit {
			circuit = &r.in.list[i]
		}
	}
	var err error
	if r.key, err = r.e.keys.open(r.keyFile, r.keyID, &r.job, circuit, r.in.circuit); err != nil {
		return nil, err
	}
	kind := r.job.Kind
	if kind == "" {
		kind = defaultKind
	}
	if r.candidates, err = r.e.candidates(&r.job); err != nil {
		return nil, err
	}
	if r.front, err = r.e.frontFor(ctx, kind); err != nil {
		return nil, err
	}
	if r.front.keeps {
		if r.circuit, err = r.e.circuits.open(r, kind); err != nil {
			return nil, err
		}
	}
	if r.session, err = r.open(ctx, kind); err != nil {
		return nil, err
	}
	parts := r.session.partitions
	r.e.cfg.Listener.job(JobInfo{Job: r.id, State: "opened", Partitions: len(parts)})

	// Every partition on a goroutine of its own; the ledger decides who may go. The first failure ends the others.
	pctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &Result{JobID: r.id, Key: r.key.Shape, VK: r.key.VK, Insecure: r.key.Shape.Insecure || r.job.InsecureTestRandomness != nil,
		Proofs: make([]groth16.Proof, len(parts)), Public: make([][]fr.Element, len(parts)), Partitions: make([]PartitionReport, len(parts))}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	done := 0
	for i := range parts {
		wg.Go(func() {
			if turn := r.e.deps.turn; turn != nil {
				turn(i)
			}
			p := &partition{run: r, index: i, spec: &parts[i]}
			proof, public, err := p.prove(pctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if first == nil {
					first = err
					if len(parts) > 1 {
						first = errs.Wrap(err, fmt.Sprintf("partition %d", i))
					}
					cancel(errors.New("another partition failed"))
				}
				return
			}
			done++
			out.Proofs[i], out.Public[i], out.Partitions[i] = *proof, public, p.report
			r.e.cfg.Listener.job(JobInfo{Job: r.id, State: "running", Partitions: len(parts), Done: done})
		})
	}
	wg.Wait()
	if first != nil {
		return nil, first
	}
	return out, nil
}

// session is the synthesizer's side of a job: its parsed circuit stays in the plugin's memory, charged, until the job ends or somebody more urgent needs
// the bytes; then it is opened again.
type session struct {
	r          *run
	front      *front
	req        contract.OpenRequest
	partitions []contract.Partition
	resident   *ledger.Resident

	gate gate.Gate // one opening at a time
	id   string
}

// open asks the synthesizer what the job is made of.
func (r *run) open(ctx context.Context, kind string) (*session, error) {
	s := &session{r: r, front: r.front, gate: gate.New(), req: contract.OpenRequest{Kind: kind, Options: r.options(), Threads: r.e.cfg.Threads}}
	s.req.Inputs = append([]contract.Input{r.key.file}, r.in.list...)
	estimate := r.estimate()
	if r.circuit != nil {
		estimate = sessionBytes
	}
	s.resident = r.e.ledger.NewResident("session of job "+r.id, ledger.Session, estimate, s.unload)
	if r.circuit != nil {
		r.circuit.join(s)
	}
	for attempt := 1; ; attempt++ {
		g, err := r.e.ledger.Acquire(ctx, ledger.Request{Owner: "job " + r.id, Priority: r.job.Priority, Order: r.age(0), Residents: s.residents()})
		if err == nil {
			r.e.ledger.TrimIdle()
			err = s.load(ctx)
			if cerr := g.Close(); err == nil {
				err = cerr
			}
		}
		if err == errLarger {
			attempt--
			continue
		}
		if g != nil && errs.IsRetryable(err) && ctx.Err() == nil && attempt < r.e.cfg.MaxAttempts && r.key.changed(r.e) == nil {
			continue // its process died
		}
		if err == nil {
			err = r.fits(s.partitions)
		}
		if err != nil {
			s.close()
			return nil, err
		}
		return s, nil
	}
}

// sessionBytes is what a session probably keeps beside its circuit.
const sessionBytes = 4 << 10

// residents are what a grant for work in the session refers to.
func (s *session) residents() []*ledger.Resident {
	if c := s.r.circuit; c != nil {
		return []*ledger.Resident{c.resident, s.resident}
	}
	return []*ledger.Resident{s.resident}
}

// age orders partitions: by job, then by index.
func (r *run) age(partition int) uint64 { return r.order<<24 | uint64(partition) }

// options adds what the job's own fields say to the synthesizer's options. CheckAuto is what every synthesizer does by itself: it is not sent, so that one
// which cannot check need not know the option.
func (r *run) options() map[string]string {
	if r.job.Check == CheckAuto {
		return r.job.Options
	}
	o := map[string]string{checkOption: r.job.Check.String()}
	maps.Copy(o, r.job.Options) // openJob has refused one that is here
	return o
}

// estimate is what a parsed circuit probably keeps in memory. In a .r1cs a term takes 36 bytes, in memory 8, and a constraint as many as there; coefficients that
// are not repeated add to it. In a key it is a small part of the file. When it turns out too small, the session is opened again with its true size reserved.
func (r *run) estimate() int64 {
	n := r.key.file.Size / 8
	for _, in := range r.in.list {
		if in.Role == contract.RoleCircuit {
			n = in.Size * 3 / 8
		}
	}
	return min(n, r.e.ledger.Budget()/2)
}

// fits refuses a circuit that is not the key's before anything is computed.
func (r *run) fits(parts []contract.Partition) error {
	k := &r.key.Shape
	if len(parts) != len(r.job.Partitions) {
		return errs.Mismatch(errs.Internal, "open: synthesizer breaks the contract", "partitions", len(r.job.Partitions), len(parts))
	}
	for i := range parts {
		p := &parts[i]
		switch {
		case p.NbWires == k.NbWires && p.NbPublic == k.NbPublic && (k.NbConstraints < 0 || p.NbConstraints == k.NbConstraints):
		default:
			return errs.Mismatch(errs.InvalidFile, "match key and circuit", fmt.Sprintf("partition %d", i), fmt.Sprintf("a circuit of %d wires, %d public, %d constraints, as the key has", k.NbWires, k.NbPublic, k.NbConstraints),
				fmt.Sprintf("%d wires, %d public, %d constraints", p.NbWires, p.NbPublic, p.NbConstraints)).WithPath(r.key.path).WithHint("the key was made for another circuit")
		}
	}
	return nil
}

// load opens the session unless it is open. The caller holds a grant that refers to its resident.
func (s *session) load(ctx context.Context) error {
	if err := s.gate.Enter(ctx); err != nil {
		return err
	}
	defer s.gate.Leave()
	switch {
	case s.resident.Loaded():
		return nil
	case s.resident.Outgrown(): // as another partition has just found out
		return errLarger
	}
	if c := s.r.circuit; c != nil {
		if err := c.load(ctx, &s.req); err != nil {
			return err
		}
		s.req.Base = c.session
	}
	opened, err := s.front.synth.Open(ctx, &s.req)
	if err != nil {
		return err // and nothing is open
	}
	s.id = opened.ID
	s.resident.SetLoading()
	if s.partitions != nil && len(opened.Partitions) != len(s.partitions) {
		err = errs.Mismatch(errs.InvalidFile, "open again", "partitions", len(s.partitions), len(opened.Partitions))
	} else if !s.resident.SetLoaded(opened.ResidentBytes) {
		err = errLarger
	}
	if err != nil {
		if s.unload() == nil { // if not, the ledger asks again before it takes the bytes as free
			s.resident.SetUnloaded()
		}
		return err
	}
	if s.partitions == nil {
		s.partitions = opened.Partitions
	}
	return nil
}

// unload returns nil when the synthesizer has given the session's memory back, or is gone. The ledger calls it when no grant refers to the session, so that
// nobody opens it meanwhile.
func (s *session) unload() error {
	e := s.r.e
	ctx, stop := e.cfg.Clock.WithTimeout(context.Background(), e.cfg.CancelTimeout)
	defer stop()
	err := s.front.synth.Close(ctx, s.id)
	if err != nil {
		e.cfg.Logger.Error("a plugin does not give a session's memory back", "synthesizer", s.front.name, "job", s.r.id, "error", err)
	}
	return err
}

// close ends the session and returns when its memory is free.
func (s *session) close() {
	gone := make(chan struct{})
	s.resident.Retire(func() { close(gone) })
	<-gone
	if c := s.r.circuit; c != nil {
		c.leave(s)
	}
}
