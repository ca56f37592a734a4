package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
)

// Every folder of circom fixtures, its witness computed twice by circom's own program: one job of two partitions, with the public inputs that snarkjs has. (That
// each proves from its witness file, and snarkjs' proofs verify, is tested beside the command.)
func TestFixturesFromPrograms(t *testing.T) {
	for _, name := range append(append([]string(nil), testfiles.Small...), testfiles.Large...) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			folder := filepath.Dir(testfiles.Circom(name, "circuit.wasm"))
			if _, err := os.Stat(filepath.Join(folder, "circuit.wasm")); err != nil {
				folder = testfiles.Shared(t, "fixtures", "circom", name) // skips with the reason
			}
			in := func(f string) string { return filepath.Join(folder, f) }
			w.run(0, "prove", "--quiet", "--key", in("circuit.zkey"), "--wasm", in("circuit.wasm"), "--input", in("input.json"), "--input", in("input.json"),
				"--proof", "proof.json", "--public", "public.json")
			w.run(0, "verify", "--quiet", "--vkey", in("vkey.json"), "--proof", "proof.json", "--public", "public.json")
			var want []string
			var got [][]string
			readJSON(t, in("public.json"), &want)
			readJSON(t, filepath.Join(w.out, "public.json"), &got)
			if len(got) != 2 || !reflect.DeepEqual(got[0], want) || !reflect.DeepEqual(got[1], want) {
				t.Errorf("public inputs %v, want %v twice", got, want)
			}
		})
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
