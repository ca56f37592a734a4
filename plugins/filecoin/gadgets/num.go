package gadgets

import (
	"fmt"

	"github.com/weir-zk/weir/sdk/circuit"
)

// Sub is x - y: one variable and the row (z + y) 1 = x.
func Sub(b *circuit.Builder, name string, x, y circuit.Num) circuit.Num {
	var z circuit.Num
	z.Value.Sub(&x.Value, &y.Value)
	z.Var = b.Alloc(&z.Value)
	b.Enforce(name, func(r *circuit.Row) {
		r.A.Add(z.Var)
		r.A.Add(y.Var)
		r.B.Add(circuit.One)
		r.C.Add(x.Var)
	})
	return z
}

// Encode is key + value: how a replica hides data.
func Encode(b *circuit.Builder, key, value circuit.Num) circuit.Num {
	return b.Add("encode", key, value)
}

// AllocUint64 allocates the 64 bits of x, least significant first, each with its row.
func AllocUint64(b *circuit.Builder, name string, x uint64) []circuit.Bool {
	return b.AllocBools(name, x, 64, make([]circuit.Bool, 0, 64))
}

// Pick is x where condition, else y: one variable and the row (y - x) condition = y - z.
func Pick(b *circuit.Builder, name string, condition circuit.Bool, x, y circuit.Num) circuit.Num {
	z := circuit.Num{Value: y.Value}
	if condition.Value() {
		z.Value = x.Value
	}
	z.Var = b.Alloc(&z.Value)
	b.Enforce(name, func(r *circuit.Row) {
		r.A.Add(y.Var)
		r.A.Sub(x.Var)
		r.B.AddBool(condition, 0)
		r.C.Add(y.Var)
		r.C.Sub(z.Var)
	})
	return z
}

// Insert is the list of siblings with x put in at the index that bits make, least significant first: 2, 4 or 8 numbers.
func Insert(b *circuit.Builder, x circuit.Num, bits []circuit.Bool, siblings []circuit.Num) []circuit.Num {
	s := siblings
	pick := func(name string, condition circuit.Bool, x, y circuit.Num) circuit.Num {
		return Pick(b, name, condition, x, y)
	}
	switch len(s) + 1 {
	case 2:
		return []circuit.Num{
			pick("binary insert 0", bits[0], s[0], x),
			pick("binary insert 1", bits[0], x, s[0]),
		}
	case 4:
		out := make([]circuit.Num, 4)
		t := pick("p0_x0", bits[0], s[0], x)
		out[0] = pick("p0", bits[1], s[0], t)
		t = pick("p1_x0", bits[0], x, s[0])
		out[1] = pick("p1", bits[1], s[1], t)
		t = pick("p2_x1", bits[0], s[2], x)
		out[2] = pick("p2", bits[1], t, s[1])
		t = pick("p3_x1", bits[0], x, s[2])
		out[3] = pick("p3", bits[1], t, s[2])
		return out
	case 8:
		nor := b.And(bits[0].Not(), bits[1].Not())
		and := b.And(bits[0], bits[1])
		out := make([]circuit.Num, 8)
		t := pick("p0_xx0", nor, x, s[0])
		out[0] = pick("p0", bits[2], s[0], t)
		t = pick("p1_x00", bits[0], x, s[0])
		t = pick("p1_xx0", bits[1], s[1], t)
		out[1] = pick("p1", bits[2], s[1], t)
		t = pick("p2_x10", bits[0], s[2], x)
		t = pick("p2_xx0", bits[1], t, s[1])
		out[2] = pick("p2", bits[2], s[2], t)
		t = pick("p3_xx0", and, x, s[2])
		out[3] = pick("p3", bits[2], s[3], t)
		t = pick("p4_xx1", nor, x, s[4])
		out[4] = pick("p4", bits[2], t, s[3])
		t = pick("p5_x01", bits[0], x, s[4])
		t = pick("p5_xx1", bits[1], s[5], t)
		out[5] = pick("p5", bits[2], t, s[4])
		t = pick("p6_x11", bits[0], s[6], x)
		t = pick("p6_xx1", bits[1], t, s[5])
		out[6] = pick("p6", bits[2], t, s[5])
		t = pick("p7_xx1", and, x, s[6])
		out[7] = pick("p7", bits[2], t, s[6])
		return out
	}
	panic(fmt.Sprintf("gadgets: insertion among %d", len(s)+1))
}

// Select is the one of 2^len(bits) numbers at the index that bits make, least significant first. It halves the list by the most significant bit first.
func Select(b *circuit.Builder, from []circuit.Num, bits []circuit.Bool) circuit.Num {
	state := append([]circuit.Num(nil), from...)
	for i := len(bits) - 1; i >= 0; i-- {
		half := len(state) / 2
		for j := range half {
			state[j] = Pick(b, "select", bits[i], state[half+j], state[j])
		}
		state = state[:half]
	}
	return state[0]
}
