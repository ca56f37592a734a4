package circuits

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
)

// PoRep is StackedDrg PoRep: one partition of the proof that a sector was sealed. Public inputs: replica id, comm_d, comm_r, then of each challenge the indexes
// that its 17 Merkle proofs lead to and the challenge itself, in the order of the rows.
type PoRep struct {
	ReplicaID, CommD, CommR, CommRLast, CommC fr.Element
	Challenges                                []PoRepChallenge
}

// PoRepChallenge is the node of one challenge with all that it was made from.
type PoRepChallenge struct {
	Node    uint64
	Data    Inclusion           // of the data node in comm_d
	Base    []Column            // the parents in the own layer
	Exp     []Column            // the parents in the layer below
	Replica gadgets.MerkleProof // of the encoded node in comm_r_last
	Own     gadgets.MerkleProof // of the node's column in comm_c
}

// Column is the labels of a node, the first layer first, and their hash's Merkle proof.
type Column struct {
	Labels []fr.Element
	Proof  gadgets.MerkleProof
}

func blankPoRep(s *sector.Size, challenges int) *PoRep {
	c := &PoRep{Challenges: make([]PoRepChallenge, challenges)}
	tree := blankInclusion(s.Tree, s.Nodes()).Proof
	columns := func(n int) []Column {
		out := make([]Column, n)
		for i := range out {
			out[i] = Column{make([]fr.Element, s.Layers), tree}
		}
		return out
	}
	blank := PoRepChallenge{
		Data: blankInclusion(sector.Tree{Base: 2}, s.Nodes()),
		Base: columns(sector.BaseDegree), Exp: columns(sector.ExpansionDegree), Replica: tree, Own: tree,
	}
	for i := range c.Challenges {
		c.Challenges[i] = blank // its slices are shared: a blank circuit is only read
	}
	return c
}

// poRepCommon is what all challenges refer to.
type poRepCommon struct {
	replicaID              []circuit.Bool
	commD, commRLast, comm circuit.Num
}

// Synthesize implements circuit.Circuit.
func (c *PoRep) Synthesize(b *circuit.Builder) error {
	replicaID := b.AllocNum(&c.ReplicaID)
	b.Inputize("replica_id_input", replicaID)
	b.Enter("replica_id_bits")
	p := poRepCommon{replicaID: gadgets.ReverseBitNumbering(b.ToBits("replica_id_bits", replicaID))}
	b.Leave()
	p.commD = b.AllocNum(&c.CommD)
	b.Inputize("comm_d_input", p.commD)
	commR := b.AllocNum(&c.CommR)
	b.Inputize("comm_r_input", commR)
	p.commRLast = b.AllocNum(&c.CommRLast)
	p.comm = b.AllocNum(&c.CommC)
	bindCommR(b, p.comm, p.commRLast, commR)
	return b.Repeat("challenge_", len(c.Challenges), func(b *circuit.Builder, i int) error {
		c.Challenges[i].synthesize(b, &p)
		return b.Err()
	})
}

func (c *PoRepChallenge) synthesize(b *circuit.Builder, p *poRepCommon) {
	data := b.AllocNum(&c.Data.Leaf)
	include(b, "comm_d_inclusion", gadgets.SHA256Tree, data, &c.Data.Proof, p.commD)
	base := parents(b, "drg_parent_", c.Base, p)
	exp := parents(b, "exp_parent_", c.Exp, p)

	b.Enter("challenge")
	node := gadgets.AllocUint64(b, "challenge", c.Node)
	gadgets.PackIntoInputs(b, "challenge input", node)
	b.Leave()

	// The labels are not read from the proof: each is computed, and the last one must decode to the data.
	layers := len(c.Base[0].Labels)
	labels := make([]circuit.Num, layers)
	for l := range labels {
		b.EnterIndex("labeling_", l+1)
		var bits [][]circuit.Bool
		for _, column := range base {
			bits = append(bits, gadgets.ReverseBitNumbering(b.ToBits("drg_parent_bits", column[l])))
		}
		if l > 0 {
			for _, column := range exp {
				bits = append(bits, gadgets.ReverseBitNumbering(b.ToBits("exp_parent_bits", column[l-1])))
			}
		}
		labels[l] = gadgets.CreateLabel(b, p.replicaID, bits, uint32(l+1), node)
		b.Leave()
	}

	encoded := gadgets.Encode(b, labels[layers-1], data)
	include(b, "comm_r_last_data_inclusion", gadgets.PoseidonTree, encoded, &c.Replica, p.commRLast)
	b.Enter("c_x_column_hash")
	own := gadgets.PoseidonHash(b, labels)
	b.Leave()
	include(b, "c_x_inclusion", gadgets.PoseidonTree, own, &c.Own, p.comm)
}

// parents allocates the labels of columns, hashes each column and shows that it is in comm_c.
func parents(b *circuit.Builder, name string, columns []Column, p *poRepCommon) [][]circuit.Num {
	out := make([][]circuit.Num, len(columns))
	for i := range columns {
		c := &columns[i]
		b.EnterIndex(name, i)
		for j := range c.Labels {
			out[i] = append(out[i], b.AllocNum(&c.Labels[j]))
		}
		b.Enter("constraint")
		h := gadgets.PoseidonHash(b, out[i])
		b.Leave()
		include(b, "inclusion", gadgets.PoseidonTree, h, &c.Proof, p.comm)
		b.Leave()
	}
	return out
}

func include(b *circuit.Builder, name string, tree gadgets.Tree, leaf circuit.Num, proof *gadgets.MerkleProof, root circuit.Num) {
	b.Enter(name)
	gadgets.Inclusion(b, tree, leaf, proof, known(root))
	b.Leave()
}
