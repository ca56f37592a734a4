package gadgets

import (
	"math/bits"

	"github.com/weir-zk/weir/sdk/circuit"
)

// Word is 32 Bools, bit 0 the least significant. While rows are recorded it has them one by one; while values are wanted it is three machine words.
type Word struct {
	value    uint32
	constant uint32            // the constant bits
	negated  uint32            // the negations of allocated bits
	bits     *[32]circuit.Bool // while recording; never changed
}

// ConstantWord is a constant.
func ConstantWord(b *circuit.Builder, x uint32) Word {
	w := Word{value: x, constant: ^uint32(0)}
	if b.Recording() {
		w.bits = new([32]circuit.Bool)
		for i := range w.bits {
			w.bits[i] = circuit.Constant(x>>i&1 == 1)
		}
	}
	return w
}

// WordOf takes 32 bits, the most significant first.
func WordOf(b *circuit.Builder, be []circuit.Bool) Word {
	be = be[:32]
	if b.Recording() {
		w := Word{bits: new([32]circuit.Bool)}
		for i := range be {
			w.bits[31-i] = be[i]
		}
		return w
	}
	var w Word
	for i := range be {
		w.value = w.value<<1 | uint32(word(be[i].Value()))
		w.constant = w.constant<<1 | uint32(word(be[i].IsConstant()))
		w.negated = w.negated<<1 | uint32(word(be[i].IsNegated()))
	}
	return w
}

// AllocWord allocates 32 bits, least significant first, each with its row.
func AllocWord(b *circuit.Builder, name string, x uint32) Word {
	w := Word{value: x}
	if b.Recording() {
		w.bits = (*[32]circuit.Bool)(b.AllocBools(name, uint64(x), 32, nil))
		return w
	}
	w.emit(b, x, ^uint32(0))
	return w
}

// Bit is bit i, 0 the least significant.
func (w *Word) Bit(i int) circuit.Bool {
	if w.bits != nil {
		return w.bits[i]
	}
	return w.plainBit(i)
}

// plainBit is bit i without a variable.
func (w *Word) plainBit(i int) circuit.Bool {
	value, negated := w.value>>i&1 == 1, w.negated>>i&1 == 1
	switch {
	case w.constant>>i&1 == 1:
		return circuit.Constant(value)
	case negated:
		return circuit.Bit(circuit.One, !value).Not()
	}
	return circuit.Bit(circuit.One, value)
}

// setPlain sets bit i of a word that has none yet.
func (w *Word) setPlain(i int, x circuit.Bool) {
	w.value |= uint32(word(x.Value())) << i
	w.constant |= uint32(word(x.IsConstant())) << i
	w.negated |= uint32(word(x.IsNegated())) << i
}

// AppendBE appends the 32 bits, the most significant first.
func (w *Word) AppendBE(out []circuit.Bool) []circuit.Bool {
	for i := 31; i >= 0; i-- {
		out = append(out, w.Bit(i))
	}
	return out
}

// Rotr is w rotated right by n.
func (w Word) Rotr(n int) Word {
	r := Word{value: bits.RotateLeft32(w.value, -n), constant: bits.RotateLeft32(w.constant, -n), negated: bits.RotateLeft32(w.negated, -n)}
	if w.bits != nil {
		r.bits = new([32]circuit.Bool)
		for i := range r.bits {
			r.bits[i] = w.bits[(i+n)&31]
		}
	}
	return r
}

// Shr is w shifted right by n; what comes in is the constant false.
func (w Word) Shr(n int) Word {
	r := Word{value: w.value >> n, constant: ^(^w.constant >> n), negated: w.negated >> n}
	if w.bits != nil {
		r.bits = new([32]circuit.Bool)
		copy(r.bits[:], w.bits[n:])
	}
	return r
}

// emit allocates the bits of x that are in mask and counts a row for each.
func (w *Word) emit(b *circuit.Builder, x, mask uint32) {
	n := bits.OnesCount32(mask)
	if mask&(mask+1) != 0 { // not a run from bit 0 on
		gathered, k := uint32(0), 0
		for m := mask; m != 0; m &= m - 1 {
			gathered |= x >> bits.TrailingZeros32(m) & 1 << k
			k++
		}
		x = gathered
	}
	if n > 0 {
		b.AllocBits(uint64(x), n)
		b.Skip(n)
	}
}

// Xor is x xor y.
func Xor(b *circuit.Builder, x, y Word) Word {
	if b.Recording() {
		z := Word{bits: new([32]circuit.Bool)}
		for i := range z.bits {
			z.bits[i] = b.Xor(x.bits[i], y.bits[i])
		}
		return z
	}
	// A constant passes the other operand on, negated by a one; of two bits that are no constants the variables below the negations are added.
	z := Word{value: x.value ^ y.value, constant: x.constant & y.constant}
	z.negated = (x.negated | x.constant&x.value) ^ (y.negated | y.constant&y.value)
	z.negated &^= z.constant
	z.emit(b, z.value^z.negated, ^(x.constant | y.constant))
	return z
}

// ChWords is Ch bit by bit.
func ChWords(b *circuit.Builder, x, y, z Word) Word {
	if !b.Recording() && x.constant|y.constant|z.constant == 0 {
		ch := Word{value: x.value&y.value | ^x.value&z.value}
		ch.emit(b, ch.value, ^uint32(0))
		return ch
	}
	return eachBit(b, x, y, z, Ch)
}

// MajWords is Maj bit by bit.
func MajWords(b *circuit.Builder, x, y, z Word) Word {
	if !b.Recording() && x.constant|y.constant|z.constant == 0 {
		maj := Word{value: x.value&y.value | x.value&z.value | y.value&z.value}
		b.AllocBits(spread(maj.value)|spread(y.value&z.value)<<1, 64) // of each bit the majority, then y and z
		b.Skip(64)
		return maj
	}
	return eachBit(b, x, y, z, Maj)
}

func eachBit(b *circuit.Builder, x, y, z Word, f func(b *circuit.Builder, x, y, z circuit.Bool) circuit.Bool) Word {
	var out Word
	if b.Recording() {
		out.bits = new([32]circuit.Bool)
		for i := range out.bits {
			out.bits[i] = f(b, x.bits[i], y.bits[i], z.bits[i])
		}
		return out
	}
	for i := range 32 {
		out.setPlain(i, f(b, x.plainBit(i), y.plainBit(i), z.plainBit(i)))
	}
	return out
}

// spread puts bit i at place 2i.
func spread(x uint32) uint64 {
	v := uint64(x)
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & 0x0f0f0f0f0f0f0f0f
	v = (v | v<<2) & 0x3333333333333333
	return (v | v<<1) & 0x5555555555555555
}

// MultiEq packs equations between small sums into few rows: each equation is shifted above those before it, as far as a field element holds them.
type MultiEq struct {
	b        *circuit.Builder
	used     int // bits
	lhs, rhs *circuit.Combination
}

// NewMultiEq begins; Close states the last row.
func NewMultiEq(b *circuit.Builder) MultiEq {
	m := MultiEq{b: b}
	if b.Recording() {
		m.lhs, m.rhs = b.NewCombination(), b.NewCombination()
	}
	return m
}

// begin makes room for an equation of n bits and gives the place of its lowest.
func (m *MultiEq) begin(n int) int {
	if m.used+n >= packed {
		m.flush()
	}
	at := m.used
	m.used += n
	return at
}

func (m *MultiEq) flush() {
	m.b.Enforce("multieq", func(r *circuit.Row) {
		r.A.AddCombination(m.lhs)
		r.B.Add(circuit.One)
		r.C.AddCombination(m.rhs)
	})
	m.used = 0
	if m.b.Recording() {
		m.lhs.Reset()
		m.rhs.Reset()
	}
}

// Close states what is gathered.
func (m *MultiEq) Close() {
	if m.used > 0 {
		m.flush()
	}
}

// AddMany is the sum of 2 to 10 words modulo 2^32. The bits of the whole sum are allocated, each with its row, and bound by an equation of m.
func AddMany(m *MultiEq, words ...Word) Word {
	b := m.b
	if b.Recording() {
		return m.addBits(words)
	}
	sum, constant := uint64(0), ^uint32(0)
	for i := range words {
		sum += uint64(words[i].value)
		constant &= words[i].constant
	}
	if constant == ^uint32(0) {
		return Word{value: uint32(sum), constant: constant}
	}
	n := sumBits(len(words))
	b.AllocBits(sum, n)
	b.Skip(n)
	m.begin(n)
	return Word{value: uint32(sum)}
}

// sumBits is how many bits the sum of n words may have.
func sumBits(n int) int { return bits.Len64(uint64(n) * (1<<32 - 1)) }

func (m *MultiEq) addBits(words []Word) Word {
	constant, sum := true, uint32(0)
	for i := range words {
		for k, bit := range words[i].bits {
			constant = constant && bit.IsConstant()
			sum += uint32(word(bit.Value())) << k
		}
	}
	if constant {
		return ConstantWord(m.b, sum)
	}
	n := sumBits(len(words))
	result := m.b.AllocBools("result bit", 0, n, make([]circuit.Bool, 0, n))
	at := m.begin(n)
	for i := range words {
		for k, bit := range words[i].bits {
			m.lhs.AddBool(bit, at+k)
		}
	}
	for k, bit := range result {
		m.rhs.AddBool(bit, at+k)
	}
	return Word{bits: (*[32]circuit.Bool)(result)}
}
