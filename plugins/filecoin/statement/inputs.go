package statement

import (
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// Seal is the statement of a sealing proof.
type Seal struct {
	Nodes      uint64
	PoRepID    [32]byte
	Version    sector.Version
	Challenge  sector.Challenge
	Challenges int // a partition
	CommD      fr.Element
	Sealed
}

// SealOf is the statement of a registered proof.
func SealOf(p sector.SealProof, proverID [32]byte, sectorID uint64, ticket, seed, commD, commR [32]byte) (*Seal, error) {
	size := p.Size()
	s := &Seal{Nodes: size.Nodes(), PoRepID: p.PoRepID(), Version: p.Version(), Challenge: p.Challenge(), Challenges: size.Challenges}
	var err error
	if s.CommD, err = Element("comm_d", commD); err != nil {
		return nil, err
	}
	if s.CommR, err = Element("comm_r", commR); err != nil {
		return nil, err
	}
	s.ReplicaID = ReplicaID(proverID, sectorID, ticket, commD, s.PoRepID)
	s.Seed = seed
	return s, nil
}

// Inputs are the public inputs of partition k: replica id, comm_d, comm_r, and of each challenge the leaf in the data, the parents, and the node three times: packed,
// in the replica, in the columns.
func (s *Seal) Inputs(k int) []fr.Element {
	graph := NewGraph(s.Nodes, s.PoRepID, s.Version)
	out := []fr.Element{s.ReplicaID, s.CommD, s.CommR}
	for _, c := range Challenges(s.Challenge, s.Nodes, &s.Sealed, k, s.Challenges) {
		node := fr.NewElement(c)
		out = append(out, node)
		for _, p := range graph.Parents(c) {
			out = append(out, fr.NewElement(uint64(p)))
		}
		out = append(out, node, node, node)
	}
	return out
}

// PoStSector is a sector of a PoSt's statement.
type PoStSector struct {
	ID    uint64
	CommR fr.Element
}

// PoSt is the statement of a PoSt over a list of sectors. For winning, Sectors has the one sector as often as there are challenges, PerPartition is their number and
// Challenges is 1; its version is 1.0.
type PoSt struct {
	Nodes        uint64
	Version      sector.Version
	Randomness   [32]byte
	Sectors      []PoStSector
	PerPartition int // sectors a partition
	Challenges   int // a sector
}

// Partitions is the number of partitions.
func (p *PoSt) Partitions() int { return (len(p.Sectors) + p.PerPartition - 1) / p.PerPartition }

// Leaves are the leaves that the sector at a place of the list must show.
func (p *PoSt) Leaves(place int) []uint64 {
	out := make([]uint64, p.Challenges)
	for n := range out {
		out[n] = LeafChallenge(p.Nodes, p.Randomness, p.Sectors[place].ID, ChallengeIndex(p.Version, place, n, p.Challenges))
	}
	return out
}

// Inputs are the public inputs of partition k: of each sector comm_r and its leaves. What a last partition lacks are the inputs of the last sector, repeated.
func (p *PoSt) Inputs(k int) ([]fr.Element, error) {
	if k < 0 || k >= p.Partitions() {
		return nil, errs.Mismatch(errs.InvalidArgument, "statement", "partition", "one below the number of partitions", k)
	}
	var out []fr.Element
	for i := range p.PerPartition {
		place := min(k*p.PerPartition+i, len(p.Sectors)-1)
		out = append(out, p.Sectors[place].CommR)
		for _, leaf := range p.Leaves(place) {
			out = append(out, fr.NewElement(leaf))
		}
	}
	return out, nil
}

// Update is the statement of an update.
type Update struct {
	Size                         *sector.Size
	CommROld, CommDNew, CommRNew fr.Element
	H                            int // high bits that the randomness depends on: one of Size.UpdateHs()
}

// DefaultH is the number of high bits that the network uses.
func DefaultH(s *sector.Size) int { return s.UpdateHs()[3] }

// HSelect is one bit of six: the first place of h among those allowed.
func HSelect(s *sector.Size, h int) (uint64, error) {
	for i, x := range s.UpdateHs() {
		if x == h {
			return 1 << i, nil
		}
	}
	return 0, errs.Mismatch(errs.InvalidArgument, "statement", "h", s.UpdateHs(), h)
}

// Select is the first public input of partition k: k, and h_select above it.
func (u *Update) Select(k int) (uint64, error) {
	h, err := HSelect(u.Size, u.H)
	if err != nil {
		return 0, err
	}
	if k < 0 || k >= u.Size.UpdatePartitions {
		return 0, errs.Mismatch(errs.InvalidArgument, "statement", "partition", "one below the number of partitions", k)
	}
	return h<<u.logPartitions() | uint64(k), nil
}

func (u *Update) logPartitions() int { return bits.TrailingZeros(uint(u.Size.UpdatePartitions)) }

// Inputs are the public inputs of partition k.
func (u *Update) Inputs(k int) ([]fr.Element, error) {
	sel, err := u.Select(k)
	if err != nil {
		return nil, err
	}
	return []fr.Element{fr.NewElement(sel), u.CommROld, u.CommDNew, u.CommRNew}, nil
}

// Challenges are the nodes that partition k must show.
func (u *Update) Challenges(k int) []uint64 {
	return UpdateChallenges(u.Size.LogNodes(), u.logPartitions(), &u.CommRNew, k, u.Size.UpdateChallenges)
}
