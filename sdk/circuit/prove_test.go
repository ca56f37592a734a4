package circuit_test

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// A user's circuit from matrices to a verified proof: key, witness written into shared memory, evaluations, prover.
func TestProve(t *testing.T) {
	for _, test := range []struct {
		name    string
		blank   circuit.Circuit
		circuit circuit.Circuit
		public  []fr.Element
	}{
		{"cubic", &cubic{}, &cubic{X: fr.NewElement(3), Y: fr.NewElement(35)}, []fr.Element{fr.NewElement(35)}},
		{"mixed", newMixed(0), newMixed(7), newMixed(7).public()},
	} {
		t.Run(test.name, func(t *testing.T) { prove(t, test.blank, test.circuit, test.public) })
	}
}

func prove(t *testing.T, blank, c circuit.Circuit, public []fr.Element) {
	ctx := t.Context()
	var sink circuit.SystemSink
	shape, err := circuit.Record(ctx, blank, &sink)
	if err != nil {
		t.Fatal(err)
	}
	sys := sink.System()
	scalars, err := setup.Random()
	if err != nil {
		t.Fatal(err)
	}
	pk, err := setup.InMemory(ctx, sys, setup.Options{Scalars: scalars, Tasks: 2})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.wkey")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := wkey.Write(ctx, f, pk, sys, wkey.Meta{Creator: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	pool := slab.NewPool(slab.PoolOptions{})
	defer func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	backend := cpu.New(pool, cpu.Options{})
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.RemoveFile(h)
	key := contract.Input{Role: contract.RoleKey, Name: path, Handle: h, Size: st.Size(), Partition: -1}
	if _, err := backend.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "key", Key: key, Threads: 2}); err != nil {
		t.Fatal(err)
	}
	defer backend.UnloadKey(ctx, "key")

	get := func(p slab.Purpose, size int64) *slab.Buffer {
		b, err := pool.Get(p, size, "test")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	_, size := shape.Form()
	wb := get(slab.Witness, size)
	defer wb.Free()
	w, err := circuit.Witness(ctx, c, shape.Counts, wb.Bytes(), 2)
	if err != nil {
		t.Fatal(err)
	}
	req := &contract.ProveRequest{KeyID: "key", Threads: 2, Witness: wb.Ref().Slice(0, w.Size())}
	var views [3][]fr.Element
	for i, ref := range []*slab.Ref{&req.A, &req.B, &req.C} {
		b := get(slab.Evaluations, int64(fr.Bytes*pk.DomainSize()))
		defer b.Free()
		*ref = b.Ref()
		views[i] = unsafe.Slice((*fr.Element)(unsafe.Pointer(unsafe.SliceData(b.Bytes()))), pk.DomainSize())
	}
	if err := sys.Evaluate(ctx, w, pk.Rows, views[0], views[1], views[2], 2); err != nil {
		t.Fatal(err)
	}
	answer, err := backend.Prove(ctx, req, func(contract.ProveEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	var proof groth16.Proof
	if err := proof.SetBytes(answer.Bytes); err != nil {
		t.Fatal(err)
	}
	verifier, err := groth16.NewVerifier(&pk.VK)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(&proof, public); err != nil {
		t.Error(err)
	}
	public[0].SetUint64(123456)
	if err := verifier.Verify(&proof, public); err == nil {
		t.Error("the proof holds for another public input")
	}
}
