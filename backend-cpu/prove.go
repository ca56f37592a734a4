package cpu

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"time"
	"unsafe"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/backend-cpu/msm"
	"github.com/weir-zk/weir/internal/procmem"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Prove implements contract.Prover. The order of the steps is chosen for the host's memory: the sum over H takes its scalars from the buffer of a, so
// it comes first, and a, b and c are free (EvaluationsConsumed) when it is done; the other four sums need the witness only.
//
//	piA = alpha + sum z_j A_j + r delta
//	piB = beta  + sum z_j B_j + s delta              (in G2, and in G1 as B1)
//	piC = sum over private j of z_j K_j + H-sum + s piA + r B1 - r s delta
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
	p := &proof{key: k, tasks: b.threads(req.Threads), releasePages: b.opts.ReleaseKeyPages}
	if err := p.buffers(b.resolver, req); err != nil {
		return nil, errs.Wrap(err, op)
	}
	select {
	case b.lane <- struct{}{}:
		defer func() { <-b.lane }()
	case <-ctx.Done():
		return nil, errs.Wrap(ctx.Err(), op)
	}
	// From here on: who waits for the lane has none.
	if p.scratch, err = arena.New(scratchBytes(&k.pk.Shape, p.tasks)); err != nil {
		return nil, errs.Wrap(err, op)
	}
	defer func() {
		_ = p.scratch.Close() // munmap of what was mapped does not fail
		procmem.GiveBack()
	}()
	if err := p.draw(req.InsecureTestRandomness); err != nil {
		return nil, err
	}
	defer p.forget()
	event(contract.Accepted)
	if err := p.consume(ctx); err != nil {
		return nil, errs.Wrap(err, op)
	}
	event(contract.EvaluationsConsumed)
	if err := p.sums(ctx); err != nil {
		return nil, errs.Wrap(err, op)
	}
	event(contract.DeviceDone)
	out := p.assemble().Bytes()
	if err := ctx.Err(); err != nil { // nobody waits for it: the answer to a cancel is an error at every stage
		return nil, errs.Wrap(err, op)
	}
	return &contract.Proof{Bytes: out[:], Times: p.times}, nil
}

// proof is one in the making.
type proof struct {
	key          *key
	tasks        int
	releasePages bool

	w       *assignment.Vector
	a, b, c []fr.Element

	scratch *arena.Arena // the sums' working memory
	classes *msm.Witness // w sorted by what its values cost
	rnd     groth16.Randomness
	factors [3]big.Int // r, s, -r s
	hSum    bls.G1Jac
	aSum    bls.G1Jac
	b1Sum   bls.G1Jac
	b2Sum   bls.G2Jac
	kSum    bls.G1Jac
	times   []contract.StageTime
}

// buffers resolves and checks what the request names.
func (p *proof) buffers(r slab.Resolver, req *contract.ProveRequest) error {
	pk := p.key.pk
	want := int64(pk.DomainSize()) * fr.Bytes
	var err error
	for _, v := range []struct {
		name string
		ref  slab.Ref
		to   *[]fr.Element
	}{{"a", req.A, &p.a}, {"b", req.B, &p.b}, {"c", req.C, &p.c}} {
		if v.ref.Length != want {
			return errs.Mismatch(errs.InvalidArgument, "buffers", v.name, fmt.Sprintf("%d bytes (domain 2^%d)", want, pk.LogDomain), v.ref.Length)
		}
		raw, err := r.Bytes(v.ref)
		if err != nil {
			return errs.Wrap(err, "buffer "+v.name)
		}
		if *v.to, err = slab.View[fr.Element](raw); err != nil {
			return errs.Wrap(err, "buffer "+v.name)
		}
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
	if p.w.Len() != pk.NbWires {
		return errs.Mismatch(errs.InvalidArgument, "witness", "length", fmt.Sprintf("%d variables", pk.NbWires), p.w.Len()).
			WithHint("the witness belongs to another circuit than the key")
	}
	if w0 := p.w.At(0); !w0.IsOne() {
		return errs.Mismatch(errs.InvalidArgument, "witness", "variable 0", "1", "another value")
	}
	return nil
}

func overlap(x, y []fr.Element) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	size := uintptr(len(x)) * fr.Bytes
	px, py := uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&y[0]))
	return px < py+size && py < px+size
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

// forget overwrites the secrets that lie in this object and in what it alone refers to. The sums show as much of the witness as r and s hide.
func (p *proof) forget() {
	if p.classes != nil {
		p.classes.Forget()
	}
	for i := range p.factors {
		words := p.factors[i].Bits()
		clear(words[:cap(words)])
	}
	*p = proof{times: p.times, scratch: p.scratch}
}

// stage times f.
func (p *proof) stage(name string, f func() error) error {
	start := time.Now()
	err := f()
	p.times = append(p.times, contract.StageTime{Stage: name, Elapsed: time.Since(start)})
	return err
}

// consume does all that needs a, b or c.
func (p *proof) consume(ctx context.Context) error {
	pk := p.key.pk
	var factor fr.Element
	err := p.stage("ntt", func() (err error) {
		factor, err = quotient(ctx, p.key.domain, pk.Shape.H, p.a, p.b, p.c, p.tasks)
		return err
	})
	if err != nil {
		return err
	}
	return p.stage("msm-h", func() (err error) {
		p.hSum, err = msm.In{Arena: p.scratch}.G1(ctx, pk.H, p.a[:pk.NbH], p.tasks)
		p.hSum.ScalarMultiplication(&p.hSum, factor.BigInt(new(big.Int)))
		p.drop(sectionH)
		return err
	})
}

// assemble puts the sums together.
func (p *proof) assemble() *groth16.Proof {
	vk := &p.key.pk.VK
	r, s, rs := &p.factors[0], &p.factors[1], &p.factors[2]
	p.rnd.R.BigInt(r)
	p.rnd.S.BigInt(s)
	var t fr.Element
	t.Mul(&p.rnd.R, &p.rnd.S).Neg(&t)
	t.BigInt(rs)

	var delta bls.G1Jac
	delta.FromAffine(&vk.DeltaG1)
	times := func(p *bls.G1Jac, k *big.Int) *bls.G1Jac { return new(bls.G1Jac).ScalarMultiplication(p, k) }

	a := p.aSum
	a.AddMixed(&vk.AlphaG1)
	a.AddAssign(times(&delta, r))

	b1 := p.b1Sum
	b1.AddMixed(&vk.BetaG1)
	b1.AddAssign(times(&delta, s))

	b2 := p.b2Sum
	b2.AddMixed(&vk.BetaG2)
	var d2 bls.G2Jac
	d2.FromAffine(&vk.DeltaG2)
	d2.ScalarMultiplication(&d2, s)
	b2.AddAssign(&d2)

	c := p.kSum
	c.AddAssign(&p.hSum)
	c.AddAssign(times(&a, s))
	c.AddAssign(times(&b1, r))
	c.AddAssign(times(&delta, rs))

	var out groth16.Proof
	out.A.FromJacobian(&a)
	out.B.FromJacobian(&b2)
	out.C.FromJacobian(&c)
	return &out
}
