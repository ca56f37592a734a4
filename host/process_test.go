package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
					job := &host.Job{Key: key, Circuit: exists(dir + "/circuit.r1cs"), Symbols: exists(dir + "/circuit.sym"), CheckWitness: exists(dir+"/circuit.r1cs") != ""}
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

var _ = strings.Contains
var _ sync.Mutex
var _ = syscall.SIGKILL
var _ = hclog.Debug
