package gadgets

import (
	"github.com/weir-zk/weir/sdk/circuit"
)

// State is SHA-256's chaining value, a to h.
type State [8]Word

// InitialState is that before the first block.
func InitialState(b *circuit.Builder) (s State) {
	for i, x := range sha256Init {
		s[i] = ConstantWord(b, x)
	}
	return s
}

// SHA256 hashes bits, in the order of the message: the first is the most significant of the first byte. It returns 256 bits in the order of the digest.
func SHA256(b *circuit.Builder, message []circuit.Bool) []circuit.Bool {
	n := len(message)
	padded := make([]circuit.Bool, n, (n+65+511)/512*512)
	copy(padded, message)
	padded = append(padded, circuit.Constant(true))
	padded = padded[:cap(padded)-64] // the zero value is false
	for i := 63; i >= 0; i-- {
		padded = append(padded, circuit.Constant(n>>i&1 == 1))
	}
	state := InitialState(b)
	for i := 0; len(padded) > 0; i++ {
		b.EnterIndex("block ", i)
		var block [16]Word
		for k := range block {
			block[k] = WordOf(b, padded[32*k:])
		}
		state = Compress(b, &block, &state)
		padded = padded[512:]
		b.Leave()
	}
	out := make([]circuit.Bool, 0, 256)
	for i := range state {
		out = state[i].AppendBE(out)
	}
	return out
}

// sum is words that are added only when their sum is needed.
type sum struct {
	n     int
	words [8]Word
}

func (s *sum) set(words ...Word) { s.n = copy(s.words[:], words) }

// add is the sum together with more, the single word itself where there is but one.
func (s *sum) add(m *MultiEq, more ...Word) Word {
	if s.n == 1 && len(more) == 0 {
		return s.words[0]
	}
	n := s.n + copy(s.words[s.n:], more)
	return AddMany(m, s.words[:n]...)
}

// Compress is one compression. The two additions of a round are put off to the next, that for e before that for a. See FIPS 180-4, section 6.2.2.
func Compress(b *circuit.Builder, block *[16]Word, state *State) (out State) {
	m := NewMultiEq(b)
	var w [64]Word
	copy(w[:], block[:])
	for i := 16; i < 64; i++ {
		s0 := Xor(b, Xor(b, w[i-15].Rotr(7), w[i-15].Rotr(18)), w[i-15].Shr(3))
		s1 := Xor(b, Xor(b, w[i-2].Rotr(17), w[i-2].Rotr(19)), w[i-2].Shr(10))
		w[i] = AddMany(&m, w[i-16], s0, w[i-7], s1)
	}
	var a, e sum
	a.set(state[0])
	e.set(state[4])
	bb, c, d := state[1], state[2], state[3]
	f, g, h := state[5], state[6], state[7]
	for i := range w {
		ee := e.add(&m)
		s1 := Xor(b, Xor(b, ee.Rotr(6), ee.Rotr(11)), ee.Rotr(25))
		ch := ChWords(b, ee, f, g)
		k := ConstantWord(b, sha256Round[i])
		aa := a.add(&m)
		s0 := Xor(b, Xor(b, aa.Rotr(2), aa.Rotr(13)), aa.Rotr(22))
		maj := MajWords(b, aa, bb, c)
		e.set(h, s1, ch, k, w[i], d)
		a.set(h, s1, ch, k, w[i], s0, maj)
		h, g, f = g, f, ee
		d, c, bb = c, bb, aa
	}
	out[0] = a.add(&m, state[0])
	out[1] = AddMany(&m, state[1], bb)
	out[2] = AddMany(&m, state[2], c)
	out[3] = AddMany(&m, state[3], d)
	out[4] = e.add(&m, state[4])
	out[5] = AddMany(&m, state[5], f)
	out[6] = AddMany(&m, state[6], g)
	out[7] = AddMany(&m, state[7], h)
	m.Close()
	return out
}

// sha256Init is the initial state: 32 bits of the fractions of the square roots of the first 8 primes.
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
