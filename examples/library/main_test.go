package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// The program as a user builds and runs it: a proof on its stdout that verifies with snarkjs' verification key and public inputs.
func TestProgram(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "library")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	fixture := func(name string) string {
		path, err := filepath.Abs(filepath.Join("../../testdata/circom/multiplier", name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	tmp, err := os.MkdirTemp("", "wl") // short, for the names of sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(exe, fixture("circuit.zkey"), fixture("circuit.wasm"), fixture("input.json"))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	verify(t, stdout.Bytes(), fixture("vkey.json"), fixture("public.json"))
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// A bad input is one error, and no proof.
	stdout.Reset()
	stderr.Reset()
	cmd = exec.Command(exe, fixture("circuit.zkey"), fixture("circuit.wasm"), fixture("provenance.txt"))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err == nil || stdout.Len() > 0 || !strings.Contains(stderr.String(), "provenance.txt") {
		t.Errorf("inputs that are none: %v, stdout %q, stderr %q", err, stdout.String(), stderr.String())
	}
}

func verify(t *testing.T, proof []byte, vkey, public string) {
	t.Helper()
	f, err := os.Open(vkey)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	vk, err := keyfile.OpenVerifyingKey(context.Background(), f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	v, err := groth16.NewVerifier(vk)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	inputs, _, err := snarkjs.ParsePublic(b)
	if err != nil || len(inputs) != 1 {
		t.Fatalf("%d lists of public inputs: %v", len(inputs), err)
	}
	proofs, _, err := snarkjs.ParseProofs(proof)
	if err != nil || len(proofs) != 1 {
		t.Fatalf("%d proofs: %v in %s", len(proofs), err, proof)
	}
	if err := v.Verify(&proofs[0], inputs[0]); err != nil {
		t.Error(err)
	}
}

// The page shows this program, letter by letter.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```")
	var shown []string
	for i := 1; i < len(blocks); i += 2 {
		if code, ok := strings.CutPrefix(blocks[i], "go\n"); ok && strings.HasPrefix(code, "//") {
			shown = append(shown, code)
		}
	}
	if len(shown) != 1 || shown[0] != string(program) {
		t.Errorf("docs/library.md does not show main.go: %d programs", len(shown))
	}
}
