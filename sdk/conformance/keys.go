package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Loading twice is one key; unloading twice is no error; a key in use cannot be unloaded; an unloaded key cannot prove.
func testKeys(t *testing.T, s *Subject) {
	j := newJob(t, s, "keys", 9, 600, 2, groth16.RowsSeven, groth16.HMonomial)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.Prover.LoadKey(t.Context(), &contract.LoadKeyRequest{KeyID: j.keyID, Key: j.input}); err != nil {
				t.Errorf("load at the same time: %v", err)
			}
		})
	}
	wg.Wait()
	j.load(t, s)
	b := j.fill(t, s, j.circuit.W, assignment.Dense)
	var inUse error
	once := sync.Once{}
	p, err := j.prove(t, t.Context(), s, b, func(contract.ProveEvent) {
		once.Do(func() { inUse = s.Prover.UnloadKey(context.Background(), j.keyID) })
	})
	if err != nil {
		t.Fatal(err)
	}
	if !errs.Is(inUse, errs.Conflict) {
		t.Errorf("unloading a key that a proof uses: %v, want a conflict", inUse)
	}
	if err := j.verify.Verify(p, j.public()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Prover.UnloadKey(t.Context(), j.keyID); err != nil {
			t.Fatal(err)
		}
	}
	b.free(t)
	b = j.fill(t, s, j.circuit.W, assignment.Dense)
	defer b.free(t)
	if _, err := j.prove(t, t.Context(), s, b, nil); !errs.Is(err, errs.NotFound) {
		t.Errorf("proof with an unloaded key: %v, want not found", err)
	}
	j.load(t, s)
	if _, err := j.prove(t, t.Context(), s, b, nil); err != nil {
		t.Errorf("loaded again: %v", err)
	}
}

// Damaged key files: a typed error that names the file, and no key.
func testBadKeys(t *testing.T, s *Subject) {
	j := newJob(t, s, "bad keys", 10, 60, 1, groth16.RowsSeven, groth16.HMonomial)
	good, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func([]byte) []byte) []byte { return f(append([]byte(nil), good...)) }
	flip := func(at int) func([]byte) []byte { return func(b []byte) []byte { b[at] ^= 0x10; return b } }
	for name, data := range map[string][]byte{
		"empty":              {},
		"one byte":           good[:1],
		"half":               good[:len(good)/2],
		"one byte short":     good[:len(good)-1],
		"one byte more":      append(append([]byte(nil), good...), 0),
		"flip in header":     change(flip(40)),
		"flip in the middle": change(flip(len(good) / 2)),
		"flip near the end":  change(flip(len(good) - 2000)),
		"error page":         []byte("<html><body>404 Not Found</body></html>\n"),
		"all ones":           change(func(b []byte) []byte { return []byte(strings.Repeat("\xff", len(b))) }),
	} {
		path := filepath.Join(t.TempDir(), "bad.wkey")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		in := register(t, s, path)
		_, err := s.Prover.LoadKey(t.Context(), &contract.LoadKeyRequest{KeyID: "bad " + name, Key: in})
		if !errs.Is(err, errs.InvalidFile) {
			t.Errorf("%s: %v, want an invalid file", name, err)
		} else if !strings.Contains(err.Error(), "bad.wkey") {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
		if _, err := s.Prover.Prove(t.Context(), &contract.ProveRequest{KeyID: "bad " + name}, func(contract.ProveEvent) {}); err == nil {
			t.Errorf("%s: the key proves", name)
		}
	}
	if _, err := s.Prover.LoadKey(t.Context(), &contract.LoadKeyRequest{KeyID: "none", Key: contract.Input{Name: "none", Handle: 1 << 60, Size: 1}}); err == nil {
		t.Error("a handle that nobody handed over was loaded")
	}
	j.load(t, s)
}

// Requests that name the wrong buffers: a typed error before anything is consumed.
func testBadRequests(t *testing.T, s *Subject) {
	j := newJob(t, s, "bad requests", 11, 60, 1, groth16.RowsSeven, groth16.HMonomial)
	j.load(t, s)
	other := newJob(t, s, "another circuit", 12, 70, 1, groth16.RowsSeven, groth16.HMonomial)
	other.load(t, s)
	for name, change := range map[string]func(*contract.ProveRequest){
		"no key id":         func(r *contract.ProveRequest) { r.KeyID = "" },
		"unknown key":       func(r *contract.ProveRequest) { r.KeyID = "nobody" },
		"another key":       func(r *contract.ProveRequest) { r.KeyID = other.keyID },
		"no witness":        func(r *contract.ProveRequest) { r.Witness = slab.Ref{} },
		"unknown slab":      func(r *contract.ProveRequest) { r.Witness.Handle = 1 << 60 },
		"witness cut":       func(r *contract.ProveRequest) { r.Witness.Length -= 64 },
		"negative offset":   func(r *contract.ProveRequest) { r.Witness.Offset = -64 },
		"beyond the slab":   func(r *contract.ProveRequest) { r.Witness.Offset = 1 << 40 },
		"evaluations short": func(r *contract.ProveRequest) { r.A.Length /= 2 },
		"evaluations gone":  func(r *contract.ProveRequest) { r.B = slab.Ref{} },
		"a is not aligned":  func(r *contract.ProveRequest) { r.A.Offset += 4; r.A.Length -= 4 },
		"a is b":            func(r *contract.ProveRequest) { r.B = r.A },
	} {
		b := j.fill(t, s, j.circuit.W, assignment.Dense)
		if j.plan.Evaluations == 0 && strings.HasPrefix(name, "evaluations") {
			b.free(t)
			continue
		}
		change(&b.req)
		if _, err := j.prove(t, t.Context(), s, b, nil); err == nil {
			t.Errorf("%s: accepted", name)
		} else if c := errs.ClassOf(err); c != errs.InvalidArgument && c != errs.NotFound && c != errs.InvalidFile {
			t.Errorf("%s: %v (%v), want an invalid argument", name, err, c)
		}
		b.free(t)
	}
	garbage := j.fill(t, s, j.circuit.W, assignment.Dense)
	for i := range garbage.all[0].Bytes()[:24] {
		garbage.all[0].Bytes()[i] = 0xff
	}
	if _, err := j.prove(t, t.Context(), s, garbage, nil); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("a witness buffer of garbage: %v", err)
	}
	garbage.free(t)
	zero := j.fill(t, s, make([]fr.Element, len(j.circuit.W)), assignment.Dense)
	if p, err := j.prove(t, t.Context(), s, zero, nil); err == nil && j.verify.Verify(p, j.public()) == nil {
		t.Error("the zero witness proves")
	}
	zero.free(t)
	b := j.fill(t, s, j.circuit.W, assignment.Dense)
	defer b.free(t)
	if p, err := j.prove(t, t.Context(), s, b, nil); err != nil || j.verify.Verify(p, j.public()) != nil {
		t.Fatalf("after the bad requests a good one fails: %v", err)
	}
}
