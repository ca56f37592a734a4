package memlimit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAutoTakesTheSmallestLimitInForce(t *testing.T) {
	const (
		v1mount = "36 32 0:31 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
		v2mount = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
		mib     = int64(1) << 20
	)
	base := map[string]string{"proc/meminfo": "MemTotal:       16777216 kB\nMemFree: 1 kB\n"} // 16 GiB
	for _, tc := range []struct {
		name   string
		files  map[string]string
		more   []candidate
		raw    int64
		source string
	}{
		{"machine only", nil, nil, 16 << 30, "MemTotal"},
		{"v2 own group", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2147483648\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, nil, 2 << 30, "cgroup v2 /sys/fs/cgroup/a/b/memory.max"},
		{"v2 parent is stricter", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, nil, 1 << 30, "cgroup v2 /sys/fs/cgroup/a/memory.max"},
		{"v2 throttled by memory.high", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.high": "536870912\n",
		}, nil, 512 * mib, "cgroup v2 /sys/fs/cgroup/a/memory.high"},
		{"v1 memory, v2 mount empty", map[string]string{
			"proc/self/mountinfo": v1mount + "40 32 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/job\n0::/job\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "3221225472\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, nil, 3 << 30, "cgroup v1 /sys/fs/cgroup/memory/job/memory.limit_in_bytes"},
		{"v1 without limit", map[string]string{
			"proc/self/mountinfo": v1mount, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, nil, 16 << 30, "MemTotal"},
		{"container: the mount shows its own group", map[string]string{
			"proc/self/mountinfo": "36 32 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
		}, nil, 1 << 30, "cgroup v1 /sys/fs/cgroup/memory/memory.limit_in_bytes"},
		{"container: a path from outside", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/../../kubepods/pod1\n", "sys/fs/cgroup/memory.max": "805306368\n",
		}, nil, 768 * mib, "cgroup v2 /sys/fs/cgroup/memory.max"},
		{"rlimit", nil, []candidate{{256 * mib, "RLIMIT_AS"}}, 256 * mib, "RLIMIT_AS"},
		{"damaged files are no limits", map[string]string{
			"proc/self/mountinfo": "garbage\n" + v2mount, "proc/self/cgroup": "x\n0::/a\n", "sys/fs/cgroup/a/memory.max": "-5\n", "sys/fs/cgroup/memory.max": "many\n",
		}, nil, 16 << 30, "MemTotal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			for _, files := range []map[string]string{base, tc.files} {
				for name, text := range files {
					path := filepath.Join(root, name)
					if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			l, err := auto(root, tc.more)
			if err != nil {
				t.Fatal(err)
			}
			if l.Raw != tc.raw || l.Source != tc.source {
				t.Fatalf("limit %d from %q, want %d from %q", l.Raw, l.Source, tc.raw, tc.source)
			}
			if l.Bytes >= l.Raw || l.Bytes < l.Raw/2 {
				t.Fatalf("%d of %d bytes", l.Bytes, l.Raw)
			}
			if s := l.String(); !strings.Contains(s, tc.source) || !strings.Contains(s, "margin") {
				t.Fatalf("message %q does not name the limit", s)
			}
		})
	}
	if _, err := auto(t.TempDir(), nil); err == nil {
		t.Fatal("no limit was found, and no error")
	}
}

func TestAutoOfThisMachine(t *testing.T) {
	l, err := Auto()
	if err != nil {
		t.Fatal(err)
	}
	if total, ok := memTotal("/"); !ok || l.Raw > total || l.Bytes <= 0 {
		t.Fatalf("%v on a machine of %d bytes", l, total)
	}
	t.Log(l)
}
