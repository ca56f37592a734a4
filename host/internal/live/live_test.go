package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// lives is a source that starts a new instance whenever the last one was killed.
type lives[T any] struct {
	mu   sync.Mutex
	make func(n int) T
	n    int
	now  *Instance[T]
	gone chan struct{}
}

func (l *lives[T]) Get(context.Context) (*Instance[T], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now == nil {
		l.n++
		l.gone = make(chan struct{})
		l.now = &Instance[T]{Client: l.make(l.n), Gone: l.gone}
	}
	return l.now, nil
}

func (l *lives[T]) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.gone)
	l.now = nil
}

func (l *lives[T]) Close(context.Context) error { return nil }

type prover struct {
	contract.Prover
	n      int
	mu     sync.Mutex
	keys   []string
	events []contract.ProveEvent
	fail   error
	boom   bool
}

func (p *prover) LoadKey(_ context.Context, r *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, r.KeyID)
	return &contract.LoadedKey{}, nil
}

func (p *prover) UnloadKey(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = slices.DeleteFunc(p.keys, func(k string) bool { return k == id })
	return nil
}

func (p *prover) Prove(_ context.Context, r *contract.ProveRequest, event func(contract.ProveEvent)) (*contract.Proof, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boom {
		panic("boom")
	}
	if !slices.Contains(p.keys, r.KeyID) {
		return nil, errs.New(errs.NotFound, "prove", "instance %d has no key %s", p.n, r.KeyID)
	}
	for _, e := range p.events {
		event(e)
	}
	return &contract.Proof{Bytes: []byte{byte(p.n)}}, p.fail
}

var inOrder = []contract.ProveEvent{contract.Accepted, contract.EvaluationsConsumed, contract.DeviceDone}

// A new instance has none of the keys that the old one had, and says so until they are loaded again; who asks whether one may be in memory is told the truth.
func TestKeysDieWithInstances(t *testing.T) {
	ctx := context.Background()
	src := &lives[contract.Prover]{make: func(n int) contract.Prover { return &prover{n: n, events: inOrder} }}
	p := NewProver(src, slab.NewPool(slab.PoolOptions{}))
	for _, id := range []string{"a", "b"} {
		if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: id}); err != nil {
			t.Fatal(err)
		}
	}
	prove := func(id string) (int, error) {
		r, err := p.Prove(ctx, &contract.ProveRequest{KeyID: id}, func(contract.ProveEvent) {})
		if err != nil {
			return 0, err
		}
		return int(r.Bytes[0]), nil
	}
	for life := 1; life <= 3; life++ {
		if life > 1 {
			if _, err := prove("a"); err != ErrNotLoaded {
				t.Errorf("life %d: %v", life, err)
			}
			if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if p.Forget("a") || p.Forget("b") != (life > 1) {
			t.Errorf("life %d: a key is forgotten that may be there, or not forgotten", life)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if n, err := prove("a"); err != nil || n != life {
					t.Errorf("life %d: proved by %d, %v", life, n, err)
				}
			})
		}
		wg.Wait()
		if keys := src.now.Client.(*prover).keys; count(keys, "a") != 1 {
			t.Errorf("life %d has keys %v", life, keys)
		}
		src.kill()
	}
	if !p.Forget("a") {
		t.Error("a key of a dead instance is not forgotten")
	}
	if err := p.UnloadKey(ctx, "a"); err != nil {
		t.Error(err)
	}
}

func count(list []string, x string) (n int) {
	for _, s := range list {
		if s == x {
			n++
		}
	}
	return n
}

// The host frees buffers on the word of events, so they must come in order and all; nothing canceled is a proof, and a panic is an error.
func TestProveKeepsTheContract(t *testing.T) {
	const a, c, d = contract.Accepted, contract.EvaluationsConsumed, contract.DeviceDone
	for _, tc := range []struct {
		events []contract.ProveEvent
		seen   int // that reach the host
		ok     bool
	}{
		{inOrder, 3, true}, {nil, 0, false}, {[]contract.ProveEvent{a}, 1, false}, {[]contract.ProveEvent{a, c}, 2, false}, {[]contract.ProveEvent{c, a, d}, 0, false},
		{[]contract.ProveEvent{a, d, c}, 1, false}, {[]contract.ProveEvent{a, c, c, d}, 2, false}, {[]contract.ProveEvent{a, c, d, d}, 3, false},
	} {
		p := NewProver(Static[contract.Prover](&prover{events: tc.events}), slab.NewPool(slab.PoolOptions{}))
		if _, err := p.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k"}); err != nil {
			t.Fatal(err)
		}
		seen := 0
		r, err := p.Prove(context.Background(), &contract.ProveRequest{KeyID: "k"}, func(contract.ProveEvent) { seen++ })
		if (err == nil) != tc.ok || (r != nil) != tc.ok || seen != tc.seen || (err != nil && !errs.IsRetryable(err)) {
			t.Errorf("events %v: %v, %v, %d seen", tc.events, r, err, seen)
		}
		ctx, cancel := context.WithCancel(context.Background())
		r, err = p.Prove(ctx, &contract.ProveRequest{KeyID: "k"}, func(contract.ProveEvent) { cancel() })
		cancel()
		if tc.seen > 0 && (r != nil || !errs.Is(err, errs.Canceled)) {
			t.Errorf("events %v, canceled: %v, %v", tc.events, r, err)
		}
	}
	p := NewProver(Static[contract.Prover](&prover{boom: true}), slab.NewPool(slab.PoolOptions{}))
	_, _ = p.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k"})
	if _, err := p.Prove(context.Background(), &contract.ProveRequest{KeyID: "k"}, nil); !errs.Is(err, errs.Internal) {
		t.Errorf("a panic: %v", err)
	}
	if _, err := p.MakeKey(context.Background(), &contract.MakeKeyRequest{}, nil); !errs.Is(err, errs.Unsupported) {
		t.Errorf("a backend without set-up: %v", err)
	}
}

// slow is a prover that loads and unloads, and fails then.
type slow struct {
	prover
	err   error
	asked int
}

func (s *slow) LoadKey(ctx context.Context, r *contract.LoadKeyRequest) (*contract.LoadedKey, error) {
	k, err := s.prover.LoadKey(ctx, r)
	if s.err != nil {
		return nil, s.err
	}
	return k, err
}

func (s *slow) UnloadKey(ctx context.Context, id string) error {
	s.asked++
	_ = s.prover.UnloadKey(ctx, id)
	return s.err
}

// one is a source of a process that can be killed.
type one[T any] struct{ i Instance[T] }

func (o *one[T]) Get(context.Context) (*Instance[T], error) { return &o.i, nil }
func (o *one[T]) Close(context.Context) error               { return nil }

// A load that failed may have loaded the key all the same: unload asks; and a key that another load brings back is loaded again, whatever the first did.
func TestFailedLoadIsAskedBack(t *testing.T) {
	ctx := context.Background()
	impl := &slow{prover: prover{events: inOrder}, err: errs.New(errs.Canceled, "load key", "too late")}
	p := NewProver(Static[contract.Prover](impl), slab.NewPool(slab.PoolOptions{}))
	if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "k"}); !errs.Is(err, errs.Canceled) {
		t.Fatal(err)
	}
	if len(impl.keys) != 1 {
		t.Fatalf("keys %v: the test is wrong", impl.keys)
	}
	impl.err = nil
	if err := p.UnloadKey(ctx, "k"); err != nil || len(impl.keys) != 0 {
		t.Errorf("%v, left: %v", err, impl.keys)
	}
	if err := p.UnloadKey(ctx, "k"); err != nil || impl.asked != 1 {
		t.Errorf("unloaded again: %v, asked %d times", err, impl.asked)
	}
}

// Memory that a process does not give back is free when the process is gone; in this process it is not, and can be asked for again.
func TestWhoDoesNotGiveBackIsEnded(t *testing.T) {
	ctx := context.Background()
	bad := errs.New(errs.Deadline, "unload key", "no answer")
	for _, gone := range []error{nil, errs.New(errs.Internal, "kill", "does not go")} {
		killed := 0
		kill := func(string) error { killed++; return gone }
		impl := &slow{}
		p := NewProver(&one[contract.Prover]{Instance[contract.Prover]{Client: impl, Kill: kill}}, slab.NewPool(slab.PoolOptions{}))
		if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "k"}); err != nil {
			t.Fatal(err)
		}
		impl.err = bad
		if err := p.UnloadKey(ctx, "k"); err != gone || killed != 1 {
			t.Errorf("unload: %v, killed %d times", err, killed)
		}
		y := &synth{partitions: 1, open: map[string]bool{}, closeErr: bad}
		s := NewSynthesizer(&one[contract.Synthesizer]{Instance[contract.Synthesizer]{Client: y, Kill: kill}}, slab.NewPool(slab.PoolOptions{}))
		ses, err := s.Open(ctx, &contract.OpenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(ctx, ses.ID); err != gone || killed != 2 {
			t.Errorf("close: %v, killed %d times", err, killed)
		}
	}
	impl := &slow{}
	p := NewProver(Static[contract.Prover](impl), slab.NewPool(slab.PoolOptions{}))
	if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "k"}); err != nil {
		t.Fatal(err)
	}
	impl.err = bad
	if err := p.UnloadKey(ctx, "k"); !errs.Is(err, errs.Deadline) {
		t.Errorf("unload: %v", err)
	}
	impl.err = nil
	if err := p.UnloadKey(ctx, "k"); err != nil || impl.asked != 2 {
		t.Errorf("unload again: %v, asked %d times", err, impl.asked)
	}
}

// A call that finds its process' channel broken returns when the process is gone, so that the next attempt gets another one.
func TestBrokenChannelEndsTheProcess(t *testing.T) {
	ctx := context.Background()
	pool := slab.NewPool(slab.PoolOptions{})
	f, err := os.Open("live.go")
	if err != nil {
		t.Fatal(err)
	}
	h, err := pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	hostEnd, pluginEnd, err := slab.NewSocketPair()
	if err != nil {
		t.Fatal(err)
	}
	m, err := slab.NewMapper(pluginEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = m.Serve() }()
	ch, _, err := slab.Connect(hostEnd, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Close()
	gone := make(chan struct{})
	time.AfterFunc(30*time.Millisecond, func() { close(gone) })
	src := &one[contract.Prover]{Instance[contract.Prover]{Client: &prover{}, Channel: ch, Gone: gone, Kill: func(string) error {
		t.Error("killed while it went by itself")
		return nil
	}}}
	p := NewProver(src, pool)
	if _, err := p.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: "k", Key: contract.Input{Handle: h}}); !errs.Is(err, errs.BackendGone) {
		t.Errorf("%v", err)
	}
	select {
	case <-gone:
	default:
		t.Error("the call returned before the process was gone")
	}
	if err := errors.Join(pool.RemoveFile(h), pool.Close()); err != nil {
		t.Error(err)
	}
}

type synth struct {
	contract.Synthesizer
	n          int
	mu         sync.Mutex
	partitions int
	open       map[string]bool
	closeErr   error
}

func (s *synth) Open(context.Context, *contract.OpenRequest) (*contract.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("life%d-%d", s.n, len(s.open))
	s.open[id] = true
	return &contract.Session{ID: id, Partitions: make([]contract.Partition, s.partitions)}, nil
}

func (s *synth) Synthesize(_ context.Context, r *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[r.Session] {
		return nil, errs.New(errs.NotFound, "synthesize", "instance %d has no session %s", s.n, r.Session)
	}
	return &contract.Synthesized{WitnessBytes: int64(s.n)}, nil
}

func (s *synth) Close(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
	return s.closeErr
}

// Sessions are opened again in a new instance, once; one whose files have other partitions by then is refused.
func TestSessionsOutliveInstances(t *testing.T) {
	ctx := context.Background()
	src := &lives[contract.Synthesizer]{make: func(n int) contract.Synthesizer {
		s := &synth{n: n, partitions: 2, open: map[string]bool{}}
		if n == 3 {
			s.partitions = 1
		}
		return s
	}}
	s := NewSynthesizer(src, slab.NewPool(slab.PoolOptions{}))
	ses, err := s.Open(ctx, &contract.OpenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for life := 1; life <= 2; life++ {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				r, err := s.Synthesize(ctx, &contract.SynthesizeRequest{Session: ses.ID, Partition: i % 2})
				if err != nil || r.WitnessBytes != int64(life) {
					t.Errorf("life %d: %v, %v", life, r, err)
				}
			})
		}
		wg.Wait()
		if n := len(src.now.Client.(*synth).open); n != 1 {
			t.Errorf("life %d has %d sessions", life, n)
		}
		src.kill()
	}
	if _, err := s.Synthesize(ctx, &contract.SynthesizeRequest{Session: ses.ID}); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("other partitions: %v", err)
	}
	if n := len(src.now.Client.(*synth).open); n != 0 {
		t.Errorf("the refused session was left open")
	}
	if err := s.Close(ctx, ses.ID); err != nil {
		t.Error(err)
	}
	if err := s.Close(ctx, ses.ID); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := s.Synthesize(ctx, &contract.SynthesizeRequest{Session: ses.ID}); err == nil {
		t.Error("a closed session synthesises")
	}
}
