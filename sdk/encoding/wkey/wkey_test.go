package wkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// memory is a file in memory.
type memory struct{ b []byte }

func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	if need := int(at) + len(b); need > len(m.b) {
		m.b = append(m.b, make([]byte, need-len(m.b))...)
	}
	return copy(m.b[at:], b), nil
}

var meta = Meta{Creator: "weir test", Source: Source{Kind: SourceParams, Size: 77, Digest: [64]byte{1, 2, 3}}}

func makeKey(rows, public int, order groth16.RowOrder, h groth16.HBasis) (*groth16.ProvingKey, *r1cs.System) {
	c := textbook.Random(5, rows, public)
	return textbook.New(c.System, textbook.ToxicFrom(9), order, h).Key(), c.System
}

func encode(t testing.TB, pk *groth16.ProvingKey, sys *r1cs.System) []byte {
	t.Helper()
	m := meta
	if sys != nil {
		m.Digest = sys.Digest()
	}
	var f memory
	if err := Write(context.Background(), &f, pk, sys, m); err != nil {
		t.Fatal(err)
	}
	return f.b
}

func load(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{Tasks: 2})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func onDisk(t testing.TB, b []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k.wkey")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
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

func TestRoundTrip(t *testing.T) {
	for _, rows := range []int{1, 2, 7, 70} {
		for _, form := range []struct {
			order groth16.RowOrder
			h     groth16.HBasis
		}{{groth16.RowsSeven, groth16.HMonomial}, {groth16.RowsFive, groth16.HOddCoset}, {groth16.RowsSeven, groth16.HOddCoset}} {
			for _, matrices := range []string{"none", "AB", "ABC"} {
				name := fmt.Sprintf("%d rows, %v, %v, matrices %s", rows, form.order, form.h, matrices)
				pk, sys := makeKey(rows, 1, form.order, form.h)
				switch matrices {
				case "none":
					sys = nil
				case "AB":
					x := *sys
					x.C, x.HasC = r1cs.Matrix{}, false
					sys = &x
				}
				want := pk.Shape
				want.HasMatrices, want.HasC = sys != nil, sys != nil && sys.HasC
				raw := encode(t, pk, sys)
				if !bytes.Equal(raw, encode(t, pk, sys)) {
					t.Errorf("%s: two writes differ", name)
				}
				heap := load(t, raw)
				mapped, err := Map(onDisk(t, raw), "")
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range []*File{heap, mapped} {
					if f.Shape != want || f.Creator != meta.Creator || f.Source != meta.Source || f.Mapped() != (f == mapped) {
						t.Errorf("%s: header %+v", name, f.Header)
					}
					if sys != nil && f.Digest != sys.Digest() {
						t.Errorf("%s: digest", name)
					}
					k := f.Key()
					if fmt.Sprint(k.VK, k.A, k.B1, k.B2, k.K, k.H, k.AWires, k.BWires) != fmt.Sprint(pk.VK, pk.A, pk.B1, pk.B2, pk.K, pk.H, pk.AWires, pk.BWires) {
						t.Errorf("%s: key differs", name)
					}
					if err := f.Verify(context.Background(), VerifyOptions{Tasks: 2, Curve: true, Subgroup: true}); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					got, err := f.System()
					if err != nil {
						t.Fatal(err)
					}
					if (got == nil) != (sys == nil) || sys != nil && (!reflect.DeepEqual(got.Coeffs, sys.Coeffs) || got.Digest() != sys.Digest()) {
						t.Errorf("%s: system differs", name)
					}
					f.WillNeed(SecA, SecH)
					f.Release(SecA, SecH, SecCStart)
					if len(pk.A) > 0 && !f.Key().A[0].Equal(&pk.A[0]) {
						t.Errorf("%s: a released section does not come back", name)
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
					if err := f.Close(); err != nil {
						t.Errorf("closed twice: %v", err)
					}
				}
			}
		}
	}
}

// The header alone gives shape, digests and the verifying key, by pread, from a file whose sections are damaged.
func TestReadHeaderTouchesNoSection(t *testing.T) {
	pk, sys := makeKey(20, 2, groth16.RowsSeven, groth16.HMonomial)
	raw := encode(t, pk, sys)
	h, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range h.Sections {
		if s.ID != SecFixed && s.ID != SecIC {
			clear(raw[s.Offset : s.Offset+s.Length])
		}
	}
	if h, err = ReadHeader(bytes.NewReader(raw), int64(len(raw))); err != nil {
		t.Fatal(err)
	}
	vk, err := h.VerifyingKey(bytes.NewReader(raw))
	if err != nil || fmt.Sprint(*vk) != fmt.Sprint(pk.VK) {
		t.Errorf("verifying key: %v", err)
	}
	if _, err := h.ReadSystem(context.Background(), bytes.NewReader(raw), 2); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("damaged matrices: %v", err)
	}
	raw = encode(t, pk, sys)
	got, err := h.ReadSystem(context.Background(), bytes.NewReader(raw), 2)
	if err != nil || got.Digest() != sys.Digest() {
		t.Errorf("system: %v", err)
	}
	if err := h.CheckUnchanged(int64(len(raw))); err != nil {
		t.Error(err)
	}
	wantError(t, "truncated later", h.CheckUnchanged(4096), errs.InvalidFile, "key file changed")
}

// T8: a flipped byte anywhere is found, and the error names the section.
func TestEveryByteIsCovered(t *testing.T) {
	pk, sys := makeKey(6, 1, groth16.RowsFive, groth16.HOddCoset)
	raw := encode(t, pk, sys)
	section := func(at int) string {
		h, _ := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
		for _, s := range h.Sections {
			if int64(at) >= s.Offset && int64(at) < pageUp(s.Offset+s.Length) {
				return s.ID.String()
			}
		}
		return "" // the header itself
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for at := 0; at < len(raw); at++ {
		if at > headerSize && at%127 != 0 && (raw[at] == 0 || at%5 != 0) {
			continue
		}
		b := bytes.Clone(raw)
		b[at] ^= 1 << rng.IntN(8)
		h, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			err = h.VerifyChecksums(context.Background(), bytes.NewReader(b), 1)
		}
		class := errs.InvalidFile
		if at >= 8 && at < 12 {
			class = errs.Unsupported // the version
		}
		if err == nil || errs.ClassOf(err) != class || at >= headerSize && !strings.Contains(err.Error(), section(at)) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
}

func TestWrongSizes(t *testing.T) {
	pk, sys := makeKey(6, 1, groth16.RowsSeven, groth16.HMonomial)
	raw := encode(t, pk, sys)
	for n := 0; n < len(raw); n += 1 + n%501 {
		if _, err := ReadHeader(bytes.NewReader(raw[:n]), int64(n)); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("truncated to %d: %v", n, err)
		}
	}
	long := append(bytes.Clone(raw), 0)
	_, err := ReadHeader(bytes.NewReader(long), int64(len(long)))
	wantError(t, "extended", err, errs.InvalidFile, fmt.Sprintf("%d bytes as the header says", len(raw)))
	for name, b := range map[string][]byte{"error page": bytes.Repeat([]byte("<html>502</html>"), 1000), "zkey": append([]byte("zkey\x01\x00\x00\x00"), make([]byte, 9000)...)} {
		_, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
		wantError(t, name, err, errs.InvalidFile, "magic", "not a prepared key")
	}
	zero := make([]byte, 9000)
	_, err = ReadHeader(bytes.NewReader(zero), int64(len(zero)))
	wantError(t, "zeros", err, errs.InvalidFile, "never finished")
	// cut after the header was read
	if _, err := Load(context.Background(), bytes.NewReader(raw[:len(raw)-5000]), int64(len(raw)), LoadOptions{Tasks: 2}); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("cut: %v", err)
	}
	d, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = Map(d, "")
	wantError(t, "directory", err, errs.InvalidFile, "expected a file")
}

// flaky fails at the k-th write, as a full disk does.
type flaky struct {
	memory
	left int
}

func (f *flaky) WriteAt(b []byte, at int64) (int, error) {
	if f.left--; f.left < 0 {
		n, _ := f.memory.WriteAt(b[:len(b)/2], at)
		return n, errors.New("no space left on device")
	}
	return f.memory.WriteAt(b, at)
}

// A crash or a full disk at any write leaves a file that is not a key, even where a good key was before.
func TestCrashLeavesNoKey(t *testing.T) {
	pk, sys := makeKey(6, 1, groth16.RowsSeven, groth16.HMonomial)
	good := encode(t, pk, sys)
	for k := 0; ; k++ {
		f := flaky{memory: memory{bytes.Clone(good)}, left: k}
		err := Write(context.Background(), &f, pk, sys, meta)
		if err == nil {
			if k < 20 {
				t.Fatalf("only %d writes", k)
			}
			return
		}
		if k == 0 {
			continue // nothing was written: the old key is still whole
		}
		if _, err := ReadHeader(bytes.NewReader(f.b), int64(len(f.b))); err == nil {
			t.Fatalf("failed at write %d: the file opens", k)
		}
	}
}

func TestCancel(t *testing.T) {
	pk, sys := makeKey(6, 1, groth16.RowsSeven, groth16.HMonomial)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var f memory
	if err := Write(ctx, &f, pk, sys, meta); !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	raw := encode(t, pk, sys)
	if _, err := Load(ctx, bytes.NewReader(raw), int64(len(raw)), LoadOptions{Tasks: 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
	if err := load(t, raw).Verify(ctx, VerifyOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
}

func TestWriterMisuse(t *testing.T) {
	for name, f := range map[string]func(w *Writer) error{
		"write outside":   func(w *Writer) error { _, err := w.Write([]byte{1}); return err },
		"begin twice":     func(w *Writer) error { _ = w.Begin(SecA, 96); return w.Begin(SecB1, 96) },
		"section twice":   func(w *Writer) error { _ = w.Begin(SecA, 96); _ = w.End(); return w.Begin(SecA, 96) },
		"end alone":       func(w *Writer) error { return w.End() },
		"half an element": func(w *Writer) error { _ = w.Begin(SecA, 96); _, _ = w.Write(make([]byte, 95)); return w.End() },
		"finish inside":   func(w *Writer) error { _ = w.Begin(SecA, 96); return w.Finish(meta) },
		"finish early":    func(w *Writer) error { return w.Finish(Meta{Shape: groth16.Shape{NbWires: 1, NbH: 0}}) },
	} {
		w, err := NewWriter(&memory{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f(w); !errs.Is(err, errs.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	pk, sys := makeKey(6, 1, groth16.RowsSeven, groth16.HMonomial)
	_, other := makeKey(9, 1, groth16.RowsSeven, groth16.HMonomial)
	wantError(t, "other circuit", Write(context.Background(), &memory{}, pk, other, meta), errs.InvalidFile, "do not belong together")
	long := meta
	long.Creator = strings.Repeat("ü", 60)
	var f memory
	if err := Write(context.Background(), &f, pk, sys, long); err != nil {
		t.Fatal(err)
	}
	if got := load(t, f.b).Creator; got != strings.Repeat("ü", 32) {
		t.Errorf("creator %q", got)
	}
}

func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, 70000)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	for _, n := range []int{0, 1, 2, 3, 255, 256, 4096, 65537, len(b)} {
		x, y := crc32.Checksum(b[:len(b)-n], castagnoli), crc32.Checksum(b[len(b)-n:], castagnoli)
		if got, want := combine(x, y, int64(n)), crc32.Checksum(b, castagnoli); got != want {
			t.Errorf("n %d: %08x, expected %08x", n, got, want)
		}
	}
}

func TestModuli(t *testing.T) {
	var p fp.Element
	for i, w := range fp.Modulus().Bits() {
		if uint64(w) != fpModulus[i] {
			t.Fatalf("p, limb %d", i)
		}
	}
	for i, w := range fr.Modulus().Bits() {
		if uint64(w) != frModulus[i] {
			t.Fatalf("r, limb %d", i)
		}
	}
	p = fpModulus
	if canonicalFp(&p) {
		t.Error("p is below p")
	}
	p[0]--
	if !canonicalFp(&p) {
		t.Error("p-1 is not below p")
	}
}

// bigKey is a key of many equal points: content does not matter to reading.
func bigKey(n int) *groth16.ProvingKey {
	_, _, g1, g2 := bls12381.Generators()
	pk, _ := makeKey(2, 1, groth16.RowsSeven, groth16.HMonomial)
	fill := func(k int) []bls12381.G1Affine {
		x := make([]bls12381.G1Affine, k)
		for i := range x {
			x[i] = g1
		}
		return x
	}
	log := 0
	for 1<<log < n {
		log++
	}
	pk.Shape = groth16.Shape{LogDomain: log, NbWires: n, NbPublic: 1, NbConstraints: -1, NbA: n, NbB: n / 4, NbH: 1<<log - 1}
	pk.A, pk.B1, pk.K, pk.H = fill(n), fill(n/4), fill(n-2), fill(1<<log-1)
	pk.B2 = make([]bls12381.G2Affine, n/4)
	for i := range pk.B2 {
		pk.B2[i] = g2
	}
	pk.AWires, pk.BWires = groth16.NewBitmap(n), groth16.NewBitmap(n)
	for i := range n {
		pk.AWires.Set(i)
		if i < n/4 {
			pk.BWires.Set(i)
		}
	}
	return pk
}

func BenchmarkWKey(b *testing.B) {
	pk := bigKey(1 << 16)
	raw := encode(b, pk, nil)
	f := onDisk(b, raw)
	out, err := os.Create(filepath.Join(b.TempDir(), "out.wkey"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	size := int64(len(raw))
	var sink uint64
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"map", func() error {
			k, err := Map(f, "")
			if err != nil {
				return err
			}
			return k.Close()
		}},
		{"map and touch", func() error {
			k, err := Map(f, "")
			if err != nil {
				return err
			}
			for i := 0; i < len(k.data); i += 64 {
				sink += uint64(k.data[i])
			}
			return k.Close()
		}},
		{"load", func() error { _, err := Load(context.Background(), f, size, LoadOptions{Tasks: 2}); return err }},
		{"checksums", func() error {
			h, err := ReadHeader(f, size)
			if err != nil {
				return err
			}
			return h.VerifyChecksums(context.Background(), f, 2)
		}},
		{"write", func() error { return Write(context.Background(), out, pk, nil, meta) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := c.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	_ = sink
}
