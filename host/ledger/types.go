package ledger

import (
	"fmt"
	"strings"

	"github.com/weir-zk/weir/sdk/errs"
)

// Purpose says what bytes are for.
type Purpose uint8

const (
	// Evaluations are a, b, c of a partition.
	Evaluations Purpose = iota
	// Witness is an assignment whose evaluations are alive or still to come.
	Witness
	// Shell is a witness whose evaluations are gone.
	Shell
	// Payload is a request, or a result too large for a message.
	Payload
	// Synthesis is a synthesizer's own memory while it works on a partition.
	Synthesis
	// Session is what a synthesizer keeps of an open request: its parsed circuit, unless that is shared with others, see Circuit.
	Session
	// Scratch is a prover's own memory for one proof.
	Scratch
	// Key is a loaded proving key.
	Key
	// Setup is the working memory of a development set-up.
	Setup
	// Circuit is a parsed circuit that a synthesizer keeps for all requests of it.
	Circuit

	NumPurposes
)

var purposeNames = [NumPurposes]string{"evaluations", "witness", "shell", "payload", "synthesis", "session", "scratch", "key", "setup", "circuit"}

// String is the purpose in one lower-case word.
func (p Purpose) String() string {
	if p < NumPurposes {
		return purposeNames[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Bytes has an amount for each purpose.
type Bytes [NumPurposes]int64

// Total is their sum; one that does not fit is the largest number there is.
func (b *Bytes) Total() int64 {
	var n int64
	for _, x := range b {
		n = plus(n, x)
	}
	return n
}

// String lists the amounts that are not zero: "evaluations 96MiB, witness 32MiB".
func (b *Bytes) String() string {
	var parts []string
	for p, n := range b {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%v %v", Purpose(p), Size(n)))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Priority orders requests; the zero value is Normal.
type Priority int8

const (
	Low      Priority = -1
	Normal   Priority = 0
	High     Priority = 1
	Critical Priority = 2
)

// String is the priority in one lower-case word.
func (p Priority) String() string {
	switch p {
	case Low:
		return "low"
	case Normal:
		return "normal"
	case High:
		return "high"
	case Critical:
		return "critical"
	}
	return fmt.Sprintf("priority(%d)", int8(p))
}

// ParsePriority reads what String writes; empty is Normal.
func ParsePriority(s string) (Priority, error) {
	switch strings.ToLower(s) {
	case "low":
		return Low, nil
	case "normal", "":
		return Normal, nil
	case "high":
		return High, nil
	case "critical":
		return Critical, nil
	}
	return 0, errs.Mismatch(errs.InvalidArgument, "priority", "", "low, normal, high or critical", fmt.Sprintf("%q", s))
}
