package iden3

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
)

var ctx = context.Background()

func openR1CS(b []byte) (*R1CSFile, error) { return OpenR1CS(bytes.NewReader(b), int64(len(b))) }

// readR1CS does all that can be done with the bytes.
func readR1CS(b []byte) (*r1cs.System, error) {
	f, err := openR1CS(b)
	if err != nil {
		return nil, err
	}
	for _, err := range f.Labels() {
		if err != nil {
			return nil, err
		}
	}
	return f.System(ctx)
}

// What `snarkjs r1cs info` says about these files.
func TestR1CSHeaders(t *testing.T) {
	for name, want := range map[string]R1CSHeader{
		"multiplier":       {NbWires: 7, NbPubOut: 1, NbPubIn: 0, NbPrvIn: 3, NbLabels: 7, NbConstraints: 3},
		"zero_constraints": {NbWires: 2, NbPubOut: 0, NbPubIn: 1, NbPrvIn: 2, NbLabels: 5, NbConstraints: 0},
	} {
		f, err := openR1CS(testfiles.Fixture(t, name, "circuit.r1cs"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Header() != want {
			t.Errorf("%s: %+v, want %+v", name, f.Header(), want)
		}
	}
}

// Every fixture: the witness satisfies the system, and both files come out of the writers byte for byte.
func TestFixtures(t *testing.T) {
	names := append(slices.Clone(testfiles.Small), testfiles.Large...)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			raw := testfiles.Fixture(t, name, "circuit.r1cs")
			f, err := openR1CS(raw)
			if err != nil {
				t.Fatal(err)
			}
			s, err := f.System(ctx)
			if err != nil {
				t.Fatal(err)
			}
			h := f.Header()
			if s.NbConstraints() != h.NbConstraints || s.NbWires != h.NbWires || s.NbPublic != h.NbPublic() || !s.HasC {
				t.Errorf("system %d rows, %d wires, %d public; header %+v", s.NbConstraints(), s.NbWires, s.NbPublic, h)
			}
			rawWitness := testfiles.Fixture(t, name, "witness.wtns")
			wf, err := OpenWitness(bytes.NewReader(rawWitness), int64(len(rawWitness)))
			if err != nil {
				t.Fatal(err)
			}
			v, err := wf.Vector(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if bad, err := s.Check(ctx, v, 2); err != nil || bad != nil {
				t.Fatalf("row %+v, %v", bad, err)
			}
			checkAgainstLimbs(t, wf, rawWitness, v.At)

			var out bytes.Buffer
			if err := WriteR1CS(&out, s, R1CSInfo{NbPubOut: h.NbPubOut, NbPrvIn: h.NbPrvIn, NbLabels: h.NbLabels, Labels: f.Labels()}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), raw) {
				t.Error("the .r1cs comes out different")
			}
			out.Reset()
			err = WriteWitness(&out, v.Len(), func(yield func(fr.Element) bool) {
				for i := range v.Len() {
					if !yield(v.At(i)) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), rawWitness) {
				t.Error("the .wtns comes out different")
			}
		})
	}
}

// checkAgainstLimbs compares the reader with a slow reading by big integers.
func checkAgainstLimbs(t *testing.T, f *WitnessFile, raw []byte, at func(int) fr.Element) {
	t.Helper()
	data := raw[f.values.Offset:]
	listed := 0
	i := 0
	for x, err := range f.Values(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		v := new(big.Int).SetBytes(reversed(data[32*i : 32*i+32]))
		var want fr.Element
		want.SetBigInt(v)
		if got := at(i); !got.Equal(&want) || !x.Equal(&want) {
			t.Fatalf("value %d: %s and %s, want %s", i, got.String(), x.String(), v)
		}
		if v.BitLen() > 1 {
			listed++
		}
		i++
	}
	if n, err := f.Scan(ctx); err != nil || n != listed || i != f.Len() {
		t.Errorf("Scan says %d, %v; %d of %d values are not bits", n, err, listed, i)
	}
}

func TestR1CSSectionOrderIsFree(t *testing.T) {
	f := split(t, testfiles.Fixture(t, "multiplier", "circuit.r1cs"))
	want, err := readR1CS(f.bytes())
	if err != nil {
		t.Fatal(err)
	}
	f.sections = append(f.sections, sec{1234, []byte("something new"), -1})
	for range 4 {
		f.sections = append(f.sections[1:], f.sections[0])
		got, err := readR1CS(f.bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest() != want.Digest() {
			t.Error("another system")
		}
	}
}

func le32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

func leInt(x *big.Int) []byte { return reversed(x.FillBytes(make([]byte, 32))) }

func TestR1CSRefuses(t *testing.T) {
	raw := testfiles.Fixture(t, "multiplier", "circuit.r1cs")
	r := fr.Modulus()
	// The first combination of the multiplier, -a, has one term.
	set := func(off int, b []byte) func(*sec) { return func(s *sec) { copy(s.data[off:], b) } }
	head := 4 + 32 // of the counts in section 1
	for name, tc := range map[string]struct {
		id    uint32
		edit  func(*sec)
		class errs.Class
		parts []string
	}{
		"field of 8 bytes":     {1, func(s *sec) { s.data = append(le32(8), s.data[4:]...) }, errs.Unsupported, []string{"bls12-381"}},
		"field of 0 bytes":     {1, set(0, le32(0)), errs.InvalidFile, []string{"multiple of 8"}},
		"field of 2^32-8":      {1, set(0, le32(1<<32-8)), errs.InvalidFile, []string{"multiple of 8"}},
		"bn128":                {1, set(4, leInt(bn128())), errs.Unsupported, []string{"the prime of bn128"}},
		"r-2":                  {1, set(4, leInt(new(big.Int).Sub(r, big.NewInt(2)))), errs.Unsupported, []string{"the prime 5243587517512619047944774"}},
		"header short":         {1, func(s *sec) { s.data = s.data[:63] }, errs.InvalidFile, []string{"64 bytes", "63 bytes"}},
		"header long":          {1, func(s *sec) { s.data = append(s.data, 0) }, errs.InvalidFile, []string{"65 bytes"}},
		"header empty":         {1, func(s *sec) { s.data = nil }, errs.InvalidFile, []string{"section 1"}},
		"no wires":             {1, set(head, le32(0)), errs.InvalidFile, []string{"0 wires"}},
		"too few wires":        {1, set(head, le32(1)), errs.InvalidFile, []string{"1 wires"}},
		"2^32-1 wires":         {1, set(head, le32(1<<32-1)), errs.Unsupported, []string{"4294967295"}},
		"2^31 wires":           {1, set(head, le32(1<<31)), errs.InvalidFile, []string{"section 3"}},
		"one wire more":        {1, set(head, le32(8)), errs.InvalidFile, []string{"section 3", "64 bytes", "56 bytes"}},
		"2^32-1 outputs":       {1, set(head+4, le32(1<<32-1)), errs.InvalidFile, []string{"4294967295 public outputs"}},
		"2^32-1 public inputs": {1, set(head+8, le32(1<<32-1)), errs.InvalidFile, []string{"4294967295 public inputs"}},
		"2^32-1 rows":          {1, set(head+24, le32(1<<32-1)), errs.Unsupported, []string{"4294967295 rows"}},
		"2^28-2 rows":          {1, set(head+24, le32(1<<28-2)), errs.InvalidFile, []string{"section 2", "268435454 constraints"}},
		"one row more":         {1, set(head+24, le32(4)), errs.InvalidFile, []string{"section 2"}},
		"one row less":         {1, set(head+24, le32(2)), errs.InvalidFile, []string{"section 2", "more bytes"}},
		"2^32-1 terms":         {2, set(0, le32(1<<32-1)), errs.InvalidFile, []string{"constraint 0, A", "4294967295"}},
		"too many terms":       {2, set(0, le32(15)), errs.InvalidFile, []string{"constraint 0, A", "at most 14 terms", "15"}},
		"wire beyond":          {2, set(4, le32(7)), errs.InvalidFile, []string{"section 2, offset 28, constraint 0, A", "a wire below 7"}},
		"wire 2^32-1":          {2, set(4, le32(1<<32-1)), errs.InvalidFile, []string{"4294967295"}},
		"coefficient r":        {2, set(8, leInt(r)), errs.InvalidFile, []string{"constraint 0, A", "below the group order"}},
		"coefficient 2^256-1":  {2, set(8, bytes.Repeat([]byte{255}, 32)), errs.InvalidFile, []string{"below the group order"}},
		"constraints short":    {2, func(s *sec) { s.data = s.data[:len(s.data)-1] }, errs.InvalidFile, []string{"section 2"}},
		"constraints empty":    {2, func(s *sec) { s.data = nil }, errs.InvalidFile, []string{"section 2"}},
		"constraints long":     {2, func(s *sec) { s.data = append(s.data, 0) }, errs.InvalidFile, []string{"1 more bytes"}},
		"labels short":         {3, func(s *sec) { s.data = s.data[:55] }, errs.InvalidFile, []string{"section 3", "55 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := split(t, raw)
			tc.edit(f.section(tc.id))
			var err error
			if n := allocated(func() { _, err = readR1CS(f.bytes()) }); n > 1<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			wantClass(t, err, tc.class, tc.parts...)
		})
	}
	for id := uint32(1); id <= 3; id++ {
		_, err := readR1CS(split(t, raw).without(id).bytes())
		wantClass(t, err, errs.InvalidFile, "no such section")
	}
	for n := range len(raw) {
		if _, err := readR1CS(raw[:n]); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

func bn128() *big.Int {
	p, _ := new(big.Int).SetString("21888242871839275222246405745257275088548364400416034343698204186575808495617", 10)
	return p
}

func TestCustomGates(t *testing.T) {
	f := split(t, testfiles.Fixture(t, "multiplier", "circuit.r1cs"))
	f.sections = append(f.sections, sec{4, le32(0), -1}, sec{5, le32(0), -1})
	if _, err := readR1CS(f.bytes()); err != nil {
		t.Errorf("empty lists of custom gates: %v", err)
	}
	for i := range 2 {
		g := split(t, f.bytes())
		g.sections[3+i].data = le32(1)
		_, err := readR1CS(g.bytes())
		wantClass(t, err, errs.Unsupported, "custom gates")
		g.sections[3+i].data = nil
		_, err = readR1CS(g.bytes())
		wantClass(t, err, errs.InvalidFile)
	}
}

// Terms that are unsorted, repeated, zero or all the same survive reading and writing; the digest sums them.
func TestR1CSKeepsTerms(t *testing.T) {
	b := r1cs.NewBuilder(5, 1, true, 0, 0)
	two := fr.NewElement(2)
	var minus, zero fr.Element
	one := fr.One()
	minus.Neg(&one)
	for _, x := range []struct {
		m    int
		wire uint32
		c    *fr.Element
	}{{0, 4, &two}, {0, 1, &minus}, {0, 4, &two}, {1, 3, &zero}, {1, 2, &one}, {2, 2, &one}, {2, 2, &minus}} {
		b.Term(x.m, x.wire, b.Coeff(x.c))
	}
	if err := b.EndRow(); err != nil {
		t.Fatal(err)
	}
	if err := b.EndRow(); err != nil { // an empty row
		t.Fatal(err)
	}
	s, err := b.System()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteR1CS(&out, s, R1CSInfo{NbPubOut: 1}); err != nil {
		t.Fatal(err)
	}
	f, err := openR1CS(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if h := f.Header(); h != (R1CSHeader{NbWires: 5, NbPubOut: 1, NbLabels: 5, NbConstraints: 2}) {
		t.Errorf("%+v", h)
	}
	got, err := f.System(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest() != s.Digest() {
		t.Error("another digest")
	}
	wire, coeff := got.A.Row(0)
	if !slices.Equal(wire, []uint32{4, 1, 4}) || !got.Coeffs[coeff[1]].Equal(&minus) || coeff[0] != coeff[2] {
		t.Errorf("row A: wires %v, coefficients %v", wire, coeff)
	}
	if got.A.Rows() != 2 || got.A.NNZ() != 3 || got.B.NNZ() != 2 || got.C.NNZ() != 2 {
		t.Error("other counts")
	}
	i := 0
	for l, err := range f.Labels() {
		if err != nil || l != uint64(i) {
			t.Errorf("label %d of wire %d, %v", l, i, err)
		}
		i++
	}
	s.HasC = false
	wantClass(t, WriteR1CS(&out, s, R1CSInfo{}), errs.Unsupported, "no C rows")
}

// A file of more than 4 GiB: labels of 700 million wires lie beyond the constraints. Nothing near that is read or allocated.
func TestR1CSBeyond4GiB(t *testing.T) {
	f := split(t, testfiles.Fixture(t, "multiplier", "circuit.r1cs"))
	const wires = 700_000_000
	binary.LittleEndian.PutUint32(f.section(1).data[36:], wires)
	labels := f.section(3)
	labels.data, labels.size = nil, wires*8
	f.sections = []sec{*labels, *f.section(1), *f.section(2)} // constraints after the large section
	pieces := map[int64][]byte{}
	b := f.bytes()
	at := int64(12 + 12)
	pieces[0] = b[:at]
	pieces[at+wires*8] = b[at:]
	src := &sparse{size: int64(len(b)) + wires*8, pieces: pieces}
	var s *r1cs.System
	n := allocated(func() {
		file, err := OpenR1CS(src, src.size)
		if err != nil {
			t.Fatal(err)
		}
		if file.constraints.Offset < 1<<32 {
			t.Fatalf("constraints at %d", file.constraints.Offset)
		}
		if s, err = file.System(ctx); err != nil {
			t.Fatal(err)
		}
	})
	if s.NbWires != wires || s.NbConstraints() != 3 || s.A.NNZ() != 5 {
		t.Errorf("%d wires, %d rows, %d terms", s.NbWires, s.NbConstraints(), s.A.NNZ())
	}
	if n > 1<<21 || src.widest > bufferSize {
		t.Errorf("%d bytes allocated, a read of %d bytes", n, src.widest)
	}
}

func TestR1CSCanceled(t *testing.T) {
	f, err := openR1CS(testfiles.Fixture(t, "multiplier", "circuit.r1cs"))
	if err != nil {
		t.Fatal(err)
	}
	c, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.System(c); !errs.Is(err, errs.Canceled) {
		t.Error(err)
	}
}

// snarkjs reads what the writers wrote, and checks the witness against the constraints.
func TestSnarkjsReadsOurFiles(t *testing.T) {
	snarkjs := testfiles.Snarkjs(t)
	raw := testfiles.Fixture(t, "publics100", "circuit.r1cs")
	s, err := readR1CS(raw)
	if err != nil {
		t.Fatal(err)
	}
	rawWitness := testfiles.Fixture(t, "publics100", "witness.wtns")
	wf, err := OpenWitness(bytes.NewReader(rawWitness), int64(len(rawWitness)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r1csPath, wtnsPath := filepath.Join(dir, "c.r1cs"), filepath.Join(dir, "w.wtns")
	write := func(path string, change bool) {
		var b bytes.Buffer
		if path == r1csPath {
			err = WriteR1CS(&b, s, R1CSInfo{NbPubOut: 3, NbPrvIn: 5})
		} else {
			err = WriteWitness(&b, wf.Len(), func(yield func(fr.Element) bool) {
				i := 0
				for x, err := range wf.Values(ctx) {
					if err != nil {
						t.Error(err)
					}
					if i++; i == wf.Len() && change {
						x.Double(&x).Add(&x, new(fr.Element).SetOne())
					}
					if !yield(x) {
						return
					}
				}
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(r1csPath, false)
	out, err := snarkjs("r1cs", "info", r1csPath)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"bls12-381", "# of Public Inputs: 100", "# of Outputs: 3", "# of Private Inputs: 5"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	write(wtnsPath, false)
	if out, err := snarkjs("wtns", "check", r1csPath, wtnsPath); err != nil || !strings.Contains(out, "WITNESS IS CORRECT") {
		t.Errorf("%v\n%s", err, out)
	}
	write(wtnsPath, true)
	if out, err := snarkjs("wtns", "check", r1csPath, wtnsPath); err == nil || strings.Contains(out, "WITNESS IS CORRECT") {
		t.Errorf("a changed witness is correct for snarkjs:\n%s", out)
	}
}
