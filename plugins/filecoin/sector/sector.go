// Package sector has the sizes that Filecoin's sectors come in, and what follows from each: trees, layers, partitions, challenges.
package sector

import (
	"math/bits"
	"slices"
	"strconv"

	"github.com/weir-zk/weir/sdk/errs"
)

// NodeBytes is the size of a node: one field element.
const NodeBytes = 32

// Tree is the shape of a replica's Merkle tree: base trees of arity Base, Sub of which are joined, Top of which are joined again; 0 where there is no such level.
type Tree struct{ Base, Sub, Top int }

// Size is a sector size. The zero Layers means that sectors of the size can be updated in tests and not sealed.
type Size struct {
	Name  string // as circuit ids have it: "32g"
	Bytes uint64
	Tree  Tree
	// Sealing: layers of labels, partitions of a proof, challenges a partition.
	Layers, Partitions, Challenges int
	// Window PoSt: sectors a partition.
	WindowSectors int
	// Updates: partitions, challenges a partition, leaves of the apex tree.
	UpdatePartitions, UpdateChallenges, ApexLeaves int
}

// Counts that do not depend on the size.
const (
	BaseDegree        = 6 // parents in the own layer
	ExpansionDegree   = 8 // parents in the layer below
	WindowChallenges  = 10
	WinningChallenges = 66
)

const kib = 1 << 10

// Sizes are in ascending order.
var Sizes = []Size{
	{"1k", kib, Tree{8, 4, 0}, 0, 0, 0, 0, 1, 10, 8},
	{"2k", 2 * kib, Tree{8, 0, 0}, 2, 1, 2, 2, 1, 10, 8},
	{"4k", 4 * kib, Tree{8, 2, 0}, 2, 1, 2, 2, 1, 10, 8},
	{"8k", 8 * kib, Tree{8, 4, 0}, 0, 0, 0, 0, 1, 10, 8},
	{"16k", 16 * kib, Tree{8, 8, 0}, 2, 1, 2, 2, 2, 10, 128},
	{"32k", 32 * kib, Tree{8, 8, 2}, 2, 1, 2, 2, 2, 10, 128},
	{"8m", 8 << 20, Tree{8, 0, 0}, 2, 1, 2, 2, 4, 10, 128},
	{"16m", 16 << 20, Tree{8, 2, 0}, 2, 1, 2, 2, 4, 10, 128},
	{"512m", 512 << 20, Tree{8, 0, 0}, 2, 1, 2, 2, 16, 86, 128},
	{"1g", 1 << 30, Tree{8, 2, 0}, 2, 1, 2, 2, 16, 86, 128},
	{"32g", 32 << 30, Tree{8, 8, 0}, 11, 10, 18, 2349, 16, 86, 128},
	{"64g", 64 << 30, Tree{8, 8, 2}, 11, 10, 18, 2300, 16, 86, 128},
}

// Named is the size of that name.
func Named(name string) (*Size, error) {
	i := slices.IndexFunc(Sizes, func(s Size) bool { return s.Name == name })
	if i < 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "sector size", "name", "one of 1k, 2k, ... 64g", strconv.Quote(name))
	}
	return &Sizes[i], nil
}

// OfBytes is the size of that many bytes.
func OfBytes(n uint64) (*Size, error) {
	i := slices.IndexFunc(Sizes, func(s Size) bool { return s.Bytes == n })
	if i < 0 {
		return nil, errs.Mismatch(errs.InvalidArgument, "sector size", "bytes", "a size of Filecoin", n)
	}
	return &Sizes[i], nil
}

// Nodes is the number of nodes of a sector.
func (s *Size) Nodes() uint64 { return s.Bytes / NodeBytes }

// LogNodes is the binary logarithm of Nodes.
func (s *Size) LogNodes() int { return bits.TrailingZeros64(s.Nodes()) }

// UpdateHs are the numbers of high bits of a node's index that an update may take its randomness from.
func (s *Size) UpdateHs() [6]int {
	if s.Bytes <= 32*kib {
		return [6]int{1, 1, 1, 1, 1, 1}
	}
	return [6]int{7, 8, 9, 10, 11, 12}
}

// Levels are the arities of a tree with that many leaves, from the leaves up: of the base tree, then of the levels above it.
func (t Tree) Levels(leaves uint64) (base, sub, top []int) {
	if t.Sub > 0 {
		leaves /= uint64(t.Sub)
		sub = []int{t.Sub}
	}
	if t.Top > 0 {
		leaves /= uint64(t.Top)
		top = []int{t.Top}
	}
	for ; leaves > 1; leaves /= uint64(t.Base) {
		base = append(base, t.Base)
	}
	return base, sub, top
}

// String is "8-8-2", zeros included.
func (t Tree) String() string {
	return strconv.Itoa(t.Base) + "-" + strconv.Itoa(t.Sub) + "-" + strconv.Itoa(t.Top)
}
