package synthetic

import (
	"context"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/sdk/errs"
)

// seal seals a sector for real: all labels, all trees. data has a value for each node.
func (s *sealing) seal(ctx context.Context, data []fr.Element) (*replica, error) {
	size := s.proof.Size()
	r := &replica{proof: s.proof, graph: s.graph()}
	var err error
	if r.data, err = grow(ctx, dataTree, whole(data)); err != nil {
		return nil, err
	}
	r.id = s.replicaID(r.data.root())

	layers := make([][]fr.Element, size.Layers)
	for l := range layers {
		layers[l] = make([]fr.Element, len(data))
		var below []fr.Element
		if l > 0 {
			below = layers[l-1]
		}
		step := fmt.Sprintf("labels of layer %d", l+1)
		tell := func(nodes int) {
			s.tell(step, shareOfLabels*(float64(l)+float64(nodes)/float64(len(data)))/float64(len(layers)))
		}
		if err := r.layer(ctx, l, layers[l], below, tell); err != nil {
			return nil, err
		}
	}
	r.labels = func(node uint64) []fr.Element {
		labels := make([]fr.Element, len(layers))
		for l := range labels {
			labels[l] = layers[l][node]
		}
		return labels
	}

	s.tell("trees", shareOfLabels)
	columns, last := make([]fr.Element, len(data)), make([]fr.Element, len(data))
	err = parallel(ctx, uint64(len(data)), func(from, to uint64) {
		for i := from; i < to; i++ {
			columns[i] = statement.Column(r.labels(i))
			last[i] = encode(layers[len(layers)-1][i], data[i])
		}
	})
	if err != nil {
		return nil, err
	}
	if r.columns, err = grow(ctx, size.Tree, whole(columns)); err != nil {
		return nil, err
	}
	r.last, err = grow(ctx, size.Tree, whole(last))
	return r, err
}

// shareOfLabels is roughly how much of the time of sealing labels take; the rest goes into trees.
const shareOfLabels = 0.6

// parents are those of one node.
type parents = [sector.BaseDegree + sector.ExpansionDegree]uint32

// layer computes the labels of one layer, counted from 0, node after node: each needs the one before. Finding the parents is most of the work; other processors do that ahead.
func (r *replica) layer(ctx context.Context, l int, labels, below []fr.Element, tell func(nodes int)) error {
	const ahead = 1 << 16
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks := make(chan []parents, 1)
	var failed error
	go func() {
		defer close(blocks)
		for first := 0; first < len(labels); first += ahead {
			b := make([]parents, min(ahead, len(labels)-first))
			if failed = parallel(ctx, uint64(len(b)), func(from, to uint64) {
				for i := from; i < to; i++ {
					b[i] = r.graph.Parents(uint64(first) + i)
				}
			}); failed != nil {
				return
			}
			select {
			case blocks <- b:
			case <-ctx.Done():
				failed = errs.Wrap(ctx.Err(), op)
				return
			}
		}
	}()
	node := 0
	var values [sector.BaseDegree + sector.ExpansionDegree]fr.Element
	for b := range blocks {
		for i := range b {
			known := values[:sector.BaseDegree]
			for j, p := range b[i][:sector.BaseDegree] {
				values[j] = labels[p]
			}
			if l > 0 {
				known = values[:]
				for j, p := range b[i][sector.BaseDegree:] {
					values[sector.BaseDegree+j] = below[p]
				}
			}
			labels[node] = statement.Label(&r.id, uint32(l+1), uint64(node), known)
			node++
		}
		tell(node)
	}
	return failed // after the channel was closed
}
