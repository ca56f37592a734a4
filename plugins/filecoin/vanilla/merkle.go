// Package vanilla reads what a storage node hands over to be proved: the answers to challenges in the clear, with their Merkle proofs. Both forms are read, JSON as serde writes
// it and bincode 1.3. A value that is no field element, a count that cannot be, a field that is missing and bytes that are left over are errors that name the field.
package vanilla

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// MerkleProof is a Merkle proof with its two ends.
type MerkleProof struct {
	Root, Leaf fr.Element
	gadgets.MerkleProof
}

// minMerkleProof is the least size of one in bincode: its tag, its ends and the number of its levels.
const minMerkleProof = 4 + 2*fr.Bytes + 8

func merkleProof(d decoder, m *MerkleProof) {
	root := field{"root", func() { element(d, &m.Root) }}
	leaf := field{"leaf", func() { element(d, &m.Leaf) }}
	levels := func(name string, to *[]gadgets.Step) field {
		return field{name, func() { d.object(field{"path", func() { steps(d, to) }}) }}
	}
	base, sub, top := levels("base_proof", &m.Base), levels("sub_proof", &m.Sub), levels("top_proof", &m.Top)
	d.object(field{"data", func() {
		d.variant(
			field{"Single", func() { d.object(root, leaf, levels("path", &m.Base)) }},
			field{"Sub", func() { d.object(base, sub, root, leaf) }},
			field{"Top", func() { d.object(base, sub, top, root, leaf) }},
		)
	}})
}

func steps(d decoder, out *[]gadgets.Step) {
	d.list(8+8, func(int) {
		var s gadgets.Step
		var index uint64
		d.object(
			field{"hashes", func() { elements(d, &s.Siblings) }},
			field{"index", func() {
				if d.u64(&index); index > maxIndex {
					d.path().fail(fmt.Sprintf("a place up to %d", maxIndex), index)
				}
			}},
		)
		s.Index = int(index)
		*out = append(*out, s)
	})
}

// maxIndex bounds a place among siblings until check knows how many there must be.
const maxIndex = 1 << 20

// check compares the levels with those of a tree of that many leaves.
func (m *MerkleProof) check(p *path, tree sector.Tree, leaves uint64) {
	base, sub, top := tree.Levels(leaves)
	for _, part := range []struct {
		name    string
		steps   []gadgets.Step
		arities []int
	}{{"base path", m.Base, base}, {"sub path", m.Sub, sub}, {"top path", m.Top, top}} {
		p.enter(part.name)
		if len(part.steps) != len(part.arities) {
			p.fail(fmt.Sprintf("%d levels", len(part.arities)), len(part.steps))
		}
		for i := range min(len(part.steps), len(part.arities)) {
			p.at(i)
			if s, n := &part.steps[i], part.arities[i]; len(s.Siblings) != n-1 {
				p.fail(fmt.Sprintf("%d hashes", n-1), len(s.Siblings))
			} else if s.Index >= n {
				p.fail(fmt.Sprintf("an index below %d", n), s.Index)
			}
			p.leave()
		}
		p.leave()
	}
}
