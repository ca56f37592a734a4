package snarkjs

import (
	"fmt"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
)

// Contribution is one entry of the ceremony's record. weir shows it and does not verify it: `snarkjs zkey verify` does, with the circuit and the powers of tau.
type Contribution struct {
	Name   string // as the contributor gave it, any bytes: quote it before printing
	Beacon bool   // made from a public random beacon
}

// Contributions is section 10.
type Contributions struct {
	CircuitHash [64]byte // of the key before the first contribution
	List        []Contribution
}

const (
	contributionFixed = 3*sizeG1 + sizeG2 + 64 + 4 + 4 // points, transcript hash, type, length of what follows
	// maxTranscript bounds section 10; an entry has some 650 bytes.
	maxTranscript = 16 << 20
)

// Transcript returns section 10 as it is, nil when the file has none. More than 16 MiB are refused.
func (z *ZKey) Transcript() ([]byte, error) {
	s := z.sections[secContributions]
	if s.Size == 0 {
		return nil, nil
	}
	if s.Size > maxTranscript {
		return nil, z.c.Bad(errs.Unsupported, s.Where(), fmt.Sprintf("at most %d bytes of contributions", maxTranscript), s.Size)
	}
	b := make([]byte, s.Size)
	return b, z.c.ReadAt(s, b, 0)
}

// Contributions reads the ceremony's record.
func (z *ZKey) Contributions() (*Contributions, error) {
	out := &Contributions{}
	s := z.sections[secContributions]
	if s.Size == 0 {
		return out, nil
	}
	if s.Size > maxTranscript {
		return nil, z.c.Bad(errs.Unsupported, s.Where(), fmt.Sprintf("at most %d bytes of contributions", maxTranscript), s.Size)
	}
	r := z.c.Reader(s)
	b, err := r.Next(64)
	if err != nil {
		return nil, err
	}
	copy(out.CircuitHash[:], b)
	n, err := r.U32()
	if err != nil {
		return nil, err
	}
	if int64(n)*contributionFixed > r.Rest() {
		return nil, z.c.Bad(errs.InvalidFile, r.Where(), fmt.Sprintf("at most %d contributions", r.Rest()/contributionFixed), n)
	}
	for range n {
		c, err := z.contribution(r)
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, c)
	}
	return out, r.End()
}

// contribution reads one entry. Its parameters are {kind:u8 ...}: 1 name (length:u8, text), 2 log2 of the beacon's iterations (u8), 3 beacon (length:u8, bytes).
func (z *ZKey) contribution(r *iden3.Reader) (c Contribution, err error) {
	if err := r.Skip(contributionFixed - 8); err != nil {
		return c, err
	}
	kind, err := r.U32()
	if err != nil {
		return c, err
	}
	c.Beacon = kind == 1
	left, err := r.U32()
	if err != nil {
		return c, err
	}
	next := func(n int) ([]byte, error) {
		if uint32(n) > left {
			return nil, z.c.Bad(errs.InvalidFile, r.Where(), fmt.Sprintf("%d bytes of a contribution's parameters", n), left)
		}
		left -= uint32(n)
		return r.Next(n)
	}
	for left > 0 {
		head, err := next(2)
		if err != nil {
			return c, err
		}
		kind, n := head[0], int(head[1])
		switch kind {
		case 1, 3:
			b, err := next(n)
			if err != nil {
				return c, err
			}
			if kind == 1 {
				c.Name = string(b)
			}
		case 2:
		default:
			return c, z.c.Bad(errs.InvalidFile, r.WhereBack(2), "a contribution's parameter of kind 1, 2 or 3", kind)
		}
	}
	return c, nil
}
