package keyfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/textbook"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// both is a circuit with its key in the two bases.
type both struct {
	sys *r1cs.System
	pk  [2]*groth16.ProvingKey // by basis
}

func makeBoth(rows, public int, order groth16.RowOrder) *both {
	c := textbook.Random(11, rows, public)
	b := &both{sys: c.System}
	for h := range b.pk {
		b.pk[h] = textbook.New(c.System, textbook.ToxicFrom(4), order, groth16.HBasis(h)).Key()
	}
	return b
}

// file writes a prepared key with the given basis first, and alt as the points of the other.
func (b *both) file(t testing.TB, h groth16.HBasis, alt []bls12381.G1Affine) string {
	t.Helper()
	ctx := context.Background()
	f, err := os.Create(filepath.Join(t.TempDir(), "both.wkey"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := wkey.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	pk := b.pk[h]
	m := wkey.Meta{Shape: pk.Shape, Digest: b.sys.Digest()}
	m.Shape.HasMatrices, m.Shape.HasC, m.Shape.NbConstraints = true, true, b.sys.NbConstraints()
	for _, step := range []func() error{
		func() error { return w.VerifyingKey(ctx, &pk.VK) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecA, pk.A) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecAWires, pk.AWires) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecB1, pk.B1) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecB2, pk.B2) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecBWires, pk.BWires) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecK, pk.K) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecH, pk.H) },
		func() error { return wkey.SectionOf(ctx, w, wkey.SecHAlt, alt) },
		func() error { return w.System(ctx, b.sys) },
		func() error { return w.Finish(m) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

// A key with H in both bases becomes a .zkey and a .params, and each gives the same key and circuit back.
func TestKeyWithBothBases(t *testing.T) {
	ctx := context.Background()
	sizes := []int{0, 1, 6, 7, 13, 70}
	if testfiles.Race { // it makes curve arithmetic ten times as slow
		sizes = []int{0, 1, 7}
	}
	for _, rows := range sizes {
		for _, order := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
			b := makeBoth(rows, 1, order)
			for h := range b.pk {
				first, other := groth16.HBasis(h), groth16.HBasis(1-h)
				name := fmt.Sprintf("%d rows, %v, %v", rows, order, first)
				path := b.file(t, first, b.pk[other].H)
				for _, o := range []Options{{}, {Map: true, PreferOddCoset: true}, {PreferOddCoset: true, PointsOnly: true}, {Map: true, SkipChecksums: true}} {
					f, size := open(t, path)
					o.Tasks = 2
					k, err := OpenKey(ctx, f, o)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					want := first
					if o.PreferOddCoset {
						want = groth16.HOddCoset
					}
					sameKey(t, name, k.ProvingKey, b.pk[want])
					if k.Shape.H != want || k.NbH != len(k.H) || (k.HSection() == wkey.SecH) != (want == first) {
						t.Errorf("%s: %+v, section %v", name, k.Shape, k.HSection())
					}
					alt, basis, err := k.AltH()
					if err != nil || basis != 1-want || fmt.Sprint(alt) != fmt.Sprint(b.pk[basis].H) {
						t.Errorf("%s: the other basis is %v, %v", name, basis, err)
					}
					if k.ResidentBytes() >= size && rows > 6 {
						t.Errorf("%s: %d bytes of %d", name, k.ResidentBytes(), size)
					}
					if !o.PointsOnly {
						b.exports(t, name, k, order)
					}
					if err := k.Close(); err != nil {
						t.Error(err)
					}
				}
				again, _, err := importTo(t, path, nil, ImportOptions{Tasks: 2})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				f, size := open(t, again)
				rep, err := Inspect(ctx, f, size, again, true)
				if err != nil || rep.Key.Basis != first.String() || rep.Key.AltBasis != other.String() {
					t.Errorf("%s: imported again: %+v, %v", name, rep.Key, err)
				}
				k, err := OpenKey(ctx, f, Options{})
				if err != nil {
					t.Fatal(err)
				}
				sameKey(t, name, k.ProvingKey, b.pk[first])
				if alt, _, err := k.AltH(); err != nil || fmt.Sprint(alt) != fmt.Sprint(b.pk[other].H) {
					t.Errorf("%s: imported again: the other basis, %v", name, err)
				}
			}
		}
	}
}

func (b *both) exports(t *testing.T, name string, k *Key, order groth16.RowOrder) {
	t.Helper()
	ctx := context.Background()
	zpath := write(t, "c.zkey", func(w io.Writer) error {
		err := Export(ctx, k, ZKey, w, 2)
		if k.LogDomain == 0 {
			wantError(t, name, err, errs.Unsupported, "at least 2 points")
			err = nil
		}
		return err
	})
	if k.LogDomain > 0 {
		path, h, err := importTo(t, zpath, nil, ImportOptions{Tasks: 2})
		if err != nil {
			t.Fatalf("%s, .zkey: %v", name, err)
		}
		if k.LogDomain > 2 && h.Shape.Rows != order || h.Digest.AB != b.sys.Digest().AB || !h.Shape.Insecure {
			t.Errorf("%s: from the .zkey %+v", name, h.Meta)
		}
		f, _ := open(t, path)
		back, err := OpenKey(ctx, f, Options{Circuit: b.sys})
		if err != nil {
			t.Fatalf("%s, .zkey: %v", name, err)
		}
		sameKey(t, name, back.ProvingKey, b.pk[groth16.HOddCoset])
		if back.System.Digest() != b.sys.Digest() {
			t.Errorf("%s: from the .zkey another circuit", name)
		}
	}
	if order == groth16.RowsFive && k.LogDomain > 2 {
		wantError(t, name, Export(ctx, k, Params, io.Discard, 2), errs.Unsupported, "row order")
		return
	}
	var out, want bytes.Buffer
	if err := Export(ctx, k, Params, &out, 2); err != nil {
		t.Fatalf("%s, .params: %v", name, err)
	}
	if err := Export(ctx, &Key{ProvingKey: b.pk[groth16.HMonomial]}, Params, &want, 2); err != nil || !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%s: another .params, %v", name, err)
	}
}

// Import finds H points that differ between the bases, wherever the difference is.
func TestBasesThatDiffer(t *testing.T) {
	b := makeBoth(12, 1, groth16.RowsSeven)
	for h := range b.pk {
		first, other := groth16.HBasis(h), groth16.HBasis(1-h)
		for name, edit := range map[string]func(h []bls12381.G1Affine){
			"first negated": func(h []bls12381.G1Affine) { h[0].Neg(&h[0]) },
			"last negated":  func(h []bls12381.G1Affine) { h[len(h)-1].Neg(&h[len(h)-1]) },
			"two exchanged": func(h []bls12381.G1Affine) { h[3], h[4] = h[4], h[3] },
			"one missing":   func(h []bls12381.G1Affine) { h[5] = bls12381.G1Affine{} },
			"of another key": func(h []bls12381.G1Affine) {
				copy(h, textbook.New(b.sys, textbook.ToxicFrom(5), groth16.RowsSeven, other).Key().H)
			},
		} {
			alt := append([]bls12381.G1Affine(nil), b.pk[other].H...)
			edit(alt)
			path := b.file(t, first, alt)
			_, _, err := importTo(t, path, nil, ImportOptions{Tasks: 2})
			wantError(t, name, err, errs.InvalidFile, "both bases", path)
			if _, _, err := importTo(t, path, nil, ImportOptions{Tasks: 2, Trust: true}); err != nil {
				t.Errorf("%s, trusted: %v", name, err)
			}
		}
	}
}

// A flipped byte of a prepared key is found at every opening, unless the caller vouches for the file.
func TestChecksumsAtEveryOpening(t *testing.T) {
	b := makeBoth(12, 1, groth16.RowsSeven)
	path := b.file(t, groth16.HMonomial, b.pk[groth16.HOddCoset].H)
	good := raw(t, path)
	h, err := wkey.ReadHeader(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []wkey.SectionID{wkey.SecA, wkey.SecK, wkey.SecH, wkey.SecHAlt, wkey.SecCCoeff} {
		bad := bytes.Clone(good)
		bad[h.Section(id).Offset] ^= 1
		f, _ := open(t, write(t, "flipped", func(w io.Writer) error { _, err := w.Write(bad); return err }))
		for _, mapped := range []bool{false, true} {
			_, err := OpenKey(context.Background(), f, Options{Map: mapped, PointsOnly: true, Tasks: 2})
			wantError(t, id.String(), err, errs.InvalidFile, "section "+id.String(), "checksum")
			k, err := OpenKey(context.Background(), f, Options{Map: mapped, PointsOnly: true, SkipChecksums: true})
			if err != nil {
				t.Errorf("%v, vouched for: %v", id, err)
				continue
			}
			_ = k.Close()
		}
	}
}
