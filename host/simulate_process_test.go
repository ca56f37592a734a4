package host_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/plugins/model"
)

// The model as two plugin processes, in real memory and in real time (made faster, and smaller), does what the simulation says: the engine in between is the
// same, but here are processes, calls and descriptors, and a clock that nobody stops.
func TestModelProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s of real time")
	}
	const speed, shrink, proofs, workers = 20, 10, 3, 12
	spec := fmt.Sprintf("reference?speed=%d&shrink=%d&touch=true", speed, shrink)
	opts, err := model.ParseOptions(spec)
	if err != nil {
		t.Fatal(err)
	}
	want, err := host.Simulate(t.Context(), host.Simulation{Profile: opts.Profile, Proofs: proofs, Concurrency: proofs, Config: host.Config{PartitionWorkers: workers}})
	if err != nil {
		t.Fatal(err)
	}
	if raceEnabled {
		t.Skip("plugin processes: builds with the race detector share no memory between processes")
	}
	dir := t.TempDir()
	write := func(name string, f func(*os.File) error) string {
		t.Helper()
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := f(file); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		return file.Name()
	}
	c := &opts.Profile.Circuits[0]
	job := host.Job{Kind: model.Kind, Key: write("key", func(f *os.File) error { return model.WriteKey(f, c) })}
	witness := write("witness", func(*os.File) error { return nil })
	for range c.Partitions {
		job.Partitions = append(job.Partitions, host.Partition{Witness: witness})
	}
	backend, synthesizer := host.ModelPlugins(spec)
	e, err := host.NewSimulated(t.Context(), host.Config{PartitionWorkers: workers, MemoryBudget: want.Budget, Backends: []host.BackendConfig{backend}, Synthesizers: []host.SynthesizerConfig{synthesizer}}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	warm := job // processes start, buffers get their pages
	warm.Partitions = job.Partitions[:1]
	if _, err := e.Prove(t.Context(), &warm); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range proofs {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			j := job
			r, err := e.Prove(t.Context(), &j)
			if err != nil {
				t.Error(err)
				return
			}
			for _, p := range r.Partitions {
				if p.Backend != "model" || p.Attempts != 1 {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	wg.Wait()
	got := time.Since(begin).Seconds() * speed / proofs
	p := e.Report()
	t.Logf("%.2f s/proof, simulated %.2f, %+.1f %%; sets %d, simulated %d", got, want.SPerProof.Mean, 100*(got/want.SPerProof.Mean-1), p.Peak.Provers, want.ProversPeak)
	if math.Abs(got/want.SPerProof.Mean-1) > 0.10 {
		t.Errorf("%.2f s/proof, simulated %.2f", got, want.SPerProof.Mean)
	}
	if p.Peak.Provers != want.ProversPeak || math.Abs(float64(p.Peak.Est)/float64(want.BuffersPeak)-1) > 0.10 || p.Now != (host.Gauges{}) {
		t.Errorf("%+v, simulated: %+v", p, want)
	}
}
