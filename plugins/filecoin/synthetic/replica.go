package synthetic

import (
	"context"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
)

// replica is a sealed sector as challenges see it.
type replica struct {
	proof               sector.SealProof
	graph               *statement.Graph
	id                  fr.Element // replica id
	data, columns, last *tree      // of comm_d, comm_c and comm_r_last
	// labels are those of a node, first layer first; the caller does not change them.
	labels func(node uint64) []fr.Element
}

// column is a node's labels with the proof of their hash.
func (r *replica) column(node uint64) vanilla.ColumnProof {
	return vanilla.ColumnProof{Index: uint32(node), Rows: r.labels(node), Inclusion: r.columns.prove(node)}
}

// answer is what the sector says to a challenge.
func (r *replica) answer(node uint64) vanilla.PoRep {
	a := vanilla.PoRep{CommD: r.data.prove(node), CommRLast: r.last.prove(node), Own: r.column(node)}
	for i, p := range r.graph.Parents(node) {
		if i < sector.BaseDegree {
			a.Base = append(a.Base, r.column(uint64(p)))
		} else {
			a.Exp = append(a.Exp, r.column(uint64(p)))
		}
	}
	for l := range a.Own.Rows {
		parents := make([]fr.Element, 0, len(a.Base)+len(a.Exp))
		for i := range a.Base {
			parents = append(parents, a.Base[i].Rows[l])
		}
		for i := range a.Exp {
			if l > 0 {
				parents = append(parents, a.Exp[i].Rows[l-1])
			}
		}
		repeated := make([]fr.Element, statement.LabelParents)
		for i := range repeated {
			repeated[i] = parents[i%len(parents)]
		}
		a.Labeling = append(a.Labeling, vanilla.Labeling{Parents: repeated, Layer: uint32(l + 1), Node: node})
	}
	a.Encoding = a.Labeling[len(a.Labeling)-1]
	return a
}

// commit1 answers all challenges.
func (r *replica) commit1(ctx context.Context, seed, ticket [32]byte) (*vanilla.C1, error) {
	commC, commRLast := r.columns.root(), r.last.root()
	s := &statement.Sealed{ReplicaID: r.id, CommR: statement.CommR(&commC, &commRLast), Seed: seed}
	size := r.proof.Size()
	c := &vanilla.C1{Proof: r.proof, CommR: s.CommR, CommD: r.data.root(), ReplicaID: r.id, Seed: seed, Ticket: ticket}
	c.Partitions = make([][]vanilla.PoRep, r.proof.Partitions())
	return c, each(ctx, len(c.Partitions), func(k int) {
		for _, node := range statement.Challenges(r.proof.Challenge(), size.Nodes(), s, k, size.Challenges) {
			c.Partitions[k] = append(c.Partitions[k], r.answer(node))
		}
	})
}
