package synthetic

import (
	"context"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/errs"
)

// maxSectors bounds the sectors of a window PoSt: more than a deadline has.
const maxSectors = 1 << 16

// Window is the answers of synthetic sectors to the challenges of a window PoSt of an API version, and the statement. The same seed gives the same sectors.
func Window(ctx context.Context, size *sector.Size, version sector.Version, sectors int, from uint64) ([]*vanilla.PoSt, *PoStCase, error) {
	if sectors < 1 || sectors > maxSectors {
		return nil, nil, errs.Mismatch(errs.InvalidArgument, op, "sectors", fmt.Sprintf("1 to %d", maxSectors), sectors)
	}
	counts := PoStCounts{sector.WindowChallenges, size.WindowSectors}
	return post(ctx, size, &PoStCase{Type: "window", version: version, Config: counts, Circuit: counts}, sectors, seed(from))
}

// Winning is the answer of a synthetic sector to the challenges of a winning PoSt, and the statement. The same seed gives the same sector.
func Winning(ctx context.Context, size *sector.Size, from uint64) (*vanilla.PoSt, *PoStCase, error) {
	c := &PoStCase{Type: "winning", version: sector.V1_0, Config: PoStCounts{sector.WinningChallenges, 1}, Circuit: PoStCounts{1, sector.WinningChallenges}}
	answers, c, err := post(ctx, size, c, 1, seed(from))
	if err != nil {
		return nil, nil, err
	}
	return answers[0], c, nil
}

func post(ctx context.Context, size *sector.Size, c *PoStCase, sectors int, from seed) ([]*vanilla.PoSt, *PoStCase, error) {
	if size.Layers == 0 {
		return nil, nil, errs.New(errs.InvalidArgument, op, "sectors of %s are only updated, in tests: no PoSt is made of them", size.Name)
	}
	c.APIVersion, c.SectorSize = apiVersion(c.version), size.Bytes
	c.Randomness, c.ProverID = from.bytes("randomness"), from.prover()
	c.CacheIdentifier = statement.PoStParameters(size, c.Circuit.Sectors, c.Circuit.Challenges).CacheID()
	for i := range sectors {
		c.Sectors = append(c.Sectors, PoStSector{ID: from.sector(uint64(i))})
	}
	s, err := c.Statement() // what challenges follow from is in it
	if err != nil {
		return nil, nil, err
	}
	c.Partitions = s.Partitions()
	places := len(s.Sectors) / sectors // of each sector in the statement
	answers := make([]*vanilla.PoSt, sectors)
	failed := make([]error, sectors)
	err = each(ctx, sectors, func(i int) {
		a := &vanilla.PoSt{SectorID: c.Sectors[i].ID, CommC: from.element("comm_c", uint64(i))}
		leaves := pattern(size.Nodes(), 1, period, func(_, k uint64) fr.Element { return from.element("replica", uint64(i), k) })
		leaves.own = map[uint64]fr.Element{}
		var nodes []uint64
		for p := range places {
			nodes = append(nodes, s.Leaves(i*places+p)...)
		}
		for _, node := range nodes {
			leaves.own[node] = from.element("leaf", uint64(i), node)
		}
		var t *tree
		if t, failed[i] = grow(ctx, size.Tree, leaves); failed[i] != nil {
			return
		}
		for _, node := range nodes {
			a.Leaves = append(a.Leaves, t.prove(node))
		}
		a.CommRLast = t.root()
		a.CommR = statement.CommR(&a.CommC, &a.CommRLast)
		c.Sectors[i].CommR = hashOf(a.CommR)
		answers[i] = a
	})
	for _, f := range failed {
		if err == nil {
			err = f
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return answers, c, nil
}
