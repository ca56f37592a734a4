package memlimit

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Auto is the budget of this process.
func Auto() (Limit, error) { return auto("/", rlimits()) }

// auto reads /proc and cgroup mounts below root, so that tests can bring their own.
func auto(root string, more []candidate) (Limit, error) {
	all := append(cgroups(root), more...)
	if n, ok := memTotal(root); ok {
		all = append(all, candidate{n, "MemTotal"})
	}
	return smallest(all)
}

func memTotal(root string) (int64, bool) {
	data, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err == nil && kb > 0 && kb < none>>10
		}
	}
	return 0, false
}

// mount is a cgroup file system: what it shows (top, a path inside the hierarchy) and where.
type mount struct{ top, at string }

// mounts reads mountinfo (proc(5)): the v2 hierarchy, and the v1 one of the memory controller.
func mounts(root string) (v1, v2 []mount) {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	if err != nil {
		return nil, nil
	}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		before, after, ok := strings.Cut(s.Text(), " - ")
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

// climb reads the limits of a group and of every one above it, up to the mount. A container may see a mount whose top is its own group, and a path
// that means nothing below it; then the top is all there is.
func climb(root string, m mount, group, version string, files ...string) []candidate {
	rel := group
	if m.top != "/" {
		rest, ok := strings.CutPrefix(group, m.top)
		if !ok || rest != "" && rest[0] != '/' {
			rest = "/"
		}
		rel = rest
	}
	rel = filepath.Clean("/" + rel)
	var out []candidate
	for {
		for _, file := range files {
			path := filepath.Join(m.at, rel, file)
			if n, ok := number(filepath.Join(root, path)); ok {
				out = append(out, candidate{n, version + path})
			}
		}
		if rel == "/" {
			return out
		}
		rel = filepath.Dir(rel)
	}
}

func number(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64) // "max" is no number
	return n, err == nil && n >= 0
}
