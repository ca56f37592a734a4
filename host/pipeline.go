package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/internal/live"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// This file is the life of a partition, from top to bottom:
//
//	admit -> permit, bytes, key, session (all at once) -> synthesise -> bounded queue -> lane: prove start
//	      -> evaluations consumed: free a/b/c, give the permit back -> device done: lane free
//	      -> finish (tails) -> check the proof -> free witness -> deliver
//
// The permit is held until the evaluations are freed, so sets of evaluations alive never exceed the permits, whatever waits where.
// Whoever holds a permit never waits for more than its backend: the queue has room for everybody with a permit. Other engines gave it back earlier;
// Config.PermitRelease can do so too, to show what comes of it.

// partition is one instance of a circuit on its way to a proof.
type partition struct {
	run    *run
	index  int
	spec   *contract.Partition
	report PartitionReport

	failed  map[*backend]bool  // backends that failed this partition
	suspect map[*backend]error // backends whose proof did not verify, until it is known whose fault that was
}

// prove makes the partition's proof, in several attempts if backends fail.
func (p *partition) prove(ctx context.Context) (*groth16.Proof, []fr.Element, error) {
	begin := p.run.e.cfg.Clock.Now()
	h := &holding{p: p, lane: -1}
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
	now := p.begin("admission", n, h)
	err := h.admit(ctx, n > 1)
	p.report.Admission = now.end(err)
	if err != nil {
		return nil, err
	}
	b, k := h.backend, h.copy

	// Key and session are charged; bring them in if they are not there.
	now = p.begin("key", n, h)
	if err = ofBackend(k.load(ctx, e)); err == nil {
		err = r.session.load(ctx)
	}
	p.report.KeyLoad = now.end(err)
	if err != nil {
		return nil, err
	}

	// Synthesise: witness and evaluations. A kept witness is enough for a backend that evaluates the constraints itself.
	a, bb, c := h.evaluations()
	if !h.filled || h.abc != nil {
		h.filled = false
		now = p.begin("synthesis", n, h)
		h.set(SynthStart, func() { h.synth = true })
		out, err := r.front.synth.Synthesize(ctx, &contract.SynthesizeRequest{Session: r.session.id, Partition: p.index, Witness: h.witness.Ref(),
			A: a, B: bb, C: c, LogDomain: r.key.Shape.LogDomain, Rows: r.key.Shape.Rows, Threads: e.threads(len(r.session.partitions))})
		if err == nil {
			h.public, err = publicInputs(out, p.spec)
		}
		h.set(SynthDone, func() { h.synth = false })
		p.report.Synthesis = now.end(err)
		if err = errors.Join(err, h.grant.ReleaseAll(ledger.Synthesis)); err != nil {
			return nil, err
		}
		h.filled, h.used = true, out.WitnessBytes
	}

	if err := h.suits(b); err != nil {
		return nil, err
	}
	if err := h.releasePermit(PermitSynthesized); err != nil {
		return nil, err
	}

	// Queue for a lane. With the permit in hand, entering never blocks.
	now = p.begin("queue", n, h)
	place, err := b.queue.enter(h.grant.Level(), n > 1, r.age(p.index))
	if err != nil {
		return nil, err
	}
	h.set(Queued, nil)
	if err = b.queue.sent(ctx, place); err == nil {
		if err = h.releasePermit(PermitSent); err != nil {
			b.queue.leave(place)
			return nil, err
		}
		err = b.queue.wait(ctx, place)
	}
	p.report.Queue = now.end(err)
	if err != nil {
		return nil, err
	}
	h.lane = place.lane
	leave := func() {
		if h.lane >= 0 {
			h.lane = -1
			b.queue.leave(place)
		}
	}
	defer leave()

	// Prove. The backend's events free what it does not need any more.
	now = p.begin("consume", n, h)
	h.set(ProveStart, nil)
	var freeErr error
	req := &contract.ProveRequest{KeyID: k.id, Witness: h.witness.Ref().Slice(0, h.used), A: a, B: bb, C: c,
		Threads: e.cfg.Threads, InsecureTestRandomness: r.job.InsecureTestRandomness}
	event := func(event contract.ProveEvent) {
		switch event {
		case contract.EvaluationsConsumed:
			p.report.Consume = now.end(nil)
			freeErr = h.evaluationsConsumed()
			now = p.begin("device", n, h)
		case contract.DeviceDone:
			p.report.OnDevice = now.end(nil)
			h.set(DeviceDone, func() { h.pending = true })
			leave()
			now = p.begin("finish", n, h)
		}
	}
	answer, err := b.prover.Prove(ctx, req, event)
	if err == live.ErrNotLoaded { // its process has died since this partition saw the key loaded
		if err = k.reload(ctx, e); err == nil {
			answer, err = b.prover.Prove(ctx, req, event)
		}
	}
	if err = ofBackend(err); err == nil {
		err = freeErr
	}
	p.report.Finish = now.end(err)
	if err != nil {
		return nil, err
	}
	if err := h.grant.ReleaseAll(ledger.Scratch); err != nil {
		return nil, err
	}

	// Check: nothing leaves unverified.
	now = p.begin("verify", n, h)
	proof := new(groth16.Proof)
	err = check(r.key, proof, answer.Bytes, h.public)
	h.set(FinalizeDone, func() { h.pending = false })
	p.report.Verify = now.end(err)
	if err != nil {
		return nil, err
	}
	p.report.Steps = answer.Times
	return proof, nil
}

// backendError is an error that the backend made, not the request, the synthesizer or the host: elsewhere it may not happen.
type backendError struct{ err error }

func (b *backendError) Error() string { return b.err.Error() }

// Unwrap gives the error itself.
func (b *backendError) Unwrap() error { return b.err }

func ofBackend(err error) error {
	if err == nil || err == errLarger {
		return err
	}
	return &backendError{err}
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
		if b != nil && errors.As(err, new(*backendError)) { // a synthesizer that dies says nothing of the backend
			p.failed[b] = true
		}
	case errors.As(err, new(*backendError)) && errs.IsOneOf(err, errs.Exhausted, errs.Unsupported, errs.Internal) && len(p.run.candidates) > 1 && !p.failed[b]:
		p.failed[b] = true // the device's memory, abilities or faults: elsewhere it may do
	default:
		return err
	}
	if attempt >= e.cfg.MaxAttempts {
		return errs.Wrap(err, fmt.Sprintf("prove: given up after %d attempts", attempt))
	}
	name := ""
	if b != nil {
		name = b.name
	}
	e.cfg.Logger.Warn("partition is proved again", "job", p.run.id, "partition", p.index, "backend", name, "attempt", attempt, "error", err)
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

// step is one step of a partition's attempt, which the listener is told of when it begins and when it ends.
type step struct {
	p    *partition
	h    *holding
	info TimelineInfo
}

func (p *partition) begin(stage string, attempt int, h *holding) step {
	s := step{p: p, h: h, info: TimelineInfo{Job: p.run.id, Partition: p.index, Attempt: attempt, Stage: stage, Begin: p.run.e.cfg.Clock.Now(), Start: true, Lane: h.lane}}
	s.name()
	p.run.e.cfg.Listener.timeline(s.info)
	return s
}

// end returns how long the step took.
func (s step) end(err error) time.Duration {
	s.info.Start, s.info.End, s.info.Err = false, s.p.run.e.cfg.Clock.Now(), err
	s.name()
	s.p.run.e.cfg.Listener.timeline(s.info)
	return s.info.End.Sub(s.info.Begin)
}

// name says which backend the partition has; before its admission it has none.
func (s *step) name() {
	if s.h.backend != nil {
		s.info.Backend = s.h.backend.name
	}
}

// finish completes the report.
func (p *partition) finish(h *holding, attempt int, begin time.Time) {
	t := &p.report
	t.Partition, t.Backend, t.Attempts = p.index, h.backend.name, attempt
	h.backend.mu.Lock()
	t.Device = h.backend.info.Device
	h.backend.mu.Unlock()
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
