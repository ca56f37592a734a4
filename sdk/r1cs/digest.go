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

// Digest computes both digests. One pass.
func (s *System) Digest() Digest {
	ab, abc := sha256.New(), sha256.New()
	ab.Write([]byte("WEIR-R1CS-AB-1\n"))
	abc.Write([]byte("WEIR-R1CS-1\n"))
	var wab, wabc = lineWriter{h: ab}, lineWriter{h: abc}
	var scratch []term
	for i := range s.NbConstraints() {
		for _, m := range []*Matrix{&s.A, &s.B} {
			scratch = s.canonical(m, i, scratch[:0])
			wab.row(s, scratch)
			if s.HasC {
				wabc.row(s, scratch)
			}
		}
		if s.HasC {
			scratch = s.canonical(&s.C, i, scratch[:0])
			wabc.row(s, scratch)
		}
	}
	var d Digest
	wab.end(s)
	ab.Sum(d.AB[:0])
	if s.HasC {
		wabc.end(s)
		abc.Sum(d.ABC[:0])
	}
	return d
}

type term struct {
	wire uint32
	c    fr.Element
}

// canonical sorts a row by wire, sums repeated wires and drops zeros.
func (s *System) canonical(m *Matrix, row int, out []term) []term {
	wire, coeff := m.Row(row)
	for k := range wire {
		out = append(out, term{wire[k], s.Coeffs[coeff[k]]})
	}
	slices.SortStableFunc(out, func(a, b term) int { return int(int64(a.wire) - int64(b.wire)) })
	n := 0
	for i := 0; i < len(out); {
		t := out[i]
		for i++; i < len(out) && out[i].wire == t.wire; i++ {
			t.c.Add(&t.c, &out[i].c)
		}
		if !t.c.IsZero() {
			out[n] = t
			n++
		}
	}
	return out[:n]
}

// lineWriter gathers bytes, since a hash call a term would cost more than the hash.
type lineWriter struct {
	h   hash.Hash
	buf []byte
}

func (w *lineWriter) row(s *System, terms []term) {
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(terms)))
	for i := range terms {
		idx, kind := terms[i].wire, byte(0)
		if int(idx) > s.NbPublic {
			idx, kind = idx-uint32(s.NbPublic)-1, 1
		}
		w.buf = append(w.buf, kind)
		w.buf = binary.LittleEndian.AppendUint32(w.buf, idx)
		var b [32]byte
		fr.LittleEndian.PutElement(&b, terms[i].c)
		w.buf = append(w.buf, b[:]...)
	}
	if len(w.buf) > 1<<15 {
		w.flush()
	}
}

func (w *lineWriter) flush() {
	w.h.Write(w.buf)
	w.buf = w.buf[:0]
}

func (w *lineWriter) end(s *System) {
	w.buf = append(w.buf, "END\n"...)
	for _, x := range []int{s.NbConstraints(), s.NbPublic + 1, s.NbWires - s.NbPublic - 1} {
		w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(x))
	}
	w.flush()
}
