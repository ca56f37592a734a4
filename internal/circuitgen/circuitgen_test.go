package circuitgen

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

type testCase struct {
	name string
	c    Circuit
	rows int
}

func cases() (out []testCase) {
	add := func(c Circuit, rows int) {
		out = append(out, testCase{fmt.Sprintf("%T%+v", c, c), c, rows})
	}
	for _, k := range []int{1, 2} {
		add(SHA256{Blocks: k, Seed: uint64(k)}, 29040*k+258)
	}
	for _, n := range []int{1, 2, 3, 7, 8, 9, 1023, 1024, 1025} {
		add(Dense{Rows: n, Seed: 5}, n)
		for _, m := range []Mix{GnarkMix(n, 1), PoRepMix(n, 2), {Rows: n}, {Rows: n, Zero: 1}, {Rows: n, One: 1}, {Rows: n, MinusOne: 1}} {
			add(m, n)
		}
	}
	for _, n := range []int{0, 1, 2, 3, 6, 7, 8, 9, 30, 31, 32} {
		for _, public := range []int{0, 1, 2, 3, 8, 100} {
			add(Tiny{Rows: n, Public: public, Seed: 3}, n)
		}
	}
	return out
}

// TestFiles reads both files of each circuit back.
func TestFiles(t *testing.T) {
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			p := read(t, tc.c)
			h := tc.c.Header()
			if p.header != h {
				t.Errorf("file says %+v, circuit %+v", p.header, h)
			}
			if len(p.rows) != tc.rows {
				t.Errorf("%d rows, want %d", len(p.rows), tc.rows)
			}
			if 1+h.Public()+h.PrivateInputs > h.Wires {
				t.Errorf("more inputs and outputs than wires: %+v", h)
			}
			for i, l := range p.labels {
				if l != uint64(i) {
					t.Fatalf("label %d of wire %d", l, i)
				}
			}
			if v := p.violated(p.witness); v != nil {
				t.Errorf("%d rows violated, first %d", len(v), v[0])
			}

			public := PublicValues(tc.c)
			if len(public) != int(h.Public()) {
				t.Fatalf("%d public values, want %d", len(public), h.Public())
			}
			for i := range public {
				if public[i] != p.witness[1+i] {
					t.Errorf("public value %d is %v, in the file %v", i, &public[i], &p.witness[1+i])
				}
			}

			s, err := Measure(tc.c)
			if err != nil {
				t.Fatal(err)
			}
			if want := count(&p); s != want {
				t.Errorf("measured %+v\nwant %+v", s, want)
			}
			if got := [2]uint64{s.R1CSBytes(), s.WTNSBytes()}; got != p.sizes {
				t.Errorf("sizes %d, want %d", got, p.sizes)
			}
		})
	}
}

// count is the slow twin of Measure.
func count(p *parsed) Stats {
	s := Stats{Header: p.header}
	in := [2]map[uint32]bool{{}, {}}
	for i := range p.header.Public() + 1 {
		in[0][i] = true
	}
	for _, r := range p.rows {
		for m := range in {
			for _, term := range r[m] {
				in[m][term.Wire] = true
			}
		}
		s.TermsA += uint64(len(r[0]))
		s.TermsB += uint64(len(r[1]))
		s.TermsC += uint64(len(r[2]))
	}
	s.WiresA, s.WiresB = uint64(len(in[0])), uint64(len(in[1]))
	for i := range p.witness {
		switch p.witness[i].String() {
		case "0":
			s.Zero++
		case "1":
			s.One++
		case "-1", "52435875175126190479447740508185965837690552500527637822603658699938581184512":
			s.MinusOne++
		default:
			s.Large++
		}
	}
	return s
}

// TestUnsatisfied checks that one value is wrong and breaks a row.
func TestUnsatisfied(t *testing.T) {
	for _, tc := range cases() {
		t.Run(tc.name, func(t *testing.T) {
			bad := Unsatisfied(tc.c)
			if tc.rows == 0 {
				if err := WriteWTNS(io.Discard, bad); !errs.Is(err, errs.InvalidArgument) {
					t.Errorf("without rows: error %v", err)
				}
				return
			}
			p := read(t, tc.c)
			var wtns bytes.Buffer
			if err := WriteWTNS(&wtns, bad); err != nil {
				t.Fatal(err)
			}
			w := parseWitness(t, wtns.Bytes())
			wrong := 0
			for i := range w {
				if w[i] != p.witness[i] {
					wrong++
				}
			}
			if wrong != 1 {
				t.Errorf("%d values differ, want 1", wrong)
			}
			if p.violated(w) == nil {
				t.Error("all rows are satisfied")
			}
		})
	}
}

// TestCorruptEveryWire makes each output and inner wire wrong in turn: none is free.
func TestCorruptEveryWire(t *testing.T) {
	for _, tc := range []testCase{
		{"sha256", SHA256{Blocks: 1, Seed: 1}, 0},
		{"dense", Dense{Rows: 100, Seed: 9}, 0},
		{"gnark mix", GnarkMix(1000, 9), 0},
		{"minus ones", Mix{Rows: 100, MinusOne: 1}, 0},
		{"tiny", Tiny{Rows: 20, Public: 7}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := read(t, tc.c)
			rowsOf := make([][]int, p.header.Wires) // rows in which a wire occurs
			for i, r := range p.rows {
				for m := range r {
					for _, term := range r[m] {
						rowsOf[term.Wire] = append(rowsOf[term.Wire], i)
					}
				}
			}
			two := fr.NewElement(2)
			check := func(wire uint32) {
				old := p.witness[wire]
				p.witness[wire].Add(&old, &two)
				defer func() { p.witness[wire] = old }()
				for _, i := range rowsOf[wire] {
					if !p.rows[i].satisfied(p.witness) {
						return
					}
				}
				t.Errorf("wire %d may have a wrong value", wire)
			}
			h := p.header
			for wire := uint32(1); wire <= h.Outputs; wire++ {
				check(wire)
			}
			for wire := 1 + h.Public() + h.PrivateInputs; wire < h.Wires; wire++ {
				check(wire)
			}
		})
	}
}

func TestCorrupt(t *testing.T) {
	c := Dense{Rows: 4}
	for _, wire := range []uint32{0, 7, math.MaxUint32} {
		if err := WriteWTNS(io.Discard, Corrupt(c, wire)); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("wire %d: error %v", wire, err)
		}
	}
	if err := WriteWTNS(io.Discard, Corrupt(Dense{}, 1)); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("invalid circuit: error %v", err)
	}
	r1cs, _ := write(t, c)
	if got, _ := write(t, Corrupt(c, 1)); !bytes.Equal(got, r1cs) {
		t.Error("constraints differ")
	}
	good, bad := PublicValues(c), PublicValues(Corrupt(c, 1))
	good[0].Sub(&bad[0], &good[0])
	if good[0] != fr.NewElement(2) {
		t.Errorf("difference %v, want 2", &good[0])
	}
}

func TestShares(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		c                     Circuit
		zero, one, minus, big float64 // per cent
		within                float64
	}{
		{"gnark", GnarkMix(100_000, 1), 55.2, 30.6, 13.9, 0.3, 1},
		{"porep", PoRepMix(100_000, 1), 49.25, 49.25, 0, 1.5, 1},
		{"even", Mix{Rows: 100_000, Zero: .25, One: .25, MinusOne: .25}, 25, 25, 25, 25, 1},
		{"zeros", Mix{Rows: 10_000, Zero: 1}, 100, 0, 0, 0, 0.1},
		{"ones", Mix{Rows: 10_000, One: 1}, 0, 100, 0, 0, 0.1},
		{"minus ones", Mix{Rows: 10_000, MinusOne: 1}, 0, 0, 100, 0, 0.1},
		{"full", Mix{Rows: 10_000}, 0, 0, 0, 100, 0.1},
		{"dense", Dense{Rows: 10_000}, 0, 0, 0, 100, 0.1},
		{"sha256", SHA256{Blocks: 2, Seed: 2}, 57.7, 42.3, 0, 0, 1},
	} {
		s, err := Measure(tc.c)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range [][2]float64{
			{100 * s.Share(s.Zero), tc.zero}, {100 * s.Share(s.One), tc.one},
			{100 * s.Share(s.MinusOne), tc.minus}, {100 * s.Share(s.Large), tc.big},
		} {
			if math.Abs(x[0]-x[1]) > tc.within {
				t.Errorf("%s: share %d is %.2f %%, want %.2f %%", tc.name, i, x[0], x[1])
			}
		}
	}
}

// TestDeterminism pins the bytes: benchmarks of different days and machines must see the
// same circuits.
func TestDeterminism(t *testing.T) {
	for _, tc := range []struct {
		name       string
		c          Circuit
		r1cs, wtns string // first 16 digits of SHA-256
	}{
		{"sha256", SHA256{Blocks: 1, Seed: 7}, "6e4eaf7cfafcad7d", "504658d03374403f"},
		{"dense", Dense{Rows: 100, Seed: 7}, "78758efd9eb0acf6", "83e66ca214f0d8c5"},
		{"mix", GnarkMix(1000, 7), "06cb9275fdf0a62a", "f899b172a85dde91"},
		{"tiny", Tiny{Rows: 9, Public: 3, Seed: 7}, "25e3c7811a5fee78", "79eb594e9a31169b"},
	} {
		r1cs, wtns := write(t, tc.c)
		r1cs2, wtns2 := write(t, tc.c)
		if !bytes.Equal(r1cs, r1cs2) || !bytes.Equal(wtns, wtns2) {
			t.Errorf("%s: written twice, the files differ", tc.name)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(r1cs))[:16]; got != tc.r1cs {
			t.Errorf("%s: .r1cs has digest %s, want %s", tc.name, got, tc.r1cs)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(wtns))[:16]; got != tc.wtns {
			t.Errorf("%s: .wtns has digest %s, want %s", tc.name, got, tc.wtns)
		}
	}
	for _, pair := range [][2]Circuit{
		{SHA256{Blocks: 1, Seed: 1}, SHA256{Blocks: 1, Seed: 2}},
		{Dense{Rows: 3, Seed: 1}, Dense{Rows: 3, Seed: 2}},
		{GnarkMix(100, 1), GnarkMix(100, 2)},
		{Tiny{Rows: 3, Public: 1, Seed: 1}, Tiny{Rows: 3, Public: 1, Seed: 2}},
	} {
		_, w0 := write(t, pair[0])
		_, w1 := write(t, pair[1])
		if bytes.Equal(w0, w1) {
			t.Errorf("%T: two seeds give one witness", pair[0])
		}
	}
}

// TestStop checks that a walk ends when its listener has had enough, at the start, in
// the middle and at the last item.
func TestStop(t *testing.T) {
	for _, tc := range cases() {
		h := tc.c.Header()
		for _, walk := range []struct {
			name  string
			total uint32
			run   func(seen func() bool)
		}{
			{"constraints", h.Constraints, func(seen func() bool) {
				tc.c.Constraints(func(a, b, c []Term) bool { return seen() })
			}},
			{"witness", h.Wires, func(seen func() bool) {
				tc.c.Witness(func(v *fr.Element) bool { return seen() })
			}},
		} {
			for _, after := range []uint32{1, 2, 3, 4, 5, walk.total / 2, walk.total} {
				if after == 0 || after > walk.total {
					continue
				}
				n := uint32(0)
				walk.run(func() bool { n++; return n < after })
				if n != after {
					t.Errorf("%s: %s: %d calls, asked to stop after %d", tc.name, walk.name, n, after)
				}
			}
		}
	}
}

func TestInvalid(t *testing.T) {
	for _, c := range []Circuit{
		SHA256{}, SHA256{Blocks: -1}, SHA256{Blocks: math.MaxInt},
		Dense{}, Dense{Rows: -1}, Dense{Rows: math.MaxInt},
		Tiny{Rows: -1}, Tiny{Public: -1}, Tiny{Rows: maxRows, Public: 1}, Tiny{Public: math.MaxInt},
		Mix{}, Mix{Rows: -1}, Mix{Rows: math.MaxInt},
		Mix{Rows: 1, Zero: -.1}, Mix{Rows: 1, One: 1.1}, Mix{Rows: 1, MinusOne: math.NaN()}, Mix{Rows: 1, Zero: .6, One: .6},
	} {
		if err := WriteR1CS(io.Discard, c); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%+v: .r1cs: error %v", c, err)
		}
		if err := WriteWTNS(io.Discard, c); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%+v: .wtns: error %v", c, err)
		}
		if _, err := Measure(c); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%+v: measure: error %v", c, err)
		}
	}
}

// lying is a circuit whose header is wrong by some rows and wires.
type lying struct {
	Dense
	rows, wires int
}

func (l lying) Header() Header {
	h := l.Dense.Header()
	h.Constraints += uint32(l.rows)
	h.Wires += uint32(l.wires)
	return h
}

func TestHeaderMismatch(t *testing.T) {
	for _, d := range []int{-1, 1} {
		if err := WriteR1CS(io.Discard, lying{Dense{Rows: 5}, d, 0}); !errs.Is(err, errs.Internal) {
			t.Errorf("rows off by %d: error %v", d, err)
		}
		if err := WriteWTNS(io.Discard, lying{Dense{Rows: 5}, 0, d}); !errs.Is(err, errs.Internal) {
			t.Errorf("wires off by %d: error %v", d, err)
		}
	}
}

// brokenWriter takes some bytes and then fails.
type brokenWriter struct{ left int }

var errBroken = errors.New("broken writer")

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestWriteError(t *testing.T) {
	c := Dense{Rows: 100_000}
	for _, left := range []int{0, flushBytes, 3 * flushBytes} {
		if err := WriteR1CS(&brokenWriter{left}, c); !errors.Is(err, errBroken) {
			t.Errorf(".r1cs after %d bytes: error %v", left, err)
		}
		if err := WriteWTNS(&brokenWriter{left}, c); !errors.Is(err, errBroken) {
			t.Errorf(".wtns after %d bytes: error %v", left, err)
		}
	}
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	c := Tiny{Rows: 3, Public: 2}
	r1cs, wtns, err := WriteFiles(dir, "x", c)
	if err != nil {
		t.Fatal(err)
	}
	if r1cs != filepath.Join(dir, "x.r1cs") || wtns != filepath.Join(dir, "x.wtns") {
		t.Errorf("paths %s, %s", r1cs, wtns)
	}
	wantR1CS, wantWTNS := write(t, c)
	for path, want := range map[string][]byte{r1cs: wantR1CS, wtns: wantWTNS} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: error %v, or other content than written to memory", path, err)
		}
	}

	if _, _, err := WriteFiles(dir, "bad", Dense{}); err == nil {
		t.Error("invalid circuit written")
	}
	if _, _, err := WriteFiles(filepath.Join(dir, "missing"), "x", c); !errs.Is(err, errs.NotFound) {
		t.Errorf("missing folder: error %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("files after failures: %v, error %v", left, err)
	}
}

// TestMemory checks that what a writer allocates does not grow with the circuit. All
// allocations count, not only live ones, so the bound is hard.
func TestMemory(t *testing.T) {
	const bound = 2 << 20
	for _, c := range []Circuit{SHA256{Blocks: 3}, Dense{Rows: 1 << 17}, GnarkMix(1<<17, 0), Tiny{Rows: 1 << 17, Public: 5}} {
		for _, f := range []struct {
			name  string
			write func(io.Writer, Circuit) error
		}{{".r1cs", WriteR1CS}, {".wtns", WriteWTNS}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := f.write(io.Discard, c); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > bound {
				t.Errorf("%T %s: %d bytes allocated, want %d at most", c, f.name, n, bound)
			}
		}
	}
}

func TestDomain(t *testing.T) {
	for _, tc := range []struct {
		rows, public int
		want         uint64
	}{
		{0, 0, 2}, {0, 1, 2}, {1, 0, 2}, {1, 1, 4}, {2, 0, 4}, {0, 3, 4}, {0, 4, 8},
		{1022, 1, 1024}, {1023, 1, 2048}, {1 << 20, 0, 1 << 21}, {1<<20 - 1, 0, 1 << 20},
	} {
		if got := (Tiny{Rows: tc.rows, Public: tc.public}).Header().Domain(); got != tc.want {
			t.Errorf("%d rows, %d public: domain %d, want %d", tc.rows, tc.public, got, tc.want)
		}
	}
	for k := 1; k <= 30; k++ {
		for _, public := range []int{0, 1} {
			n := FillDomain(k, public)
			h := Header{Constraints: uint32(n), PublicInputs: uint32(public)}
			if h.Domain() != 1<<k {
				t.Errorf("2^%d with %d public: %d rows have domain %d", k, public, n, h.Domain())
			}
			h.Constraints++
			if h.Domain() != 1<<(k+1) {
				t.Errorf("2^%d with %d public: one row more still fits", k, public)
			}
		}
	}
}

func BenchmarkWriteR1CS(b *testing.B) {
	for _, tc := range []testCase{{"sha256", SHA256{Blocks: 9}, 0}, {"dense", Dense{Rows: 1<<18 - 2}, 0}, {"mix", GnarkMix(1<<18-2, 0), 0}} {
		b.Run(tc.name, func(b *testing.B) {
			s, err := Measure(tc.c)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(s.R1CSBytes()))
			for b.Loop() {
				if err := WriteR1CS(io.Discard, tc.c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
