package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/internal/testfiles"
)

// command returns a function that runs the real main in a folder of the test's, and a path in that folder.
func command(t *testing.T) (run func(args ...string), dir string) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector knows no shared memory, so plugin processes cannot prove")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	bin := filepath.Join(t.TempDir(), "weir") // TestMain looks at the name
	if err := os.Symlink(self, bin); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "WEIR_CONFIG=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}, dir
}

// Every folder of circom fixtures: prove with snarkjs' key, verify with its verification key, compare the public inputs, and verify the proof that snarkjs made.
func TestCircomFixtures(t *testing.T) {
	for _, name := range append(append([]string(nil), testfiles.Small...), testfiles.Large...) {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Dir(testfiles.Circom(name, "circuit.zkey"))
			if _, err := os.Stat(folder); err != nil {
				folder = testfiles.Shared(t, "fixtures", "circom", name) // skips with the reason
			}
			weir, dir := command(t)
			in := func(f string) string { return filepath.Join(folder, f) }
			circuit := filepath.Join(dir, "circuit.r1cs")
			if err := os.WriteFile(circuit, testfiles.Fixture(t, name, "circuit.r1cs"), 0o600); err != nil {
				t.Fatal(err)
			}
			weir("prove", "--key", in("circuit.zkey"), "--circuit", circuit, "--witness", in("witness.wtns"), "--out", "o")
			weir("verify", "--vkey", in("vkey.json"), "--public", "o/public.json", "--proof", "o/proof.json")
			weir("verify", "--vkey", in("circuit.zkey"), "--public", in("public.json"), "--proof", in("proof.json"))
			got, err := os.ReadFile(filepath.Join(dir, "o", "public.json"))
			want, werr := os.ReadFile(in("public.json"))
			if err != nil || werr != nil || string(got) != strings.TrimRight(string(want), "\n") && string(got) != string(want) {
				t.Errorf("public inputs are not those of snarkjs: %v, %v", err, werr)
			}
		})
	}
}

// A development key, written for bellman and read back, makes the same proofs, which hold for the .vk; with 8 rows and with 2^16, where the order of rows tells.
func TestBellmanExportProves(t *testing.T) {
	for _, c := range []circuitgen.Circuit{circuitgen.Tiny{Rows: 6, Public: 1}, circuitgen.Dense{Rows: circuitgen.FillDomain(16, 2), Seed: 5}} {
		weir, dir := command(t)
		r1cs, wtns, err := circuitgen.WriteFiles(dir, "c", c)
		if err != nil {
			t.Fatal(err)
		}
		weir("setup", "--circuit", r1cs, "--key", "c.wkey")
		weir("key", "export", "--format", "bellman", "c.wkey", "c.params")
		weir("key", "export", "--format", "vk", "c.wkey", "c.vk")
		prove := func(key, out string) []byte {
			weir("prove", "--key", key, "--circuit", r1cs, "--witness", wtns, "--format", "bellman", "--proof", out, "--public", out+".json", "--insecure-test-randomness", "3,5")
			b, err := os.ReadFile(filepath.Join(dir, out))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if a, b := prove("c.wkey", "w.bin"), prove("c.params", "p.bin"); len(a) != 192 || !bytes.Equal(a, b) {
			t.Errorf("%T: the proofs are\n%x\n%x", c, a, b)
		}
		weir("verify", "--vkey", "c.vk", "--public", "p.bin.json", "--proof", "p.bin")
	}
}

// snarkjs verifies weir's proofs, and proves with keys of weir setup; weir verifies those proofs.
func TestSnarkjs(t *testing.T) {
	snarkjs := testfiles.Snarkjs(t)
	weir, dir := command(t)
	p := func(f string) string { return filepath.Join(dir, f) }
	must := func(args ...string) {
		t.Helper()
		if out, err := snarkjs(args...); err != nil {
			t.Fatalf("snarkjs %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	fixture := func(f string) string { return testfiles.Circom("dom_1022", f) }

	for _, name := range append(append([]string(nil), testfiles.Small...), testfiles.Large...) {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Dir(testfiles.Circom(name, "circuit.zkey"))
			if _, err := os.Stat(folder); err != nil {
				folder = testfiles.Shared(t, "fixtures", "circom", name) // skips with the reason
			}
			in := func(f string) string { return filepath.Join(folder, f) }
			weir("prove", "--key", in("circuit.zkey"), "--witness", in("witness.wtns"), "--proof", "a.json", "--public", "a.public.json")
			must("groth16", "verify", in("vkey.json"), p("a.public.json"), p("a.json"))
			must("groth16", "prove", in("circuit.zkey"), in("witness.wtns"), p("s.json"), p("s.public.json"))
			weir("verify", "--vkey", in("vkey.json"), "--public", "s.public.json", "--proof", "s.json")
		})
	}

	for _, layout := range []string{"weir", "snarkjs"} {
		weir("setup", "--circuit", fixture("circuit.r1cs"), "--key", "b.wkey", "--vkey", "b.vkey.json", "--layout", layout)
		weir("key", "export", "--format", "zkey", "b.wkey", "b.zkey")
		must("groth16", "prove", p("b.zkey"), fixture("witness.wtns"), p("b.json"), p("b.public.json"))
		weir("verify", "--vkey", "b.vkey.json", "--public", "b.public.json", "--proof", "b.json")
		must("zkey", "export", "verificationkey", p("b.zkey"), p("c.vkey.json"))
		weir("prove", "--key", "b.zkey", "--witness", fixture("witness.wtns"), "--proof", "c.json", "--public", "c.public.json")
		must("groth16", "verify", p("c.vkey.json"), p("c.public.json"), p("c.json"))
	}
}
