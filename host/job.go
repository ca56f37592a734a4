package host

import (
	"fmt"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Priority orders jobs. The zero value is Normal.
type Priority = ledger.Priority

// The priorities, least urgent first.
const (
	Low      = ledger.Low
	Normal   = ledger.Normal
	High     = ledger.High
	Critical = ledger.Critical
)

// ParsePriority reads "low", "normal" (or nothing), "high" or "critical".
func ParsePriority(s string) (Priority, error) { return ledger.ParsePriority(s) }

// Job is one request: it has one or more partitions of one circuit and is answered with as many proofs, in the same order.
type Job struct {
	// ID is unique among the jobs an engine knows; empty: one is made. A job with the id and content of another is answered with that
	// one's result and runs once; one with the same id and other content is refused (errs.Conflict).
	ID       string
	Priority Priority
	// Deadline ends the job with errs.Deadline; zero: none.
	Deadline time.Time
	// Backend names one of Config.Backends; empty: Config.Backend.
	Backend string
	// Kind of request; empty: "circom".
	Kind string
	// Key is the path of the proving key (.zkey, .wkey or .params, recognised by content).
	Key string
	// Circuit is the path of the constraint system (.r1cs). It may be empty where the key carries the matrices.
	Circuit string
	// Symbols is the path of a .sym file: signal names for messages. May be empty.
	Symbols string
	// Partitions has at least one element.
	Partitions []Partition
	// Options go to the synthesizer. What Check says is not among them.
	Options map[string]string
	// Check says whether a witness that violates a constraint is refused before anything is proved (errs.Unsatisfied names the first one). A bad witness
	// that is not checked is noticed when its proof does not verify.
	Check Check
	// InsecureTestRandomness fixes r and s of every proof of the job. Refused unless Config.TestRandomness.
	InsecureTestRandomness *groth16.Randomness
}

// Check says whether witnesses are checked against the constraints.
type Check uint8

const (
	// CheckAuto checks where the C rows are at hand: a .r1cs, or a key that has them.
	CheckAuto Check = iota
	// CheckOn checks, and refuses a job where they are not.
	CheckOn
	// CheckOff does not check.
	CheckOff
)

// String is the value of the synthesizer's option.
func (c Check) String() string {
	switch c {
	case CheckAuto:
		return "auto"
	case CheckOn:
		return "on"
	case CheckOff:
		return "off"
	}
	return fmt.Sprintf("check(%d)", uint8(c))
}

// Partition is where one witness comes from: a file (.wtns), or a program (.wasm) and its inputs (.json).
type Partition struct {
	Witness string
	Program string
	Inputs  string
}

// Result is a job's answer. Every proof in it has been verified against the key and the job's own public inputs.
type Result struct {
	JobID      string
	Proofs     []groth16.Proof   // one a partition
	Public     [][]fr.Element    // public inputs of each, the one not counted
	Partitions []PartitionReport // what happened to each
	Key        groth16.Shape     // of the proving key
	VK         *groth16.VerifyingKey
	Insecure   bool          // the key was made by a development set-up, or randomness was fixed
	Elapsed    time.Duration // from Prove to the answer
	Peak       Report        // of the engine, since its start
}

// PartitionReport tells where the time of a partition went. The times are those of the attempt that succeeded, but for Total.
type PartitionReport struct {
	Partition     int
	Backend       string // name in the configuration
	Device        string
	Attempts      int // 1 when nothing failed
	CircuitDigest [32]byte
	NbConstraints int
	NbWires       int
	NbPublic      int
	WitnessBytes  int64

	Admission time.Duration // waiting for permit, bytes and key
	KeyLoad   time.Duration // loading the key, when this partition had to
	Synthesis time.Duration
	Queue     time.Duration // waiting for a lane
	Consume   time.Duration // prove start to evaluations consumed
	OnDevice  time.Duration // evaluations consumed to device done
	Finish    time.Duration // device done to proof
	Verify    time.Duration
	Total     time.Duration // of all attempts, from the first request for memory to the checked proof

	Steps []contract.StageTime // as the backend reports them
}

// SetupJob makes a development key: whoever runs it could forge proofs, and the key file says so.
type SetupJob struct {
	// Circuit is the path of the constraint system, Out where the key (.wkey) goes. An existing file is replaced when the new one is whole.
	Circuit string
	Out     string
	// Backend names a backend that makes keys; empty: the first that does.
	Backend string
	// Rows and H are the layout of the key: zero values are weir's own; (RowsFive, HOddCoset) can be written as .zkey.
	Rows groth16.RowOrder
	H    groth16.HBasis
	// Seed or Scalars fix the secrets; both nil: fresh randomness.
	Seed    []byte
	Scalars *contract.ToxicScalars
	// Progress, when not nil, is called with the step and the fraction done, 0 to 1.
	Progress func(stage string, fraction float64)
}

// SetupResult describes the key that was made.
type SetupResult struct {
	Shape   groth16.Shape
	Bytes   int64
	Elapsed time.Duration
	Peak    Report
}
