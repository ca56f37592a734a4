package synthetic

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/errs"
)

// op is for errors.
const op = "make a synthetic sector"

// period is how many nodes the patterns of synthetic sectors have.
const period = 64

// maxSealed is the size, in bytes, up to which sectors are sealed for real.
const maxSealed = 512 << 20

// PoRep is the answer of a synthetic sector to the challenges of a sealing proof, and the statement. Sectors whose challenges are not interactive are sealed for real;
// above 512 MiB they are refused with errs.Unsupported. The same seed gives the same sector. progress, unless nil, is told how far sealing is, from 0 to 1.
func PoRep(ctx context.Context, proof sector.SealProof, from uint64, progress func(step string, fraction float64)) (*vanilla.C1, *SealCase, error) {
	if !proof.Valid() {
		return nil, nil, errs.Mismatch(errs.InvalidArgument, op, "registered seal proof", fmt.Sprintf("a number below %d", len(sector.SealProofs())), uint32(proof))
	}
	s := seed(from)
	in := &sealing{proof: proof, proverID: s.prover(), sectorID: s.sector(0), ticket: s.bytes("ticket"), seed: s.bytes("seed"), progress: progress}
	if proof.Challenge() == sector.Interactive {
		return in.commit1(ctx, func(ctx context.Context) (*replica, error) { return in.imitate(ctx, s) })
	}
	size := proof.Size()
	if size.Bytes > maxSealed {
		return nil, nil, errs.New(errs.Unsupported, op,
			"the challenges of %s follow from comm_r, so the sector has to be sealed for real, which is done up to 512 MiB", proof).
			WithHint("interactive proofs, such as StackedDrg32GiBV1_1, are made at every size")
	}
	return in.commit1(ctx, func(ctx context.Context) (*replica, error) {
		data := make([]fr.Element, size.Nodes())
		if err := parallel(ctx, uint64(len(data)), func(from, to uint64) {
			for i := from; i < to; i++ {
				data[i] = s.element("data", i)
			}
		}); err != nil {
			return nil, err
		}
		return in.seal(ctx, data)
	})
}

// sealing is what a sector is sealed with, beside its data.
type sealing struct {
	proof        sector.SealProof
	proverID     [32]byte
	sectorID     uint64
	ticket, seed [32]byte
	progress     func(step string, fraction float64)
}

func (s *sealing) tell(step string, fraction float64) {
	if s.progress != nil {
		s.progress(step, fraction)
	}
}

func (s *sealing) commit1(ctx context.Context, seal func(context.Context) (*replica, error)) (*vanilla.C1, *SealCase, error) {
	r, err := seal(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := r.commit1(ctx, s.seed, s.ticket)
	if err != nil {
		return nil, nil, err
	}
	return c, s.statement(r, c), nil
}

// replicaID is known as soon as comm_d is.
func (s *sealing) replicaID(commD fr.Element) fr.Element {
	return statement.ReplicaID(s.proverID, s.sectorID, s.ticket, bytesOf(&commD), s.proof.PoRepID())
}

func (s *sealing) graph() *statement.Graph {
	return statement.NewGraph(s.proof.Size().Nodes(), s.proof.PoRepID(), s.proof.Version())
}

// imitate makes a sector of which only the challenged nodes are sealed. The proof is interactive.
func (s *sealing) imitate(ctx context.Context, from seed) (*replica, error) {
	size := s.proof.Size()
	n, layers := size.Nodes(), size.Layers
	r := &replica{proof: s.proof, graph: s.graph()}
	data := pattern(n, 1, period, func(_, i uint64) fr.Element { return from.element("data", i) })
	var err error
	if r.data, err = grow(ctx, dataTree, data); err != nil {
		return nil, err
	}
	r.id = s.replicaID(r.data.root())

	// Challenged nodes and their parents get labels of their own, so that no two nodes that a circuit sees are equal.
	challenged := map[uint64]bool{}
	sealed := &statement.Sealed{ReplicaID: r.id, Seed: s.seed}
	for k := range size.Partitions {
		for _, node := range statement.Challenges(sector.Interactive, n, sealed, k, size.Challenges) {
			challenged[node] = true
		}
	}
	own := map[uint64][]fr.Element{}
	for node := range challenged {
		own[node] = make([]fr.Element, layers)
		for _, p := range r.graph.Parents(node) {
			own[uint64(p)] = nil
		}
	}
	for node := range own {
		labels := make([]fr.Element, layers)
		for l := range labels {
			labels[l] = from.element("label", uint64(l), node)
		}
		own[node] = labels
	}
	// In this order a parent that is challenged itself has its label before it is read.
	order := slices.Sorted(maps.Keys(challenged))
	for l := range layers {
		for _, node := range order {
			all := r.graph.Parents(node)
			parents := make([]fr.Element, 0, len(all))
			for _, p := range all[:sector.BaseDegree] {
				parents = append(parents, own[uint64(p)][l])
			}
			for _, p := range all[sector.BaseDegree:] {
				if l > 0 {
					parents = append(parents, own[uint64(p)][l-1])
				}
			}
			own[node][l] = statement.Label(&r.id, uint32(l+1), node, parents)
		}
	}
	r.labels = func(node uint64) []fr.Element { return own[node] } // no other is asked for

	// A pattern's nodes have labels too, which only their hashes show.
	shared := func(l int, i uint64) fr.Element { return from.element("pattern", uint64(l), i) }
	columns := pattern(n, 1, period, func(_, i uint64) fr.Element {
		labels := make([]fr.Element, layers)
		for l := range labels {
			labels[l] = shared(l, i)
		}
		return statement.Column(labels)
	})
	last := pattern(n, 1, period, func(_, i uint64) fr.Element { return encode(shared(layers-1, i), data.at(i)) })
	columns.own, last.own = map[uint64]fr.Element{}, map[uint64]fr.Element{}
	for node, labels := range own {
		columns.own[node] = statement.Column(labels)
		last.own[node] = encode(labels[layers-1], data.at(node))
	}
	if r.columns, err = grow(ctx, size.Tree, columns); err != nil {
		return nil, err
	}
	r.last, err = grow(ctx, size.Tree, last)
	return r, err
}

// encode is a node of the replica.
func encode(label, data fr.Element) fr.Element {
	label.Add(&label, &data)
	return label
}
