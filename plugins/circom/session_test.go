package circom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

func TestDescribe(t *testing.T) {
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		info, err := r.syn.Describe(context.Background())
		if err != nil || info.Name != "circom" || info.Version == "" || len(info.Kinds) != 1 || info.Kinds[0] != Kind {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// importKey makes a prepared key of a fixture, with or without its .r1cs.
func importKey(t *testing.T, dir string, withC bool) string {
	t.Helper()
	ctx := context.Background()
	src, err := os.Open(filepath.Join(dir, "circuit.zkey"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	path := filepath.Join(t.TempDir(), "circuit.wkey")
	dst, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	var c *r1cs.System
	if withC {
		c = readSystem(t, filepath.Join(dir, "circuit.r1cs"))
	}
	if _, err := keyfile.Import(ctx, src, c, dst, keyfile.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// A prepared key carries A and B, and C when its circuit was given: then witnesses are checked.
func TestPreparedKey(t *testing.T) {
	m := fixture("multiplier")
	for _, withC := range []bool{false, true} {
		path := importKey(t, m, withC)
		w := values(t, filepath.Join(m, "witness.wtns"))
		w[5].SetUint64(1)
		eachRig(t, Options{}, func(t *testing.T, r *rig) {
			for _, circuit := range []bool{false, true} {
				in := []contract.Input{r.file(contract.RoleKey, path, -1), r.file(contract.RoleWitness, filepath.Join(m, "witness.wtns"), 0), r.data(contract.RoleWitness, wtns(t, w), 1)}
				if circuit {
					in = append(in, r.file(contract.RoleCircuit, filepath.Join(m, "circuit.r1cs"), -1))
				}
				ses := r.mustOpen(in...)
				x := want{rows: groth16.RowsFive, evaluations: 3}
				got, err := r.synthesize(context.Background(), ses, 0, x)
				if err != nil {
					t.Fatal(err)
				}
				checkEvaluations(t, r.impl.sessions[ses.ID].circuit.system, x, got)
				_, err = r.synthesize(context.Background(), ses, 1, x)
				if withC || circuit {
					expectError(t, err, errs.Unsatisfied, "constraint 0")
				} else if err != nil {
					t.Error(err)
				}
				r.close(ses)
			}
			// For another circuit of the same sizes or not, and damaged in the matrices.
			other := fixture("publics100")
			_, err := r.open(context.Background(), nil, r.file(contract.RoleKey, path, -1), r.file(contract.RoleCircuit, filepath.Join(other, "circuit.r1cs"), -1),
				r.file(contract.RoleWitness, filepath.Join(other, "witness.wtns"), -1))
			expectError(t, err, errs.InvalidFile, "another circuit")
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h, err := wkey.ReadHeader(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatal(err)
			}
			b[h.Section(wkey.SecAWire).Offset] ^= 1
			_, err = r.open(context.Background(), nil, r.data(contract.RoleKey, b, -1), r.file(contract.RoleWitness, filepath.Join(m, "witness.wtns"), -1))
			expectError(t, err, errs.InvalidFile, "checksum")
		})
	}
}

// Inputs may be payloads in slabs.
func TestPayloads(t *testing.T) {
	m := fixture("multiplier")
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		in := []contract.Input{}
		for role, name := range map[string]string{contract.RoleCircuit: "circuit.r1cs", contract.RoleProgram: "circuit.wasm", contract.RoleInputs: "input.json"} {
			b, err := os.ReadFile(filepath.Join(m, name))
			if err != nil {
				t.Fatal(err)
			}
			buf := r.get(slab.Payload, int64(len(b)))
			defer buf.Free()
			copy(buf.Bytes(), b)
			in = append(in, contract.Input{Role: role, Name: name, Handle: buf.Ref().Handle, Size: int64(len(b)), Partition: -1})
		}
		ses := r.mustOpen(in...)
		got, err := r.synthesize(context.Background(), ses, 0, want{evaluations: 3})
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := os.ReadFile(filepath.Join(m, "witness.wtns"))
		if !bytes.Equal(raw, wtns(t, got.witness)) {
			t.Error("another witness")
		}
		r.close(ses)
	})
}

// Every point at which a context may end: the answer is Canceled, or right, and nothing stays behind.
func TestCancelAnywhere(t *testing.T) {
	sha, err := circuitgen.SHA256ForRows(1<<15, 3)
	if err != nil {
		t.Fatal(err)
	}
	circuit, witness, err := circuitgen.WriteFiles(t.TempDir(), "c", sha)
	if err != nil {
		t.Fatal(err)
	}
	eachRig(t, Options{CacheBytes: -1}, func(t *testing.T, r *rig) {
		in := []contract.Input{r.file(contract.RoleCircuit, circuit, -1), r.file(contract.RoleWitness, witness, -1)}
		kept := r.mustOpen(in...)
		inProcess := r.syn == contract.Synthesizer(r.impl)
		canceled := 0
		for i := range 12 {
			// In process the context ends at its i-th question, wherever that is asked; over gRPC after a time.
			var ctx context.Context = &countdown{Context: context.Background(), left: i}
			if inProcess {
				ses, err := r.open(ctx, nil, in...)
				if err == nil {
					r.close(ses)
				} else if !errs.Is(err, errs.Canceled) {
					t.Errorf("open, %d: %v", i, err)
				}
				ctx = &countdown{Context: context.Background(), left: i}
				r.syn = direct{r.impl}
			} else {
				c, stop := context.WithCancel(context.Background())
				ctx = c
				timer := time.AfterFunc(time.Duration(i*i)*200*time.Microsecond, stop)
				defer timer.Stop()
			}
			_, err := r.synthesize(ctx, kept, 0, want{evaluations: 3})
			if inProcess {
				r.syn = r.impl
			}
			if err == nil {
				continue
			}
			if !errs.Is(err, errs.Canceled) {
				t.Errorf("synthesize, %d: %v", i, err)
			}
			canceled++
		}
		if canceled == 0 {
			t.Error("nothing was canceled")
		}
		if _, err := r.synthesize(context.Background(), kept, 0, want{evaluations: 3}); err != nil {
			t.Error(err)
		}
		r.close(kept)
		if n := r.impl.cache.bytes(); n != 0 {
			t.Errorf("%d bytes in a cache that keeps nothing", n)
		}
	})
}

// direct asks the session without the context of its own that Synthesize would put between.
type direct struct{ *synthesizer }

func (d direct) Synthesize(ctx context.Context, req *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	return d.sessions[req.Session].synthesize(ctx, req)
}

// countdown is a context that ends when its error was asked for left times.
type countdown struct {
	context.Context
	mu   sync.Mutex
	left int
	done chan struct{}
}

func (c *countdown) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

func (c *countdown) Err() error {
	done := c.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-done:
		return context.Canceled
	default:
	}
	if c.left--; c.left < 0 {
		close(c.done)
		return context.Canceled
	}
	return nil
}

func TestCache(t *testing.T) {
	ctx := context.Background()
	c := newCache(100)
	dropped := map[string]int{}
	get := func(key string, size int64) *entry {
		t.Helper()
		e, err := c.get(ctx, key, func(context.Context) (loaded, error) {
			return loaded{value: key, size: size, drop: func() { dropped[key]++ }}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	a, b := get("a", 60), get("b", 60) // both in use: above the limit, but pinned
	if c.bytes() != 120 {
		t.Errorf("%d bytes", c.bytes())
	}
	a.release()
	if dropped["a"] != 1 || c.bytes() != 60 {
		t.Errorf("a was not evicted: %v, %d bytes", dropped, c.bytes())
	}
	b.release()
	if get("b", 60) != b || dropped["b"] != 0 {
		t.Error("b was not kept")
	}
	b.release()
	get("c", 30).release() // b, c idle: 90
	get("b", 60).release() // b used last
	get("d", 20).release() // evicts c
	if dropped["c"] != 1 || dropped["b"] != 0 || c.bytes() != 80 {
		t.Errorf("eviction order: %v, %d bytes", dropped, c.bytes())
	}
	get("huge", 1000).release()
	if c.bytes() > 100 || dropped["huge"] != 1 {
		t.Errorf("%d bytes, %v", c.bytes(), dropped)
	}
	failed := errors.New("no")
	if _, err := c.get(ctx, "x", func(context.Context) (loaded, error) { return loaded{}, failed }); err != failed {
		t.Error(err)
	}
	get("x", 1).release() // a failure is not remembered
	func() {
		defer func() { _ = recover() }()
		_, _ = c.get(ctx, "p", func(context.Context) (loaded, error) { panic("loader") })
	}()
	get("p", 1).release()
}

// Many callers, one load; one that is canceled does not take the others with it.
func TestCacheSharesLoads(t *testing.T) {
	c := newCache(1000)
	loads := 0
	begun, go1 := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	load := func(ctx context.Context) (loaded, error) {
		if loads++; loads == 1 {
			close(begun)
			<-ctx.Done()
			<-go1
			return loaded{}, errs.Wrap(ctx.Err(), "load")
		}
		return loaded{value: loads, size: 10}, nil
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.get(ctx, "k", load); !errs.Is(err, errs.Canceled) {
			t.Error(err)
		}
	})
	<-begun
	for range 10 {
		wg.Go(func() {
			e, err := c.get(context.Background(), "k", load)
			if err != nil {
				t.Error(err)
				return
			}
			if e.value != 2 {
				t.Errorf("value %v", e.value)
			}
			e.release()
		})
	}
	impatient, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	if _, err := c.get(impatient, "k", load); !errs.Is(err, errs.Deadline) {
		t.Error(err)
	}
	cancel()
	close(go1)
	wg.Wait()
	if loads != 2 {
		t.Errorf("%d loads", loads)
	}
}

// The circuit is parsed once, whoever opens it, and a file with other content under the same name is another circuit.
func TestCircuitIsCached(t *testing.T) {
	m, p := fixture("multiplier"), fixture("publics100")
	eachRig(t, Options{}, func(t *testing.T, r *rig) {
		dir := t.TempDir()
		open := func(from string) *circuit {
			t.Helper()
			b, err := os.ReadFile(filepath.Join(from, "circuit.r1cs"))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "c.r1cs")
			if err := os.WriteFile(path, b, 0o600); err != nil { // same inode, other content
				t.Fatal(err)
			}
			ses := r.mustOpen(r.file(contract.RoleCircuit, path, -1), r.file(contract.RoleWitness, filepath.Join(from, "witness.wtns"), -1))
			defer r.close(ses)
			if ses.ResidentBytes < matrixBytes(r.impl.sessions[ses.ID].circuit.system) {
				t.Errorf("%d resident bytes", ses.ResidentBytes)
			}
			return r.impl.sessions[ses.ID].circuit
		}
		a, b := open(m), open(p)
		if a == b || open(m) != a || open(p) != b {
			t.Error("circuits are not told apart by content, or not kept")
		}
	})
}

// A shared session holds the circuit, and those that are based on it leave it out of what they hold.
func TestSharedCircuit(t *testing.T) {
	dir := fixture("multiplier")
	eachRig(t, Options{CacheBytes: -1}, func(t *testing.T, r *rig) {
		ctx := context.Background()
		circuit, witness := r.file(contract.RoleCircuit, filepath.Join(dir, "circuit.r1cs"), -1), r.file(contract.RoleWitness, filepath.Join(dir, "witness.wtns"), 0)
		_, err := r.syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Shared: true, Inputs: []contract.Input{circuit, witness}})
		if !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("with a witness: %v", err)
		}
		base, err := r.syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Shared: true, Inputs: []contract.Input{circuit}})
		if err != nil {
			t.Fatal(err)
		}
		if len(base.Partitions) != 0 || base.ResidentBytes == 0 {
			t.Errorf("%d partitions, %d resident bytes", len(base.Partitions), base.ResidentBytes)
		}
		alone := r.mustOpen(circuit, witness)
		ses, err := r.syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Base: base.ID, Inputs: []contract.Input{circuit, witness}})
		if err != nil {
			t.Fatal(err)
		}
		if ses.ResidentBytes+base.ResidentBytes != alone.ResidentBytes {
			t.Errorf("%d bytes based on %d, alone %d", ses.ResidentBytes, base.ResidentBytes, alone.ResidentBytes)
		}
		if _, err := r.synthesize(ctx, ses, 0, want{evaluations: 3}); err != nil {
			t.Error(err)
		}
		for _, s := range []*contract.Session{alone, ses, base} {
			r.close(s)
		}
		if n := r.impl.cache.bytes(); n != 0 {
			t.Errorf("%d bytes stay", n)
		}
		late, err := r.syn.Open(ctx, &contract.OpenRequest{Kind: Kind, Base: base.ID, Inputs: []contract.Input{circuit, witness}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.close(late)
		if late.ResidentBytes != alone.ResidentBytes {
			t.Errorf("based on one that is closed: %d bytes, alone %d", late.ResidentBytes, alone.ResidentBytes)
		}
	})
}

// A file whose times have rested is known without reading it.
func TestIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := slab.NewPool(slab.PoolOptions{})
	defer pool.Close()
	s := New(pool, Options{}).(*synthesizer)
	src, err := s.source(addFile(t, pool, contract.RoleWitness, path, -1))
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := src.identity(context.Background())
	if err != nil || fresh != fmt.Sprintf("sha256 %s:3", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") {
		t.Error(fresh, err)
	}
	rested, err := s.source(addFile(t, pool, contract.RoleWitness, filepath.Join(fixture("multiplier"), "provenance.txt"), -1))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(rested.name); err != nil || time.Since(st.ModTime()) < time.Minute {
		t.Skip("the fixtures were written just now")
	}
	if id, err := rested.identity(context.Background()); err != nil || id[:5] != "file " {
		t.Error(id, err)
	}
	if err := os.Truncate(path, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := src.identity(context.Background()); !errs.Is(err, errs.InvalidFile) {
		t.Error(err)
	}
}
