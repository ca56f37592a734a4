package cuda

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// subject is a circuit with a witness and its key in a file.
type subject struct {
	t       testing.TB
	pool    *slab.Pool
	sys     *r1cs.System // nil: nobody evaluates on the host
	witness []fr.Element
	key     contract.Input
	shape   groth16.Shape

	referenceTimes []contract.StageTime
}

// generated makes a development key for a generated circuit.
func generated(t testing.TB, pool *slab.Pool, c circuitgen.Circuit, o setup.Options) *subject {
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
	s := &subject{t: t, pool: pool}
	var err error
	if s.sys, err = b.System(); err != nil {
		t.Fatal(err)
	}
	c.Witness(func(v *fr.Element) bool {
		s.witness = append(s.witness, *v)
		return true
	})
	if o.Scalars, err = setup.Seeded([]byte("cuda tests")); err != nil {
		t.Fatal(err)
	}
	o.Tasks = runtime.GOMAXPROCS(0)
	path := filepath.Join(t.TempDir(), "key.wkey")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shape, err := setup.Write(context.Background(), f, s.sys, o, "test")
	if err != nil {
		t.Fatal(err)
	}
	s.shape = *shape
	s.key = addFile(t, pool, path)
	return s
}

func addFile(t testing.TB, pool *slab.Pool, path string) contract.Input {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return contract.Input{Role: contract.RoleKey, Name: path, Handle: h, Size: st.Size(), Partition: -1}
}

// fixture is a key of snarkjs with the circuit and witness of circom.
func fixture(t testing.TB, pool *slab.Pool, key, circuit string, witness []fr.Element) *subject {
	t.Helper()
	s := &subject{t: t, pool: pool, key: addFile(t, pool, key), witness: witness}
	f, err := os.Open(circuit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if s.sys, err = keyfile.OpenCircuit(context.Background(), f, st.Size(), 2); err != nil {
		t.Fatal(err)
	}
	return s
}

// buffers of one proof; with evaluations unless the prover makes them.
func (s *subject) buffers(evaluations int, form assignment.Form) (req *contract.ProveRequest, free func()) {
	t := s.t
	t.Helper()
	var all []*slab.Buffer
	get := func(p slab.Purpose, size int64) *slab.Buffer {
		x, err := s.pool.Get(p, size, "test")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
		return x
	}
	size := assignment.DenseSize(len(s.witness))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(s.witness), len(s.witness))
	}
	w := get(slab.Witness, size)
	b, err := assignment.NewBuilder(w.Bytes(), form, len(s.witness))
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.witness {
		if err := b.Append(&s.witness[i]); err != nil {
			t.Fatal(err)
		}
	}
	vec, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	req = &contract.ProveRequest{Witness: w.Ref().Slice(0, vec.Size())}
	if evaluations > 0 {
		var views [3][]fr.Element
		for i, ref := range []*slab.Ref{&req.A, &req.B, &req.C} {
			x := get(slab.Evaluations, int64(frBytes)<<s.shape.LogDomain)
			*ref = x.Ref()
			if views[i], err = slab.View[fr.Element](x.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.sys.Evaluate(context.Background(), vec, s.shape.Rows, views[0], views[1], views[2], runtime.GOMAXPROCS(0)); err != nil {
			t.Fatal(err)
		}
	}
	return req, func() {
		for _, x := range all {
			if err := x.Free(); err != nil {
				t.Error(err)
			}
		}
	}
}

// load loads the key and learns its shape.
func (s *subject) load(p contract.Prover, id string) (*contract.LoadedKey, error) {
	k, err := p.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: id, Key: s.key, Trusted: true})
	if err == nil {
		s.shape = k.Shape
	}
	return k, err
}

// prove makes one proof with a loaded key.
func (s *subject) prove(p contract.Prover, id string, form assignment.Form, rnd *groth16.Randomness) (*contract.Proof, error) {
	s.t.Helper()
	plan, err := p.PlanKey(context.Background(), &s.shape)
	if err != nil {
		return nil, err
	}
	req, free := s.buffers(plan.Evaluations, form)
	defer free()
	req.KeyID, req.InsecureTestRandomness = id, rnd
	return p.Prove(context.Background(), req, func(contract.ProveEvent) {})
}

// residentBytes is the memory of this process, without what the garbage collector may give back.
func residentBytes(t testing.TB) int64 {
	t.Helper()
	debug.FreeOSMemory()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // another system
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

func fixedRandomness() *groth16.Randomness {
	var r groth16.Randomness
	r.R.SetString("1234567890123456789012345678901234567890")
	r.S.SetString("987654321098765432109876543210")
	return &r
}

// reference is the CPU backend's proof for the fixed randomness.
func (s *subject) reference() []byte {
	s.t.Helper()
	b := cpu.New(s.pool, cpu.Options{AllowInsecureTestRandomness: true})
	if _, err := s.load(b, "reference"); err != nil {
		s.t.Fatal(err)
	}
	p, err := s.prove(b, "reference", assignment.Dense, fixedRandomness())
	if err != nil {
		s.t.Fatal(err)
	}
	s.referenceTimes = p.Times
	if err := b.UnloadKey(context.Background(), "reference"); err != nil {
		s.t.Fatal(err)
	}
	return p.Bytes
}
