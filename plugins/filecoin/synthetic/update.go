package synthetic

import (
	"context"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
)

// Update is the answers of a synthetic sector, partition by partition, to the challenges of an update, and the statement. The same seed gives the same sector.
func Update(ctx context.Context, size *sector.Size, from uint64) ([]*vanilla.Update, *UpdateCase, error) {
	s := seed(from)
	h := statement.DefaultH(size)
	groups := uint64(1) << h // nodes of a group have one rho
	leaves := func(value func(g, i uint64) fr.Element) *row { return pattern(size.Nodes(), groups, period, value) }
	old := leaves(func(g, i uint64) fr.Element { return s.element("old replica", g, i) })
	data := leaves(func(g, i uint64) fr.Element { return s.element("new data", g, i) })
	u := &updated{commC: s.element("comm_c", 0)}
	u.s = &statement.Update{Size: size, H: h}
	var err error
	if u.old, err = grow(ctx, size.Tree, old); err != nil {
		return nil, nil, err
	}
	if u.data, err = grow(ctx, dataTree, data); err != nil {
		return nil, nil, err
	}
	root := u.old.root()
	u.s.CommROld, u.s.CommDNew = statement.CommR(&u.commC, &root), u.data.root()

	phi := statement.Phi(&u.s.CommDNew, &u.s.CommROld)
	rho := make([]fr.Element, groups)
	for g := range rho {
		rho[g] = statement.Rho(&phi, uint64(g))
	}
	next := leaves(func(g, i uint64) fr.Element {
		k := g*data.period + i
		x := data.values[k]
		x.Mul(&x, &rho[g]).Add(&x, &old.values[k])
		return x
	})
	if u.next, err = grow(ctx, size.Tree, next); err != nil {
		return nil, nil, err
	}
	root = u.next.root()
	u.s.CommRNew = statement.CommR(&u.commC, &root)

	answers := make([]*vanilla.Update, size.UpdatePartitions)
	if err := each(ctx, len(answers), func(k int) { answers[k] = u.answer(k) }); err != nil {
		return nil, nil, err
	}
	return answers, &UpdateCase{
		SectorSize: size.Bytes, H: h,
		CommROld: hashOf(u.s.CommROld), CommDNew: hashOf(u.s.CommDNew), CommRNew: hashOf(u.s.CommRNew), CommRLastNew: hashOf(root),
		Partitions: size.UpdatePartitions, CacheIdentifier: statement.UpdateParameters(size, false).CacheID(), of: u.s,
	}, nil
}

// updated is a sector before and after.
type updated struct {
	s               *statement.Update
	commC           fr.Element
	old, data, next *tree // replica, new data, new replica
}

// answer is what the sector says to the challenges of partition k.
func (u *updated) answer(k int) *vanilla.Update {
	size := u.s.Size
	a := &vanilla.Update{CommC: u.commC}
	// The apex leaves are the row of tree D that has so many nodes for each partition.
	apex := u.data.rows[size.LogNodes()-bits.TrailingZeros(uint(size.UpdatePartitions*size.ApexLeaves))]
	for i := range size.ApexLeaves {
		a.ApexLeaves = append(a.ApexLeaves, apex.at(uint64(k*size.ApexLeaves+i)))
	}
	for _, node := range u.s.Challenges(k) {
		a.Challenges = append(a.Challenges, vanilla.UpdateChallenge{ROld: u.old.prove(node), DNew: u.data.prove(node), RNew: u.next.prove(node)})
	}
	return a
}
