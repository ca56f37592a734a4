package cpu

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// instance is a circuit with one witness.
type instance struct {
	sys     *r1cs.System
	witness []fr.Element
}

// generated reads what a generator of circuits yields.
func generated(t testing.TB, c circuitgen.Circuit) *instance {
	t.Helper()
	h := c.Header()
	b := r1cs.NewBuilder(int(h.Wires), int(h.Public()), true, int(h.Constraints), 0)
	c.Constraints(func(ra, rb, rc []circuitgen.Term) bool {
		for m, terms := range [][]circuitgen.Term{ra, rb, rc} {
			for i := range terms {
				b.Term(m, terms[i].Wire, b.Coeff(&terms[i].Coeff))
			}
		}
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
		return true
	})
	sys, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{sys: sys}
	c.Witness(func(v *fr.Element) bool {
		in.witness = append(in.witness, *v)
		return true
	})
	return in
}

// public is the public inputs.
func (in *instance) public() []fr.Element { return in.witness[1 : in.sys.NbPublic+1] }

// bench is a backend with buffers to prove in.
type bench struct {
	t    testing.TB
	pool *slab.Pool
	*Backend
}

func newBench(t testing.TB, opts Options) *bench {
	t.Helper()
	pool := slab.NewPool(slab.PoolOptions{})
	b := &bench{t: t, pool: pool, Backend: New(pool, opts)}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// put makes a key in memory known under an id.
func (b *bench) put(id string, pk *groth16.ProvingKey) {
	k := &key{id: id, ready: make(chan struct{})}
	if err := b.adopt(k, pk, false, 2); err != nil {
		b.t.Fatal(err)
	}
	close(k.ready)
	b.mu.Lock()
	b.keys[id] = k
	b.mu.Unlock()
}

// buffers are those of one partition.
type buffers struct{ w, a, b, c *slab.Buffer }

func (x *buffers) free(t testing.TB) {
	t.Helper()
	for _, b := range []*slab.Buffer{x.w, x.a, x.b, x.c} {
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	}
}

// fill synthesises: witness in the given form, evaluations for the shape of a key.
func (b *bench) fill(in *instance, shape *groth16.Shape, form assignment.Form, realC bool) *buffers {
	b.t.Helper()
	get := func(p slab.Purpose, size int64) *slab.Buffer {
		x, err := b.pool.Get(p, size, "test")
		if err != nil {
			b.t.Fatal(err)
		}
		return x
	}
	size := assignment.DenseSize(len(in.witness))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(in.witness), len(in.witness))
	}
	n := int64(shape.DomainSize()) * fr.Bytes
	x := &buffers{get(slab.Witness, size), get(slab.Evaluations, n), get(slab.Evaluations, n), get(slab.Evaluations, n)}
	w, err := assignment.NewBuilder(x.w.Bytes(), form, len(in.witness))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range in.witness {
		if err := w.Append(&in.witness[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	v, err := w.Finish()
	if err != nil {
		b.t.Fatal(err)
	}
	sys := *in.sys
	if !realC {
		sys.HasC, sys.C = false, r1cs.Matrix{}
	}
	view := func(x *slab.Buffer) []fr.Element {
		e, err := slab.View[fr.Element](x.Bytes())
		if err != nil {
			b.t.Fatal(err)
		}
		return e
	}
	if err := sys.Evaluate(context.Background(), v, shape.Rows, view(x.a), view(x.b), view(x.c), 2); err != nil {
		b.t.Fatal(err)
	}
	return x
}

func (x *buffers) request(id string) *contract.ProveRequest {
	return &contract.ProveRequest{KeyID: id, Witness: x.w.Ref(), A: x.a.Ref(), B: x.b.Ref(), C: x.c.Ref()}
}

// prove fills buffers, proves, and gives the buffers back.
func (b *bench) prove(id string, in *instance, shape *groth16.Shape, form assignment.Form, rnd *groth16.Randomness) (*groth16.Proof, error) {
	b.t.Helper()
	x := b.fill(in, shape, form, true)
	defer x.free(b.t)
	req := x.request(id)
	req.InsecureTestRandomness = rnd
	out, err := b.Prove(context.Background(), req, func(contract.ProveEvent) {})
	if err != nil {
		return nil, err
	}
	var p groth16.Proof
	if err := p.SetBytes(out.Bytes); err != nil {
		b.t.Fatal(err)
	}
	return &p, nil
}

func (b *bench) mustProve(id string, in *instance, shape *groth16.Shape, form assignment.Form, rnd *groth16.Randomness) *groth16.Proof {
	b.t.Helper()
	p, err := b.prove(id, in, shape, form, rnd)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// seeded draws field elements for tests.
func seeded(seed uint64) func() fr.Element {
	r := rand.New(rand.NewPCG(seed, 7))
	return func() fr.Element {
		var b [48]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		var x fr.Element
		x.SetBytes(b[:])
		return x
	}
}

// layout is a form that keys come in.
type layout struct {
	name string
	rows groth16.RowOrder
	h    groth16.HBasis
}

var layouts = []layout{
	{"rows-7, monomial", groth16.RowsSeven, groth16.HMonomial},
	{"rows-5, odd coset", groth16.RowsFive, groth16.HOddCoset},
	{"rows-7, odd coset", groth16.RowsSeven, groth16.HOddCoset},
	{"rows-5, monomial", groth16.RowsFive, groth16.HMonomial},
}

func makeKey(t testing.TB, sys *r1cs.System, l layout, s *setup.Scalars) *groth16.ProvingKey {
	t.Helper()
	pk, err := setup.InMemory(context.Background(), sys, setup.Options{Scalars: s, Rows: l.rows, H: l.h, Tasks: 2})
	if err != nil {
		t.Fatal(err)
	}
	return pk
}

func testScalars(t testing.TB, seed string) *setup.Scalars {
	t.Helper()
	s, err := setup.Seeded([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// file registers a file as the host does.
func (b *bench) file(path string) contract.Input {
	b.t.Helper()
	f, err := os.Open(path)
	if err != nil {
		b.t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		b.t.Fatal(err)
	}
	h, err := b.pool.AddFile(f)
	if err != nil {
		b.t.Fatal(err)
	}
	return contract.Input{Name: path, Handle: h, Size: st.Size()}
}
