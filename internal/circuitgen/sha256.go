package circuitgen

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// SHA256 hashes a private random message of 64·Blocks-9 bytes, which with its
// padding is exactly Blocks blocks. The message bits are private inputs; the digest
// is public as two outputs, its first and its last 16 bytes as big-endian numbers.
//
// The rows have the shapes of circom's own SHA-256: two rows a bit for a
// three-way exclusive or and for maj, one for ch, x·(x-1) = 0 for each bit of a sum, and
// one linear row (C only) that binds the bits of a sum to its summands. The constants
// (initial state, padding) are wires bound by linear rows, as circom does without
// full simplification. A block takes 29,040 rows; circomlib's some 31,500, mostly
// since it also makes a sum of its own of sigma0 and maj. The wires are 57.7 % zero and
// 42.3 % one (circomlib's, with a second block that is all padding: 59.0 % and 40.9 %).
//
// See FIPS 180-4, sections 4.1.2, 4.2.2, 5.3.3 and 6.2.
type SHA256 struct {
	Blocks int // at least 1
	Seed   uint64
}

const (
	sha256Outputs  = 2
	sha256PadBits  = 72  // 0x80 and the length of the message
	sha256InitBits = 256 // the initial state

	// Rows of one block: message bits; message schedule (48 words, each with two
	// sigmas of 29 or 22 three-way and 3 or 10 two-way xors, and a sum of four); 64
	// rounds (two sums of rotations, ch, maj, and sums of five, two and
	// three); eight sums at the end.
	sha256BlockRows = 512 + 48*(2*29+3+2*22+10+34+1) +
		64*(64+64+32+64+(35+1)+(33+1)+(34+1)) + 8*(33+1)

	// Each row of a block makes one wire, but for the linear row of each sum.
	sha256BlockWires = sha256BlockRows - 48 - 64*3 - 8

	sha256FixedRows = sha256InitBits + sha256Outputs
)

// SHA256ForRows returns the largest SHA256 that fits a domain of that many rows,
// one row for each public wire and the constant included.
func SHA256ForRows(domain int, seed uint64) (SHA256, error) {
	k := (domain - sha256FixedRows - sha256Outputs - 1) / sha256BlockRows
	if k < 1 {
		least := sha256BlockRows + sha256FixedRows + sha256Outputs + 1
		return SHA256{}, invalid("sha256 domain", fmt.Sprintf("at least %d rows", least), domain)
	}
	return SHA256{Blocks: k, Seed: seed}, nil
}

// Validate refuses a number of blocks out of range.
func (s SHA256) Validate() error {
	if most := (maxRows - sha256FixedRows) / sha256BlockRows; s.Blocks < 1 || s.Blocks > most {
		return invalid("sha256 blocks", span(1, most), s.Blocks)
	}
	return nil
}

// Header implements [Circuit].
func (s SHA256) Header() Header {
	return Header{
		Wires:         uint32(1 + sha256Outputs + sha256InitBits + s.Blocks*sha256BlockWires),
		Outputs:       sha256Outputs,
		PrivateInputs: uint32(s.Blocks*512 - sha256PadBits),
		Constraints:   uint32(sha256FixedRows + s.Blocks*sha256BlockRows),
	}
}

// Message is the private input: 64·Blocks-9 bytes.
func (s SHA256) Message() []byte {
	r := newRand(s.Seed, streamSHA256)
	m := make([]byte, 64*s.Blocks-sha256PadBits/8)
	for i := range m {
		m[i] = byte(r.Uint32())
	}
	return m
}

// Constraints implements [Circuit].
func (s SHA256) Constraints(yield func(a, b, c []Term) bool) {
	w := newSHAWalk(s)
	w.rowFn = yield
	w.walk()
}

// Witness implements [Circuit].
func (s SHA256) Witness(yield func(v *fr.Element) bool) {
	w := newSHAWalk(s)
	w.valueFn = yield
	w.walk()
}

// bit is a wire and its value; word is 32 of them, least significant first.
type bit struct {
	wire  uint32
	value uint8
}

type word [32]bit

func (w *word) value() (v uint32) {
	for i := range w {
		v |= uint32(w[i].value) << i
	}
	return v
}

// shaWalk goes through the circuit once, gives out wires in order, computes their
// values, and tells rows or values to whoever listens. Only the current block is kept.
type shaWalk struct {
	SHA256
	rowFn   func(a, b, c []Term) bool // nil while the witness is walked
	valueFn func(v *fr.Element) bool  // nil while rows are walked
	stop    bool                      // the listener has had enough
	next    uint32                    // next wire

	message []byte // padded
	k       constants
	bits    [2]fr.Element   // 0 and 1
	pow     [128]fr.Element // 2^i
	negPow  [36]fr.Element  // -2^i
	a, b, c []Term          // the row being made
}

func newSHAWalk(s SHA256) *shaWalk {
	w := &shaWalk{SHA256: s, message: s.Message(), k: newConstants()}
	length := uint64(len(w.message)) * 8
	w.message = append(w.message, 0x80)
	w.message = binary.BigEndian.AppendUint64(w.message, length)
	w.bits[1] = w.k.one
	w.pow[0] = w.k.one
	for i := 1; i < len(w.pow); i++ {
		w.pow[i].Double(&w.pow[i-1])
	}
	for i := range w.negPow {
		w.negPow[i].Neg(&w.pow[i])
	}
	return w
}

func (w *shaWalk) walk() {
	messageBits := w.message[:len(w.message)-sha256PadBits/8]

	// Wire 0, the outputs, the message. Rows that bind them come with the blocks.
	w.emit(&w.bits[1])
	digest := sha256.Sum256(messageBits)
	for i := range sha256Outputs {
		var v fr.Element
		v.SetBytes(digest[16*i : 16*i+16])
		w.emit(&v)
	}
	input := w.next
	for _, b := range messageBits {
		for i := range 8 {
			w.emit(&w.bits[b>>(7-i)&1])
		}
	}

	var state [8]word
	for i, v := range sha256Init {
		state[i] = w.constant(v)
	}
	for i := 0; i < w.Blocks && !w.stop; i++ {
		w.block(&state, i, input)
	}

	// An output is the number that its four words spell.
	for i := range sha256Outputs {
		w.reset()
		for j := range 128 {
			w.c = append(w.c, Term{state[4*i+3-j/32][j%32].wire, w.pow[j]})
		}
		w.c = append(w.c, Term{uint32(1 + i), w.k.minusOne})
		w.row()
	}
}

// block hashes block i into the state. input is the wire of the first message bit.
func (w *shaWalk) block(state *[8]word, i int, input uint32) {
	var m [64]word
	for t := range 16 {
		m[t] = w.messageWord(16*i+t, input)
	}
	for t := 16; t < 64; t++ {
		s0 := w.xorWords(&m[t-15], 7, 18, 3, true)
		s1 := w.xorWords(&m[t-2], 17, 19, 10, true)
		m[t] = w.sum(34, 0, &m[t-16], &s0, &m[t-7], &s1)
	}

	a, b, c, d := state[0], state[1], state[2], state[3]
	e, f, g, h := state[4], state[5], state[6], state[7]
	for t := 0; t < 64 && !w.stop; t++ {
		s1 := w.xorWords(&e, 6, 11, 25, false)
		ch := w.choose(&e, &f, &g)
		t1 := w.sum(35, sha256Round[t], &h, &s1, &ch, &m[t])
		s0 := w.xorWords(&a, 2, 13, 22, false)
		maj := w.majority(&a, &b, &c)
		h, g, f, e = g, f, e, w.sum(33, 0, &d, &t1)
		d, c, b, a = c, b, a, w.sum(34, 0, &t1, &s0, &maj)
	}
	for i, v := range []*word{&a, &b, &c, &d, &e, &f, &g, &h} {
		state[i] = w.sum(33, 0, &state[i], v)
	}
}

// emit gives out the next wire, with any value.
func (w *shaWalk) emit(v *fr.Element) uint32 {
	if w.valueFn != nil && !w.stop {
		w.stop = !w.valueFn(v)
	}
	w.next++
	return w.next - 1
}

func (w *shaWalk) newBit(v uint8) bit { return bit{w.emit(&w.bits[v]), v} }

// reset begins a row, row ends it.
func (w *shaWalk) reset() { w.a, w.b, w.c = w.a[:0], w.b[:0], w.c[:0] }

func (w *shaWalk) row() {
	if w.rowFn != nil && !w.stop {
		w.stop = !w.rowFn(w.a, w.b, w.c)
	}
}

// boolean: (x - 1)·x = 0.
func (w *shaWalk) boolean(x bit) {
	w.reset()
	w.a = append(w.a, Term{x.wire, w.k.one}, Term{0, w.k.minusOne})
	w.b = append(w.b, Term{x.wire, w.k.one})
	w.row()
}

// constantBit: 0 = x - v.
func (w *shaWalk) constantBit(v uint8) bit {
	x := w.newBit(v)
	w.reset()
	w.c = append(w.c, Term{x.wire, w.k.one})
	if v == 1 {
		w.c = append(w.c, Term{0, w.k.minusOne})
	}
	w.row()
	return x
}

func (w *shaWalk) constant(v uint32) (out word) {
	for i := range out {
		out[i] = w.constantBit(uint8(v >> i & 1))
	}
	return out
}

// messageWord is word t of the padded message: inputs, which are bound to be
// bits here, or padding.
func (w *shaWalk) messageWord(t int, input uint32) (out word) {
	for j := range 32 { // from the first bit of the message to its last
		n := 32*t + j
		v := w.message[n/8] >> (7 - n%8) & 1
		if n < 8*len(w.message)-sha256PadBits {
			out[31-j] = bit{input + uint32(n), v}
			w.boolean(out[31-j])
		} else {
			out[31-j] = w.constantBit(v)
		}
	}
	return out
}

// and: b·c = mid.
func (w *shaWalk) and(b, c bit) bit {
	mid := w.newBit(b.value & c.value)
	w.reset()
	w.a = append(w.a, Term{b.wire, w.k.one})
	w.b = append(w.b, Term{c.wire, w.k.one})
	w.c = append(w.c, Term{mid.wire, w.k.one})
	w.row()
	return mid
}

// xor3: mid = b·c, then (1 - 2b - 2c + 4mid)·a = out - b - c + 2mid.
func (w *shaWalk) xor3(a, b, c bit) bit {
	mid := w.and(b, c)
	out := w.newBit(a.value ^ b.value ^ c.value)
	w.reset()
	w.a = append(w.a, Term{0, w.k.one}, Term{b.wire, w.k.minusTwo}, Term{c.wire, w.k.minusTwo}, Term{mid.wire, w.k.four})
	w.b = append(w.b, Term{a.wire, w.k.one})
	w.c = append(w.c, Term{out.wire, w.k.one}, Term{b.wire, w.k.minusOne}, Term{c.wire, w.k.minusOne}, Term{mid.wire, w.k.two})
	w.row()
	return out
}

// xor2: 2a·b = a + b - out.
func (w *shaWalk) xor2(a, b bit) bit {
	out := w.newBit(a.value ^ b.value)
	w.reset()
	w.a = append(w.a, Term{a.wire, w.k.two})
	w.b = append(w.b, Term{b.wire, w.k.one})
	w.c = append(w.c, Term{a.wire, w.k.one}, Term{b.wire, w.k.one}, Term{out.wire, w.k.minusOne})
	w.row()
	return out
}

// xorWords is the xor of x rotated right by r0, r1 and r2, or shifted by r2.
func (w *shaWalk) xorWords(x *word, r0, r1, r2 int, shift bool) (out word) {
	for i := range out {
		a, b := x[(i+r0)%32], x[(i+r1)%32]
		if shift && i+r2 >= 32 {
			out[i] = w.xor2(a, b)
		} else {
			out[i] = w.xor3(a, b, x[(i+r2)%32])
		}
	}
	return out
}

// choose: (f - g)·e = out - g.
func (w *shaWalk) choose(e, f, g *word) (out word) {
	for i := range out {
		e, f, g := e[i], f[i], g[i]
		out[i] = w.newBit(e.value&f.value | (1-e.value)&g.value)
		w.reset()
		w.a = append(w.a, Term{f.wire, w.k.one}, Term{g.wire, w.k.minusOne})
		w.b = append(w.b, Term{e.wire, w.k.one})
		w.c = append(w.c, Term{out[i].wire, w.k.one}, Term{g.wire, w.k.minusOne})
		w.row()
	}
	return out
}

// majority: mid = b·c, then (b + c - 2mid)·a = out - mid.
func (w *shaWalk) majority(a, b, c *word) (out word) {
	for i := range out {
		a, b, c := a[i], b[i], c[i]
		mid := w.and(b, c)
		out[i] = w.newBit(a.value&b.value | a.value&c.value | b.value&c.value)
		w.reset()
		w.a = append(w.a, Term{b.wire, w.k.one}, Term{c.wire, w.k.one}, Term{mid.wire, w.k.minusTwo})
		w.b = append(w.b, Term{a.wire, w.k.one})
		w.c = append(w.c, Term{out[i].wire, w.k.one}, Term{mid.wire, w.k.minusOne})
		w.row()
	}
	return out
}

// sum adds words and a constant: n bits, each bound to be one, and a linear row that
// binds their number to the summands. n must hold the largest sum. The low 32 bits are
// returned.
func (w *shaWalk) sum(n int, constant uint32, words ...*word) (out word) {
	total := uint64(constant)
	for _, x := range words {
		total += uint64(x.value())
	}
	first := w.next
	for i := range n {
		x := w.newBit(uint8(total >> i & 1))
		if i < 32 {
			out[i] = x
		}
		w.boolean(x)
	}
	if w.rowFn == nil {
		return out
	}
	w.reset()
	for _, x := range words {
		for i := range x {
			w.c = append(w.c, Term{x[i].wire, w.pow[i]})
		}
	}
	if constant != 0 {
		w.c = append(w.c, Term{0, fr.NewElement(uint64(constant))})
	}
	for i := range n {
		w.c = append(w.c, Term{first + uint32(i), w.negPow[i]})
	}
	w.row()
	return out
}

// sha256Init is the initial state: 32 bits of the fractions of the square roots of
// the first 8 primes.
var sha256Init = [8]uint32{
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}

// sha256Round are the constants of the rounds: 32 bits of the fractions of the cube
// roots of the first 64 primes.
var sha256Round = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}
