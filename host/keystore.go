package host

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// keyHeader is what the host itself reads of a key file: sizes, and what it needs to verify. The points stay unread.
type keyHeader struct {
	Shape        groth16.Shape
	VK           *groth16.VerifyingKey
	NeedsCircuit bool // the file lacks the densities: LoadKey needs the circuit too
}

// readKeyHeader reads any kind of key file by its content.
func readKeyHeader(f *os.File) (*keyHeader, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, errs.Wrap(err, "open key")
	}
	s, err := keyfile.OpenSummary(context.Background(), f, st.Size())
	if err != nil {
		return nil, err
	}
	s.Shape.Prepared = s.Kind == keyfile.WKey
	return &keyHeader{Shape: s.Shape, VK: s.VK, NeedsCircuit: s.Kind == keyfile.Params}, nil
}

// verifier checks a proof against public inputs.
type verifier interface {
	Verify(proof *groth16.Proof, public []fr.Element) error
}

// keyStore knows the keys in use and those still loaded. A key is one state of one file (and, for keys without densities, of one circuit file).
type keyStore struct {
	e *Engine

	mu   sync.Mutex
	keys map[keyID]*key
	last int

	leaving sync.WaitGroup // keys being forgotten
}

type keyID struct{ key, circuit fileID }

func newKeyStore(e *Engine) *keyStore { return &keyStore{e: e, keys: map[keyID]*key{}} }

// keepKeys is how many keys that no job uses stay known, with their file open, for the next job.
const keepKeys = 16

// key is one proving key, of which every backend may have its own copy in memory.
type key struct {
	id      keyID
	name    string // of its copies
	path    string
	file    contract.Input
	circuit *contract.Input
	keyHeader
	verify verifier

	users   int // jobs; guarded by keyStore.mu
	lastUse int

	mu      sync.Mutex
	copies  map[*backend]*keyCopy
	planned int            // copies so far
	leaving sync.WaitGroup // copies that others have replaced
}

// keyCopy is a key as one backend holds it.
type keyCopy struct {
	key      *key
	backend  *backend
	id       string // for the backend
	device   *ledger.Account
	life     int // of the backend, that the plan is of
	plan     contract.KeyPlan
	resident *ledger.Resident
	scratch  *ledger.Resident // of a backend with one lane: whoever waits for it has none yet, so all that are admitted are charged for one
	gate     gate.Gate        // one load at a time
}

// open finds or reads the key of a job, and counts the job as its user until close. It takes f over.
func (s *keyStore) open(f *os.File, id fileID, job *Job, circuit *contract.Input, circuitID fileID) (*key, error) {
	if k := s.find(id, circuitID); k != nil {
		_ = f.Close()
		return k, nil
	}
	// Without the lock: a key with many public inputs takes a while to read and check.
	k, err := s.read(f, id, job, circuit, circuitID)
	if err != nil {
		return nil, errs.InFile(err, job.Key)
	}
	s.mu.Lock()
	if other := s.use(k.id); other != nil { // somebody else was faster
		s.mu.Unlock()
		s.forget(k)
		return other, nil
	}
	s.last++
	k.name, k.users = fmt.Sprintf("key-%d", s.last), 1
	s.keys[k.id] = k
	s.mu.Unlock()
	return k, nil
}

func (s *keyStore) find(id, circuit fileID) *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.use(keyID{key: id}); k != nil {
		return k
	}
	return s.use(keyID{key: id, circuit: circuit})
}

// use is called with s.mu held.
func (s *keyStore) use(id keyID) *key {
	k := s.keys[id]
	if k != nil {
		k.users++
	}
	return k
}

// read reads the header of a key file and registers the files with the pool.
func (s *keyStore) read(f *os.File, id fileID, job *Job, circuit *contract.Input, circuitID fileID) (_ *key, err error) {
	defer func() {
		if f != nil {
			_ = f.Close()
		}
	}()
	h, err := s.e.deps.readKey(f)
	if err != nil {
		return nil, err
	}
	if err := h.Shape.Validate(); err != nil {
		return nil, err
	}
	k := &key{id: keyID{key: id}, path: job.Key, keyHeader: *h, copies: map[*backend]*keyCopy{}}
	if k.verify, err = s.e.deps.newVerifier(h.VK); err != nil {
		return nil, err
	}
	if h.NeedsCircuit {
		if circuit == nil {
			return nil, errs.New(errs.InvalidArgument, "open key", "this kind of key file does not say which wires its points belong to").
				WithPath(job.Key).WithHint("name the circuit: --circuit FILE.r1cs")
		}
		// A descriptor of its own: the key outlives the job.
		cf, cid, err := openInput(contract.RoleCircuit, job.Circuit)
		if err != nil {
			return nil, err
		}
		if cid != circuitID {
			_ = cf.Close()
			return nil, errs.New(errs.InvalidFile, "open circuit", "the file changed while it was opened").WithPath(job.Circuit)
		}
		ch, err := s.e.pool.AddFile(cf)
		if err != nil {
			return nil, err
		}
		k.id.circuit = circuitID
		k.circuit = &contract.Input{Role: contract.RoleCircuit, Name: job.Circuit, Handle: ch, Size: cid.size, Partition: -1}
	}
	handle, err := s.e.pool.AddFile(f)
	f = nil // the pool's now
	if err != nil {
		if k.circuit != nil {
			_ = s.e.pool.RemoveFile(k.circuit.Handle)
		}
		return nil, err
	}
	k.file = contract.Input{Role: contract.RoleKey, Name: job.Key, Handle: handle, Size: id.size, Partition: -1}
	return k, nil
}

// close ends a job's use of a key. Loaded copies stay; too many unused keys are forgotten, the longest unused first.
func (s *keyStore) close(k *key) {
	s.mu.Lock()
	k.users--
	s.last++
	k.lastUse = s.last
	var gone []*key
	for {
		var oldest *key
		unused := 0
		for _, x := range s.keys {
			if x.users == 0 {
				unused++
				if oldest == nil || x.lastUse < oldest.lastUse {
					oldest = x
				}
			}
		}
		if unused <= keepKeys {
			break
		}
		delete(s.keys, oldest.id)
		gone = append(gone, oldest)
	}
	s.mu.Unlock()
	for _, k := range gone {
		s.forget(k)
	}
}

// forget unloads a key everywhere and closes its file when that is done. No job uses it.
func (s *keyStore) forget(k *key) {
	s.leaving.Add(1)
	k.mu.Lock()
	copies := k.copies
	k.copies = nil
	k.mu.Unlock()
	var unloaded sync.WaitGroup
	for _, c := range copies {
		c.retire(&unloaded)
	}
	go func() {
		defer s.leaving.Done()
		unloaded.Wait()
		k.leaving.Wait()
		_ = s.e.pool.RemoveFile(k.file.Handle)
		if k.circuit != nil {
			_ = s.e.pool.RemoveFile(k.circuit.Handle)
		}
	}()
}

// closeAll forgets every key and waits until they are gone; no job runs any more.
func (s *keyStore) closeAll() {
	s.mu.Lock()
	all := s.keys
	s.keys = map[keyID]*key{}
	s.mu.Unlock()
	for _, k := range all {
		s.forget(k)
	}
	s.leaving.Wait()
}

// resident is the number of loaded copies.
func (s *keyStore) resident() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, k := range s.keys {
		k.mu.Lock()
		for _, c := range k.copies {
			if c.resident.Loaded() {
				n++
			}
		}
		k.mu.Unlock()
	}
	return n
}

// on returns the copy of k for backend b, planned but not loaded. Another process of b, or another device, may want another plan, which makes another copy.
func (k *key) on(ctx context.Context, e *Engine, b *backend) (*keyCopy, error) {
	device, life := b.life()
	k.mu.Lock()
	c := k.copies[b]
	known := c != nil && c.life == life
	k.mu.Unlock()
	if known {
		return c, nil
	}
	shape := k.Shape
	plan, err := b.prover.PlanKey(ctx, &shape)
	if err != nil {
		return nil, errs.InFile(errs.Wrap(err, "plan key"), k.path)
	}
	if plan.Evaluations != 0 && plan.Evaluations != 2 && plan.Evaluations != 3 {
		return nil, errs.Mismatch(errs.Internal, "plan key: backend breaks the contract", "evaluations", "0, 2 or 3", plan.Evaluations)
	}
	if plan.DeviceBytes > 0 && device == nil {
		return nil, errs.Mismatch(errs.Internal, "plan key: backend breaks the contract", "device bytes", "0, as it says that its device has no memory of its own", plan.DeviceBytes)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.copies[b]; c != nil {
		if c.life >= life {
			return c, nil
		}
		if c.device == device && c.plan == *plan {
			c.life = life
			return c, nil
		}
		c.retire(&k.leaving)
	}
	k.planned++
	c = &keyCopy{key: k, backend: b, id: fmt.Sprintf("%s.%d", k.name, k.planned), device: device, life: life, plan: *plan, gate: gate.New()}
	c.resident = e.ledger.NewResident("key "+k.path, ledger.Key, plan.ResidentBytes, func() error { return c.unload(e, "evicted") }, ledger.Amount{Device: device, Bytes: plan.DeviceBytes})
	if b.lanes() == 1 && plan.ScratchBytes > 0 {
		// Never set to loaded: charged as long as a grant refers to it.
		c.scratch = e.ledger.NewResident("scratch of "+b.name+" for key "+k.path, ledger.Scratch, plan.ScratchBytes, nil)
	}
	k.copies[b] = c
	return c, nil
}

// retire lets go of a copy that no new grant refers to; left is done when its memory is free.
func (c *keyCopy) retire(left *sync.WaitGroup) {
	for _, r := range []*ledger.Resident{c.resident, c.scratch} {
		if r != nil {
			left.Add(1)
			r.Retire(left.Done)
		}
	}
}

// errLarger says that a key or session turned out larger than planned: the partition asks again, with the true size.
var errLarger = errs.New(errs.Unavailable, "load", "larger than planned")

// load makes the copy ready. The caller holds a grant that refers to it.
func (c *keyCopy) load(ctx context.Context, e *Engine) error {
	if err := c.gate.Enter(ctx); err != nil {
		return err
	}
	defer c.gate.Leave()
	switch {
	case c.resident.Loaded():
		return nil
	case c.resident.Outgrown(): // as another partition has just found out
		return errLarger
	}
	begin := e.cfg.Clock.Now()
	c.resident.SetLoading()
	loaded, err := c.backend.prover.LoadKey(ctx, &contract.LoadKeyRequest{KeyID: c.id, Key: c.key.file, Circuit: c.key.circuit, Threads: e.cfg.Threads,
		Trusted: true}) // every proof is verified
	if err == nil && (loaded.Shape.NbWires != c.key.Shape.NbWires || loaded.Shape.NbPublic != c.key.Shape.NbPublic || loaded.Shape.LogDomain != c.key.Shape.LogDomain) {
		err = errs.Mismatch(errs.Internal, "load key: backend breaks the contract", "shape", fmt.Sprintf("%+v", c.key.Shape), fmt.Sprintf("%+v", loaded.Shape))
	}
	if err == nil && !c.resident.SetLoaded(loaded.ResidentBytes) {
		err = errLarger
	}
	if err != nil && err != errLarger {
		err = errs.InFile(err, c.key.path)
	}
	e.cfg.Listener.key(KeyInfo{Key: c.key.path, Backend: c.backend.name, State: "loaded", Bytes: c.resident.Size(), Elapsed: e.cfg.Clock.Now().Sub(begin), Err: err})
	if err != nil && c.unload(e, "given up") == nil { // if not, the ledger asks again before it takes the bytes as free
		c.resident.SetUnloaded()
	}
	return err
}

// lost makes the account follow what died with a process of the backend.
func (c *keyCopy) lost(ctx context.Context) error {
	if err := c.gate.Enter(ctx); err != nil {
		return err
	}
	defer c.gate.Leave()
	if c.backend.prover.Forget(c.id) {
		c.resident.SetUnloaded()
	}
	return nil
}

// reload is load for a copy whose process has died.
func (c *keyCopy) reload(ctx context.Context, e *Engine) error {
	if err := c.lost(ctx); err != nil {
		return err
	}
	return c.load(ctx, e)
}

// lost is reload's first half for all copies of b. Those that are in use stay charged, since they are loaded again.
func (s *keyStore) lost(b *backend) {
	s.mu.Lock()
	var list []*keyCopy
	for _, k := range s.keys {
		k.mu.Lock()
		if c := k.copies[b]; c != nil {
			list = append(list, c)
		}
		k.mu.Unlock()
	}
	s.mu.Unlock()
	for _, c := range list {
		_ = c.lost(context.Background()) // which does not end
	}
}

// unload returns nil when the backend has given the key's memory back, or is gone. The ledger calls it when the bytes are wanted and no grant refers to
// the copy, and load does after a load that failed.
func (c *keyCopy) unload(e *Engine, state string) error {
	begin := e.cfg.Clock.Now()
	ctx, stop := e.cfg.Clock.WithTimeout(context.Background(), e.cfg.CancelTimeout)
	defer stop()
	err := c.backend.prover.UnloadKey(ctx, c.id)
	e.cfg.Listener.key(KeyInfo{Key: c.key.path, Backend: c.backend.name, State: state, Bytes: c.resident.Size(), Elapsed: e.cfg.Clock.Now().Sub(begin), Err: err})
	if err != nil {
		e.cfg.Logger.Error("a plugin does not give a key's memory back", "backend", c.backend.name, "key", c.key.path, "error", err)
	}
	return err
}

// changed reports a key file that is no longer what it was when the job opened it: that is how a backend may have died.
func (k *key) changed(e *Engine) error {
	v, err := e.pool.File(k.file.Handle)
	if err != nil {
		return nil
	}
	st, err := v.OSFile().Stat()
	if err != nil || (st.Size() == k.id.key.size && st.ModTime().UnixNano() == k.id.key.mtime) {
		return nil
	}
	return errs.Mismatch(errs.InvalidFile, "key file changed", "size", fmt.Sprintf("%d bytes, as when the job began", k.id.key.size), fmt.Sprintf("%d bytes", st.Size())).
		WithPath(k.path).WithHint("a key file must not be written while it is in use: import or copy it again under another name")
}
