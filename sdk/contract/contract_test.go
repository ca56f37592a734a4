package contract

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weir-zk/weir/sdk/contract/pb"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// dial serves register over memory and returns a connection to it.
func dial(t *testing.T, register func(*grpc.Server)) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	srv := grpc.NewServer()
	register(srv)
	go srv.Serve(lis)
	conn, err := grpc.NewClient("passthrough:mem", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); srv.Stop() })
	return conn
}

// fakeProver answers as its functions say.
type fakeProver struct {
	prove func(ctx context.Context, req *ProveRequest, event func(ProveEvent)) (*Proof, error)
	load  func(ctx context.Context, req *LoadKeyRequest) (*LoadedKey, error)

	unload   func(ctx context.Context, id string) error
	plan     *KeyPlan
	describe func()
}

func (f *fakeProver) Describe(context.Context) (*ProverInfo, error) {
	if f.describe != nil {
		f.describe()
	}
	return &ProverInfo{Identity: Identity{"fake", "1"}, Device: "none", DeviceID: "id", Lanes: 2, DeviceMemory: 7, Abilities: []string{AbilityCompact}}, nil
}
func (f *fakeProver) PlanKey(_ context.Context, s *groth16.Shape) (*KeyPlan, error) {
	if f.plan != nil {
		return f.plan, nil
	}
	return &KeyPlan{ResidentBytes: int64(s.NbH), ScratchBytes: 2, DeviceBytes: 3, Evaluations: 3}, nil
}
func (f *fakeProver) LoadKey(ctx context.Context, req *LoadKeyRequest) (*LoadedKey, error) {
	return f.load(ctx, req)
}
func (f *fakeProver) UnloadKey(ctx context.Context, id string) error {
	if f.unload == nil {
		return nil
	}
	return f.unload(ctx, id)
}
func (f *fakeProver) Prove(ctx context.Context, req *ProveRequest, event func(ProveEvent)) (*Proof, error) {
	return f.prove(ctx, req, event)
}

func shape() groth16.Shape {
	return groth16.Shape{LogDomain: 3, NbWires: 9, NbPublic: 2, NbConstraints: 5, NbA: 9, NbB: 4, NbH: 7, Rows: groth16.RowsSeven, H: groth16.HMonomial, Insecure: true, HasMatrices: true, HasC: true, Prepared: true}
}

func TestProverRoundTrip(t *testing.T) {
	var r groth16.Randomness
	r.R.SetUint64(5)
	r.S.SetUint64(6)
	var got *ProveRequest
	var gotLoad *LoadKeyRequest
	f := &fakeProver{
		prove: func(_ context.Context, req *ProveRequest, event func(ProveEvent)) (*Proof, error) {
			got = req
			event(Accepted)
			event(EvaluationsConsumed)
			event(DeviceDone)
			return &Proof{Bytes: []byte{1, 2}, Times: []StageTime{{"ntt", time.Millisecond}}}, nil
		},
		load: func(_ context.Context, req *LoadKeyRequest) (*LoadedKey, error) {
			gotLoad = req
			return &LoadedKey{Shape: shape(), ResidentBytes: 11, Elapsed: time.Second}, nil
		},
	}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	ctx := t.Context()
	info, err := p.Describe(ctx)
	if err != nil || info.Lanes != 2 || info.Name != "fake" || !info.Has(AbilityCompact) || info.Has(AbilityMakesKeys) || info.DeviceMemory != 7 {
		t.Fatalf("describe: %+v, %v", info, err)
	}
	sh := shape()
	plan, err := p.PlanKey(ctx, &sh)
	if err != nil || *plan != (KeyPlan{7, 2, 3, 3}) {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	in := Input{Role: RoleCircuit, Name: "c.r1cs", Handle: 4, Size: 9, Partition: -1}
	want := &LoadKeyRequest{CallID: "x", KeyID: "k", Key: Input{Role: RoleKey, Name: "k.zkey", Handle: 3, Size: 8, Partition: -1}, Circuit: &in, Threads: 2, Trusted: true}
	key, err := p.LoadKey(ctx, want)
	if err != nil || key.Shape != shape() || key.ResidentBytes != 11 || key.Elapsed != time.Second {
		t.Fatalf("load: %+v, %v", key, err)
	}
	if gotLoad.Key != want.Key || *gotLoad.Circuit != in || gotLoad.KeyID != "k" || !gotLoad.Trusted || gotLoad.Threads != 2 {
		t.Fatalf("load arrived as %+v", gotLoad)
	}
	var events []ProveEvent
	req := &ProveRequest{KeyID: "k", Witness: slab.Ref{Handle: 1, Offset: 64, Length: 128}, A: slab.Ref{Handle: 2, Length: 256}, Threads: 3, InsecureTestRandomness: &r}
	proof, err := p.Prove(ctx, req, func(e ProveEvent) { events = append(events, e) })
	if err != nil || string(proof.Bytes) != "\x01\x02" || len(proof.Times) != 1 || proof.Times[0] != (StageTime{"ntt", time.Millisecond}) {
		t.Fatalf("prove: %+v, %v", proof, err)
	}
	if len(events) != 3 || events[0] != Accepted || events[1] != EvaluationsConsumed || events[2] != DeviceDone {
		t.Fatalf("events %v", events)
	}
	if got.Witness != req.Witness || got.A != req.A || got.B.Length != 0 || got.CallID == "" || *got.InsecureTestRandomness != r {
		t.Fatalf("prove arrived as %+v", got)
	}
	if _, err := p.MakeKey(ctx, &MakeKeyRequest{}, nil); !errs.Is(err, errs.Unsupported) {
		t.Fatalf("make key on a backend without the ability: %v", err)
	}
}

// A plugin that breaks the order of events must never make the host free a buffer, or take a proof, on its word.
func TestProveEventsOutOfOrder(t *testing.T) {
	const a, c, d = Accepted, EvaluationsConsumed, DeviceDone
	for name, seq := range map[string][]ProveEvent{
		"no event": {}, "proof early": {a, c}, "consumed first": {c, a, d}, "accepted twice": {a, a, c, d}, "done before consumed": {a, d, c}, "garbage": {a, 9, c, d}, "after done": {a, c, d, c},
	} {
		t.Run(name, func(t *testing.T) {
			var touching atomic.Bool
			f := &fakeProver{prove: func(ctx context.Context, _ *ProveRequest, event func(ProveEvent)) (*Proof, error) {
				touching.Store(true)
				defer touching.Store(false)
				for _, e := range seq {
					event(e)
				}
				if !strings.HasPrefix(name, "no event") && !strings.HasPrefix(name, "proof early") {
					<-ctx.Done() // works on until it is canceled, and then a while
					time.Sleep(20 * time.Millisecond)
				}
				return &Proof{Bytes: make([]byte, 192)}, nil
			}}
			p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
			proof, err := p.Prove(t.Context(), &ProveRequest{}, func(ProveEvent) {})
			if proof != nil || !errs.Is(err, errs.Internal) || !errs.IsRetryable(err) {
				t.Fatalf("got %v, %v; want a retryable internal error", proof, err)
			}
			if touching.Load() {
				t.Fatal("Prove returned while the handler still worked")
			}
		})
	}
}

// rawProver speaks pb directly, to send what RegisterProver never would.
type rawProver struct {
	pb.UnimplementedProverServer
	events []*pb.ProveEvent
}

func (r *rawProver) Prove(_ *pb.ProveRequest, st grpc.ServerStreamingServer[pb.ProveEvent]) error {
	for _, e := range r.events {
		st.Send(e)
	}
	return nil
}

func TestProveStreamEndsEarlyOrLate(t *testing.T) {
	ev := func(k ...pb.ProveEvent_Kind) (out []*pb.ProveEvent) {
		for _, k := range k {
			out = append(out, &pb.ProveEvent{Kind: k})
		}
		return out
	}
	for name, events := range map[string][]*pb.ProveEvent{
		"ends before the proof": ev(1, 2, 3), "two proofs": ev(1, 2, 3, 4, 4), "event after proof": ev(1, 2, 3, 4, 3), "unspecified": ev(0, 1, 2, 3, 4),
	} {
		t.Run(name, func(t *testing.T) {
			p := NewProverClient(dial(t, func(g *grpc.Server) { pb.RegisterProverServer(g, &rawProver{events: events}) }), ClientOptions{})
			if proof, err := p.Prove(t.Context(), &ProveRequest{}, func(ProveEvent) {}); proof != nil || !errs.IsRetryable(err) {
				t.Fatalf("got %v, %v", proof, err)
			}
		})
	}
}

// Prove must not return before the backend has let go of the buffers, however early its caller gave up.
func TestCancelWaitsForTheBackend(t *testing.T) {
	var touching atomic.Bool
	started, slow := make(chan struct{}), make(chan struct{})
	f := &fakeProver{prove: func(ctx context.Context, _ *ProveRequest, event func(ProveEvent)) (*Proof, error) {
		touching.Store(true)
		event(Accepted)
		close(started)
		<-ctx.Done()
		<-slow // a kernel that cannot be stopped
		touching.Store(false)
		return nil, ctx.Err()
	}}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Prove(ctx, &ProveRequest{}, func(ProveEvent) {})
		if touching.Load() {
			t.Error("Prove returned while the backend still worked")
		}
		done <- err
	}()
	<-started
	cancel()
	select {
	case err := <-done:
		t.Fatalf("returned before the backend let go: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(slow)
	if err := <-done; !errs.Is(err, errs.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
}

// A backend that ignores Cancel is killed, and the call returns only when it is gone.
func TestCancelIgnoredKills(t *testing.T) {
	started, forever := make(chan struct{}), make(chan struct{})
	f := &fakeProver{prove: func(_ context.Context, _ *ProveRequest, event func(ProveEvent)) (*Proof, error) {
		close(started)
		<-forever
		return nil, errors.New("late")
	}}
	gone := make(chan struct{})
	var killed atomic.Bool
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{Gone: gone, CancelTimeout: 30 * time.Millisecond,
		Kill: func() { killed.Store(true); close(gone); close(forever) }})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := p.Prove(ctx, &ProveRequest{}, func(ProveEvent) {}); !errs.Is(err, errs.Canceled) || !killed.Load() {
		t.Fatalf("got %v, killed %v", err, killed.Load())
	}
}

// Streams of one connection have no order: a Cancel that overtakes its call must still win.
func TestCancelBeforeCall(t *testing.T) {
	ran := false
	f := &fakeProver{load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) {
		ran = true
		return &LoadedKey{Shape: shape()}, nil
	}}
	conn := dial(t, func(g *grpc.Server) { RegisterProver(g, f) })
	r, err := pb.NewProverClient(conn).CancelCall(t.Context(), &pb.Cancel{CallId: "early"})
	if err != nil || r.GetWasRunning() {
		t.Fatalf("cancel: %v, %v", r, err)
	}
	if _, err := NewProverClient(conn, ClientOptions{}).LoadKey(t.Context(), &LoadKeyRequest{CallID: "early"}); !errs.Is(err, errs.Canceled) || ran {
		t.Fatalf("got %v, ran %v", err, ran)
	}
}

func TestSameCallIDTwice(t *testing.T) {
	hold, started := make(chan struct{}), make(chan struct{})
	f := &fakeProver{load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) {
		close(started)
		<-hold
		return &LoadedKey{Shape: shape()}, nil
	}}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	first := make(chan error, 1)
	go func() { _, err := p.LoadKey(t.Context(), &LoadKeyRequest{CallID: "one"}); first <- err }()
	<-started
	if _, err := p.LoadKey(t.Context(), &LoadKeyRequest{CallID: "one"}); !errs.Is(err, errs.Conflict) {
		t.Fatalf("second call with the id: %v", err)
	}
	close(hold)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
}

func TestPanicBecomesAnError(t *testing.T) {
	f := &fakeProver{load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) { panic("index out of range") }}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	if _, err := p.LoadKey(t.Context(), &LoadKeyRequest{}); !errs.Is(err, errs.Internal) || !strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("got %v", err)
	}
	if _, err := p.Describe(t.Context()); err != nil {
		t.Fatalf("the plugin does not live on: %v", err)
	}
}

// An error of a plugin arrives with its class, texts and hint.
func TestErrorsCross(t *testing.T) {
	sent := &errs.Error{Class: errs.InvalidFile, Op: "read zkey", Path: "/k.zkey", Where: "section 4", Expected: "3", Found: "4", Hint: "get it again", Retryable: true}
	f := &fakeProver{load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) { return nil, errs.Wrap(sent, "load key") }}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	_, err := p.LoadKey(t.Context(), &LoadKeyRequest{})
	if !errs.Is(err, errs.InvalidFile) || errs.HintOf(err) != "get it again" || !errs.IsRetryable(err) || err.Error() != errs.Wrap(sent, "load key").Error() {
		t.Fatalf("got %q, class %v, hint %q", err, errs.ClassOf(err), errs.HintOf(err))
	}
}

// Sizes a plugin reports are used in arithmetic: nonsense is refused at the border.
func TestNonsenseSizesRefused(t *testing.T) {
	bad := shape()
	bad.NbH = 99
	f := &fakeProver{load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) { return &LoadedKey{Shape: bad}, nil }}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	if _, err := p.LoadKey(t.Context(), &LoadKeyRequest{}); !errs.IsRetryable(err) {
		t.Fatalf("got %v", err)
	}
}

// fakeSynthesizer answers as its functions say.
type fakeSynthesizer struct {
	open   func(ctx context.Context) (*Session, error)
	closed chan string
}

func (f *fakeSynthesizer) Describe(context.Context) (*SynthesizerInfo, error) {
	return &SynthesizerInfo{Identity: Identity{"fake", "1"}, Kinds: []string{"circom"}}, nil
}
func (f *fakeSynthesizer) Open(ctx context.Context, _ *OpenRequest) (*Session, error) {
	return f.open(ctx)
}
func (f *fakeSynthesizer) Synthesize(context.Context, *SynthesizeRequest) (*Synthesized, error) {
	return &Synthesized{WitnessBytes: 1 << 40}, nil
}
func (f *fakeSynthesizer) Close(_ context.Context, id string) error {
	f.closed <- id
	return nil
}

// A session or key that a canceled call opened all the same must be given back: nobody else knows of it.
func TestLateSuccessIsUndone(t *testing.T) {
	part := Partition{NbWires: 2, NbPublic: 1, WitnessBytes: 64}
	started := make(chan struct{})
	f := &fakeSynthesizer{closed: make(chan string, 1), open: func(ctx context.Context) (*Session, error) {
		close(started)
		<-ctx.Done()
		return &Session{ID: "late", Partitions: []Partition{part}}, nil // does not look at ctx any more
	}}
	c := NewSynthesizerClient(dial(t, func(g *grpc.Server) { RegisterSynthesizer(g, f) }), ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := c.Open(ctx, &OpenRequest{}); !errs.Is(err, errs.Canceled) {
		t.Fatalf("open: %v", err)
	}
	if id := <-f.closed; id != "late" {
		t.Fatalf("closed %q", id)
	}
	part.NbPublic = 5
	f.open = func(context.Context) (*Session, error) {
		return &Session{ID: "nonsense", Partitions: []Partition{part}}, nil
	}
	if _, err := c.Open(t.Context(), &OpenRequest{}); !errs.IsRetryable(err) {
		t.Fatalf("open with nonsense: %v", err)
	}
	if id := <-f.closed; id != "nonsense" {
		t.Fatalf("closed %q", id)
	}
	if _, err := c.Synthesize(t.Context(), &SynthesizeRequest{Witness: slab.Ref{Handle: 1, Length: 64}}); !errs.IsRetryable(err) {
		t.Fatalf("more bytes than the buffer has: %v", err)
	}

	began := make(chan struct{})
	unloaded := make(chan string, 1)
	p := &fakeProver{load: func(ctx context.Context, _ *LoadKeyRequest) (*LoadedKey, error) {
		close(began)
		<-ctx.Done()
		return &LoadedKey{Shape: shape()}, nil
	}, unload: func(_ context.Context, id string) error { unloaded <- id; return nil }}
	pc := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, p) }), ClientOptions{})
	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := pc.LoadKey(ctx, &LoadKeyRequest{KeyID: "k"}); !errs.Is(err, errs.Canceled) {
		t.Fatalf("load: %v", err)
	}
	if id := <-unloaded; id != "k" {
		t.Fatalf("unloaded %q", id)
	}
}

// Sizes near 2^63 would overflow the account that adds them.
func TestSizesAreBounded(t *testing.T) {
	for _, n := range []int64{-1, 1 << 62, 1<<63 - 1} {
		f := &fakeProver{plan: &KeyPlan{ResidentBytes: n, Evaluations: 3}, load: func(context.Context, *LoadKeyRequest) (*LoadedKey, error) {
			return &LoadedKey{Shape: shape(), ResidentBytes: n}, nil
		}}
		p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
		sh := shape()
		if _, err := p.PlanKey(t.Context(), &sh); !errs.IsRetryable(err) {
			t.Errorf("plan of %d bytes: %v", n, err)
		}
		if _, err := p.LoadKey(t.Context(), &LoadKeyRequest{KeyID: "k"}); !errs.IsRetryable(err) {
			t.Errorf("key of %d bytes: %v", n, err)
		}
		s := &fakeSynthesizer{closed: make(chan string, 1), open: func(context.Context) (*Session, error) {
			return &Session{ID: "s", Partitions: []Partition{{NbWires: 2, NbPublic: 1, WitnessBytes: 64, ScratchBytes: n}}}, nil
		}}
		c := NewSynthesizerClient(dial(t, func(g *grpc.Server) { RegisterSynthesizer(g, s) }), ClientOptions{})
		if _, err := c.Open(t.Context(), &OpenRequest{}); !errs.IsRetryable(err) {
			t.Errorf("scratch of %d bytes: %v", n, err)
		}
	}
}

// A plugin that does not answer what is answered at once is ended.
func TestDescribeThatHangsKills(t *testing.T) {
	forever, gone := make(chan struct{}), make(chan struct{})
	f := &fakeProver{describe: func() { <-forever }}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{Gone: gone, CancelTimeout: 20 * time.Millisecond,
		Kill: func() { close(gone); close(forever) }})
	if _, err := p.Describe(t.Context()); !errs.Is(err, errs.BackendGone) || !errs.IsRetryable(err) {
		t.Fatalf("got %v", err)
	}
	<-gone
}

// A proof has 192 bytes; an answer of megabytes is not taken in.
func TestHugeAnswerRefused(t *testing.T) {
	events := []*pb.ProveEvent{{Kind: 1}, {Kind: 2}, {Kind: 3}, {Kind: 4, Proof: make([]byte, 1<<20)}}
	p := NewProverClient(dial(t, func(g *grpc.Server) { pb.RegisterProverServer(g, &rawProver{events: events}) }), ClientOptions{})
	if proof, err := p.Prove(t.Context(), &ProveRequest{}, func(ProveEvent) {}); proof != nil || !errs.Is(err, errs.Exhausted) {
		t.Fatalf("got %v, %v", proof != nil, err)
	}
}

// An unload that does not end in time ends the process: its bytes are given back on the caller's return.
func TestUnloadThatHangsKills(t *testing.T) {
	forever, began, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f := &fakeProver{unload: func(context.Context, string) error { close(began); <-forever; return nil }}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{Gone: gone, CancelTimeout: 20 * time.Millisecond,
		Kill: func() { close(gone); close(forever) }})
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-began; stop() }() // a call that has not begun is only marked as dead
	if err := p.UnloadKey(ctx, "k"); !errs.Is(err, errs.Canceled) {
		t.Fatalf("got %v", err)
	}
	select {
	case <-gone:
	default:
		t.Fatal("returned with the process alive")
	}
}

// File names on Linux are bytes; messages are UTF-8. Neither a request nor an error may be lost over that.
func TestNamesThatAreNotUTF8(t *testing.T) {
	var got string
	f := &fakeProver{load: func(_ context.Context, req *LoadKeyRequest) (*LoadedKey, error) {
		got = req.Key.Name
		return nil, &errs.Error{Class: errs.Unsatisfied, Op: "load", Path: "a\xff.zkey", Found: "b\xfe", Hint: "c\xfd"}
	}}
	p := NewProverClient(dial(t, func(g *grpc.Server) { RegisterProver(g, f) }), ClientOptions{})
	_, err := p.LoadKey(t.Context(), &LoadKeyRequest{Key: Input{Name: "k\xff.zkey"}})
	if got != "k\uFFFD.zkey" || !errs.Is(err, errs.Unsatisfied) || errs.HintOf(err) != "c\uFFFD" {
		t.Fatalf("name %q, error %v (%v), hint %q", got, err, errs.ClassOf(err), errs.HintOf(err))
	}
}
