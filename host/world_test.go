package host

import (
	"context"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// trapdoor makes true Groth16 proofs for any public inputs without a witness: it knows the secrets of its set-up. The engine's checks are the real
// ones; only the work of proving is left out.
type trapdoor struct {
	alpha, beta, gamma, delta fr.Element
	ic                        []fr.Element
	vk                        groth16.VerifyingKey

	mu       sync.Mutex
	verifier *groth16.Verifier
	made     map[string]groth16.Proof // by public inputs
	checked  map[string]error         // by proof and public inputs
}

// Verify is the real thing, once for each pair: tests make the same few proofs thousands of times.
func (t *trapdoor) Verify(p *groth16.Proof, public []fr.Element) error {
	id := fmt.Sprint(p.Bytes(), public)
	t.mu.Lock()
	defer t.mu.Unlock()
	err, ok := t.checked[id]
	if !ok {
		err = t.verifier.Verify(p, public)
		t.checked[id] = err
	}
	return err
}

func newTrapdoor(public int) *trapdoor {
	t := &trapdoor{ic: make([]fr.Element, public+1)}
	for _, x := range []*fr.Element{&t.alpha, &t.beta, &t.gamma, &t.delta} {
		x.MustSetRandom()
	}
	t.vk = groth16.VerifyingKey{AlphaG1: g1(&t.alpha), BetaG1: g1(&t.beta), BetaG2: g2(&t.beta), GammaG2: g2(&t.gamma), DeltaG1: g1(&t.delta), DeltaG2: g2(&t.delta)}
	for i := range t.ic {
		t.ic[i].MustSetRandom()
		t.vk.IC = append(t.vk.IC, g1(&t.ic[i]))
	}
	var err error
	if t.verifier, err = groth16.NewVerifier(&t.vk); err != nil {
		panic(err)
	}
	t.made, t.checked = map[string]groth16.Proof{}, map[string]error{}
	return t
}

func g1(x *fr.Element) bls.G1Affine {
	var b big.Int
	var p bls.G1Affine
	p.ScalarMultiplicationBase(x.BigInt(&b))
	return p
}

func g2(x *fr.Element) bls.G2Affine {
	var b big.Int
	var p bls.G2Affine
	p.ScalarMultiplicationBase(x.BigInt(&b))
	return p
}

// prove: with a, b at random, c = (ab - alpha beta - gamma IC(public)) / delta.
func (t *trapdoor) prove(public []fr.Element) groth16.Proof {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := fmt.Sprint(public)
	if p, ok := t.made[id]; ok {
		return p
	}
	var a, b, c, x fr.Element
	a.MustSetRandom()
	b.MustSetRandom()
	sum := t.ic[0]
	for i := range public {
		sum.Add(&sum, x.Mul(&public[i], &t.ic[i+1]))
	}
	c.Mul(&a, &b)
	c.Sub(&c, x.Mul(&t.alpha, &t.beta))
	c.Sub(&c, x.Mul(&t.gamma, &sum))
	c.Div(&c, &t.delta)
	t.made[id] = groth16.Proof{A: g1(&a), B: g2(&b), C: g1(&c)}
	return t.made[id]
}

// world is what fakes and tests share. A key file says "key NAME LOGDOMAIN WIRES PUBLIC"; a witness file has a number, from which public inputs follow.
type world struct {
	t    testing.TB
	dir  string
	mu   sync.Mutex
	keys map[string]*trapdoor

	witnesses                                  map[int]string
	synthTime, proveTime, finishTime, loadTime time.Duration
	session, keyBytes, scratch, synthScratch   int64
	moreKey, moreSession                       int64 // beyond the plan
	evaluations                                int

	synthFault func(witness string, n int) error // n-th synthesis of this witness
}

func newWorld(t testing.TB) *world {
	return &world{t: t, dir: t.TempDir(), keys: map[string]*trapdoor{}, witnesses: map[int]string{}, evaluations: 3, synthTime: 20 * time.Millisecond, proveTime: 10 * time.Millisecond, finishTime: 2 * time.Millisecond}
}

func (w *world) file(name, text string) string {
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// key makes a key file of a circuit.
func (w *world) key(name string, logDomain, wires, public int) string {
	w.mu.Lock()
	w.keys[name] = newTrapdoor(public)
	w.mu.Unlock()
	return w.file(name+".key", fmt.Sprintf("key %s %d %d %d", name, logDomain, wires, public))
}

// witness makes a witness file, once: a file that is written again is another one to the engine.
func (w *world) witness(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.witnesses[n] == "" {
		w.witnesses[n] = w.file(fmt.Sprintf("%d.wtns", n), strconv.Itoa(n))
	}
	return w.witnesses[n]
}

func (w *world) job(id, key string, witnesses ...int) *Job {
	j := &Job{ID: id, Key: key}
	for _, n := range witnesses {
		j.Partitions = append(j.Partitions, Partition{Witness: w.witness(n)})
	}
	return j
}

// publicOf is what witness n says, for a key with some number of public inputs.
func publicOf(n, public int) []fr.Element {
	out := make([]fr.Element, public)
	for i := range out {
		out[i].SetUint64(uint64(1000*n + i))
	}
	return out
}

func parseKey(text string) (name string, s groth16.Shape, err error) {
	var ld, wires, public int
	if _, err = fmt.Sscanf(text, "key %s %d %d %d", &name, &ld, &wires, &public); err != nil {
		return "", s, errs.New(errs.InvalidFile, "read key", "not a key")
	}
	return name, groth16.Shape{LogDomain: ld, NbWires: wires, NbPublic: public, NbConstraints: 1<<ld - public - 1, NbA: wires, NbB: wires, NbH: 1<<ld - 1}, nil
}

func (w *world) deps() deps {
	d := realDeps()
	d.newVerifier = func(vk *groth16.VerifyingKey) (verifier, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, door := range w.keys {
			if &door.vk == vk {
				return door, nil
			}
		}
		return nil, errs.New(errs.Internal, "test", "unknown key")
	}
	d.readKey = func(f *os.File) (*keyHeader, error) {
		text := make([]byte, 200)
		n, _ := f.ReadAt(text, 0)
		name, shape, err := parseKey(string(text[:n]))
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return &keyHeader{Shape: shape, VK: &w.keys[name].vk}, nil
	}
	return d
}

func readAll(r slab.Resolver, h slab.Handle) (string, error) {
	v, err := r.File(h)
	if err != nil {
		return "", err
	}
	b := make([]byte, v.Size())
	if _, err := v.ReadAt(b, 0); err != nil {
		return "", err
	}
	return string(b), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errs.Wrap(ctx.Err(), "sleep")
	}
}

// watch is a listener that checks what must hold at every event, and keeps them.
type watch struct {
	t      testing.TB
	mu     sync.Mutex
	events []BuffersInfo
	back   []BackendInfo
	most   Gauges

	permits int    // sets of evaluations that may be alive
	shrinks string // a device whose budget becomes smaller than what is charged
}

func (w *watch) listener() *Listener {
	return &Listener{
		Buffers: func(i BuffersInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, i)
			if i.Provers > w.permits || i.Est > i.Budget || i.Shells > i.Aux || min(i.Synth, i.Provers, i.Aux, i.Shells, i.Pending) < 0 {
				w.t.Errorf("with %d permits: %v", w.permits, i)
			}
			w.most.Provers, w.most.Est = max(w.most.Provers, i.Provers), max(w.most.Est, i.Est)
		},
		Ledger: func(c ledger.Change) {
			for _, a := range c.Accounts {
				if a.Total > a.Budget && a.Name != w.shrinks {
					w.t.Errorf("%d of %d bytes of %s: %s", a.Total, a.Budget, a.Name, c.String())
				}
			}
		},
		Backend: func(i BackendInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.back = append(w.back, i)
		},
	}
}

func (w *watch) states(backend string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, i := range w.back {
		if i.Backend == backend {
			out = append(out, i.State)
		}
	}
	return out
}

// start makes an engine of fakes. Close it with finish, which checks that nothing is left.
func (w *world) start(cfg Config, s *fakeSynth, provers ...*fakeProver) (*Engine, *watch) {
	w.t.Helper()
	seen := &watch{t: w.t}
	for _, p := range provers {
		cfg.Backends = append(cfg.Backends, p.config())
	}
	cfg.Synthesizers = []SynthesizerConfig{s.config()}
	if cfg.PartitionWorkers == 0 {
		cfg.PartitionWorkers = 2
	}
	if cfg.MemoryBudget == 0 {
		cfg.MemoryBudget = 1 << 30
	}
	seen.permits = cfg.PartitionWorkers
	cfg.Listener = seen.listener()
	e, err := newEngine(context.Background(), cfg, w.deps())
	if err != nil {
		w.t.Fatal(err)
	}
	return e, seen
}

// quiet checks that an engine without jobs holds nothing but loaded keys and circuits.
func (w *world) quiet(e *Engine) {
	w.t.Helper()
	r := e.Report()
	resident := r.Purposes[ledger.Key] + r.Purposes[ledger.Circuit]
	if r.Now != (Gauges{}) || r.Reserved != resident || r.PermitsUsed != 0 || r.Waiting != 0 {
		w.t.Errorf("an idle engine holds %+v", r)
	}
	for _, d := range r.Devices {
		if d.Total != d.Reserved[ledger.Key] {
			w.t.Errorf("an idle engine holds %v of %s", d.Reserved.String(), d.Name)
		}
	}
	if live := e.pool.Stats().Live(); live != 0 {
		w.t.Errorf("%d bytes of buffers are alive", live)
	}
	for _, b := range e.backends {
		if b.queue != nil {
			if waiting, idle := b.queue.waiting(), len(b.queue.idle); waiting != 0 || idle != max(1, b.info.Lanes) {
				w.t.Errorf("backend %s: %d waiting, %d of %d lanes free", b.name, waiting, idle, b.info.Lanes)
			}
		}
	}
}

func (w *world) finish(e *Engine, s *fakeSynth) {
	w.t.Helper()
	w.quiet(e)
	if err := e.Close(context.Background()); err != nil {
		w.t.Errorf("close: %v", err)
	}
	if len(s.sessions) != 0 {
		w.t.Errorf("%d sessions left open", len(s.sessions))
	}
	if st := e.pool.Stats(); st.Live() != 0 || st.IdleBytes != 0 || st.Files != 0 || st.DoubleFree != 0 {
		w.t.Errorf("the pool has %+v", st)
	}
}

// right checks a result against the trapdoor of its key.
func (w *world) right(key string, r *Result, witnesses ...int) {
	w.t.Helper()
	w.mu.Lock()
	door := w.keys[strings.TrimSuffix(filepath.Base(key), ".key")]
	w.mu.Unlock()
	if len(r.Proofs) != len(witnesses) {
		w.t.Fatalf("%d proofs for %d partitions", len(r.Proofs), len(witnesses))
	}
	for i, n := range witnesses {
		if err := door.Verify(&r.Proofs[i], publicOf(n, len(door.ic)-1)); err != nil {
			w.t.Errorf("partition %d: %v", i, err)
		}
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }
