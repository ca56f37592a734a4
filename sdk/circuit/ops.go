package circuit

import "github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

// AllocBool allocates a bit and states that it is one: (1 - a) a = 0.
func (b *Builder) AllocBool(name string, value bool) Bool {
	x := Bit(b.AllocBits(boolWord(value), 1), value)
	b.boolean(name, x.v)
	return x
}

// AllocBools allocates n <= 64 bits of word, least significant first, each with its row, and appends them to out.
func (b *Builder) AllocBools(name string, word uint64, n int, out []Bool) []Bool {
	first := b.AllocBits(word, n)
	for i := range n {
		v := first + Var(i)
		b.boolean(name, v)
		out = append(out, Bit(v, word>>i&1 == 1))
	}
	return out
}

func (b *Builder) boolean(name string, v Var) {
	b.Enforce(name, func(r *Row) {
		r.A.Add(One)
		r.A.Sub(v)
		r.B.Add(v)
	})
}

func boolWord(x bool) uint64 {
	if x {
		return 1
	}
	return 0
}

// And is x and y. Constants cost nothing; otherwise one variable and the row x y = z.
func (b *Builder) And(x, y Bool) Bool {
	switch {
	case x.IsConstant():
		if x.value {
			return y
		}
		return x
	case y.IsConstant():
		return b.And(y, x)
	case x.kind == boolNot && y.kind == boolIs:
		x, y = y, x
	}
	z := Bool{kind: boolIs, value: x.value && y.value}
	z.v = b.AllocBits(boolWord(z.value), 1)
	b.Enforce("and", func(r *Row) {
		r.A.AddBool(x, 0)
		r.B.AddBool(y, 0)
		r.C.Add(z.v)
	})
	return z
}

// Or is x or y.
func (b *Builder) Or(x, y Bool) Bool { return b.And(x.Not(), y.Not()).Not() }

// Xor is x xor y. Constants cost nothing; otherwise one variable and, of the bits below negations, the row 2x y = x + y - z.
func (b *Builder) Xor(x, y Bool) Bool {
	switch {
	case x.IsConstant():
		if x.value {
			return y.Not()
		}
		return y
	case y.IsConstant():
		return b.Xor(y, x)
	case x.kind == boolNot && y.kind == boolIs:
		x, y = y, x
	}
	bit := (x.value != x.IsNegated()) != (y.value != y.IsNegated())
	z := Bool{kind: boolIs, value: bit}
	z.v = b.AllocBits(boolWord(bit), 1)
	b.Enforce("xor", func(r *Row) {
		r.A.AddPower(x.v, 1)
		r.B.Add(y.v)
		r.C.Add(x.v)
		r.C.Add(y.v)
		r.C.Sub(z.v)
	})
	if x.IsNegated() != y.IsNegated() {
		return z.Not()
	}
	return z
}

// Equal states x 1 = y.
func (b *Builder) Equal(name string, x, y Var) {
	b.Enforce(name, func(r *Row) {
		r.A.Add(x)
		r.B.Add(One)
		r.C.Add(y)
	})
}

// Inputize makes x public: a new input with the row input 1 = x.
func (b *Builder) Inputize(name string, x Num) Var {
	v := b.AllocInput(&x.Value)
	b.Equal(name, v, x.Var)
	return v
}

// Mul is x y: one variable and the row x y = z.
func (b *Builder) Mul(name string, x, y Num) Num {
	var z Num
	z.Value.Mul(&x.Value, &y.Value)
	z.Var = b.Alloc(&z.Value)
	b.Enforce(name, func(r *Row) {
		r.A.Add(x.Var)
		r.B.Add(y.Var)
		r.C.Add(z.Var)
	})
	return z
}

// Add is x + y: one variable and the row (x + y) 1 = z.
func (b *Builder) Add(name string, x, y Num) Num {
	var z Num
	z.Value.Add(&x.Value, &y.Value)
	z.Var = b.Alloc(&z.Value)
	b.Enforce(name, func(r *Row) {
		r.A.Add(x.Var)
		r.A.Add(y.Var)
		r.B.Add(One)
		r.C.Add(z.Var)
	})
	return z
}

// fieldBits is how many bits a field element has.
const fieldBits = fr.Bits

// ToBits are the 255 bits of x, least significant first, with a row for each and 0 0 = sum - x. A value below 2^255 - r has a second representation that the rows allow:
// the bits are those of a number equal to x modulo r, not surely below r.
func (b *Builder) ToBits(name string, x Num) []Bool {
	out := b.AllocFieldBits(name, &x.Value)
	b.Enforce(name, func(r *Row) {
		for i, bit := range out {
			r.C.AddPower(bit.v, i)
		}
		r.C.Sub(x.Var)
	})
	return out
}

// AllocFieldBits allocates the 255 bits of a value, least significant first, with a row for each and nothing that binds them together.
func (b *Builder) AllocFieldBits(name string, x *fr.Element) []Bool {
	out := make([]Bool, 0, fieldBits)
	for i, limb := range x.Bits() {
		out = b.AllocBools(name, limb, min(64, fieldBits-64*i), out)
	}
	return out
}
