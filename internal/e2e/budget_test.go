package e2e

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gauges is one BUFFERS line.
type gauges struct {
	event                                string
	synth, provers, aux, shells, pending int
	est, budget                          int64 // as printed: rounded
}

var bufferLine = regexp.MustCompile(`BUFFERS\[(\w+)\]: synth=(\d+) provers=(\d+) aux=(\d+) shells=(\d+) pending=(\d+) est=(\S+) budget=(\S+)$`)

// buffers reads the BUFFERS lines of a log; every line with that word must be one.
func buffers(t *testing.T, p *process) []gauges {
	t.Helper()
	var out []gauges
	for _, line := range strings.Split(p.log(), "\n") {
		if !strings.Contains(line, "BUFFERS") {
			continue
		}
		m := bufferLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a BUFFERS line: %q", line)
		}
		n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
		out = append(out, gauges{m[1], n(2), n(3), n(4), n(5), n(6), size(t, m[7]), size(t, m[8])})
	}
	return out
}

// size reads "141GiB".
func size(t *testing.T, s string) int64 {
	t.Helper()
	digits := strings.TrimRight(s, "KMGTiB")
	v, err := strconv.ParseFloat(digits, 64)
	shift, ok := map[string]int{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[s[len(digits):]]
	if err != nil || !ok {
		t.Fatalf("not a size: %q", s)
	}
	return int64(v * float64(int64(1)<<shift))
}

// wantZero wants that the last of the BUFFERS lines, if there are any, shows that nothing is alive.
func wantZero(t *testing.T, p *process) {
	t.Helper()
	all := buffers(t, p)
	if len(all) == 0 {
		return
	}
	last := all[len(all)-1]
	last.budget = 0
	if last != (gauges{event: "dealloc_done"}) {
		t.Errorf("the last line is not zero: %+v", last)
	}
}

// A job of several partitions, at several widths and at the least budget: what the BUFFERS lines show never exceeds permits and budget, and all comes back.
func TestPartitionsWithinBudget(t *testing.T) {
	const partitions = 6
	w := newWorld(t)
	c := w.dense(12)
	args := func(workers int, more ...string) []string {
		a := c.prove(append(more, "--json", "--partition-workers", strconv.Itoa(workers))...)
		for range partitions - 1 {
			a = append(a, "--witness", c.wtns)
		}
		return a
	}

	// Too little is refused at once, with the numbers. What the circuit is made of is only known when it has been read, so there may be a second refusal.
	need, refusals := int64(64<<10), 0
	for {
		p := w.start(args(1, "--memory-budget", fmt.Sprintf("%dB", need))...)
		<-p.done
		if p.code == 0 {
			break
		}
		p.want(4)
		m := regexp.MustCompile(fmt.Sprintf(`the budget of \S+, %d bytes .*found a need of \S+, (\d+) bytes: `, need)).FindStringSubmatch(p.stdout.String())
		if m == nil {
			t.Fatalf("no numbers in %s", p.stdout.String())
		}
		more, _ := strconv.ParseInt(m[1], 10, 64)
		if refusals++; more <= need || refusals > 2 {
			t.Fatalf("%d bytes are too little, and the advice was %d", need, more)
		}
		need = more
		if n := len(buffers(t, p)); n > 0 {
			t.Errorf("%d changes of buffers before the refusal", n)
		}
		if l := w.files(); len(l) > 0 {
			t.Errorf("files of a refused job: %v", l)
		}
	}
	if refusals == 0 {
		t.Error("64KiB were enough")
	}
	if p := w.run(4, args(1, "--memory-budget", fmt.Sprintf("%dB", need-1))...); len(buffers(t, p)) > 0 {
		t.Error("one byte too little, and buffers were taken")
	}

	for _, tc := range []struct {
		workers  int
		budget   int64
		together int // sets of evaluations that are seen alive at once
	}{
		{1, need, 1}, {1, 64 * need, 1}, {2, need, 1}, {2, 64 * need, 2}, {3, 64 * need, 3},
	} {
		t.Run(fmt.Sprintf("%d workers, %d bytes", tc.workers, tc.budget), func(t *testing.T) {
			w := *w
			w.t = t
			p := w.run(0, args(tc.workers, "--memory-budget", fmt.Sprintf("%dB", tc.budget))...)
			a := p.answer()
			if len(a.Proofs) != partitions || a.Memory.Peak > tc.budget || a.Memory.Budget != tc.budget {
				t.Errorf("%d proofs, %d bytes reserved of a budget of %d", len(a.Proofs), a.Memory.Peak, a.Memory.Budget)
			}
			all := buffers(t, p)
			most, count := 0, map[string]int{}
			for _, g := range all {
				most = max(most, g.provers)
				count[g.event]++
				if g.provers > tc.workers || g.synth > g.provers || g.shells > g.aux || g.provers+g.shells > g.aux || g.aux > partitions {
					t.Errorf("%+v with %d workers", g, tc.workers)
				}
				if g.est > tc.budget+tc.budget/16 { // printed with two digits
					t.Errorf("est %d over the budget of %d", g.est, tc.budget)
				}
			}
			if most != tc.together {
				t.Errorf("at most %d sets of evaluations, want %d", most, tc.together)
			}
			for _, e := range []string{"synth_start", "synth_done", "queued", "prove_start", "abc_freed", "device_done", "finalize_done", "dealloc_done"} {
				if count[e] != partitions {
					t.Errorf("%d times %s, want %d", count[e], e, partitions)
				}
			}
			wantZero(t, p)
			pipeline(t, p, most)
			w.run(0, "verify", "--quiet", "--vkey", c.key, "--proof", "proof.json", "--public", "public.json")
		})
	}
}

// pipeline runs the line that operators use on the log.
func pipeline(t *testing.T, p *process, most int) {
	t.Helper()
	for _, tool := range []string{"sh", "grep", "awk", "sort", "tail"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("the operators' pipeline was not tried: %v", err)
			return
		}
	}
	cmd := exec.Command("sh", "-c", `grep BUFFERS | awk -F'provers=' '{print $2}' | awk '{print $1}' | sort -n | tail -3`)
	cmd.Stdin = strings.NewReader(p.log() + "\n")
	out, err := cmd.CombinedOutput()
	if want := strings.Repeat(fmt.Sprintf("%d\n", most), 3); err != nil || string(out) != want {
		t.Errorf("the operators' pipeline printed %q (%v), want %q", out, err, want)
	}
}
