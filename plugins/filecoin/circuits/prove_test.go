package circuits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// keyRecord is what the reference says of a key whose secrets are public, and of proofs with it.
type keyRecord struct {
	Params struct{ SHA256 string }
	Waste  map[string]fixture.Element `json:"toxic_waste"`
	Proofs []struct {
		Witness string            // a file of the reference data
		Public  []fixture.Element `json:"public_inputs"`
		Proofs  []struct {
			Name  string
			Proof string
			R, S  fixture.Element
		}
	} `json:"witnesses"`
}

// A key made from the recorded circuit is bellperson's, byte for byte, and so are proofs with given randomness: from the vanilla data, through the written shape, the
// witness and the evaluation.
func TestKeysAndProofs(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: keys take seconds")
	}
	const seconds, minutes = "seconds", "minutes, and 5 GiB"
	for id, takes := range map[string]string{"por-8x8": "", "post-2k-1x1": "", "por-8x64": "", "window-2k": seconds, "updp-1k": seconds, "upd-1k": minutes, "porep-2k": minutes} {
		t.Run(id, func(t *testing.T) {
			switch {
			case takes == minutes:
				testfiles.Full(t, takes)
			case takes == seconds && testfiles.Race:
				t.Skip("not under the race detector: 30,000 rows")
			}
			raw, err := os.ReadFile(testfiles.Shared(t, "fixtures", "filecoin", "keys", id+".proof.json"))
			if err != nil {
				t.Fatal(err)
			}
			var want keyRecord
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			newProver(t, id, &want).compare(t, &want)
		})
	}
}

// prover has a key and the shape of its circuit.
type prover struct {
	pool    *slab.Pool
	backend *cpu.Backend
	shape   *circuit.ShapeFile
	pk      *groth16.ProvingKey
}

func newProver(t *testing.T, id string, want *keyRecord) *prover {
	t.Helper()
	ctx := t.Context()
	blank, err := Blank(id)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	create := func(name string, write func(f *os.File) error) *os.File {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = os.Open(path); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	p := &prover{}
	shape := create("shape", func(f *os.File) error { _, err := circuit.WriteShape(ctx, f, blank); return err })
	file, err := os.ReadFile(shape.Name())
	if err != nil {
		t.Fatal(err)
	}
	if p.shape, err = circuit.OpenShape(file); err != nil {
		t.Fatal(err)
	}
	sys, err := p.shape.System(ctx)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(name string) []byte {
		var b [fr.Bytes]byte
		fr.LittleEndian.PutElement(&b, want.Waste[name].Element)
		return b[:]
	}
	scalars, err := setup.Given(&contract.ToxicScalars{Tau: secret("tau"), Alpha: secret("alpha"), Beta: secret("beta"), Gamma: secret("gamma"), Delta: secret("delta")})
	if err != nil {
		t.Fatal(err)
	}
	if p.pk, err = setup.InMemory(ctx, sys, setup.Options{Scalars: scalars, Tasks: 2}); err != nil {
		t.Fatal(err)
	}
	var params bytes.Buffer
	if err := bellman.Write(ctx, &params, p.pk, 2); err != nil {
		t.Fatal(err)
	}
	if d := sha256.Sum256(params.Bytes()); hex.EncodeToString(d[:]) != want.Params.SHA256 {
		t.Errorf("the .params of %d bytes differ", params.Len())
	}

	p.pool = slab.NewPool(slab.PoolOptions{})
	t.Cleanup(func() {
		if err := p.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	p.backend = cpu.New(p.pool, cpu.Options{AllowInsecureTestRandomness: true})
	key := create("key", func(f *os.File) error { return wkey.Write(ctx, f, p.pk, sys, wkey.Meta{Creator: "test"}) })
	st, err := key.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p.pool.AddFile(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.pool.RemoveFile(h) })
	in := contract.Input{Role: contract.RoleKey, Name: key.Name(), Handle: h, Size: st.Size(), Partition: -1}
	if _, err := p.backend.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: id, Key: in, Threads: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.backend.UnloadKey(ctx, id) })
	return p
}

func (p *prover) compare(t *testing.T, want *keyRecord) {
	t.Helper()
	verifier, err := groth16.NewVerifier(&p.pk.VK)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range want.Proofs {
		var r record
		fixture.JSON(t, w.Witness, &r)
		c := fill(t, &r)
		for _, x := range w.Proofs {
			got := p.prove(t, filepath.Base(r.Circuit), c, &groth16.Randomness{R: x.R.Element, S: x.S.Element})
			if s := hex.EncodeToString(bellman.AppendProof(nil, got)); s != x.Proof {
				t.Errorf("%s, %s: proof %s, want %s", w.Witness, x.Name, s, x.Proof)
			}
			if err := verifier.Verify(got, fixture.Elements(w.Public)); err != nil {
				t.Errorf("%s, %s: %v", w.Witness, x.Name, err)
			}
			n++
		}
	}
	if n == 0 {
		t.Error("no proofs")
	}
}

// prove goes the way of a partition: witness in shared memory, evaluations, proof.
func (p *prover) prove(t *testing.T, id string, c circuit.Circuit, rnd *groth16.Randomness) *groth16.Proof {
	t.Helper()
	ctx := t.Context()
	get := func(purpose slab.Purpose, size int64) *slab.Buffer {
		b, err := p.pool.Get(purpose, size, "test")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	n := p.shape.Counts()
	_, size := n.Form()
	wb := get(slab.Witness, size)
	defer wb.Free()
	w, err := circuit.Witness(ctx, c, n, wb.Bytes(), 2)
	if err != nil {
		t.Fatal(err)
	}
	req := &contract.ProveRequest{KeyID: id, Threads: 2, Witness: wb.Ref().Slice(0, w.Size()), InsecureTestRandomness: rnd}
	var v [3][]fr.Element
	for i, ref := range []*slab.Ref{&req.A, &req.B, &req.C} {
		b := get(slab.Evaluations, int64(fr.Bytes*p.pk.DomainSize()))
		defer b.Free()
		*ref = b.Ref()
		v[i] = unsafe.Slice((*fr.Element)(unsafe.Pointer(unsafe.SliceData(b.Bytes()))), p.pk.DomainSize())
	}
	if err := p.shape.Evaluate(ctx, w, v[0], v[1], v[2], 2); err != nil {
		t.Fatal(err)
	}
	answer, err := p.backend.Prove(ctx, req, func(contract.ProveEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	var proof groth16.Proof
	if err := proof.SetBytes(answer.Bytes); err != nil {
		t.Fatal(err)
	}
	return &proof
}
