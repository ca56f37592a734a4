package groth16_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
)

// statement is a verifier with proofs that hold.
type statement struct {
	v      *groth16.Verifier
	vk     groth16.VerifyingKey
	proofs []groth16.Proof
	public [][]fr.Element
}

// statements makes n different proofs of one circuit with the given number of public inputs.
func statements(t *testing.T, n, public int) statement {
	t.Helper()
	c := textbook.Random(uint64(public), 6, public)
	in := textbook.New(c.System, textbook.ToxicFrom(9), groth16.RowsSeven, groth16.HMonomial)
	s := statement{vk: in.VerifyingKey()}
	var err error
	if s.v, err = groth16.NewVerifier(&s.vk); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.proofs = append(s.proofs, in.Proof(c.W, groth16.Randomness{R: fr.NewElement(uint64(100 + i)), S: fr.NewElement(uint64(7 * i))}))
		s.public = append(s.public, slices.Clone(c.W[1:1+public]))
	}
	return s
}

// Proofs of snarkjs hold, and not for another circuit's key.
func TestVerifySnarkjs(t *testing.T) {
	var verifiers []*groth16.Verifier
	var proofs []groth16.Proof
	var public [][]fr.Element
	for _, name := range testfiles.Small {
		vk, err := snarkjs.ParseVerifyingKey(testfiles.Fixture(t, name, "vkey.json"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := groth16.NewVerifier(vk)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := snarkjs.ParseProofs(testfiles.Fixture(t, name, "proof.json"))
		if err != nil {
			t.Fatal(err)
		}
		x, _, err := snarkjs.ParsePublic(testfiles.Fixture(t, name, "public.json"))
		if err != nil {
			t.Fatal(err)
		}
		verifiers, proofs, public = append(verifiers, v), append(proofs, p[0]), append(public, x[0])
	}
	for i, v := range verifiers {
		for j := range proofs {
			err := v.Verify(&proofs[j], public[j])
			switch {
			case i == j && err != nil:
				t.Errorf("%s: %v", testfiles.Small[i], err)
			case i != j && len(public[j]) == v.NbPublic() && !errs.Is(err, errs.InvalidProof):
				t.Errorf("the proof of %s under the key of %s: %v", testfiles.Small[j], testfiles.Small[i], err)
			case i != j && len(public[j]) != v.NbPublic() && !errs.Is(err, errs.InvalidArgument):
				t.Errorf("%d inputs of %s under the key of %s: %v", len(public[j]), testfiles.Small[j], testfiles.Small[i], err)
			}
		}
	}
}

func outside() (p bls.G1Affine) { // (0, 2) has order 3
	p.Y.SetUint64(2)
	return p
}

func outsideG2() (p bls.G2Affine) {
	var four bls.E2
	four.A0.SetUint64(4)
	four.A1.SetUint64(4)
	for x := uint64(1); ; x++ {
		p.X.A0.SetUint64(x)
		var y2 bls.E2
		y2.Square(&p.X).Mul(&y2, &p.X).Add(&y2, &four)
		if p.Y.Sqrt(&y2); p.IsOnCurve() && !p.IsInSubGroup() {
			return p
		}
	}
}

// damages are ways to spoil a proof.
var damages = map[string]func(p *groth16.Proof){
	"A is another":    func(p *groth16.Proof) { p.A.Double(&p.A) },
	"A is negative":   func(p *groth16.Proof) { p.A.Neg(&p.A) },
	"B is another":    func(p *groth16.Proof) { p.B.Double(&p.B) },
	"C is another":    func(p *groth16.Proof) { p.C.Double(&p.C) },
	"A and C swapped": func(p *groth16.Proof) { p.A, p.C = p.C, p.A },
	"A is infinity":   func(p *groth16.Proof) { p.A.SetInfinity() },
	"B is infinity":   func(p *groth16.Proof) { p.B.SetInfinity() },
	"C is infinity":   func(p *groth16.Proof) { p.C.SetInfinity() },
	"all infinity":    func(p *groth16.Proof) { *p = groth16.Proof{} },
	"A off the curve": func(p *groth16.Proof) { p.A.X.SetUint64(1) },
	"B off the curve": func(p *groth16.Proof) { p.B.Y.A1.SetUint64(1) },
	"C off the curve": func(p *groth16.Proof) { p.C.Y.SetUint64(1) },
	"A outside":       func(p *groth16.Proof) { p.A = outside() },
	"B outside":       func(p *groth16.Proof) { p.B = outsideG2() },
	"C outside":       func(p *groth16.Proof) { p.C = outside() },
	"C plus order 3":  func(p *groth16.Proof) { o := outside(); p.C.Add(&p.C, &o) }, // the pairing does not see it
	"A plus order 3":  func(p *groth16.Proof) { o := outside(); p.A.Add(&p.A, &o) },
}

func TestVerify(t *testing.T) {
	for _, public := range []int{0, 1, 3} {
		s := statements(t, 1, public)
		if s.v.NbPublic() != public {
			t.Fatalf("%d public inputs, want %d", s.v.NbPublic(), public)
		}
		if err := s.v.Verify(&s.proofs[0], s.public[0]); err != nil {
			t.Fatalf("%d public: %v", public, err)
		}
		for name, damage := range damages {
			p := s.proofs[0]
			damage(&p)
			if err := s.v.Verify(&p, s.public[0]); !errs.Is(err, errs.InvalidProof) {
				t.Errorf("%d public, %s: %v", public, name, err)
			}
		}
		for _, n := range []int{0, 1, 2, 3, 4} {
			if err := s.v.Verify(&s.proofs[0], make([]fr.Element, n)); n != public && !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%d inputs of %d: %v", n, public, err)
			}
		}
		for i := range public {
			other := slices.Clone(s.public[0])
			other[i].Add(&other[i], new(fr.Element).SetOne())
			if err := s.v.Verify(&s.proofs[0], other); !errs.Is(err, errs.InvalidProof) {
				t.Errorf("input %d changed: %v", i, err)
			}
		}
	}
	// Groth16 proofs can be re-randomised: (-A, -B, C) is another proof of the same statement, and must be accepted.
	s := statements(t, 1, 1)
	p := s.proofs[0]
	p.A.Neg(&p.A)
	p.B.Neg(&p.B)
	if err := s.v.Verify(&p, s.public[0]); err != nil {
		t.Error(err)
	}
}

func TestNewVerifierRefuses(t *testing.T) {
	s := statements(t, 1, 1)
	for name, edit := range map[string]func(vk *groth16.VerifyingKey){
		"no ic":          func(vk *groth16.VerifyingKey) { vk.IC = nil },
		"alpha infinity": func(vk *groth16.VerifyingKey) { vk.AlphaG1.SetInfinity() },
		"beta infinity":  func(vk *groth16.VerifyingKey) { vk.BetaG2.SetInfinity() },
		"gamma infinity": func(vk *groth16.VerifyingKey) { vk.GammaG2.SetInfinity() },
		"delta infinity": func(vk *groth16.VerifyingKey) { vk.DeltaG2.SetInfinity() },
	} {
		vk := s.vk
		edit(&vk)
		if _, err := groth16.NewVerifier(&vk); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	vk := s.vk // what the JSON of snarkjs lacks is not needed
	vk.BetaG1.SetInfinity()
	vk.DeltaG1.SetInfinity()
	v, err := groth16.NewVerifier(&vk)
	if err != nil || v.Verify(&s.proofs[0], s.public[0]) != nil {
		t.Errorf("without beta1 and delta1: %v", err)
	}
}

func TestVerifyBatch(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		for _, public := range []int{0, 2} {
			s := statements(t, n, public)
			if err := s.v.VerifyBatch(s.proofs, s.public); err != nil {
				t.Fatalf("%d proofs: %v", n, err)
			}
			for i := range n {
				for name, damage := range damages {
					if few := name == "C is another" || name == "B outside" || name == "A is infinity"; (n == 7 || public == 0) && !few {
						continue
					}
					proofs := slices.Clone(s.proofs)
					damage(&proofs[i])
					wantBad(t, fmt.Sprintf("%d proofs, %d spoilt: %s", n, i, name), n, s.v.VerifyBatch(proofs, s.public), i)
				}
			}
		}
	}
}

// wantBad checks that an error names the bad proofs of n by index.
func wantBad(t *testing.T, what string, n int, err error, bad ...int) {
	t.Helper()
	if !errs.Is(err, errs.InvalidProof) {
		t.Errorf("%s: %v", what, err)
		return
	}
	if n > 1 && !strings.Contains(err.Error(), fmt.Sprint(bad)) {
		t.Errorf("%s: %v are bad, the error is %v", what, bad, err)
	}
}

// Spoilt proofs whose errors cancel in a plain sum must be found: this is what the random powers are for.
func TestVerifyBatchFindsWhatCancels(t *testing.T) {
	s := statements(t, 4, 2)
	_, _, g, _ := bls.Generators()
	proofs := slices.Clone(s.proofs)
	proofs[1].C.Add(&proofs[1].C, &g)
	proofs[2].C.Sub(&proofs[2].C, &g)
	wantBad(t, "C + G and C - G", 4, s.v.VerifyBatch(proofs, s.public), 1, 2)

	// Public inputs of two proofs moved in opposite directions.
	public := [][]fr.Element{s.public[0], slices.Clone(s.public[1]), s.public[2], slices.Clone(s.public[3])}
	one := fr.One()
	public[1][0].Add(&public[1][0], &one)
	public[3][0].Sub(&public[3][0], &one)
	wantBad(t, "inputs + 1 and - 1", 4, s.v.VerifyBatch(s.proofs, public), 1, 3)

	// With the first, whose power is one.
	proofs = slices.Clone(s.proofs)
	proofs[0].C.Add(&proofs[0].C, &g)
	proofs[3].C.Sub(&proofs[3].C, &g)
	wantBad(t, "the first and the last", 4, s.v.VerifyBatch(proofs, s.public), 0, 3)

	// C outside the subgroup by opposite amounts: no pairing sees it.
	o := outside()
	proofs = slices.Clone(s.proofs)
	proofs[0].C.Add(&proofs[0].C, &o)
	proofs[1].C.Sub(&proofs[1].C, &o)
	wantBad(t, "order 3", 4, s.v.VerifyBatch(proofs, s.public), 0, 1)

	for i := range proofs { // all of them
		proofs[i] = groth16.Proof{}
	}
	wantBad(t, "all", 4, s.v.VerifyBatch(proofs, s.public), 0, 1, 2, 3)
}

// Parts of two proofs of the same statement, swapped.
func TestVerifyBatchSwapped(t *testing.T) {
	var s statement
	for seed := range uint64(3) {
		c := textbook.Random(1, 6, 0)
		in := textbook.New(c.System, textbook.ToxicFrom(1), groth16.RowsSeven, groth16.HMonomial)
		if s.v == nil {
			s.vk = in.VerifyingKey()
			var err error
			if s.v, err = groth16.NewVerifier(&s.vk); err != nil {
				t.Fatal(err)
			}
		}
		s.proofs = append(s.proofs, in.Proof(c.W, groth16.Randomness{R: fr.NewElement(seed)}))
		s.public = append(s.public, nil)
	}
	if err := s.v.VerifyBatch(s.proofs, s.public); err != nil {
		t.Fatal(err)
	}
	s.proofs[0].A, s.proofs[1].A = s.proofs[1].A, s.proofs[0].A
	wantBad(t, "A of two proofs swapped", 3, s.v.VerifyBatch(s.proofs, s.public), 0, 1)
}

func TestVerifyBatchRefuses(t *testing.T) {
	s := statements(t, 3, 2)
	for name, tc := range map[string]struct {
		proofs []groth16.Proof
		public [][]fr.Element
	}{
		"nothing":                 {nil, nil},
		"a list of inputs short":  {s.proofs, s.public[:2]},
		"a list of inputs more":   {s.proofs[:2], s.public},
		"one list is short":       {s.proofs, [][]fr.Element{s.public[0], s.public[1][:1], s.public[2]}},
		"one list is long":        {s.proofs, [][]fr.Element{s.public[0], s.public[1], append(slices.Clone(s.public[2]), fr.One())}},
		"one proof, no inputs":    {s.proofs[:1], [][]fr.Element{nil}},
		"one list is not there":   {s.proofs, [][]fr.Element{s.public[0], nil, s.public[2]}},
		"proofs, no lists at all": {s.proofs, nil},
	} {
		if err := s.v.VerifyBatch(tc.proofs, tc.public); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProofBytes(t *testing.T) {
	s := statements(t, 3, 1)
	for _, want := range append(s.proofs, groth16.Proof{}) {
		b := want.Bytes()
		var got groth16.Proof
		if err := got.SetBytes(b[:]); err != nil || got != want {
			t.Errorf("%v", err)
		}
	}
	good := s.proofs[0].Bytes()
	o1, o2 := outside(), outsideG2()
	c1, c2 := o1.Bytes(), o2.Bytes()
	for name, edit := range map[string]func(b []byte) []byte{
		"empty":               func([]byte) []byte { return nil },
		"a byte short":        func(b []byte) []byte { return b[:191] },
		"a byte long":         func(b []byte) []byte { return append(b, 0) },
		"A not compressed":    func(b []byte) []byte { b[0] &= 0x7f; return b },
		"B not compressed":    func(b []byte) []byte { b[48] &= 0x7f; return b },
		"C not compressed":    func(b []byte) []byte { b[144] &= 0x7f; return b },
		"A infinity, not all": func(b []byte) []byte { b[0] |= 0x40; return b },
		"A outside":           func(b []byte) []byte { copy(b, c1[:]); return b },
		"B outside":           func(b []byte) []byte { copy(b[48:], c2[:]); return b },
		"C outside":           func(b []byte) []byte { copy(b[144:], c1[:]); return b },
		"A x = q or more":     func(b []byte) []byte { copy(b, slices.Repeat([]byte{0x9f}, 48)); return b },
		"zeros":               func(b []byte) []byte { clear(b); return b },
		"ones":                func(b []byte) []byte { return slices.Repeat([]byte{255}, 192) },
	} {
		var p groth16.Proof
		if err := p.SetBytes(edit(slices.Clone(good[:]))); !errs.Is(err, errs.InvalidProof) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestScalarBytes(t *testing.T) {
	for _, x := range []int64{0, 1, 2, -1, 1 << 62} {
		var want fr.Element
		want.SetInt64(x)
		b := groth16.ScalarBytes(&want)
		got, err := groth16.ScalarFromBytes(b)
		if err != nil || got != want || (x >= 0 && int64(b[0]) != x&255) {
			t.Errorf("%d: %x, %s, %v", x, b, got.String(), err)
		}
	}
	r := fr.Modulus().FillBytes(make([]byte, 32))
	slices.Reverse(r)
	for _, b := range [][]byte{nil, make([]byte, 31), make([]byte, 33), r, slices.Repeat([]byte{255}, 32)} {
		if _, err := groth16.ScalarFromBytes(b); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%x: %v", b, err)
		}
	}
}
