// Package conformance is the test that every prover backend must pass, in process or behind gRPC. A backend's own test calls TestProver:
//
//	func TestConformance(t *testing.T) {
//		conformance.TestProver(t, func(t *testing.T) *conformance.Subject { ... })
//	}
//
// The suite makes its own circuits and keys and compares proofs with package textbook's, which knows the secrets of the set-up and computes
// each proof as three products with a generator: no step is shared with a real prover.
package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/slab"
)

// Subject is a prover under test and the memory it shares with the suite.
type Subject struct {
	Prover contract.Prover
	// Pool is where the suite takes buffers and registers key files; in process it is also the prover's resolver.
	Pool *slab.Pool
	// Hand makes handles known to the prover's process before a call names them; nil in process.
	Hand func(handles ...slab.Handle) error
}

func (s *Subject) hand(t *testing.T, handles ...slab.Handle) {
	t.Helper()
	if s.Hand == nil {
		return
	}
	if err := s.Hand(handles...); err != nil {
		t.Fatal(err)
	}
}

// TestProver runs the suite; open makes a fresh subject for each part and cleans up with t.Cleanup. The prover must have been started with its
// test option for fixed randomness, else byte-for-byte comparison is left out and its refusal is checked instead.
func TestProver(t *testing.T, open func(t *testing.T) *Subject) {
	t.Run("Describe", func(t *testing.T) { testDescribe(t, open(t)) })
	t.Run("Proofs", func(t *testing.T) { testProofs(t, open(t)) })
	t.Run("BothBases", func(t *testing.T) { testBothBases(t, open(t)) })
	t.Run("EarlyFree", func(t *testing.T) { testEarlyFree(t, open(t)) })
	t.Run("Randomness", func(t *testing.T) { testRandomness(t, open(t)) })
	t.Run("Cancel", func(t *testing.T) { testCancel(t, open(t)) })
	t.Run("Keys", func(t *testing.T) { testKeys(t, open(t)) })
	t.Run("BadKeys", func(t *testing.T) { testBadKeys(t, open(t)) })
	t.Run("BadRequests", func(t *testing.T) { testBadRequests(t, open(t)) })
	t.Run("UnsatisfiedWitness", func(t *testing.T) { testUnsatisfied(t, open(t)) })
	t.Run("Concurrent", func(t *testing.T) { testConcurrent(t, open(t)) })
}

// job is a circuit with its key in a file and everything needed to prove it.
type job struct {
	name    string
	circuit *textbook.Circuit
	setup   *textbook.Instance
	verify  *groth16.Verifier
	keyID   string
	path    string
	input   contract.Input
	plan    *contract.KeyPlan
}

// newJob makes the key file; load loads it into the subject.
func newJob(t *testing.T, s *Subject, name string, seed uint64, rows, public int, order groth16.RowOrder, h groth16.HBasis) *job {
	t.Helper()
	c := textbook.Random(seed, rows, public)
	j := &job{name: name, circuit: c, setup: textbook.New(c.System, textbook.ToxicFrom(seed), order, h), keyID: name}
	vk := j.setup.VerifyingKey()
	v, err := groth16.NewVerifier(&vk)
	if err != nil {
		t.Fatal(err)
	}
	j.verify = v
	j.path = filepath.Join(t.TempDir(), "key.wkey")
	if err := writeKey(j.path, j.setup.Key(), c.System); err != nil {
		t.Fatal(err)
	}
	j.input = register(t, s, j.path)
	return j
}

// register opens a file and hands it to the subject.
func register(t *testing.T, s *Subject, path string) contract.Input {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Pool.RemoveFile(h); f.Close() })
	s.hand(t, h)
	return contract.Input{Role: contract.RoleKey, Name: path, Handle: h, Size: st.Size(), Partition: -1}
}

func (j *job) load(t *testing.T, s *Subject) {
	t.Helper()
	shape := j.setup.Key().Shape
	plan, err := s.Prover.PlanKey(t.Context(), &shape)
	if err != nil {
		t.Fatal(err)
	}
	j.plan = plan
	k, err := s.Prover.LoadKey(t.Context(), &contract.LoadKeyRequest{KeyID: j.keyID, Key: j.input, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if k.Shape.LogDomain != shape.LogDomain || k.Shape.NbWires != shape.NbWires || k.Shape.NbPublic != shape.NbPublic || k.Shape.NbA != shape.NbA || k.Shape.NbB != shape.NbB {
		t.Fatalf("%s: loaded as %+v, want %+v", j.name, k.Shape, shape)
	}
	if k.ResidentBytes > plan.ResidentBytes+1<<20 {
		t.Errorf("%s: the key holds %d bytes, the plan said %d", j.name, k.ResidentBytes, plan.ResidentBytes)
	}
}

// buffers are those of one proof.
type buffers struct {
	all []*slab.Buffer
	req contract.ProveRequest
}

func (b *buffers) free(t *testing.T) {
	t.Helper()
	for _, x := range b.all {
		if err := x.Free(); err != nil {
			t.Error(err)
		}
	}
}

// fill gets and fills the buffers for the assignment w.
func (j *job) fill(t *testing.T, s *Subject, w []fr.Element, form assignment.Form) *buffers {
	t.Helper()
	b := &buffers{req: contract.ProveRequest{KeyID: j.keyID, Threads: 2}}
	get := func(p slab.Purpose, size int64) *slab.Buffer {
		x, err := s.Pool.Get(p, size, "conformance")
		if err != nil {
			t.Fatal(err)
		}
		b.all = append(b.all, x)
		s.hand(t, x.Ref().Handle)
		return x
	}
	size := assignment.DenseSize(len(w))
	if form == assignment.Compact {
		size = assignment.CompactSize(len(w), len(w))
	}
	wb := get(slab.Witness, size)
	builder, err := assignment.NewBuilder(wb.Bytes(), form, len(w))
	if err != nil {
		t.Fatal(err)
	}
	for i := range w {
		if err := builder.Append(&w[i]); err != nil {
			t.Fatal(err)
		}
	}
	vec, err := builder.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b.req.Witness = wb.Ref().Slice(0, vec.Size())
	if j.plan.Evaluations == 0 {
		return b
	}
	n := 1 << j.setup.LogN
	var views [3][]fr.Element
	for i, ref := range []*slab.Ref{&b.req.A, &b.req.B, &b.req.C} {
		if i == 2 && j.plan.Evaluations == 2 {
			break
		}
		x := get(slab.Evaluations, int64(32*n))
		*ref = x.Ref()
		views[i] = elements(x.Bytes())
	}
	if err := j.circuit.System.Evaluate(context.Background(), vec, j.setup.Rows, views[0], views[1], views[2], 2); err != nil {
		t.Fatal(err)
	}
	return b
}

func elements(b []byte) []fr.Element {
	return unsafe.Slice((*fr.Element)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/32)
}

// prove runs one proof; it checks that events come in order, each once.
func (j *job) prove(t *testing.T, ctx context.Context, s *Subject, b *buffers, on func(contract.ProveEvent)) (*groth16.Proof, error) {
	t.Helper()
	last := contract.ProveEvent(0)
	p, err := s.Prover.Prove(ctx, &b.req, func(e contract.ProveEvent) {
		if e != last+1 {
			t.Errorf("%s: event %v after %v", j.name, e, last)
		}
		last = e
		if on != nil {
			on(e)
		}
	})
	if err != nil {
		if p != nil {
			t.Errorf("%s: a proof together with an error", j.name)
		}
		return nil, err
	}
	if last != contract.DeviceDone {
		t.Errorf("%s: last event before the proof is %v", j.name, last)
	}
	proof := new(groth16.Proof)
	if err := proof.SetBytes(p.Bytes); err != nil {
		return nil, err
	}
	return proof, nil
}

func (j *job) public() []fr.Element { return j.circuit.W[1 : 1+j.circuit.System.NbPublic] }

// fixed is the randomness of comparisons.
func fixed() groth16.Randomness {
	var r groth16.Randomness
	r.R.SetString("1234567890123456789012345678901234567890")
	r.S.SetString("987654321098765432109876543210")
	return r
}

func mayFix(t *testing.T, s *Subject) bool {
	t.Helper()
	info, err := s.Prover.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Has(contract.AbilityInsecureTest)
}

// isCanceled reports whether err is the end of ctx.
func isCanceled(err error) bool {
	return errs.Is(err, errs.Canceled) || errors.Is(err, context.Canceled)
}
