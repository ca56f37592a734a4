package bellman

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

const small = "../../../testdata/filecoin"

// shared is the folder of the large fixtures; the test is skipped where it is absent.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("WEIR_SHARED")
	if dir == "" {
		dir = "../../../../shared"
	}
	dir = filepath.Join(dir, "fixtures", "filecoin", "keys")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("large Filecoin keys are not here (%s): set WEIR_SHARED", dir)
	}
	return dir
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func element(t testing.TB, s string) fr.Element {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		t.Fatalf("element %q: %v", s, err)
	}
	x, err := fr.LittleEndian.Element((*[32]byte)(b))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func elements(t testing.TB, list []string) []fr.Element {
	out := make([]fr.Element, len(list))
	for i, s := range list {
		out[i] = element(t, s)
	}
	return out
}

// record is what the tests use of a *.proof.json.
type record struct {
	ID     string `json:"id"`
	Params struct{ Bytes int64 }
	Layout struct {
		Sections []struct {
			Section, SHA256 string
			Offset          int64
			Points          int
			PointBytes      int `json:"point_bytes"`
			First, Last     []string
		}
	}
	Toxic     map[string]string `json:"toxic_waste"`
	Points    vkPoints          `json:"vk_points"`
	Witnesses []struct {
		Public   []string `json:"public_inputs"`
		Negative []struct {
			What, Proof string
			Public      json.RawMessage `json:"public_inputs"` // a list, or words that say: those of the good proofs
			Verify      bool
		}
		Proofs []struct {
			Name, Proof, R, S string
			Verify            bool
		}
	}
}

type vkPoints struct {
	AlphaG1 string   `json:"alpha_g1"`
	BetaG1  string   `json:"beta_g1"`
	BetaG2  string   `json:"beta_g2"`
	GammaG2 string   `json:"gamma_g2"`
	DeltaG1 string   `json:"delta_g1"`
	DeltaG2 string   `json:"delta_g2"`
	IC      []string `json:"ic"`
}

func load(t *testing.T, path string, to any) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, path), to); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func compressed(p *bls12381.G1Affine) string { b := p.Bytes(); return hex.EncodeToString(b[:]) }

func (want *vkPoints) compare(t *testing.T, vk *groth16.VerifyingKey) {
	t.Helper()
	g2 := func(p *bls12381.G2Affine) string { b := p.Bytes(); return hex.EncodeToString(b[:]) }
	got := vkPoints{compressed(&vk.AlphaG1), compressed(&vk.BetaG1), g2(&vk.BetaG2), g2(&vk.GammaG2), compressed(&vk.DeltaG1), g2(&vk.DeltaG2), nil}
	for i := range vk.IC {
		got.IC = append(got.IC, compressed(&vk.IC[i]))
	}
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		t.Errorf("verifying key differs:\n%s\n%s", a, b)
	}
}

// por8x8 reads the circuit and checks its digest against the one of the reference.
func por8x8(t testing.TB) *r1cs.System {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(readFile(t, filepath.Join(small, "por-8x8.stream.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	const inputs, aux = 2, 539
	bld := r1cs.NewBuilder(inputs+aux, inputs-1, true, 0, 0)
	for len(b) > 0 {
		for m := range 3 {
			n := binary.LittleEndian.Uint32(b)
			b = b[4:]
			for range n {
				wire := binary.LittleEndian.Uint32(b[1:])
				if b[0] == 1 {
					wire += inputs
				}
				c, err := fr.LittleEndian.Element((*[32]byte)(b[5:]))
				if err != nil {
					t.Fatal(err)
				}
				bld.Term(m, wire, bld.Coeff(&c))
				b = b[37:]
			}
		}
		if err := bld.EndRow(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := bld.System()
	if err != nil {
		t.Fatal(err)
	}
	var wit struct {
		Digest string `json:"r1cs_sha256"`
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(small, "por-8x8.wit.json")), &wit); err != nil {
		t.Fatal(err)
	}
	if d := s.Digest(); hex.EncodeToString(d.ABC[:]) != wit.Digest {
		t.Fatalf("digest %x", d.ABC)
	}
	return s
}

func openBytes(t testing.TB, b []byte) *Params {
	t.Helper()
	p, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReferenceKey(t *testing.T) {
	ctx := context.Background()
	raw := readFile(t, filepath.Join(small, "por-8x8.params"))
	var rec record
	load(t, filepath.Join(small, "por-8x8.proof.json"), &rec)
	p := openBytes(t, raw)
	for i, s := range p.Sections()[1:] {
		w := rec.Layout.Sections[i]
		if s.Name != w.Section || s.Offset != w.Offset || s.Count != w.Points || s.PointSize != w.PointBytes {
			t.Errorf("section %+v, expected %+v", s, w)
		}
		if sum := sha256.Sum256(raw[s.Offset:s.End()]); hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("section %s: digest differs", s.Name)
		}
	}
	if p.TrailingBytes() != 0 {
		t.Errorf("trailing bytes %d", p.TrailingBytes())
	}
	sys := por8x8(t)
	pk, err := p.ProvingKey(ctx, DensitiesOf(sys), Options{Tasks: 2, CheckSubgroup: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := pk.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]bls12381.G1Affine{"h": pk.H, "l": pk.K, "a": pk.A, "b_g1": pk.B1} {
		for _, w := range rec.Layout.Sections {
			if w.Section != name {
				continue
			}
			for i, s := range w.First {
				if compressed(&list[i]) != s {
					t.Fatalf("%s, point %d differs", name, i)
				}
			}
			for i, s := range w.Last {
				if k := len(list) - len(w.Last) + i; compressed(&list[k]) != s {
					t.Fatalf("%s, point %d differs", name, k)
				}
			}
		}
	}
	rec.Points.compare(t, &pk.VK)
	var out bytes.Buffer
	if err := Write(ctx, &out, pk, 2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), raw) {
		t.Error("written key differs from the reference")
	}

	// The set-up formulas with the same secrets give the same file, wire by wire: the order and the densities are right.
	x := func(n string) fr.Element { return element(t, rec.Toxic[n]) }
	in := textbook.New(sys, textbook.Toxic{Tau: x("tau"), Alpha: x("alpha"), Beta: x("beta"), Gamma: x("gamma"), Delta: x("delta")}, groth16.RowsSeven, groth16.HMonomial)
	out.Reset()
	if err := Write(ctx, &out, in.Key(), 1); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), raw) {
		t.Error("key from the secrets differs from the reference")
	}

	// And the textbook's proof of the reference witness is the reference's proof.
	wit := readFile(t, filepath.Join(small, "por-8x8.bin"))[len("WEIR-WIT-1\n")+16:]
	w := make([]fr.Element, len(wit)/32)
	for i := range w {
		if w[i], err = fr.LittleEndian.Element((*[32]byte)(wit[32*i:])); err != nil {
			t.Fatal(err)
		}
	}
	for _, pr := range rec.Witnesses[0].Proofs {
		proof := in.Proof(w, groth16.Randomness{R: element(t, pr.R), S: element(t, pr.S)})
		if hex.EncodeToString(AppendProof(nil, &proof)) != pr.Proof {
			t.Errorf("proof %s differs", pr.Name)
		}
	}
}

func TestRandomGenerators(t *testing.T) {
	raw := readFile(t, filepath.Join(small, "por-8x8-rng.params"))
	p := openBytes(t, raw)
	pk, err := p.ProvingKey(context.Background(), DensitiesOf(por8x8(t)), Options{Tasks: 1})
	if err != nil {
		t.Fatal(err)
	}
	var rec record
	load(t, filepath.Join(small, "por-8x8-rng.json"), &rec)
	rec.Points.compare(t, &pk.VK)
	var out bytes.Buffer
	if err := Write(context.Background(), &out, pk, 1); err != nil || !bytes.Equal(out.Bytes(), raw) {
		t.Errorf("written key differs: %v", err)
	}
}

// checkProofs verifies every proof of a record under vk, one by one and as a batch, and refuses the bad ones.
func checkProofs(t *testing.T, vk *groth16.VerifyingKey, rec *record) {
	t.Helper()
	v, err := groth16.NewVerifier(vk)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	var publics [][]fr.Element
	for _, w := range rec.Witnesses {
		for _, pr := range w.Proofs {
			b, _ := hex.DecodeString(pr.Proof)
			proof, err := ParseProof(b)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(AppendProof(nil, proof), b) {
				t.Error("proof encoding differs")
			}
			pub := elements(t, w.Public)
			if err := v.Verify(proof, pub); (err == nil) != pr.Verify {
				t.Errorf("%s %s: %v", rec.ID, pr.Name, err)
			}
			all, publics = append(all, b...), append(publics, pub)
		}
		for _, neg := range w.Negative {
			list := w.Public
			if neg.Public[0] == '[' {
				list = nil
				if err := json.Unmarshal(neg.Public, &list); err != nil {
					t.Fatal(err)
				}
			}
			b, _ := hex.DecodeString(neg.Proof)
			proof, err := ParseProof(b)
			if err == nil {
				err = v.Verify(proof, elements(t, list))
			}
			if !errs.Is(err, errs.InvalidProof) {
				t.Errorf("%s, %s: %v", rec.ID, neg.What, err)
			}
		}
	}
	proofs, err := ParseProofs(all)
	if err != nil {
		t.Fatal(err)
	}
	if len(proofs) > 6 {
		proofs, publics = proofs[:6], publics[:6]
	}
	if err := v.VerifyBatch(proofs, publics); err != nil {
		t.Errorf("%s: batch: %v", rec.ID, err)
	}
}

func TestReferenceProofs(t *testing.T) {
	dirs := []string{small}
	if d := filepath.Join("../../../../shared", "fixtures", "filecoin", "keys"); os.Getenv("WEIR_SHARED") != "" || exists(d) {
		dirs = append(dirs, shared(t))
	} else {
		t.Log("only the small fixture: the large ones are not here, set WEIR_SHARED")
	}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.proof.json"))
		if len(files) == 0 {
			t.Fatalf("%s has no proofs", dir)
		}
		for _, f := range files {
			t.Run(filepath.Base(f), func(t *testing.T) {
				var rec record
				load(t, f, &rec)
				raw := readFile(t, filepath.Join(dir, rec.ID+".vk"))
				vk, err := ReadVerifyingKey(bytes.NewReader(raw), int64(len(raw)))
				if err != nil {
					t.Fatal(err)
				}
				var out bytes.Buffer
				if err := WriteVerifyingKey(&out, vk); err != nil || !bytes.Equal(out.Bytes(), raw) {
					t.Errorf("written .vk differs: %v", err)
				}
				rec.Points.compare(t, vk)
				checkProofs(t, vk, &rec)
			})
		}
	}
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// someDensities fits the counts of l without knowing the circuit.
func someDensities(l *Layout) *Densities {
	sh := l.Shape()
	d := &Densities{NbWires: sh.NbWires, NbPublic: sh.NbPublic, NbConstraints: -1, A: groth16.NewBitmap(sh.NbWires), B: groth16.NewBitmap(sh.NbWires)}
	for i := range sh.NbA {
		d.A.Set(i)
	}
	for i := range sh.NbB {
		d.B.Set(i)
	}
	return d
}

func TestLargeKeysByteForByte(t *testing.T) {
	dir := shared(t)
	files, _ := filepath.Glob(filepath.Join(dir, "*.params"))
	if len(files) == 0 {
		t.Fatalf("no .params in %s", dir)
	}
	for _, f := range files {
		raw := readFile(t, f)
		p := openBytes(t, raw)
		pk, err := p.ProvingKey(context.Background(), someDensities(&p.Layout), Options{Tasks: 2, CheckSubgroup: len(raw) < 1<<20})
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		var out bytes.Buffer
		if err := Write(context.Background(), &out, pk, 2); err != nil || !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("%s: written key differs: %v", f, err)
		}
		// the chunked reader sees the same points
		var seen []bls12381.G1Affine
		if err := p.StreamG1(context.Background(), &p.A, Options{Tasks: 2}, func(ps []bls12381.G1Affine) error { seen = append(seen, ps...); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range seen {
			if !seen[i].Equal(&pk.A[i]) {
				t.Fatalf("%s: streamed point %d differs", f, i)
			}
		}
		if len(seen) != len(pk.A) || bits.Len(uint(len(pk.H))) != pk.LogDomain {
			t.Fatalf("%s: %d points", f, len(seen))
		}
	}
}

// BenchmarkRead reads the 15 MB key: MB/s of the file with curve checks, and with subgroup checks too.
func BenchmarkRead(b *testing.B) {
	path := "../../../../shared/fixtures/filecoin/keys/updp-1k.params"
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		b.Skip("updp-1k.params is not here")
	}
	defer f.Close()
	st, _ := f.Stat()
	for _, sub := range []bool{false, true} {
		b.Run(map[bool]string{false: "curve", true: "subgroup"}[sub], func(b *testing.B) {
			b.SetBytes(st.Size())
			for b.Loop() {
				p, err := Open(f, st.Size())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.ProvingKey(context.Background(), someDensities(&p.Layout), Options{Tasks: 2, CheckSubgroup: sub}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
