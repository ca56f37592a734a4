package circuits

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/errs"
)

func inclusionOf(m *vanilla.MerkleProof) Inclusion {
	return Inclusion{Leaf: m.Leaf, Proof: m.MerkleProof}
}

func noPartition(k, n int) error {
	return errs.Mismatch(errs.InvalidArgument, "filecoin circuit", "partition", fmt.Sprintf("one of %d", n), k)
}

// AssemblePoRep is partition k of a sealing proof. What of the answers the circuit does not read is compared by ConsistentPoRep.
func AssemblePoRep(c *vanilla.C1, k int) (*PoRep, error) {
	if k < 0 || k >= len(c.Partitions) {
		return nil, noPartition(k, len(c.Partitions))
	}
	answers := c.Partitions[k]
	out := &PoRep{
		ReplicaID: c.ReplicaID, CommD: c.CommD, CommR: c.CommR,
		CommRLast: answers[0].CommRLast.Root, CommC: answers[0].Own.Inclusion.Root,
		Challenges: make([]PoRepChallenge, len(answers)),
	}
	columns := func(in []vanilla.ColumnProof) []Column {
		out := make([]Column, len(in))
		for i := range in {
			out[i] = Column{in[i].Rows, in[i].Inclusion.MerkleProof}
		}
		return out
	}
	for i := range answers {
		a := &answers[i]
		out.Challenges[i] = PoRepChallenge{
			Node: a.Labeling[0].Node,
			Data: inclusionOf(&a.CommD),
			Base: columns(a.Base), Exp: columns(a.Exp),
			Replica: a.CommRLast.MerkleProof, Own: a.Own.Inclusion.MerkleProof,
		}
	}
	return out, nil
}

func postSector(a *vanilla.PoSt, leaves []vanilla.MerkleProof) PoStSector {
	s := PoStSector{CommC: a.CommC, CommRLast: a.CommRLast, CommR: a.CommR, Leaves: make([]Inclusion, len(leaves))}
	for i := range leaves {
		s.Leaves[i] = inclusionOf(&leaves[i])
	}
	return s
}

// AssembleWindow is partition k of a window PoSt of the sectors that gave the answers, perPartition of them in a partition. What a last partition lacks is its last
// sector, repeated.
func AssembleWindow(answers []*vanilla.PoSt, perPartition, k int) (*PoSt, error) {
	if n := (len(answers) + perPartition - 1) / perPartition; k < 0 || k >= n {
		return nil, noPartition(k, n)
	}
	c := &PoSt{Sectors: make([]PoStSector, perPartition)}
	for i := range c.Sectors {
		a := answers[min(k*perPartition+i, len(answers)-1)]
		if len(a.Leaves) != len(answers[0].Leaves) {
			return nil, errs.Mismatch(errs.InvalidArgument, "filecoin circuit", "inclusion proofs", len(answers[0].Leaves), len(a.Leaves))
		}
		c.Sectors[i] = postSector(a, a.Leaves)
	}
	return c, nil
}

// AssembleWinning is a winning PoSt of the sector that gave the answer: each leaf stands in a sector of its own.
func AssembleWinning(a *vanilla.PoSt) *PoSt {
	c := &PoSt{Sectors: make([]PoStSector, len(a.Leaves))}
	for i := range c.Sectors {
		c.Sectors[i] = postSector(a, a.Leaves[i:i+1])
	}
	return c
}

// AssembleUpdate is partition k of an update. What of the answer the circuit does not read is compared by ConsistentUpdate.
func AssembleUpdate(a *vanilla.Update, s *statement.Update, k int) (*Update, error) {
	sel, err := s.Select(k)
	if err != nil {
		return nil, err
	}
	c := blankUpdate(s.Size, false)
	first := &a.Challenges[0]
	c.Select = sel
	c.CommROld, c.CommDNew, c.CommRNew = s.CommROld, s.CommDNew, s.CommRNew
	c.CommC, c.RootROld, c.RootRNew = a.CommC, first.ROld.Root, first.RNew.Root
	c.ApexLeaves = a.ApexLeaves
	for i, step := range first.DNew.Base[s.Size.LogNodes()-c.partitionBits():] {
		c.PartitionPath[i] = step.Siblings[0]
	}
	for i := range c.Challenges {
		in, out := &a.Challenges[i], &c.Challenges[i]
		*out = UpdateChallenge{
			LeafROld: in.ROld.Leaf, LeafDNew: in.DNew.Leaf,
			PathROld: siblings(&in.ROld), PathRNew: siblings(&in.RNew), PathDNew: siblings(&in.DNew)[:len(out.PathDNew)],
		}
	}
	return c, nil
}

// siblings are those of all levels.
func siblings(m *vanilla.MerkleProof) (out [][]fr.Element) {
	for _, part := range [][]gadgets.Step{m.Base, m.Sub, m.Top} {
		for i := range part {
			out = append(out, part[i].Siblings)
		}
	}
	return out
}
