package gadgets

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// Ch is SHA-256's choice: y where x, else z. The order of the cases decides what is allocated where operands are constant.
func Ch(b *circuit.Builder, x, y, z circuit.Bool) circuit.Bool {
	value := x.Value() && y.Value() || !x.Value() && z.Value()
	switch {
	case x.IsConstant() && y.IsConstant() && z.IsConstant():
		return circuit.Constant(value)
	case isFalse(x):
		return z
	case isFalse(y):
		return b.And(x.Not(), z)
	case isFalse(z):
		return b.And(x, y)
	case isTrue(z):
		return b.And(x, y.Not()).Not()
	case isTrue(y):
		return b.And(x.Not(), z.Not()).Not()
	}
	ch := circuit.Bit(b.AllocBits(word(value), 1), value)
	b.Enforce("ch", func(r *circuit.Row) {
		r.A.AddBool(y, 0)
		r.A.SubBool(z, 0)
		r.B.AddBool(x, 0)
		r.C.AddBool(ch, 0)
		r.C.SubBool(z, 0)
	})
	return ch
}

// Maj is SHA-256's majority.
func Maj(b *circuit.Builder, x, y, z circuit.Bool) circuit.Bool {
	value := x.Value() && y.Value() || x.Value() && z.Value() || y.Value() && z.Value()
	switch {
	case x.IsConstant() && y.IsConstant() && z.IsConstant():
		return circuit.Constant(value)
	case isFalse(x):
		return b.And(y, z)
	case isFalse(y):
		return b.And(x, z)
	case isFalse(z):
		return b.And(x, y)
	case isTrue(z):
		return b.And(x.Not(), y.Not()).Not()
	case isTrue(y):
		return b.And(x.Not(), z.Not()).Not()
	case isTrue(x):
		return b.And(y.Not(), z.Not()).Not()
	}
	maj := circuit.Bit(b.AllocBits(word(value), 1), value)
	yz := b.And(y, z)
	b.Enforce("maj", func(r *circuit.Row) {
		r.A.AddBool(yz, 1)
		r.A.SubBool(y, 0)
		r.A.SubBool(z, 0)
		r.B.AddBool(x, 0)
		r.C.AddBool(yz, 0)
		r.C.SubBool(maj, 0)
	})
	return maj
}

func isFalse(x circuit.Bool) bool { return x.IsConstant() && !x.Value() }
func isTrue(x circuit.Bool) bool  { return x.IsConstant() && x.Value() }

func word(x bool) uint64 {
	if x {
		return 1
	}
	return 0
}

// packed is how many bits a number is packed of: one less than r has.
const packed = fr.Bits - 1

// PackBits is the number made of the first 254 bits, least significant first: one variable and the row sum 1 = v, also where there are no bits.
func PackBits(b *circuit.Builder, name string, bits []circuit.Bool) circuit.Num {
	bits = bits[:min(len(bits), packed)]
	x := valueOf(bits)
	n := b.AllocNum(&x)
	pack(b, name, bits, n.Var)
	return n
}

// PackIntoInputs makes a public input of each 254 bits.
func PackIntoInputs(b *circuit.Builder, name string, bits []circuit.Bool) {
	for ; len(bits) > 0; bits = bits[min(len(bits), packed):] {
		part := bits[:min(len(bits), packed)]
		x := valueOf(part)
		pack(b, name, part, b.AllocInput(&x))
	}
}

func pack(b *circuit.Builder, name string, bits []circuit.Bool, v circuit.Var) {
	b.Enforce(name, func(r *circuit.Row) {
		for i, bit := range bits {
			r.A.AddBool(bit, i)
		}
		r.B.Add(circuit.One)
		r.C.Add(v)
	})
}

// radix is 2^256 mod r: times it, the limbs of a plain number become an element.
var radix = func() fr.Element {
	x := fr.NewElement(1)
	for range 256 {
		x.Double(&x)
	}
	return x
}()

// valueOf is the number that at most 254 bits make.
func valueOf(bits []circuit.Bool) fr.Element {
	var x fr.Element
	for i, bit := range bits {
		x[i>>6] |= word(bit.Value()) << (i & 63)
	}
	return *x.Mul(&x, &radix)
}

// ReverseBitNumbering fills up with false to whole bytes and reverses the bits of each: between numbers, whose bytes begin with their least significant bit, and SHA-256.
func ReverseBitNumbering(bits []circuit.Bool) []circuit.Bool {
	out := make([]circuit.Bool, (len(bits)+7)&^7)
	for i, bit := range bits {
		out[i^7] = bit
	}
	return out
}
