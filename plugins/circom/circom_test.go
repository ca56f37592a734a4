package circom

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
)

// folders are all fixtures: those of the repository, of both generations of circom, and the large ones where they are.
func folders(t *testing.T) []string {
	var out []string
	for _, pattern := range []string{fixture("*"), filepath.Join("..", "..", "testdata", "circom1", "*"), filepath.Join("testdata", "*")} {
		m, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m...)
	}
	if len(out) < 10 {
		t.Fatalf("fixtures are missing: %v", out)
	}
	dir := shared()
	switch {
	case raceEnabled:
		t.Log("the large fixtures are left out: with the race detector they take minutes")
	case dir != "":
		for _, name := range []string{"merkle20", "sha256_64", "dom_1022", "dom_1023"} {
			out = append(out, filepath.Join(dir, "fixtures", "circom", name))
		}
	default:
		t.Log("no folder of large fixtures: WEIR_SHARED is not set and ../shared is absent")
	}
	return out
}

// Every fixture, from a witness and from a program, from every file that has the matrices: the same witness, byte for byte, the same
// public inputs, and evaluations by the definition.
func TestFixtures(t *testing.T) {
	for _, dir := range folders(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if testing.Short() && filepath.Base(dir) == "sha256_64" {
				t.Skip("left out by -short")
			}
			raw, err := os.ReadFile(filepath.Join(dir, "witness.wtns"))
			if err != nil {
				t.Fatal(err)
			}
			path := func(name string) string { return filepath.Join(dir, name) }
			eachRig(t, Options{}, func(t *testing.T, r *rig) {
				ctx := context.Background()
				for _, matrices := range []string{"circuit.r1cs", "circuit.zkey"} {
					if !exists(path(matrices)) {
						continue
					}
					role := contract.RoleCircuit
					if matrices == "circuit.zkey" {
						role = contract.RoleKey
					}
					in := []contract.Input{r.file(role, path(matrices), -1), r.file(contract.RoleWitness, path("witness.wtns"), 0)}
					if exists(path("circuit.wasm")) && exists(path("input.json")) {
						in = append(in, r.file(contract.RoleProgram, path("circuit.wasm"), 1), r.file(contract.RoleInputs, path("input.json"), 1))
					} else {
						in = append(in, r.file(contract.RoleWitness, path("witness.wtns"), 1))
					}
					ses := r.mustOpen(in...)
					id := ses.ID
					e := r.impl.sessions[id]
					sys := e.circuit.system
					for part := range 2 {
						for _, w := range []want{{groth16.RowsSeven, 0, 3, 0}, {groth16.RowsFive, 0, 2, 1}, {groth16.RowsFive, groth16.DomainFor(ses.Partitions[0].NbConstraints, ses.Partitions[0].NbPublic) + 2, 3, 2}} {
							got, err := r.synthesize(ctx, ses, part, w)
							if err != nil {
								t.Fatal(err)
							}
							if b := wtns(t, got.witness); string(b) != string(raw) {
								t.Errorf("%s, partition %d: witness differs from the fixture's", matrices, part)
							}
							checkEvaluations(t, sys, w, got)
							if exists(path("public.json")) {
								pub := publicJSON(t, path("public.json"))
								if len(pub) != len(got.public) {
									t.Fatalf("%d public inputs, want %d", len(got.public), len(pub))
								}
								for i := range pub {
									if decimal(got.public[i]) != pub[i] {
										t.Errorf("public input %d differs", i)
									}
								}
							}
							if got.bytes > ses.Partitions[part].WitnessBytes {
								t.Errorf("%d bytes of witness, bound %d", got.bytes, ses.Partitions[part].WitnessBytes)
							}
							if part == 0 && got.bytes != ses.Partitions[part].WitnessBytes {
								t.Errorf("%d bytes of witness, %d foretold", got.bytes, ses.Partitions[part].WitnessBytes)
							}
						}
					}
					r.close(ses)
				}
			})
		})
	}
}
