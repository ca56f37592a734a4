package circuitgen

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// The tests judge the files, not the generators: this reader knows the two formats on
// its own and shares no code with the writers.

// row is a parsed constraint.
type row [3][]Term

type parsed struct {
	header  Header
	rows    []row
	labels  []uint64
	witness []fr.Element
	sizes   [2]uint64 // of the two files
}

type cursor struct {
	t *testing.T
	b []byte
}

func (c *cursor) take(n int) []byte {
	c.t.Helper()
	if n < 0 || n > len(c.b) {
		c.t.Fatalf("file ends early: want %d bytes, have %d", n, len(c.b))
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u32() uint32 { c.t.Helper(); return binary.LittleEndian.Uint32(c.take(4)) }
func (c *cursor) u64() uint64 { c.t.Helper(); return binary.LittleEndian.Uint64(c.take(8)) }

// field reads a value, which must be smaller than the modulus.
func (c *cursor) field() (e fr.Element) {
	c.t.Helper()
	b := [32]byte(c.take(32))
	slices.Reverse(b[:])
	if err := e.SetBytesCanonical(b[:]); err != nil {
		c.t.Fatalf("value %x: %v", b, err)
	}
	return e
}

func (c *cursor) prime() {
	c.t.Helper()
	if n := c.u32(); n != 32 {
		c.t.Fatalf("n8 = %d, want 32", n)
	}
	b := slices.Clone(c.take(32))
	slices.Reverse(b)
	if got := fmt.Sprintf("%x", b); got != "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001" {
		c.t.Fatalf("prime %s", got)
	}
}

func (c *cursor) end() {
	c.t.Helper()
	if len(c.b) != 0 {
		c.t.Fatalf("%d bytes left over", len(c.b))
	}
}

// container reads the frame of a file and checks the order of its sections.
func container(t *testing.T, file []byte, magic string, version uint32, order ...uint32) map[uint32]*cursor {
	t.Helper()
	c := &cursor{t, file}
	if got := string(c.take(4)); got != magic {
		t.Fatalf("magic %q, want %q", got, magic)
	}
	if got := c.u32(); got != version {
		t.Fatalf("version %d, want %d", got, version)
	}
	if got := c.u32(); got != uint32(len(order)) {
		t.Fatalf("%d sections, want %d", got, len(order))
	}
	out := map[uint32]*cursor{}
	for _, want := range order {
		if id := c.u32(); id != want {
			t.Fatalf("section %d, want %d", id, want)
		}
		size := c.u64()
		out[want] = &cursor{t, c.take(int(size))}
	}
	c.end()
	return out
}

func parse(t *testing.T, r1cs, wtns []byte) (p parsed) {
	t.Helper()
	s := container(t, r1cs, "r1cs", 1, 2, 1, 3)
	c := s[1]
	c.prime()
	p.header = Header{Wires: c.u32(), Outputs: c.u32(), PublicInputs: c.u32(), PrivateInputs: c.u32()}
	if labels := c.u64(); labels != uint64(p.header.Wires) {
		t.Fatalf("%d labels, want one for each of %d wires", labels, p.header.Wires)
	}
	p.header.Constraints = c.u32()
	c.end()

	c = s[2]
	seen := make([]uint32, p.header.Wires) // number of the last combination with the wire
	combination := uint32(0)
	terms := make([]Term, 0, len(c.b)/36)
	for i := range p.header.Constraints {
		var r row
		for m := range r {
			n := c.u32()
			combination++
			first := len(terms)
			for range n {
				term := Term{Wire: c.u32(), Coeff: c.field()}
				if term.Wire >= p.header.Wires || seen[term.Wire] == combination || term.Coeff.IsZero() {
					t.Fatalf("row %d, matrix %d: wire %d twice or out of range, or zero coefficient %v", i, m, term.Wire, &term.Coeff)
				}
				seen[term.Wire] = combination
				terms = append(terms, term)
			}
			r[m] = terms[first:len(terms):len(terms)]
		}
		p.rows = append(p.rows, r)
	}
	c.end()

	c = s[3]
	for range p.header.Wires {
		p.labels = append(p.labels, c.u64())
	}
	c.end()

	p.sizes = [2]uint64{uint64(len(r1cs)), uint64(len(wtns))}
	p.witness = parseWitness(t, wtns)
	if len(p.witness) != int(p.header.Wires) {
		t.Fatalf("%d values for %d wires", len(p.witness), p.header.Wires)
	}
	return p
}

func parseWitness(t *testing.T, wtns []byte) (w []fr.Element) {
	t.Helper()
	s := container(t, wtns, "wtns", 2, 1, 2)
	c := s[1]
	c.prime()
	n := c.u32()
	c.end()
	c = s[2]
	for range n {
		w = append(w, c.field())
	}
	c.end()
	if !w[0].IsOne() {
		t.Fatalf("wire 0 is %v", &w[0])
	}
	return w
}

// write writes a circuit to memory.
func write(t *testing.T, c Circuit) (r1cs, wtns []byte) {
	t.Helper()
	var r, w bytes.Buffer
	if err := WriteR1CS(&r, c); err != nil {
		t.Fatal(err)
	}
	if err := WriteWTNS(&w, c); err != nil {
		t.Fatal(err)
	}
	return r.Bytes(), w.Bytes()
}

// sha256Files are the large circuits that several tests read; parsing them again is
// most of the time under the race detector.
var sha256Files = map[SHA256]parsed{}

// read writes a circuit and parses it.
func read(t *testing.T, c Circuit) parsed {
	t.Helper()
	s, large := c.(SHA256)
	if p, ok := sha256Files[s]; large && ok {
		return p
	}
	r1cs, wtns := write(t, c)
	p := parse(t, r1cs, wtns)
	if large {
		sha256Files[s] = p
	}
	return p
}

func dot(terms []Term, w []fr.Element) (sum fr.Element) {
	var x fr.Element
	for i := range terms {
		sum.Add(&sum, x.Mul(&terms[i].Coeff, &w[terms[i].Wire]))
	}
	return sum
}

func (r *row) satisfied(w []fr.Element) bool {
	a, b, c := dot(r[0], w), dot(r[1], w), dot(r[2], w)
	a.Mul(&a, &b)
	return a.Equal(&c)
}

// violated returns the indices of the rows that w does not satisfy.
func (p *parsed) violated(w []fr.Element) (out []int) {
	for i := range p.rows {
		if !p.rows[i].satisfied(w) {
			out = append(out, i)
		}
	}
	return out
}
