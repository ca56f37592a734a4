package cuda

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Prove implements contract.Prover.
//
//	piA = alpha + sum z_j A_j + r delta
//	piB = beta  + sum z_j B_j + s delta              (in G2, and in G1 as B1)
//	piC = sum over private j of z_j K_j + H-sum + s piA + r B1 - r s delta
//
// The steps are: the witness goes up and is expanded; a, b, c are made of it on the device, or go up (from then on the host's are free: EvaluationsConsumed); the
// quotient; five sums; their points come back and are put together here. Between steps the lane is waited for and ctx looked at: a step is a fraction of a second.
func (b *Backend) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	const op = "prove"
	if req.InsecureTestRandomness != nil && !b.opts.AllowInsecureTestRandomness {
		return nil, errs.New(errs.PermissionDenied, op, "the request fixes r and s, and this backend was not started to allow that").
			WithHint("fixed randomness makes proofs that give the witness away; it is for tests that compare backends")
	}
	k, err := b.acquire(req.KeyID)
	if err != nil {
		return nil, err
	}
	defer b.release(k)
	p := &proof{key: k, ctx: ctx, tasks: b.threads(req.Threads)}
	if err := p.buffers(b.resolver, req); err != nil {
		return nil, errs.Wrap(err, op)
	}
	if err := p.draw(req.InsecureTestRandomness); err != nil {
		return nil, err
	}
	defer p.forget()
	if p.lane, err = k.g.lanes.take(ctx); err != nil {
		return nil, errs.Wrap(err, op)
	}
	var masks sync.WaitGroup
	masks.Go(func() { p.masks.make(&k.vk, &p.rnd) })
	err = p.run(event)
	k.g.lanes.give(p.lane)
	masks.Wait()
	if err != nil {
		return nil, errs.Wrap(err, op+" on "+k.g.where())
	}
	event(contract.DeviceDone)
	start := time.Now()
	out := p.sums.assemble(&k.vk, &p.rnd, &p.masks).Bytes()
	p.times = append(p.times, contract.StageTime{Stage: "assemble", Elapsed: time.Since(start)})
	if err := ctx.Err(); err != nil { // nobody waits for it: the answer to a cancel is an error at every stage
		return nil, errs.Wrap(err, op)
	}
	return &contract.Proof{Bytes: out[:], Times: p.times}, nil
}

// proof is one in the making.
type proof struct {
	key   *key
	ctx   context.Context
	tasks int
	lane  *lane

	w       *assignment.Vector
	a, b, c []byte // nil where the device evaluates

	rnd     groth16.Randomness
	masks   masks
	sums    sums
	windows [nbSections][]cudalib.Windows // of the pieces of each section
	used    [lanesOfProof]int64           // bytes of scratch that sums have written: the main line's, the sides'

	mu    sync.Mutex
	times []contract.StageTime // in the order of their ends
}

// buffers resolves and checks what the request names.
func (p *proof) buffers(r slab.Resolver, req *contract.ProveRequest) error {
	s := &p.key.shape
	want := int64(frBytes) << s.LogDomain
	if p.key.evaluates {
		want = 0
	}
	views := []struct {
		name string
		ref  slab.Ref
		to   *[]byte
	}{{"a", req.A, &p.a}, {"b", req.B, &p.b}, {"c", req.C, &p.c}}
	for _, v := range views {
		if v.ref.Length != want {
			e := errs.Mismatch(errs.InvalidArgument, "buffers", v.name, fmt.Sprintf("%d bytes (domain 2^%d)", want, s.LogDomain), v.ref.Length)
			if want == 0 {
				e.Expected = "none: the device evaluates the constraints"
			}
			return e
		}
		if want == 0 {
			continue
		}
		raw, err := r.Bytes(v.ref)
		if err != nil {
			return errs.Wrap(err, "buffer "+v.name)
		}
		if _, err := slab.View[fr.Element](raw); err != nil { // aligned
			return errs.Wrap(err, "buffer "+v.name)
		}
		*v.to = raw
	}
	if overlap(p.a, p.b) || overlap(p.b, p.c) || overlap(p.a, p.c) {
		return errs.New(errs.InvalidArgument, "buffers", "a, b and c overlap")
	}
	raw, err := r.Bytes(req.Witness)
	if err != nil {
		return errs.Wrap(err, "buffer witness")
	}
	if p.w, err = assignment.Parse(raw); err != nil {
		return err
	}
	if p.w.Len() != s.NbWires {
		return errs.Mismatch(errs.InvalidArgument, "witness", "length", fmt.Sprintf("%d variables", s.NbWires), p.w.Len()).
			WithHint("the witness belongs to another circuit than the key")
	}
	if w0 := p.w.At(0); !w0.IsOne() {
		return errs.Mismatch(errs.InvalidArgument, "witness", "variable 0", "1", "another value")
	}
	return nil
}

func overlap(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	px, py := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&y[0]))
	return px < py+uintptr(len(y)) && py < px+uintptr(len(x))
}

// draw sets r and s: fresh for every proof, unless a test fixes them.
func (p *proof) draw(fixed *groth16.Randomness) error {
	if fixed != nil {
		p.rnd = *fixed
		return nil
	}
	for _, x := range []*fr.Element{&p.rnd.R, &p.rnd.S} {
		if err := randomScalar(x); err != nil {
			return err
		}
	}
	return nil
}

// randomScalar draws 384 bits and reduces them: the distance from uniform is below 2^-128.
func randomScalar(x *fr.Element) error {
	var buf [48]byte
	if _, err := rand.Read(buf[:]); err != nil {
		return &errs.Error{Class: errs.Internal, Op: "draw randomness", Err: err}
	}
	x.SetBytes(buf[:])
	clear(buf[:])
	return nil
}

// forget overwrites the secrets that lie in this object.
func (p *proof) forget() { p.rnd, p.masks, p.sums = groth16.Randomness{}, masks{}, sums{} }

// run makes the sums on the device.
func (p *proof) run(event func(contract.ProveEvent)) (err error) {
	t := p.key.g.target(demand{p.key.plan.lanes, p.key.plan.lane.bytes})
	if err := p.lane.on.do(func() error { return p.lane.ensure(t.bytes) }); err != nil {
		return err
	}
	// Whatever happens, nothing secret is left for the lane's next user.
	defer func() {
		if werr := p.lane.on.do(p.wipe); err == nil {
			err = werr
		}
	}()
	event(contract.Accepted)
	if err := p.stage("witness", p.expand); err != nil {
		return err
	}
	beside := p.beside()
	err = p.mainLine(event)
	if serr := beside(); err == nil {
		err = serr
	}
	if err != nil {
		return err
	}
	return p.stage("results", p.fetch)
}

// beside begins the sums that run beside the main line, each on a lane of its own; the function that it returns waits for them.
func (p *proof) beside() func() error {
	if !p.key.plan.sides {
		return func() error { return nil }
	}
	var wg sync.WaitGroup
	var failed [nbSides]error
	for k, sections := range sideOf {
		w, l := &p.lane.sides[k], &p.key.plan.lane
		x := area{cudalib.Block{At: p.at(l.side[k]), Bytes: l.sideBytes[k]}, &p.used[1+k]}
		wg.Go(func() {
			for _, s := range sections {
				if failed[k] = p.stageOn(w, s.stage(), func() error { return p.sum(s, w.dev, x) }); failed[k] != nil {
					return
				}
			}
		})
	}
	return func() error {
		wg.Wait()
		return errors.Join(failed[:]...)
	}
}

// mainLine makes the scalars of H and the sums that nobody makes beside it.
func (p *proof) mainLine(event func(contract.ProveEvent)) (err error) {
	if p.key.evaluates {
		event(contract.EvaluationsConsumed)
		err = p.stage("spmv", p.evaluate)
	} else if err = p.stage("upload", p.uploadEvaluations); err == nil {
		event(contract.EvaluationsConsumed)
	}
	if err != nil {
		return err
	}
	if err := p.stage("ntt", p.quotient); err != nil {
		return err
	}
	for _, s := range []section{sectionH, sectionA, sectionB1, sectionB2, sectionK} {
		if p.key.plan.sides && s.side() >= 0 {
			continue
		}
		if err := p.stage(s.stage(), func() error { return p.sum(s, p.lane.dev, area{p.scratch(), &p.used[0]}) }); err != nil {
			return err
		}
	}
	return nil
}

// stage runs a step on the lane's thread, waits until the device has done it, and times it.
func (p *proof) stage(name string, f func() error) error { return p.stageOn(&p.lane.worker, name, f) }

func (p *proof) stageOn(w *worker, name string, f func() error) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	err := w.on.do(func() error {
		if err := f(); err != nil {
			return err
		}
		return w.dev.Wait(cudalib.QueueWork, 0)
	})
	p.mu.Lock()
	p.times = append(p.times, contract.StageTime{Stage: name, Elapsed: time.Since(start)})
	p.mu.Unlock()
	return errs.Wrap(err, name)
}

// at is an address in the lane's block.
func (p *proof) at(offset int64) cudalib.Addr { return p.lane.block.At + cudalib.Addr(offset) }

func (p *proof) scratch() cudalib.Block {
	l := &p.key.plan.lane
	return cudalib.Block{At: p.at(l.scratch), Bytes: l.scratchBytes}
}

// vector is where a, b or c lies.
func (p *proof) vector(i int) cudalib.Addr {
	return p.at(p.key.plan.lane.vectors + int64(i)*frBytes<<p.key.shape.LogDomain)
}

// expand uploads the witness and makes the scalars of it.
func (p *proof) expand() error {
	l, r := &p.key.plan.lane, p.lane.ring
	w := cudalib.Witness{Wires: p.w.Len(), Listed: len(p.w.List()), Compact: p.w.Form() == assignment.Compact, Scalars: p.at(l.scalars),
		Classes: cudalib.Block{At: p.at(l.classes), Bytes: p.key.plan.sizes.Classes}, Scratch: p.scratch()}
	at := p.at(l.vectors)
	var ticket cudalib.Ticket
	put := func(b []byte) (cudalib.Addr, error) {
		to := at
		at += cudalib.Addr(up(int64(len(b))))
		t, err := r.uploadBytes(to, b, p.lane.wiped, p.tasks)
		ticket = max(ticket, t)
		return to, err
	}
	var err error
	list := slab.BytesOf(p.w.List())
	if w.Compact {
		isBit, value := p.w.Bits()
		for _, x := range []struct {
			to *cudalib.Addr
			b  []byte
		}{{&w.IsBit, slab.BytesOf(isBit)}, {&w.Value, slab.BytesOf(value)}, {&w.Rank, slab.BytesOf(p.w.Ranks())}, {&w.List, list}} {
			if *x.to, err = put(x.b); err != nil {
				return err
			}
		}
	} else {
		w.List = w.Scalars
		if ticket, err = r.uploadBytes(w.Scalars, list, p.lane.wiped, p.tasks); err != nil {
			return err
		}
	}
	_, err = p.lane.dev.Witness(&w, ticket)
	return err
}

// uploadEvaluations copies a, b and c; when it returns they are not touched any more.
func (p *proof) uploadEvaluations() error {
	for i, v := range [][]byte{p.a, p.b, p.c} {
		if _, err := p.lane.ring.uploadBytes(p.vector(i), v, 0, p.tasks); err != nil {
			return err
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
	}
	p.a, p.b, p.c = nil, nil, nil
	return p.lane.dev.Wait(cudalib.QueueCopy, 0)
}

// evaluate makes a, b and, where the key has its rows, c of the scalars.
func (p *proof) evaluate() error {
	k, s := p.key, &p.key.shape
	count := 2
	if k.hasC {
		count = 3
	}
	if _, err := p.lane.dev.Clear(p.vector(0), int64(count)*frBytes<<s.LogDomain); err != nil {
		return err
	}
	var halves halves // of all matrices: the last rows of one are still at work when the first of the next go up
	for i := range count {
		m := &k.rows[i]
		r := cudalib.Rows{LogN: s.LogDomain, Order: s.Rows, Coeffs: k.coeffs, NbCoeffs: k.nbCoeffs, Scalars: p.at(k.plan.lane.scalars),
			Classes: p.at(k.plan.lane.classes), Out: p.vector(i), Scratch: p.scratch()}
		extra := 0
		if i == 0 {
			extra = s.NbPublic + 1
		}
		if m.host != nil {
			if err := p.evaluateStreamed(m, &r, extra, &halves); err != nil {
				return err
			}
			continue
		}
		r.Rows, r.Terms, r.Extra, r.Start, r.Wire, r.Coeff = s.NbConstraints, m.terms, extra, m.start, m.wire, m.coeff
		if _, err := p.lane.dev.Evaluate(&r, 0); err != nil {
			return err
		}
	}
	return nil
}

// evaluateStreamed brings a matrix through the two halves of the lane's stream area, a run of rows at a time: while one is multiplied the next is on its way.
func (p *proof) evaluateStreamed(m *matrix, r *cudalib.Rows, extra int, halves *halves) error {
	x, chunk := m.host, p.key.plan.chunk
	for lo := 0; ; {
		hi := lo
		for hi < x.Rows() && hi-lo < chunk && (hi == lo || int(x.Start[hi+1]-x.Start[lo]) <= chunk) {
			hi++
		}
		first, last := x.Start[lo], x.Start[hi]
		half := halves.next(p)
		r.First, r.Rows, r.Terms, r.Start = lo, hi-lo, int(last-first), half.at
		r.Wire = r.Start + cudalib.Addr(up(4*int64(hi-lo+1)))
		r.Coeff = r.Wire + cudalib.Addr(up(4*int64(last-first)))
		var up cudalib.Ticket
		for _, part := range []struct {
			to   cudalib.Addr
			from []uint32
		}{{r.Start, x.Start[lo : hi+1]}, {r.Wire, x.Wire[first:last]}, {r.Coeff, x.Coeff[first:last]}} {
			t, err := p.lane.ring.uploadBytes(part.to, slab.BytesOf(part.from), half.after, p.tasks)
			if err != nil {
				return err
			}
			up = max(up, t)
		}
		if hi == x.Rows() {
			r.Extra = extra
		}
		t, err := p.lane.dev.Evaluate(r, up)
		if err != nil {
			return err
		}
		halves.used(t)
		if hi == x.Rows() {
			return nil
		}
		if err := p.ctx.Err(); err != nil {
			return err
		}
		lo = hi
	}
}

// halves are the two parts of a lane's stream area, in turn.
type halves struct {
	n     int
	after [2]cudalib.Ticket // the step that used it last
}

type half struct {
	at    cudalib.Addr
	after cudalib.Ticket
}

func (h *halves) next(p *proof) half {
	l := &p.key.plan.lane
	return half{p.at(l.stream + int64(h.n%2)*l.streamBytes), h.after[h.n%2]}
}

func (h *halves) used(t cudalib.Ticket) {
	h.after[h.n%2] = t
	h.n++
}

// quotient turns a into the scalars of the H points.
func (p *proof) quotient() error {
	k := p.key
	_, err := p.lane.dev.Quotient(&cudalib.Quotient{LogN: k.shape.LogDomain, Basis: k.shape.H, Product: k.evaluates && !k.hasC, A: p.vector(0), B: p.vector(1), C: p.vector(2),
		Tables: k.tables, Remainder: p.at(k.plan.lane.remainder), Scratch: p.scratch()}, 0)
	return err
}

// area is a piece of scratch, and how much of it a proof has written.
type area struct {
	cudalib.Block
	used *int64
}

// sum makes the sum over a section on a lane of the library, in pieces, which come from the device's memory or are streamed through it (by the main line's lane only). Its
// parts go to the section's part of the results.
func (p *proof) sum(s section, dev *cudalib.Lane, scratch area) error {
	k := p.key
	count, n, bytes := sectionCounts(&k.shape)[s], k.plan.piece(s), s.pointBytes()
	result := p.at(k.plan.lane.results + p.resultOffset(s))
	m := cudalib.MSM{Group: s.group(), Scratch: scratch.Block, Scalars: p.at(k.plan.lane.scalars), Witness: true, Classes: p.at(k.plan.lane.classes)}
	first := 0
	switch s {
	case sectionH:
		m.Scalars, m.Witness, m.Classes = p.vector(0), false, 0
	case sectionK:
		first = k.shape.NbPublic + 1
	}
	var halves halves
	for lo := 0; lo < count; lo += n {
		m.N, m.First, m.Result = min(n, count-lo), first+lo, result
		result += cudalib.Addr(cudalib.ResultBytes(s.group()))
		if k.index[s] != 0 {
			m.First, m.Index = 0, k.index[s]+cudalib.Addr(4*lo)
		}
		var up cudalib.Ticket
		if k.plan.resident[s] {
			m.Points = k.sections[s] + cudalib.Addr(int64(lo)*bytes)
		} else {
			half := halves.next(p)
			m.Points = half.at
			part := sectionBytes(k.file.ProvingKey, s)[int64(lo)*bytes : int64(lo+m.N)*bytes]
			var err error
			if up, err = p.lane.ring.uploadBytes(m.Points, part, half.after, p.tasks); err != nil {
				return err
			}
		}
		t, sum, err := dev.MSM(&m, up)
		*scratch.used = max(*scratch.used, sum.Used)
		if err != nil {
			return err
		}
		p.windows[s] = append(p.windows[s], sum.Windows)
		halves.used(t)
		if err := p.ctx.Err(); err != nil {
			return err
		}
	}
	if !k.plan.resident[s] {
		releaseSection(k.file, s)
	}
	return nil
}

// resultOffset is where in the results the parts of a section's sum begin.
func (p *proof) resultOffset(s section) int64 {
	n := int64(0)
	counts := sectionCounts(&p.key.shape)
	for i, c := range counts[:s] {
		n += int64(p.key.plan.pieces(section(i), c)) * cudalib.ResultBytes(section(i).group())
	}
	return n
}

// fetch brings the sums and the remainder back, and refuses a witness whose quotient is no polynomial.
func (p *proof) fetch() error {
	l := &p.key.plan.lane
	raw := make([]byte, l.remainder+frBytes-l.results) // the remainder lies behind the results
	defer clear(raw)
	if err := p.lane.ring.download(raw, p.at(l.results)); err != nil {
		return err
	}
	if remainder := raw[len(raw)-frBytes:]; !bytes.Equal(remainder, make([]byte, frBytes)) {
		return errs.New(errs.Unsatisfied, "prove", "the evaluations do not belong to a satisfying witness: the quotient is no polynomial").
			WithHint("check the witness against the circuit (weir key check --key KEY --circuit R1CS --witness WTNS); the witness may belong to another circuit")
	}
	return p.sums.add(raw, p.key, &p.windows)
}

// wipe waits for the lane and overwrites what its memory tells of the witness. It does not wait for that: the lane's next proof does, on the device.
func (p *proof) wipe() (err error) {
	if err := p.key.g.dev.Lost(); err != nil {
		return err
	}
	if err := p.lane.drain(); err != nil {
		return err
	}
	p.lane.ring.wipe()
	l, z := &p.key.plan.lane, &p.key.plan.sizes
	parts := [][2]int64{{0, l.scratch}, {l.scratch, min(l.scratchBytes, max(p.used[0], z.Quotient, z.Witness, z.Evaluate))}}
	for k := range nbSides {
		parts = append(parts, [2]int64{l.side[k], min(l.sideBytes[k], p.used[1+k])})
	}
	for _, x := range parts {
		if x[1] > 0 {
			if p.lane.wiped, err = p.lane.dev.Clear(p.at(x[0]), x[1]); err != nil {
				return err
			}
		}
	}
	return nil
}
