package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

func fakeFile(t *testing.T, root, path, content string) {
	t.Helper()
	full := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOOMCounters reads faked trees: v2, v1, both, and a container whose own path does not exist below the mount.
func TestOOMCounters(t *testing.T) {
	const v2Events = "low 0\nhigh 0\nmax 12\noom 5\noom_kill 4\noom_group_kill 0\n"
	const v1Control = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  map[string]int64
	}{
		{"nothing", nil, map[string]int64{}},
		{"v2", map[string]string{"proc/42/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.events": v2Events},
			map[string]int64{"/sys/fs/cgroup/a/b/memory.events": 4}},
		{"v2 in a container", map[string]string{"proc/42/cgroup": "0::/pods/x\n", "sys/fs/cgroup/memory.events": v2Events},
			map[string]int64{"/sys/fs/cgroup/memory.events": 4}},
		{"v2 path out of the namespace", map[string]string{"proc/42/cgroup": "0::/../../x\n", "sys/fs/cgroup/x/memory.events": v2Events},
			map[string]int64{"/sys/fs/cgroup/x/memory.events": 4}},
		{"v1", map[string]string{"proc/42/cgroup": "9:name=systemd:/\n4:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.oom_control": v1Control},
			map[string]int64{"/sys/fs/cgroup/memory/a/memory.oom_control": 7}},
		{"v1 with other controllers", map[string]string{"proc/42/cgroup": "4:hugetlb,memory:/a/b/c\n", "sys/fs/cgroup/memory/a/memory.oom_control": v1Control},
			map[string]int64{"/sys/fs/cgroup/memory/a/memory.oom_control": 7}},
		{"hybrid", map[string]string{"proc/42/cgroup": "4:memory:/\n0::/u\n", "sys/fs/cgroup/memory/memory.oom_control": v1Control,
			"sys/fs/cgroup/unified/u/memory.events": v2Events, "proc/vmstat": "nr_free_pages 9\noom_kill 11\n"},
			map[string]int64{"/sys/fs/cgroup/memory/memory.oom_control": 7, "/sys/fs/cgroup/unified/u/memory.events": 4, "/proc/vmstat": 11}},
		{"garbage", map[string]string{"proc/42/cgroup": "::\nx\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.oom_control": "oom_kill many\n"}, map[string]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range c.files {
				fakeFile(t, root, path, content)
			}
			p := oomProbe{root: root}
			got := p.counts(42)
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if again := p.recount(got); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("%v, then %v", got, again)
			}
		})
	}
}

// TestKilledChildSaysWhy: a plugin that was killed by somebody else, with and without evidence of the OOM killer (T7).
func TestKilledChildSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after string
		word          string
		not           string
	}{
		{"counted in the cgroup", "oom_kill 2\n", "oom_kill 3\n", "probably out of memory: the kernel counted 1 more OOM kill(s) in /sys/fs/cgroup", "did not send"},
		{"not counted", "oom_kill 2\n", "oom_kill 2\n", "counted no OOM kill", "probably"},
		{"not readable", "", "", "probably out of memory", "counted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.before != "" {
				fakeFile(t, root, "proc/vmstat", "oom_kill 0\n")
			}
			p := launchTest(t, "ok", func(l *LaunchConfig) { l.oomRoot = root })
			if c.before != "" {
				fakeFile(t, root, fmt.Sprintf("proc/%d/cgroup", p.PID()), "0::/\n")
				fakeFile(t, root, "sys/fs/cgroup/memory.events", c.before)
				p.child.recountOOM()
				fakeFile(t, root, "sys/fs/cgroup/memory.events", c.after)
			}
			_, err := call(context.Background(), p, "Do", "kill")
			wantClass(t, err, errs.BackendGone, "SIGKILL", c.word)
			if strings.Contains(err.Error(), c.not) {
				t.Errorf("%q says %q", err, c.not)
			}
		})
	}
}

// TestOOMVerdictOfTheMachine: the machine's own count is evidence too, but the weaker one.
func TestOOMVerdictOfTheMachine(t *testing.T) {
	before := map[string]int64{"/proc/vmstat": 5, "/sys/fs/cgroup/memory.events": 1}
	for _, c := range []struct {
		machine, group int64
		want           string
	}{{5, 1, "no OOM kill"}, {6, 1, "on this machine"}, {6, 2, "in /sys/fs/cgroup"}} {
		got := oomVerdict(before, map[string]int64{"/proc/vmstat": c.machine, "/sys/fs/cgroup/memory.events": c.group})
		if !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
