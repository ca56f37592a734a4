package cpu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	instructions "github.com/consensys/gnark-crypto/utils/cpu"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/slab"
)

// fixture is a circom circuit with a key and a witness made by snarkjs.
func fixture(t testing.TB, dir string) *instance {
	t.Helper()
	in := &instance{}
	circuit := "circuit.r1cs"
	if _, err := os.Stat(filepath.Join(dir, circuit)); err != nil {
		circuit = "circuit.zkey" // it has the rows of A and B
	}
	for name, read := range map[string]func(f *os.File, size int64) error{
		circuit: func(f *os.File, size int64) (err error) {
			in.sys, err = keyfile.OpenCircuit(context.Background(), f, size, 2)
			return err
		},
		"witness.wtns": func(f *os.File, size int64) error {
			w, err := iden3.OpenWitness(f, size)
			if err != nil {
				return err
			}
			for x, err := range w.Values(context.Background()) {
				if err != nil {
					return err
				}
				in.witness = append(in.witness, x)
			}
			return nil
		},
	} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err == nil {
			err = read(f, st.Size())
		}
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// Keys made by snarkjs prove, read as they are; proofs verify under snarkjs' own verification key.
func TestSnarkjsKeysProve(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/circom/*/circuit.zkey")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("found %v, %v", dirs, err)
	}
	root := os.Getenv("WEIR_SHARED")
	if root == "" {
		root = "../../shared"
	}
	if big, _ := filepath.Glob(filepath.Join(root, "fixtures/circom/*/circuit.zkey")); len(big) > 0 && !testing.Short() && !raceEnabled {
		for _, p := range big {
			if _, err := os.Stat(filepath.Join("../testdata/circom", filepath.Base(filepath.Dir(p)))); err != nil {
				dirs = append(dirs, p)
			}
		}
	} else {
		t.Log("the big fixtures are left out: not here, or a short or race run")
	}
	for _, zkey := range dirs {
		dir := filepath.Dir(zkey)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			b := newBench(t, Options{})
			in := fixture(t, dir)
			k, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k", Key: b.file(zkey), Trusted: true})
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(filepath.Join(dir, "vkey.json"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			vk, err := snarkjs.ReadVerifyingKey(f)
			if err != nil {
				t.Fatal(err)
			}
			v, err := groth16.NewVerifier(vk)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Verify(b.mustProve("k", in, &k.Shape, assignment.Compact, nil), in.public()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Cancelled at any of its looks at the context a proof ends with that class, and nothing is left: no goroutine, no lane, no reference to the key.
func TestCancelAtEveryLook(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.GnarkMix(1000, 1))
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "cancel"))
	b.put("k", pk)
	v, err := groth16.NewVerifier(&pk.VK)
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	x := b.fill(in, &pk.Shape, assignment.Compact, true)
	defer func() { x.free(t) }()
	step, done := 1, false
	for at := 1; !done; at += step {
		ctx := &countdown{Context: context.Background(), left: at}
		_, err := b.Prove(ctx, x.request("k"), func(contract.ProveEvent) {})
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); { // one that was waited for may still be on its last instructions
			if runtime.NumGoroutine() <= before {
				break
			}
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Fatalf("look %d: %d goroutines, %d before", at, n, before)
		}
		if len(b.lane) != 0 || b.keys["k"].users != 0 {
			t.Fatalf("look %d: lane or key still taken", at)
		}
		if done = err == nil; !done && !errs.Is(err, errs.Canceled) {
			t.Fatalf("look %d: %v", at, err)
		}
		// a and the others are spoiled by a proof that got far enough, and must be right again
		x.free(t)
		x = b.fill(in, &pk.Shape, assignment.Compact, true)
		if at > 30 { // looks of the sums: there are many
			step = 37
		}
	}
	if err := v.Verify(b.mustProve("k", in, &pk.Shape, assignment.Dense, nil), in.public()); err != nil {
		t.Error("after all that: ", err)
	}
}

// countdown is a context that ends when it was asked for its error a number of times.
type countdown struct {
	context.Context
	mu   sync.Mutex
	left int
}

func (c *countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A proof that waits for the lane can be cancelled.
func TestCancelWhileWaiting(t *testing.T) {
	in := generated(t, circuitgen.Dense{Rows: 10})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "wait"))
	b := newBench(t, Options{})
	b.put("k", pk)
	x := b.fill(in, &pk.Shape, assignment.Dense, true)
	defer x.free(t)
	synctest.Test(t, func(t *testing.T) {
		lane := make(chan struct{}, 1)
		lane <- struct{}{} // somebody else's proof
		c := &Backend{resolver: b.resolver, lane: lane, keys: b.keys}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := c.Prove(ctx, x.request("k"), func(e contract.ProveEvent) { t.Error("event ", e) })
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Error("did not wait: ", err)
		default:
		}
		cancel()
		if err := <-ended; !errs.Is(err, errs.Canceled) {
			t.Error(err)
		}
	})
}

func TestBadRequests(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 10})
	pk := makeKey(t, in.sys, layouts[0], testScalars(t, "bad"))
	b.put("k", pk)
	for _, c := range []struct {
		name   string
		change func(x *buffers, req *contract.ProveRequest)
		class  errs.Class
	}{
		{"unknown key", func(_ *buffers, r *contract.ProveRequest) { r.KeyID = "other" }, errs.NotFound},
		{"no a", func(_ *buffers, r *contract.ProveRequest) { r.A = slab.Ref{} }, errs.InvalidArgument},
		{"b too short", func(_ *buffers, r *contract.ProveRequest) { r.B.Length -= 32 }, errs.InvalidArgument},
		{"c too long", func(_ *buffers, r *contract.ProveRequest) { r.C.Length += 32 }, errs.InvalidArgument},
		{"a is b", func(_ *buffers, r *contract.ProveRequest) { r.B = r.A }, errs.InvalidArgument},
		{"unaligned c", func(_ *buffers, r *contract.ProveRequest) { r.C.Offset++; r.C.Length = r.A.Length }, errs.InvalidArgument},
		{"unknown slab", func(_ *buffers, r *contract.ProveRequest) { r.C.Handle = 1 << 60 }, errs.NotFound},
		{"outside the slab", func(_ *buffers, r *contract.ProveRequest) { r.A.Offset = 1 << 40 }, errs.InvalidArgument},
		{"empty witness", func(_ *buffers, r *contract.ProveRequest) { r.Witness.Length = 0 }, errs.InvalidArgument},
		{"witness without magic", func(x *buffers, _ *contract.ProveRequest) { x.w.Bytes()[0]++ }, errs.InvalidArgument},
		{"witness of another circuit", func(x *buffers, _ *contract.ProveRequest) {
			w, _ := assignment.NewBuilder(x.w.Bytes(), assignment.Dense, 3)
			one := seeded(1)()
			one.SetOne()
			for range 3 {
				_ = w.Append(&one)
			}
			_, _ = w.Finish()
		}, errs.InvalidArgument},
		{"first variable is not one", func(x *buffers, _ *contract.ProveRequest) { x.w.Bytes()[64]++ }, errs.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := b.fill(in, &pk.Shape, assignment.Dense, true)
			defer x.free(t)
			req := x.request("k")
			c.change(x, req)
			_, err := b.Prove(context.Background(), req, func(e contract.ProveEvent) { t.Error("event ", e) })
			if !errs.Is(err, c.class) {
				t.Error(err)
			}
			if len(b.lane) != 0 || b.keys["k"].users != 0 {
				t.Error("lane or key still taken")
			}
		})
	}
}

// Buffers full of values that are no field elements give an error or a proof that does not verify, never a panic.
func TestGarbageInBuffers(t *testing.T) {
	b := newBench(t, Options{})
	in := generated(t, circuitgen.Dense{Rows: 100})
	for _, l := range layouts[:2] {
		pk := makeKey(t, in.sys, l, testScalars(t, "garbage"))
		b.put("k", pk)
		v, err := groth16.NewVerifier(&pk.VK)
		if err != nil {
			t.Fatal(err)
		}
		x := b.fill(in, &pk.Shape, assignment.Dense, true)
		for _, buf := range [][]byte{x.a.Bytes(), x.b.Bytes(), x.c.Bytes(), x.w.Bytes()[64+32:]} {
			for i := range buf {
				buf[i] = 0xff
			}
		}
		out, err := b.Prove(context.Background(), x.request("k"), func(contract.ProveEvent) {})
		if err == nil {
			var p groth16.Proof
			if err := p.SetBytes(out.Bytes); err == nil && v.Verify(&p, in.public()) == nil {
				t.Error("garbage was proved")
			}
		}
		x.free(t)
	}
}

// T1: the process does not grow. 50 proofs over two circuits, some cancelled, some refused.
func TestMemoryStaysFlat(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector keeps memory of its own")
	}
	if status("VmRSS") == 0 {
		t.Skip("no /proc/self/status here")
	}
	b := newBench(t, Options{ReleaseKeyPages: true})
	dir := t.TempDir()
	ins := []*instance{generated(t, circuitgen.GnarkMix(2000, 1)), generated(t, circuitgen.Dense{Rows: 500})}
	shapes := make([]*groth16.Shape, len(ins))
	for i, in := range ins {
		path := filepath.Join(dir, fmt.Sprint(i))
		shapes[i] = keyInFile(t, path, in)
		if _, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: fmt.Sprint(i), Key: b.file(path)}); err != nil {
			t.Fatal(err)
		}
	}
	var early uint64
	var earlyRSS float64
	for i := range 50 {
		in, id := ins[i%2], fmt.Sprint(i%2)
		x := b.fill(in, shapes[i%2], assignment.Compact, true)
		req := x.request(id)
		ctx, cancel := context.WithCancel(context.Background())
		stop := contract.ProveEvent(0)
		switch i % 5 {
		case 3:
			stop = contract.EvaluationsConsumed
		case 4:
			req.A.Length -= 32
		}
		_, err := b.Prove(ctx, req, func(e contract.ProveEvent) {
			if e == stop {
				cancel()
			}
		})
		cancel()
		if (err == nil) != (i%5 < 3) {
			t.Fatalf("proof %d: %v", i, err)
		}
		x.free(t)
		if i == 5 || i == 49 {
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			rss := status("VmRSS")
			if i == 5 {
				early, earlyRSS = m.HeapAlloc, rss
				continue
			}
			t.Logf("heap %d KiB after proof 5, %d after 50; resident %.1f and %.1f MiB", early>>10, m.HeapAlloc>>10, earlyRSS, rss)
			if m.HeapAlloc > early+early/100+64<<10 {
				t.Errorf("the heap grew from %d to %d bytes", early, m.HeapAlloc)
			}
			if rss > earlyRSS*1.01+4 { // the runtime itself moves by some MiB
				t.Errorf("resident memory grew from %.1f to %.1f MiB", earlyRSS, rss)
			}
		}
	}
}

// T19: without the processor's ADX and BMI2 instructions the fields fall back to others. The test runs itself again that way.
func TestWithoutADX(t *testing.T) {
	const again = "WEIR_TEST_WITHOUT_ADX"
	if os.Getenv(again) != "" {
		if instructions.SupportADX || affine.Wide() {
			t.Fatal("GODEBUG did not turn the instructions off")
		}
		b := newBench(t, Options{AllowInsecureTestRandomness: true})
		in := random(30, 2, 5)
		s := testScalars(t, "adx")
		pk := makeKey(t, in.sys, layouts[0], s)
		b.put("k", pk)
		rnd := &groth16.Randomness{R: seeded(1)(), S: seeded(2)()}
		if got, want := b.mustProve("k", in, &pk.Shape, assignment.Compact, rnd).Bytes(), exponent(in, groth16.RowsSeven, pk.LogDomain, s, rnd).Bytes(); got != want {
			t.Error("proof differs from the textbook's")
		}
		return
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("amd64 only")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutADX$", "-test.v")
	cmd.Env = append(os.Environ(), again+"=1", "GODEBUG=cpu.adx=off,cpu.bmi2=off,cpu.avx512ifma=off")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestWithoutADX") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// T16: proofs of different keys at the same time, while another key comes and goes. Each is the textbook's proof for its own r and s, so nothing of one got
// into another.
func TestConcurrentProofs(t *testing.T) {
	b := newBench(t, Options{AllowInsecureTestRandomness: true})
	ins := []*instance{generated(t, circuitgen.Dense{Rows: 100}), generated(t, circuitgen.GnarkMix(200, 1)), random(40, 3, 1)}
	keys := make([]*groth16.ProvingKey, len(ins))
	scalars := make([]*setup.Scalars, len(ins))
	for i, in := range ins {
		scalars[i] = testScalars(t, fmt.Sprint(i))
		keys[i] = makeKey(t, in.sys, layouts[0], scalars[i])
		b.put(fmt.Sprint(i), keys[i])
	}
	path := filepath.Join(t.TempDir(), "key")
	keyInFile(t, path, generated(t, circuitgen.Dense{Rows: 20}))
	stop := make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		for done := false; !done; {
			if _, err := b.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "other", Key: b.file(path)}); err != nil {
				t.Error(err)
			}
			if err := b.UnloadKey(context.Background(), "other"); err != nil {
				t.Error(err)
			}
			select {
			case <-stop:
				done = true
			default:
			}
		}
	})
	var wg sync.WaitGroup
	for g := range 12 {
		wg.Go(func() {
			i := g % len(ins)
			rnd := &groth16.Randomness{R: seeded(uint64(g))(), S: seeded(uint64(100 + g))()}
			p, err := b.prove(fmt.Sprint(i), ins[i], &keys[i].Shape, []assignment.Form{assignment.Compact, assignment.Dense}[g%2], rnd)
			if err != nil {
				t.Error(err)
				return
			}
			if p.Bytes() != exponent(ins[i], groth16.RowsSeven, keys[i].LogDomain, scalars[i], rnd).Bytes() {
				t.Errorf("proof %d differs from the textbook's", g)
			}
		})
	}
	wg.Wait()
	close(stop)
	other.Wait()
}
