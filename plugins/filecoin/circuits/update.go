package circuits

import (
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
)

// Update is EmptySectorUpdate: one partition of the proof that data was put into an empty sector. Public inputs: k and h_select in one number, comm_r of the old
// sector, comm_d and comm_r of the new one.
//
// In the Poseidon variant the new data's tree is of the same kind as the replica's, and one partition has the challenges of all: its first input is h_select alone.
type Update struct {
	Size     *sector.Size
	Poseidon bool

	// Select is h_select, one bit of six, shifted left by the bits of the partition, and the partition below.
	Select                       uint64
	CommROld, CommDNew, CommRNew fr.Element
	CommC, RootROld, RootRNew    fr.Element
	ApexLeaves                   []fr.Element // not in the Poseidon variant
	PartitionPath                []fr.Element // the siblings above the apex tree; not in the Poseidon variant
	Challenges                   []UpdateChallenge
}

// UpdateChallenge is one node before and after: its siblings in the trees, level by level from the leaf up. The new leaf is computed, not read.
type UpdateChallenge struct {
	LeafROld, LeafDNew fr.Element
	PathROld, PathRNew [][]fr.Element
	PathDNew           [][]fr.Element // up to the apex leaf only; in the Poseidon variant up to the root
}

// updateHSelects is the number of ways to choose h.
const updateHSelects = 6

// partitionBits are the bits of a partition's number: none in the Poseidon variant.
func (c *Update) partitionBits() int {
	if c.Poseidon {
		return 0
	}
	return bits.TrailingZeros(uint(c.Size.UpdatePartitions))
}

// apexBits are the levels of the apex tree.
func (c *Update) apexBits() int {
	if c.Poseidon {
		return 0
	}
	return bits.TrailingZeros(uint(c.Size.ApexLeaves))
}

func blankUpdate(s *sector.Size, poseidon bool) *Update {
	c := &Update{Size: s, Poseidon: poseidon}
	siblings := func(arities ...int) [][]fr.Element {
		out := make([][]fr.Element, len(arities))
		for i, n := range arities {
			out[i] = make([]fr.Element, n-1)
		}
		return out
	}
	base, sub, top := s.Tree.Levels(s.Nodes())
	r := siblings(append(append(base, sub...), top...)...)
	d := r
	n := s.UpdateChallenges
	if poseidon {
		n *= s.UpdatePartitions
	} else {
		c.ApexLeaves = make([]fr.Element, s.ApexLeaves)
		c.PartitionPath = make([]fr.Element, c.partitionBits())
		d = nil
		for range s.LogNodes() - c.partitionBits() - c.apexBits() {
			d = append(d, make([]fr.Element, 1))
		}
	}
	c.Challenges = make([]UpdateChallenge, n)
	for i := range c.Challenges {
		c.Challenges[i] = UpdateChallenge{PathROld: r, PathRNew: r, PathDNew: d} // shared: a blank circuit is only read
	}
	return c
}

// updateCommon is what all challenges refer to.
type updateCommon struct {
	partition []circuit.Bool
	hSelect   []circuit.Bool
	phi       circuit.Num
	commDNew  circuit.Num
	rootROld  circuit.Num
	rootRNew  circuit.Num
	apex      []circuit.Num
}

// Synthesize implements circuit.Circuit.
func (c *Update) Synthesize(b *circuit.Builder) error {
	var p updateCommon
	var partition circuit.Num
	name := "k_and_h_select"
	if c.Poseidon {
		name = "h_select"
	}
	x := fr.NewElement(c.Select)
	sel := b.AllocNum(&x)
	b.Inputize(name+" (public input)", sel)
	selBits := b.AllocBools(name+"_bit", c.Select, c.partitionBits()+updateHSelects, nil)
	bindBits(b, name+" binary decomp", selBits, sel)
	p.partition, p.hSelect = selBits[:c.partitionBits()], selBits[c.partitionBits():]
	if !c.Poseidon {
		b.Enter("pack partition bits")
		partition = gadgets.PackBits(b, "packing constraint", p.partition) // a row also where there are no bits
		b.Leave()
	}
	public := func(name string, x *fr.Element) circuit.Num {
		n := b.AllocNum(x)
		b.Inputize(name, n)
		return n
	}
	commROld := public("comm_r_old_input", &c.CommROld)
	p.commDNew = public("comm_d_new_input", &c.CommDNew)
	commRNew := public("comm_r_new_input", &c.CommRNew)
	b.Enter("phi")
	p.phi = gadgets.UpdateHash(b, p.commDNew, commROld)
	b.Leave()

	commC := b.AllocNum(&c.CommC)
	p.rootROld = b.AllocNum(&c.RootROld)
	p.rootRNew = b.AllocNum(&c.RootRNew)
	p.apex = allocAll(b, c.ApexLeaves)
	path := make([][]circuit.Num, len(c.PartitionPath))
	for i := range path {
		path[i] = allocAll(b, c.PartitionPath[i:i+1])
	}
	bindUpdated(b, "comm_r_old", commC, p.rootROld, commROld)
	bindUpdated(b, "comm_r_new", commC, p.rootRNew, commRNew)
	if c.Poseidon {
		partition = b.AllocNum(&fr.Element{}) // nothing states that it is zero, as in the original
	} else {
		b.Enter("apex_gadget")
		root := gadgets.ApexRoot(b, p.apex)
		gadgets.Included(b, gadgets.SHA256Tree, root, p.partition, path, p.commDNew)
		b.Leave()
	}
	b.Enter("gen_challenge_bits")
	challenges := gadgets.ChallengeBits(b, commRNew, partition, len(c.Challenges), c.Size.LogNodes()-c.partitionBits())
	b.Leave()
	return b.Repeat("challenge ", len(c.Challenges), func(b *circuit.Builder, i int) error {
		c.challenge(b, &p, &c.Challenges[i], challenges[i])
		return b.Err()
	})
}

// bindBits states sum 1 = x.
func bindBits(b *circuit.Builder, name string, bits []circuit.Bool, x circuit.Num) {
	b.Enforce(name, func(r *circuit.Row) {
		for i, bit := range bits {
			r.A.AddBool(bit, i)
		}
		r.B.Add(circuit.One)
		r.C.Add(x.Var)
	})
}

// bindUpdated states that comm_r is the hash of comm_c and the replica's root: the hash is on the left side here.
func bindUpdated(b *circuit.Builder, name string, commC, root, commR circuit.Num) {
	b.Enter(name + "_calc")
	h := gadgets.PoseidonHash(b, []circuit.Num{commC, root})
	b.Leave()
	b.Equal("enforce "+name+"_calc == "+name, h.Var, commR.Var)
}

func allocAll(b *circuit.Builder, xs []fr.Element) []circuit.Num {
	out := make([]circuit.Num, len(xs))
	for i := range xs {
		out[i] = b.AllocNum(&xs[i])
	}
	return out
}

func allocPath(b *circuit.Builder, path [][]fr.Element) [][]circuit.Num {
	out := make([][]circuit.Num, len(path))
	for i := range path {
		out[i] = allocAll(b, path[i])
	}
	return out
}

func (c *Update) challenge(b *circuit.Builder, p *updateCommon, ch *UpdateChallenge, generated []circuit.Bool) {
	index := append(append(make([]circuit.Bool, 0, c.Size.LogNodes()), generated...), p.partition...)
	b.Enter("get_challenge_high_bits")
	high := gadgets.HighBits(b, index, p.hSelect, c.Size.UpdateHs())
	b.Leave()
	b.Enter("rho")
	rho := gadgets.UpdateHash(b, p.phi, high)
	b.Leave()

	old := b.AllocNum(&ch.LeafROld)
	data := b.AllocNum(&ch.LeafDNew)
	b.Enter("leaf_r_new")
	leaf := b.Add("label_r_new", old, b.Mul("leaf_d_new * rho", data, rho))
	b.Leave()

	include := func(name string, tree gadgets.Tree, leaf circuit.Num, bits []circuit.Bool, path [][]fr.Element, root circuit.Num) {
		b.Enter(name)
		gadgets.Included(b, tree, leaf, bits, allocPath(b, path), root)
		b.Leave()
	}
	include("por tree_r_old", gadgets.PoseidonTree, old, index, ch.PathROld, p.rootROld)
	include("por tree_r_new", gadgets.PoseidonTree, leaf, index, ch.PathRNew, p.rootRNew)
	if c.Poseidon {
		include("por tree_d_new", gadgets.PoseidonTree, data, index, ch.PathDNew, p.commDNew)
		return
	}
	below := c.Size.LogNodes() - c.partitionBits() - c.apexBits()
	b.Enter("select_apex_leaf")
	apex := gadgets.Select(b, p.apex, index[below:below+c.apexBits()])
	b.Leave()
	include("por to_apex_leaf", gadgets.SHA256Tree, data, index[:below], ch.PathDNew, apex)
}
