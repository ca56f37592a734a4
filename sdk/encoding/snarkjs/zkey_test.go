package snarkjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Every fixture: everything is read and checked, the two vkeys agree, snarkjs' proof verifies, A and B are those of the .r1cs, and the key comes out of the writer byte
// for byte. Then a proof is made from what was read: it holds only if every point, the H points too, is in its place.
func TestFixtures(t *testing.T) {
	for _, name := range append(slices.Clone(testfiles.Small), testfiles.Large...) {
		t.Run(name, func(t *testing.T) {
			if (testing.Short() || testfiles.Race) && slices.Contains(testfiles.Large, name) {
				t.Skip("a large key: not with -short, nor under the race detector")
			}
			raw := testfiles.Fixture(t, name, "circuit.zkey")
			z := must(openZKey(raw))(t)
			pk := must(z.ProvingKey(ctx, ReadOptions{Subgroup: name != "sha256_64"}))(t)
			s := must(z.System(ctx))(t)
			shape := must(z.Shape(ctx))(t)
			if shape != pk.Shape || shape.Insecure || shape.NbConstraints != s.NbConstraints() {
				t.Errorf("shape %+v, key %+v", shape, pk.Shape)
			}
			full := circuit(t, name)
			if got, want := s.Digest().AB, full.Digest().AB; got != want || s.HasC {
				t.Errorf("A and B of the .zkey %x, of the .r1cs %x", got, want)
			}
			a, b := full.Density()
			if !reflect.DeepEqual(a, pk.AWires) || !reflect.DeepEqual(b, pk.BWires) {
				t.Error("the finite points are not those of the wires in A and B")
			}

			vk := must(ParseVerifyingKey(testfiles.Fixture(t, name, "vkey.json")))(t)
			fromKey := pk.VK
			fromKey.BetaG1, fromKey.DeltaG1 = bls.G1Affine{}, bls.G1Affine{}
			if !reflect.DeepEqual(*vk, fromKey) {
				t.Error("vkey.json and .zkey differ")
			}
			v := must(groth16.NewVerifier(&pk.VK))(t)
			proofs, _, err := ParseProofs(testfiles.Fixture(t, name, "proof.json"))
			if err != nil {
				t.Fatal(err)
			}
			public, _, err := ParsePublic(testfiles.Fixture(t, name, "public.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Verify(&proofs[0], public[0]); err != nil {
				t.Errorf("snarkjs' proof: %v", err)
			}

			w := witness(t, name)
			ours := prove(t, pk, s, w)
			if err := v.Verify(&ours, public[0]); err != nil {
				t.Errorf("our proof: %v", err)
			}
			var out bytes.Buffer
			if err := WriteZKey(&out, pk, s, must(z.Transcript())(t)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), raw) {
				t.Error("the key comes out different")
			}
			c := must(z.Contributions())(t)
			if len(c.List) != 1 || !strings.HasPrefix(c.List[0].Name, "h3 fixture ") || c.CircuitHash == [64]byte{} {
				t.Errorf("contributions %+v", c)
			}
		})
	}
}

// The test above can fail: without the permutation of H, and with rows in another order, proofs do not hold from N = 8 on.
func TestOrderMatters(t *testing.T) {
	pk, s, err := readAll(testfiles.Fixture(t, "publics100", "circuit.zkey"), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := witness(t, "publics100")
	public := must(w.Public(pk.NbPublic))(t)
	v := must(groth16.NewVerifier(&pk.VK))(t)
	check := func(what string, pk *groth16.ProvingKey) {
		t.Helper()
		p := prove(t, pk, s, w)
		if err := v.Verify(&p, public); !errs.Is(err, errs.InvalidProof) {
			t.Errorf("%s: %v", what, err)
		}
	}
	wrong := *pk
	wrong.Rows = groth16.RowsSeven
	check("rows of the generator 7", &wrong)
	wrong = *pk
	wrong.H = make([]bls.G1Affine, len(pk.H))
	for i := range wrong.H {
		wrong.H[i] = pk.H[hPosition(i, pk.LogDomain)]
	}
	check("H in file order", &wrong)
}

// A key made from known secrets is written, read back the same, and both prove, at every domain size from 2 to 256 and with both placements of the rows.
func TestTextbookKeys(t *testing.T) {
	for _, tc := range []struct{ rows, public int }{{0, 1}, {1, 0}, {1, 1}, {2, 1}, {3, 0}, {6, 1}, {7, 0}, {7, 1}, {12, 3}, {20, 11}, {60, 4}, {127, 0}, {120, 8}} {
		for _, order := range []groth16.RowOrder{groth16.RowsFive, groth16.RowsSeven} {
			testTextbookKey(t, tc.rows, tc.public, order)
		}
	}
}

func testTextbookKey(t *testing.T, rows, public int, order groth16.RowOrder) {
	t.Run(fmt.Sprintf("%d rows, %d public, %v", rows, public, order), func(t *testing.T) {
		c := textbook.Random(uint64(rows), rows, public)
		in := textbook.New(c.System, textbook.ToxicFrom(3), order, groth16.HOddCoset)
		pk := in.Key()
		var b bytes.Buffer
		if err := WriteZKey(&b, pk, c.System, nil); err != nil {
			t.Fatal(err)
		}
		got, s, err := readAll(b.Bytes(), ReadOptions{Subgroup: true})
		if err != nil {
			t.Fatal(err)
		}
		if !got.Insecure {
			t.Error("a key without contributions must count as insecure")
		}
		pk.HasC = false
		if pk.LogDomain <= 2 { // there the two are one
			pk.Rows = groth16.RowsFive
		}
		if got.Shape != pk.Shape || !reflect.DeepEqual(got.VK, pk.VK) || !slices.Equal(got.A, pk.A) || !slices.Equal(got.B1, pk.B1) || !slices.Equal(got.B2, pk.B2) ||
			!slices.Equal(got.K, pk.K) || !slices.Equal(got.H, pk.H) || !slices.Equal(got.AWires, pk.AWires) || !slices.Equal(got.BWires, pk.BWires) {
			t.Errorf("another key: %+v, want %+v", got.Shape, pk.Shape)
		}
		if s.Digest().AB != c.System.Digest().AB {
			t.Error("another system")
		}
		w := dense(t, c.W)
		p := prove(t, got, s, w)
		if want := in.Proof(c.W, groth16.Randomness{}); p != want {
			t.Error("another proof")
		}
	})
}

func dense(t testing.TB, w []fr.Element) *assignment.Vector {
	buf := make([]uint64, assignment.DenseSize(len(w))/8)
	b := must(assignment.NewBuilder(byteView(buf), assignment.Dense, len(w)))(t)
	for i := range w {
		if err := b.Append(&w[i]); err != nil {
			t.Fatal(err)
		}
	}
	return must(b.Finish())(t)
}

func TestWriteZKeyRefuses(t *testing.T) {
	c := textbook.Random(5, 12, 2)
	key := func(rows groth16.RowOrder, h groth16.HBasis) *groth16.ProvingKey {
		return textbook.New(c.System, textbook.ToxicFrom(1), rows, h).Key()
	}
	good := key(groth16.RowsFive, groth16.HOddCoset)
	other := textbook.Random(5, 11, 2).System
	tiny := textbook.Random(1, 0, 0)
	for name, tc := range map[string]struct {
		pk    *groth16.ProvingKey
		s     *r1cs.System
		class errs.Class
		part  string
	}{
		"monomial":        {key(groth16.RowsFive, groth16.HMonomial), c.System, errs.Unsupported, "monomial"},
		"bellman":         {key(groth16.RowsSeven, groth16.HMonomial), c.System, errs.Unsupported, "monomial"},
		"another circuit": {good, other, errs.InvalidArgument, "constraint system"},
		"domain of one":   {textbook.New(tiny.System, textbook.ToxicFrom(1), groth16.RowsFive, groth16.HOddCoset).Key(), tiny.System, errs.Unsupported, "at least 2"},
		"H is short":      {with(good, func(pk *groth16.ProvingKey) { pk.H = pk.H[1:] }), c.System, errs.InvalidArgument, "H"},
		"A is short":      {with(good, func(pk *groth16.ProvingKey) { pk.A = pk.A[1:] }), c.System, errs.InvalidArgument, "A"},
		"K is short":      {with(good, func(pk *groth16.ProvingKey) { pk.K = pk.K[1:] }), c.System, errs.InvalidArgument, "K"},
		"no bitmap":       {with(good, func(pk *groth16.ProvingKey) { pk.BWires = nil }), c.System, errs.InvalidArgument, "wires of B"},
		"no beta1":        {with(good, func(pk *groth16.ProvingKey) { pk.VK.BetaG1 = bls.G1Affine{} }), c.System, errs.InvalidArgument, "beta"},
	} {
		t.Run(name, func(t *testing.T) {
			wantClass(t, WriteZKey(&bytes.Buffer{}, tc.pk, tc.s, nil), tc.class, tc.part)
		})
	}
}

func with(pk *groth16.ProvingKey, f func(*groth16.ProvingKey)) *groth16.ProvingKey {
	c := *pk
	f(&c)
	return &c
}

// Coefficients in any order give the same system.
func TestCoefficientsInAnyOrder(t *testing.T) {
	for _, name := range []string{"multiplier", "publics100", "zero_constraints", "allzero"} {
		f := split(t, testfiles.Fixture(t, name, "circuit.zkey"))
		want := circuit(t, name).Digest().AB
		rng := rand.New(rand.NewPCG(1, 2))
		coefs := f.data[secCoefs][4:]
		for range 5 {
			rng.Shuffle(len(coefs)/sizeCoef, func(i, j int) {
				a, b := coefs[i*sizeCoef:(i+1)*sizeCoef], coefs[j*sizeCoef:(j+1)*sizeCoef]
				tmp := slices.Clone(a)
				copy(a, b)
				copy(b, tmp)
			})
			s := must(must(openZKey(f.bytes()))(t).System(ctx))(t)
			if s.Digest().AB != want {
				t.Errorf("%s: another system", name)
			}
		}
		slices.Reverse(f.order) // and sections in another order
		if _, _, err := readAll(f.bytes(), ReadOptions{Subgroup: true}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestZKeyRefuses(t *testing.T) {
	raw := testfiles.Fixture(t, "multiplier", "circuit.zkey")
	u32 := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	set := func(off int, b []byte) func([]byte) []byte {
		return func(d []byte) []byte { copy(d[off:], b); return d }
	}
	grow := func(n int) func([]byte) []byte { return func(d []byte) []byte { return append(d, make([]byte, n)...) } }
	cut := func(n int) func([]byte) []byte { return func(d []byte) []byte { return d[:len(d)-n] } }
	point := func(id uint32, i int, b []byte) func([]byte) []byte { return set(i*len(b), b) }
	g1 := func(p bls.G1Affine) []byte { b := make([]byte, sizeG1); encodeG1(b, &p); return b }
	g2 := func(p bls.G2Affine) []byte { b := make([]byte, sizeG2); encodeG2(b, &p); return b }
	ones := bytes.Repeat([]byte{255}, sizeG1)
	offCurve := func(n int) []byte { b := make([]byte, n); b[0] = 1; return b }
	_, _, gen1, gen2 := bls.Generators()
	const alpha, beta1, beta2, gamma2, delta1, delta2 = sizeSizes, sizeSizes + sizeG1, sizeSizes + 2*sizeG1, sizeSizes + 2*sizeG1 + sizeG2, sizeSizes + 2*sizeG1 + 2*sizeG2, sizeSizes + 3*sizeG1 + 2*sizeG2
	nCoef := must(openZKey(raw))(t).Header().NbCoefs
	coef := func(i int, off int, b []byte) func([]byte) []byte { return set(4+i*sizeCoef+off, b) }
	rBytes := func() []byte { b := fr.Modulus().FillBytes(make([]byte, 32)); slices.Reverse(b); return b }()
	for name, tc := range map[string]struct {
		id    uint32
		edit  func([]byte) []byte
		class errs.Class
		parts []string
	}{
		"protocol 0":             {1, set(0, u32(0)), errs.InvalidFile, []string{"protocol 1"}},
		"plonk":                  {1, set(0, u32(2)), errs.Unsupported, []string{"a PLONK key"}},
		"fflonk":                 {1, set(0, u32(10)), errs.Unsupported, []string{"an FFLONK key"}},
		"protocol 3 bytes":       {1, cut(1), errs.InvalidFile, []string{"section 1"}},
		"bn128 (32 bytes)":       {2, set(0, u32(32)), errs.Unsupported, []string{"base field", "bn128"}},
		"another q":              {2, set(4, u32(7)), errs.Unsupported, []string{"base field", "bls12-381"}},
		"another r":              {2, set(4+48+4, u32(7)), errs.Unsupported, []string{"scalar field"}},
		"n8r 48":                 {2, set(4+48, u32(48)), errs.Unsupported, []string{"scalar field"}},
		"header short":           {2, cut(1), errs.InvalidFile, []string{"section 2", "bytes"}},
		"header long":            {2, grow(1), errs.InvalidFile, []string{"section 2"}},
		"header empty":           {2, cut(sizeHeader), errs.InvalidFile, []string{"section 2"}},
		"no wires":               {2, set(sizeSizes-12, u32(0)), errs.InvalidFile, []string{"0 wires"}},
		"one wire more":          {2, set(sizeSizes-12, u32(8)), errs.InvalidFile, []string{"section 5"}},
		"2^32-1 wires":           {2, set(sizeSizes-12, u32(1<<32-1)), errs.Unsupported, []string{"4294967295"}},
		"2^31-1 wires":           {2, set(sizeSizes-12, u32(1<<31-1)), errs.InvalidFile, []string{"section 5"}},
		"public = wires":         {2, set(sizeSizes-8, u32(7)), errs.InvalidFile, []string{"7 public"}},
		"one public more":        {2, set(sizeSizes-8, u32(2)), errs.InvalidFile, []string{"section 3"}},
		"domain 0":               {2, set(sizeSizes-4, u32(0)), errs.InvalidFile, []string{"power of two"}},
		"domain 1":               {2, set(sizeSizes-4, u32(1)), errs.InvalidFile, []string{"power of two"}},
		"domain 7":               {2, set(sizeSizes-4, u32(7)), errs.InvalidFile, []string{"power of two"}},
		"domain 2^28":            {2, set(sizeSizes-4, u32(1<<28)), errs.InvalidFile, []string{"section 9"}},
		"domain 2^29":            {2, set(sizeSizes-4, u32(1<<29)), errs.Unsupported, []string{"2^28"}},
		"alpha infinity":         {2, set(alpha, make([]byte, sizeG1)), errs.InvalidFile, []string{"alpha1"}},
		"alpha off the curve":    {2, set(alpha, offCurve(sizeG1)), errs.InvalidFile, []string{"alpha1"}},
		"beta1 outside":          {2, set(beta1, g1(outsideG1())), errs.InvalidFile, []string{"beta1"}},
		"beta2 outside":          {2, set(beta2, g2(outsideG2())), errs.InvalidFile, []string{"beta2"}},
		"gamma2 infinity":        {2, set(gamma2, make([]byte, sizeG2)), errs.InvalidFile, []string{"gamma2"}},
		"delta1 is ones":         {2, set(delta1, ones), errs.InvalidFile, []string{"delta1"}},
		"delta2 off the curve":   {2, set(delta2, offCurve(sizeG2)), errs.InvalidFile, []string{"delta2"}},
		"delta1 is another":      {2, set(delta1, g1(gen1)), errs.InvalidFile, []string{"delta1 and delta2"}},
		"beta2 is another":       {2, set(beta2, g2(gen2)), errs.InvalidFile, []string{"beta1 and beta2"}},
		"ic outside":             {3, point(3, 1, g1(outsideG1())), errs.InvalidFile, []string{"section 3", "point 1", "subgroup"}},
		"ic off the curve":       {3, point(3, 0, offCurve(sizeG1)), errs.InvalidFile, []string{"section 3", "point 0"}},
		"ic short":               {3, cut(sizeG1), errs.InvalidFile, []string{"section 3"}},
		"coefs empty":            {4, func([]byte) []byte { return nil }, errs.InvalidFile, []string{"section 4"}},
		"2^32-1 coefs":           {4, set(0, u32(1<<32-1)), errs.InvalidFile, []string{"4294967295"}},
		"one coef more":          {4, set(0, u32(uint32(nCoef+1))), errs.InvalidFile, []string{"section 4"}},
		"no coefs":               {4, func([]byte) []byte { return u32(0) }, errs.InvalidFile, []string{"extra rows"}},
		"last coef is gone":      {4, func(d []byte) []byte { return append(u32(uint32(nCoef-1)), d[4:len(d)-sizeCoef]...) }, errs.InvalidFile, []string{"extra row"}},
		"matrix 2":               {4, coef(0, 0, u32(2)), errs.InvalidFile, []string{"coefficient 0", "matrix 2"}},
		"row = domain":           {4, coef(1, 4, u32(8)), errs.InvalidFile, []string{"coefficient 1", "row 8"}},
		"row 2^32-1, last":       {4, coef(nCoef-1, 4, u32(1<<32-1)), errs.InvalidFile, []string{"row 4294967295"}},
		"wire 7":                 {4, coef(0, 8, u32(7)), errs.InvalidFile, []string{"wire 7"}},
		"value r":                {4, coef(0, 12, rBytes), errs.InvalidFile, []string{"below the group order"}},
		"extra row: wire":        {4, coef(nCoef-1, 8, u32(0)), errs.InvalidFile, []string{"extra row of public input 1", "wire 0"}},
		"extra row: value":       {4, coef(nCoef-1, 12, u32(1)), errs.InvalidFile, []string{"extra row of public input 1"}},
		"extra row: in B":        {4, coef(nCoef-1, 0, u32(1)), errs.InvalidFile, []string{"extra row of public input 1", "0 terms in A, 1 in B"}},
		"extra row: twice":       {4, coef(nCoef-1, 4, u32(3)), errs.InvalidFile, []string{"extra row"}},
		"a row after the extras": {4, coef(0, 4, u32(7)), errs.InvalidFile, []string{"extra row"}},
		"A off the curve":        {5, point(5, 2, offCurve(sizeG1)), errs.InvalidFile, []string{"section 5", "point 2"}},
		"A outside":              {5, point(5, 2, g1(outsideG1())), errs.InvalidFile, []string{"section 5", "point 2", "subgroup"}},
		"A coordinate q":         {5, point(5, 2, modulusPoint()), errs.InvalidFile, []string{"section 5", "point 2"}},
		"A short":                {5, cut(sizeG1), errs.InvalidFile, []string{"section 5"}},
		"A long":                 {5, grow(1), errs.InvalidFile, []string{"section 5"}},
		"B1 outside":             {6, point(6, 3, g1(outsideG1())), errs.InvalidFile, []string{"section 6", "point 3", "subgroup"}},
		"B1 is another":          {6, point(6, 3, g1(gen1)), errs.InvalidFile, []string{"sections 6 and 7"}},
		"B1 infinity, B2 not":    {6, point(6, 3, make([]byte, sizeG1)), errs.InvalidFile, []string{"sections 6 and 7, wire 3"}},
		"B2 outside":             {7, point(7, 3, g2(outsideG2())), errs.InvalidFile, []string{"section 7", "point 3", "subgroup"}},
		"B2 off the curve":       {7, point(7, 3, offCurve(sizeG2)), errs.InvalidFile, []string{"section 7", "point 3"}},
		"K outside":              {8, point(8, 4, g1(outsideG1())), errs.InvalidFile, []string{"section 8", "point 4", "subgroup"}},
		"K short":                {8, cut(sizeG1), errs.InvalidFile, []string{"section 8"}},
		"H outside":              {9, point(9, 5, g1(outsideG1())), errs.InvalidFile, []string{"section 9", "point 5", "subgroup"}},
		"H off the curve":        {9, point(9, 7, offCurve(sizeG1)), errs.InvalidFile, []string{"section 9", "point 7"}},
		"H long":                 {9, grow(sizeG1), errs.InvalidFile, []string{"section 9"}},
		"contributions: count":   {10, set(64, u32(1<<32-1)), errs.InvalidFile, []string{"section 10", "4294967295"}},
		"contributions: short":   {10, cut(1), errs.InvalidFile, []string{"section 10"}},
		"contributions: long":    {10, grow(1), errs.InvalidFile, []string{"section 10"}},
		"contributions: 63":      {10, func(d []byte) []byte { return d[:63] }, errs.InvalidFile, []string{"section 10"}},
		"contributions: params":  {10, set(64+4+contributionFixed-4, u32(1<<32-1)), errs.InvalidFile, []string{"section 10"}},
		"contributions: kind":    {10, set(64+4+contributionFixed, []byte{9}), errs.InvalidFile, []string{"kind 1, 2 or 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := split(t, raw)
			f.data[tc.id] = tc.edit(f.data[tc.id])
			in := f.bytes()
			var err error
			if n := allocated(func() { _, _, err = readAll(in, ReadOptions{Subgroup: true, Tasks: 1}) }); n > 2<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			wantClass(t, err, tc.class, tc.parts...)
		})
	}
	for _, id := range []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9} {
		f := split(t, raw)
		f.order = slices.DeleteFunc(f.order, func(x uint32) bool { return x == id })
		_, _, err := readAll(f.bytes(), ReadOptions{})
		wantClass(t, err, errs.InvalidFile, fmt.Sprintf("section %d", id), "no such section")
		f.order = append(split(t, raw).order, id)
		_, _, err = readAll(f.bytes(), ReadOptions{})
		wantClass(t, err, errs.InvalidFile, fmt.Sprintf("section %d again", id))
	}
	for n := 0; n < len(raw); n += 1 + n/50 {
		if _, _, err := readAll(raw[:n], ReadOptions{}); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	f := split(t, raw) // without section 10 the key is usable, and as insecure as one without contributions
	f.order = slices.DeleteFunc(f.order, func(x uint32) bool { return x == 10 })
	pk, _, err := readAll(f.bytes(), ReadOptions{Subgroup: true})
	if err != nil || !pk.Insecure {
		t.Errorf("without section 10: %v", err)
	}
}

// modulusPoint has the x coordinate q, which is not below q.
func modulusPoint() []byte {
	b := make([]byte, sizeG1)
	for i, l := range modulus {
		binary.LittleEndian.PutUint64(b[8*i:], l)
	}
	return b
}

// Without the option points outside the subgroup pass, as documented; points off the curve never do.
func TestSubgroupIsAnOption(t *testing.T) {
	f := split(t, testfiles.Fixture(t, "multiplier", "circuit.zkey"))
	p := outsideG1()
	encodeG1(f.data[secH], &p)
	if _, _, err := readAll(f.bytes(), ReadOptions{}); err != nil {
		t.Error(err)
	}
	f.data[secH][0] ^= 1
	_, _, err := readAll(f.bytes(), ReadOptions{})
	wantClass(t, err, errs.InvalidFile, "section 9", "point 0")
}

func TestZKeyCanceled(t *testing.T) {
	z := must(openZKey(testfiles.Fixture(t, "multiplier", "circuit.zkey")))(t)
	c, cancel := context.WithCancel(ctx)
	cancel()
	for what, f := range map[string]func() error{
		"key":    func() error { _, err := z.ProvingKey(c, ReadOptions{}); return err },
		"vk":     func() error { _, err := z.VerifyingKey(c); return err },
		"shape":  func() error { _, err := z.Shape(c); return err },
		"system": func() error { _, err := z.System(c); return err },
	} {
		if err := f(); !errs.Is(err, errs.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The permutation of H is one, and its inverse is the other direction: every place is filled once.
func TestHPosition(t *testing.T) {
	for log := 1; log <= 16; log++ {
		seen := make([]bool, 1<<log)
		moved := 0
		for i := range seen {
			j := hPosition(i, log)
			if seen[j] {
				t.Fatalf("2^%d: place %d twice", log, j)
			}
			seen[j] = true
			if i != j {
				moved++
			}
		}
		if (moved == 0) != (log <= 1) {
			t.Errorf("2^%d: %d of %d points move", log, moved, len(seen))
		}
	}
}

// snarkjs proves with keys that we wrote, its proof verifies here, our proof verifies there, and both write the same verification key.
func TestSnarkjsUsesOurKeys(t *testing.T) {
	run := testfiles.Snarkjs(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, write func(b *bytes.Buffer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	snarkjs := func(args ...string) string {
		t.Helper()
		out, err := run(args...)
		if err != nil {
			t.Fatalf("snarkjs %v: %v\n%s", args, err, out)
		}
		return out
	}
	c := textbook.Random(11, 60, 7) // a domain of 128
	in := textbook.New(c.System, textbook.ToxicFrom(8), groth16.RowsFive, groth16.HOddCoset)
	pk := in.Key()
	put("key.zkey", func(b *bytes.Buffer) error { return WriteZKey(b, pk, c.System, nil) })
	put("w.wtns", func(b *bytes.Buffer) error { return iden3.WriteWitness(b, len(c.W), slices.Values(c.W)) })
	put("vkey.json", func(b *bytes.Buffer) error { return WriteVerifyingKey(b, &pk.VK) })
	snarkjs("groth16", "prove", path("key.zkey"), path("w.wtns"), path("proof.json"), path("public.json"))
	proofs, list, err := ParseProofs(must(os.ReadFile(path("proof.json")))(t))
	if err != nil || list {
		t.Fatal(list, err)
	}
	public, _, err := ParsePublic(must(os.ReadFile(path("public.json")))(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(public[0], c.W[1:8]) {
		t.Error("other public inputs")
	}
	v := must(groth16.NewVerifier(&pk.VK))(t)
	if err := v.Verify(&proofs[0], public[0]); err != nil {
		t.Errorf("snarkjs' proof with our key: %v", err)
	}
	snarkjs("zkey", "export", "verificationkey", path("key.zkey"), path("theirs.json"))
	if a, b := must(os.ReadFile(path("theirs.json")))(t), must(os.ReadFile(path("vkey.json")))(t); !bytes.Equal(a, b) {
		t.Errorf("snarkjs writes\n%s\nwe write\n%s", a, b)
	}
	ours := in.Proof(c.W, groth16.Randomness{R: fr.NewElement(5), S: fr.NewElement(6)})
	put("ours.json", func(b *bytes.Buffer) error { return WriteProof(b, &ours) })
	put("ours-public.json", func(b *bytes.Buffer) error { return WritePublic(b, c.W[1:8]) })
	if out := snarkjs("groth16", "verify", path("vkey.json"), path("ours-public.json"), path("ours.json")); !strings.Contains(out, "OK!") {
		t.Errorf("our proof:\n%s", out)
	}
	other := slices.Clone(c.W[1:8])
	other[3].SetUint64(99)
	put("ours-public.json", func(b *bytes.Buffer) error { return WritePublic(b, other) })
	if out, err := run("groth16", "verify", path("vkey.json"), path("ours-public.json"), path("ours.json")); err == nil {
		t.Errorf("snarkjs accepts other public inputs:\n%s", out)
	}
}
