package host

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-zk/weir/host/internal/gate"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
)

// circuitStore knows the circuits that synthesizers keep for several jobs: those in use, and some that were, which stay until somebody needs their bytes.
type circuitStore struct {
	e *Engine

	mu       sync.Mutex
	circuits map[circuitID]*sharedCircuit
	last     int

	leaving sync.WaitGroup // circuits being forgotten
}

type circuitID struct {
	front *front
	kind  string
	file  fileID
}

// keepCircuits is how many circuits that no job uses stay known, with their file open, for the next job.
const keepCircuits = 16

func newCircuitStore(e *Engine) *circuitStore {
	return &circuitStore{e: e, circuits: map[circuitID]*sharedCircuit{}}
}

// sharedCircuit is a parsed circuit in a synthesizer's memory: a session without partitions, which those of jobs are based on. It is charged once, however many they are.
type sharedCircuit struct {
	e        *Engine
	id       circuitID
	input    contract.Input
	resident *ledger.Resident

	users, lastUse int // guarded by circuitStore.mu

	gate    gate.Gate // one load at a time
	session string    // while it is loaded

	mu       sync.Mutex
	sessions map[*session]struct{} // of jobs
}

// open finds or makes the circuit of a job, which counts as its user until close. Nothing is loaded yet.
func (s *circuitStore) open(r *run, kind string) (*sharedCircuit, error) {
	id := circuitID{r.front, kind, r.in.circuit}
	role, path := contract.RoleCircuit, r.job.Circuit
	if path == "" {
		role, path, id.file = contract.RoleKey, r.job.Key, r.keyID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.circuits[id]; c != nil {
		c.users++
		return c, nil
	}
	// A descriptor of its own: it outlives the job.
	f, now, err := openInput(role, path)
	if err != nil {
		return nil, err
	}
	if now != id.file {
		_ = f.Close()
		return nil, errs.New(errs.InvalidFile, "open "+role, "the file changed while it was opened").WithPath(path)
	}
	h, err := s.e.pool.AddFile(f)
	if err != nil {
		return nil, errs.InFile(err, path)
	}
	c := &sharedCircuit{e: s.e, id: id, input: contract.Input{Role: role, Name: path, Handle: h, Size: now.size, Partition: -1}, users: 1, gate: gate.New(), sessions: map[*session]struct{}{}}
	c.resident = s.e.ledger.NewResident("circuit "+path, ledger.Circuit, r.estimate(), c.unload)
	s.circuits[id] = c
	return c, nil
}

// close ends a job's use. The circuit stays; of too many unused ones the longest unused is forgotten.
func (s *circuitStore) close(c *sharedCircuit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.users--
	s.last++
	c.lastUse = s.last
	var oldest *sharedCircuit
	unused := 0
	for _, x := range s.circuits {
		if x.users == 0 {
			unused++
			if oldest == nil || x.lastUse < oldest.lastUse {
				oldest = x
			}
		}
	}
	if unused > keepCircuits {
		s.forget(oldest)
	}
}

// forget lets go of a circuit that no job uses. s.mu is held.
func (s *circuitStore) forget(c *sharedCircuit) {
	delete(s.circuits, c.id)
	s.leaving.Add(1)
	c.resident.Retire(func() {
		defer s.leaving.Done()
		_ = s.e.pool.RemoveFile(c.input.Handle)
	})
}

// closeAll forgets every circuit and waits until they are gone; no job runs any more.
func (s *circuitStore) closeAll() {
	s.mu.Lock()
	for _, c := range s.circuits {
		s.forget(c)
	}
	s.mu.Unlock()
	s.leaving.Wait()
}

// join and leave tell which sessions are based on c.
func (c *sharedCircuit) join(s *session) {
	c.mu.Lock()
	c.sessions[s] = struct{}{}
	c.mu.Unlock()
}

func (c *sharedCircuit) leave(s *session) {
	c.mu.Lock()
	delete(c.sessions, s)
	c.mu.Unlock()
}

// load has the synthesizer parse the circuit unless it has. The caller holds a grant that refers to its resident.
func (c *sharedCircuit) load(ctx context.Context, like *contract.OpenRequest) error {
	if err := c.gate.Enter(ctx); err != nil {
		return err
	}
	defer c.gate.Leave()
	switch {
	case c.resident.Loaded():
		return nil
	case c.resident.Outgrown(): // as another job has just found out
		return errLarger
	}
	opened, err := c.id.front.synth.Open(ctx, &contract.OpenRequest{Kind: like.Kind, Inputs: []contract.Input{c.input}, Threads: like.Threads, Shared: true})
	if err != nil {
		return err // and nothing is open
	}
	c.session = opened.ID
	c.resident.SetLoading()
	if c.resident.SetLoaded(opened.ResidentBytes) {
		return nil
	}
	if c.unload() == nil { // if not, the ledger asks again before it takes the bytes as free
		c.resident.SetUnloaded()
	}
	return errLarger
}

// unload returns nil when the synthesizer has given the memory back, or is gone: sessions that are based on the circuit are closed first, for they hold it too. The ledger
// calls it when no grant refers to the circuit, so none refers to them.
func (c *sharedCircuit) unload() error {
	ctx, stop := c.e.cfg.Clock.WithTimeout(context.Background(), c.e.cfg.CancelTimeout)
	defer stop()
	c.mu.Lock()
	var open []*session
	for s := range c.sessions {
		if s.resident.Loaded() {
			open = append(open, s)
		}
	}
	c.mu.Unlock()
	var all []error
	for _, s := range open {
		err := s.unload()
		if err == nil {
			s.resident.SetUnloaded()
		}
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	err := c.id.front.synth.Close(ctx, c.session)
	if err != nil {
		c.e.cfg.Logger.Error("a plugin does not give a circuit's memory back", "synthesizer", c.id.front.name, "circuit", c.input.Name, "error", err)
	}
	return err
}
