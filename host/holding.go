package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// holding is what a partition holds, and what must be given back, whatever happens.
type holding struct {
	p       *partition
	backend *backend
	copy    *keyCopy
	grant   *ledger.Grant
	permit  bool   // until it is given back
	lane    int    // of the backend; -1: none
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

// admit gets everything that an attempt needs. A retry keeps its witness if the rest is granted at once; otherwise it gives up all it holds
// and waits at the front of its priority, so that waiting witnesses can never fill the budget.
func (h *holding) admit(ctx context.Context, retry bool) error {
	p, r, e := h.p, h.p.run, h.p.run.e
	b, err := e.pick(ctx, r.candidates, p.failed)
	if err != nil {
		return err
	}
	h.backend = b // before it is asked anything, so that it is the one to blame
	k, err := r.key.on(ctx, e, b)
	if err != nil {
		return ofBackend(err)
	}
	h.copy = k
	abc := int64(k.plan.Evaluations) * 32 << r.key.Shape.LogDomain
	req := ledger.Request{Owner: fmt.Sprintf("job %s partition %d", r.id, p.index), Priority: r.job.Priority, Front: retry, Order: r.age(p.index), Permit: true,
		Residents: append(r.session.residents(), k.resident)}
	if abc > 0 {
		req.Need[ledger.Evaluations] = slab.RoundSize(abc)
	}
	if k.scratch != nil {
		req.Residents = append(req.Residents, k.scratch)
	} else {
		req.Need[ledger.Scratch] = k.plan.ScratchBytes
	}
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
		ok, err := h.grant.Exchange([]ledger.Purpose{ledger.Evaluations, ledger.Synthesis, ledger.Scratch}, more)
		if err != nil {
			return err
		}
		if h.permit = ok; !ok {
			h.free()
		}
	}
	if h.grant == nil {
		req.Need[ledger.Witness] = slab.RoundSize(p.spec.WitnessBytes)
		if h.grant, err = e.ledger.Acquire(ctx, req); errs.Is(err, errs.Exhausted) {
			return ofBackend(err) // another one has another device, and other needs
		} else if err != nil {
			return err
		}
		h.permit = true
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
	return ofBackend(errs.Mismatch(errs.Unsupported, "prove", "backend "+b.name, "a dense witness: it does not have the ability "+contract.AbilityCompact, "a compact one").
		WithHint("choose a backend with this ability, such as cpu"))
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
	err := h.freeEvaluations()
	return errors.Join(err, h.grant.ReleaseAll(ledger.Evaluations), h.grant.Move(ledger.Witness, ledger.Shell), h.releasePermit(PermitFreed))
}

func (h *holding) freeEvaluations() (err error) {
	h.set(ABCFreed, func() {
		if h.abc != nil {
			err = h.abc.Free()
			h.abc = nil
		}
		h.shell = true
	})
	return err
}

// releasePermit gives the permit back if that is due now: when it is the configured moment, or the last one.
func (h *holding) releasePermit(when string) error {
	if !h.permit || when != PermitFreed && when != h.p.run.e.cfg.PermitRelease {
		return nil
	}
	h.permit = false
	return h.grant.ReleasePermit()
}

// keepWitness brings a failed attempt back to where only the witness is there; what the rest was charged with is still held.
func (h *holding) keepWitness() error {
	var err error
	if !h.shell {
		err = h.freeEvaluations()
	}
	h.shell, h.pending = false, false // counted with the next event
	return errors.Join(err, h.grant.Move(ledger.Shell, ledger.Witness))
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
	*h = holding{p: p, lane: -1, backend: h.backend, copy: h.copy, public: h.public}
	if err := errors.Join(all...); err != nil {
		p.run.e.cfg.Logger.Error("giving memory back", "job", p.run.id, "partition", p.index, "error", err)
	}
}
