package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/internal/circuitgen"
)

// What lies in memory of the processes' own. The key's tables are there too, its points in mapped files.
var inHeaps = []string{"scratch", "session", "circuit", "synthesis"}

// few is what is not charged to anybody, of three processes: stacks, the runtime's own tables, message buffers, garbage that was not worth collecting (procmem.Slack each).
const few = 10 << 20

// Memory of whole processes, as the system sees it (Pss: shared pages count once), is what the account says (DESIGN: measuring memory).
func TestAccountAgreesWithSystem(t *testing.T) {
	log := 16
	if s := os.Getenv("WEIR_E2E_LOG2"); s != "" {
		var err error
		if log, err = strconv.Atoi(s); err != nil || log < 14 || log > 22 {
			t.Fatalf("WEIR_E2E_LOG2=%q, want 14 to 22", s)
		}
	}
	w := newWorld(t)
	measure := func(c *circuit) (*usage, *answer) {
		p := w.start("prove", "--json", "--key", c.key, "--witness", c.wtns, "--proof", "proof.json")
		u := w.watch(p)
		p.want(0)
		return u(), p.answer()
	}
	// The base is the least of some runs: a sum over processes is too high when pages of the binary find their next user between two reads.
	tiny := w.circuit("tiny", circuitgen.Tiny{Rows: 3, Public: 1})
	base, _ := measure(tiny)
	for range 4 {
		again, _ := measure(tiny)
		if again.total < base.total {
			base.total, base.parts = again.total, again.parts
		}
		for k, v := range again.most {
			base.most[k] = min(base.most[k], v)
		}
	}
	peak, a := measure(w.dense(log))
	charged := func(purposes ...string) (sum int64) {
		for _, p := range purposes {
			sum += a.Memory.Purpose[p]
		}
		return sum
	}
	got, account := peak.total-base.total, a.Memory.Peak
	tables := int64(16)<<log + 1<<20 // twiddle factors, maps of wires
	t.Logf("dense 2^%d: %d MiB less a base of %d MiB is %.1f MiB, %.2f of the account's %.1f MiB", log, peak.total>>20, base.total>>20,
		float64(got)/(1<<20), float64(got)/float64(account), float64(account)/(1<<20))
	t.Logf("most shared memory: %d bytes, charged for it: %d", peak.most["Shmem"], charged("evaluations", "witness"))
	t.Logf("at the peak: %v; base: %v; account by purpose: %v", peak, base, a.Memory.Purpose)
	for _, c := range []struct {
		what                  string
		got, least, allowance int64 // measured; what is charged must be there, and not much more
	}{
		// Shared memory is exact: 2 % is the figure of the invariants.
		{"shared memory", peak.most["Shmem"], charged("evaluations", "witness") * 98 / 100, charged("evaluations", "witness") * 102 / 100},
		// Mapped files are the key, a section at a time; the kernel maps some pages around those that are touched.
		{"mapped files", peak.most["File"] - base.most["File"], charged("key") / 2, charged("key")*11/10 + 4<<20},
		{"heaps", peak.most["Anon"] - base.most["Anon"], charged("scratch") / 2, charged(inHeaps...) + tables + few},
		{"all", got, account * 3 / 4, account*105/100 + few},
	} {
		if c.got > c.allowance {
			t.Errorf("%s: the processes take %d bytes, the account allows %d", c.what, c.got, c.allowance)
		}
		if c.got < c.least { // charged and not used, or not seen
			t.Errorf("%s: the processes take %d bytes, and at least %d are charged", c.what, c.got, c.least)
		}
	}
}

// usage is the memory of a world's processes at the moment of the most.
type usage struct {
	total int64
	most  map[string]int64            // bytes: of each kind of memory, over all processes, whenever that was
	parts map[string]map[string]int64 // MiB: process, kind of memory
}

func (u *usage) String() string { return fmt.Sprint(u.parts) }

// watch samples the memory of all processes until p ends; the function it returns gives the moment of the most.
func (w *world) watch(p *process) func() *usage {
	most, kinds := &usage{}, map[string]int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			now, sum := &usage{parts: map[string]map[string]int64{}}, map[string]int64{}
			for _, pid := range w.processes() {
				pss := rollup(pid)
				now.total += pss["Pss"]
				name := "weir"
				for _, plugin := range []string{"cpu", "circom"} {
					if cmd, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasSuffix(string(cmd), "\x00serve\x00"+plugin+"\x00") {
						name = plugin
					}
				}
				delete(pss, "Pss")
				now.parts[name] = map[string]int64{}
				for k, v := range pss {
					now.parts[name][k] = v >> 20
					sum[k] += v
				}
			}
			sum["Shmem"] = slabs(p.cmd.Process.Pid) // the parts' sum is off when a page finds its second user between two reads
			for k, v := range sum {
				kinds[k] = max(kinds[k], v)
			}
			if now.total > most.total {
				most = now
			}
			select {
			case <-p.done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() *usage {
		<-ended
		most.most = kinds
		return most
	}
}

// slabs are the bytes that the shared memory of a host has pages for, whoever touched them.
func slabs(host int) (sum int64) {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", host))
	for _, fd := range fds {
		var st unix.Stat_t
		if name, err := os.Readlink(fd); err == nil && strings.HasPrefix(name, "/memfd:") && unix.Stat(fd, &st) == nil {
			sum += st.Blocks * 512
		}
	}
	return sum
}

// rollup reads the proportional set size of a process in bytes: all of it, and its parts.
func rollup(pid int) map[string]int64 {
	out := map[string]int64{}
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && strings.HasPrefix(f[0], "Pss") && f[0] != "Pss_Dirty:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			out[strings.TrimPrefix(strings.TrimSuffix(f[0], ":"), "Pss_")] = kib << 10
		}
	}
	return out
}
