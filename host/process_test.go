package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-zk/weir/backend-cpu"
	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/plugins/circom"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// The test program is its own plugins, as weir is.
func TestMain(m *testing.M) {
	if served, err := host.PluginMain(os.Args); served {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const fixtures = "../testdata/circom/"

func engine(t testing.TB, cfg host.Config) *host.Engine {
	t.Helper()
	if raceEnabled && len(cfg.Backends) == 0 {
		t.Skip("plugin processes: builds with the race detector share no memory between processes")
	}
	if cfg.MemoryBudget == 0 {
		cfg.MemoryBudget = 1 << 30
	}
	e, err := host.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
		defer stop()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}

// inProcess is the same engine without processes.
func inProcess() host.Config {
	return host.Config{
		Backends: []host.BackendConfig{{Name: "cpu", New: func(r slab.Resolver) (contract.Prover, error) { return cpu.New(r, cpu.Options{}), nil }}},
		Synthesizers: []host.SynthesizerConfig{{Name: "circom", New: func(r slab.Resolver) (contract.Synthesizer, error) {
			return circom.New(r, circom.Options{}), nil
		}}},
	}
}

func verifierOf(t testing.TB, path string) *groth16.Verifier {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	vk, err := keyfile.OpenVerifyingKey(context.Background(), f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	v, err := groth16.NewVerifier(vk)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func checkResult(t testing.TB, v *groth16.Verifier, r *host.Result) {
	t.Helper()
	for i := range r.Proofs {
		if err := v.Verify(&r.Proofs[i], r.Public[i]); err != nil {
			t.Errorf("partition %d: %v", i, err)
		}
	}
}

// Real circuits, real keys, real plugins: every small fixture, from a witness file and from the witness program.
func TestFixtures(t *testing.T) {
	for _, mode := range []string{"processes", "in process"} {
		t.Run(mode, func(t *testing.T) {
			cfg := host.Config{}
			if mode == "in process" {
				cfg = inProcess()
			}
			e := engine(t, cfg)
			all, err := filepath.Glob(fixtures + "*/circuit.zkey")
			if err != nil || len(all) == 0 {
				t.Fatalf("no fixtures: %v", err)
			}
			for _, key := range all {
				dir := filepath.Dir(key)
				t.Run(filepath.Base(dir), func(t *testing.T) {
					job := &host.Job{Key: key, Circuit: exists(dir + "/circuit.r1cs"), Symbols: exists(dir + "/circuit.sym"), Check: checkIf(exists(dir+"/circuit.r1cs") != "")}
					if w := exists(dir + "/witness.wtns"); w != "" {
						job.Partitions = append(job.Partitions, host.Partition{Witness: w})
					}
					if p := exists(dir + "/circuit.wasm"); p != "" {
						job.Partitions = append(job.Partitions, host.Partition{Program: p, Inputs: dir + "/input.json"})
					}
					if len(job.Partitions) == 0 {
						t.Skip("no witness in this fixture")
					}
					r, err := e.Prove(context.Background(), job)
					if err != nil {
						t.Fatalf("%v (hint: %s)", err, errs.HintOf(err))
					}
					checkResult(t, verifierOf(t, dir+"/vkey.json"), r)
				})
			}
		})
	}
}

func checkIf(on bool) host.Check {
	if on {
		return host.CheckOn
	}
	return host.CheckAuto
}

func exists(path string) string {
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// A key made by Setup proves, and the same seed gives the same key.
func TestSetupAndProve(t *testing.T) {
	for _, mode := range []string{"processes", "in process"} {
		t.Run(mode, func(t *testing.T) {
			cfg := host.Config{}
			if mode == "in process" {
				cfg = inProcess()
			}
			e := engine(t, cfg)
			dir := t.TempDir()
			r1cs, wtns := generated(t, dir, 1000)
			var keys [][]byte
			for i := range 2 {
				key := filepath.Join(dir, fmt.Sprintf("k%d.wkey", i))
				steps := 0
				r, err := e.Setup(context.Background(), &host.SetupJob{Circuit: r1cs, Out: key, Seed: []byte("seed"), Progress: func(string, float64) { steps++ }})
				if err != nil {
					t.Fatal(err)
				}
				if !r.Shape.Insecure || r.Bytes == 0 || steps == 0 {
					t.Errorf("%+v, %d steps", r, steps)
				}
				b, err := os.ReadFile(key)
				if err != nil || int64(len(b)) != r.Bytes {
					t.Fatalf("%d bytes of %d: %v", len(b), r.Bytes, err)
				}
				keys = append(keys, b)
			}
			if string(keys[0]) != string(keys[1]) {
				t.Error("one seed, two keys")
			}
			key := filepath.Join(dir, "k0.wkey")
			r, err := e.Prove(context.Background(), &host.Job{Key: key, Partitions: []host.Partition{{Witness: wtns}, {Witness: wtns}, {Witness: wtns}}})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Insecure {
				t.Error("the result does not say that the key is insecure")
			}
			checkResult(t, verifierOf(t, key), r)
			if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: filepath.Join(dir, "none"), Out: filepath.Join(dir, "x.wkey")}); !errs.Is(err, errs.NotFound) {
				t.Errorf("a missing circuit: %v", err)
			}
			if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: wtns, Out: filepath.Join(dir, "x.wkey")}); !errs.Is(err, errs.InvalidFile) {
				t.Errorf("a witness as circuit: %v", err)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*x.wkey*"))
			hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
			if len(left)+len(hidden) > 0 {
				t.Errorf("left behind: %v %v", left, hidden)
			}
		})
	}
}

// generated writes a circuit of about rows constraints and its witness.
func generated(t testing.TB, dir string, rows int) (r1cs, wtns string) {
	t.Helper()
	r1cs, wtns, err := circuitgen.WriteFiles(dir, "c", circuitgen.Dense{Rows: rows, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r1cs, wtns
}

// children are the plugin processes of this one, by the plugin they serve.
func children(t testing.TB, name string) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, dir := range all {
		stat, err1 := os.ReadFile(dir + "/stat")
		cmd, err2 := os.ReadFile(dir + "/cmdline")
		pid, err3 := strconv.Atoi(filepath.Base(dir))
		if err1 != nil || err2 != nil || err3 != nil {
			continue
		}
		after := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(after) > 1 && after[0] != "Z" && after[1] == strconv.Itoa(os.Getpid()) && strings.Contains(string(cmd), "plugin\x00serve\x00"+name) {
			out = append(out, pid)
		}
	}
	return out
}

// T12. A plugin that is killed in the middle costs the work in its lanes: the job still ends with verified proofs, and the next one passes.
func TestKilledPlugin(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("finds the plugin in /proc")
	}
	for _, victim := range []struct {
		plugin string
		at     host.BufferEvent
	}{{"cpu", host.ProveStart}, {"circom", host.SynthStart}} {
		t.Run(victim.plugin, func(t *testing.T) {
			dir := t.TempDir()
			r1cs, wtns := generated(t, dir, 1<<12)
			key := filepath.Join(dir, "k.wkey")
			var once sync.Once
			armed, killed := make(chan struct{}), make(chan int, 1)
			var mu sync.Mutex
			health := map[string][]string{}
			note := func(name, state string) {
				mu.Lock()
				defer mu.Unlock()
				health[name] = append(health[name], state)
			}
			e := engine(t, host.Config{Listener: &host.Listener{Backend: func(i host.BackendInfo) {
				note("backend "+i.Backend, i.State)
				if i.Device == "" {
					t.Errorf("no device: %+v", i)
				}
			}, Synthesizer: func(i host.SynthesizerInfo) { note("synthesizer "+i.Synthesizer, i.State) }, Buffers: func(i host.BuffersInfo) {
				select {
				case <-armed:
				default:
					return
				}
				if i.Event == victim.at {
					once.Do(func() {
						go func() {
							pids := children(t, victim.plugin)
							for _, pid := range pids {
								_ = syscall.Kill(pid, syscall.SIGKILL)
							}
							killed <- len(pids)
						}()
					})
				}
			}}})
			if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: r1cs, Out: key}); err != nil {
				t.Fatal(err)
			}
			job := func() *host.Job {
				return &host.Job{Key: key, Circuit: r1cs, Partitions: []host.Partition{{Witness: wtns}, {Witness: wtns}}}
			}
			close(armed)
			r, err := e.Prove(context.Background(), job())
			if err != nil {
				t.Fatalf("%v", err)
			}
			checkResult(t, verifierOf(t, key), r)
			if n := <-killed; n != 1 {
				t.Fatalf("%d plugins were killed", n)
			}
			if r.Partitions[0].Attempts+r.Partitions[1].Attempts < 3 {
				t.Log("the plugin had answered before it was killed")
			}
			if r, err = e.Prove(context.Background(), job()); err != nil {
				t.Fatalf("the next job: %v", err)
			}
			checkResult(t, verifierOf(t, key), r)
			mu.Lock()
			for _, name := range []string{"backend cpu", "synthesizer circom"} {
				want := []string{"up"}
				if strings.HasSuffix(name, victim.plugin) {
					want = []string{"up", "down", "up"}
				}
				if !slices.Equal(health[name], want) {
					t.Errorf("%s was reported %v, want %v", name, health[name], want)
				}
			}
			if len(health) != 2 {
				t.Errorf("health of others: %v", health)
			}
			mu.Unlock()
			if p := e.Report(); p.Now != (host.Gauges{}) || p.PermitsUsed != 0 {
				t.Errorf("left: %+v", p)
			}
		})
	}
}

// Proofs of a file that was cut while the plugin had it mapped: an error that names the file, and the next job passes.
func TestKeyCutWhileMapped(t *testing.T) {
	dir := t.TempDir()
	r1cs, wtns := generated(t, dir, 5000)
	key, good := filepath.Join(dir, "k.wkey"), filepath.Join(dir, "good.wkey")
	e := engine(t, host.Config{})
	for _, out := range []string{key, good} {
		if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: r1cs, Out: out}); err != nil {
			t.Fatal(err)
		}
	}
	job := &host.Job{Key: key, Circuit: r1cs, Partitions: []host.Partition{{Witness: wtns}}}
	if _, err := e.Prove(context.Background(), job); err != nil {
		t.Fatal(err)
	}
	// The key is loaded and mapped; the file's identity is kept but for its size: the next job would open it anew, so the cut happens in its midst.
	var once sync.Once
	e2 := engine(t, host.Config{Listener: &host.Listener{Buffers: func(i host.BuffersInfo) {
		if i.Event == host.SynthDone {
			once.Do(func() {
				if err := os.Truncate(key, 8192); err != nil {
					t.Error(err)
				}
			})
		}
	}}})
	_, err := e2.Prove(context.Background(), job)
	if !errs.Is(err, errs.InvalidFile) || !strings.Contains(fmt.Sprint(err), key) {
		t.Errorf("%v", err)
	}
	job.Key = good
	if _, err := e2.Prove(context.Background(), job); err != nil {
		t.Errorf("the next job: %v", err)
	}
}

// A witness that does not satisfy the circuit is refused before anything is proved, with the constraint; unchecked, the backend notices.
func TestUnsatisfiedWitness(t *testing.T) {
	e := engine(t, inProcess())
	dir := t.TempDir()
	c := circuitgen.Unsatisfied(circuitgen.Dense{Rows: 50, Seed: 1})
	r1cs, wtns, err := circuitgen.WriteFiles(dir, "c", c)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "k.wkey")
	if _, err := e.Setup(context.Background(), &host.SetupJob{Circuit: r1cs, Out: key}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		job  host.Job
		word string
	}{
		{host.Job{Circuit: r1cs, Check: host.CheckOn}, "constraint"},
		{host.Job{}, "constraint"},                                    // the key has C rows
		{host.Job{Circuit: r1cs, Check: host.CheckOff}, "satisfying"}, // the backend's quotient has a remainder
	} {
		tc.job.Key, tc.job.Partitions = key, []host.Partition{{Witness: wtns}}
		r, err := e.Prove(context.Background(), &tc.job)
		if r != nil || !errs.Is(err, errs.Unsatisfied) || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: %v (%v)", tc.word, err, errs.ClassOf(err))
		}
	}
}

// The debug log has the line that operators look for.
func TestBuffersLine(t *testing.T) {
	var out strings.Builder
	l := host.LogListener(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Debug, DisableTime: true}))
	l.Buffers(host.BuffersInfo{Event: host.ABCFreed, Gauges: host.Gauges{Synth: 3, Provers: 10, Aux: 12, Shells: 2, Pending: 1, Est: 141 << 30}, Budget: 256 << 30})
	if want := "[DEBUG] BUFFERS[abc_freed]: synth=3 provers=10 aux=12 shells=2 pending=1 est=141GiB budget=256GiB\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHostOverhead is the time that the engine adds to a partition of a tiny circuit, the plugins running: admission, hand-over, calls, check of the
// proof; what the plugins say they needed is subtracted.
func BenchmarkHostOverhead(b *testing.B) {
	e := engine(b, host.Config{})
	job := &host.Job{Key: fixtures + "multiplier/circuit.zkey", Circuit: fixtures + "multiplier/circuit.r1cs"}
	for range 8 {
		job.Partitions = append(job.Partitions, host.Partition{Witness: fixtures + "multiplier/witness.wtns"})
	}
	var plugins time.Duration
	prove := func() {
		r, err := e.Prove(context.Background(), job)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range r.Partitions {
			for _, s := range p.Steps {
				plugins += s.Elapsed
			}
		}
	}
	prove()
	plugins = 0
	began := cpuTime()
	b.ResetTimer()
	for range b.N {
		prove()
	}
	n := float64(b.N * len(job.Partitions))
	cpu := cpuTime() - began
	b.ReportMetric(cpu.Seconds()*1e3/n, "host-cpu-ms/partition") // does not depend on what else the machine does
	b.ReportMetric((b.Elapsed()-plugins).Seconds()*1e3/n, "host-ms/partition")
	b.ReportMetric(plugins.Seconds()*1e3/n, "prover-ms/partition")
}
