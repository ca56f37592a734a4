package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"sync"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// prover implements contract.Prover. Keys are mapped from their files; a key counts its users, and proofs are made one at a time.
type prover struct {
	resolver slab.Resolver
	lane     sync.Mutex

	mu   sync.Mutex
	keys map[string]*loaded
}

type loaded struct {
	*keyfile.Key
	users int
}

func newProver(r slab.Resolver) *prover { return &prover{resolver: r, keys: map[string]*loaded{}} }

func (p *prover) Describe(context.Context) (*contract.ProverInfo, error) {
	return &contract.ProverInfo{Identity: contract.Identity{Name: "example", Version: "1"}, Device: "cpu, the plain way", Lanes: 1,
		Abilities: []string{contract.AbilityCompact}}, nil
}

// PlanKey is arithmetic: the points of the key, and per proof three vectors of the domain and one of the wires.
func (p *prover) PlanKey(_ context.Context, s *groth16.Shape) (*contract.KeyPlan, error) {
	points := int64(s.NbA+s.NbB+s.NbPrivate()+s.NbH)*96 + int64(s.NbB)*192
	return &contract.KeyPlan{ResidentBytes: points + 1<<20, ScratchBytes: int64(s.DomainSize())*3*32 + int64(s.NbWires)*64, Evaluations: 3}, nil
}

func (p *prover) LoadKey(ctx context.Context, req *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	if req.Circuit != nil {
		return nil, errs.New(errs.Unsupported, "load key", "this backend takes prepared keys only").WithHint("weir key import")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[req.KeyID]
	if k == nil {
		file, err := p.resolver.File(req.Key.Handle)
		if err != nil {
			return nil, err
		}
		key, err := keyfile.OpenKey(ctx, file.OSFile(), keyfile.Options{Name: req.Key.Name, Map: true, PreferOddCoset: true, SkipChecksums: req.Trusted, Tasks: 1})
		if err != nil {
			return nil, errs.InFile(err, req.Key.Name)
		}
		k = &loaded{Key: key}
		p.keys[req.KeyID] = k
	}
	return &contract.LoadedKey{Shape: k.Shape, ResidentBytes: k.ResidentBytes()}, nil
}

func (p *prover) UnloadKey(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[id]
	if k == nil {
		return nil
	}
	if k.users > 0 {
		return errs.New(errs.Conflict, "unload key", "%d proofs use it", k.users)
	}
	delete(p.keys, id)
	return k.Close()
}

func (p *prover) use(id string) (*loaded, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[id]
	if k == nil {
		return nil, nil, errs.New(errs.NotFound, "prove", "key %q is not loaded", id)
	}
	k.users++
	return k, func() {
		p.mu.Lock()
		k.users--
		p.mu.Unlock()
	}, nil
}

// Prove follows package groth16: H from the evaluations on the odd coset, then the sums over A, B and K.
func (p *prover) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	if req.InsecureTestRandomness != nil {
		return nil, errs.New(errs.Unsupported, "prove", "this backend never fixes its randomness")
	}
	k, release, err := p.use(req.KeyID)
	if err != nil {
		return nil, err
	}
	defer release()
	p.lane.Lock()
	defer p.lane.Unlock()
	w, err := p.witness(req.Witness, k.NbWires)
	if err != nil {
		return nil, err
	}
	var abc [3][]fr.Element
	for i, ref := range []slab.Ref{req.A, req.B, req.C} {
		if abc[i], err = p.evaluations(ref, k.DomainSize()); err != nil {
			return nil, err
		}
		for _, other := range abc[:i] {
			if &other[0] == &abc[i][0] {
				return nil, errs.New(errs.InvalidArgument, "prove", "two evaluations in one place")
			}
		}
	}
	event(contract.Accepted)

	scalars := quotient(k, abc[0], abc[1], abc[2])
	scalars = append([]fr.Element(nil), scalars...) // ours: a, b and c may be overwritten from here on
	event(contract.EvaluationsConsumed)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var h, ka, b1 bls.G1Jac
	var b2 bls.G2Jac
	kSum := func(to *bls.G1Jac, points []bls.G1Affine, scalars []fr.Element) {
		if err == nil && len(points) > 0 {
			_, err = to.MultiExp(points, scalars, ecc.MultiExpConfig{})
		}
	}
	kSum(&h, k.H, scalars[:len(k.H)])
	var priv bls.G1Jac
	kSum(&priv, k.K, w[k.NbPublic+1:])
	wa, wb := pick(w, k.AWires), pick(w, k.BWires)
	kSum(&ka, k.A, wa)
	kSum(&b1, k.B1, wb)
	if err == nil && len(k.B2) > 0 {
		_, err = b2.MultiExp(k.B2, wb, ecc.MultiExpConfig{})
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	event(contract.DeviceDone)
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	var r, s big.Int
	for _, x := range []*big.Int{&r, &s} {
		v, err := rand.Int(rand.Reader, fr.Modulus())
		if err != nil {
			return nil, err
		}
		x.Set(v)
	}
	var proof groth16.Proof
	var t1 bls.G1Jac
	var t2 bls.G2Jac
	add := func(to *bls.G1Jac, p *bls.G1Affine, by *big.Int) {
		t1.FromAffine(p)
		t1.ScalarMultiplication(&t1, by)
		to.AddAssign(&t1)
	}
	ka.AddMixed(&k.VK.AlphaG1)
	add(&ka, &k.VK.DeltaG1, &r)
	b1.AddMixed(&k.VK.BetaG1)
	add(&b1, &k.VK.DeltaG1, &s)
	b2.AddMixed(&k.VK.BetaG2)
	t2.FromAffine(&k.VK.DeltaG2)
	t2.ScalarMultiplication(&t2, &s)
	b2.AddAssign(&t2)
	proof.A.FromJacobian(&ka)
	proof.B.FromJacobian(&b2)
	var affB1 bls.G1Affine
	affB1.FromJacobian(&b1)
	c := priv
	c.AddAssign(&h)
	add(&c, &proof.A, &s)
	add(&c, &affB1, &r)
	rs := new(big.Int).Mul(&r, &s)
	add(&c, &k.VK.DeltaG1, rs.Neg(rs).Mod(rs, fr.Modulus()))
	proof.C.FromJacobian(&c)
	bytes := proof.Bytes()
	return &contract.Proof{Bytes: bytes[:]}, nil
}

// quotient turns the rows' values into the scalars of the H points, in a.
func quotient(k *loaded, a, b, c []fr.Element) []fr.Element {
	n := uint64(len(a))
	u := fft.NewDomain(2 * n).Generator // the odd coset: x^n = -1 on it
	d := fft.NewDomain(n, fft.WithShift(u))
	for _, v := range [][]fr.Element{a, b, c} {
		if n > 1 { // one value is its own transform
			d.FFTInverse(v, fft.DIF)
			d.FFT(v, fft.DIT, fft.OnCoset())
		}
	}
	var half fr.Element
	half.SetUint64(2)
	half.Inverse(&half)
	half.Neg(&half)
	for i := range a {
		a[i].Mul(&a[i], &b[i])
		a[i].Sub(&a[i], &c[i])
		if k.Shape.H == groth16.HMonomial {
			a[i].Mul(&a[i], &half)
		}
	}
	if k.Shape.H == groth16.HMonomial && n > 1 {
		d.FFTInverse(a, fft.DIF, fft.OnCoset())
		fft.BitReverse(a)
	}
	return a
}

func (p *prover) witness(ref slab.Ref, wires int) ([]fr.Element, error) {
	b, err := p.resolver.Bytes(ref)
	if err != nil {
		return nil, err
	}
	v, err := assignment.Parse(b)
	if err != nil {
		return nil, err
	}
	if v.Len() != wires {
		return nil, errs.Mismatch(errs.InvalidArgument, "prove", "witness", fmt.Sprintf("%d values", wires), v.Len())
	}
	out := make([]fr.Element, wires)
	for i := range out {
		out[i] = v.At(i)
	}
	return out, nil
}

func (p *prover) evaluations(ref slab.Ref, n int) ([]fr.Element, error) {
	b, err := p.resolver.Bytes(ref)
	if err != nil {
		return nil, err
	}
	if len(b) != 32*n || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "prove", "evaluations", fmt.Sprintf("%d aligned bytes", 32*n), len(b))
	}
	return unsafe.Slice((*fr.Element)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

// pick are the values of the wires in the bitmap.
func pick(w []fr.Element, wires groth16.Bitmap) []fr.Element {
	out := make([]fr.Element, 0, wires.Count())
	for i := range w {
		if wires.Has(i) {
			out = append(out, w[i])
		}
	}
	return out
}
