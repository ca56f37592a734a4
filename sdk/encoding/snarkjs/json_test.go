package snarkjs

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Every JSON file of the fixtures comes out byte for byte, vk_alphabeta_12 with it.
func TestJSONRoundTrip(t *testing.T) {
	for _, name := range testfiles.Small {
		t.Run(name, func(t *testing.T) {
			raw := testfiles.Fixture(t, name, "vkey.json")
			vk := must(ReadVerifyingKey(bytes.NewReader(raw)))(t)
			var b bytes.Buffer
			if err := WriteVerifyingKey(&b, vk); err != nil || !bytes.Equal(b.Bytes(), raw) {
				t.Errorf("vkey.json comes out different: %v\n%s", err, b.Bytes())
			}
			raw = testfiles.Fixture(t, name, "proof.json")
			proofs, list, err := ReadProofs(bytes.NewReader(raw))
			if err != nil || list || len(proofs) != 1 {
				t.Fatal(len(proofs), list, err)
			}
			b.Reset()
			if err := WriteProof(&b, &proofs[0]); err != nil || !bytes.Equal(b.Bytes(), raw) {
				t.Errorf("proof.json comes out different: %v\n%s", err, b.Bytes())
			}
			raw = testfiles.Fixture(t, name, "public.json")
			public, list, err := ReadPublic(bytes.NewReader(raw))
			if err != nil || list || len(public) != 1 || len(public[0]) != vk.NbPublic() {
				t.Fatal(public, list, err)
			}
			b.Reset()
			if err := WritePublic(&b, public[0]); err != nil || !bytes.Equal(b.Bytes(), raw) {
				t.Errorf("public.json comes out different: %v\n%s", err, b.Bytes())
			}
		})
	}
}

// Values just below the modulus are written as such, not as negative numbers.
func TestLargeValues(t *testing.T) {
	for k := int64(1); k < 100; k += 7 {
		var x fr.Element
		x.SetInt64(-k)
		var y fp.Element
		y.SetInt64(-k)
		var b bytes.Buffer
		if err := WritePublic(&b, []fr.Element{x}); err != nil {
			t.Fatal(err)
		}
		if want := new(big.Int).Sub(fr.Modulus(), big.NewInt(k)).String(); b.String() != "[\n \""+want+"\"\n]" {
			t.Errorf("-%d is written as %s", k, b.String())
		}
		if want := new(big.Int).Sub(fp.Modulus(), big.NewInt(k)).String(); fpText(&y) != want {
			t.Errorf("-%d is written as %s", k, fpText(&y))
		}
	}
}

func TestLists(t *testing.T) {
	var proofs []groth16.Proof
	for _, name := range []string{"multiplier", "nopublic", "publics100"} {
		p, _, err := ParseProofs(testfiles.Fixture(t, name, "proof.json"))
		if err != nil {
			t.Fatal(err)
		}
		proofs = append(proofs, p[0])
	}
	for n := range len(proofs) + 1 {
		var b bytes.Buffer
		if err := WriteProofs(&b, proofs[:n]); err != nil {
			t.Fatal(err)
		}
		got, list, err := ParseProofs(b.Bytes())
		if err != nil || !list || !slices.Equal(got, proofs[:n]) {
			t.Errorf("%d proofs: %d, %v, %v", n, len(got), list, err)
		}
	}
	one, zero := fr.One(), fr.Element{}
	for _, want := range [][][]fr.Element{{{}}, {{}, {}}, {{one}}, {{one, zero}, {}, {zero}}} {
		var b bytes.Buffer
		if err := WritePublicLists(&b, want); err != nil {
			t.Fatal(err)
		}
		got, list, err := ParsePublic(b.Bytes())
		if err != nil || !list || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, %v, %v\n%s", want, got, list, err, b.Bytes())
		}
	}
	for text, n := range map[string]int{"[]": 0, " [ ] ": 0, `["0"]`: 1, "[\"1\",\t\"2\"\r\n]": 2} {
		got, list, err := ParsePublic([]byte(text))
		if err != nil || list || len(got) != 1 || len(got[0]) != n {
			t.Errorf("%q: %v, %v, %v", text, got, list, err)
		}
	}
}

// Infinity has a form of its own, which snarkjs writes and reads.
func TestInfinity(t *testing.T) {
	var want groth16.Proof
	var b bytes.Buffer
	if err := WriteProof(&b, &want); err != nil {
		t.Fatal(err)
	}
	got, _, err := ParseProofs(b.Bytes())
	if err != nil || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`["0","0","0"]`, `["0","0","1"]`, `["1","1","0"]`, `["0","2","0"]`} {
		text := strings.Replace(b.String(), "[\n  \"0\",\n  \"1\",\n  \"0\"\n ]", bad, 1)
		if text == b.String() {
			t.Fatal("nothing replaced")
		}
		if _, _, err := ParseProofs([]byte(text)); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}

func TestPublicRefuses(t *testing.T) {
	r := fr.Modulus().String()
	rPlus1 := new(big.Int).Add(fr.Modulus(), big.NewInt(1)).String()
	for name, tc := range map[string]struct{ text, part string }{
		"empty file":          {"", "nothing"},
		"a word":              {"NaN", "NaN"},
		"NaN inside":          {"[NaN]", "JSON"},
		"Infinity":            {"[Infinity]", "JSON"},
		"NaN as a string":     {`["NaN"]`, "decimal string"},
		"a bare number":       {`[1]`, "in"},
		"a bare float":        {`[1.5]`, "decimal string"},
		"a bare exponent":     {`[1e999999999]`, "decimal string"},
		"a float string":      {`["1.0"]`, "decimal string"},
		"an exponent string":  {`["1e3"]`, "decimal string"},
		"negative":            {`["-1"]`, "without sign"},
		"plus":                {`["+1"]`, "without sign"},
		"leading zero":        {`["01"]`, "leading zeros"},
		"two zeros":           {`["00"]`, "leading zeros"},
		"hex":                 {`["0x10"]`, "decimal string"},
		"empty string":        {`[""]`, "decimal string"},
		"space":               {`[" 1"]`, "decimal string"},
		"underscore":          {`["1_000"]`, "decimal string"},
		"escaped digit":       {`["\u0031"]`, "decimal string"},
		"arabic digits":       {`["١٢"]`, "decimal string"},
		"r":                   {`["1","` + r + `"]`, "[1]"},
		"r+1":                 {`["` + rPlus1 + `"]`, "below the group order"},
		"a million digits":    {`["` + strings.Repeat("9", 1_000_000) + `"]`, "a number of 1000000 digits"},
		"null":                {`[null]`, "null"},
		"true":                {`[true]`, "true"},
		"an object":           {`{"a":"1"}`, "a list"},
		"an object inside":    {`[{"a":"1"}]`, "decimal string"},
		"a string":            {`"1"`, "a list"},
		"mixed":               {`[["1"],"2"]`, "[1]"},
		"mixed the other way": {`["1",["2"]]`, "[1]"},
		"too deep":            {`[[["1"]]]`, "[0][0]"},
		"very deep":           {strings.Repeat("[", 100_000), "JSON"},
		"deep and closed":     {strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000), "[0][0]"},
		"trailing comma":      {`["1",]`, "JSON"},
		"two values":          {`["1"] ["2"]`, "JSON"},
		"cut":                 {`["1"`, "JSON"},
		"an error page":       {"<html><body>404</body></html>", "<html>"},
		"zero byte":           {"[\"1\x00\"]", "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if n := allocated(func() { _, _, err = ParsePublic([]byte(tc.text)) }); n > 1<<20+40*uint64(len(tc.text)) {
				t.Errorf("%d bytes allocated", n)
			}
			wantClass(t, err, errs.InvalidFile, tc.part)
			if len(err.Error()) > 1000 {
				t.Errorf("a message of %d characters", len(err.Error()))
			}
		})
	}
	rMinus1 := new(big.Int).Sub(fr.Modulus(), big.NewInt(1)).String()
	if _, _, err := ParsePublic([]byte(`["` + rMinus1 + `","0"]`)); err != nil {
		t.Error(err)
	}
}

func coordinates(p *bls.G1Affine) string {
	return fmt.Sprintf(`["%s","%s","1"]`, fpText(&p.X), fpText(&p.Y))
}

func TestProofRefuses(t *testing.T) {
	good := string(testfiles.Fixture(t, "multiplier", "proof.json"))
	cut := func(name string) (before, value, after string) { // the value of a member, which is a point
		i := strings.Index(good, `"`+name+`": `) + len(name) + 4
		first, _ := value0(good[i:])
		return good[:i], first, good[i+len(first):]
	}
	replace := func(name, value string) string {
		a, _, b := cut(name)
		return a + value + b
	}
	_, piA, _ := cut("pi_a")
	_, piB, _ := cut("pi_b")
	q := fp.Modulus().String()
	out1, out2 := outsideG1(), outsideG2()
	for name, tc := range map[string]struct {
		text  string
		class errs.Class
		part  string
	}{
		"no pi_a":                  {strings.Replace(good, "pi_a", "pi_x", 1), errs.InvalidFile, `"pi_a"`},
		"PI_A":                     {strings.Replace(good, "pi_a", "PI_A", 1), errs.InvalidFile, `"pi_a"`},
		"pi_a twice":               {strings.Replace(good, `"pi_a"`, `"pi_a": `+piA+`, "pi_a"`, 1), errs.InvalidFile, "twice"},
		"pi_a twice by escape":     {strings.Replace(good, `"pi_a"`, `"pi\u005fa": `+piA+`, "pi_a"`, 1), errs.InvalidFile, "twice"},
		"plonk":                    {replace("protocol", `"plonk"`), errs.Unsupported, "plonk"},
		"bn128":                    {replace("curve", `"bn128"`), errs.Unsupported, "bn128"},
		"protocol is a number":     {replace("protocol", `16`), errs.InvalidFile, "protocol"},
		"pi_a is null":             {replace("pi_a", "null"), errs.InvalidFile, "pi_a"},
		"pi_a has two":             {replace("pi_a", `["1","2"]`), errs.InvalidFile, "3 elements"},
		"pi_a has four":            {replace("pi_a", `["1","2","1","1"]`), errs.InvalidFile, "3 elements"},
		"pi_a off the curve":       {replace("pi_a", `["1","2","1"]`), errs.InvalidProof, "pi_a"},
		"pi_a outside":             {replace("pi_a", coordinates(&out1)), errs.InvalidProof, "subgroup"},
		"pi_a = (0, 0)":            {replace("pi_a", `["0","0","1"]`), errs.InvalidProof, "pi_a"},
		"pi_a projective":          {replace("pi_a", `["1","2","3"]`), errs.InvalidFile, "affine"},
		"pi_a x = q":               {replace("pi_a", `["`+q+`","2","1"]`), errs.InvalidFile, "pi_a[0]"},
		"pi_a x is a number":       {replace("pi_a", `[1,"2","1"]`), errs.InvalidFile, "pi_a[0]"},
		"pi_a x has 200 digits":    {replace("pi_a", `["`+strings.Repeat("1", 200)+`","2","1"]`), errs.InvalidFile, "200 digits"},
		"pi_b is of G1":            {replace("pi_b", piA), errs.InvalidFile, "pi_b[0]"},
		"pi_c is of G2":            {replace("pi_c", piB), errs.InvalidFile, "pi_c[0]"},
		"pi_b outside":             {replace("pi_b", fmt.Sprintf(`[["%s","%s"],["%s","%s"],["1","0"]]`, fpText(&out2.X.A0), fpText(&out2.X.A1), fpText(&out2.Y.A0), fpText(&out2.Y.A1))), errs.InvalidProof, "subgroup"},
		"pi_b off the curve":       {replace("pi_b", `[["1","2"],["3","4"],["1","0"]]`), errs.InvalidProof, "pi_b"},
		"pi_b z = u":               {replace("pi_b", `[["1","2"],["3","4"],["0","1"]]`), errs.InvalidFile, "affine"},
		"a list with one bad":      {"[" + good + "," + strings.Replace(good, "pi_c", "pi_d", 1) + "]", errs.InvalidFile, "[1]"},
		"a list of lists":          {"[[" + good + "]]", errs.InvalidFile, "[0]"},
		"public.json":              {`["1"]`, errs.InvalidFile, "an object"},
		"an empty object":          {"{}", errs.InvalidFile, `"pi_a"`},
		"empty":                    {"", errs.InvalidFile, "nothing"},
		"only half":                {good[:len(good)/2], errs.InvalidFile, "JSON"},
		"the swapped coordinates":  {replace("pi_b", swapped(t, good)), errs.InvalidProof, "pi_b"},
		"a name with a zero byte":  {strings.Replace(good, "pi_a", "pi_a\x00", 1), errs.InvalidFile, "JSON"},
		"an error page":            {"<!DOCTYPE html><title>502</title>", errs.InvalidFile, "DOCTYPE"},
		"two proofs, not a list":   {good + good, errs.InvalidFile, "JSON"},
		"a verification key":       {string(testfiles.Fixture(t, "multiplier", "vkey.json")), errs.InvalidFile, `"pi_a"`},
		"a deep member is skipped": {strings.Replace(good, `"pi_a"`, `"x": {"pi_a": [[{"a":"]}"}]]}, "pi_b"`, 1), errs.InvalidFile, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseProofs([]byte(tc.text))
			wantClass(t, err, tc.class, tc.part)
		})
	}
	for name, text := range map[string]string{
		"no protocol and curve": strings.Replace(strings.Replace(good, `"protocol"`, `"x"`, 1), `"curve"`, `"y"`, 1),
		"BLS12-381":             strings.Replace(good, `"bls12381"`, `"BLS12-381"`, 1),
		"other members":         strings.Replace(good, `"pi_a"`, `"x": {"pi_a": [["\"]}\\", {"a": -1.5e3}]]}, "y": null, "pi_a"`, 1),
	} {
		if _, _, err := ParseProofs([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// value0 is value for strings.
func value0(s string) (first, rest string) {
	a, b := value([]byte(s))
	return string(a), string(b)
}

// swapped is pi_b with c1 before c0, as other tools have it.
func swapped(t *testing.T, good string) string {
	p, _, err := ParseProofs([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	b := &p[0].B
	return fmt.Sprintf(`[["%s","%s"],["%s","%s"],["1","0"]]`, fpText(&b.X.A1), fpText(&b.X.A0), fpText(&b.Y.A1), fpText(&b.Y.A0))
}

func TestVerifyingKeyRefuses(t *testing.T) {
	good := string(testfiles.Fixture(t, "multiplier", "vkey.json"))
	replace := func(name, v string) string {
		i := strings.Index(good, `"`+name+`": `) + len(name) + 4
		first, _ := value0(good[i:])
		return good[:i] + v + good[i+len(first):]
	}
	out1 := outsideG1()
	inf1, inf2 := `["0","1","0"]`, `[["0","0"],["1","0"],["0","0"]]`
	for name, tc := range map[string]struct {
		text  string
		class errs.Class
		part  string
	}{
		"plonk":            {replace("protocol", `"plonk"`), errs.Unsupported, "plonk"},
		"no protocol":      {strings.Replace(good, `"protocol"`, `"p"`, 1), errs.InvalidFile, "protocol"},
		"no curve":         {strings.Replace(good, `"curve"`, `"c"`, 1), errs.InvalidFile, "curve"},
		"bn128":            {replace("curve", `"bn128"`), errs.Unsupported, "bn128"},
		"nPublic 2":        {replace("nPublic", "2"), errs.InvalidFile, "nPublic"},
		"nPublic 1.0":      {replace("nPublic", "1.0"), errs.InvalidFile, "nPublic"},
		"no IC":            {strings.Replace(good, `"IC"`, `"IB"`, 1), errs.InvalidFile, `"IC"`},
		"IC empty":         {replace("IC", "[]"), errs.InvalidFile, "IC"},
		"IC not a list":    {replace("IC", "{}"), errs.InvalidFile, "IC"},
		"IC outside":       {replace("IC", "["+coordinates(&out1)+"]"), errs.InvalidFile, "IC[0]"},
		"IC off the curve": {replace("IC", `[["1","1","1"]]`), errs.InvalidFile, "IC[0]"},
		"alpha infinity":   {replace("vk_alpha_1", inf1), errs.InvalidFile, "vk_alpha_1"},
		"beta infinity":    {replace("vk_beta_2", inf2), errs.InvalidFile, "vk_beta_2"},
		"gamma infinity":   {replace("vk_gamma_2", inf2), errs.InvalidFile, "vk_gamma_2"},
		"delta infinity":   {replace("vk_delta_2", inf2), errs.InvalidFile, "vk_delta_2"},
		"no delta":         {strings.Replace(good, `"vk_delta_2"`, `"x"`, 1), errs.InvalidFile, "vk_delta_2"},
		"a proof":          {string(testfiles.Fixture(t, "multiplier", "proof.json")), errs.InvalidFile, "vk_alpha_1"},
		"a list":           {"[" + good + "]", errs.InvalidFile, "an object"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseVerifyingKey([]byte(tc.text))
			wantClass(t, err, tc.class, tc.part)
		})
	}
	for name, text := range map[string]string{"no nPublic": strings.Replace(good, `"nPublic"`, `"n"`, 1), "no alphabeta": replace("vk_alphabeta_12", "null"), "IC has infinity": replace("IC", "["+inf1+","+inf1+"]")} {
		if _, err := ParseVerifyingKey([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// endless never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

func TestReadersAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 128 MiB; -short")
	}
	_, _, err := ReadPublic(endless{})
	wantClass(t, err, errs.Exhausted, "at most")
	_, _, err = ReadProofs(broken{})
	wantClass(t, err, errs.Internal, "disk on fire")
}

func TestSniff(t *testing.T) {
	for file, want := range map[string]Kind{"circuit.r1cs": KindR1CS, "witness.wtns": KindWitness, "circuit.zkey": KindZKey, "vkey.json": KindVerifyingKey,
		"proof.json": KindProof, "public.json": KindPublic, "circuit.wasm": KindWasm, "circuit.circom": KindUnknown, "circuit.sym": KindUnknown, "input.json": KindUnknown} {
		b := testfiles.Fixture(t, "multiplier", file)
		if got, err := Sniff(bytes.NewReader(b), int64(len(b))); err != nil || got != want {
			t.Errorf("%s: %v, want %v, %v", file, got, want, err)
		}
	}
	proof := string(testfiles.Fixture(t, "multiplier", "proof.json"))
	for text, want := range map[string]Kind{"": KindEmpty, " ": KindUnknown, "[\n]": KindPublic, "[": KindPublic, "[1]": KindPublic, "[[\"1\"]]": KindPublic, "[" + proof + "]": KindProof,
		"\n\t" + proof: KindProof, "\xef\xbb\xbf" + proof: KindProof, "<!DOCTYPE html>": KindMarkup, "  <html>": KindMarkup, "ptau1234": KindPowersOfTau, "r1c": KindUnknown, "{}": KindUnknown, "[{}]": KindUnknown, "\x00": KindUnknown} {
		if got := SniffBytes([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if _, err := Sniff(bytes.NewReader(nil), 10); err == nil {
		t.Error("a file that is shorter than it was: no error")
	}
	for k := KindUnknown; k <= KindEmpty+1; k++ {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}
