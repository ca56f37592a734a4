package memlimit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-zk/weir/host/ledger"
)

// Auto is the budget of this process.
func Auto() (Limit, error) { return auto("/", rlimits()) }

// auto reads /proc, /sys and cgroup mounts below root, so that tests can bring their own. limits are those of the process.
func auto(root string, limits []candidate) (Limit, error) {
	all := cgroups(root)
	size, data := mapped(root)
	for _, c := range limits {
		switch c.source {
		case "RLIMIT_AS":
			c.used = size
		case "RLIMIT_DATA":
			c.used = data
		}
		all = append(all, c)
	}
	if n, text, ok := nodes(root); ok {
		all = append(all, candidate{raw: n, source: text})
	}
	if total, ok := meminfo(root, "proc/meminfo", "MemTotal:"); ok {
		c := candidate{raw: total, source: "MemTotal"}
		if huge, ok := meminfo(root, "proc/meminfo", "Hugetlb:"); ok && huge < total {
			c.raw -= huge // only who asks for huge pages gets them
			c.source = fmt.Sprintf("MemTotal without %v of huge pages", ledger.Size(huge))
		}
		all = append(all, c)
	}
	return smallest(all)
}

// meminfo reads one line of a file like /proc/meminfo: "MemTotal:  16777216 kB".
func meminfo(root, file, key string) (int64, bool) {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if _, rest, ok := strings.Cut(line, key); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err == nil && kb > 0 && kb < none>>10
		}
	}
	return 0, false
}

// mapped is what this process counts already against RLIMIT_AS and RLIMIT_DATA: a Go program maps much that it never touches.
func mapped(root string) (size, data int64) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/statm"))
	f := strings.Fields(string(text))
	if err != nil || len(f) < 6 {
		return 0, 0
	}
	pages := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > none>>12 {
			return 0
		}
		return n * int64(os.Getpagesize())
	}
	return pages(f[0]), pages(f[5])
}

// nodes is the memory of the NUMA nodes this process may use (by cpuset.mems or numactl), if those are not all there are.
func nodes(root string) (int64, string, bool) {
	status, err := os.ReadFile(filepath.Join(root, "proc/self/status"))
	if err != nil {
		return 0, "", false
	}
	list := ""
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "Mems_allowed_list:"); ok {
			list = strings.TrimSpace(rest)
		}
	}
	var sum int64
	others := false
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*"))
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		n, ok := meminfo("/", filepath.Join(dir, "meminfo"), "MemTotal:")
		switch {
		case err != nil || !ok: // a node without memory
		case inList(list, node):
			sum += n
		default:
			others = true
		}
	}
	return sum, "memory of NUMA nodes " + list, others && sum > 0
}

// inList reports whether a list like "0-2,5" has n.
func inList(list string, n int) bool {
	for part := range strings.SplitSeq(list, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		a, err := strconv.Atoi(low)
		b, err2 := strconv.Atoi(high)
		if err == nil && err2 == nil && a <= n && n <= b {
			return true
		}
	}
	return false
}

// mount is a cgroup file system: what it shows (top, a path inside the hierarchy) and where.
type mount struct{ top, at string }

// mounts reads mountinfo (proc(5)): the v2 hierarchy, and the v1 one of the memory controller.
func mounts(root string) (v1, v2 []mount) {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil, nil
	}
	for line := range strings.Lines(string(data)) { // of any length: overlay mounts have long ones
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(g) < 3 {
			continue
		}
		m := mount{top: unescape(f[3]), at: unescape(f[4])}
		switch {
		case g[0] == "cgroup2":
			v2 = append(v2, m)
		case g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), "memory"):
			v1 = append(v1, m)
		}
	}
	return v1, v2
}

// unescape undoes mountinfo's octal escapes of space, tab, line feed and backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// groups reads /proc/self/cgroup: the path of this process in the v1 memory hierarchy and in v2.
func groups(root string) (v1, v2 string, has1, has2 bool) {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		switch {
		case len(part) != 3:
		case part[0] == "0" && part[1] == "":
			v2, has2 = part[2], true
		case slices.Contains(strings.Split(part[1], ","), "memory"):
			v1, has1 = part[2], true
		}
	}
	return
}

func cgroups(root string) []candidate {
	m1, m2 := mounts(root)
	g1, g2, has1, has2 := groups(root)
	var out []candidate
	if has1 {
		for _, m := range m1 {
			out = append(out, climb(root, m, g1, "cgroup v1 ", "memory.limit_in_bytes")...)
			// The smallest of a group and those above it, also of those that a container does not see.
			for _, dir := range path(m, g1) {
				stat := filepath.Join(m.at, dir, "memory.stat")
				if n, ok := field(filepath.Join(root, stat), "hierarchical_memory_limit"); ok {
					out = append(out, candidate{raw: n, source: "cgroup v1 hierarchical_memory_limit in " + stat})
					break
				}
			}
		}
	}
	if has2 {
		for _, m := range m2 {
			// memory.high does not kill, but slows a process down until it stands.
			out = append(out, climb(root, m, g2, "cgroup v2 ", "memory.max", "memory.high")...)
		}
	}
	return out
}

// path lists the folders, below a mount, of a group and of every one above it. A container may see a mount whose top is its own group, and a path
// that means nothing below it; then the top is all there is.
func path(m mount, group string) []string {
	rel := group
	if m.top != "/" {
		rest, ok := strings.CutPrefix(group, m.top)
		if !ok || rest != "" && rest[0] != '/' {
			rest = "/"
		}
		rel = rest
	}
	var out []string
	for rel = filepath.Clean("/" + rel); ; rel = filepath.Dir(rel) {
		out = append(out, rel)
		if rel == "/" {
			return out
		}
	}
}

// climb reads the limits of a group and of every one above it, up to the mount.
func climb(root string, m mount, group, version string, files ...string) []candidate {
	var out []candidate
	for _, dir := range path(m, group) {
		for _, file := range files {
			name := filepath.Join(m.at, dir, file)
			if n, ok := number(filepath.Join(root, name)); ok {
				out = append(out, candidate{raw: n, source: version + name})
			}
		}
	}
	return out
}

// field reads one number of a file with a name and a number a line.
func field(path, name string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}

func number(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" is no number
	return n, err == nil && n >= 0
}
