package circom

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

func expectError(t *testing.T, err error, class errs.Class, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	if c := errs.ClassOf(err); c != class {
		t.Errorf("class %v, want %v: %v", c, class, err)
	}
	text := err.Error() + "\n" + errs.HintOf(err)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not speak of %q", text, w)
		}
	}
}

func values(t *testing.T, path string) []fr.Element {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := iden3.OpenWitness(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out []fr.Element
	for v, err := range f.Values(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// A witness that does not satisfy is found in every way of asking: with and without evaluations, with C rows only, with names.
func TestUnsatisfied(t *testing.T) {
	m := fixture("multiplier")
	w := values(t, filepath.Join(m, "witness.wtns"))
	one := fr.One()
	w[5].Add(&w[5], &one) // t = a * b: constraint 0
	bad := wtns(t, w)
	ctx := context.Background()
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		for _, evals := range []int{0, 2, 3} {
			for _, sym := range []bool{false, true} {
				in := []contract.Input{r.file(contract.RoleCircuit, filepath.Join(m, "circuit.r1cs"), -1), r.file(contract.RoleKey, filepath.Join(m, "circuit.zkey"), -1), r.data(contract.RoleWitness, bad, -1)}
				words := []string{"constraint 0 of 3"}
				if sym {
					in = append(in, r.file(contract.RoleSymbols, filepath.Join(m, "circuit.sym"), -1))
					words = append(words, "main.a", "main.b", "main.t")
				}
				ses := r.mustOpen(in...)
				_, err := r.synthesize(ctx, ses, 0, want{rows: groth16.RowsFive, evaluations: evals})
				expectError(t, err, errs.Unsatisfied, words...)
				r.close(ses)
			}
		}
		// Not checked: off, and a key without C.
		for _, in := range [][]contract.Input{
			{r.file(contract.RoleCircuit, filepath.Join(m, "circuit.r1cs"), -1), r.data(contract.RoleWitness, bad, -1)},
			{r.file(contract.RoleKey, filepath.Join(m, "circuit.zkey"), -1), r.data(contract.RoleWitness, bad, -1)},
		} {
			ses, err := r.open(ctx, map[string]string{OptionCheck: "off"}, in...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.synthesize(ctx, ses, 0, want{evaluations: 3}); err != nil {
				t.Error(err)
			}
			r.close(ses)
		}
	})
}

func TestOpenErrors(t *testing.T) {
	m, p := fixture("multiplier"), fixture("publics100")
	guard := filepath.Join("testdata", "guard")
	circuit := func(dir string) [2]string { return [2]string{contract.RoleCircuit, filepath.Join(dir, "circuit.r1cs")} }
	key := func(dir string) [2]string { return [2]string{contract.RoleKey, filepath.Join(dir, "circuit.zkey")} }
	witness := func(dir string) [2]string { return [2]string{contract.RoleWitness, filepath.Join(dir, "witness.wtns")} }
	wasm := func(dir string) [2]string { return [2]string{contract.RoleProgram, filepath.Join(dir, "circuit.wasm")} }
	input := func(dir string) [2]string { return [2]string{contract.RoleInputs, filepath.Join(dir, "input.json")} }
	as := func(role string, x [2]string) [2]string { return [2]string{role, x[1]} }
	for _, x := range []struct {
		name    string
		in      [][2]string
		options map[string]string
		class   errs.Class
		words   []string
	}{
		{"nothing", nil, nil, errs.InvalidArgument, []string{"--circuit"}},
		{"no witness", [][2]string{circuit(m)}, nil, errs.InvalidArgument, []string{"partition 0", "--witness"}},
		{"no circuit", [][2]string{witness(m)}, nil, errs.InvalidArgument, []string{"--circuit"}},
		{"no inputs", [][2]string{circuit(m), wasm(m)}, nil, errs.InvalidArgument, []string{"--input"}},
		{"no program", [][2]string{circuit(m), input(m)}, nil, errs.InvalidArgument, []string{"--wasm"}},
		{"witness and program", [][2]string{circuit(m), input(m), wasm(m), witness(m)}, nil, errs.InvalidArgument, []string{"both"}},
		{"two circuits", [][2]string{circuit(m), circuit(p), witness(m)}, nil, errs.InvalidArgument, []string{"two"}},
		{"other witness", [][2]string{circuit(m), witness(p)}, nil, errs.InvalidFile, []string{"7 values", "another circuit", "witness.wtns"}},
		{"other key", [][2]string{circuit(m), key(p), witness(m)}, nil, errs.InvalidFile, []string{"wires", "another circuit", "circuit.zkey"}},
		{"other program", [][2]string{circuit(m), wasm(p), input(p)}, nil, errs.InvalidFile, []string{"7 values", "circuit.wasm"}},
		{"other inputs", [][2]string{circuit(m), wasm(m), input(p)}, nil, errs.InvalidFile, []string{"signal", "input.json"}},
		{"same sizes, other rows", [][2]string{circuit(fixture("nopublic")), key(fixture("unused_input")), witness(fixture("nopublic"))}, nil, errs.InvalidFile, []string{"another circuit"}},
		{"key as circuit role", [][2]string{as(contract.RoleCircuit, witness(m)), witness(m)}, nil, errs.InvalidFile, []string{"constraint system", "--witness"}},
		{"circuit as witness", [][2]string{circuit(m), as(contract.RoleWitness, circuit(m))}, nil, errs.InvalidFile, []string{"--circuit"}},
		{"unknown role", [][2]string{circuit(m), witness(m), as("other", witness(m))}, nil, errs.InvalidArgument, []string{"other"}},
		{"option", [][2]string{circuit(m), witness(m)}, map[string]string{"chek": "on"}, errs.InvalidArgument, []string{"chek"}},
		{"option value", [][2]string{circuit(m), witness(m)}, map[string]string{"check": "yes"}, errs.InvalidArgument, []string{"auto, on or off"}},
		{"check without C", [][2]string{key(m), witness(m)}, map[string]string{"check": "on"}, errs.InvalidArgument, []string{"--circuit"}},
		{"guard program without wasm", [][2]string{circuit(guard), as(contract.RoleProgram, witness(guard)), input(guard)}, nil, errs.InvalidFile, []string{".wasm"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			eachRig(t, Options{}, func(t *testing.T, r *rig) {
				var in []contract.Input
				for _, f := range x.in {
					in = append(in, r.file(f[0], f[1], -1))
				}
				ses, err := r.open(context.Background(), x.options, in...)
				expectError(t, err, x.class, x.words...)
				if err == nil {
					r.close(ses)
				}
				if n := pinned(r.impl.cache); n != 0 {
					t.Errorf("%d entries are still pinned", n)
				}
			})
		})
	}
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		_, err := r.syn.Open(context.Background(), &contract.OpenRequest{Kind: "filecoin"})
		expectError(t, err, errs.Unsupported, "filecoin")
		_, err = r.open(context.Background(), nil, contract.Input{Role: contract.RoleCircuit, Name: "gone.r1cs", Handle: 12345, Size: 10, Partition: -1})
		expectError(t, err, errs.NotFound, "gone.r1cs")
		_, err = r.open(context.Background(), nil, r.file(contract.RoleCircuit, filepath.Join(m, "circuit.r1cs"), -1), r.file(contract.RoleWitness, filepath.Join(m, "witness.wtns"), 1))
		expectError(t, err, errs.InvalidArgument, "partition 0")
	})
}

func pinned(c *cache) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.entries {
		n += e.refs
	}
	return n
}

// Damaged files of every role: cut at each of many places, and with each of many bytes changed. An error or a right answer, never a panic.
func TestDamaged(t *testing.T) {
	dir := filepath.Join("testdata", "guard")
	names := map[string]string{contract.RoleCircuit: "circuit.r1cs", contract.RoleWitness: "witness.wtns", contract.RoleProgram: "circuit.wasm", contract.RoleInputs: "input.json"}
	impl := func(t *testing.T, r *rig, role string, b []byte) {
		in := []contract.Input{}
		for _, other := range []string{contract.RoleCircuit, contract.RoleWitness, contract.RoleProgram, contract.RoleInputs} {
			part := 0
			switch other {
			case contract.RoleCircuit:
				part = -1
			case contract.RoleProgram, contract.RoleInputs:
				part = 1
			}
			if other == role {
				in = append(in, r.data(role, b, part))
			} else {
				in = append(in, r.file(other, filepath.Join(dir, names[other]), part))
			}
		}
		ses, err := r.open(context.Background(), nil, in...)
		if err != nil {
			if c := errs.ClassOf(err); c != errs.InvalidFile && c != errs.Unsupported && c != errs.Exhausted {
				t.Errorf("%s: class %v: %v", role, c, err)
			}
			return
		}
		for part := range ses.Partitions {
			if _, err := r.synthesize(context.Background(), ses, part, want{evaluations: 3}); err != nil && errs.Is(err, errs.Internal) {
				t.Errorf("%s: %v", role, err)
			}
		}
		r.close(ses)
	}
	for role, name := range names {
		t.Run(role, func(t *testing.T) {
			whole, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			eachRig(t, Options{CacheBytes: -1}, func(t *testing.T, r *rig) {
				steps := 25
				if role == contract.RoleProgram {
					steps = 5
				}
				if raceEnabled {
					steps = 3
				}
				for i := range steps {
					cut := len(whole) * i / steps
					impl(t, r, role, whole[:cut])
					b := slices.Clone(whole)
					b[cut] ^= 0xff
					impl(t, r, role, b)
				}
			})
		})
	}
}

func TestSynthesizeErrors(t *testing.T) {
	m := fixture("multiplier")
	ctx := context.Background()
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		ses := r.mustOpen(r.file(contract.RoleCircuit, filepath.Join(m, "circuit.r1cs"), -1), r.file(contract.RoleWitness, filepath.Join(m, "witness.wtns"), -1))
		p := ses.Partitions[0]
		w, a, b, c := r.get(0, p.WitnessBytes), r.get(0, 32<<3), r.get(0, 32<<3), r.get(0, 32<<3)
		for _, x := range []interface{ Free() error }{w, a, b, c} {
			defer x.Free()
		}
		good := contract.SynthesizeRequest{Session: ses.ID, Witness: w.Ref(), A: a.Ref(), B: b.Ref(), C: c.Ref(), LogDomain: 3}
		if _, err := r.syn.Synthesize(ctx, &good); err != nil {
			t.Fatal(err)
		}
		for name, x := range map[string]struct {
			change func(q *contract.SynthesizeRequest)
			class  errs.Class
		}{
			"session":      {func(q *contract.SynthesizeRequest) { q.Session = "none" }, errs.NotFound},
			"partition":    {func(q *contract.SynthesizeRequest) { q.Partition = 1 }, errs.InvalidArgument},
			"negative":     {func(q *contract.SynthesizeRequest) { q.Partition = -1 }, errs.InvalidArgument},
			"short":        {func(q *contract.SynthesizeRequest) { q.Witness.Length = p.WitnessBytes - 1 }, errs.InvalidArgument},
			"outside":      {func(q *contract.SynthesizeRequest) { q.Witness.Offset = 1 << 40 }, errs.InvalidArgument},
			"unknown slab": {func(q *contract.SynthesizeRequest) { q.A.Handle = 999 }, errs.NotFound},
			"unaligned": {func(q *contract.SynthesizeRequest) {
				q.A.Offset, q.A.Length, q.LogDomain = 1, 32<<2, 2
				q.B.Length, q.C.Length = 32<<2, 32<<2
			}, errs.InvalidArgument},
			"no b":         {func(q *contract.SynthesizeRequest) { q.B.Length = 0 }, errs.InvalidArgument},
			"domain":       {func(q *contract.SynthesizeRequest) { q.LogDomain = 1 }, errs.InvalidArgument},
			"large domain": {func(q *contract.SynthesizeRequest) { q.LogDomain = 60 }, errs.InvalidArgument},
			"lengths":      {func(q *contract.SynthesizeRequest) { q.LogDomain = 4 }, errs.InvalidArgument},
			"rows":         {func(q *contract.SynthesizeRequest) { q.Rows = 7 }, errs.InvalidArgument},
		} {
			q := good
			x.change(&q)
			if _, err := r.syn.Synthesize(ctx, &q); errs.ClassOf(err) != x.class || err == nil {
				t.Errorf("%s: %v, want class %v", name, err, x.class)
			}
		}
		r.close(ses)
		if _, err := r.syn.Synthesize(ctx, &good); !errs.Is(err, errs.NotFound) {
			t.Errorf("closed session: %v", err)
		}
	})
}

// A file that is rewritten between Open and Synthesize gives an error, not a wrong witness.
func TestWitnessChanges(t *testing.T) {
	m := fixture("publics100")
	old := values(t, filepath.Join(m, "witness.wtns"))
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		path := filepath.Join(t.TempDir(), "w")
		if err := os.WriteFile(path, wtns(t, old), 0o600); err != nil {
			t.Fatal(err)
		}
		ses := r.mustOpen(r.file(contract.RoleKey, filepath.Join(m, "circuit.zkey"), -1), r.file(contract.RoleWitness, path, -1))
		w := slices.Clone(old)
		for i := 1; i < len(w)/2; i++ {
			w[i].SetZero() // more bits than were counted
		}
		if err := os.WriteFile(path, wtns(t, w), 0o600); err != nil {
			t.Fatal(err)
		}
		if form, _ := r.impl.sessions[ses.ID].parts[0].witness.size(); form != assignment.Compact {
			t.Fatalf("the fixture's witness is not compact: form %d", form)
		}
		_, err := r.synthesize(context.Background(), ses, 0, want{evaluations: 2})
		expectError(t, err, errs.InvalidFile, "changed")
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
		_, err = r.synthesize(context.Background(), ses, 0, want{evaluations: 2})
		expectError(t, err, errs.InvalidFile, "changed")
		r.close(ses)
	})
}
