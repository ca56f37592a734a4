// Package memlimit finds out how much memory weir may take when the configuration does not say: the smallest of the limits in force, less a
// margin for what is in no account (the processes themselves, page tables, the rest of the system).
//
// Limits are looked for where a kernel enforces them: in the memory cgroup of this process and every one above it, in whichever hierarchy has the memory controller
// (machines with v1 memory and an empty v2 mount exist); in the process's limits of address space and data; in the machine's memory.
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
	Source string // "cgroup v2 /sys/fs/cgroup/job/memory.max", "MemTotal", "RLIMIT_AS"
}

// String says which limit is in force.
func (l Limit) String() string {
	return fmt.Sprintf("%s of %v, less a margin of %v", l.Source, ledger.Size(l.Raw), ledger.Size(l.Raw-l.Bytes))
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
	raw    int64
	source string
}

func smallest(all []candidate) (Limit, error) {
	var best *candidate
	for i := range all {
		if c := &all[i]; c.raw > 0 && c.raw < none && (best == nil || c.raw < best.raw) {
			best = c
		}
	}
	if best == nil {
		return Limit{}, errs.New(errs.Unsupported, "find memory limit", "this system tells no limit and no memory size").WithHint("set the memory budget in the configuration")
	}
	return Of(best.raw, best.source), nil
}

func rlimits() []candidate {
	var out []candidate
	for _, r := range []struct {
		which int
		name  string
	}{{unix.RLIMIT_AS, "RLIMIT_AS"}, {unix.RLIMIT_DATA, "RLIMIT_DATA"}} {
		var l unix.Rlimit
		if unix.Getrlimit(r.which, &l) == nil && uint64(l.Cur) < none {
			out = append(out, candidate{int64(l.Cur), r.name})
		}
	}
	return out
}
