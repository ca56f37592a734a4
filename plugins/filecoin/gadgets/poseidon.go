package gadgets

import (
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/poseidon"
	"github.com/weir-zk/weir/sdk/circuit"
)

// PoseidonHash is the hash of 2, 4, 8 or 11 numbers as trees, columns and commitments use it.
func PoseidonHash(b *circuit.Builder, preimage []circuit.Num) circuit.Num {
	return Poseidon(b, poseidon.MerkleTree(len(preimage)), preimage)
}

// updateHash is the hash of two numbers that sector updates derive randomness with.
var updateHash = sync.OnceValue(func() *poseidon.Hasher { return poseidon.Custom(2, 1) })

// UpdateHash is the hash of two numbers that sector updates derive randomness with.
func UpdateHash(b *circuit.Builder, x, y circuit.Num) circuit.Num {
	return Poseidon(b, updateHash(), []circuit.Num{x, y})
}

// Poseidon is the hash of h.Arity numbers. Each row makes one variable.
func Poseidon(b *circuit.Builder, h *poseidon.Hasher, preimage []circuit.Num) circuit.Num {
	if b.Recording() {
		return (&permutation{b: b, h: h}).record(preimage)
	}
	var in [11]fr.Element
	for i := range preimage {
		in[i] = preimage[i].Value
	}
	var room [poseidon.MaxTrace]fr.Element
	trace := h.Trace(room[:0], in[:len(preimage)])
	b.Skip(len(trace))
	var v circuit.Var
	for i := range trace {
		v = b.Alloc(&trace[i])
	}
	return circuit.Num{Var: v, Value: trace[len(trace)-1]}
}

// permutation records the rows.
type permutation struct {
	b     *circuit.Builder
	h     *poseidon.Hasher
	state []element
}

// element of the state: a variable, or a combination that has none yet.
type element struct {
	allocated bool
	v         circuit.Var
	lc        circuit.LC
}

func (e *element) combination() circuit.LC {
	if !e.allocated {
		return e.lc
	}
	var lc circuit.LC
	one := fr.One()
	lc.AddVar(e.v, &one)
	return lc
}

func (p *permutation) record(preimage []circuit.Num) circuit.Num {
	b, h := p.b, p.h
	t := h.Width
	p.state = make([]element, t)
	first := h.First()
	p.state[0].lc.AddVar(circuit.One, &first)
	keys := h.Keys[t:]
	b.Enter("first round")
	for i, n := range preimage {
		p.state[i+1] = element{allocated: true, v: n.Var}
		p.sbox(i+1, &h.Keys[i+1], &keys[i+1])
	}
	keys = keys[t:]
	p.mix(h.MDS)
	b.Leave()
	const half = 4
	for round := 1; round < half; round++ {
		b.EnterIndex("initial full round ", round)
		for i := range t {
			p.sbox(i, nil, &keys[i])
		}
		keys = keys[t:]
		if round == half-1 {
			p.mix(h.PreSparse)
		} else {
			p.mix(h.MDS)
		}
		b.Leave()
	}
	for i := range h.Sparse {
		b.EnterIndex("partial round ", i)
		p.sbox(0, nil, &keys[i])
		p.mixSparse(&h.Sparse[i])
		b.Leave()
	}
	keys = keys[len(h.Sparse):]
	for round := range half {
		b.EnterIndex("final full round ", round)
		for i := range t {
			var key *fr.Element
			if round < half-1 {
				key = &keys[i]
			}
			p.sbox(i, nil, key)
		}
		if round < half-1 {
			keys = keys[t:]
		}
		p.mix(h.MDS)
		b.Leave()
	}
	return circuit.Num{Var: p.allocate(1)}
}

// allocate gives element i a variable if it has none: lc 1 = v.
func (p *permutation) allocate(i int) circuit.Var {
	e := &p.state[i]
	if e.allocated {
		return e.v
	}
	v := p.b.Alloc(&fr.Element{})
	p.b.Enforce("num", func(r *circuit.Row) {
		r.A.AddLC(&e.lc)
		r.B.Add(circuit.One)
		r.C.Add(v)
	})
	*e = element{allocated: true, v: v}
	return v
}

// sbox replaces element i by (element + before)^5 + after, in three rows; nil keys are zero.
func (p *permutation) sbox(i int, before, after *fr.Element) {
	b := p.b
	l := p.allocate(i)
	l2 := b.Alloc(&fr.Element{})
	b.Enforce("l2", func(r *circuit.Row) {
		for _, c := range []*circuit.Combination{&r.A, &r.B} {
			c.Add(l)
			if before != nil {
				c.AddScaled(circuit.One, before)
			}
		}
		r.C.Add(l2)
	})
	l4 := b.Alloc(&fr.Element{})
	b.Enforce("l4", func(r *circuit.Row) {
		r.A.Add(l2)
		r.B.Add(l2)
		r.C.Add(l4)
	})
	l5 := b.Alloc(&fr.Element{})
	b.Enforce("l5", func(r *circuit.Row) {
		r.A.Add(l)
		if before != nil {
			r.A.AddScaled(circuit.One, before)
		}
		r.B.Add(l4)
		r.C.Add(l5)
		if after != nil {
			var neg fr.Element
			r.C.AddScaled(circuit.One, neg.Neg(after))
		}
	})
	p.state[i] = element{allocated: true, v: l5}
}

// mix is the state times m.
func (p *permutation) mix(m [][]fr.Element) {
	out := make([]element, len(p.state))
	for i := range p.state {
		lc := p.state[i].combination()
		for j := range out {
			out[j].lc.AddScaled(&lc, &m[i][j])
		}
	}
	p.state = out
}

func (p *permutation) mixSparse(m *poseidon.Sparse) {
	first := p.state[0].combination()
	var sum circuit.LC
	for i := range p.state {
		lc := p.state[i].combination()
		sum.AddScaled(&lc, &m.Column[i])
	}
	for j := 1; j < len(p.state); j++ {
		lc := p.state[j].combination()
		lc.AddScaled(&first, &m.Row[j-1])
		p.state[j] = element{lc: lc}
	}
	p.state[0] = element{lc: sum}
}
