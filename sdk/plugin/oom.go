package plugin

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomProbe reads the kernel's counts of processes killed for lack of memory. root is where /proc and /sys are found;
// empty outside tests.
type oomProbe struct{ root string }

// counts returns what can be read for process pid, by the file it was read from: the memory cgroup of the process (v2:
// memory.events; v1: memory.oom_control), and the whole machine (/proc/vmstat). In a container the path of a cgroup
// may not exist below the mount, whose top then is the container's own cgroup.
func (p oomProbe) counts(pid int) map[string]int64 {
	out := map[string]int64{}
	add := func(path string) bool {
		n, ok := p.oomKills(path)
		if ok {
			out[path] = n
		}
		return ok
	}
	v1, v2 := p.groups(pid)
	climb := func(mount, group, file string) bool {
		if group == "" {
			return false
		}
		for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
			if add(filepath.Join(mount, dir, file)) {
				return true
			}
			if dir == "/" {
				return false
			}
		}
	}
	climb("/sys/fs/cgroup/memory", v1, "memory.oom_control")
	if !climb("/sys/fs/cgroup", v2, "memory.events") {
		climb("/sys/fs/cgroup/unified", v2, "memory.events")
	}
	add("/proc/vmstat")
	return out
}

// recount reads the files of an earlier answer again: the process may be gone by now.
func (p oomProbe) recount(before map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for path := range before {
		if n, ok := p.oomKills(path); ok {
			out[path] = n
		}
	}
	return out
}

// groups are the cgroups of pid: that of the v1 memory controller, and the v2 one ("" where there is none).
func (p oomProbe) groups(pid int) (v1, v2 string) {
	data, err := os.ReadFile(filepath.Join(p.root+"/", "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(data)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		if part[0] == "0" && part[1] == "" {
			v2 = part[2]
		}
		for c := range strings.SplitSeq(part[1], ",") {
			if c == "memory" {
				v1 = part[2]
			}
		}
	}
	return v1, v2
}

// oomKills reads the line "oom_kill N" of a file.
func (p oomProbe) oomKills(path string) (int64, bool) {
	f, err := os.Open(filepath.Join(p.root+"/", path))
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if n, ok := strings.CutPrefix(s.Text(), "oom_kill "); ok {
			v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return v, err == nil
		}
	}
	return 0, false
}

// oomVerdict says what the counts before and after the death of a process that was killed by an unknown hand tell.
func oomVerdict(before, after map[string]int64) string {
	const machine = "/proc/vmstat"
	seen := false
	for path, n := range after {
		old, ok := before[path]
		if !ok {
			continue
		}
		if seen = true; n > old && path != machine {
			return fmt.Sprintf("probably out of memory: the kernel counted %d more OOM kill(s) in %s", n-old, filepath.Dir(path))
		}
	}
	switch {
	case after[machine] > before[machine] && seen:
		return fmt.Sprintf("probably out of memory: the kernel counted %d more OOM kill(s) on this machine", after[machine]-before[machine])
	case !seen:
		return "probably out of memory: the host did not send this signal (no OOM counter can be read here)"
	}
	return "the host did not send this signal, and the kernel counted no OOM kill: somebody else's kill, or an OOM killer in user space"
}
