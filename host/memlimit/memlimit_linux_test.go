package memlimit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
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
		{"rlimit", nil, []candidate{{raw: 256 * mib, source: "RLIMIT_AS"}}, 256 * mib, "RLIMIT_AS"},
		{"v1: a limit above the container's view", map[string]string{
			"proc/self/mountinfo": "36 32 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/docker/abc\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/memory.stat": "cache 0\nhierarchical_memory_limit 2147483648\nhierarchical_memsw_limit 1\n",
		}, nil, 2 << 30, "cgroup v1 hierarchical_memory_limit in /sys/fs/cgroup/memory/memory.stat"},
		{"a mount line of 100 KiB before the one that matters", map[string]string{
			"proc/self/mountinfo": "20 1 0:1 / / rw - overlay overlay lowerdir=" + strings.Repeat("x", 100<<10) + "\n" + v2mount, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "2147483648\n",
		}, nil, 2 << 30, "cgroup v2 /sys/fs/cgroup/a/memory.max"},
		{"a group with a space in its name", map[string]string{
			"proc/self/mountinfo": "36 32 0:31 /my\\040jobs /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "proc/self/cgroup": "4:memory:/my jobs/one\n",
			"sys/fs/cgroup/memory/one/memory.limit_in_bytes": "2147483648\n",
		}, nil, 2 << 30, "cgroup v1 /sys/fs/cgroup/memory/one/memory.limit_in_bytes"},
		{"huge pages are set aside", map[string]string{"proc/meminfo": "MemTotal:       16777216 kB\nHugePages_Total:    4096\nHugetlb:         8388608 kB\n"},
			nil, 8 << 30, "MemTotal without 8GiB of huge pages"},
		{"bound to one of two NUMA nodes", map[string]string{
			"proc/self/status":                      "Name:\tweir\nMems_allowed:\t00000000,00000002\nMems_allowed_list:\t1\n",
			"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       12582912 kB\nNode 0 MemFree: 1 kB\n", "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:        4194304 kB\n",
		}, nil, 4 << 30, "memory of NUMA nodes 1"},
		{"free to use all NUMA nodes", map[string]string{
			"proc/self/status":                      "Mems_allowed_list:\t0-1\n",
			"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:        8388608 kB\n", "sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:        4194304 kB\n",
		}, nil, 16 << 30, "MemTotal"},
		{"address space that the process has taken already", map[string]string{
			"proc/self/statm":     "262144 2000 1000 800 0 131072 0\n", // pages: 1 GiB of address space, half of it data, where pages have 4 KiB
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "2147483648\n",
		}, []candidate{{raw: 5 << 29, source: "RLIMIT_AS"}, {raw: 3 << 30, source: "RLIMIT_DATA"}}, 5 << 29, "RLIMIT_AS"},
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
			if left := l.Raw - l.Used; l.Bytes >= left || l.Bytes < left/2 || (l.Used > 0) != (tc.files["proc/self/statm"] != "") {
				t.Fatalf("%d of %d bytes", l.Bytes, l.Raw)
			}
			if s := l.String(); !strings.Contains(s, tc.source) || !strings.Contains(s, "margin") {
				t.Fatalf("message %q does not name the limit", s)
			}
		})
	}
	if _, err := auto(t.TempDir(), nil); !errs.Is(err, errs.Unsupported) {
		t.Errorf("no limit was found: %v", err)
	}
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc/self"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/self/statm"), []byte("262144 2000 1000 800 0 131072 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := auto(root, []candidate{{raw: 1 << 29, source: "RLIMIT_AS"}}); !errs.Is(err, errs.Exhausted) || !strings.Contains(err.Error(), "RLIMIT_AS is 512MiB, and the process has taken 1GiB") {
		t.Errorf("an address space that is used up: %v", err)
	}
}

func TestNodeList(t *testing.T) {
	for list, want := range map[string]string{"0": "0", "0-2": "012", "1,3": "13", "0-1,3-3": "013", "": "", "x": "", "1-": "", "2-0": "", ",2": "2"} {
		got := ""
		for n := range 5 {
			if inList(list, n) {
				got += strconv.Itoa(n)
			}
		}
		if got != want {
			t.Errorf("list %q has nodes %s, want %s", list, got, want)
		}
	}
}

func TestAutoOfThisMachine(t *testing.T) {
	l, err := Auto()
	if err != nil {
		t.Fatal(err)
	}
	if total, ok := meminfo("/", "proc/meminfo", "MemTotal:"); !ok || l.Raw > total || l.Bytes <= 0 {
		t.Fatalf("%v on a machine of %d bytes", l, total)
	}
	t.Log(l)
}
