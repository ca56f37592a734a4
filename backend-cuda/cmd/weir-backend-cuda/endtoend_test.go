package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-zk/weir/backend-cuda/internal/stubtest"
	"github.com/weir-zk/weir/internal/testfiles"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stubtest.Clean()
	os.Exit(code)
}

// installed is weir, this program and a stub library in a folder, as an archive unpacks them.
type installed struct {
	t   *testing.T
	dir string
}

func install(t *testing.T) *installed {
	t.Helper()
	library := stubtest.Build(t)
	w := &installed{t, t.TempDir()}
	build := exec.Command("go", "build", "-o", w.dir+string(filepath.Separator), "github.com/weir-zk/weir/cmd/weir", "github.com/weir-zk/weir/backend-cuda/cmd/weir-backend-cuda")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	raw, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "libweir_cuda.so"), raw, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// weir runs the program, with settings of the environment before its arguments, and returns what it says and its exit code.
func (w *installed) weir(env []string, args ...string) (out, said string, code int) {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.dir, "weir"), args...)
	cmd.Dir = w.dir
	cmd.Env = append(append(os.Environ(), "WEIR_CONFIG=", "HOME="+w.dir), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// weir proves on the device, or on the processor when the device cannot: by name that is an error, else it is said aloud. Whatever happens, a proof that is written verifies.
func TestWeir(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs: not with -short")
	}
	if testfiles.Race {
		t.Skip("the programs are built without the race detector: nothing new is seen")
	}
	w := install(t)
	dying := func(call string) string { return "WEIR_CUDA_LIBRARY=" + stubtest.Build(t, "STUB_STICKY_CALL="+call) }
	for _, c := range []struct {
		name, fixture  string
		env            []string
		named          bool
		witnesses      int
		code           int
		out, said, not string // expressions: in the report, on stderr, not on stderr
	}{
		{name: "on the device", fixture: "multiplier", named: true, witnesses: 1, out: `(?m)^backend +cuda \(stub GPU 0\)$`, not: `WARN`},
		{name: "on the device, nobody asked", fixture: "multiplier", witnesses: 2, out: `(?m)^backend +cuda \(stub GPU 0\)$`, not: `WARN`},
		{name: "within a limit", fixture: "dom_1022", env: []string{"WEIR_CUDA_VRAM_LIMIT=6MiB"}, named: true, witnesses: 1, out: `(?m)^backend +cuda`},
		{name: "no library, by name", fixture: "multiplier", env: []string{"WEIR_CUDA_LIBRARY=/nowhere/lib.so"}, named: true, witnesses: 1, code: 5, said: `/nowhere/lib.so`},
		{name: "no library", fixture: "multiplier", env: []string{"WEIR_CUDA_LIBRARY=/nowhere/lib.so"}, witnesses: 1,
			out: `(?m)^backend +cpu `, said: `WARN.*backend=cuda.*/nowhere/lib.so`},
		{name: "too little memory, by name", fixture: "multiplier", env: []string{"WEIR_CUDA_VRAM_LIMIT=1KiB"}, named: true, witnesses: 1, code: 4, said: `needs at least`},
		{name: "too little memory", fixture: "multiplier", env: []string{"WEIR_CUDA_VRAM_LIMIT=1KiB"}, witnesses: 1,
			out: `(?m)^backend +cpu `, said: `WARN.*proved again.*backend=cuda.*needs at least`},
		{name: "lost at work, by name", fixture: "multiplier", env: []string{dying("60")}, named: true, witnesses: 1, code: 5, said: `lost`},
		{name: "lost at work", fixture: "multiplier", env: []string{dying("60")}, witnesses: 1, out: `(?m)^backend +cpu `, said: `WARN.*proved again.*backend=cuda`},
		{name: "lost after some proofs", fixture: "multiplier", env: []string{dying("150")}, witnesses: 8, said: `WARN.*proved again.*backend=cuda`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := testfiles.Circom(c.fixture, "")
			proof, public := filepath.Join(t.TempDir(), "proof.json"), filepath.Join(t.TempDir(), "public.json")
			args := []string{"prove", "--key", filepath.Join(f, "circuit.zkey"), "--proof", proof, "--public", public}
			for range c.witnesses {
				args = append(args, "--witness", filepath.Join(f, "witness.wtns"))
			}
			if c.named {
				args = append(args, "--backend", "cuda")
			}
			out, said, code := w.weir(c.env, args...)
			t.Logf("exit code %d\n%s%s", code, out, said)
			if code != c.code {
				t.Fatalf("exit code %d, want %d", code, c.code)
			}
			for _, x := range []struct{ in, want string }{{out, c.out}, {said, c.said}} {
				if !regexp.MustCompile(x.want).MatchString(x.in) {
					t.Errorf("nothing is %s", x.want)
				}
			}
			if c.not != "" && strings.Contains(said, c.not) {
				t.Errorf("says %s", c.not)
			}
			if c.code != 0 {
				if _, err := os.Stat(proof); err == nil {
					t.Error("a proof was written")
				}
				return
			}
			if _, said, code := w.weir(nil, "verify", "--vkey", filepath.Join(f, "vkey.json"), "--public", public, "--proof", proof); code != 0 {
				t.Errorf("the proof does not verify: %s", said)
			}
		})
	}
	t.Run("plan", w.plan)
	t.Run("doctor", w.doctor)
}

// plan prints where a key would lie: on the device, for so many lanes, or nowhere.
func (w *installed) plan(t *testing.T) {
	key := filepath.Join(testfiles.Circom("dom_1022", ""), "circuit.zkey")
	for _, c := range []struct{ vram, want string }{
		{"1GiB", `(?m)^# this machine's GPU: stub GPU 0, .*: 2 lanes of .*; resident A, B1, B2, K, H, matrices in .*; streamed nothing`},
		{"6MiB", `(?m)^# this machine's GPU: stub GPU 0, .*6.00 MiB.*: 1 lanes of .*`},
		{"1MiB", `(?m)^# this machine's GPU: .*needs at least`},
	} {
		out, said, code := w.weir([]string{"WEIR_CUDA_VRAM_LIMIT=" + c.vram}, "plan", "--gpu", "h200", "--cores", "4", "--ram", "64GiB", "--circuit", key)
		if code != 0 || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%s: exit code %d, nothing is %s:\n%s%s", c.vram, code, c.want, out, said)
		}
	}
	if out, said, _ := w.weir([]string{"WEIR_GPU=0"}, "plan", "--gpu", "h200", "--cores", "4", "--ram", "64GiB", "--circuit", key); strings.Contains(out, "this machine") {
		t.Errorf("a device was asked:\n%s%s", out, said)
	}
}

// doctor finds the plugin and its library in the folder of weir, and tells what is missing. The folder is spoiled after it.
func (w *installed) doctor(t *testing.T) {
	out, _, code := w.weir(nil, "doctor")
	if code != 0 || !regexp.MustCompile(`(?m)^ok +plugin +cuda .*stub GPU 0`).MatchString(out) {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	for _, missing := range []string{"libweir_cuda.so", "weir-backend-cuda"} {
		if err := os.Remove(filepath.Join(w.dir, missing)); err != nil {
			t.Fatal(err)
		}
		out, _, code = w.weir(nil, "doctor")
		if code != 0 || strings.Contains(out, "stub GPU") || !strings.Contains(out, map[bool]string{true: "NO GPU CAN BE USED", false: "no CUDA backend found"}[missing == "libweir_cuda.so"]) {
			t.Errorf("without %s: exit code %d\n%s", missing, code, out)
		}
	}
}
