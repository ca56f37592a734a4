package circuits

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
)

// Inclusion is a leaf with its Merkle proof.
type Inclusion struct {
	Leaf  fr.Element
	Proof gadgets.MerkleProof
}

// blankInclusion has the levels of a tree of that many leaves.
func blankInclusion(t sector.Tree, leaves uint64) Inclusion {
	steps := func(arities []int) []gadgets.Step {
		out := make([]gadgets.Step, len(arities))
		for i, n := range arities {
			out[i].Siblings = make([]fr.Element, n-1)
		}
		return out
	}
	base, sub, top := t.Levels(leaves)
	return Inclusion{Proof: gadgets.MerkleProof{Base: steps(base), Sub: steps(sub), Top: steps(top)}}
}

// PoR is the proof that one leaf is in a tree: the index is a public input, and the root too unless Private.
type PoR struct {
	Tree    gadgets.Tree
	Private bool
	Root    fr.Element
	Inclusion
}

// Synthesize implements circuit.Circuit.
func (c *PoR) Synthesize(b *circuit.Builder) error {
	leaf := b.AllocNum(&c.Leaf)
	var root circuit.Num
	gadgets.Inclusion(b, c.Tree, leaf, &c.Proof, func(b *circuit.Builder) circuit.Num {
		root = b.AllocNum(&c.Root)
		return root
	})
	if !c.Private {
		b.Inputize("root", root)
	}
	return b.Err()
}
