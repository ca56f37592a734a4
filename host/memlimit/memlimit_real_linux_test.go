package memlimit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asChild has TestAutoOfThisMachine print what it finds, in a process that a limit was set for.
func asChild(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), want) {
		t.Errorf("under the limit it is %q, want %q", out, want)
	}
}

func self(before string) *exec.Cmd {
	return exec.Command("/bin/sh", "-c", before+` && exec "$0" -test.run='^TestAutoOfThisMachine$' -test.v`, os.Args[0])
}

// A limit of the address space is found by a process that has it.
func TestAutoUnderARealRlimit(t *testing.T) {
	const limit = 5 << 30
	if raceEnabled {
		t.Skip("the race detector maps more address space than the limit of this test")
	}
	if total, ok := meminfo("/", "proc/meminfo", "MemTotal:"); !ok || total < limit {
		t.Skipf("this machine has %d bytes of memory, less than the limit of this test", total)
	}
	if l, err := Auto(); err != nil || l.Raw < limit {
		t.Skipf("a stricter limit is in force: %v, %v", l, err)
	}
	asChild(t, self(fmt.Sprint("ulimit -v ", limit>>10)), "RLIMIT_AS of 5GiB, less ")
}

// A limit of a memory cgroup is found by a process in it, whichever version of cgroups this system has.
func TestAutoUnderARealCgroup(t *testing.T) {
	const limit = 1 << 30
	m1, m2 := mounts("/")
	g1, g2, has1, has2 := groups("/")
	var parent, file string
	switch {
	case has1 && len(m1) > 0:
		parent, file = filepath.Join(m1[0].at, path(m1[0], g1)[0]), "memory.limit_in_bytes"
	case has2 && len(m2) > 0:
		parent, file = filepath.Join(m2[0].at, path(m2[0], g2)[0]), "memory.max"
	default:
		t.Skip("this system has no cgroups")
	}
	group := filepath.Join(parent, "weir-test-"+strconv.Itoa(os.Getpid()))
	if os.Getenv("WEIR_TEST_CGROUP") == "" {
		t.Skip("makes a cgroup: set WEIR_TEST_CGROUP=1, with the right to do so")
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no cgroup can be made: %v", err)
	}
	defer func() {
		if err := unix.Rmdir(group); err != nil {
			t.Errorf("remove %s: %v", group, err)
		}
	}()
	if err := os.WriteFile(filepath.Join(group, file), []byte(strconv.Itoa(limit)), 0); err != nil {
		t.Skipf("no memory limit can be set: %v", err)
	}
	below := filepath.Join(group, "below") // and the process in one below it, without a limit
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Rmdir(below); err != nil {
			t.Errorf("remove %s: %v", below, err)
		}
	}()
	asChild(t, self("echo $$ >"+filepath.Join(below, "cgroup.procs")), filepath.Join(group, file)+" of 1GiB, less a margin of 128MiB")
}
