package keyfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

const testdata = "../../testdata"

func write(t testing.TB, name string, f func(w io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func raw(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t testing.TB, path string) (*os.File, int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return f, st.Size()
}

func wantError(t *testing.T, name string, err error, class errs.Class, words ...string) {
	t.Helper()
	if !errs.Is(err, class) {
		t.Errorf("%s: class %v: %v", name, errs.ClassOf(err), err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error()+" "+errs.HintOf(err), w) {
			t.Errorf("%s: %q is not in %q", name, w, err)
		}
	}
}

// made is a circuit with its key in one layout, as files.
type made struct {
	sys    *r1cs.System
	pk     *groth16.ProvingKey
	r1cs   string
	params string // RowsSeven, HMonomial
	zkey   string // RowsFive, HOddCoset
}

func makeKeys(t testing.TB, rows, public int, format Kind) made {
	t.Helper()
	c := textbook.Random(11, rows, public)
	m := made{sys: c.System}
	m.r1cs = write(t, "c.r1cs", func(w io.Writer) error { return iden3.WriteR1CS(w, c.System, iden3.R1CSInfo{NbPubOut: 1}) })
	order, h := groth16.RowsSeven, groth16.HMonomial
	if format == ZKey {
		order, h = groth16.RowsFive, groth16.HOddCoset
	}
	m.pk = textbook.New(c.System, textbook.ToxicFrom(4), order, h).Key()
	path := write(t, "k", func(w io.Writer) error {
		return Export(context.Background(), &Key{ProvingKey: m.pk, System: c.System}, format, w, 2)
	})
	if format == ZKey {
		m.zkey = path
	} else {
		m.params = path
	}
	return m
}

func importTo(t testing.TB, src string, circuit *r1cs.System, o ImportOptions) (string, *wkey.Header, error) {
	t.Helper()
	f, _ := open(t, src)
	path := filepath.Join(t.TempDir(), "k.wkey")
	dst, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	h, err := Import(context.Background(), f, circuit, dst, o)
	return path, h, err
}

func sameKey(t *testing.T, name string, got, want *groth16.ProvingKey) {
	t.Helper()
	if fmt.Sprint(got.VK, got.A, got.B1, got.B2, got.K, got.H, got.AWires, got.BWires) != fmt.Sprint(want.VK, want.A, want.B1, want.B2, want.K, want.H, want.AWires, want.BWires) {
		t.Errorf("%s: key differs", name)
	}
}

func TestSniffFixtures(t *testing.T) {
	byName := map[string]Kind{
		"circuit.r1cs": R1CS, "circuit.zkey": ZKey, "witness.wtns": Witness, "circuit.wasm": Wasm, "circuit.sym": Symbols,
		"vkey.json": VKJSON, "proof.json": ProofJSON, "public.json": PublicJSON, "input.json": InputJSON,
		"por-8x8.params": Params, "por-8x8-rng.params": Params, "por-8x8.vk": VK, "por-8x8.stream.gz": Gzip, "por-8x8.proof.json": InputJSON,
		"circuit.circom": Unknown, "provenance.txt": Unknown, "PROVENANCE.md": Unknown, "por-8x8.bin": Unknown,
	}
	seen := map[Kind]bool{}
	err := filepath.WalkDir(testdata, func(path string, d os.DirEntry, err error) error {
		want, known := byName[filepath.Base(path)]
		if err != nil || d.IsDir() || !known {
			return err
		}
		f, size := open(t, path)
		k, err := Sniff(f, size)
		if err != nil || k != want {
			t.Errorf("%s: %s, expected %s (%v)", path, k, want, err)
		}
		seen[k] = true
		rep, err := Inspect(context.Background(), f, size, path, true)
		if rep.Kind != want || (err != nil) != (want == Unknown || want == Gzip) {
			t.Errorf("inspect %s: %s: %v", path, rep.Kind, err)
		}
		if _, err := json.Marshal(rep); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 12 {
		t.Errorf("only %d kinds seen: %v", len(seen), seen)
	}
}

func TestSniffBytes(t *testing.T) {
	_, _, g1, g2 := bls12381.Generators()
	proof := bellman.AppendProof(nil, &groth16.Proof{A: g1, B: g2, C: g1})
	m := makeKeys(t, 10, 1, Params)
	for name, c := range map[string]struct {
		b    []byte
		want Kind
	}{
		"nothing":               {nil, Empty},
		"page":                  {[]byte("\n<!DOCTYPE html><html></html>"), Markup},
		"one byte":              {[]byte{0x80}, Unknown},
		"one proof":             {proof, Proofs},
		"ten proofs":            {bytes.Repeat(proof, 10), Proofs},
		"proof and a half":      {append(bytes.Clone(proof), proof[:96]...), Unknown},
		"noise":                 {bytes.Repeat([]byte{0x17, 3, 99}, 1000), Unknown},
		"zeros":                 {make([]byte, 5000), Unknown},
		"truncated params":      {raw(t, m.params)[:3000], Params},
		"broken object":         {[]byte(`{"a": `), Unknown},
		"object":                {[]byte(` {"a": ["1"]}`), InputJSON},
		"list of public inputs": {[]byte(`["1","2"]`), PublicJSON},
		"sym":                   {[]byte("1,1,1,main.out\n2,-1,1,main.x\n"), Symbols},
		"text":                  {[]byte("1,2,3 words\n"), Unknown},
	} {
		k, err := Sniff(bytes.NewReader(c.b), int64(len(c.b)))
		if err != nil || k != c.want {
			t.Errorf("%s: %s, expected %s (%v)", name, k, c.want, err)
		}
	}
	if _, err := Sniff(bytes.NewReader(nil), 10); err == nil {
		t.Error("a file shorter than its size: no error")
	}
}

func TestParamsThroughPreparedKey(t *testing.T) {
	ctx := context.Background()
	for _, rows := range []int{1, 6, 7, 30, 600} {
		m := makeKeys(t, rows, 2, Params)
		name := fmt.Sprintf("%d rows", rows)
		var last, total int64
		path, h, err := importTo(t, m.params, m.sys, ImportOptions{Tasks: 2, Creator: "test", Progress: func(d, n int64) {
			if d < last || d > n {
				t.Errorf("%s: progress %d after %d of %d", name, d, last, n)
			}
			last, total = d, n
		}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if last != total || total == 0 {
			t.Errorf("%s: progress ends at %d of %d", name, last, total)
		}
		if h.Digest != m.sys.Digest() || h.Source.Kind != wkey.SourceParams || h.Source.Size != int64(len(raw(t, m.params))) || !h.Shape.HasC || h.Shape.Insecure {
			t.Errorf("%s: header %+v", name, h.Meta)
		}
		for _, mapped := range []bool{false, true} {
			f, size := open(t, path)
			k, err := OpenKey(ctx, f, Options{Map: mapped, CheckSubgroup: true, Tasks: 2, Circuit: m.sys})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			sameKey(t, name, k.ProvingKey, m.pk)
			if k.Mapped() != mapped || k.ResidentBytes() != size || k.System == nil || !k.System.HasC || k.Kind != WKey {
				t.Errorf("%s: %+v", name, k)
			}
			k.Release(wkey.SecA, wkey.SecH)
			bare, err := OpenKey(ctx, f, Options{Map: mapped, PointsOnly: true})
			if err != nil || bare.System != nil || bare.Close() != nil {
				t.Errorf("%s: points only: %v", name, err)
			}
			for _, x := range []struct {
				format Kind
				want   []byte
			}{{Params, raw(t, m.params)}, {VK, nil}, {VKJSON, nil}, {EIP2537, nil}} {
				var out bytes.Buffer
				if err := Export(ctx, k, x.format, &out, 2); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if x.want != nil && !bytes.Equal(out.Bytes(), x.want) {
					t.Errorf("%s: exported %s differs", name, x.format)
				}
				if x.format == VK || x.format == VKJSON {
					vk, err := OpenVerifyingKey(ctx, bytes.NewReader(out.Bytes()), int64(out.Len()))
					if err != nil || !reflect.DeepEqual(vk.IC, m.pk.VK.IC) {
						t.Errorf("%s: exported %s: %v", name, x.format, err)
					}
				}
			}
			if rows >= 6 {
				wantError(t, name, Export(ctx, k, ZKey, io.Discard, 1), errs.Unsupported)
			}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		}
		// a second import of the result changes nothing but the source
		again, h2, err := importTo(t, path, nil, ImportOptions{Tasks: 1, Creator: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if h2.Source.Kind != wkey.SourceWKey || !bytes.Equal(raw(t, again)[4096:], raw(t, path)[4096:]) {
			t.Errorf("%s: a second import differs", name)
		}
	}
}

func TestZKeyThroughPreparedKey(t *testing.T) {
	ctx := context.Background()
	for _, rows := range []int{1, 6, 13, 40} {
		for _, withCircuit := range []bool{false, true} {
			m := makeKeys(t, rows, 1, ZKey)
			circuit := m.sys
			if !withCircuit {
				circuit = nil
			}
			name := fmt.Sprintf("%d rows, circuit %v", rows, withCircuit)
			path, h, err := importTo(t, m.zkey, circuit, ImportOptions{Tasks: 2})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if h.Shape.HasC != withCircuit || !h.Shape.HasMatrices || !h.Shape.Insecure || h.Digest.AB != m.sys.Digest().AB {
				t.Errorf("%s: header %+v", name, h.Meta)
			}
			f, _ := open(t, path)
			k, err := OpenKey(ctx, f, Options{Map: true})
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			sameKey(t, name, k.ProvingKey, m.pk)
			var out bytes.Buffer
			if err := Export(ctx, k, ZKey, &out, 1); err != nil || !bytes.Equal(out.Bytes(), raw(t, m.zkey)) {
				t.Errorf("%s: exported .zkey differs: %v", name, err)
			}
			if rows >= 6 {
				wantError(t, name, Export(ctx, k, Params, io.Discard, 1), errs.Unsupported, "row order")
			}
			z, _ := open(t, m.zkey)
			direct, err := OpenKey(ctx, z, Options{Circuit: circuit, CheckSubgroup: true, Tasks: 2})
			if err != nil {
				t.Fatal(err)
			}
			sameKey(t, name, direct.ProvingKey, m.pk)
			if direct.System.HasC != withCircuit || direct.ResidentBytes() < 96*int64(len(m.pk.H)+len(m.pk.K)) || direct.Close() != nil {
				t.Errorf("%s: opened directly: %+v", name, direct)
			}
		}
	}
}

// Every circom fixture passes into a prepared key and back, its ceremony's record with it.
func TestCircomFixtures(t *testing.T) {
	ctx := context.Background()
	dirs, _ := filepath.Glob(filepath.Join(testdata, "circom", "*", "circuit.zkey"))
	if len(dirs) < 5 {
		t.Fatalf("%d fixtures", len(dirs))
	}
	for _, src := range dirs {
		cf, csize := open(t, filepath.Join(filepath.Dir(src), "circuit.r1cs"))
		sys, err := OpenCircuit(ctx, cf, csize, 1)
		if err != nil {
			t.Fatal(err)
		}
		path, h, err := importTo(t, src, sys, ImportOptions{Tasks: 2})
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if h.Shape.Insecure || h.Section(wkey.SecTranscript) == nil || !h.Shape.HasC {
			t.Errorf("%s: %+v", src, h.Shape)
		}
		zf, zsize := open(t, src)
		zsum, err := OpenSummary(ctx, zf, zsize)
		if err != nil {
			t.Fatal(err)
		}
		wf, wsize := open(t, path)
		wsum, err := OpenSummary(ctx, wf, wsize)
		if err != nil {
			t.Fatal(err)
		}
		zs := zsum.Shape
		zs.HasC = true
		if zs != wsum.Shape || !reflect.DeepEqual(zsum.VK, wsum.VK) || wsum.Digest != sys.Digest() {
			t.Errorf("%s: summary %+v, of the prepared key %+v", src, zsum.Shape, wsum.Shape)
		}
		k, err := OpenKey(ctx, wf, Options{Map: true, Circuit: sys})
		if err != nil {
			t.Fatal(err)
		}
		back := write(t, "back.zkey", func(w io.Writer) error { return Export(ctx, k, ZKey, w, 1) })
		bf, _ := open(t, back)
		kb, err := OpenKey(ctx, bf, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sameKey(t, src, kb.ProvingKey, k.ProvingKey)
		if kb.Shape.Insecure || kb.System.Digest().AB != sys.Digest().AB || !bytes.Equal(kb.Transcript, k.Transcript) {
			t.Errorf("%s: exported key differs", src)
		}
		k.Close()
		for _, f := range []string{src, path, filepath.Join(filepath.Dir(src), "vkey.json")} {
			vf, vsize := open(t, f)
			vk, err := OpenVerifyingKey(ctx, vf, vsize)
			if err != nil || !reflect.DeepEqual(vk.IC, zsum.VK.IC) {
				t.Errorf("verifying key of %s: %v", f, err)
			}
		}
	}
}

func TestOtherCircuitsAreRefused(t *testing.T) {
	ctx := context.Background()
	p, z := makeKeys(t, 12, 2, Params), makeKeys(t, 12, 2, ZKey)
	prepared, _, err := importTo(t, p.params, p.sys, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bareFile, err := os.Create(filepath.Join(t.TempDir(), "bare"))
	if err != nil {
		t.Fatal(err)
	}
	defer bareFile.Close()
	bare := *p.pk
	bare.HasMatrices, bare.HasC, bare.NbConstraints = false, false, -1
	if err := wkey.Write(ctx, bareFile, &bare, nil, wkey.Meta{}); err != nil {
		t.Fatal(err)
	}
	other := textbook.Random(12, 12, 2).System  // the same sizes, other rows
	larger := textbook.Random(11, 13, 2).System // other sizes
	changed := *p.sys                           // one coefficient
	changed.A.Coeff = append([]uint32(nil), changed.A.Coeff...)
	changed.Coeffs = append(changed.Coeffs[:len(changed.Coeffs):len(changed.Coeffs)], changed.Coeffs[len(changed.Coeffs)-1])
	changed.Coeffs[len(changed.Coeffs)-1].Double(&changed.Coeffs[len(changed.Coeffs)-1])
	changed.A.Coeff[0] = uint32(len(changed.Coeffs) - 1)
	for _, path := range []string{p.params, z.zkey, prepared, bareFile.Name()} {
		for name, sys := range map[string]*r1cs.System{"larger": larger, "changed": &changed, "other rows": other} {
			f, _ := open(t, path)
			_, err := OpenKey(ctx, f, Options{Circuit: sys})
			_, _, ierr := importTo(t, path, sys, ImportOptions{})
			if name == "changed" && (path == p.params || path == bareFile.Name()) {
				// counts and wires agree: these files cannot tell
				if err != nil || ierr != nil {
					t.Errorf("%s %s: %v, %v", path, name, err, ierr)
				}
				continue
			}
			if name == "other rows" && (path == p.params || path == bareFile.Name()) && err == nil {
				t.Logf("%s: %s not seen: the same wires have coefficients", filepath.Base(path), name)
				continue
			}
			wantError(t, path+" "+name, err, errs.InvalidFile, "do not belong together", filepath.Base(path))
			wantError(t, path+" "+name+" import", ierr, errs.InvalidFile, "do not belong together")
		}
	}
	// a circuit added to a key without one
	path, h, err := importTo(t, bareFile.Name(), p.sys, ImportOptions{})
	if err != nil || !h.Shape.HasC || h.Shape.NbConstraints != 12 {
		t.Fatalf("%v: %v", path, err)
	}
	f, _ := open(t, p.params)
	_, err = OpenKey(ctx, f, Options{})
	wantError(t, "params alone", err, errs.InvalidArgument, "--circuit")
	_, _, err = importTo(t, p.params, nil, ImportOptions{})
	wantError(t, "import of params alone", err, errs.InvalidArgument, "--circuit")
	b, bsize := open(t, bareFile.Name())
	_, err = OpenCircuit(ctx, b, bsize, 1)
	wantError(t, "circuit of a bare key", err, errs.InvalidFile, "without its circuit")
	if err := Check(p.pk, p.sys.Digest(), p.sys); err != nil {
		t.Error(err)
	}
	wantError(t, "digest", Check(p.pk, p.sys.Digest(), &changed), errs.InvalidFile, "digest of A and B")
}

func TestWrongKinds(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		path, want string
	}{
		{"circom/multiplier/witness.wtns", "circom witness"}, {"circom/multiplier/vkey.json", "verification key"}, {"filecoin/por-8x8.vk", "bellman verifying key"},
		{"circom/multiplier/circuit.circom", "unknown file"}, {"filecoin/por-8x8.stream.gz", "unpack it first"},
	} {
		path := filepath.Join(testdata, c.path)
		f, size := open(t, path)
		_, err := OpenKey(ctx, f, Options{})
		wantError(t, path, err, errs.InvalidFile, c.want, path)
		_, err = OpenSummary(ctx, f, size)
		wantError(t, path, err, errs.InvalidFile, c.want)
		_, _, err = importTo(t, path, nil, ImportOptions{})
		wantError(t, path, err, errs.InvalidFile, c.want, path)
		if !strings.HasSuffix(path, ".vk") && !strings.HasSuffix(path, "vkey.json") {
			_, err = OpenVerifyingKey(ctx, f, size)
			wantError(t, path, err, errs.InvalidFile, c.want)
		}
		_, _, err = OpenProofs(f, size)
		wantError(t, path, err, errs.InvalidFile, c.want)
		_, err = OpenCircuit(ctx, f, size, 1)
		wantError(t, path, err, errs.InvalidFile, c.want)
	}
	for name, b := range map[string]string{"empty": "", "page": "<html>not found</html>"} {
		path := write(t, name, func(w io.Writer) error { _, err := io.WriteString(w, b); return err })
		f, _ := open(t, path)
		_, err := OpenKey(ctx, f, Options{})
		wantError(t, name, err, errs.InvalidFile, "fetch the file again")
	}
	d, _ := open(t, t.TempDir())
	_, err := OpenKey(ctx, d, Options{})
	wantError(t, "directory", err, errs.InvalidFile, "a directory")
	wantError(t, "format", ExportVerifyingKey(&groth16.VerifyingKey{}, Wasm, io.Discard), errs.InvalidArgument, "format")
	m := makeKeys(t, 6, 1, ZKey)
	wantError(t, "zkey without circuit", Export(ctx, &Key{ProvingKey: m.pk}, ZKey, io.Discard, 1), errs.InvalidArgument, "--circuit")
}

func TestProofsAreFound(t *testing.T) {
	_, _, g1, g2 := bls12381.Generators()
	b := bytes.Repeat(bellman.AppendProof(nil, &groth16.Proof{A: g1, B: g2, C: g1}), 3)
	ps, list, err := OpenProofs(bytes.NewReader(b), int64(len(b)))
	if err != nil || !list || len(ps) != 3 {
		t.Errorf("%d %v %v", len(ps), list, err)
	}
	f, size := open(t, filepath.Join(testdata, "circom/multiplier/proof.json"))
	if ps, list, err = OpenProofs(f, size); err != nil || list || len(ps) != 1 {
		t.Errorf("%d %v %v", len(ps), list, err)
	}
}

// T8 at the door: damage that only whole checks find is found by Import, and by Trust let through where it says so.
func TestImportChecksPoints(t *testing.T) {
	m := makeKeys(t, 600, 2, Params)
	good := raw(t, m.params)
	p, err := bellman.Open(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	file := func(edit func(b []byte)) string {
		b := bytes.Clone(good)
		edit(b)
		return write(t, "bad.params", func(w io.Writer) error { _, err := w.Write(b); return err })
	}
	order3 := func(at int64) func(b []byte) {
		return func(b []byte) {
			var q bls12381.G1Affine
			q.Y.SetUint64(2)
			points.EncodeG1((*[points.G1Size]byte)(b[at:]), &q)
		}
	}
	swap := func(at int64) func(b []byte) {
		return func(b []byte) {
			x := bytes.Clone(b[at : at+96])
			copy(b[at:], b[at+96:at+192])
			copy(b[at+96:], x)
		}
	}
	for name, c := range map[string]struct {
		edit    func(b []byte)
		words   []string
		trusted bool // Trust lets it pass
	}{
		"off the curve":       {func(b []byte) { b[p.L.Offset+5*96+90] ^= 1 }, []string{"list l, point 5", "curve"}, false},
		"subgroup, h":         {order3(p.H.Offset + 700*96), []string{"list h, point 700", "subgroup"}, true},
		"subgroup, a":         {order3(p.A.Offset), []string{"list a, point 0", "subgroup"}, true},
		"b_g1 out of order":   {swap(p.B1.Offset + 96*3), []string{"b_g1", "same multiples"}, true},
		"delta1 is not delta": {func(b []byte) { copy(b[576:672], b[:96]) }, []string{"delta_g1", "same multiples"}, true},
	} {
		path := file(c.edit)
		out, _, err := importTo(t, path, m.sys, ImportOptions{Tasks: 2})
		wantError(t, name, err, errs.InvalidFile, append(c.words, path)...)
		f, size := open(t, out)
		if k, _ := Sniff(f, size); k == WKey {
			t.Errorf("%s: a key was left behind", name)
		}
		if _, _, err = importTo(t, path, m.sys, ImportOptions{Tasks: 2, Trust: true}); (err == nil) != c.trusted {
			t.Errorf("%s, trusted: %v", name, err)
		}
		for _, check := range []bool{false, true} {
			f, _ := open(t, path)
			_, err := OpenKey(context.Background(), f, Options{Circuit: m.sys, CheckSubgroup: check, PointsOnly: true, Tasks: 2})
			if check {
				wantError(t, name+", opened", err, errs.InvalidFile, append(c.words, path)...)
			} else if (err == nil) != c.trusted {
				t.Errorf("%s, opened unchecked: %v", name, err)
			}
		}
	}
	prepared, _, err := importTo(t, m.params, m.sys, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := raw(t, prepared)
	b[len(b)/2] ^= 1
	flipped := write(t, "flipped", func(w io.Writer) error { _, err := w.Write(b); return err })
	_, _, err = importTo(t, flipped, nil, ImportOptions{Trust: true})
	wantError(t, "flipped", err, errs.InvalidFile, "checksum", flipped)
	f, size := open(t, flipped)
	_, err = OpenKey(context.Background(), f, Options{Map: true, CheckSubgroup: true, Tasks: 2})
	wantError(t, "flipped", err, errs.InvalidFile, "checksum", flipped)
	rep, err := Inspect(context.Background(), f, size, flipped, true)
	if rep.Kind != WKey || rep.Key == nil {
		t.Errorf("report %+v", rep)
	}
	wantError(t, "inspect flipped", err, errs.InvalidFile, "checksum")
}

func TestImportCancel(t *testing.T) {
	m := makeKeys(t, 40, 2, Params)
	ctx, cancel := context.WithCancel(context.Background())
	f, _ := open(t, m.params)
	dst, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	_, err = Import(ctx, f, m.sys, dst, ImportOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestReportOfParams(t *testing.T) {
	b := append(raw(t, filepath.Join(testdata, "filecoin/por-8x8.params")), make([]byte, 123)...)
	rep, err := Inspect(context.Background(), bytes.NewReader(b), int64(len(b)), "x", false)
	if err != nil {
		t.Fatal(err)
	}
	want := KeyReport{LogDomain: 10, Wires: 541, Public: 1, Rows: -1, PointsA: 410, PointsB: 390, PointsK: 539, PointsH: 1023, RowOrder: "rows-7", Basis: "monomial"}
	if *rep.Key != want || rep.TrailingBytes != 123 || len(rep.Sections) != 6 || rep.VerifyingKey.Public != 1 {
		t.Errorf("%+v %+v", rep, rep.Key)
	}
}

func FuzzInspect(f *testing.F) {
	for _, path := range []string{"circom/multiplier/circuit.zkey", "circom/multiplier/circuit.r1cs", "circom/multiplier/witness.wtns", "circom/multiplier/proof.json", "circom/multiplier/vkey.json", "circom/multiplier/public.json", "filecoin/por-8x8.vk"} {
		f.Add(raw(f, filepath.Join(testdata, path)))
	}
	m := makeKeys(f, 3, 1, Params)
	f.Add(raw(f, m.params))
	path, _, err := importTo(f, m.params, m.sys, ImportOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw(f, path))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, z runtime.MemStats
		runtime.ReadMemStats(&a)
		rep, _ := Inspect(context.Background(), bytes.NewReader(b), int64(len(b)), "fuzz", true)
		runtime.ReadMemStats(&z)
		if used := z.TotalAlloc - a.TotalAlloc; used > 256*uint64(len(b))+16<<20 {
			t.Fatalf("%s: %d bytes allocated for %d", rep.Kind, used, len(b))
		}
	})
}

// BenchmarkImport imports the 15 MB key with a circuit of the same densities.
func BenchmarkImport(b *testing.B) {
	path := filepath.Join("../../../shared/fixtures/filecoin/keys/updp-1k.params")
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		b.Skip("updp-1k.params is not here")
	}
	defer f.Close()
	st, _ := f.Stat()
	p, err := bellman.Open(f, st.Size())
	if err != nil {
		b.Fatal(err)
	}
	sys := systemFor(b, p)
	for name, trust := range map[string]bool{"all checks": false, "trusted": true} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(st.Size())
			for b.Loop() {
				if _, _, err := importTo(b, path, sys, ImportOptions{Tasks: 2, Trust: trust}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// systemFor is a circuit with the counts of a .params, which is all that the file can tell.
func systemFor(tb testing.TB, p *bellman.Params) *r1cs.System {
	s := p.Shape()
	bld := r1cs.NewBuilder(s.NbWires, s.NbPublic, true, 0, 0)
	a, b := s.NbPublic+1, 0
	for range s.DomainSize() - s.NbPublic - 1 {
		for range 2 {
			if a < s.NbA {
				bld.Term(r1cs.MatrixA, uint32(a), 0)
				a++
			}
			if b < s.NbB {
				bld.Term(r1cs.MatrixB, uint32(b), 0)
				b++
			}
		}
		if err := bld.EndRow(); err != nil {
			tb.Fatal(err)
		}
	}
	sys, err := bld.System()
	if err != nil {
		tb.Fatal(err)
	}
	return sys
}
