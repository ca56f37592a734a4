package wkey

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// encodeBoth writes a key with H in a second basis.
func encodeBoth(t testing.TB, pk, alt *groth16.ProvingKey) []byte {
	t.Helper()
	ctx := context.Background()
	var f memory
	w, err := NewWriter(&f)
	if err != nil {
		t.Fatal(err)
	}
	m := meta
	m.Shape = pk.Shape
	m.Shape.HasMatrices, m.Shape.HasC = false, false
	for _, step := range []func() error{
		func() error { return w.VerifyingKey(ctx, &pk.VK) },
		func() error { return SectionOf(ctx, w, SecHAlt, alt.H) },
		func() error { return SectionOf(ctx, w, SecA, pk.A) },
		func() error { return SectionOf(ctx, w, SecAWires, pk.AWires) },
		func() error { return SectionOf(ctx, w, SecB1, pk.B1) },
		func() error { return SectionOf(ctx, w, SecB2, pk.B2) },
		func() error { return SectionOf(ctx, w, SecBWires, pk.BWires) },
		func() error { return SectionOf(ctx, w, SecK, pk.K) },
		func() error { return SectionOf(ctx, w, SecH, pk.H) },
		func() error { return w.Finish(m) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return f.b
}

func TestSecondBasis(t *testing.T) {
	for _, rows := range []int{0, 1, 6, 7, 70} {
		for _, h := range []groth16.HBasis{groth16.HMonomial, groth16.HOddCoset} {
			pk, _ := makeKey(rows, 0, groth16.RowsSeven, h)
			alt, _ := makeKey(rows, 0, groth16.RowsSeven, 1-h)
			raw := encodeBoth(t, pk, alt)
			mapped, err := Map(onDisk(t, raw), "")
			if err != nil {
				t.Fatal(err)
			}
			defer mapped.Close()
			for _, f := range []*File{load(t, raw), mapped} {
				if basis, ok := f.AltBasis(); !ok || basis != 1-h {
					t.Errorf("%d rows: basis %v %v", rows, basis, ok)
				}
				if f.Bytes() != int64(len(raw))-pageUp(f.Section(SecHAlt).Length) {
					t.Errorf("%d rows: %d bytes of %d", rows, f.Bytes(), len(raw))
				}
				if err := f.VerifyPoints(context.Background(), f.r, VerifyOptions{Tasks: 2, Curve: true, Subgroup: true}); err != nil {
					t.Error(err)
				}
				for _, want := range []*groth16.ProvingKey{pk, alt} {
					k, section, err := f.KeyWith(want.Shape.H)
					if err != nil {
						t.Fatal(err)
					}
					shape := want.Shape
					shape.HasMatrices, shape.HasC = false, false
					if k.Shape != shape || !slices.Equal(k.H, want.H) || !slices.Equal(k.K, want.K) || (section == SecH) != (want == pk) {
						t.Errorf("%d rows, asked for %v: %+v, section %v", rows, want.Shape.H, k.Shape, section)
					}
					f.Release(section)
				}
				got, err := f.AltH()
				if err != nil || !slices.Equal(got, alt.H) {
					t.Errorf("%d rows: other points, %v", rows, err)
				}
			}
		}
	}
	pk, _ := makeKey(6, 1, groth16.RowsSeven, groth16.HMonomial)
	f := load(t, encode(t, pk, nil))
	k, section, err := f.KeyWith(groth16.HOddCoset)
	alt, altErr := f.AltH()
	if k != f.Key() || section != SecH || err != nil || alt != nil || altErr != nil {
		t.Error("a key with one basis: ", section, err, altErr)
	}
}

func TestSecondBasisHostile(t *testing.T) {
	pk, _ := makeKey(20, 2, groth16.RowsSeven, groth16.HMonomial)
	alt, _ := makeKey(20, 2, groth16.RowsSeven, groth16.HOddCoset)
	raw, single := encodeBoth(t, pk, alt), encode(t, pk, nil)
	le := binary.LittleEndian
	for name, b := range map[string][]byte{
		"no flag":      reseal(raw, func(b []byte) { le.PutUint64(b[24:], 0) }),
		"only a flag":  reseal(single, func(b []byte) { le.PutUint64(b[24:], FlagAltH) }),
		"N - 1 points": encodeShort(t, pk, alt),
	} {
		_, err := ReadHeader(bytes.NewReader(b), int64(len(b)))
		wantError(t, name, err, errs.InvalidFile, "H in the other basis")
	}
	flipped := resection(t, raw, SecHAlt, func(b []byte) { b[96*5] ^= 1 })
	f := load(t, flipped)
	err := f.VerifyPoints(context.Background(), f.r, VerifyOptions{Tasks: 2, Curve: true})
	wantError(t, "off the curve", err, errs.InvalidFile, "H in the other basis", "point 5")
	b := bytes.Clone(raw)
	b[f.Section(SecHAlt).Offset] ^= 1
	if _, err := Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{}); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("a flipped byte: %v", err)
	}
	lax, err := Load(context.Background(), bytes.NewReader(b), int64(len(b)), LoadOptions{SkipChecksums: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = lax.AltH() // what is read late is compared when it is read
	wantError(t, "flipped", err, errs.InvalidFile, "checksum")
}

// encodeShort says in the table that the second basis has a point less than it should have.
func encodeShort(t testing.TB, pk, alt *groth16.ProvingKey) []byte {
	raw := encodeBoth(t, pk, alt)
	h, err := ReadHeader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range h.Sections {
		if s.ID == SecHAlt {
			raw = reseal(raw, func(b []byte) { // the same number of pages
				e := b[tableOffset+i*entrySize:]
				binary.LittleEndian.PutUint64(e[16:], uint64(s.Length-96))
				binary.LittleEndian.PutUint64(e[24:], uint64(s.Count-1))
			})
		}
	}
	return raw
}
