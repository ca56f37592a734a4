package cpu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// keyInFile makes a prepared key.
func keyInFile(t testing.TB, path string, in *instance) *groth16.Shape {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	shape, err := setup.Write(context.Background(), f, in.sys, setup.Options{Scalars: testScalars(t, "file"), Tasks: 2}, "test")
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

func TestKeyFilesProve(t *testing.T) {
	circuit := circuitgen.Dense{Rows: 300} // no wire without a row: bellman's format knows none
	in := generated(t, circuit)
	dir := t.TempDir()
	files := map[string]string{}
	for name, l := range map[string]layout{"wkey": layouts[0], "zkey": layouts[1], "params": layouts[0]} {
		files[name] = filepath.Join(dir, name)
		f, err := os.Create(files[name])
		if err != nil {
			t.Fatal(err)
		}
		pk := makeKey(t, in.sys, l, testScalars(t, "formats"))
		switch name {
		case "wkey":
			_, err = setup.Write(context.Background(), f, in.sys, setup.Options{Scalars: testScalars(t, "formats"), Tasks: 2}, "test")
		case "zkey":
			err = keyfile.Export(context.Background(), &keyfile.Key{ProvingKey: pk, Kind: keyfile.WKey, System: in.sys}, keyfile.ZKey, f, 2)
		case "params":
			err = bellman.Write(context.Background(), f, pk, 2)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r1cs, _, err := circuitgen.WriteFiles(dir, "circuit", circuit)
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range files {
		for _, release := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				b := newBench(t, Options{ReleaseKeyPages: release})
				req := &contract.LoadKeyRequest{KeyID: "k", Key: b.file(path)}
				if name == "params" {
					if _, err := b.LoadKey(context.Background(), req); !errs.Is(err, errs.InvalidArgument) || errs.HintOf(err) == "" {
						t.Error("without its circuit: ", err)
					}
					c := b.file(r1cs)
					req.Circuit = &c
				}
				k, err := b.LoadKey(context.Background(), req)
				if err != nil {
					t.Fatal(err)
				}
				plan, err := b.PlanKey(context.Background(), &k.Shape)
				if err != nil {
					t.Fatal(err)
				}
				if k.ResidentBytes <= 0 || k.ResidentBytes > plan.ResidentBytes || plan.ScratchBytes <= 0 || plan.Evaluations != 3 {
					t.Errorf("resident %d, plan %+v", k.ResidentBytes, plan)
				}
				v, err := groth16.NewVerifier(&b.keys["k"].pk.VK)
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // released pages come back
					if err := v.Verify(b.mustProve("k", in, &k.Shape, assignment.Compact, nil), in.public()); err != nil {
						t.Error(err)
					}
				}
				if err := b.UnloadKey(context.Background(), "k"); err != nil {
					t.Error(err)
				}
				if _, err := b.prove("k", in, &k.Shape, assignment.Compact, nil); !errs.Is(err, errs.NotFound) {
					t.Error("after unloading: ", err)
				}
			})
		}
	}
}

func TestKeyInUseIsNotUnloaded(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 20})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "use"))
	b.put("k", pk)
	x := b.fill(in, &pk.Shape, assignment.Dense, true)
	defer x.free(t)
	_, err := b.Prove(context.Background(), x.request("k"), func(contract.ProveEvent) {
		if err := b.UnloadKey(context.Background(), "k"); !errs.Is(err, errs.Conflict) || !errs.IsRetryable(err) {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := b.UnloadKey(context.Background(), "k"); err != nil {
		t.Error(err)
	}
	if err := b.UnloadKey(context.Background(), "k"); err != nil {
		t.Error("unknown key: ", err)
	}
}

// slow is a resolver whose files take a while: until go is closed.
type slow struct {
	slab.Resolver
	opened chan struct{}
	go_    chan struct{}
}

func (s *slow) File(h slab.Handle) (slab.FileView, error) {
	s.opened <- struct{}{}
	<-s.go_
	return s.Resolver.File(h)
}

func TestConcurrentLoadsHappenOnce(t *testing.T) {
	b := newBench(t, Options{})
	path := filepath.Join(t.TempDir(), "key")
	keyInFile(t, path, generated(t, circuitgen.Dense{Rows: 20}))
	req := &contract.LoadKeyRequest{KeyID: "k", Key: b.file(path)}
	s := &slow{b.pool, make(chan struct{}, 10), make(chan struct{})}
	b.resolver = s
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if k, err := b.LoadKey(context.Background(), req); err != nil || k.Shape.NbWires == 0 {
				t.Error(k, err)
			}
		})
	}
	<-s.opened
	if err := b.UnloadKey(context.Background(), "k"); !errs.Is(err, errs.Conflict) {
		t.Error("unloaded while it is loaded: ", err)
	}
	if _, err := b.Prove(context.Background(), &contract.ProveRequest{KeyID: "k"}, nil); !errs.Is(err, errs.NotFound) {
		t.Error("proved with a key that is being loaded: ", err)
	}
	close(s.go_)
	wg.Wait()
	if len(s.opened) != 0 {
		t.Errorf("the file was opened %d times", 1+len(s.opened))
	}
}

// When the call that loads is cancelled, one that waits for the same key takes over.
func TestWaitingLoadTakesOver(t *testing.T) { synctest.Test(t, waitingLoadTakesOver) }

func waitingLoadTakesOver(t *testing.T) {
	b := newBench(t, Options{})
	path := filepath.Join(t.TempDir(), "key")
	keyInFile(t, path, generated(t, circuitgen.Dense{Rows: 20}))
	req := &contract.LoadKeyRequest{KeyID: "k", Key: b.file(path)}
	s := &slow{b.pool, make(chan struct{}, 10), make(chan struct{})}
	b.resolver = s
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error), make(chan error)
	load := func(ctx context.Context, to chan error) {
		_, err := b.LoadKey(ctx, req)
		to <- err
	}
	go load(ctx, first)
	<-s.opened
	go load(context.Background(), second)
	synctest.Wait() // both wait: for the resolver, and for the first
	cancel()
	close(s.go_)
	if err := <-first; !errs.Is(err, errs.Canceled) {
		t.Error("the cancelled one: ", err)
	}
	if err := <-second; err != nil {
		t.Error("the other: ", err)
	}
}

// timed is a context that ends right after it has been asked n times whether it has.
type timed struct {
	context.Context
	mu     sync.Mutex
	n      int
	cancel context.CancelFunc
}

func (c *timed) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.Context.Err()
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return err
}

// Whenever a load is cancelled, its caller and the backend agree on whether the key is there.
func TestCancelledLoadLeavesNothing(t *testing.T) {
	b := newBench(t, Options{})
	path := filepath.Join(t.TempDir(), "key")
	keyInFile(t, path, generated(t, circuitgen.Dense{Rows: 20}))
	req := &contract.LoadKeyRequest{KeyID: "k", Key: b.file(path)}
	load := func(n int) *timed {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := &timed{Context: ctx, n: n, cancel: cancel}
		k, err := b.LoadKey(c, req)
		if err != nil && !errs.Is(err, errs.Canceled) {
			t.Fatal(err)
		}
		if (k != nil) != (err == nil) || len(b.keys) != map[bool]int{true: 1}[err == nil] {
			t.Errorf("cancelled after %d looks: %d keys, error %v", n, len(b.keys), err)
		}
		if err := b.UnloadKey(context.Background(), "k"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	looks := -load(-1).n - 1
	if looks < 2 {
		t.Fatalf("a load looks %d times", looks)
	}
	for n := 1; n <= looks; n++ {
		for range 10 { // what is left to chance must not be
			load(n)
		}
	}
}

func TestFailedLoadLeavesNothing(t *testing.T) {
	b := newBench(t, Options{})
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	keyInFile(t, good, generated(t, circuitgen.Dense{Rows: 20}))
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "short": raw[:100], "cut": raw[:len(raw)-4096], "flipped": flip(raw, len(raw)/2), "text": []byte("<html>404</html>"),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k", Key: b.file(path)})
		if !errs.Is(err, errs.InvalidFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(b.keys) != 0 {
		t.Error("keys are left behind")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "k", Key: b.file(good)}); !errs.Is(err, errs.Canceled) {
		t.Error(err)
	}
	if _, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k", Key: b.file(good)}); err != nil {
		t.Error("the same id afterwards: ", err)
	}
}

// A key that nobody has tested is tested as a whole: points of B out of order in one of the two groups would cost every proof.
func TestUntrustedParamsAreCompared(t *testing.T) {
	circuit := circuitgen.Dense{Rows: 40}
	in := generated(t, circuit)
	dir := t.TempDir()
	r1cs, _, err := circuitgen.WriteFiles(dir, "circuit", circuit)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := bellman.Write(context.Background(), &buf, makeKey(t, in.sys, layouts[0], testScalars(t, "pairs")), 2); err != nil {
		t.Fatal(err)
	}
	raw := buf.Bytes()
	p, err := bellman.Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	const size = 96
	first, second := raw[p.B1.Offset:][:size], raw[p.B1.Offset+size:][:size]
	tmp := bytes.Clone(first)
	copy(first, second)
	copy(second, tmp)
	path := filepath.Join(dir, "params")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Options{})
	c := b.file(r1cs)
	for trusted, want := range map[bool]bool{true: true, false: false} {
		_, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: fmt.Sprint(trusted), Key: b.file(path), Circuit: &c, Trusted: trusted})
		if (err == nil) != want || (!want && !errs.Is(err, errs.InvalidFile)) {
			t.Errorf("trusted %v: %v", trusted, err)
		}
	}
}

func flip(b []byte, at int) []byte {
	b = append([]byte(nil), b...)
	b[at] ^= 1
	return b
}

// MakeKey as a plugin does it: files come over the hand-over socket, the new key's one open for writing.
func TestMakeKey(t *testing.T) {
	dir := t.TempDir()
	circuit := circuitgen.GnarkMix(200, 3)
	r1csPath, _, err := circuitgen.WriteFiles(dir, "c", circuit)
	if err != nil {
		t.Fatal(err)
	}
	ch, m := handOver(t)
	b := New(m, Options{Version: "1"})
	in, err := os.Open(r1csPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	send(t, ch, 1, in)
	var keys []*groth16.VerifyingKey
	for i, req := range []*contract.MakeKeyRequest{
		{Seed: []byte("42")}, {Seed: []byte("42")}, {}, {}, {Seed: []byte("42"), Rows: groth16.RowsFive, H: groth16.HOddCoset},
	} {
		out, err := os.Create(filepath.Join(dir, "key"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Close() }()
		send(t, ch, slab.Handle(10+i), out)
		req.Circuit, req.Out, req.Threads = contract.Input{Name: r1csPath, Handle: 1}, slab.Handle(10+i), 2
		stages := map[string]bool{}
		k, err := b.MakeKey(context.Background(), req, func(s string, _ float64) { stages[s] = true })
		if err != nil {
			t.Fatal(err)
		}
		if !k.Shape.Insecure || len(stages) < 6 {
			t.Errorf("shape %+v, stages %v", k.Shape, stages)
		}
		vk, err := keyfile.OpenKey(context.Background(), out, keyfile.Options{Tasks: 2, CheckSubgroup: true})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, &vk.VK)
	}
	same := func(i, j int) bool { return keys[i].DeltaG1 == keys[j].DeltaG1 && keys[i].AlphaG1 == keys[j].AlphaG1 }
	if !same(0, 1) || !same(0, 4) || same(2, 3) || same(0, 2) {
		t.Error("seeds and randomness")
	}
	if _, err := b.MakeKey(context.Background(), &contract.MakeKeyRequest{Seed: []byte("1"), Scalars: &contract.ToxicScalars{}}, nil); !errs.Is(err, errs.InvalidArgument) {
		t.Error("seed and scalars: ", err)
	}
	if _, err := b.MakeKey(context.Background(), &contract.MakeKeyRequest{Out: 99}, nil); !errs.Is(err, errs.NotFound) {
		t.Error("no file: ", err)
	}
}

// handOver is the two ends of a hand-over socket.
func handOver(t *testing.T) (*slab.Channel, *slab.Mapper) {
	t.Helper()
	host, plugin, err := slab.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	m, err := slab.NewMapper(plugin, nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.Serve() }()
	ch, _, err := slab.Connect(host, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ch.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = m.Close()
	})
	return ch, m
}

func send(t *testing.T, ch *slab.Channel, h slab.Handle, f *os.File) {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Send(h, slab.KindFile, st.Size(), f); err != nil {
		t.Fatal(err)
	}
}
