package host_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	cpu "github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/plugins/circom"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// crashing is the CPU backend, which loses every nth proof at some point: before anything, or when the host has been told that the evaluations, or the device, are done with.
type crashing struct {
	contract.Prover
	every  int64
	after  int // events
	proofs atomic.Int64
	gate   <-chan struct{} // proofs wait for it
}

func (c *crashing) Prove(ctx context.Context, req *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	if c.gate != nil {
		<-c.gate
	}
	lost := &errs.Error{Class: errs.BackendGone, Op: "prove", Found: "the test says so", Retryable: true}
	if c.every == 0 || c.proofs.Add(1)%c.every != 0 {
		return c.Prover.Prove(ctx, req, event)
	}
	if c.after == 0 {
		return nil, lost
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := 0
	_, _ = c.Prover.Prove(ctx, req, func(e contract.ProveEvent) {
		if seen++; seen <= c.after {
			event(e)
		}
		if seen == c.after {
			stop()
		}
	})
	return nil, lost
}

// realConfig is an engine of real plugins in this process.
func realConfig(c *crashing) host.Config {
	return host.Config{TestRandomness: true, MaxAttempts: 20,
		Backends: []host.BackendConfig{{Name: "cpu", New: func(r slab.Resolver) (contract.Prover, error) {
			c.Prover = cpu.New(r, cpu.Options{AllowInsecureTestRandomness: true})
			return c, nil
		}}},
		Synthesizers: []host.SynthesizerConfig{{Name: "circom", New: func(r slab.Resolver) (contract.Synthesizer, error) { return circom.New(r, circom.Options{}), nil }}}}
}

// realKeys makes circuits of several sizes, with their keys.
func realKeys(t *testing.T, rows ...int) (jobs []host.Job) {
	t.Helper()
	e := engine(t, inProcess())
	for _, n := range rows {
		dir := t.TempDir()
		r1cs, wtns, err := circuitgen.WriteFiles(dir, "c", circuitgen.Dense{Rows: n, Seed: uint64(n)})
		if err != nil {
			t.Fatal(err)
		}
		key := filepath.Join(dir, "k.wkey")
		if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: r1cs, Out: key, Seed: []byte("seed")}); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, host.Job{Key: key, Circuit: r1cs, Partitions: []host.Partition{{Witness: wtns}, {Witness: wtns}}})
	}
	return jobs
}

// The same jobs with the same r and s have the same proofs, whatever the permits, the room of the queue, the threads, the budget, the moment a permit comes back, and the
// points at which a backend dies.
func TestSameProofsWhateverTheConfiguration(t *testing.T) {
	rows := []int{30, 100, 1000}
	if raceEnabled || testing.Short() {
		rows = rows[:2]
	}
	jobs := realKeys(t, rows...)
	var want [][]byte
	for n, tc := range []struct {
		permits, lookahead, threads int
		budget                      int64
		release                     string
		every                       int64
		after                       int
	}{
		{1, 1, 1, 1 << 30, host.PermitFreed, 0, 0},
		{4, 1, 2, 1 << 30, host.PermitFreed, 0, 0},
		{4, 3, 1, 1 << 30, host.PermitSent, 0, 0},
		{3, 1, 2, 1 << 30, host.PermitSynthesized, 0, 0},
		{4, 1, 2, 9 << 20, host.PermitFreed, 0, 0}, // about one at a time
		{2, 1, 2, 1 << 30, host.PermitFreed, 2, 0},
		{4, 2, 1, 1 << 30, host.PermitFreed, 3, 1},
		{3, 1, 2, 9 << 20, host.PermitFreed, 2, 2},
		{4, 1, 2, 1 << 30, host.PermitSent, 3, 3},
	} {
		cfg := realConfig(&crashing{every: tc.every, after: tc.after})
		cfg.PartitionWorkers, cfg.Lookahead, cfg.Threads, cfg.MemoryBudget, cfg.PermitRelease = tc.permits, tc.lookahead, tc.threads, tc.budget, tc.release
		e := engine(t, cfg)
		got := make([][]byte, len(jobs))
		attempts := make([]int, len(jobs))
		var all sync.WaitGroup
		for i := range jobs {
			all.Go(func() {
				job := jobs[i]
				job.InsecureTestRandomness = &groth16.Randomness{}
				job.InsecureTestRandomness.R.SetUint64(uint64(1000 + i))
				job.InsecureTestRandomness.S.SetUint64(uint64(2000 + i))
				r, err := e.Prove(context.Background(), &job)
				if err != nil {
					t.Errorf("%+v: %v", tc, err)
					return
				}
				for k := range r.Proofs {
					b := r.Proofs[k].Bytes()
					got[i] = append(got[i], b[:]...)
					attempts[i] += r.Partitions[k].Attempts
				}
			})
		}
		all.Wait()
		if n == 0 {
			want = got
		}
		sum := 0
		for i := range got {
			sum += attempts[i]
			if !bytes.Equal(got[i], want[i]) || len(got[i]) == 0 {
				t.Errorf("%+v: job %d has other proofs", tc, i)
			}
		}
		r := e.Report()
		if (sum > 2*len(jobs)) != (tc.every > 0) || r.PeakReserved > tc.budget || tc.release == host.PermitFreed && r.Peak.Provers > tc.permits {
			t.Errorf("%+v: %d attempts; %v", tc, sum, r)
		}
	}
}

// T6 with real circuits: a hundred submissions of mixed priorities, with a budget for two. All finish with proofs that verify, the budget holds, and the urgent ones
// come first.
func TestHundredRealSubmissions(t *testing.T) {
	most := 100
	if raceEnabled || testing.Short() {
		most = 24
	}
	one := realKeys(t, 200)[0]
	one.Partitions = one.Partitions[:1]
	// What is charged when one partition is granted, alone. (Later ones need less: a lane's working memory is there, and syntheses end.)
	var granted ledger.Bytes
	cfg := realConfig(&crashing{})
	cfg.Listener = &host.Listener{Ledger: func(c ledger.Change) {
		if c.Event == ledger.Granted && c.Permits == 1 {
			granted = c.Accounts[0].Reserved
		}
	}}
	alone := engine(t, cfg)
	for range 2 { // the first time key and session are not there, and taken for larger than they are
		if _, err := alone.Prove(context.Background(), &one); err != nil {
			t.Fatal(err)
		}
	}
	if err := alone.Close(context.Background()); err != nil { // and the listener has been told of all
		t.Fatal(err)
	}
	budget := 2*granted.Total() - granted[ledger.Key]

	gate := make(chan struct{})
	var open sync.Once
	var mu sync.Mutex
	var order []string
	cfg = realConfig(&crashing{gate: gate})
	cfg.PartitionWorkers, cfg.MemoryBudget = 8, budget
	cfg.Listener = &host.Listener{
		Ledger: func(c ledger.Change) {
			if c.Waiting >= most-10 {
				open.Do(func() { close(gate) })
			}
			if c.Accounts[0].Total > budget {
				t.Errorf("%d bytes of %d: %s", c.Accounts[0].Total, budget, c.String())
			}
		},
		Timeline: func(i host.TimelineInfo) {
			if i.Stage == "consume" && i.Start {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i.Job)
			}
		},
	}
	e := engine(t, cfg)
	priorities := []host.Priority{host.Normal, host.Low, host.High, host.Critical}
	var all sync.WaitGroup
	for i := range most {
		all.Go(func() {
			job := one
			job.ID, job.Priority = fmt.Sprintf("%v %d", priorities[i%4], i), priorities[i%4]
			r, err := e.Prove(context.Background(), &job)
			if err != nil {
				t.Errorf("job %d: %v", i, err)
				return
			}
			checkResult(t, verifierOf(t, job.Key), r)
		})
	}
	all.Wait()
	r := e.Report()
	if r.PeakReserved > budget || r.Peak.Provers > cfg.PartitionWorkers || r.Now != (host.Gauges{}) || r.PermitsUsed != 0 || len(order) != most {
		t.Errorf("%d proofs; %+v", len(order), r)
	}
	place, count := map[host.Priority]float64{}, map[host.Priority]float64{}
	for k, id := range order {
		for _, p := range priorities {
			if bytes.HasPrefix([]byte(id), []byte(p.String()+" ")) {
				place[p] += float64(k)
				count[p]++
			}
		}
	}
	mean := func(p host.Priority) float64 { return place[p] / count[p] }
	t.Logf("alone: %v", granted.String())
	t.Logf("budget %v, %d sets of evaluations at once; mean places: critical %.0f, high %.0f, normal %.0f, low %.0f", ledger.Size(budget), r.Peak.Provers, mean(host.Critical), mean(host.High), mean(host.Normal), mean(host.Low))
	if !(mean(host.Critical) < mean(host.High) && mean(host.High) < mean(host.Normal) && mean(host.Normal) < mean(host.Low)) {
		t.Error("the urgent ones do not come first")
	}
}
