package circuits

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/errs"
)

// What answers say twice, circuits read once. The functions here compare the rest with what it must be, so that an answer is good or refused, field by field, before
// anything is computed from it. Fields that circuits do not read:
//
//	sealing: the roots of all proofs but the first one's in the columns and in the replica, the leaves of columns and of the replica, the index of a column, the rows of the
//	  node's own column, layers and parents of labeling proofs, the node of all but the first, the encoding proof
//	PoSt: the roots of the inclusion proofs
//	updates: the new replica's leaf, all roots but the first two, the places in all paths, the path in the data above the apex leaf but for the first challenge's above
//	  the apex
//
// Paths in errors are those of the JSON form. Values are secret and no part of them.

// inconsistent names the field that is not what it must be.
func inconsistent(format string, args ...any) error {
	return errs.New(errs.InvalidFile, "inconsistent vanilla proof", format, args...)
}

// comparison keeps the first field that differs.
type comparison struct {
	where string
	err   error
}

func (c *comparison) must(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = inconsistent("%s.%s", c.where, fmt.Sprintf(format, args...))
	}
}

// ConsistentPoRep compares partition k of a sealing proof.
func ConsistentPoRep(c *vanilla.C1, k int) error {
	if k < 0 || k >= len(c.Partitions) {
		return noPartition(k, len(c.Partitions))
	}
	answers := c.Partitions[k]
	commC, commRLast := answers[0].Own.Inclusion.Root, answers[0].CommRLast.Root
	for i := range answers {
		a := &answers[i]
		cmp := &comparison{where: fmt.Sprintf("vanilla_proofs[%d][%d]", k, i)}
		node := a.Labeling[0].Node
		cmp.must(a.CommD.Root == c.CommD, "comm_d_proofs.root")
		cmp.must(a.CommRLast.Root == commRLast, "comm_r_last_proof.root")

		const columns = "replica_column_proofs"
		for _, part := range []struct {
			name string
			cols []vanilla.ColumnProof
		}{{"drg_parents", a.Base}, {"exp_parents", a.Exp}} {
			for j := range part.cols {
				p := &part.cols[j]
				cmp.must(uint64(p.Index) == p.Inclusion.Index(), "%s.%s[%d].column.index", columns, part.name, j)
				cmp.must(p.Inclusion.Root == commC, "%s.%s[%d].inclusion_proof.root", columns, part.name, j)
				cmp.must(p.Inclusion.Leaf == statement.Column(p.Rows), "%s.%s[%d].inclusion_proof.leaf", columns, part.name, j)
			}
		}
		labels := make([]fr.Element, len(a.Labeling))
		for l := range labels {
			parents := make([]fr.Element, 0, len(a.Base)+len(a.Exp))
			for j := range a.Base {
				parents = append(parents, a.Base[j].Rows[l])
			}
			for j := range a.Exp {
				if l > 0 {
					parents = append(parents, a.Exp[j].Rows[l-1])
				}
			}
			labels[l] = statement.Label(&c.ReplicaID, uint32(l+1), node, parents)
			cmp.labeling(&a.Labeling[l], fmt.Sprintf("labeling_proofs[%d]", l), parents, l, node)
			if l == len(labels)-1 {
				cmp.labeling(&a.Encoding, "encoding_proof", parents, l, node)
			}
			cmp.must(a.Own.Rows[l] == labels[l], "%s.c_x.column.rows[%d]", columns, l)
		}
		cmp.must(uint64(a.Own.Index) == node, "%s.c_x.column.index", columns)
		cmp.must(a.Own.Inclusion.Root == commC, "%s.c_x.inclusion_proof.root", columns)
		cmp.must(a.Own.Inclusion.Leaf == statement.Column(labels), "%s.c_x.inclusion_proof.leaf", columns)
		encoded := labels[len(labels)-1]
		encoded.Add(&encoded, &a.CommD.Leaf)
		cmp.must(a.CommRLast.Leaf == encoded, "comm_r_last_proof.leaf")
		if cmp.err != nil {
			return cmp.err
		}
	}
	return nil
}

func (c *comparison) labeling(l *vanilla.Labeling, name string, parents []fr.Element, layer int, node uint64) {
	c.must(len(l.Parents) == statement.LabelParents, "%s.parents", name)
	for i := range min(len(l.Parents), statement.LabelParents) {
		c.must(l.Parents[i] == parents[i%len(parents)], "%s.parents[%d]", name, i)
	}
	c.must(l.Layer == uint32(layer+1), "%s.layer_index", name)
	c.must(l.Node == node, "%s.node", name)
}

// ConsistentPoSt compares a sector's answer.
func ConsistentPoSt(a *vanilla.PoSt) error {
	cmp := &comparison{where: "vanilla_proof.sectors[0]"}
	for i := range a.Leaves {
		cmp.must(a.Leaves[i].Root == a.CommRLast, "inclusion_proofs[%d].root", i)
	}
	return cmp.err
}

// ConsistentUpdate compares partition k of an update.
func ConsistentUpdate(a *vanilla.Update, s *statement.Update, k int) error {
	if _, err := s.Select(k); err != nil {
		return err
	}
	c := blankUpdate(s.Size, false)
	below, apexTop := s.Size.LogNodes()-c.partitionBits()-c.apexBits(), s.Size.LogNodes()-c.partitionBits()
	apex := [][]fr.Element{a.ApexLeaves}
	for row := a.ApexLeaves; len(row) > 1; {
		next := make([]fr.Element, len(row)/2)
		for i := range next {
			next[i] = statement.DataNode(&row[2*i], &row[2*i+1])
		}
		apex = append(apex, next)
		row = next
	}
	phi := statement.Phi(&s.CommDNew, &s.CommROld)
	first := &a.Challenges[0]
	for i, node := range s.Challenges(k) {
		ch := &a.Challenges[i]
		cmp := &comparison{where: fmt.Sprintf("challenge_proofs[%d]", i)}
		cmp.must(ch.ROld.Root == first.ROld.Root, "proof_r_old.root")
		cmp.must(ch.RNew.Root == first.RNew.Root, "proof_r_new.root")
		cmp.must(ch.DNew.Root == s.CommDNew, "proof_d_new.root")
		rho := statement.Rho(&phi, node>>(s.Size.LogNodes()-s.H))
		leaf := rho
		leaf.Mul(&leaf, &ch.DNew.Leaf).Add(&leaf, &ch.ROld.Leaf)
		cmp.must(ch.RNew.Leaf == leaf, "proof_r_new.leaf")
		cmp.places(&ch.ROld, "proof_r_old", node)
		cmp.places(&ch.RNew, "proof_r_new", node)
		cmp.places(&ch.DNew, "proof_d_new", node)
		for level := below; level < s.Size.LogNodes(); level++ {
			var want fr.Element
			if level < apexTop {
				row := apex[level-below]
				want = row[node>>level&uint64(len(row)-1)^1]
			} else {
				want = first.DNew.Base[level].Siblings[0]
			}
			cmp.must(ch.DNew.Base[level].Siblings[0] == want, "proof_d_new.path[%d].hashes[0]", level)
		}
		if cmp.err != nil {
			return cmp.err
		}
	}
	return nil
}

// places compares the places of all levels with the index of a leaf.
func (c *comparison) places(m *vanilla.MerkleProof, name string, leaf uint64) {
	level := 0
	for _, part := range [][]gadgets.Step{m.Base, m.Sub, m.Top} {
		for i := range part {
			n := uint64(len(part[i].Siblings) + 1)
			c.must(uint64(part[i].Index) == leaf%n, "%s.path[%d].index", name, level)
			leaf /= n
			level++
		}
	}
}
