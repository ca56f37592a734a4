package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// memoryGroup makes a cgroup of this limit below the test's own and returns its folder, or skips the test.
func memoryGroup(t *testing.T, limit int64) string {
	t.Helper()
	if os.Getenv("WEIR_TEST_CGROUP") == "" {
		t.Skip("makes a cgroup: set WEIR_TEST_CGROUP=1, with the right to do so")
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skipf("this system has no cgroups: %v", err)
	}
	parent, file := "", ""
	for _, line := range strings.Split(string(own), "\n") {
		f := strings.SplitN(line, ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "memory":
			parent, file = filepath.Join("/sys/fs/cgroup/memory", f[2]), "memory.limit_in_bytes"
		case f[0] == "0" && parent == "":
			parent, file = filepath.Join("/sys/fs/cgroup", f[2]), "memory.max"
		}
	}
	group := filepath.Join(parent, "weir-e2e-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Errorf("remove %s: %v", group, err)
		}
	})
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		t.Skipf("no memory limit can be set: %v", err)
	}
	return group
}

// within runs weir in a group and returns its output and exit code.
func (w *world) within(group string, args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group, w.bin}, args...)...)
	cmd.Dir = w.out
	out, _ := cmd.CombinedOutput() // the code says what it came to
	return string(out), cmd.ProcessState.ExitCode()
}

// killed is how many processes of a group the kernel has killed for want of memory.
func killed(t *testing.T, group string) int {
	t.Helper()
	for _, name := range []string{"memory.oom_control", "memory.events"} {
		text, err := os.ReadFile(filepath.Join(group, name))
		for _, line := range strings.Split(string(text), "\n") {
			if n, found := strings.CutPrefix(line, "oom_kill "); err == nil && found {
				v, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
	}
	t.Fatalf("%s does not tell of kills", group)
	return 0
}

// Under a limit that the kernel enforces by killing, many submissions at once of a circuit that fits are all proved, and one that cannot fit is refused with the numbers.
func TestUnderACgroupLimit(t *testing.T) {
	log, jobs := 16, 20
	if s := os.Getenv("WEIR_E2E_LOG2"); s != "" {
		var err error
		if log, err = strconv.Atoi(s); err != nil || log < 14 || log > 22 {
			t.Fatalf("WEIR_E2E_LOG2=%q, want 14 to 22", s)
		}
		jobs = 100
	}
	t.Run("fits", func(t *testing.T) {
		group := memoryGroup(t, 2<<30)
		w := newWorld(t)
		c := w.dense(log)
		out, code := w.within(group, "bench", "--backend", "cpu", "--key", c.key, "--circuit", c.r1cs, "--witness", c.wtns, "--proofs", fmt.Sprint(jobs), "--concurrency", fmt.Sprint(jobs),
			"--assert", fmt.Sprintf("verified==%d", jobs), "--assert", "est_peak_bytes<=budget_bytes", "--assert", "failed==0")
		if n := killed(t, group); code != 0 || n != 0 {
			t.Errorf("exit code %d, %d processes killed:\n%s", code, n, out)
		}
		t.Log(out)
	})
	t.Run("refused", func(t *testing.T) {
		const limit = 64 << 20 // of which half is the margin
		group := memoryGroup(t, limit)
		w := newWorld(t)
		c := w.dense(max(log, 18))
		out, code := w.within(group, "prove", "--key", c.key, "--circuit", c.r1cs, "--witness", c.wtns, "--proof", "proof.json")
		if n := killed(t, group); code != 4 || n != 0 {
			t.Errorf("exit code %d, want 4; %d processes killed:\n%s", code, n, out)
		}
		for _, part := range []string{"64MiB", "found a need of", "evaluations "} {
			if !strings.Contains(out, part) {
				t.Errorf("the refusal does not tell %q:\n%s", part, out)
			}
		}
	})
}
