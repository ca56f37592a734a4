package gadgets

import (
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// Tree is the hash of a Merkle tree's nodes.
type Tree interface {
	// Hash is the parent of its children.
	Hash(b *circuit.Builder, children []circuit.Num) circuit.Num
}

type poseidonTree struct{}

// Hash implements Tree.
func (poseidonTree) Hash(b *circuit.Builder, children []circuit.Num) circuit.Num {
	return PoseidonHash(b, children)
}

type sha256Tree struct{}

// Hash implements Tree: all children are decomposed first, each into 32 bytes; of the digest the first 254 bits count, as a number.
func (sha256Tree) Hash(b *circuit.Builder, children []circuit.Num) circuit.Num {
	message := make([]circuit.Bool, 0, 256*len(children))
	for _, c := range children {
		message = append(message, ReverseBitNumbering(b.ToBits("num into bits", c))...)
	}
	return PackBits(b, "digest into number", ReverseBitNumbering(SHA256(b, message)))
}

// The trees of Filecoin.
var (
	PoseidonTree Tree = poseidonTree{} // columns and replicas
	SHA256Tree   Tree = sha256Tree{}   // data
)

// Step is one level of a Merkle proof, from the leaf up: the other children, in order, and the place of the own one among them.
type Step struct {
	Siblings []fr.Element
	Index    int
}

// MerkleProof is a proof as circuits take it, level by level: those of the base tree, then of the tree above the base trees, then of the tree above those.
type MerkleProof struct {
	Base, Sub, Top []Step
}

// Index is the leaf that the proof leads to: the places of all levels, base first.
func (p *MerkleProof) Index() uint64 {
	index, shift := uint64(0), 0
	for _, part := range [][]Step{p.Base, p.Sub, p.Top} {
		for _, s := range part {
			index |= uint64(s.Index) << shift
			shift += indexBits(len(s.Siblings))
		}
	}
	return index
}

// indexBits is how many bits tell the place among that many siblings.
func indexBits(siblings int) int { return bits.Len(uint(siblings)) }

// Inclusion states that leaf is under root, at the place that becomes a public input. Places and siblings are allocated here, level by level.
func Inclusion(b *circuit.Builder, tree Tree, leaf circuit.Num, proof *MerkleProof, root func(b *circuit.Builder) circuit.Num) {
	cur := leaf
	var path []circuit.Bool
	for _, part := range []struct {
		name  string
		steps []Step
	}{{"base", proof.Base}, {"sub", proof.Sub}, {"top", proof.Top}} {
		b.Enter(part.name)
		for i := range part.steps {
			b.EnterIndex("merkle tree hash ", i)
			s := &part.steps[i]
			index := b.AllocBools("index bit", uint64(s.Index), indexBits(len(s.Siblings)), nil)
			siblings := allocAll(b, s.Siblings)
			cur = tree.Hash(b, Insert(b, cur, index, siblings))
			path = append(path, index...)
			b.Leave()
		}
		b.Leave()
	}
	PackIntoInputs(b, "path", path)
	b.Equal("enforce inclusion", cur.Var, root(b).Var)
}

func allocAll(b *circuit.Builder, xs []fr.Element) []circuit.Num {
	out := make([]circuit.Num, len(xs))
	for i := range xs {
		out[i] = b.AllocNum(&xs[i])
	}
	return out
}

// Included states that leaf is under root at the place that bits make, least significant first, all of which are allocated already. There is no public input.
func Included(b *circuit.Builder, tree Tree, leaf circuit.Num, bits []circuit.Bool, path [][]circuit.Num, root circuit.Num) {
	cur := leaf
	for i, siblings := range path {
		b.EnterIndex("merkle tree hash ", i)
		n := indexBits(len(siblings))
		cur = tree.Hash(b, Insert(b, cur, bits[:n], siblings))
		bits = bits[n:]
		b.Leave()
	}
	b.Equal("enforce inclusion", cur.Var, root.Var)
}
