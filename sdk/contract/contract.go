// Package contract is what the host asks of a plugin: two Go interfaces, Synthesizer and Prover, and the same over gRPC
// (pb/*.proto is the manual of every call). A backend in process and one in a plugin process answer the same interface; NewProverClient
// and RegisterProver are the two ends between them.
package contract

import (
	"context"
	"time"

	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// Version is the contract that this package speaks. Plugins of another version are refused at the handshake.
const Version = 1

// Abilities of a prover: an ability is named in ProverInfo and, where it brings a method of its own, a small interface.
const (
	AbilityEvaluates    = "evaluates-constraints"    // needs no a, b, c
	AbilityDeviceKeys   = "keeps-keys-on-device"     // device memory holds keys between proofs
	AbilityCompact      = "compact-witness"          // takes assignment.Compact
	AbilityMakesKeys    = "makes-development-keys"   // KeyMaker
	AbilityInsecureTest = "insecure-test-randomness" // was started with the test option: fixed r, s are accepted
)

// Identity names a plugin and its version.
type Identity struct{ Name, Version string }

// Input is a file that the host opened, or a payload in a slab. Name is what the user called it: for messages only.
type Input struct {
	Role      string
	Name      string
	Handle    slab.Handle
	Size      int64
	Partition int // -1: the whole job
}

// Roles of inputs.
const (
	RoleKey     = "key"     // proving key
	RoleCircuit = "circuit" // constraint system
	RoleWitness = "witness" // assignment
	RoleProgram = "program" // witness calculator
	RoleInputs  = "inputs"  // values for the witness calculator
	RoleSymbols = "symbols" // names of wires
)

// Synthesizer is a circuit front-end.
//
// Every method returns when nobody touches the buffers and inputs of the call any more, also when ctx ends: a client over gRPC waits for the
// plugin's word, or for its process to be reaped.
type Synthesizer interface {
	Describe(ctx context.Context) (*SynthesizerInfo, error)
	Open(ctx context.Context, req *OpenRequest) (*Session, error)
	Synthesize(ctx context.Context, req *SynthesizeRequest) (*Synthesized, error)
	Close(ctx context.Context, session string) error
}

// SynthesizerInfo is the answer to Describe.
type SynthesizerInfo struct {
	Identity
	Kinds     []string // request kinds it takes
	Abilities []string
}

// AbilitySharedCircuits of a synthesizer: it knows OpenRequest.Shared and Base.
const AbilitySharedCircuits = "shared-circuits"

// OpenRequest starts a session.
type OpenRequest struct {
	CallID  string // unique; set by the client when empty
	Kind    string
	Inputs  []Input
	Options map[string]string
	Threads int // 0: all
	// Shared makes a session without partitions: it holds what is parsed of the circuit, or of a key that carries one, for sessions that name it as Base. Those leave it out
	// of ResidentBytes. What two sessions use is charged once so, and the host decides how long it stays.
	Shared bool
	Base   string
}

// Session is an open request.
type Session struct {
	ID            string
	Partitions    []Partition
	ResidentBytes int64 // the plugin's own memory until Close
}

// Partition is what admission must know of one.
type Partition struct {
	CircuitDigest [32]byte // r1cs.Digest.AB
	NbWires       int
	NbPublic      int
	NbConstraints int
	WitnessBytes  int64 // upper bound
	ScratchBytes  int64 // the plugin's own memory while it synthesises
}

// SynthesizeRequest names the buffers to be filled.
type SynthesizeRequest struct {
	CallID    string
	Session   string
	Partition int
	Witness   slab.Ref
	A, B, C   slab.Ref // 32 * 2^LogDomain bytes each; zero Length: not wanted
	LogDomain int
	Rows      groth16.RowOrder
	Threads   int
}

// Synthesized is the answer: how much of the witness buffer is used, and the public inputs that the proof will be verified against.
type Synthesized struct {
	WitnessBytes int64
	Public       [][]byte // 32 bytes each, little-endian
	Elapsed      time.Duration
}

// Prover is a proving backend. As with Synthesizer, a method that has returned touches nothing any more.
type Prover interface {
	Describe(ctx context.Context) (*ProverInfo, error)
	// PlanKey is arithmetic: what a key of this shape would cost.
	PlanKey(ctx context.Context, shape *groth16.Shape) (*KeyPlan, error)
	LoadKey(ctx context.Context, req *LoadKeyRequest) (*LoadedKey, error)
	UnloadKey(ctx context.Context, keyID string) error
	// Prove calls event, on one goroutine, with Accepted, EvaluationsConsumed, DeviceDone in this order, and returns the proof.
	Prove(ctx context.Context, req *ProveRequest, event func(ProveEvent)) (*Proof, error)
}

// KeyMaker makes development keys.
type KeyMaker interface {
	MakeKey(ctx context.Context, req *MakeKeyRequest, progress func(stage string, fraction float64)) (*LoadedKey, error)
}

// ProverInfo is the answer to Describe.
type ProverInfo struct {
	Identity
	Device       string
	DeviceID     string
	Lanes        int
	DeviceMemory int64
	Abilities    []string
}

// Has reports an ability.
func (p *ProverInfo) Has(ability string) bool {
	for _, a := range p.Abilities {
		if a == ability {
			return true
		}
	}
	return false
}

// KeyPlan is what a key costs.
type KeyPlan struct {
	ResidentBytes int64 // host memory while loaded
	ScratchBytes  int64 // host memory of one proof beside its buffers
	DeviceBytes   int64
	Evaluations   int // how many of a, b, c must be given: 3, 2 or 0
}

// LoadKeyRequest names a key file; Circuit is needed for keys that do not carry their densities (bellman).
type LoadKeyRequest struct {
	CallID  string
	KeyID   string
	Key     Input
	Circuit *Input
	Threads int
	Trusted bool
}

// LoadedKey is a key ready for proving.
type LoadedKey struct {
	Shape         groth16.Shape
	ResidentBytes int64
	Elapsed       time.Duration
}

// ProveRequest is one partition.
type ProveRequest struct {
	CallID  string
	KeyID   string
	Witness slab.Ref
	A, B, C slab.Ref
	Threads int
	// InsecureTestRandomness fixes r and s: the proof is not zero-knowledge. Refused unless the backend was started with the same option.
	InsecureTestRandomness *groth16.Randomness
}

// ProveEvent is a step of a proof.
type ProveEvent uint8

const (
	Accepted            ProveEvent = 1
	EvaluationsConsumed ProveEvent = 2
	DeviceDone          ProveEvent = 3
)

// String names the event.
func (e ProveEvent) String() string {
	switch e {
	case Accepted:
		return "accepted"
	case EvaluationsConsumed:
		return "evaluations consumed"
	case DeviceDone:
		return "device done"
	}
	return "no event"
}

// Proof is a backend's answer. Nobody has verified it yet.
type Proof struct {
	Bytes []byte // 192, as groth16.Proof.Bytes
	Times []StageTime
}

// StageTime is the time of one step inside a backend.
type StageTime struct {
	Stage   string
	Elapsed time.Duration
}

// MakeKeyRequest makes a development key for a circuit into a writable file of the host.
type MakeKeyRequest struct {
	CallID  string
	Circuit Input
	Out     slab.Handle
	Rows    groth16.RowOrder
	H       groth16.HBasis
	Threads int
	Seed    []byte
	Scalars *ToxicScalars
}

// ToxicScalars are the secrets of a set-up, 32 bytes little-endian each; G1 and G2, multiples of the standard generators that take their
// place, may be empty (one).
type ToxicScalars struct{ Tau, Alpha, Beta, Gamma, Delta, G1, G2 []byte }
