package statement

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"golang.org/x/crypto/blake2b"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// Graph tells each node's parents. Safe for concurrent use.
type Graph struct {
	nodes   uint64
	version sector.Version
	seed    [28]byte  // of the base graph
	keys    [3]uint64 // of the expander
	half    int       // half of the bits that the expander permutes
}

// NewGraph is the graph of a sealing proof with that id over that many nodes.
func NewGraph(nodes uint64, porepID [32]byte, version sector.Version) *Graph {
	g := &Graph{nodes: nodes, version: version}
	seed := sha256.Sum256(append([]byte("Filecoin_DRSample"), porepID[:]...))
	copy(g.seed[:], seed[:])
	keys := sha256.Sum256(append([]byte("Filecoin_Feistel"), porepID[:]...))
	for i := range g.keys {
		g.keys[i] = binary.LittleEndian.Uint64(keys[8*i:])
	}
	g.half = (bits.Len64(sector.ExpansionDegree*nodes-1) + 1) / 2
	return g
}

// Parents are a node's parents in the order in which labels hash them: 6 of the own layer, then 8 of the layer below.
func (g *Graph) Parents(node uint64) (p [sector.BaseDegree + sector.ExpansionDegree]uint32) {
	base := g.Base(node)
	copy(p[:], base[:])
	exp := g.Expander(node)
	copy(p[sector.BaseDegree:], exp[:])
	return p
}

// Base are the parents in the own layer. Source: J. Alwen, J. Blocki, B. Harsha, "Practical Graphs for Optimal Side-Channel Resistant Memory-Hard Functions", CCS 2017,
// algorithm DRSample over a graph of 5 nodes for each of ours; the sixth parent is the node before, which version 1.0 puts last and later versions first.
func (g *Graph) Base(node uint64) (p [sector.BaseDegree]uint32) {
	if node < 2 {
		return p
	}
	const degree = sector.BaseDegree - 1
	var key [32]byte
	copy(key[:], g.seed[:])
	binary.LittleEndian.PutUint32(key[28:], uint32(node))
	r := chacha8{key: key}
	out := p[:degree]
	p[degree] = uint32(node - 1)
	if g.version >= sector.V1_1 {
		out = p[1:]
		p[0] = uint32(node - 1)
	}
	fine := degree * node
	buckets := uint64(bits.Len64(fine - 1))
	for i := range out {
		bucket := r.next()%buckets + 1
		far := min(fine, 1<<bucket)
		near := max(2, far/2)
		back := near + r.next()%(far-near+1)
		parent := (fine - back) / degree
		if parent == node {
			parent--
		}
		out[i] = uint32(parent)
	}
	return p
}

// Expander are the parents in the layer below: a permutation of 8 edges a node, by three rounds of Feistel that are repeated until the result is an edge. Version 1.0
// cuts the result to 32 bits.
func (g *Graph) Expander(node uint64) (p [sector.ExpansionDegree]uint32) {
	edges := sector.ExpansionDegree * g.nodes
	for i := range p {
		x := g.permute(sector.ExpansionDegree*node + uint64(i))
		for x >= edges {
			x = g.permute(x)
		}
		if g.version == sector.V1_0 {
			x = uint64(uint32(x))
		}
		p[i] = uint32(x / sector.ExpansionDegree)
	}
	return p
}

func (g *Graph) permute(x uint64) uint64 {
	mask := uint64(1)<<g.half - 1
	left, right := x>>g.half, x&mask
	for _, key := range g.keys {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], right)
		binary.BigEndian.PutUint64(b[8:], key)
		d := blake2b.Sum512(b[:])
		left, right = right, left^binary.BigEndian.Uint64(d[:])&mask
	}
	return left<<g.half | right
}

// chacha8 is ChaCha with 8 rounds as a generator: counter and stream begin at zero, words come in order, the low one of two first.
type chacha8 struct {
	key   [32]byte
	block uint64
	words [16]uint32
	used  int // of words, from the end: 0 means that none is left
}

func (c *chacha8) next() uint64 {
	lo := c.word()
	return uint64(lo) | uint64(c.word())<<32
}

func (c *chacha8) word() uint32 {
	if c.used == 0 {
		c.fill()
		c.used = len(c.words)
	}
	c.used--
	return c.words[len(c.words)-1-c.used]
}

// fill computes the next block. Source: D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008, with 64 bits of counter.
func (c *chacha8) fill() {
	in := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	for i := range 8 {
		in[4+i] = binary.LittleEndian.Uint32(c.key[4*i:])
	}
	in[12], in[13] = uint32(c.block), uint32(c.block>>32)
	c.block++
	w := in
	quarter := func(a, b, c, d int) {
		w[a] += w[b]
		w[d] = bits.RotateLeft32(w[d]^w[a], 16)
		w[c] += w[d]
		w[b] = bits.RotateLeft32(w[b]^w[c], 12)
		w[a] += w[b]
		w[d] = bits.RotateLeft32(w[d]^w[a], 8)
		w[c] += w[d]
		w[b] = bits.RotateLeft32(w[b]^w[c], 7)
	}
	for range 4 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range w {
		c.words[i] = w[i] + in[i]
	}
}
