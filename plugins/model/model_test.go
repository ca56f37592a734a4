package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Work that shares a processor gets on at the speed of the moment.
func TestCrowd(t *testing.T) {
	takes := func(k int) time.Duration { return time.Duration(k) * 10 * time.Second } // as much in all, however many there are
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{clock: Scaled(1)}
		begin := time.Now()
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		start := func(name string, ctx context.Context, f func(int) time.Duration) {
			wg.Go(func() {
				err := c.do(ctx, 0, f)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprintf("%s %v %t", name, time.Since(begin).Round(time.Millisecond), err == nil))
			})
			synctest.Wait()
		}
		start("a", t.Context(), takes)
		time.Sleep(4 * time.Second) // a: 0.4
		start("b", t.Context(), takes)
		time.Sleep(6 * time.Second) // a: 0.7, b: 0.3
		ctx, cancel := context.WithCancel(t.Context())
		start("gone", ctx, takes)
		time.Sleep(3 * time.Second) // a: 0.8, b: 0.4
		cancel()
		synctest.Wait()
		start("fast", t.Context(), func(k int) time.Duration { return time.Duration(k) * time.Second }) // a third of 10: it ends 3 s later
		wg.Wait()
		synctest.Wait()
		// At 16 s a has 0.9 and b 0.5; a needs 2 s more of two, then b the rest alone.
		if want := "[gone 13s false fast 16s true a 18s true b 22s true]"; fmt.Sprint(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.list) != 0 || c.stop != nil {
			t.Errorf("left: %d", len(c.list))
		}
	})
}

// Equal work that began together ends together, however short it is beside a nanosecond of the clock.
func TestCrowdEndsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{clock: Scaled(1)}
		begin := time.Now()
		ends := make([]time.Duration, 12)
		var wg sync.WaitGroup
		for i := range ends {
			wg.Go(func() {
				if err := c.do(t.Context(), uint64(i), func(int) time.Duration { return 7 * time.Millisecond }); err != nil {
					t.Error(err)
				}
				ends[i] = time.Since(begin)
			})
			synctest.Wait()
		}
		wg.Wait()
		for _, d := range ends {
			if d < 7*time.Millisecond || d > 7*time.Millisecond+time.Microsecond {
				t.Errorf("%v", ends)
			}
		}
	})
}

// The device serves in the order of arrival, and who gives up is passed over.
func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := turnstile{free: 1}
		var order []int
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 5 {
			mine := t.Context()
			if i == 2 {
				mine = ctx
			}
			wg.Go(func() {
				if err := s.enter(mine); err != nil {
					if i != 2 || !errs.Is(err, errs.Canceled) {
						t.Errorf("%d: %v", i, err)
					}
					return
				}
				order = append(order, i)
				time.Sleep(time.Second)
				s.leave()
			})
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		if !slices.Equal(order, []int{0, 1, 3, 4}) || s.free != 1 || len(s.line) != 0 {
			t.Errorf("%v, free: %d, %d in line", order, s.free, len(s.line))
		}
	})
}

// world is a pool with a key file and both plugins.
type world struct {
	t      testing.TB
	pool   *slab.Pool
	synth  *Synthesizer
	prover *Prover
	key    contract.Input
	shape  groth16.Shape
}

func newWorld(t testing.TB, opts Options, virtual bool) *world {
	w := &world{t: t, pool: slab.NewPool(slab.PoolOptions{Virtual: virtual})}
	t.Cleanup(func() {
		if err := w.pool.Close(); err != nil {
			t.Error(err)
		}
	})
	w.synth, w.prover = NewSynthesizer(w.pool, opts), NewProver(w.pool, opts)
	path := filepath.Join(t.TempDir(), "key")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	c := &opts.Profile.Circuits[0]
	if err := WriteKey(f, c); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := w.pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	w.key = contract.Input{Role: contract.RoleKey, Name: path, Handle: h, Size: st.Size(), Partition: -1}
	w.shape = c.Shape()
	return w
}

func (w *world) get(purpose slab.Purpose, n int64) *slab.Buffer {
	b, err := w.pool.Get(purpose, n, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// partition is one that is synthesised: its buffers.
type partition struct{ witness, a, b, c *slab.Buffer }

func (p *partition) free() {
	for _, b := range []*slab.Buffer{p.witness, p.a, p.b, p.c} {
		_ = b.Free()
	}
}

func (w *world) synthesize(session string, i int) (*partition, *contract.Synthesized, error) {
	n := int64(32) << w.shape.LogDomain
	p := &partition{w.get(slab.Witness, int64(w.synth.opts.Profile.Circuits[0].Witness)), w.get(slab.Evaluations, n), w.get(slab.Evaluations, n), w.get(slab.Evaluations, n)}
	out, err := w.synth.Synthesize(w.t.Context(), &contract.SynthesizeRequest{Session: session, Partition: i, Witness: p.witness.Ref(), A: p.a.Ref(), B: p.b.Ref(), C: p.c.Ref(), LogDomain: w.shape.LogDomain})
	return p, out, err
}

func (w *world) open(partitions int) *contract.Session {
	req := &contract.OpenRequest{Kind: Kind, Inputs: []contract.Input{w.key}}
	for i := range partitions {
		req.Inputs = append(req.Inputs, contract.Input{Role: contract.RoleWitness, Partition: i})
	}
	s, err := w.synth.Open(w.t.Context(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) load() {
	plan, err := w.prover.PlanKey(w.t.Context(), &w.shape)
	if err != nil {
		w.t.Fatal(err)
	}
	loaded, err := w.prover.LoadKey(w.t.Context(), &contract.LoadKeyRequest{KeyID: "k", Key: w.key})
	if err != nil || loaded.ResidentBytes != plan.ResidentBytes || loaded.Shape != w.shape || plan.Evaluations != 3 {
		w.t.Fatalf("%+v, %+v, %v", loaded, plan, err)
	}
}

func (w *world) prove(p *partition, event func(contract.ProveEvent)) (*contract.Proof, error) {
	return w.prover.Prove(w.t.Context(), &contract.ProveRequest{KeyID: "k", Witness: p.witness.Ref(), A: p.a.Ref(), B: p.b.Ref(), C: p.c.Ref()}, event)
}

// A partition passes its stages at the times of the profile; two proofs share lanes and finish but not the device.
func TestStages(t *testing.T) {
	p := profile(t, "reference-fit")
	p.Circuits[0].Tail, p.Circuits[0].Consumed, p.Circuits[0].KeyLoad = Duration(time.Second), Duration(550*time.Millisecond), Duration(time.Minute)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Profile: p}, true)
		begin := time.Now()
		since := func() float64 { return time.Since(begin).Round(time.Millisecond).Seconds() }
		w.load()
		if since() != 60 {
			t.Errorf("loaded at %v", since())
		}
		s := w.open(2)
		if len(s.Partitions) != 2 || s.Partitions[1].WitnessBytes != 4<<30 || s.Partitions[0].NbWires != w.shape.NbWires {
			t.Errorf("%+v", s)
		}
		part, out, err := w.synthesize(s.ID, 0)
		if err != nil || out.WitnessBytes != 4<<30 || len(out.Public) != w.shape.NbPublic || since() != 89 {
			t.Fatalf("%+v, %v, at %v", out, err, since())
		}
		defer part.free()
		begin = time.Now()
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				say := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprintf("%d %s %v", i, what, since()))
				}
				proof, err := w.prove(part, func(e contract.ProveEvent) { say(e.String()) })
				say("proof")
				var x groth16.Proof
				if err != nil || x.SetBytes(proof.Bytes) != nil || len(proof.Times) != 5 {
					t.Errorf("%+v, %v", proof, err)
				}
			})
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		want := []string{"0 accepted 0", "1 accepted 0.1", "0 evaluations consumed 0.8", "1 evaluations consumed 4.35", "0 device done 4.8", "0 proof 6.5", "1 device done 8.35", "1 proof 10.05"}
		if !slices.Equal(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
		if err := w.synth.Close(t.Context(), s.ID); err != nil || len(w.synth.sessions) != 0 {
			t.Error(err)
		}
		if err := w.prover.UnloadKey(t.Context(), "k"); err != nil || len(w.prover.keys) != 0 {
			t.Error(err)
		}
	})
}

// Failures come at their rates, and as the seed says; jitter keeps within its bounds.
func TestFailuresAndJitter(t *testing.T) {
	const n = 400
	p := profile(t, "reference").Shrink(12)
	p.Circuits[0].Failures = Failures{Synthesis: 0.25, Prover: 0.25, WrongProof: 0.5}
	p.Circuits[0].Jitter = 0.1
	run := func(seed uint64) (story string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{Profile: p, Seed: seed}, true)
			w.load()
			v, err := groth16.NewVerifier(must(tiny()).vk)
			if err != nil {
				t.Fatal(err)
			}
			s := w.open(1)
			var lostSynth, lostProof, wrong, good int
			var least, most time.Duration = time.Hour, 0
			for range n {
				begin := time.Now()
				part, _, err := w.synthesize(s.ID, 0)
				took := time.Since(begin)
				least, most = min(least, took), max(most, took)
				if err != nil {
					if !errs.IsRetryable(err) {
						t.Fatal(err)
					}
					lostSynth++
					part.free()
					continue
				}
				proof, err := w.prove(part, func(contract.ProveEvent) {})
				part.free()
				if err != nil {
					if !errs.IsRetryable(err) {
						t.Fatal(err)
					}
					lostProof++
					continue
				}
				var x groth16.Proof
				if err := x.SetBytes(proof.Bytes); err != nil { // a wrong proof is of sound points
					t.Fatal(err)
				}
				if v.Verify(&x, must(tiny()).public) != nil {
					wrong++
				} else {
					good++
				}
			}
			for _, c := range []struct {
				what      string
				got, want int
			}{{"lost syntheses", lostSynth, n / 4}, {"lost proofs", lostProof, 3 * n / 16}, {"wrong proofs", wrong, 9 * n / 32}, {"good proofs", good, 9 * n / 32}} {
				if c.got < c.want*2/3 || c.got > c.want*4/3 {
					t.Errorf("%s: %d of %d, want about %d", c.what, c.got, n, c.want)
				}
			}
			if least < 26*time.Second || least > 27*time.Second || most > 32*time.Second || most < 31*time.Second {
				t.Errorf("29 s by 0.9 to 1.1: %v to %v", least, most)
			}
			story = fmt.Sprint(lostSynth, lostProof, wrong, good, least, most)
		})
		return story
	}
	if a, b, c := run(1), run(1), run(2); a != b || a == c {
		t.Errorf("seed 1: %s and %s, seed 2: %s", a, b, c)
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// Touched buffers are written whole, page by page, and a prover that is handed another partition's notices.
func TestTouch(t *testing.T) {
	p := profile(t, "reference").Shrink(14)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Profile: p, Touch: true}, false)
		w.load()
		s := w.open(2)
		var parts []*partition
		for i := range 2 {
			part, _, err := w.synthesize(s.ID, i)
			if err != nil {
				t.Fatal(err)
			}
			defer part.free()
			parts = append(parts, part)
			for _, b := range []*slab.Buffer{part.witness, part.a, part.b, part.c} {
				for at := 0; at < len(b.Bytes()); at += page {
					if b.Bytes()[at] != byte(i+1) {
						t.Fatalf("partition %d, %v: byte %d is not written", i, b.Purpose(), at)
					}
				}
			}
		}
		for _, part := range parts {
			if _, err := w.prove(part, func(contract.ProveEvent) {}); err != nil {
				t.Error(err)
			}
		}
		mixed := *parts[0]
		mixed.c = parts[1].c
		if _, err := w.prove(&mixed, func(contract.ProveEvent) {}); !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "those of partition") {
			t.Errorf("buffers of two partitions: %v", err)
		}
	})
}

// What cannot be asked of the model is refused.
func TestRefused(t *testing.T) {
	p := profile(t, "reference")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Profile: p, Touch: true}, true)
		for _, req := range []*contract.OpenRequest{
			{}, {Inputs: []contract.Input{w.key}}, {Inputs: []contract.Input{{Role: contract.RoleWitness}}},
			{Inputs: []contract.Input{w.key, {Role: contract.RoleWitness}, {Role: contract.RoleCircuit}}},
			{Inputs: []contract.Input{w.key, {Role: contract.RoleWitness}}, Options: map[string]string{OptionJob: "x"}},
			{Inputs: []contract.Input{w.key, {Role: contract.RoleWitness}}, Options: map[string]string{"check": "1"}},
		} {
			if _, err := w.synth.Open(t.Context(), req); !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%+v: %v", req, err)
			}
		}
		s := w.open(1)
		part, _, err := w.synthesize(s.ID, 0)
		if !errs.Is(err, errs.Unsupported) {
			t.Errorf("virtual buffers, touched: %v", err)
		}
		defer part.free()
		for _, r := range []contract.SynthesizeRequest{{Session: "x"}, {Session: s.ID, Partition: 1}, {Session: s.ID, Partition: -1}} {
			if _, err := w.synth.Synthesize(t.Context(), &r); !errs.Is(err, errs.NotFound) {
				t.Errorf("%+v: %v", r, err)
			}
		}
		shape := w.shape
		shape.NbWires++
		if _, err := w.prover.PlanKey(t.Context(), &shape); !errs.Is(err, errs.Unsupported) {
			t.Errorf("an unknown shape: %v", err)
		}
		if _, err := w.prove(part, nil); !errs.Is(err, errs.NotFound) {
			t.Errorf("no key: %v", err)
		}
		w.load()
		if _, err := w.prover.Prove(t.Context(), &contract.ProveRequest{KeyID: "k", InsecureTestRandomness: &groth16.Randomness{}}, nil); !errs.Is(err, errs.Unsupported) {
			t.Errorf("fixed randomness: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.prover.Prove(ctx, &contract.ProveRequest{KeyID: "k"}, func(contract.ProveEvent) {}); !errs.Is(err, errs.Deadline) || w.prover.device.free != 1 {
			t.Errorf("given up in the kernels: %v, devices free: %d", err, w.prover.device.free)
		}
		if _, err := w.synth.Synthesize(ctx, &contract.SynthesizeRequest{Session: s.ID}); !errs.Is(err, errs.Deadline) || len(w.synth.crowd.list) != 0 {
			t.Errorf("given up in synthesis: %v", err)
		}
	})
}

// The scaled clock is the system's, faster.
func TestScaled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Scaled(50)
		begin, real := c.Now(), time.Now()
		over := make(chan struct{})
		c.AfterFunc(100*time.Second, func() { close(over) })
		if stop := c.AfterFunc(time.Second, func() { t.Error("stopped, and called") }); !stop() {
			t.Error("not stopped")
		}
		<-over
		if d, e := c.Now().Sub(begin), time.Since(real); d != 100*time.Second || e != 2*time.Second {
			t.Errorf("%v in %v", d, e)
		}
	})
}

func TestParseOptions(t *testing.T) {
	o, err := ParseOptions("reference?speed=100&shrink=10&lanes=3&seed=7&touch=true")
	if err != nil || o.Profile.Machine.Lanes != 3 || o.Profile.Circuits[0].Witness != 4<<20 || o.Seed != 7 || !o.Touch || o.Clock == nil {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = ParseOptions("reference"); err != nil || o.Profile.Machine.Lanes != 2 || o.Touch {
		t.Errorf("%+v, %v", o, err)
	}
	for text, class := range map[string]errs.Class{"": errs.NotFound, "nosuch": errs.NotFound, "reference?x=1": errs.InvalidArgument, "reference?speed=0": errs.InvalidArgument, "reference?speed=NaN": errs.InvalidArgument,
		"reference?shrink=40": errs.InvalidArgument, "reference?lanes=0": errs.InvalidFile, "reference?seed=-1": errs.InvalidArgument, "reference?touch=perhaps": errs.InvalidArgument, "reference?%zz": errs.InvalidArgument} {
		if _, err := ParseOptions(text); !errs.Is(err, class) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
