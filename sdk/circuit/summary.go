package circuit

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/groth16"
)

// Summary is a Sink that keeps what describes a constraint system: sizes, densities and the digest WEIR-R1CS-1, which is that of r1cs.System.Digest.
type Summary struct {
	// ChunkRows, if not zero, asks for a digest of each so many rows too: SHA-256 of their bytes alone.
	ChunkRows int

	Shape
	NonZero [3]int64       // terms of A, B, C
	AAux    groth16.Bitmap // auxiliary variables with a term in A
	BAux    groth16.Bitmap // auxiliary variables with a term in B
	BInput  groth16.Bitmap // inputs with a term in B, the one included
	Digest  [sha256.Size]byte
	Chunks  [][sha256.Size]byte

	all, chunk hash.Hash
	rows       int
	texts      [][fr.Bytes]byte
	buf        []byte
}

// Write implements Sink.
func (s *Summary) Write(r *Rows) error {
	if s.all == nil {
		s.start()
	}
	for i := len(s.texts); i < len(r.Coeffs); i++ {
		var b [fr.Bytes]byte
		fr.LittleEndian.PutElement(&b, r.Coeffs[i])
		s.texts = append(s.texts, b)
	}
	for i := range r.Len() {
		a, b, c := r.Row(i)
		s.NonZero[0] += int64(len(a))
		s.NonZero[1] += int64(len(b))
		s.NonZero[2] += int64(len(c))
		for _, t := range a {
			if v := t.Var(); !v.IsInput() {
				s.AAux = setGrowing(s.AAux, v.Index())
			}
		}
		for _, t := range b {
			if v := t.Var(); v.IsInput() {
				s.BInput = setGrowing(s.BInput, v.Index())
			} else {
				s.BAux = setGrowing(s.BAux, v.Index())
			}
		}
		s.append(a)
		s.append(b)
		s.append(c)
		s.rows++
		if s.ChunkRows > 0 && s.rows%s.ChunkRows == 0 {
			s.endChunk()
		} else if len(s.buf) >= hashPiece {
			s.flush()
		}
	}
	return nil
}

// hashPiece is how many bytes are hashed at once.
const hashPiece = 1 << 15

func (s *Summary) start() {
	s.all, s.chunk = sha256.New(), sha256.New()
	s.all.Write([]byte("WEIR-R1CS-1\n"))
}

func setGrowing(b groth16.Bitmap, i int) groth16.Bitmap {
	for i>>6 >= len(b) {
		b = append(b, 0)
	}
	b.Set(i)
	return b
}

// append writes a combination: u32 number of terms, then u8 kind, u32 index and the coefficient of each, little-endian.
func (s *Summary) append(terms []Term) {
	out := binary.LittleEndian.AppendUint32(s.buf, uint32(len(terms)))
	for _, t := range terms {
		v := t.Var()
		kind := byte(1)
		if v.IsInput() {
			kind = 0
		}
		out = append(out, kind)
		out = binary.LittleEndian.AppendUint32(out, uint32(v.Index()))
		out = append(out, s.texts[t.Coeff()][:]...)
	}
	s.buf = out
}

func (s *Summary) flush() {
	s.all.Write(s.buf)
	if s.ChunkRows > 0 {
		s.chunk.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

func (s *Summary) endChunk() {
	s.flush()
	s.Chunks = append(s.Chunks, [sha256.Size]byte(s.chunk.Sum(nil)))
	s.chunk.Reset()
}

// End implements Sink.
func (s *Summary) End(shape *Shape) error {
	if s.all == nil {
		s.start()
	}
	s.Shape = *shape
	s.flush()
	if s.ChunkRows > 0 && s.rows%s.ChunkRows != 0 {
		s.endChunk()
	}
	s.buf = append(s.buf, "END\n"...)
	for _, x := range []int{shape.Rows, shape.Inputs, shape.Aux} {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(x))
	}
	s.all.Write(s.buf)
	s.all.Sum(s.Digest[:0])
	for _, x := range []struct {
		bitmap *groth16.Bitmap
		n      int
	}{{&s.AAux, shape.Aux}, {&s.BAux, shape.Aux}, {&s.BInput, shape.Inputs}} {
		for len(*x.bitmap) < (x.n+63)/64 {
			*x.bitmap = append(*x.bitmap, 0)
		}
	}
	return nil
}

// Domain is the size of the smallest evaluation domain for a key: a power of two that holds the rows and one more for each input.
func (c Counts) Domain() int { return 1 << groth16.DomainFor(c.Rows, c.Inputs-1) }
