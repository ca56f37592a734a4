package eip2537

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// The generators, written out from the curve's definition (draft-irtf-cfrg-pairing-friendly-curves, 4.2.1).
const (
	genX  = "17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb"
	genY  = "08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1"
	genX0 = "024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"
	genX1 = "13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e"
	genY0 = "0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801"
	genY1 = "0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79be"
)

const zeros16 = "00000000000000000000000000000000"

func TestGenerators(t *testing.T) {
	_, _, g1, g2 := bls.Generators()
	if got, want := hex.EncodeToString(AppendG1(nil, &g1)), zeros16+genX+zeros16+genY; got != want {
		t.Errorf("G1\n%s, want\n%s", got, want)
	}
	if got, want := hex.EncodeToString(AppendG2(nil, &g2)), zeros16+genX0+zeros16+genX1+zeros16+genY0+zeros16+genY1; got != want {
		t.Errorf("G2\n%s, want\n%s", got, want)
	}
	if b := AppendG1(nil, &bls.G1Affine{}); !bytes.Equal(b, make([]byte, 128)) {
		t.Errorf("infinity of G1: %x", b)
	}
	if b := AppendG2(nil, &bls.G2Affine{}); !bytes.Equal(b, make([]byte, 256)) {
		t.Errorf("infinity of G2: %x", b)
	}
	minus := fr.NewElement(0)
	one := fr.One()
	minus.Sub(&minus, &one)
	if got, want := AppendScalar(nil, &minus), new(big.Int).Sub(fr.Modulus(), big.NewInt(1)).Bytes(); !bytes.Equal(got, want) {
		t.Errorf("-1 is %x", got)
	}
}

type statement struct {
	name   string
	vk     *groth16.VerifyingKey
	proof  groth16.Proof
	public []fr.Element
}

func fixtures(t *testing.T) (out []statement) {
	for _, name := range testfiles.Small {
		vk, err := snarkjs.ParseVerifyingKey(testfiles.Fixture(t, name, "vkey.json"))
		if err != nil {
			t.Fatal(err)
		}
		proofs, _, err := snarkjs.ParseProofs(testfiles.Fixture(t, name, "proof.json"))
		if err != nil {
			t.Fatal(err)
		}
		public, _, err := snarkjs.ParsePublic(testfiles.Fixture(t, name, "public.json"))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, statement{name, vk, proofs[0], public[0]})
	}
	return out
}

// msm and pairing are what the precompiles do, on bytes alone.
func msm(t *testing.T, in []byte) bls.G1Affine {
	t.Helper()
	if len(in)%SizeTerm != 0 {
		t.Fatalf("%d bytes", len(in))
	}
	var acc bls.G1Affine
	for ; len(in) > 0; in = in[SizeTerm:] {
		p, err := DecodeG1(in[:SizeG1])
		if err != nil {
			t.Fatal(err)
		}
		p.ScalarMultiplication(&p, new(big.Int).SetBytes(in[SizeG1:SizeTerm]))
		acc.Add(&acc, &p)
	}
	return acc
}

func pairing(t *testing.T, in []byte) bool {
	t.Helper()
	if len(in)%SizePair != 0 {
		t.Fatalf("%d bytes", len(in))
	}
	var ps []bls.G1Affine
	var qs []bls.G2Affine
	for ; len(in) > 0; in = in[SizePair:] {
		p, err := DecodeG1(in[:SizeG1])
		if err != nil {
			t.Fatal(err)
		}
		q, err := DecodeG2(in[SizeG1:SizePair])
		if err != nil {
			t.Fatal(err)
		}
		ps, qs = append(ps, p), append(qs, q)
	}
	ok, err := bls.PairingCheck(ps, qs)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// From bytes alone, the two precompiles accept every fixture's proof, and no other.
func TestPrecompiles(t *testing.T) {
	for _, s := range fixtures(t) {
		in, err := MSMInput(s.vk, s.public)
		if err != nil {
			t.Fatal(err)
		}
		if len(in) != 160*(len(s.public)+1) {
			t.Errorf("%s: %d bytes for G1MSM", s.name, len(in))
		}
		sum := msm(t, in)
		if got, err := Sum(s.vk, s.public); err != nil || got != sum {
			t.Errorf("%s: sums differ, %v", s.name, err)
		}
		pairs := PairingInput(s.vk, &s.proof, &sum)
		if len(pairs) != 1536 {
			t.Errorf("%s: %d bytes for PAIRING_CHECK", s.name, len(pairs))
		}
		if !pairing(t, pairs) {
			t.Errorf("%s: not accepted", s.name)
		}
		bad := s.proof
		bad.A.Neg(&bad.A)
		if pairing(t, PairingInput(s.vk, &bad, &sum)) {
			t.Errorf("%s: another proof is accepted", s.name)
		}
		for _, n := range []int{len(s.public) + 1, len(s.public) - 1} {
			if n < 0 {
				continue
			}
			if _, err := MSMInput(s.vk, make([]fr.Element, n)); !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%s: %d inputs: %v", s.name, n, err)
			}
			if _, err := Sum(s.vk, make([]fr.Element, n)); !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%s: %d inputs: %v", s.name, n, err)
			}
		}
	}
}

func TestJSON(t *testing.T) {
	for _, s := range fixtures(t) {
		var b bytes.Buffer
		if err := WriteVerifyingKey(&b, s.vk); err != nil {
			t.Fatal(err)
		}
		vk, err := ReadVerifyingKey(&b)
		if err != nil || !reflect.DeepEqual(vk, s.vk) {
			t.Errorf("%s: another verifying key, %v", s.name, err)
		}
		if err := WriteProof(&b, s.vk, &s.proof, s.public); err != nil {
			t.Fatal(err)
		}
		text := bytes.Clone(b.Bytes())
		proof, public, err := ReadProof(&b)
		if err != nil || *proof != s.proof || !slices.Equal(public, s.public) {
			t.Errorf("%s: another proof, %v", s.name, err)
		}
		var f struct{ G1msmInput, PairingInput string }
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		in, err1 := hex.DecodeString(strings.TrimPrefix(f.G1msmInput, "0x"))
		pairs, err2 := hex.DecodeString(strings.TrimPrefix(f.PairingInput, "0x"))
		if err1 != nil || err2 != nil || !pairing(t, pairs) {
			t.Errorf("%s: the inputs in the file: %v, %v", s.name, err1, err2)
		}
		sum := msm(t, in)
		if !bytes.Equal(AppendG1(nil, &sum), pairs[2*SizePair:2*SizePair+SizeG1]) {
			t.Errorf("%s: the third pair does not begin with what G1MSM answers", s.name)
		}
		if err := WriteProof(&b, nil, &s.proof, s.public); err != nil || strings.Contains(b.String(), "pairingInput") {
			t.Errorf("%s: without a key: %v", s.name, err)
		}
		if len(s.public) > 0 {
			if err := WriteProof(&b, s.vk, &s.proof, nil); !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%s: without inputs: %v", s.name, err)
			}
		}
	}
}

func TestProofBytes(t *testing.T) {
	s := fixtures(t)[0]
	b := AppendProof([]byte("before"), &s.proof)[6:]
	got, err := DecodeProof(b)
	if err != nil || got != s.proof || len(b) != SizeProof {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for i := range 3 {
		bad := bytes.Clone(b)
		bad[[]int{0, 128, 384}[i]+127] ^= 1 // in a coordinate of A, B, C
		if _, err := DecodeProof(bad); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), "point "+"ABC"[i:i+1]) {
			t.Errorf("point %c: %v", "ABC"[i], err)
		}
	}
	if _, err := DecodeProof(b[1:]); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("a byte short: %v", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	_, _, g1, g2 := bls.Generators()
	good1, good2 := AppendG1(nil, &g1), AppendG2(nil, &g2)
	q := fp.Modulus().FillBytes(make([]byte, 48))
	three := bls.G1Affine{}
	three.Y.SetUint64(2) // (0, 2) has order 3
	for name, tc := range map[string]struct {
		edit func(b []byte) []byte
		part string
	}{
		"empty":            {func([]byte) []byte { return nil }, "bytes"},
		"short":            {func(b []byte) []byte { return b[1:] }, "bytes"},
		"long":             {func(b []byte) []byte { return append(b, 0) }, "bytes"},
		"padding of x":     {func(b []byte) []byte { b[0] = 1; return b }, "offset 0"},
		"padding of x, 15": {func(b []byte) []byte { b[15] = 1; return b }, "16 zero bytes"},
		"padding of next":  {func(b []byte) []byte { b[64] = 1; return b }, "offset 64"},
		"x = q":            {func(b []byte) []byte { copy(b[16:], q); return b }, "below the field modulus"},
		"x = 2^384-1":      {func(b []byte) []byte { copy(b[16:], bytes.Repeat([]byte{255}, 48)); return b }, "below the field modulus"},
		"off the curve":    {func(b []byte) []byte { b[63] ^= 1; return b }, "subgroup"},
		"x is zero":        {func(b []byte) []byte { clear(b[:64]); return b }, "subgroup"},
	} {
		if _, err := DecodeG1(tc.edit(bytes.Clone(good1))); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), tc.part) {
			t.Errorf("G1, %s: %v", name, err)
		}
		if _, err := DecodeG2(tc.edit(bytes.Clone(good2))); !errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), tc.part) {
			t.Errorf("G2, %s: %v", name, err)
		}
	}
	if _, err := DecodeG1(AppendG1(nil, &three)); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("order 3: %v", err)
	}
	swapped := g2
	swapped.X.A0, swapped.X.A1 = g2.X.A1, g2.X.A0
	if _, err := DecodeG2(AppendG2(nil, &swapped)); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("c1 before c0: %v", err)
	}
}

func TestJSONRefuses(t *testing.T) {
	s := fixtures(t)[3] // multiplier
	var key, proof bytes.Buffer
	if err := WriteVerifyingKey(&key, s.vk); err != nil {
		t.Fatal(err)
	}
	if err := WriteProof(&proof, nil, &s.proof, s.public); err != nil {
		t.Fatal(err)
	}
	r := hex.EncodeToString(fr.Modulus().Bytes())
	edit := func(text, old, new string) string {
		out := strings.Replace(text, old, new, 1)
		if out == text {
			t.Fatalf("no %q to replace", old)
		}
		return out
	}
	for name, text := range map[string]string{
		"empty": "", "null": "null", "a list": "[]", "an object": "{}", "half": key.String()[:300],
		"another format": edit(key.String(), `"eip-2537"`, `"other"`),
		"nPublic 2":      edit(key.String(), `"nPublic": 1`, `"nPublic": 2`),
		"nPublic -1":     edit(key.String(), `"nPublic": 1`, `"nPublic": -1`),
		"no 0x":          edit(key.String(), `"0x`, `"`),
		"not hex":        edit(key.String(), `"0x00`, `"0xgg`),
		"a digit short":  edit(key.String(), `"0x0`, `"0x`),
		"padding":        edit(key.String(), `"0x00`, `"0x01`),
		"alpha infinity": edit(key.String(), hexOf(AppendG1(nil, &s.vk.AlphaG1)), hexOf(make([]byte, SizeG1))),
		"delta infinity": edit(key.String(), hexOf(AppendG2(nil, &s.vk.DeltaG2)), hexOf(make([]byte, SizeG2))),
	} {
		if _, err := ReadVerifyingKey(strings.NewReader(text)); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("key, %s: %v", name, err)
		}
	}
	public := hex.EncodeToString(AppendScalar(nil, &s.public[0]))
	for name, text := range map[string]string{
		"empty": "", "a key": key.String(), "public r": edit(proof.String(), public, r), "public short": edit(proof.String(), public, public[2:]), "padding": edit(proof.String(), `"0x00`, `"0x01`),
	} {
		if _, _, err := ReadProof(strings.NewReader(text)); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("proof, %s: %v", name, err)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"format":"eip-2537","protocol":"groth16","nPublic":0,"alpha1":"0x","beta2":"0x","gamma2":"0x","delta2":"0x","ic":["0x"]}`))
	f.Add([]byte(`{"format":"eip-2537","a":"0x","b":"0x","c":"0x","public":["0x00"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		if vk, err := ReadVerifyingKey(bytes.NewReader(in)); err == nil && len(vk.IC) == 0 {
			t.Fatal("no ic")
		}
		_, _, _ = ReadProof(bytes.NewReader(in))
	})
}
