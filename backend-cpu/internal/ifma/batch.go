package ifma

import (
	"unsafe"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
)

// Point is a point of G1 or G2.
type Point interface {
	bls12381.G1Affine | bls12381.G2Affine
}

// Lanes is the number of additions in a group.
const Lanes = 8

// workElements are the elements of scratch memory that the two passes want.
const workElements = 8

// Batch is the memory for groups of additions in G1 or G2. It serves one goroutine at a time.
type Batch[P Point] struct {
	Flags  []uint8    // a bit for each lane of each group: set by Divisors
	Copies [][2]uint8 // lanes whose sum is a, and is b: read by Sums

	parts       int
	work        []Block
	den, before []Block
}

// Bytes is the memory that a batch takes for a group.
func Bytes[P Point]() int { return parts[P]()*2*int(unsafe.Sizeof(Block{})) + 3 }

func parts[P Point]() int { return int(unsafe.Sizeof(*new(P)) / unsafe.Sizeof(bls12381.G1Affine{})) }

// NewBatch makes a batch of up to the given number of groups.
func NewBatch[P Point](groups int) *Batch[P] {
	k := parts[P]()
	return &Batch[P]{
		Flags: make([]uint8, groups), Copies: make([][2]uint8, groups), parts: k,
		work: make([]Block, workElements*k), den: make([]Block, groups*k), before: make([]Block, groups*k),
	}
}

// Begin starts a batch.
func (t *Batch[P]) Begin() {
	one := [6]uint64(fp.One())
	for l := range Lanes {
		t.work[0].Set(l, &one)
	}
	if t.parts == 2 {
		t.work[1] = Block{}
	}
}

// Divisors makes the first pass over some groups, the first of which has the given number in the batch. For every group of the list there are eight
// indices in ia and ib, of points in a and b; bit 31 of an index does not matter. Lists of groups must follow each other in a batch. far says that points
// may be far from the processor, and should be asked for early.
func (t *Batch[P]) Divisors(first int, a, b []P, ia, ib []uint32, far bool) {
	groups := len(ia) / Lanes
	if groups == 0 {
		return
	}
	ib = ib[:groups*Lanes]
	ahead := 0
	if far {
		ahead = 1
	}
	f := g1Divisors
	if t.parts == 2 {
		f = g2Divisors
	}
	_ = t.Flags[first+groups-1]
	f(&t.work[0], &t.den[first*t.parts], &t.before[first*t.parts], &t.Flags[first], unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]), &ia[0], &ib[0], groups, ahead)
}

// Sums makes the second pass over some groups, last lists first: dst[id] = a[ia] + b[ib], the opposite of a point where its index has bit 31.
func (t *Batch[P]) Sums(first int, dst, a, b []P, id, ia, ib []uint32) {
	groups := len(ia) / Lanes
	if groups == 0 {
		return
	}
	id, ib = id[:groups*Lanes], ib[:groups*Lanes]
	f := g1Sums
	if t.parts == 2 {
		f = g2Sums
	}
	_ = t.Copies[first+groups-1]
	f(&t.work[0], &t.den[first*t.parts], &t.before[first*t.parts], &t.Copies[first], unsafe.Pointer(&dst[0]), unsafe.Pointer(&a[0]), unsafe.Pointer(&b[0]),
		&id[0], &ia[0], &ib[0], groups)
}

// Invert takes the inverses of the products that Divisors left, with one inversion for all lanes (Montgomery's trick again). None of them is zero.
func (t *Batch[P]) Invert() {
	reduce(&t.work[0], t.parts)
	if t.parts == 2 {
		invert2((*[2]Block)(t.work))
	} else {
		invert1(&t.work[0])
	}
}

func invert1(b *Block) {
	var v, before [Lanes]fp.Element
	inv := fp.One()
	for l := range v {
		v[l], before[l] = b.Get(l), inv
		inv.Mul(&inv, &v[l])
	}
	inv.Inverse(&inv)
	for l := Lanes - 1; l >= 0; l-- {
		before[l].Mul(&before[l], &inv)
		inv.Mul(&inv, &v[l])
		b.Set(l, (*[6]uint64)(&before[l]))
	}
}

func invert2(b *[2]Block) {
	var v, before [Lanes]bls12381.E2
	var inv bls12381.E2
	inv.SetOne()
	for l := range v {
		v[l], before[l] = bls12381.E2{A0: b[0].Get(l), A1: b[1].Get(l)}, inv
		inv.Mul(&inv, &v[l])
	}
	inv.Inverse(&inv)
	for l := Lanes - 1; l >= 0; l-- {
		before[l].Mul(&before[l], &inv)
		inv.Mul(&inv, &v[l])
		b[0].Set(l, (*[6]uint64)(&before[l].A0))
		b[1].Set(l, (*[6]uint64)(&before[l].A1))
	}
}
