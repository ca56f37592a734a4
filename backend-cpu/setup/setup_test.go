package setup

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

func system(t testing.TB, c circuitgen.Circuit) *r1cs.System {
	t.Helper()
	h := c.Header()
	b := r1cs.NewBuilder(int(h.Wires), int(h.Public()), true, int(h.Constraints), 0)
	c.Constraints(func(ra, rb, rc []circuitgen.Term) bool {
		for m, terms := range [][]circuitgen.Term{ra, rb, rc} {
			for i := range terms {
				b.Term(m, terms[i].Wire, b.Coeff(&terms[i].Coeff))
			}
		}
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
		return true
	})
	sys, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// shared is a fixture that is too big for the repository.
func shared(t *testing.T, path ...string) string {
	root := os.Getenv("WEIR_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	p := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("the fixture %s is not here; set WEIR_SHARED", p)
	}
	return p
}

// stream reads the rows of WEIR-R1CS-1.
func stream(t *testing.T, path string, inputs, aux int) *r1cs.System {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	b := r1cs.NewBuilder(inputs+aux, inputs-1, true, 0, 0)
	for len(raw) > 0 {
		for m := range 3 {
			n := binary.LittleEndian.Uint32(raw)
			raw = raw[4:]
			for range n {
				wire := binary.LittleEndian.Uint32(raw[1:])
				if raw[0] == 1 {
					wire += uint32(inputs)
				}
				c, err := fr.LittleEndian.Element((*[32]byte)(raw[5:37]))
				if err != nil {
					t.Fatal(err)
				}
				b.Term(m, wire, b.Coeff(&c))
				raw = raw[37:]
			}
		}
		if err := b.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	sys, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// toxic reads the secrets of a fixture's key.
func toxic(t *testing.T, id string) *contract.ToxicScalars {
	t.Helper()
	raw, err := os.ReadFile(shared(t, "fixtures", "filecoin", "keys", id+".proof.json"))
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Waste map[string]string `json:"toxic_waste"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		t.Fatal(err)
	}
	get := func(name string) []byte {
		b, err := hex.DecodeString(j.Waste[name])
		if err != nil || len(b) != 32 {
			t.Fatalf("scalar %s: %q", name, j.Waste[name])
		}
		return b
	}
	return &contract.ToxicScalars{Tau: get("tau"), Alpha: get("alpha"), Beta: get("beta"), Gamma: get("gamma"), Delta: get("delta")}
}

// A key from the public secrets of a bellperson fixture is bellperson's key, point for point.
func TestKeyEqualsBellpersons(t *testing.T) {
	for _, f := range []struct {
		id          string
		inputs, aux int
	}{{"por-8x8", 2, 539}, {"post-2k-1x1", 3, 1389}} {
		t.Run(f.id, func(t *testing.T) {
			sys := stream(t, shared(t, "fixtures", "filecoin", "r1cs-fine", f.id+".stream.gz"), f.inputs, f.aux)
			s, err := Given(toxic(t, f.id))
			if err != nil {
				t.Fatal(err)
			}
			pk, err := InMemory(context.Background(), sys, Options{Scalars: s, Tasks: 2})
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := bellman.Write(context.Background(), &got, pk, 2); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(shared(t, "fixtures", "filecoin", "keys", f.id+".params"))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Error("the .params differ")
			}
		})
	}
}

func TestWrittenKeyIsTheKeyInMemory(t *testing.T) {
	for _, c := range []struct {
		name string
		sys  *r1cs.System
		opts Options
	}{
		{"chain", system(t, circuitgen.Dense{Rows: 40}), Options{}},
		{"snarkjs' layout", system(t, circuitgen.Dense{Rows: 40}), Options{Rows: groth16.RowsFive, H: groth16.HOddCoset}},
		{"no row, no public input", &r1cs.System{NbWires: 1, HasC: true, Coeffs: []fr.Element{fr.One()}, A: r1cs.Matrix{Start: []uint32{0}}, B: r1cs.Matrix{Start: []uint32{0}}, C: r1cs.Matrix{Start: []uint32{0}}}, Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Seeded([]byte("42"))
			if err != nil {
				t.Fatal(err)
			}
			c.opts.Scalars, c.opts.Tasks = s, 2
			var last float64
			c.opts.Progress = func(stage string, f float64) {
				if f < last || f > 1 || stage == "" {
					t.Errorf("progress %q %v after %v", stage, f, last)
				}
				last = f
			}
			want, err := InMemory(context.Background(), c.sys, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			last = 0
			f, err := os.Create(filepath.Join(t.TempDir(), "key"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			shape, err := Write(context.Background(), f, c.sys, c.opts, "test")
			if err != nil {
				t.Fatal(err)
			}
			got, err := wkey.Map(f, "")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = got.Close() }()
			if err := got.VerifyChecksums(context.Background(), f, 2); err != nil {
				t.Error(err)
			}
			if got.Shape != *shape || !shape.Insecure || !shape.HasC {
				t.Errorf("shape %+v, returned %+v", got.Shape, *shape)
			}
			if d := c.sys.Digest(); got.Digest != d {
				t.Error("digest differs")
			}
			k := *got.Key()
			k.Shape = want.Shape
			if !equal(&k, want) {
				t.Error("points differ")
			}
			other := c.opts
			if other.H = groth16.HOddCoset; c.opts.H == groth16.HOddCoset {
				other.H = groth16.HMonomial
			}
			last = 0
			both, err := InMemory(context.Background(), c.sys, other)
			if err != nil {
				t.Fatal(err)
			}
			alt, err := got.AltH()
			if err != nil || !slices.Equal(alt, both.H) {
				t.Error("H in the other basis differs; ", err)
			}
			sys, err := got.System()
			if err != nil || sys.Digest() != c.sys.Digest() {
				t.Error("the circuit in the key is another; ", err)
			}
		})
	}
}

// equal compares keys; an empty slice equals nil.
func equal(a, b *groth16.ProvingKey) bool {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		if x.Field(i).Kind() == reflect.Slice && x.Field(i).Len() == 0 && y.Field(i).Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// The second basis is made in files, unless it is not wanted, and by Make only when it is.
func TestSecondBasisIsAnOption(t *testing.T) {
	sys := system(t, circuitgen.Dense{Rows: 6})
	for _, c := range []struct {
		alt        AltH
		file, sink bool
	}{{AltDefault, true, false}, {AltAlways, true, true}, {AltNever, false, false}} {
		f, err := os.Create(filepath.Join(t.TempDir(), "key"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		s, _ := Random()
		if _, err := Write(context.Background(), f, sys, Options{Scalars: s, AltH: c.alt}, "test"); err != nil {
			t.Fatal(err)
		}
		got, err := wkey.Map(f, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := got.AltBasis(); ok != c.file {
			t.Errorf("%d: second basis in the file: %v", c.alt, ok)
		}
		_ = got.Close()
		var sink sections
		if err := Make(context.Background(), sys, Options{Scalars: s, AltH: c.alt}, &sink); err != nil {
			t.Fatal(err)
		}
		if sink.points[H] != 7 || sink.points[HAlt] != map[bool]int{true: 8}[c.sink] {
			t.Errorf("%d: %v points of each section", c.alt, sink.points)
		}
	}
}

// sections counts points.
type sections struct{ points map[Section]int }

func (s *sections) Begin(*groth16.Shape, *groth16.VerifyingKey, groth16.Bitmap, groth16.Bitmap) error {
	s.points = map[Section]int{}
	return nil
}

func (s *sections) G1(sec Section, part []bls.G1Affine) error {
	s.points[sec] += len(part)
	return nil
}

func (s *sections) G2(sec Section, part []bls.G2Affine) error {
	s.points[sec] += len(part)
	return nil
}

func TestScalarsThatMakeNoKeyAreRefused(t *testing.T) {
	sys := system(t, circuitgen.Dense{Rows: 6}) // domain 8
	root := func(n uint64) fr.Element {
		w, err := fft.Generator(n)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for name, change := range map[string]func(s *Scalars){
		"tau zero":              func(s *Scalars) { s.Tau.SetZero() },
		"tau one":               func(s *Scalars) { s.Tau.SetOne() },
		"tau in the domain":     func(s *Scalars) { s.Tau = root(8) },
		"tau on the coset":      func(s *Scalars) { s.Tau = root(16) },
		"alpha zero":            func(s *Scalars) { s.Alpha.SetZero() },
		"beta zero":             func(s *Scalars) { s.Beta.SetZero() },
		"gamma zero":            func(s *Scalars) { s.Gamma.SetZero() },
		"delta zero":            func(s *Scalars) { s.Delta.SetZero() },
		"first generator zero":  func(s *Scalars) { s.G1.SetZero() },
		"second generator zero": func(s *Scalars) { s.G2.SetZero() },
	} {
		s, err := Random()
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		if _, err := InMemory(context.Background(), sys, Options{Scalars: s}); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestGivenScalarsAreChecked(t *testing.T) {
	ok := make([]byte, 32)
	ok[0] = 5
	whole := func() *contract.ToxicScalars {
		return &contract.ToxicScalars{Tau: ok, Alpha: ok, Beta: ok, Gamma: ok, Delta: ok}
	}
	s, err := Given(whole())
	if err != nil {
		t.Fatal(err)
	}
	if five := fr.NewElement(5); !s.Tau.Equal(&five) || !s.G1.IsOne() || !s.G2.IsOne() {
		t.Errorf("read %v", s)
	}
	for name, change := range map[string]func(s *contract.ToxicScalars){
		"missing":  func(s *contract.ToxicScalars) { s.Gamma = nil },
		"short":    func(s *contract.ToxicScalars) { s.Tau = ok[:31] },
		"too big":  func(s *contract.ToxicScalars) { s.Beta = bytes.Repeat([]byte{0xff}, 32) },
		"g1 short": func(s *contract.ToxicScalars) { s.G1 = ok[:1] },
	} {
		s := whole()
		change(s)
		if _, err := Given(s); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A seed gives the same key for ever: these values are part of the format.
func TestSeedsAreStable(t *testing.T) {
	s, err := Seeded([]byte("42"))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Seeded([]byte("42"))
	other, _ := Seeded([]byte("43"))
	if *s != *again || s.Tau == other.Tau || s.Tau == s.Alpha {
		t.Error("seeded scalars")
	}
	if got := hex.EncodeToString(groth16.ScalarBytes(&s.Tau)); got != seed42Tau {
		t.Error("tau of seed 42 is ", got)
	}
}

func TestCircuitWithoutCIsRefused(t *testing.T) {
	sys := system(t, circuitgen.Dense{Rows: 6})
	sys.HasC, sys.C = false, r1cs.Matrix{}
	s, _ := Random()
	if _, err := InMemory(context.Background(), sys, Options{Scalars: s}); !errs.Is(err, errs.InvalidArgument) || errs.HintOf(err) == "" {
		t.Error(err)
	}
}

// Cancelled at any of its progress calls a set-up ends with that, and the file is no key.
func TestCancelAtEveryStep(t *testing.T) {
	sys := system(t, circuitgen.Dense{Rows: 30})
	for at := 1; ; at++ {
		ctx, cancel := context.WithCancel(context.Background())
		s, _ := Random()
		calls := 0
		opts := Options{Scalars: s, Tasks: 2, Progress: func(string, float64) {
			if calls++; calls == at {
				cancel()
			}
		}}
		f, err := os.Create(filepath.Join(t.TempDir(), "key"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Write(ctx, f, sys, opts, "test")
		_, mapErr := wkey.Map(f, "")
		_ = f.Close()
		cancel()
		if calls < at { // it ran to its end
			if err != nil || at < 8 {
				t.Errorf("%d calls, %v", calls, err)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || !errs.Is(err, errs.Canceled) {
			t.Errorf("cancelled at call %d: %v", at, err)
		}
		if !errs.Is(mapErr, errs.InvalidFile) {
			t.Errorf("cancelled at call %d: what is left reads as %v", at, mapErr)
		}
	}
}

// seed42Tau was computed by another program, from RFC 5869.
const seed42Tau = "b74a7711711d1508b888c4aa629f350e1d5d20883ebb9513bc5c2e0849151221"

func TestAltHInFile(t *testing.T) {
	for _, c := range []struct {
		alt  AltH
		log  int
		want AltH
	}{
		{AltDefault, 0, AltAlways}, {AltDefault, 22, AltAlways}, {AltDefault, 23, AltNever}, {AltDefault, 28, AltNever},
		{AltAlways, 28, AltAlways}, {AltNever, 3, AltNever},
	} {
		if got := c.alt.inFile(c.log); got != c.want {
			t.Errorf("%d at 2^%d: %d, want %d", c.alt, c.log, got, c.want)
		}
	}
}
