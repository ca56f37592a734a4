// Package cuda is weir's prover on NVIDIA GPUs: Groth16 over BLS12-381 with every step of a proof on the device, by libweir_cuda (kernels/).
//
// The Go side decides and the library computes. This package chooses the GPU by its UUID (device.go), accounts for its memory (vram.go), plans what of a key lies there
// and what is streamed (plan.go), and takes a proof through its steps (prove.go); the C border is in internal/cudalib. A proof of the same r and s is the CPU
// backend's, byte for byte.
//
// A Backend answers contract.Prover. It loads the library by purego, which makes a program dynamic: so it is served by an executable of its own, weir-backend-cuda,
// and nothing of weir's own binary imports this package.
package cuda

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Name is what the host calls this backend.
const Name = "cuda"

// Options of a Backend. The zero value is right for production.
type Options struct {
	Version string // reported to the host
	Library string // path of libweir_cuda.so; empty: looked for, see cudalib.Candidates
	Device  string // UUID of the GPU; empty: the first that is usable
	// Lanes is the number of proofs in flight. Default is 2, so that uploads of one overlap kernels of the other. A key for which the device's memory has no room
	// twice is proved on one lane.
	Lanes int
	// VRAMLimit bounds the device memory in bytes that is taken; keys that do not fit are streamed. Default is what is free when the device is opened, less
	// a reserve for what the driver and other processes take.
	VRAMLimit int64
	// HostEvaluates takes a, b, c from the host even where a key carries its matrices. Default is to evaluate the constraints on the device.
	HostEvaluates bool
	Threads       int // most goroutines that copy and read for one call; 0: GOMAXPROCS
	// AllowInsecureTestRandomness makes Prove accept fixed r and s. Such proofs are not zero-knowledge: for tests that compare backends only.
	AllowInsecureTestRandomness bool
	// OnLost is called once if the device's state in this process is lost. Every call fails from then on, and the process should end.
	OnLost func(error)

	granule   int64 // of device memory; default granule
	ringBytes int   // a slot of a lane's ring; default ringSlotBytes
	maxChunk  int   // most points or terms that are streamed at a time; default maxChunk
}

// maxLanes is what the library takes, less one for loading keys.
const maxLanes = 7

func (o *Options) ensureDefaults() {
	if o.Lanes <= 0 {
		o.Lanes = 2
	}
	o.Lanes = min(o.Lanes, maxLanes)
	if o.granule == 0 {
		o.granule = granule
	}
	if o.ringBytes == 0 {
		o.ringBytes = ringSlotBytes
	}
	if o.maxChunk == 0 {
		o.maxChunk = maxChunk
	}
}

// Backend is the prover. Safe for concurrent use.
type Backend struct {
	resolver slab.Resolver
	opts     Options

	opening sync.Mutex // held while the device is being opened
	mu      sync.Mutex
	gpu     *gpu // nil until it is opened
	keys    map[string]*key
}

var (
	_ contract.Prover   = (*Backend)(nil)
	_ contract.KeyMaker = (*Backend)(nil)
)

// New makes a backend that finds buffers and files through r. The library is loaded and the device opened by the first call that needs them.
func New(r slab.Resolver, opts Options) *Backend {
	opts.ensureDefaults()
	return &Backend{resolver: r, opts: opts, keys: map[string]*key{}}
}

// device opens the GPU unless it is open. A failure is not remembered: a driver may come up, memory become free.
func (b *Backend) device() (*gpu, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	b.mu.Lock()
	g := b.gpu
	b.mu.Unlock()
	if g != nil {
		return g, g.dev.Lost()
	}
	path, err := cudalib.Find(b.opts.Library)
	if err != nil {
		return nil, err
	}
	lib, err := cudalib.Load(path)
	if err != nil {
		return nil, err
	}
	if g, err = openGPU(lib, &b.opts); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.gpu = g
	b.mu.Unlock()
	return g, nil
}

// Close gives the device back. No call may be running.
func (b *Backend) Close() error {
	b.mu.Lock()
	g := b.gpu
	b.gpu = nil
	keys := b.keys
	b.keys = map[string]*key{}
	b.mu.Unlock()
	for _, k := range keys {
		k.forget()
	}
	if g == nil {
		return nil
	}
	return g.close()
}

// Describe implements contract.Prover. It opens the device: an error says why there is none.
func (b *Backend) Describe(context.Context) (*contract.ProverInfo, error) {
	g, err := b.device()
	if err != nil {
		return nil, errs.Wrap(err, "cuda")
	}
	info := &contract.ProverInfo{
		Identity:     contract.Identity{Name: Name, Version: b.opts.Version},
		Device:       g.dev.Name,
		DeviceID:     g.dev.UUID.String(),
		Lanes:        b.opts.Lanes,
		DeviceMemory: g.vram.limit,
		Abilities:    []string{contract.AbilityCompact, contract.AbilityDeviceKeys, contract.AbilityMakesKeys},
	}
	if !b.opts.HostEvaluates {
		info.Abilities = append(info.Abilities, contract.AbilityEvaluates)
	}
	if b.opts.AllowInsecureTestRandomness {
		info.Abilities = append(info.Abilities, contract.AbilityInsecureTest)
	}
	return info, nil
}

// threads is the number of goroutines for a call that asked for n (0: as many as allowed).
func (b *Backend) threads(n int) int {
	most := runtime.GOMAXPROCS(0)
	if b.opts.Threads > 0 {
		most = min(most, b.opts.Threads)
	}
	if n > 0 {
		most = min(most, n)
	}
	return most
}

// evaluates reports whether the constraints of a key are evaluated on the device.
func (b *Backend) evaluates(s *groth16.Shape) bool { return s.HasMatrices && !b.opts.HostEvaluates }

// PlanKey implements contract.Prover. Device memory is planned as if no other key were loaded, with the terms of the matrices guessed, as a shape does not tell
// them. Host memory, in bytes:
//
//	resident  of a prepared key the sections that are streamed; of others all points, which are in memory at least while they are uploaded, and the matrices
//	scratch   the rings of pinned memory
func (b *Backend) PlanKey(_ context.Context, s *groth16.Shape) (*contract.KeyPlan, error) {
	const op = "plan key"
	if err := s.Validate(); err != nil {
		return nil, errs.Wrap(err, op)
	}
	g, err := b.device()
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	out := &contract.KeyPlan{Evaluations: 3, ScratchBytes: g.ringBytes()}
	if b.evaluates(s) {
		out.Evaluations = 0
	}
	m := guessMatrices(s, out.Evaluations == 0)
	p, err := g.plan(s, m, 0)
	if errs.Is(err, errs.Exhausted) && m.count > 0 { // the guess alone is no reason to refuse: loading will see
		p, err = g.plan(s, &matrices{count: m.count, rows: m.rows}, 0)
	}
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	out.DeviceBytes = p.bytes()
	out.ResidentBytes = p.hostBytes(s)
	return out, nil
}

// where names the device for errors.
func (g *gpu) where() string { return fmt.Sprintf("%s, %v", g.dev.Name, g.dev.UUID) }
