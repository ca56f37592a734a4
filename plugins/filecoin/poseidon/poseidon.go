// Package poseidon is the Poseidon hash with the parameters of Filecoin: arities 2, 4, 8 and 11 over the scalar field of BLS12-381, s-box x^5, 128 bits of security.
//
// Source: L. Grassi, D. Khovratovich, C. Rechberger, A. Roy, M. Schofnegger, "Poseidon: A New Hash Function for Zero-Knowledge Proof Systems", USENIX Security 2021; with
// the Cauchy matrix 1/(i + t + j), the first element of the state as domain tag, and the second element of the last state as the result.
package poseidon

import (
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Hasher hashes Arity elements under one domain tag. Safe for concurrent use.
type Hasher struct {
	*Constants
	Tag fr.Element
	// first is element 0 after the first s-box: it is the same for all preimages.
	first fr.Element
}

var trees = map[int]func() *Hasher{2: merkleTree(2), 4: merkleTree(4), 8: merkleTree(8), 11: merkleTree(11)}

func merkleTree(arity int) func() *Hasher {
	return sync.OnceValue(func() *Hasher { return newHasher(arity, fr.NewElement(1<<arity-1)) })
}

// MerkleTree is the hash of trees, columns and commitments: its tag is 2^arity - 1. arity is 2, 4, 8 or 11.
func MerkleTree(arity int) *Hasher { return trees[arity]() }

// Custom is the hash of another domain: its tag is id times 2^40. Sector updates use arity 2 and id 1.
func Custom(arity int, id uint64) *Hasher {
	return newHasher(arity, fr.NewElement(id<<40))
}

func newHasher(arity int, tag fr.Element) *Hasher {
	h := &Hasher{Constants: ConstantsOf(arity), Tag: tag}
	h.first.Add(&tag, &h.Keys[0])
	fifth(&h.first)
	h.first.Add(&h.first, &h.Keys[h.Width])
	return h
}

func fifth(x *fr.Element) {
	var y fr.Element
	y.Square(x).Square(&y)
	x.Mul(x, &y)
}

// First is element 0 of the state after the first s-box and its key, before the matrix.
func (h *Hasher) First() fr.Element { return h.first }

// maxWidth bounds the width, so that states need no allocation.
const maxWidth = 12

// MaxTrace is the longest trace: that of arity 11.
const MaxTrace = 3*11 + 4*((fullRounds-1)*maxWidth+57) + 1

// state is a permutation at work. Its trace, if wanted, gets the values that a circuit allocates: see Trace.
type state struct {
	h     *Hasher
	s     [maxWidth]fr.Element
	trace []fr.Element
	want  bool
}

// Hash is the hash of Arity elements.
func (h *Hasher) Hash(preimage ...fr.Element) fr.Element {
	x := state{h: h}
	return x.run(preimage)
}

// Trace appends to trace the values of the hash's circuit in the order of its variables, and returns it; the last one is the hash. For the first s-box of each
// preimage element: x^2, x^4, x^5 plus key; for each later s-box: x, x^2, x^4, x^5 plus key; in the end the result.
func (h *Hasher) Trace(trace, preimage []fr.Element) []fr.Element {
	x := state{h: h, trace: trace, want: true}
	x.run(preimage)
	return x.trace
}

// TraceLen is the number of values that Trace appends.
func (h *Hasher) TraceLen() int {
	return 3*h.Arity + 4*((fullRounds-1)*h.Width+h.PartialRounds) + 1
}

func (x *state) run(preimage []fr.Element) fr.Element {
	h := x.h
	t := h.Width
	preimage = preimage[:h.Arity]
	keys := h.Keys[t:]
	x.s[0] = h.first
	for i := range preimage {
		x.s[i+1].Add(&preimage[i], &h.Keys[i+1])
		x.sbox(&x.s[i+1], &keys[i+1], false)
	}
	keys = keys[t:]
	x.mix(h.MDS)
	for round := 1; round < fullRounds/2; round++ {
		for i := range t {
			x.sbox(&x.s[i], &keys[i], true)
		}
		keys = keys[t:]
		if round == fullRounds/2-1 {
			x.mix(h.PreSparse)
		} else {
			x.mix(h.MDS)
		}
	}
	for i := range h.Sparse {
		x.sbox(&x.s[0], &keys[i], true)
		x.mixSparse(&h.Sparse[i])
	}
	keys = keys[len(h.Sparse):]
	var zero fr.Element
	for round := range fullRounds / 2 {
		last := round == fullRounds/2-1
		for i := range t {
			key := &zero
			if !last {
				key = &keys[i]
			}
			x.sbox(&x.s[i], key, true)
		}
		if last {
			break
		}
		keys = keys[t:]
		x.mix(h.MDS)
	}
	// Of the last product one element is wanted.
	var out, p fr.Element
	for i := range t {
		out.Add(&out, p.Mul(&x.s[i], &h.MDS[i][1]))
	}
	if x.want {
		x.trace = append(x.trace, out)
	}
	return out
}

// sbox is v^5 + key.
func (x *state) sbox(v, key *fr.Element, traced bool) {
	var v2, v4 fr.Element
	v2.Square(v)
	v4.Square(&v2)
	if !x.want {
		v.Mul(v, &v4).Add(v, key)
		return
	}
	if traced {
		x.trace = append(x.trace, *v)
	}
	v.Mul(v, &v4).Add(v, key)
	x.trace = append(x.trace, v2, v4, *v)
}

// mix is the state times m.
func (x *state) mix(m [][]fr.Element) {
	t := x.h.Width
	var out [maxWidth]fr.Element
	var p fr.Element
	for j := range t {
		for i := range t {
			out[j].Add(&out[j], p.Mul(&x.s[i], &m[i][j]))
		}
	}
	x.s = out
}

func (x *state) mixSparse(m *Sparse) {
	t := x.h.Width
	var sum, p fr.Element
	for i := range t {
		sum.Add(&sum, p.Mul(&x.s[i], &m.Column[i]))
	}
	for j := 1; j < t; j++ {
		x.s[j].Add(&x.s[j], p.Mul(&x.s[0], &m.Row[j-1]))
	}
	x.s[0] = sum
}
