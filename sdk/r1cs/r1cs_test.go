package r1cs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

func TestValidate(t *testing.T) {
	good := func() *System {
		return &System{NbWires: 3, NbPublic: 1, HasC: true, Coeffs: []fr.Element{elem(1), elem(5)},
			A: Matrix{[]uint32{0, 1, 3}, []uint32{0, 1, 2}, []uint32{0, 1, 1}}, B: Matrix{[]uint32{0, 0, 1}, []uint32{2}, []uint32{0}}, C: Matrix{[]uint32{0, 0, 0}, nil, nil}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(s *System){
		"no wires":            func(s *System) { s.NbWires = 0 },
		"all public and more": func(s *System) { s.NbPublic = 3 },
		"negative public":     func(s *System) { s.NbPublic = -1 },
		"wire beyond":         func(s *System) { s.A.Wire[2] = 3 },
		"wire 2^32-1":         func(s *System) { s.B.Wire[0] = 1<<32 - 1 },
		"coefficient beyond":  func(s *System) { s.A.Coeff[1] = 2 },
		"no starts":           func(s *System) { s.B.Start = nil },
		"rows differ":         func(s *System) { s.C.Start = []uint32{0, 0} },
		"start not zero":      func(s *System) { s.A.Start[0] = 1 },
		"falling starts":      func(s *System) { s.A.Start = []uint32{0, 4, 3} },
		"terms beyond":        func(s *System) { s.A.Start[2] = 4 },
		"terms left":          func(s *System) { s.A.Start[2] = 2 },
		"coefficients short":  func(s *System) { s.A.Coeff = s.A.Coeff[:2] },
		"no dictionary":       func(s *System) { s.Coeffs = nil },
		"one is not first":    func(s *System) { s.Coeffs[0], s.Coeffs[1] = s.Coeffs[1], s.Coeffs[0] },
		"one is a limb":       func(s *System) { s.Coeffs[0] = fr.Element{1} },
	} {
		s := good()
		edit(s)
		if err := s.Validate(); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := good()
	s.HasC, s.C = false, Matrix{}
	if err := s.Validate(); err != nil {
		t.Errorf("without C: %v", err)
	}
	empty := &System{NbWires: 1, HasC: true, A: Matrix{Start: []uint32{0}}, B: Matrix{Start: []uint32{0}}, C: Matrix{Start: []uint32{0}}}
	if err := empty.Validate(); err != nil {
		t.Errorf("without terms: %v", err)
	}
}

// densityNaive goes by the definition: the sum of a wire's coefficients in some row is not zero.
func densityNaive(s *System, m *Matrix) groth16.Bitmap {
	bm := groth16.NewBitmap(s.NbWires)
	for i := range m.Rows() {
		sums := map[uint32]fr.Element{}
		wire, coeff := m.Row(i)
		for k, w := range wire {
			x := sums[w]
			x.Add(&x, &s.Coeffs[coeff[k]])
			sums[w] = x
		}
		for w, x := range sums {
			if !x.IsZero() {
				bm.Set(int(w))
			}
		}
	}
	return bm
}

func TestDensity(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 9))
		wires := 1 + rng.IntN(200)
		s := randomSystem(t, rng, wires, rng.IntN(min(wires, 5)), rng.IntN(20), seed%2 == 0)
		a, b := s.Density()
		wantA, wantB := densityNaive(s, &s.A), densityNaive(s, &s.B)
		for i := range s.NbPublic + 1 {
			wantA.Set(i)
		}
		if !slices.Equal(a, wantA) || !slices.Equal(b, wantB) {
			t.Fatalf("seed %d: A %x want %x, B %x want %x", seed, a, wantA, b, wantB)
		}
	}
	// By hand: wire 1 cancels in row 0 and is there in row 1; wire 2 cancels; wire 3 has coefficient zero; wire 4 is repeated and stays.
	b := NewBuilder(6, 0, false, 0, 0)
	for _, x := range []struct {
		wire uint32
		c    int64
	}{{1, 3}, {2, 7}, {1, -3}, {2, -7}, {3, 0}, {4, 1}, {4, 1}} {
		c := elem(x.c)
		b.Term(MatrixB, x.wire, b.Coeff(&c))
	}
	_ = b.EndRow()
	c := elem(1)
	b.Term(MatrixB, 1, b.Coeff(&c))
	_ = b.EndRow()
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.Density(); a[0] != 1 || b[0] != 1<<1|1<<4 {
		t.Errorf("A %b, B %b", a[0], b[0])
	}
}

// A row of very many terms, sorted or not, with a repetition: the time must not grow with its square (which would be minutes).
func TestDensityOfALongRow(t *testing.T) {
	const n = 600_000
	s := &System{NbWires: n + 1, Coeffs: []fr.Element{elem(1), elem(-1)}}
	s.A = Matrix{Start: []uint32{0, n + 1}}
	for i := range uint32(n) {
		s.A.Wire, s.A.Coeff = append(s.A.Wire, n-i), append(s.A.Coeff, 0)
	}
	s.A.Wire, s.A.Coeff = append(s.A.Wire, 7), append(s.A.Coeff, 1)
	s.B = Matrix{Start: []uint32{0, 0}}
	start := time.Now()
	a, _ := s.Density()
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("%v", took)
	}
	if a.Count() != n || a.Has(7) || !a.Has(6) || !a.Has(0) {
		t.Errorf("%d wires, wire 7 %v", a.Count(), a.Has(7))
	}
}

// The digest by definition, from a map of summed coefficients.
func digestNaive(s *System, head string, ms ...*Matrix) (out [32]byte) {
	h := sha256.New()
	h.Write([]byte(head))
	u := func(x any) { _ = binary.Write(h, binary.LittleEndian, x) }
	for i := range s.NbConstraints() {
		for _, m := range ms {
			sums := map[uint32]fr.Element{}
			wire, coeff := m.Row(i)
			for k, w := range wire {
				x := sums[w]
				x.Add(&x, &s.Coeffs[coeff[k]])
				sums[w] = x
			}
			var order []uint32
			for w, x := range sums {
				if !x.IsZero() {
					order = append(order, w)
				}
			}
			slices.Sort(order)
			u(uint32(len(order)))
			for _, w := range order {
				if int(w) <= s.NbPublic {
					u(uint8(0))
					u(w)
				} else {
					u(uint8(1))
					u(w - uint32(s.NbPublic) - 1)
				}
				x := sums[w]
				be := x.Bytes()
				slices.Reverse(be[:])
				h.Write(be[:])
			}
		}
	}
	h.Write([]byte("END\n"))
	u(uint64(s.NbConstraints()))
	u(uint64(s.NbPublic + 1))
	u(uint64(s.NbWires - s.NbPublic - 1))
	h.Sum(out[:0])
	return out
}

func TestDigest(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 5))
		wires := 1 + rng.IntN(50)
		s := randomSystem(t, rng, wires, rng.IntN(min(wires, 4)), rng.IntN(30), seed%3 != 0)
		want := Digest{AB: digestNaive(s, "WEIR-R1CS-AB-1\n", &s.A, &s.B)}
		if s.HasC {
			want.ABC = digestNaive(s, "WEIR-R1CS-1\n", &s.A, &s.B, &s.C)
		}
		if got := s.Digest(); got != want {
			t.Fatalf("seed %d: %x, want %x", seed, got, want)
		}
	}
}

// Many pieces are hashed, and more coefficients occur than are kept as bytes.
func TestDigestOfLongSystem(t *testing.T) {
	for _, hasC := range []bool{false, true} {
		b := NewBuilder(1000, 3, hasC, 0, 0)
		x := elem(3)
		for i := range 3000 {
			for k := range 30 {
				if k%3 == MatrixC && !hasC {
					continue
				}
				x.Mul(&x, &x)
				b.Term(k%3, uint32(i*7+k*k)%1000, b.Coeff(&x))
			}
			if err := b.EndRow(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := b.System()
		if err != nil {
			t.Fatal(err)
		}
		if hasC && len(s.Coeffs) <= maxTexts {
			t.Fatalf("%d coefficients", len(s.Coeffs))
		}
		want := Digest{AB: digestNaive(s, "WEIR-R1CS-AB-1\n", &s.A, &s.B)}
		if hasC {
			want.ABC = digestNaive(s, "WEIR-R1CS-1\n", &s.A, &s.B, &s.C)
		}
		if got := s.Digest(); got != want {
			t.Errorf("%x, want %x", got, want)
		}
	}
}

// What must change a digest changes it, what must not does not.
func TestDigestDistinguishes(t *testing.T) {
	build := func(edit func(b *Builder)) Digest {
		b := NewBuilder(5, 1, true, 0, 0)
		one, two := elem(1), elem(2)
		b.Term(MatrixA, 1, b.Coeff(&one))
		b.Term(MatrixA, 2, b.Coeff(&two))
		b.Term(MatrixB, 3, b.Coeff(&one))
		b.Term(MatrixC, 4, b.Coeff(&one))
		edit(b)
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
		s, err := b.System()
		if err != nil {
			t.Fatal(err)
		}
		return s.Digest()
	}
	base := build(func(*Builder) {})
	one, minus := elem(1), elem(-1)
	term := func(m int, w uint32, x *fr.Element) func(*Builder) {
		return func(b *Builder) { b.Term(m, w, b.Coeff(x)) }
	}
	if d := build(term(MatrixC, 2, &one)); d.AB != base.AB || d.ABC == base.ABC {
		t.Error("a term of C must change ABC only")
	}
	if d := build(term(MatrixB, 2, &one)); d.AB == base.AB || d.ABC == base.ABC {
		t.Error("a term of B must change both")
	}
	if d := build(func(b *Builder) { term(MatrixA, 4, &one)(b); term(MatrixA, 4, &minus)(b) }); d != base {
		t.Error("terms that cancel must change nothing")
	}
	if d := build(func(b *Builder) { b.s.NbPublic = 2 }); d.AB == base.AB {
		t.Error("another number of public inputs")
	}
	if d := build(func(b *Builder) { b.s.NbWires = 6 }); d.AB == base.AB {
		t.Error("another number of wires")
	}
	if d := build(func(b *Builder) { _ = b.EndRow() }); d.AB == base.AB {
		t.Error("another row")
	}
}

// reference is what the makers of a circuit computed about it.
type reference struct {
	Rows, Inputs, Aux int
	NNZ               [3]int
	Digest            string `json:"r1cs_sha256"`
	AAux              int    `json:"a_aux"`
	BInput            int    `json:"b_input"`
	BAux              int    `json:"b_aux"`
	AAuxSHA           string `json:"a_aux_sha256"`
	BInputSHA         string `json:"b_input_sha256"`
	BAuxSHA           string `json:"b_aux_sha256"`
}

// Circuits of Filecoin, from the row bytes of another program: digest, counts and densities are what bellperson has.
func TestFilecoinCircuits(t *testing.T) {
	for _, name := range []string{"por-8x8", "por-8-8-2-pub", "post-2k-1x1"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(testfiles.Root(), "testdata", "r1cs")
			stream, info := filepath.Join(dir, name+".stream.gz"), filepath.Join(dir, name+".json")
			if _, err := os.Stat(stream); err != nil {
				stream = testfiles.Shared(t, "fixtures", "filecoin", "r1cs-fine", name+".stream.gz")
				info = testfiles.Shared(t, "fixtures", "filecoin", "r1cs", name+".json")
			}
			f, err := os.Open(stream)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var ref reference
			if b, err := os.ReadFile(info); err != nil || json.Unmarshal(b, &ref) != nil {
				t.Fatal(err)
			}
			s := fromStream(t, testfiles.Gunzip(t, f), &ref)
			if nnz := [3]int{s.A.NNZ(), s.B.NNZ(), s.C.NNZ()}; nnz != ref.NNZ {
				t.Errorf("%v terms, want %v", nnz, ref.NNZ)
			}
			if d := s.Digest(); hex.EncodeToString(d.ABC[:]) != ref.Digest {
				t.Errorf("digest %x, want %s", d.ABC, ref.Digest)
			}
			a, b := s.Density()
			for _, x := range []struct {
				name     string
				bits     groth16.Bitmap
				from, to int
				count    int
				sha      string
			}{{"A, aux", a, ref.Inputs, s.NbWires, ref.AAux, ref.AAuxSHA}, {"B, inputs", b, 0, ref.Inputs, ref.BInput, ref.BInputSHA}, {"B, aux", b, ref.Inputs, s.NbWires, ref.BAux, ref.BAuxSHA}} {
				count, packed := 0, make([]byte, (x.to-x.from+7)/8)
				for i := x.from; i < x.to; i++ {
					if x.bits.Has(i) {
						count++
						packed[(i-x.from)/8] |= 1 << ((i - x.from) % 8)
					}
				}
				sum := sha256.Sum256(packed)
				if count != x.count || hex.EncodeToString(sum[:]) != x.sha {
					t.Errorf("%s: %d wires, want %d, or others", x.name, count, x.count)
				}
			}
			// Terms in another order, and one of each coefficient in two parts, are the same circuit.
			rng := rand.New(rand.NewPCG(1, 1))
			b2 := NewBuilder(s.NbWires, s.NbPublic, true, 0, 0)
			for i := range s.NbConstraints() {
				for k, m := range []*Matrix{&s.A, &s.B, &s.C} {
					wire, coeff := m.Row(i)
					for _, j := range rng.Perm(len(wire)) {
						part, rest := elem(rng.Int64()), s.Coeffs[coeff[j]]
						rest.Sub(&rest, &part)
						b2.Term(k, wire[j], b2.Coeff(&part))
						b2.Term(k, wire[j], b2.Coeff(&rest))
					}
				}
				if err := b2.EndRow(); err != nil {
					t.Fatal(err)
				}
			}
			s2, err := b2.System()
			if err != nil {
				t.Fatal(err)
			}
			if s2.Digest() != s.Digest() {
				t.Error("the order of terms changes the digest")
			}
			if a2, b2 := s2.Density(); !slices.Equal(a, a2) || !slices.Equal(b, b2) {
				t.Error("the order of terms changes the density")
			}
		})
	}
}

// fromStream builds a system from the row bytes of WEIR-R1CS-1.
func fromStream(t *testing.T, b []byte, ref *reference) *System {
	r := bytes.NewReader(b)
	read := func(x any) {
		if err := binary.Read(r, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
	}
	s := NewBuilder(ref.Inputs+ref.Aux, ref.Inputs-1, true, ref.Rows, 0)
	for range ref.Rows {
		for m := range 3 {
			var n uint32
			for read(&n); n > 0; n-- {
				var term struct {
					Kind  uint8
					Index uint32
					Coeff [32]byte
				}
				read(&term)
				c, err := fr.LittleEndian.Element(&term.Coeff)
				if err != nil {
					t.Fatal(err)
				}
				s.Term(m, term.Index+uint32(term.Kind)*uint32(ref.Inputs), s.Coeff(&c))
			}
		}
		if err := s.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	if r.Len() != 0 {
		t.Fatalf("%d bytes after the last row", r.Len())
	}
	out, err := s.System()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBuilder(t *testing.T) {
	b := NewBuilder(1, 0, true, 0, 0)
	for i, x := range []int64{1, 5, 1, -1, 5, 0, 0} {
		c := elem(x)
		if got, want := b.Coeff(&c), []uint32{0, 1, 0, 2, 1, 3, 3}[i]; got != want {
			t.Errorf("coefficient %d has index %d, want %d", x, got, want)
		}
	}
	s, err := b.System()
	if err != nil || s.NbConstraints() != 0 || s.LogDomain() != 0 {
		t.Errorf("an empty system: %v, %+v", err, s)
	}
	b = NewBuilder(2, 0, false, 0, 0)
	b.Term(MatrixA, 2, 0)
	_ = b.EndRow()
	if _, err := b.System(); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("wire beyond: %v", err)
	}
	for rows := range 40 {
		for public := range 5 {
			s := randomSystem(t, rand.New(rand.NewPCG(1, 1)), 9, public, rows, false)
			n := 1
			for n < rows+public+1 {
				n *= 2
			}
			if 1<<s.LogDomain() != n {
				t.Errorf("%d rows, %d public: 2^%d, want %d", rows, public, s.LogDomain(), n)
			}
		}
	}
}

// Rows as a circuit over bits has them: a few terms in ascending order, coefficients of small size.
func BenchmarkDigest(b *testing.B) {
	const rows = 1 << 16
	m := NewBuilder(rows, 1, true, rows, 0)
	for i := range rows {
		for k, terms := range []int{3, 2, 6} {
			for j := range terms {
				c := elem(1 << (j * k))
				m.Term(k, uint32(i/2+j*1000)%rows, m.Coeff(&c))
			}
		}
		if err := m.EndRow(); err != nil {
			b.Fatal(err)
		}
	}
	s, err := m.System()
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for range b.N {
		s.Digest()
	}
}
