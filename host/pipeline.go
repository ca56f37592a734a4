package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// This file is the life of a partition, from top to bottom:
//
//	admit -> permit, bytes, key, session (all at once) -> synthesise -> bounded queue -> lane: prove start
//	      -> evaluations consumed: free a/b/c, give the permit back -> device done: lane free
//	      -> finish (tails) -> check the proof -> free witness -> deliver
//
// The permit is held until the evaluations are freed, so sets of evaluations alive never exceed the permits, whatever waits where.
// Whoever holds a permit never waits for more than its backend: the queue has room for everybody with a permit.

// partition is one instance of a circuit on its way to a proof.
type partition struct {
	run    *run
	index  int
	spec   *contract.Partition
	report PartitionReport

	failed  map[*backend]bool  // backends that failed this partition
	suspect map[*backend]error // backends whose proof did not verify, until it is known whose fault that was
}

// holding is what a partition holds, and what must be given back, whatever happens.
type holding struct {
	p       *partition
	backend *backend
	copy    *keyCopy
	grant   *ledger.Grant
	tenant  string // of the buffers
	witness *slab.Buffer
	abc     *slab.Buffer // a, b and c in one
	synth   bool         // synthesis is running
	filled  bool         // the witness is complete
	shell   bool         // the evaluations are gone
	pending bool         // the device is done, the proof not checked
	public  []fr.Element
	used    int64  // bytes of the witness
	counted Gauges // what the gauges have of all this
}

// prove makes the partition's proof, in several attempts if backends fail.
func (p *partition) prove(ctx context.Context) (*groth16.Proof, []fr.Element, error) {
	begin := p.run.e.cfg.Clock.Now()
	h := &holding{p: p}
	defer h.free()
	for attempt := 1; ; attempt++ {
		proof, err := p.attempt(ctx, h, attempt)
		if err == nil {
			for b, cause := range p.suspect { // the witness is good, so those proofs were not
				p.run.e.blame(b, cause)
			}
			p.finish(h, attempt, begin)
			return proof, h.public, nil
		}
		if ctx.Err() != nil {
			return nil, nil, errs.Wrap(context.Cause(ctx), "prove")
		}
		if err == errLarger { // not a failure: ask again, with the true size
			h.free()
			attempt--
			continue
		}
		if err = p.again(h, attempt, err); err != nil {
			return nil, nil, err
		}
	}
}

// attempt is the main path.
func (p *partition) attempt(ctx context.Context, h *holding, n int) (*groth16.Proof, error) {
	e, r := p.run.e, p.run

	// Admit: permit, bytes, key and session, all at once or none.
	begin := e.cfg.Clock.Now()
	err := h.admit(ctx, n > 1)
	p.report.Admission = p.step("admission", n, h, begin, err)
	if err != nil {
		return nil, err
	}
	b, k := h.backend, h.copy

	// Key and session are charged; bring them in if they are not there.
	begin = e.cfg.Clock.Now()
	if err = k.load(ctx, e); err == nil {
		err = r.session.load(ctx)
	}
	p.report.KeyLoad = p.step("key", n, h, begin, err)
	if err != nil {
		return nil, err
	}

	// Synthesise: witness and evaluations. A kept witness is enough for a backend that evaluates the constraints itself.
	a, bb, c := h.evaluations()
	if !h.filled || h.abc != nil {
		h.filled = false
		begin = e.cfg.Clock.Now()
		h.set(SynthStart, func() { h.synth = true })
		out, err := r.front.synth.Synthesize(ctx, &contract.SynthesizeRequest{Session: r.session.id, Partition: p.index, Witness: h.witness.Ref(),
			A: a, B: bb, C: c, LogDomain: r.key.Shape.LogDomain, Rows: r.key.Shape.Rows, Threads: e.threads(len(r.session.partitions))})
		if err == nil {
			h.public, err = publicInputs(out, p.spec)
		}
		h.set(SynthDone, func() { h.synth = false })
		p.report.Synthesis = p.step("synthesis", n, h, begin, err)
		if err = errors.Join(err, h.grant.ReleaseAll(ledger.Synthesis)); err != nil {
			return nil, err
		}
		h.filled, h.used = true, out.WitnessBytes
	}

	if err := h.suits(b); err != nil {
		return nil, err
	}

	// Queue for a lane. Entering never blocks.
	begin = e.cfg.Clock.Now()
	place, err := b.queue.enter(r.job.Priority, n > 1, r.age(p.index))
	if err != nil {
		return nil, err
	}
	h.set(Queued, nil)
	err = b.queue.wait(ctx, place)
	p.report.Queue = p.step("queue", n, h, begin, err)
	if err != nil {
		return nil, err
	}
	lane := true
	leave := func() {
		if lane {
			lane = false
			b.queue.free()
		}
	}
	defer leave()

	// Prove. The backend's events free what it does not need any more.
	begin = e.cfg.Clock.Now()
	h.set(ProveStart, nil)
	var freeErr error
	answer, err := b.prover.Prove(ctx, &contract.ProveRequest{KeyID: k.key.name, Witness: h.witness.Ref().Slice(0, h.used), A: a, B: bb, C: c,
		Threads: e.cfg.Threads, InsecureTestRandomness: r.job.InsecureTestRandomness}, func(event contract.ProveEvent) {
		switch event {
		case contract.EvaluationsConsumed:
			p.report.Consume = p.step("consume", n, h, begin, nil)
			freeErr = h.evaluationsConsumed()
			begin = e.cfg.Clock.Now()
		case contract.DeviceDone:
			p.report.OnDevice = p.step("device", n, h, begin, nil)
			h.set(DeviceDone, func() { h.pending = true })
			leave()
			begin = e.cfg.Clock.Now()
		}
	})
	if err == nil {
		err = freeErr
	}
	p.report.Finish = p.step("finish", n, h, begin, err)
	if err != nil {
		return nil, err
	}
	if err := h.grant.ReleaseAll(ledger.Scratch); err != nil {
		return nil, err
	}

	// Check: nothing leaves unverified.
	begin = e.cfg.Clock.Now()
	proof := new(groth16.Proof)
	err = check(r.key, proof, answer.Bytes, h.public)
	h.set(FinalizeDone, func() { h.pending = false })
	p.report.Verify = p.step("verify", n, h, begin, err)
	if err != nil {
		return nil, err
	}
	p.report.Steps = answer.Times
	return proof, nil
}

// wrongProof is an answer that must not leave. certain: no witness, however bad, makes a sound backend answer so.
type wrongProof struct {
	cause   error
	certain bool
}

func (w *wrongProof) Error() string { return "wrong proof: " + w.cause.Error() }

// Unwrap gives the cause, whose class is InvalidProof.
func (w *wrongProof) Unwrap() error { return w.cause }

func check(k *key, proof *groth16.Proof, bytes []byte, public []fr.Element) error {
	if err := proof.SetBytes(bytes); err != nil {
		return &wrongProof{cause: err, certain: true}
	}
	if proof.A.IsInfinity() || proof.B.IsInfinity() {
		return &wrongProof{cause: errs.New(errs.InvalidProof, "check proof", "a point at infinity"), certain: true}
	}
	err := k.verify.Verify(proof, public)
	if errs.Is(err, errs.InvalidProof) {
		return &wrongProof{cause: err}
	}
	return err
}

// again decides what a failed attempt means: nil to try once more, or the error that the partition ends with.
func (p *partition) again(h *holding, attempt int, err error) error {
	e := p.run.e
	b := h.backend
	if p.failed == nil {
		p.failed, p.suspect = map[*backend]bool{}, map[*backend]error{}
	}
	var wrong *wrongProof
	switch {
	case errors.As(err, &wrong) && wrong.certain:
		p.failed[b] = true
		e.blame(b, wrong.cause)
	case errors.As(err, &wrong):
		// The backend, or a witness that does not satisfy the circuit. A second proof tells: if it holds, the first was the backend's fault.
		if len(p.suspect) > 0 {
			return p.unsatisfied(b, wrong)
		}
		p.failed[b] = true
		p.suspect[b] = wrong.cause
	case errs.IsRetryable(err):
		if changed := p.run.key.changed(e); changed != nil {
			return changed
		}
		if b != nil {
			p.failed[b] = true
		}
	case (errs.Is(err, errs.Exhausted) || errs.Is(err, errs.Unsupported)) && b != nil && h.filled && len(p.run.candidates) > 1 && !p.failed[b]:
		p.failed[b] = true // the device's memory or abilities, not ours: elsewhere it may do
	default:
		return err
	}
	if attempt >= e.cfg.MaxAttempts {
		return errs.Wrap(err, fmt.Sprintf("prove: given up after %d attempts", attempt))
	}
	return nil
}

// unsatisfied is the end of a partition whose proofs do not verify, whoever makes them.
func (p *partition) unsatisfied(b *backend, wrong *wrongProof) error {
	err := &errs.Error{Class: errs.InvalidProof, Op: "check proof", Where: "backend " + b.name, Err: wrong.cause}
	job := &p.run.job
	if job.Check == CheckOn || job.Check == CheckAuto && (job.Circuit != "" || p.run.key.Shape.HasC) {
		err.Hint = "the witness satisfies the circuit: the key belongs to another circuit, or the device is faulty"
	} else {
		err.Hint = "most likely the witness does not satisfy the circuit, or the key belongs to another one: name the constraint system and ask for a check of the witness"
	}
	return err
}

// admit gets everything that an attempt needs. A retry keeps its witness if the rest is granted at once; otherwise it gives up all it holds
// and waits at the front of its priority, so that waiting witnesses can never fill the budget.
func (h *holding) admit(ctx context.Context, retry bool) error {
	p, r, e := h.p, h.p.run, h.p.run.e
	b, err := e.pick(ctx, r.candidates, p.failed)
	if err != nil {
		return err
	}
	k, err := r.key.on(ctx, e, b)
	if err != nil {
		return err
	}
	h.backend, h.copy = b, k
	abc := int64(k.plan.Evaluations) * 32 << r.key.Shape.LogDomain
	req := ledger.Request{Owner: fmt.Sprintf("job %s partition %d", r.id, p.index), Priority: r.job.Priority, Front: retry, Order: r.age(p.index), Permit: true,
		Residents: []*ledger.Resident{k.resident, r.session.resident}}
	if abc > 0 {
		req.Need[ledger.Evaluations] = slab.RoundSize(abc)
	}
	req.Need[ledger.Scratch] = k.plan.ScratchBytes
	req.Need[ledger.Synthesis] = p.spec.ScratchBytes

	if h.grant != nil && h.tenant != tenantOf(r.front, b) {
		h.free() // a plugin of another tenant must not see this buffer
	}
	if h.grant != nil {
		if err := h.keepWitness(); err != nil {
			return err
		}
		more := req
		if h.filled && abc == 0 {
			more.Need[ledger.Synthesis] = 0
		}
		if g, ok := e.ledger.TryAcquire(more); !ok {
			h.free()
		} else if err := h.grant.Absorb(g); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	if h.grant == nil {
		req.Need[ledger.Witness] = slab.RoundSize(p.spec.WitnessBytes)
		if h.grant, err = e.ledger.Acquire(ctx, req); err != nil {
			return err
		}
	}
	return h.take(abc)
}

// suits refuses a witness in a form that the backend does not know.
func (h *holding) suits(b *backend) error {
	b.mu.Lock()
	compact := b.info.Has(contract.AbilityCompact)
	b.mu.Unlock()
	if compact {
		return nil
	}
	v, err := assignment.Parse(h.witness.Bytes()[:h.used])
	if err != nil {
		return errs.Wrap(err, "synthesize: synthesizer breaks the contract")
	}
	if v.Form() == assignment.Dense {
		return nil
	}
	return errs.Mismatch(errs.Unsupported, "prove", "backend "+b.name, "a dense witness: it does not have the ability "+contract.AbilityCompact, "a compact one").
		WithHint("choose a backend with this ability, such as cpu")
}

// take gets the buffers from the pool, all that are not there yet, before anything is written to them.
func (h *holding) take(abc int64) error {
	p, r, e := h.p, h.p.run, h.p.run.e
	tenant := tenantOf(r.front, h.backend)
	var err error
	if h.witness == nil {
		if h.witness, err = e.pool.Get(slab.Witness, p.spec.WitnessBytes, tenant); err != nil {
			return err
		}
		h.tenant = tenant
	}
	if abc > 0 {
		if h.abc, err = e.pool.Get(slab.Evaluations, abc, tenant); err != nil {
			return err
		}
	}
	e.ledger.TrimIdle()
	return nil
}

// set applies a change to h, moves the gauges to what h holds then, and tells the listener. Buffers are taken before the change that counts
// them and freed inside the one that drops them; what they are charged with is given back after it, so no gauge runs ahead of the account.
func (h *holding) set(event BufferEvent, change func()) {
	if change != nil {
		change()
	}
	was := h.counted
	h.counted = Gauges{Synth: one(h.synth), Aux: one(h.witness != nil), Provers: one(h.abc != nil), Shells: one(h.shell), Pending: one(h.pending)}
	if h.witness != nil {
		h.counted.Est += h.witness.Size()
	}
	if h.abc != nil {
		h.counted.Est += h.abc.Size()
	}
	h.p.run.e.buffers(event, h.p.run.id, h.p.index, h.counted, was)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// evaluations are the places of a, b, c in their buffer; absent ones have no length.
func (h *holding) evaluations() (a, b, c slab.Ref) {
	if h.abc == nil {
		return
	}
	n := int64(32) << h.p.run.key.Shape.LogDomain
	a, b = h.abc.Ref().Slice(0, n), h.abc.Ref().Slice(n, n)
	if h.copy.plan.Evaluations == 3 {
		c = h.abc.Ref().Slice(2*n, n)
	}
	return a, b, c
}

// evaluationsConsumed frees a, b, c first and gives permit and bytes back then.
func (h *holding) evaluationsConsumed() error {
	var err error
	h.set(ABCFreed, func() {
		if h.abc != nil {
			err = h.abc.Free()
			h.abc = nil
		}
		h.shell = true
	})
	return errors.Join(err, h.grant.ReleaseAll(ledger.Evaluations), h.grant.Move(ledger.Witness, ledger.Shell), h.grant.ReleasePermit())
}

// keepWitness brings a failed attempt back to where only the witness is held.
func (h *holding) keepWitness() error {
	var err error
	if !h.shell {
		err = h.evaluationsConsumed()
	}
	h.shell, h.pending = false, false // counted with the next event
	return errors.Join(err, h.grant.ReleaseAll(ledger.Synthesis), h.grant.ReleaseAll(ledger.Scratch), h.grant.Move(ledger.Shell, ledger.Witness))
}

// free gives back all that is held: buffers first, then what they are charged with.
func (h *holding) free() {
	if h.grant == nil {
		return
	}
	p := h.p
	var all []error
	h.set(DeallocDone, func() {
		for _, b := range []*slab.Buffer{h.abc, h.witness} {
			if b != nil {
				all = append(all, b.Free())
			}
		}
		h.abc, h.witness = nil, nil
		h.synth, h.shell, h.pending = false, false, false
	})
	all = append(all, h.grant.Close())
	*h = holding{p: p, backend: h.backend, copy: h.copy, public: h.public}
	if err := errors.Join(all...); err != nil {
		p.run.e.cfg.Logger.Error("giving memory back", "job", p.run.id, "partition", p.index, "error", err)
	}
}

// step tells the listener that a step ended, and returns how long it took.
func (p *partition) step(stage string, attempt int, h *holding, begin time.Time, err error) time.Duration {
	end := p.run.e.cfg.Clock.Now()
	i := TimelineInfo{Job: p.run.id, Partition: p.index, Attempt: attempt, Stage: stage, Begin: begin, End: end, Err: err}
	if h.backend != nil {
		i.Backend = h.backend.name
	}
	p.run.e.cfg.Listener.timeline(i)
	return end.Sub(begin)
}

// finish completes the report.
func (p *partition) finish(h *holding, attempt int, begin time.Time) {
	t := &p.report
	t.Partition, t.Backend, t.Attempts = p.index, h.backend.name, attempt
	t.Device = h.backend.info.Device
	t.CircuitDigest, t.NbConstraints, t.NbWires, t.NbPublic = p.spec.CircuitDigest, p.spec.NbConstraints, p.spec.NbWires, p.spec.NbPublic
	t.WitnessBytes = h.used
	t.Total = p.run.e.cfg.Clock.Now().Sub(begin)
}

// publicInputs reads what the proof will be checked against.
func publicInputs(s *contract.Synthesized, spec *contract.Partition) ([]fr.Element, error) {
	broken := func(where string, expected, found any) ([]fr.Element, error) {
		return nil, errs.Mismatch(errs.Internal, "synthesize: synthesizer breaks the contract", where, expected, found)
	}
	if len(s.Public) != spec.NbPublic {
		return broken("public inputs", spec.NbPublic, len(s.Public))
	}
	if s.WitnessBytes < 1 || s.WitnessBytes > spec.WitnessBytes {
		return broken("witness bytes", fmt.Sprintf("1 to %d", spec.WitnessBytes), s.WitnessBytes)
	}
	out := make([]fr.Element, len(s.Public))
	for i, b := range s.Public {
		x, err := groth16.ScalarFromBytes(b)
		if err != nil {
			return broken(fmt.Sprintf("public input %d", i), "a field element", err)
		}
		out[i] = x
	}
	return out, nil
}
