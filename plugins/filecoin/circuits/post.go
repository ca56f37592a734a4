package circuits

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/circuit"
)

// PoSt is FallbackPoSt: of each sector some leaves of its replica are shown. Public inputs, sector by sector: comm_r, then the leaves' indexes.
type PoSt struct {
	Sectors []PoStSector
}

// PoStSector is one sector of a partition. All sectors have as many leaves.
type PoStSector struct {
	CommC, CommRLast, CommR fr.Element
	Leaves                  []Inclusion
}

// blankPoSt has sectors of a size with a number of challenges each.
func blankPoSt(s *sector.Size, sectors, challenges int) *PoSt {
	c := &PoSt{Sectors: make([]PoStSector, sectors)}
	leaves := make([]Inclusion, challenges) // shared: a blank circuit is only read
	for i := range leaves {
		leaves[i] = blankInclusion(s.Tree, s.Nodes())
	}
	for i := range c.Sectors {
		c.Sectors[i].Leaves = leaves
	}
	return c
}

// Synthesize implements circuit.Circuit.
func (c *PoSt) Synthesize(b *circuit.Builder) error {
	return b.Repeat("sector_", len(c.Sectors), func(b *circuit.Builder, i int) error {
		s := &c.Sectors[i]
		commRLast := b.AllocNum(&s.CommRLast)
		commC := b.AllocNum(&s.CommC)
		commR := b.AllocNum(&s.CommR)
		b.Inputize("comm_r_input", commR)
		bindCommR(b, commC, commRLast, commR)
		for n := range s.Leaves {
			b.EnterIndex("challenge_inclusion_", n)
			leaf := b.AllocNum(&s.Leaves[n].Leaf)
			gadgets.Inclusion(b, gadgets.PoseidonTree, leaf, &s.Leaves[n].Proof, known(commRLast))
			b.Leave()
		}
		return b.Err()
	})
}

// bindCommR states that comm_r is the hash of comm_c and comm_r_last.
func bindCommR(b *circuit.Builder, commC, commRLast, commR circuit.Num) {
	b.Enter("H_comm_c_comm_r_last")
	h := gadgets.PoseidonHash(b, []circuit.Num{commC, commRLast})
	b.Leave()
	b.Equal("enforce comm_r = H(comm_c || comm_r_last)", commR.Var, h.Var)
}

// known is a root that is allocated already.
func known(root circuit.Num) func(*circuit.Builder) circuit.Num {
	return func(*circuit.Builder) circuit.Num { return root }
}
