package r1cs

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Digest names a circuit. It covers, row by row, the linear combinations with summed coefficients in ascending order of the wires,
// zero coefficients left out, so that files which state the same circuit in another order of terms have the same digest.
//
// AB covers A and B alone, so that it can be compared where C is not at hand (.zkey). ABC is the form WEIR-R1CS-1: SHA-256 of
// "WEIR-R1CS-1\n", then per row A, B, C, each as u32 number of terms and terms of u8 (0 input, 1 auxiliary), u32 index, 32-byte coefficient, then
// "END\n" and u64 rows, inputs with the one, auxiliary variables; all little-endian. AB is the same with "WEIR-R1CS-AB-1\n" and without C.
type Digest struct {
	AB  [32]byte
	ABC [32]byte // zero where the system has no C
}

// Digest computes both digests in one pass. A second goroutine hashes AB.
func (s *System) Digest() Digest {
	l := s.newLines()
	ab := startHash("WEIR-R1CS-AB-1\n")
	abc := sha256.New()
	abc.Write([]byte("WEIR-R1CS-1\n"))
	short := ab.buffer()
	var long []byte
	for i := range s.NbConstraints() {
		from := len(long)
		long = l.row(long, &s.A, i)
		long = l.row(long, &s.B, i)
		if short = append(short, long[from:]...); len(short) >= hashPiece {
			short = ab.write(short)
		}
		if !s.HasC {
			long = long[:0]
			continue
		}
		if long = l.row(long, &s.C, i); len(long) >= hashPiece {
			long = flush(abc, long)
		}
	}
	var d Digest
	d.AB = ab.sum(l.end(short))
	if s.HasC {
		flush(abc, l.end(long))
		abc.Sum(d.ABC[:0])
	}
	return d
}

// hashPiece is how many bytes are hashed at once.
const hashPiece = 1 << 15

// background is a hash in a goroutine of its own.
type background struct {
	full, free chan []byte
	done       chan [32]byte
}

func startHash(head string) *background {
	b := &background{make(chan []byte), make(chan []byte, 2), make(chan [32]byte)}
	for range cap(b.free) {
		b.free <- make([]byte, 0, 2*hashPiece)
	}
	go func() {
		h := sha256.New()
		h.Write([]byte(head))
		for p := range b.full {
			h.Write(p)
			b.free <- p[:0]
		}
		b.done <- [32]byte(h.Sum(nil))
	}()
	return b
}

// buffer is an empty one to fill.
func (b *background) buffer() []byte { return <-b.free }

// write hashes p and returns the next buffer.
func (b *background) write(p []byte) []byte {
	b.full <- p
	return b.buffer()
}

// sum hashes the last piece and returns the digest.
func (b *background) sum(last []byte) [32]byte {
	b.full <- last
	close(b.full)
	return <-b.done
}

// maxTexts bounds the coefficients whose bytes are kept ready: 2 MiB.
const maxTexts = 1 << 16

// lines writes rows as digests cover them.
type lines struct {
	s     *System
	texts [][fr.Bytes]byte // of the first coefficients of the dictionary
	keys  []uint64
}

func (s *System) newLines() *lines {
	l := &lines{s: s, texts: make([][fr.Bytes]byte, min(len(s.Coeffs), maxTexts))}
	for i := range l.texts {
		fr.LittleEndian.PutElement(&l.texts[i], s.Coeffs[i])
	}
	return l
}

// row appends one matrix' row.
func (l *lines) row(out []byte, m *Matrix, i int) []byte {
	l.keys = m.sorted(l.keys, i)
	head := len(out)
	out = append(out, 0, 0, 0, 0)
	count := uint32(0)
	for keys := l.keys; len(keys) > 0; {
		var sum fr.Element
		n, c := l.s.first(keys, &sum)
		if !c.IsZero() {
			idx, kind := uint32(keys[0]>>32), byte(0)
			if int(idx) > l.s.NbPublic {
				idx, kind = idx-uint32(l.s.NbPublic)-1, 1
			}
			out = append(out, kind)
			out = binary.LittleEndian.AppendUint32(out, idx)
			if k := uint32(keys[0]); n == 1 && int(k) < len(l.texts) {
				out = append(out, l.texts[k][:]...)
			} else {
				var b [fr.Bytes]byte
				fr.LittleEndian.PutElement(&b, *c)
				out = append(out, b[:]...)
			}
			count++
		}
		keys = keys[n:]
	}
	binary.LittleEndian.PutUint32(out[head:], count)
	return out
}

func flush(h hash.Hash, b []byte) []byte {
	h.Write(b)
	return b[:0]
}

func (l *lines) end(out []byte) []byte {
	out = append(out, "END\n"...)
	for _, x := range []int{l.s.NbConstraints(), l.s.NbPublic + 1, l.s.NbWires - l.s.NbPublic - 1} {
		out = binary.LittleEndian.AppendUint64(out, uint64(x))
	}
	return out
}

// sorted returns the terms of a row in ascending order of their wires, each as the wire (high half) and the index of its coefficient, in the memory of keys.
func (m *Matrix) sorted(keys []uint64, row int) []uint64 {
	keys = keys[:0]
	wire, coeff := m.Row(row)
	last, rising := uint64(0), true
	for k, w := range wire {
		key := uint64(w)<<32 | uint64(coeff[k])
		rising = rising && key >= last
		last = key
		keys = append(keys, key)
	}
	if !rising {
		slices.Sort(keys)
	}
	return keys
}

// first is the coefficient of the first wire of a row's sorted terms, and the number of these: those that name the same wire are summed into sum.
func (s *System) first(keys []uint64, sum *fr.Element) (n int, c *fr.Element) {
	n, c = 1, &s.Coeffs[uint32(keys[0])]
	for ; n < len(keys) && keys[n]>>32 == keys[0]>>32; n++ {
		if n == 1 {
			*sum, c = *c, sum
		}
		sum.Add(sum, &s.Coeffs[uint32(keys[n])])
	}
	return n, c
}
