package gadgets

import (
	"fmt"
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
		return templateOf(h).state(b, preimage)
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

// template is the rows of a hash: the same each time, but for the names of variables. The combinations of the partial rounds grow long, so they are worked out once.
type template struct {
	rows   []templateRow
	result circuit.Var
}

// templateRow is a row between preimage element i, as input i+1, and the hash's own variables, as auxiliary ones.
type templateRow struct {
	name    string
	a, b, c circuit.LC
}

var templates sync.Map // *poseidon.Hasher to func() *template

func templateOf(h *poseidon.Hasher) *template {
	f, ok := templates.Load(h)
	if !ok {
		f, _ = templates.LoadOrStore(h, sync.OnceValue(func() *template {
			p := permutation{h: h}
			p.run()
			return &p.template
		}))
	}
	return f.(func() *template)()
}

// state states the rows.
func (t *template) state(b *circuit.Builder, preimage []circuit.Num) circuit.Num {
	first := circuit.Aux(b.Counts().Aux)
	here := func(v circuit.Var) circuit.Var {
		switch {
		case v == circuit.One:
			return v
		case v.IsInput():
			return preimage[v.Index()-1].Var
		}
		return first + circuit.Var(v.Index())
	}
	for i := range t.rows {
		row := &t.rows[i]
		b.Alloc(&fr.Element{})
		b.Enforce(row.name, func(r *circuit.Row) {
			for v, x := range row.a.All {
				r.A.AddScaled(here(v), x)
			}
			for v, x := range row.b.All {
				r.B.AddScaled(here(v), x)
			}
			for v, x := range row.c.All {
				r.C.AddScaled(here(v), x)
			}
		})
	}
	return circuit.Num{Var: here(t.result)}
}

// permutation works out a template.
type permutation struct {
	template
	h     *poseidon.Hasher
	state []element
	round string
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
	return one(e.v)
}

func one(v circuit.Var) (l circuit.LC) {
	x := fr.One()
	l.AddVar(v, &x)
	return l
}

func (p *permutation) run() {
	h := p.h
	t := h.Width
	p.state = make([]element, t)
	first := h.First()
	p.state[0].lc.AddVar(circuit.One, &first)
	keys := h.Keys[t:]
	p.round = "first round"
	for i := 1; i < t; i++ {
		p.state[i] = element{allocated: true, v: circuit.Input(i)}
		p.sbox(i, &h.Keys[i], &keys[i])
	}
	keys = keys[t:]
	p.mix(h.MDS)
	const half = 4
	for round := 1; round < half; round++ {
		p.round = fmt.Sprint("initial full round ", round)
		for i := range t {
			p.sbox(i, nil, &keys[i])
		}
		keys = keys[t:]
		if round == half-1 {
			p.mix(h.PreSparse)
		} else {
			p.mix(h.MDS)
		}
	}
	for i := range h.Sparse {
		p.round = fmt.Sprint("partial round ", i)
		p.sbox(0, nil, &keys[i])
		p.mixSparse(&h.Sparse[i])
	}
	keys = keys[len(h.Sparse):]
	for round := range half {
		p.round = fmt.Sprint("final full round ", round)
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
	}
	p.result = p.allocate(1)
}

// row adds a row and gives the variable that it makes, less the constant after.
func (p *permutation) row(name string, a, b circuit.LC, after *fr.Element) circuit.Var {
	v := circuit.Aux(len(p.rows))
	c := one(v)
	if after != nil {
		var neg fr.Element
		c.AddVar(circuit.One, neg.Neg(after))
	}
	p.rows = append(p.rows, templateRow{p.round + "/" + name, a, b, c})
	return v
}

// allocate gives element i a variable if it has none: lc 1 = v.
func (p *permutation) allocate(i int) circuit.Var {
	e := &p.state[i]
	if !e.allocated {
		*e = element{allocated: true, v: p.row("num", e.lc, one(circuit.One), nil)}
	}
	return e.v
}

// sbox replaces element i by (element + before)^5 + after, in three rows; nil keys are zero.
func (p *permutation) sbox(i int, before, after *fr.Element) {
	l := one(p.allocate(i))
	if before != nil {
		l.AddVar(circuit.One, before)
	}
	l2 := one(p.row("l2", l, l, nil))
	l4 := one(p.row("l4", l2, l2, nil))
	p.state[i] = element{allocated: true, v: p.row("l5", l, l4, after)}
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
