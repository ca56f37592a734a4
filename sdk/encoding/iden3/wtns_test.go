package iden3

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
)

// readWitness does all that can be done with the bytes.
func readWitness(b []byte) (*assignment.Vector, error) {
	f, err := OpenWitness(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return f.Vector(ctx)
}

// values makes n values of which about listed percent are not bits; special ones among them.
func values(seed uint64, n, listed int) []fr.Element {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := make([]fr.Element, n)
	var special []fr.Element
	for _, s := range []string{"2", "-1", "18446744073709551615", "18446744073709551616", "115792089237316195423570985008687907853269984665640564039457584007913129639936"} {
		x, _ := new(big.Int).SetString(s, 10)
		var e fr.Element
		special = append(special, *e.SetBigInt(x))
	}
	for i := range out {
		switch {
		case rng.IntN(100) >= listed:
			out[i].SetUint64(rng.Uint64() & 1)
		case rng.IntN(2) == 0:
			out[i] = special[rng.IntN(len(special))]
		default:
			out[i].SetBigInt(new(big.Int).SetUint64(rng.Uint64()))
			out[i].Square(&out[i]).Square(&out[i])
		}
	}
	out[0].SetOne()
	return out
}

func TestWitnessRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 1023, 1025, valuesPerRead - 1, valuesPerRead, valuesPerRead + 1} {
		for _, listed := range []int{0, 1, 50, 100} {
			want := values(uint64(n), n, listed)
			var b bytes.Buffer
			if err := WriteWitness(&b, n, slices.Values(want)); err != nil {
				t.Fatal(err)
			}
			v, err := readWitness(b.Bytes())
			if err != nil {
				t.Fatalf("%d values, %d %%: %v", n, listed, err)
			}
			if v.Len() != n {
				t.Fatalf("%d values, read %d", n, v.Len())
			}
			for i := range want {
				if got := v.At(i); !got.Equal(&want[i]) {
					t.Fatalf("%d values, %d %%: value %d is %s, want %s", n, listed, i, got.String(), want[i].String())
				}
			}
			f, _ := OpenWitness(bytes.NewReader(b.Bytes()), int64(b.Len()))
			for _, k := range []int{0, 1, n - 1} {
				p, err := f.Public(ctx, k)
				if k >= n {
					wantClass(t, err, errs.InvalidFile)
				} else if err != nil || !slices.Equal(p, want[1:1+k]) {
					t.Fatalf("public %d of %d: %v", k, n, err)
				}
			}
			if _, err := f.Public(ctx, n); !errs.Is(err, errs.InvalidFile) {
				t.Errorf("public %d of %d: %v", n, n, err)
			}
			for range f.Values(ctx) {
				break // must not be called again
			}
		}
	}
}

func TestWitnessRefuses(t *testing.T) {
	raw := testfiles.Fixture(t, "multiplier", "witness.wtns")
	r := fr.Modulus()
	set := func(off int, b []byte) func(*sec) { return func(s *sec) { copy(s.data[off:], b) } }
	for name, tc := range map[string]struct {
		id    uint32
		edit  func(*sec)
		class errs.Class
		parts []string
	}{
		"bn128":           {1, set(4, leInt(bn128())), errs.Unsupported, []string{"bn128"}},
		"no values":       {1, set(36, le32(0)), errs.InvalidFile, []string{"none"}},
		"one value more":  {1, set(36, le32(8)), errs.InvalidFile, []string{"section 2", "256 bytes", "224 bytes"}},
		"one value less":  {1, set(36, le32(6)), errs.InvalidFile, []string{"192 bytes"}},
		"2^32-1 values":   {1, set(36, le32(1<<32-1)), errs.Unsupported, []string{"4294967295"}},
		"header short":    {1, func(s *sec) { s.data = s.data[:39] }, errs.InvalidFile, []string{"40 bytes"}},
		"wire 0 is two":   {2, set(0, leInt(big.NewInt(2))), errs.InvalidFile, []string{"wire 0", "the one"}},
		"wire 0 is zero":  {2, set(0, leInt(big.NewInt(0))), errs.InvalidFile, []string{"wire 0"}},
		"wire 0 is 2^64":  {2, set(0, leInt(new(big.Int).Lsh(big.NewInt(1), 64))), errs.InvalidFile, []string{"wire 0"}},
		"value r":         {2, set(64, leInt(r)), errs.InvalidFile, []string{"wire 2", "below the group order"}},
		"value r+1":       {2, set(96, leInt(new(big.Int).Add(r, big.NewInt(1)))), errs.InvalidFile, []string{"wire 3"}},
		"value 2^256-1":   {2, set(32, bytes.Repeat([]byte{255}, 32)), errs.InvalidFile, []string{"wire 1"}},
		"values short":    {2, func(s *sec) { s.data = s.data[:223] }, errs.InvalidFile, []string{"223 bytes"}},
		"values are gone": {2, func(s *sec) { s.data = nil }, errs.InvalidFile, []string{"0 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := split(t, raw)
			tc.edit(f.section(tc.id))
			var err error
			if n := allocated(func() { _, err = readWitness(f.bytes()) }); n > 1<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			wantClass(t, err, tc.class, tc.parts...)
		})
	}
	for id := uint32(1); id <= 2; id++ {
		_, err := readWitness(split(t, raw).without(id).bytes())
		wantClass(t, err, errs.InvalidFile, "no such section")
	}
	for n := range len(raw) {
		if _, err := readWitness(raw[:n]); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	ok := set(32, leInt(new(big.Int).Sub(r, big.NewInt(1))))
	f := split(t, raw)
	ok(f.section(2))
	if _, err := readWitness(f.bytes()); err != nil {
		t.Errorf("value r-1: %v", err)
	}
}

// 150 million values are 4.8 GB: the header sits behind them, and values are read in pieces.
func TestWitnessBeyond4GiB(t *testing.T) {
	const n = 150_000_000
	f := split(t, testfiles.Fixture(t, "multiplier", "witness.wtns"))
	binary.LittleEndian.PutUint32(f.section(1).data[36:], n)
	vals := f.section(2)
	vals.data, vals.size = nil, n*32
	f.sections = []sec{*vals, *f.section(1)}
	b := f.bytes()
	one := leInt(big.NewInt(1))
	src := &sparse{size: int64(len(b)) + n*32, pieces: map[int64][]byte{0: b[:24], 24: one, 24 + n*32: b[24:]}}
	w, err := OpenWitness(src, src.size)
	if err != nil {
		t.Fatal(err)
	}
	bytes := allocated(func() {
		p, err := w.Public(ctx, 3)
		if err != nil || len(p) != 3 || !p[2].IsZero() {
			t.Errorf("%v, %v", p, err)
		}
		c, cancel := context.WithCancel(ctx)
		i := 0
		for _, err := range w.Values(c) {
			if i++; i == 3*valuesPerRead {
				cancel()
			}
			if err != nil && !errs.Is(err, errs.Canceled) {
				t.Error(err)
			}
		}
		if i != 3*valuesPerRead+1 { // and the error
			t.Errorf("%d values after cancel", i)
		}
		cancel()
	})
	if bytes > 1<<21 || src.widest > bufferSize {
		t.Errorf("%d bytes allocated, a read of %d bytes", bytes, src.widest)
	}
	src.pieces[24+32*(n-1)] = leInt(fr.Modulus()) // beyond 4 GiB
	if err := w.limbs(ctx, n-5, n, func(int, [4]uint64) error { return nil }); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("last value r: %v", err)
	}
}

func TestWriteWitnessRefuses(t *testing.T) {
	one, two := fr.One(), fr.NewElement(2)
	for name, tc := range map[string]struct {
		n     int
		v     []fr.Element
		class errs.Class
	}{
		"no values":   {0, nil, errs.InvalidArgument},
		"too few":     {2, []fr.Element{one}, errs.Internal},
		"too many":    {1, []fr.Element{one, one}, errs.Internal},
		"first not 1": {1, []fr.Element{two}, errs.InvalidArgument},
	} {
		if err := WriteWitness(&bytes.Buffer{}, tc.n, slices.Values(tc.v)); !errs.Is(err, tc.class) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
