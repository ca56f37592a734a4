// Package cpu is weir's prover on the processor: Groth16 over BLS12-381 with the field and curve arithmetic of gnark-crypto.
//
// It is the reference that every other backend is compared with, so it follows the equations line by line (prove.go) and keeps what it needs
// in few places: the evaluations a, b, c are transformed where they lie, in the host's buffers, and no vector is copied (quotient.go);
// scalars 0, 1 and -1 are summed, not multiplied; a prepared key is read from its file by mmap (keys.go).
//
// A Backend answers contract.Prover and contract.KeyMaker, in process or behind a plugin's server alike.
package cpu

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Name is what the host calls this backend.
const Name = "cpu"

// lanes is the number of proofs in work at once. One proof keeps every core busy from its first step to its last, so a second one would only
// add its memory.
const lanes = 1

// Options of a Backend. The zero value is right for production.
type Options struct {
	Version string // reported to the host
	Threads int    // most goroutines that compute for one call; 0: GOMAXPROCS
	// ReleaseKeyPages gives the pages of a mapped key back to the system after each sum over them (MADV_DONTNEED), so that a proof's resident
	// memory is one section, not the key. The next proof reads them from the page cache again, or from the disk.
	ReleaseKeyPages bool
	// AllowInsecureTestRandomness makes Prove accept fixed r and s. Such proofs are not zero-knowledge: for tests that compare backends only.
	AllowInsecureTestRandomness bool
}

// Backend is the prover. Safe for concurrent use.
type Backend struct {
	resolver slab.Resolver
	opts     Options
	lane     chan struct{}

	mu   sync.Mutex
	keys map[string]*key
}

var (
	_ contract.Prover   = (*Backend)(nil)
	_ contract.KeyMaker = (*Backend)(nil)
)

// New makes a backend that finds buffers and files through r.
func New(r slab.Resolver, opts Options) *Backend {
	return &Backend{resolver: r, opts: opts, lane: make(chan struct{}, lanes), keys: map[string]*key{}}
}

// Describe implements contract.Prover.
func (b *Backend) Describe(context.Context) (*contract.ProverInfo, error) {
	info := &contract.ProverInfo{
		Identity: contract.Identity{Name: Name, Version: b.opts.Version},
		Device:   fmt.Sprintf("cpu: %s, %d threads", processor(), b.threads(0)),
		Lanes:    lanes,
		Abilities: []string{
			contract.AbilityCompact, contract.AbilityMakesKeys,
		},
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

// PlanKey implements contract.Prover. All in bytes, for N = the domain, W wires, P private wires:
//
//	resident  the points, 96 (NbA + NbB + P + NbH) + 192 NbB; bitmaps and maps of wires, W/64 words of 52; N/2 twiddle factors of 32
//	scratch   W/4 + 8 W for the classified witness, and what the largest sum needs (msm.ScratchG1 and its like)
//
// The shape does not tell the form of the key's file, so this is the upper bound; LoadKey says what is held. A prepared key whose pages are released
// after use (Options.ReleaseKeyPages) holds its largest section only.
func (b *Backend) PlanKey(_ context.Context, s *groth16.Shape) (*contract.KeyPlan, error) {
	if err := s.Validate(); err != nil {
		return nil, errs.Wrap(err, "plan key")
	}
	return &contract.KeyPlan{ResidentBytes: b.residentBytes(s, s.Prepared), ScratchBytes: scratchBytes(s, b.threads(0)), Evaluations: 3}, nil
}
