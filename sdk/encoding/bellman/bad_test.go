package bellman

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
	"github.com/weir-zk/weir/sdk/internal/textbook"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
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

// smallKey is a key of every list non-empty, as a file, with its circuit.
func smallKey(t testing.TB, rows, public int) ([]byte, *groth16.ProvingKey, *Densities) {
	t.Helper()
	c := textbook.Random(7, rows, public)
	pk := textbook.New(c.System, textbook.ToxicFrom(3), groth16.RowsSeven, groth16.HMonomial).Key()
	var out bytes.Buffer
	if err := Write(context.Background(), &out, pk, 1); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), pk, DensitiesOf(c.System)
}

func TestRoundTripSizes(t *testing.T) {
	for _, rows := range []int{1, 2, 6, 7, 8, 13, 14, 15, 30} {
		raw, pk, d := smallKey(t, rows, 1)
		p := openBytes(t, raw)
		got, err := p.ProvingKey(context.Background(), d, Options{Tasks: 3, CheckSubgroup: true})
		if err != nil {
			t.Fatalf("%d rows: %v", rows, err)
		}
		want := *pk
		want.Insecure, want.HasMatrices, want.HasC = false, false, false // not in the file
		if got.Shape != want.Shape {
			t.Errorf("%d rows: shape %+v, expected %+v", rows, got.Shape, want.Shape)
		}
		if fmt.Sprint(got.VK, got.A, got.B1, got.B2, got.K, got.H, got.AWires, got.BWires) != fmt.Sprint(pk.VK, pk.A, pk.B1, pk.B2, pk.K, pk.H, pk.AWires, pk.BWires) {
			t.Errorf("%d rows: key differs", rows)
		}
	}
}

func TestTrailingBytes(t *testing.T) {
	raw, _, d := smallKey(t, 5, 2)
	p := openBytes(t, append(bytes.Clone(raw), make([]byte, 1000)...))
	if p.TrailingBytes() != 1000 {
		t.Errorf("trailing bytes %d", p.TrailingBytes())
	}
	if _, err := p.ProvingKey(context.Background(), d, Options{}); err != nil {
		t.Error(err)
	}
}

// T8: damaged key files are errors that name the place; nothing is allocated by what they claim.
func TestDamagedParams(t *testing.T) {
	raw, _, d := smallKey(t, 12, 2)
	l := openBytes(t, raw).Layout
	edit := func(f func(b []byte)) []byte { b := bytes.Clone(raw); f(b); return b }
	for _, c := range []struct {
		name  string
		file  []byte
		words []string
	}{
		{"empty", nil, []string{"size", "0 bytes"}},
		{"error page", []byte("<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"), []string{"size", "truncated"}},
		{"long error page", bytes.Repeat([]byte("<html>502 Bad Gateway</html>\n"), 100), []string{"count of ic"}},
		{"zeros", make([]byte, 5000), []string{"ic", "at least one point"}},
		{"a coordinate too large", edit(func(b []byte) { copy(b[l.H.Offset:], fp.Modulus().Bytes()) }), []string{"list h, point 0", "field's order"}},
		{"a compressed point", edit(func(b []byte) { b[l.L.Offset+96] |= 0x80 }), []string{"list l, point 1", "compressed"}},
		{"infinity in a", edit(func(b []byte) { copy(b[l.A.Offset+2*96:], append([]byte{0x40}, make([]byte, 95)...)) }), []string{"list a, point 2", "infinity"}},
		{"infinity in b_g2", edit(func(b []byte) { copy(b[l.B2.Offset:], append([]byte{0x40}, make([]byte, 191)...)) }), []string{"list b_g2, point 0", "infinity"}},
		{"infinity in ic", edit(func(b []byte) { copy(b[l.IC.Offset+96:], append([]byte{0x40}, make([]byte, 95)...)) }), []string{"ic, point 1", "infinity"}},
		{"infinite gamma", edit(func(b []byte) { copy(b[384:], append([]byte{0x40}, make([]byte, 191)...)) }), []string{"gamma_g2", "infinity"}},
	} {
		var err error
		used := allocated(func() {
			var p *Params
			if p, err = Open(bytes.NewReader(c.file), int64(len(c.file))); err == nil {
				_, err = p.ProvingKey(context.Background(), d, Options{Tasks: 1})
			}
		})
		wantError(t, c.name, err, errs.InvalidFile, c.words...)
		if used > 4<<20 {
			t.Errorf("%s: %d bytes allocated", c.name, used)
		}
	}
	for _, s := range l.Sections() {
		for _, v := range []uint32{0xFFFFFFFF, uint32(s.Count + 1), uint32(s.Count - 1)} {
			b := edit(func(b []byte) { binary.BigEndian.PutUint32(b[s.Offset-4:], v) })
			var err error
			used := allocated(func() {
				var p *Params
				if p, err = Open(bytes.NewReader(b), int64(len(b))); err == nil {
					_, err = p.ProvingKey(context.Background(), d, Options{Tasks: 1})
				}
			})
			wantError(t, fmt.Sprintf("count of %s = %d", s.Name, v), err, errs.InvalidFile)
			if used > 4<<20 {
				t.Errorf("count of %s = %d: %d bytes allocated", s.Name, v, used)
			}
		}
		// any flipped byte of a point is seen: the point leaves the curve, or its encoding is not canonical
		for _, at := range []int64{s.Offset, s.Offset + 50, s.End() - 1} {
			b := edit(func(b []byte) { b[at] ^= 4 })
			p := openBytes(t, b)
			_, err := p.ProvingKey(context.Background(), d, Options{Tasks: 2})
			wantError(t, fmt.Sprintf("flipped byte %d", at), err, errs.InvalidFile, s.Name, fmt.Sprintf("point %d", (at-s.Offset)/int64(s.PointSize)))
		}
	}
	for n := 0; n < len(raw); n += 1 + n%89 {
		if _, err := Open(bytes.NewReader(raw[:n]), int64(n)); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("truncated to %d: %v", n, err)
		}
	}
	// the file shrinks after it was opened
	p, err := Open(bytes.NewReader(raw[:len(raw)-10]), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.ProvingKey(context.Background(), d, Options{})
	wantError(t, "shrunk", err, errs.InvalidFile, "list b_g2", "unexpected EOF")
}

// failing is a disk that fails.
type failing struct{ io.ReaderAt }

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at > 2000 {
		return 0, errors.New("input/output error")
	}
	return f.ReaderAt.ReadAt(b, at)
}

func TestDiskErrorIsNotABadFile(t *testing.T) {
	raw, _, d := smallKey(t, 12, 2)
	p, err := Open(failing{bytes.NewReader(raw)}, int64(len(raw)))
	if err == nil {
		_, err = p.ProvingKey(context.Background(), d, Options{})
	}
	if err == nil || errs.Is(err, errs.InvalidFile) || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("%v", err)
	}
}

func TestOtherCircuit(t *testing.T) {
	raw, _, d := smallKey(t, 12, 2)
	p := openBytes(t, raw)
	_, _, more := smallKey(t, 40, 2)
	_, err := p.ProvingKey(context.Background(), more, Options{})
	wantError(t, "more rows", err, errs.InvalidFile, "list l", "do not belong together")
	_, _, pub := smallKey(t, 12, 3)
	_, err = p.ProvingKey(context.Background(), pub, Options{})
	wantError(t, "more inputs", err, errs.InvalidFile, "list ic", "4 points", "found 3")
	for name, change := range map[string]func(*Densities){
		"list a":    func(d *Densities) { d.A[0] &^= 1 << 4 },
		"list b_g1": func(d *Densities) { d.B[0] ^= 1 },
		"list h":    func(d *Densities) { d.NbConstraints = 40 },
	} {
		x := *d
		x.A, x.B = append(groth16.Bitmap(nil), d.A...), append(groth16.Bitmap(nil), d.B...)
		change(&x)
		_, err := p.ProvingKey(context.Background(), &x, Options{})
		wantError(t, name, err, errs.InvalidFile, name, "do not belong together")
	}
}

// outside is a point of order 3: on the curve, not in the subgroup.
func outside() bls12381.G1Affine {
	var p bls12381.G1Affine
	p.Y.SetUint64(2)
	return p
}

func TestSubgroupErrorNamesThePoint(t *testing.T) {
	bad := outside()
	for _, rows := range []int{12, 600} { // one by one, and in batches
		raw, _, d := smallKey(t, rows, 2)
		l := openBytes(t, raw).Layout
		for _, s := range []*Section{&l.H, &l.L, &l.A, &l.B1} {
			i := s.Count - 2
			b := bytes.Clone(raw)
			points.EncodeG1((*[points.G1Size]byte)(b[s.Offset+int64(i)*96:]), &bad)
			p := openBytes(t, b)
			if _, err := p.ProvingKey(context.Background(), d, Options{Tasks: 2}); err != nil {
				t.Fatalf("not asked to check: %v", err)
			}
			_, err := p.ProvingKey(context.Background(), d, Options{Tasks: 2, CheckSubgroup: true})
			wantError(t, s.Name, err, errs.InvalidFile, fmt.Sprintf("list %s, point %d", s.Name, i), "subgroup")
			err = p.StreamG1(context.Background(), s, Options{Tasks: 2, CheckSubgroup: true}, func([]bls12381.G1Affine) error { return nil })
			wantError(t, s.Name+" streamed", err, errs.InvalidFile, fmt.Sprintf("list %s, point %d", s.Name, i), "subgroup")
		}
	}
}

func TestCancel(t *testing.T) {
	raw, _, d := smallKey(t, 30, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := openBytes(t, raw).ProvingKey(ctx, d, Options{Tasks: 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWriteRefusals(t *testing.T) {
	ctx := context.Background()
	c := textbook.Random(7, 12, 2)
	snark := textbook.New(c.System, textbook.ToxicFrom(3), groth16.RowsFive, groth16.HMonomial).Key()
	wantError(t, "rows of snarkjs", Write(ctx, io.Discard, snark, 1), errs.Unsupported, "row order", "no field for the order of the rows")
	coset := textbook.New(c.System, textbook.ToxicFrom(3), groth16.RowsSeven, groth16.HOddCoset).Key()
	wantError(t, "odd coset", Write(ctx, io.Discard, coset, 1), errs.Unsupported, "odd coset")
	tiny := groth16.Shape{LogDomain: 2, Rows: groth16.RowsFive, H: groth16.HMonomial}
	if err := CanHold(&tiny); err != nil {
		t.Errorf("both orders are the same below 8: %v", err)
	}
	_, pk, _ := smallKey(t, 12, 2)
	pk.K[3] = bls12381.G1Affine{}
	wantError(t, "infinity", Write(ctx, io.Discard, pk, 1), errs.Unsupported, "list l, point 3", "infinity")
	vk := pk.VK
	vk.BetaG1 = bls12381.G1Affine{}
	wantError(t, "vk of snarkjs", WriteVerifyingKey(io.Discard, &vk), errs.Unsupported, "beta_g1")
}

func TestDamagedVerifyingKey(t *testing.T) {
	raw := readFile(t, filepath.Join(small, "por-8x8.vk"))
	for name, b := range map[string][]byte{
		"empty": nil, "truncated": raw[:len(raw)-1], "one point less": raw[:len(raw)-96], "one point more": append(bytes.Clone(raw), raw[len(raw)-96:]...),
		"count 0xFFFFFFFF": func() []byte { b := bytes.Clone(raw); copy(b[864:], "\xff\xff\xff\xff"); return b }(),
		"flipped":          func() []byte { b := bytes.Clone(raw); b[700] ^= 1; return b }(),
	} {
		_, err := ReadVerifyingKey(bytes.NewReader(b), int64(len(b)))
		wantError(t, name, err, errs.InvalidFile)
	}
}

func TestBadProofs(t *testing.T) {
	_, _, g1, g2 := bls12381.Generators()
	good := AppendProof(nil, &groth16.Proof{A: g1, B: g2, C: g1})
	if p, err := ParseProof(good); err != nil || !p.A.Equal(&g1) || !p.B.Equal(&g2) {
		t.Fatal(err)
	}
	bad := outside()
	o := bad.Bytes()
	inf := append([]byte{0xc0}, make([]byte, 47)...)
	put := func(at int, x []byte) []byte { b := bytes.Clone(good); copy(b[at:], x); return b }
	for _, x := range []struct {
		name  string
		b     []byte
		point string
	}{
		{"A of order 3", put(0, o[:]), "point A"}, {"C of order 3", put(144, o[:]), "point C"},
		{"A infinite", put(0, inf), "point A"}, {"B infinite", put(48, append(bytes.Clone(inf), make([]byte, 48)...)), "point B"}, {"C infinite", put(144, inf), "point C"},
		{"A uncompressed", put(0, []byte{0x17}), "point A"}, {"x = p", put(0, append([]byte{0x80 | fp.Modulus().Bytes()[0]}, fp.Modulus().Bytes()[1:]...)), "point A"},
		{"zeros", make([]byte, 192), "point A"}, {"ones", bytes.Repeat([]byte{0xff}, 192), "point A"},
		{"infinity with a sign", put(0, []byte{0xe0}), "point A"},
	} {
		_, err := ParseProof(x.b)
		wantError(t, x.name, err, errs.InvalidProof, x.point)
		_, err = ParseProofs(append(bytes.Clone(good), x.b...))
		wantError(t, x.name, err, errs.InvalidProof, "proof 1, "+x.point)
	}
	for _, n := range []int{0, 1, 191, 193, 383} {
		_, err := ParseProofs(bytes.Repeat([]byte{0xff}, n))
		wantError(t, fmt.Sprint(n), err, errs.InvalidFile, "multiple of 192")
	}
}

// capped fails when f allocates more than a small multiple of its input.
func capped(t *testing.T, input int, f func()) {
	t.Helper()
	if used := allocated(f); used > uint64(64*input+8<<20) {
		t.Fatalf("%d bytes allocated for an input of %d", used, input)
	}
}

func FuzzParams(f *testing.F) {
	raw, _, _ := smallKey(f, 5, 1)
	f.Add(raw)
	f.Add(raw[:1000])
	f.Add(make([]byte, 1200))
	f.Fuzz(func(t *testing.T, b []byte) {
		capped(t, len(b), func() {
			p, err := Open(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				return
			}
			pk, err := p.ProvingKey(context.Background(), someDensities(&p.Layout), Options{Tasks: 1, CheckSubgroup: true})
			if err != nil {
				return
			}
			var out bytes.Buffer
			if err := Write(context.Background(), &out, pk, 1); err == nil && !bytes.Equal(out.Bytes(), b[:len(b)-int(p.TrailingBytes())]) {
				t.Fatal("a file that reads does not write back the same")
			}
		})
	})
}

func FuzzVerifyingKey(f *testing.F) {
	f.Add(readFile(f, filepath.Join(small, "por-8x8.vk")))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		capped(t, len(b), func() {
			vk, err := ReadVerifyingKey(bytes.NewReader(b), int64(len(b)))
			if err != nil {
				return
			}
			var out bytes.Buffer
			if err := WriteVerifyingKey(&out, vk); err != nil || !bytes.Equal(out.Bytes(), b) {
				t.Fatalf("does not write back the same: %v", err)
			}
		})
	})
}

func FuzzProofs(f *testing.F) {
	_, _, g1, g2 := bls12381.Generators()
	good := AppendProof(nil, &groth16.Proof{A: g1, B: g2, C: g1})
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add(good[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		capped(t, len(b), func() {
			if ps, err := ParseProofs(b); err == nil && !bytes.Equal(AppendProofs(nil, ps), b) {
				t.Fatal("does not write back the same")
			}
		})
	})
}
