package synthetic

import (
	"context"
	"maps"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/poseidon"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
)

// row is one level of a tree. Its nodes stand in groups of equal size, in each of which a pattern repeats; some nodes differ from the pattern. All sizes are powers of
// two. A row without repetition is one group whose pattern is the whole.
type row struct {
	size   uint64
	groups uint64
	period uint64       // nodes of a pattern
	values []fr.Element // the groups' patterns, one after the other
	own    map[uint64]fr.Element
}

// pattern is a row of leaves: value says what node i of group g's pattern is.
func pattern(size, groups, period uint64, value func(g, i uint64) fr.Element) *row {
	r := &row{size: size, groups: groups, period: min(period, size/groups)}
	r.values = make([]fr.Element, r.groups*r.period)
	for k := range r.values {
		r.values[k] = value(uint64(k)/r.period, uint64(k)%r.period)
	}
	return r
}

// whole is a row of all the leaves.
func whole(leaves []fr.Element) *row {
	n := uint64(len(leaves))
	return &row{size: n, groups: 1, period: n, values: leaves}
}

// base is node i of the pattern.
func (r *row) base(i uint64) *fr.Element {
	return &r.values[i/(r.size/r.groups)*r.period+i%r.period]
}

func (r *row) at(i uint64) fr.Element {
	if x, ok := r.own[i]; ok {
		return x
	}
	return *r.base(i)
}

// above is the next row: each node the hash of arity nodes of r.
func (r *row) above(ctx context.Context, arity uint64, hash func(children []fr.Element) fr.Element) (*row, error) {
	up := &row{size: r.size / arity, groups: r.groups, period: max(1, r.period/arity)}
	if r.size/r.groups < arity { // groups end within a node's children
		up.groups, up.period = up.size, 1
	}
	up.values = make([]fr.Element, up.groups*up.period)
	run := up.size / up.groups
	err := parallel(ctx, uint64(len(up.values)), func(from, to uint64) {
		children := make([]fr.Element, arity)
		for k := from; k < to; k++ {
			first := (k/up.period*run + k%up.period) * arity
			for i := range children {
				children[i] = *r.base(first + uint64(i))
			}
			up.values[k] = hash(children)
		}
	})
	if err != nil || len(r.own) == 0 {
		return up, err
	}
	touched := map[uint64]fr.Element{}
	for i := range r.own {
		touched[i/arity] = fr.Element{}
	}
	parents := slices.Collect(maps.Keys(touched))
	hashes := make([]fr.Element, len(parents))
	err = parallel(ctx, uint64(len(parents)), func(from, to uint64) {
		children := make([]fr.Element, arity)
		for k := from; k < to; k++ {
			for i := range children {
				children[i] = r.at(parents[k]*arity + uint64(i))
			}
			hashes[k] = hash(children)
		}
	})
	for k, p := range parents {
		touched[p] = hashes[k]
	}
	up.own = touched
	return up, err
}

// tree is a Merkle tree of rows, the leaves first, the root last.
type tree struct {
	rows           []*row
	base, sub, top []int // arities of the levels
}

// dataTree is the shape of the tree over a sector's data: binary, of SHA-256.
var dataTree = sector.Tree{Base: 2}

// grow makes the tree of that shape over leaves; it is of SHA-256 if it is dataTree, of Poseidon else.
func grow(ctx context.Context, shape sector.Tree, leaves *row) (*tree, error) {
	t := &tree{rows: []*row{leaves}}
	t.base, t.sub, t.top = shape.Levels(leaves.size)
	for _, arity := range slices.Concat(t.base, t.sub, t.top) {
		hash := func(c []fr.Element) fr.Element { return statement.DataNode(&c[0], &c[1]) }
		if shape != dataTree {
			p := poseidon.MerkleTree(arity)
			hash = func(c []fr.Element) fr.Element { return p.Hash(c...) }
		}
		up, err := t.rows[len(t.rows)-1].above(ctx, uint64(arity), hash)
		if err != nil {
			return nil, err
		}
		t.rows = append(t.rows, up)
	}
	return t, nil
}

func (t *tree) root() fr.Element { return t.rows[len(t.rows)-1].at(0) }

// prove is the Merkle proof of a leaf.
func (t *tree) prove(leaf uint64) vanilla.MerkleProof {
	m := vanilla.MerkleProof{Root: t.root(), Leaf: t.rows[0].at(leaf)}
	level, node := 0, leaf
	steps := func(arities []int) (out []gadgets.Step) {
		for _, arity := range arities {
			n := uint64(arity)
			s := gadgets.Step{Index: int(node % n)}
			for i := node - node%n; i < node-node%n+n; i++ {
				if i != node {
					s.Siblings = append(s.Siblings, t.rows[level].at(i))
				}
			}
			out = append(out, s)
			node /= n
			level++
		}
		return out
	}
	m.Base, m.Sub, m.Top = steps(t.base), steps(t.sub), steps(t.top)
	return m
}
