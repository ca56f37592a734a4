// Package memlimit finds out how much memory weir may take when the configuration does not say: the smallest of the limits in force, less a
// margin for what is in no account (the processes themselves, page tables, the rest of the system).
//
// Limits are looked for where a kernel enforces them: in the memory cgroup of this process and every one above it, in whichever hierarchy has the memory controller
// (machines with v1 memory and an empty v2 mount exist), those outside of a container's view included where v1 tells them; in the process's limits of address
// space and data, of which it has used a part already; in the memory of the NUMA nodes it is bound to; in the machine's memory, without the huge pages that are set
// aside.
package memlimit

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
)

// Limit is the budget and where it comes from.
type Limit struct {
	Bytes  int64  // what weir may take
	Raw    int64  // the limit itself
	Used   int64  // of Raw, by this process before it has begun
	Source string // "cgroup v2 /sys/fs/cgroup/job/memory.max", "MemTotal", "RLIMIT_AS"
}

// String says which limit is in force.
func (l Limit) String() string {
	used := ""
	if l.Used > 0 {
		used = fmt.Sprintf("%v that the process has taken and ", ledger.Size(l.Used))
	}
	return fmt.Sprintf("%s of %v, less %sa margin of %v", l.Source, ledger.Size(l.Raw), used, ledger.Size(l.Raw-l.Used-l.Bytes))
}

// none is where a number stops being a limit: cgroup v1 writes nearly 2^63 for "no limit", setrlimit 2^64-1.
const none = 1 << 60

// margin is a sixteenth of a limit, 128 MiB to 8 GiB, and never more than half of it.
func margin(raw int64) int64 {
	m := min(max(raw/16, 128<<20), 8<<30)
	return min(m, raw/2)
}

// Of is the limit of a machine with raw bytes of memory.
func Of(raw int64, source string) Limit {
	return Limit{Bytes: raw - margin(raw), Raw: raw, Source: source}
}

// candidate is one limit that was found.
type candidate struct {
	raw, used int64
	source    string
}

func (c *candidate) limit() Limit {
	left := max(c.raw-c.used, 0)
	return Limit{Bytes: left - margin(left), Raw: c.raw, Used: c.used, Source: c.source}
}

func smallest(all []candidate) (Limit, error) {
	var best *Limit
	for i := range all {
		if c := &all[i]; c.raw > 0 && c.raw < none {
			if l := c.limit(); best == nil || l.Bytes < best.Bytes {
				best = &l
			}
		}
	}
	switch {
	case best == nil:
		return Limit{}, errs.New(errs.Unsupported, "find memory limit", "this system tells no limit and no memory size").WithHint("set the memory budget in the configuration")
	case best.Bytes == 0:
		return Limit{}, errs.New(errs.Exhausted, "find memory limit", "%s is %v, and the process has taken %v before it has begun", best.Source, ledger.Size(best.Raw), ledger.Size(best.Used)).
			WithHint("raise the limit")
	}
	return *best, nil
}

// rlimits are those of this process that bound memory: RLIMIT_AS counts every mapping, RLIMIT_DATA the private ones that can be written.
func rlimits() []candidate {
	var out []candidate
	for _, r := range []struct {
		which int
		name  string
	}{{unix.RLIMIT_AS, "RLIMIT_AS"}, {unix.RLIMIT_DATA, "RLIMIT_DATA"}} {
		var l unix.Rlimit
		if unix.Getrlimit(r.which, &l) == nil && uint64(l.Cur) < none {
			out = append(out, candidate{raw: int64(l.Cur), source: r.name})
		}
	}
	return out
}
