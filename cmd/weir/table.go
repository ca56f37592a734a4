package main

import (
	"fmt"
	"io"
	"runtime"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
)

// stage is a part of a partition's time.
type stage struct {
	key, name string
	d         time.Duration
}

// stagesOf lists a partition's stages in their order; docs/cli.md explains them. The keys are those of --json.
func stagesOf(p *host.PartitionReport, open time.Duration) []stage {
	return []stage{{"open", "open files", open}, {"admission", "wait for memory", p.Admission}, {"key_load", "load key", p.KeyLoad}, {"synthesis", "synthesis", p.Synthesis},
		{"queue", "wait for prover", p.Queue}, {"consume", "prove: transforms, H sum", p.Consume}, {"device", "prove: witness sums", p.OnDevice},
		{"finish", "prove: put together", p.Finish}, {"verify", "verify", p.Verify}}
}

// openTime is what a job took beside its partitions, which begin together: files are opened, the circuit is read, its witness program compiled.
func openTime(r *host.Result) time.Duration {
	var longest time.Duration
	for i := range r.Partitions {
		longest = max(longest, r.Partitions[i].Total)
	}
	return max(0, r.Elapsed-longest)
}

// columns is the most partitions that have a column of their own.
const columns = 4

// proveTable tells a person what a job took.
func proveTable(w io.Writer, r *host.Result) {
	n := len(r.Proofs)
	p := &r.Partitions[0]
	fmt.Fprintf(w, "%s made in %s, verified against the key and the public inputs\n", count(n, "proof"), short(r.Elapsed))
	fmt.Fprintf(w, "circuit   %s, %s, %s\n", count(p.NbConstraints, "constraint"), count(p.NbWires, "wire"), count(p.NbPublic, "public input"))
	fmt.Fprintf(w, "backend   %s (%s)\n", oneLine(p.Backend), oneLine(p.Device))
	for i := range r.Partitions {
		if a := r.Partitions[i].Attempts; a > 1 {
			fmt.Fprintf(w, "partition %d was proved again: %d attempts\n", i, a)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "stage\t")
	switch {
	case n == 1:
		fmt.Fprint(tw, "time\t\n")
	case n <= columns:
		for i := range n {
			fmt.Fprintf(tw, "%d\t", i)
		}
		fmt.Fprintln(tw)
	default:
		fmt.Fprint(tw, "mean\tmost\t\n")
	}
	row := func(name string, of func(*host.PartitionReport) time.Duration) {
		fmt.Fprintf(tw, "%s\t", name)
		var sum, most time.Duration
		for i := range r.Partitions {
			d := of(&r.Partitions[i])
			if n <= columns {
				fmt.Fprintf(tw, "%s\t", short(d))
			}
			sum, most = sum+d, max(most, d)
		}
		if n > columns {
			fmt.Fprintf(tw, "%s\t%s\t", short(sum/time.Duration(n)), short(most))
		}
		fmt.Fprintln(tw)
	}
	open := openTime(r)
	for i, st := range stagesOf(p, open) {
		row(st.name, func(p *host.PartitionReport) time.Duration { return stagesOf(p, open)[i].d })
	}
	row("total", func(p *host.PartitionReport) time.Duration { return open + p.Total })
	_ = tw.Flush()
	memoryTable(w, &r.Peak)
}

// memoryTable tells the peaks of the account and what the system saw.
func memoryTable(w io.Writer, r *host.Report) {
	fmt.Fprintf(w, "memory    peak of the account %v of a budget of %v (%s)\n", ledger.Size(r.PeakReserved), ledger.Budget(r.Budget), oneLine(r.BudgetFrom))
	fmt.Fprintf(w, "          by purpose: %s\n", r.PeakPurposes.String())
	if self, child := peakResident(); self > 0 {
		fmt.Fprintf(w, "          peak resident: weir %v, largest plugin %v\n", ledger.Size(self), ledger.Size(child))
	}
	fmt.Fprintln(w, r.String())
}

func memoryJSON(r *host.Report) map[string]any {
	purposes := map[string]int64{}
	for p, n := range r.PeakPurposes {
		if n != 0 {
			purposes[ledger.Purpose(p).String()] = n
		}
	}
	self, child := peakResident()
	return map[string]any{"budget": r.Budget, "budget_from": r.BudgetFrom, "peak_reserved": r.PeakReserved, "peak_by_purpose": purposes,
		"buffers_peak": map[string]int64{"synth": int64(r.Peak.Synth), "provers": int64(r.Peak.Provers), "aux": int64(r.Peak.Aux), "shells": int64(r.Peak.Shells), "pending": int64(r.Peak.Pending), "est": r.Peak.Est},
		"permits":      r.Permits, "peak_permits": r.PeakPermits, "peak_resident": self, "peak_resident_plugin": child}
}

// peakResident is the most memory this process, and the largest of those it has waited for, had resident. Pages that both map count in each.
func peakResident() (self, child int64) {
	unit := int64(1024)
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		self = r.Maxrss * unit
	}
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r) == nil {
		child = r.Maxrss * unit
	}
	return self, child
}

// short is a time with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return fmt.Sprintf("%dus", d.Microseconds()) // Go writes a Greek letter, which not every terminal has
}

// count is "1 proof", "2 proofs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
