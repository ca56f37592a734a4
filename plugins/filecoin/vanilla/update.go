package vanilla

import (
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// Update is one partition's answer for a sector that was updated.
type Update struct {
	CommC      fr.Element
	ApexLeaves []fr.Element
	Challenges []UpdateChallenge
}

// UpdateChallenge is a node in the trees of the old replica, the new data and the new replica.
type UpdateChallenge struct{ ROld, DNew, RNew MerkleProof }

const readUpdate = "read update answer"

// DecodeUpdate reads one partition's answer, JSON or bincode.
func DecodeUpdate(b []byte, size *sector.Size) (*Update, error) {
	var out Update
	d := newDecoder(readUpdate, b)
	d.object(
		field{"comm_c", func() { element(d, &out.CommC) }},
		field{"apex_leafs", func() { elements(d, &out.ApexLeaves) }},
		field{"challenge_proofs", func() {
			d.list(3*minMerkleProof, func(int) {
				var c UpdateChallenge
				d.object(
					field{"proof_r_old", func() { merkleProof(d, &c.ROld) }},
					field{"proof_d_new", func() { merkleProof(d, &c.DNew) }},
					field{"proof_r_new", func() { merkleProof(d, &c.RNew) }},
				)
				out.Challenges = append(out.Challenges, c)
			})
		}},
	)
	if err := d.end(); err != nil {
		return nil, err
	}
	p := &path{op: readUpdate}
	if len(out.ApexLeaves) != size.ApexLeaves {
		p.enter("apex_leafs")
		p.fail(fmt.Sprintf("%d leaves", size.ApexLeaves), len(out.ApexLeaves))
		p.leave()
	}
	p.enter("challenge_proofs")
	if len(out.Challenges) != size.UpdateChallenges {
		p.fail(fmt.Sprintf("%d challenges", size.UpdateChallenges), len(out.Challenges))
	}
	for i := range out.Challenges {
		c := &out.Challenges[i]
		p.at(i)
		for _, x := range []struct {
			name string
			m    *MerkleProof
			tree sector.Tree
		}{{"proof_r_old", &c.ROld, size.Tree}, {"proof_d_new", &c.DNew, sector.Tree{Base: 2}}, {"proof_r_new", &c.RNew, size.Tree}} {
			p.enter(x.name)
			x.m.check(p, x.tree, size.Nodes())
			p.leave()
		}
		p.leave()
	}
	if p.err != nil {
		return nil, p.err
	}
	return &out, nil
}
