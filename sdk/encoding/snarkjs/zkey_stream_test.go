package snarkjs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/errs"
)

// streamed reads a key list by list.
func streamed(p *Points) (g1 [4][]bls.G1Affine, b2 []bls.G2Affine, err error) {
	for l := range g1 {
		err = p.StreamG1(ctx, List(l), func(ps []bls.G1Affine) error {
			g1[l] = append(g1[l], ps...)
			return nil
		})
		if err != nil {
			return g1, b2, err
		}
	}
	err = p.StreamB2(ctx, func(ps []bls.G2Affine) error {
		b2 = append(b2, ps...)
		return nil
	})
	return g1, b2, err
}

// Streams give the points of the whole key, whatever the size of their chunks and windows.
func TestStreams(t *testing.T) {
	for _, name := range []string{"multiplier", "dom_1022", "nopublic"} {
		z := must(openZKey(testfiles.Fixture(t, name, "circuit.zkey")))(t)
		pk := must(z.ProvingKey(ctx, ReadOptions{}))(t)
		for _, size := range []struct{ chunk, window int }{{64, 1}, {128, 7}, {320, 256}, {1 << 16, 1 << 18}} {
			p := must(z.Points(ctx, ReadOptions{Tasks: 2, Subgroup: size.chunk == 320}))(t)
			if p.Shape != pk.Shape || !slices.Equal(p.AWires, pk.AWires) || !slices.Equal(p.BWires, pk.BWires) {
				t.Errorf("%s: %+v, want %+v", name, p.Shape, pk.Shape)
			}
			p.chunk, p.window = size.chunk, size.window
			g1, b2, err := streamed(p)
			if err != nil {
				t.Fatal(err)
			}
			for l, want := range [][]bls.G1Affine{ListA: pk.A, ListB1: pk.B1, ListK: pk.K, ListH: pk.H} {
				if !slices.Equal(g1[l], want) || p.Count(List(l)) != len(want) {
					t.Errorf("%s, %v: list %d differs", name, size, l)
				}
			}
			if !slices.Equal(b2, pk.B2) {
				t.Errorf("%s, %v: B2 differs", name, size)
			}
		}
	}
}

// A bad point is named by its place in the file, from whichever chunk it comes.
func TestStreamsNamePoints(t *testing.T) {
	raw := testfiles.Fixture(t, "dom_1022", "circuit.zkey")
	z := must(openZKey(raw))(t)
	whole := must(z.Points(ctx, ReadOptions{}))(t)
	last := func(l List) int { return whole.inFile(l, whole.Count(l)-1) }
	for _, c := range []struct {
		id uint32
		at int
	}{{secA, last(ListA)}, {secB1, last(ListB1)}, {secC, 700}, {secH, 3}, {secH, 1023}, {secB2, last(ListB1)}} {
		for _, curve := range []bool{true, false} {
			f := split(t, raw)
			size := sizeG1
			if c.id == secB2 {
				size = sizeG2
			}
			b := f.data[c.id][c.at*size:][:size]
			switch {
			case curve:
				b[0] ^= 1
			case c.id == secB2:
				p := outsideG2()
				encodeG2(b, &p)
			default:
				p := outsideG1()
				encodeG1(b, &p)
			}
			bad := must(openZKey(f.bytes()))(t)
			p := must(bad.Points(ctx, ReadOptions{Tasks: 2, Subgroup: true}))(t)
			p.chunk, p.window = 128, 100
			_, _, err := streamed(p)
			wantClass(t, err, errs.InvalidFile, map[bool]string{true: "of the curve", false: "subgroup"}[curve], fmt.Sprintf("section %d, ", c.id), fmt.Sprintf("point %d)", c.at))
		}
	}
}

func TestStreamsStop(t *testing.T) {
	z := must(openZKey(testfiles.Fixture(t, "dom_1022", "circuit.zkey")))(t)
	p := must(z.Points(ctx, ReadOptions{}))(t)
	p.chunk, p.window = 64, 64
	stop := errors.New("enough")
	for l := range List(4) {
		calls := 0
		err := p.StreamG1(ctx, l, func([]bls.G1Affine) error {
			calls++
			return stop
		})
		if !errors.Is(err, stop) || calls != 1 {
			t.Errorf("list %d: %v after %d calls", l, err, calls)
		}
		c, cancel := context.WithCancel(ctx)
		if err := p.StreamG1(c, l, func([]bls.G1Affine) error { cancel(); return nil }); !errs.Is(err, errs.Canceled) {
			t.Errorf("list %d, canceled: %v", l, err)
		}
	}
	if err := p.StreamB2(ctx, func([]bls.G2Affine) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("B2: %v", err)
	}
}
