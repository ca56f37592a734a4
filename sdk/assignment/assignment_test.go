package assignment

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// sizes are at and around the words and blocks of the compact form.
var sizes = []int{1, 2, 31, 63, 64, 65, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 4097}

// used is an aligned buffer that something else was in.
func used(size int64) []byte {
	words := make([]uint64, (size+7)/8)
	for i := range words {
		words[i] = 0xdeadbeefdeadbeef
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
}

// sample has the given percentage of bits; among the rest are elements that look like bits in one limb.
func sample(rng *rand.Rand, n, bits int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		if rng.IntN(100) < bits {
			out[i].SetUint64(rng.Uint64() & 1)
			continue
		}
		switch rng.IntN(4) {
		case 0:
			out[i] = fr.Element{1} // limbs 1, 0, 0, 0: not the element one
		case 1:
			out[i].SetInt64(-1)
		case 2:
			out[i].SetUint64(2)
		default:
			out[i].SetUint64(rng.Uint64())
			out[i].Square(&out[i]).Square(&out[i])
		}
	}
	return out
}

func listedOf(w []fr.Element) (n int) {
	for i := range w {
		if !w[i].IsZero() && !w[i].IsOne() {
			n++
		}
	}
	return n
}

func size(form Form, w []fr.Element) int64 {
	if form == Dense {
		return DenseSize(len(w))
	}
	return CompactSize(len(w), listedOf(w))
}

// build writes w through a random mixture of the ways to write.
func build(t testing.TB, rng *rand.Rand, form Form, w []fr.Element, buf []byte) *Vector {
	t.Helper()
	b, err := NewBuilder(buf, form, len(w))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(w); {
		run := 0 // of bits from i on
		for run < 64 && i+run < len(w) && (w[i+run].IsZero() || w[i+run].IsOne()) {
			run++
		}
		if run > 0 && rng.IntN(2) == 0 {
			n := 1 + rng.IntN(run)
			word := rng.Uint64() << n // what is above the n bits does not count
			if n == 64 {
				word = 0
			}
			for k := range n {
				if w[i+k].IsOne() {
					word |= 1 << k
				}
			}
			if err := b.AppendBits(word, n); err != nil {
				t.Fatal(err)
			}
			i += n
			continue
		}
		if rng.IntN(16) == 0 {
			if err := b.AppendBits(rng.Uint64(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Append(&w[i]); err != nil {
			t.Fatal(err)
		}
		i++
	}
	v, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func same(t *testing.T, what string, v *Vector, w []fr.Element) {
	t.Helper()
	if v.Len() != len(w) {
		t.Fatalf("%s: %d variables, want %d", what, v.Len(), len(w))
	}
	for i := range w {
		if got := v.At(i); got != w[i] {
			t.Fatalf("%s: variable %d is %s, want %s", what, i, got.String(), w[i].String())
		}
	}
}

// Both forms hold what was written, in used buffers of exactly the right size, and a parsed buffer says the same; dense and compact agree.
func TestFormsAgree(t *testing.T) {
	for _, n := range sizes {
		for _, bits := range []int{0, 1, 50, 99, 100} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(bits)))
			w := sample(rng, n, bits)
			for _, form := range []Form{Dense, Compact} {
				buf := used(size(form, w))
				v := build(t, rng, form, w, buf)
				same(t, "built", v, w)
				if v.Form() != form || v.Size() != int64(len(buf)) {
					t.Fatalf("form %d, size %d; want %d, %d", v.Form(), v.Size(), form, len(buf))
				}
				p, err := Parse(buf)
				if err != nil {
					t.Fatalf("%d variables, %d %% bits, form %d: %v", n, bits, form, err)
				}
				same(t, "parsed", p, w)
				if p.Size() != v.Size() || len(p.List()) != len(v.List()) {
					t.Fatal("parsed sizes differ")
				}
				larger := append(used(0), buf...)
				larger = append(larger, make([]byte, 64)...)
				if p, err := Parse(larger); err != nil || p.Size() != v.Size() {
					t.Fatalf("a buffer with room left: %v", err)
				}
				for _, k := range []int{0, 1, n / 2, n - 1} {
					pub, err := v.Public(k)
					if k >= n {
						continue
					}
					if err != nil || len(pub) != k {
						t.Fatalf("public %d of %d: %v", k, n, err)
					}
					for i := range pub {
						if pub[i] != w[i+1] {
							t.Fatalf("public %d of %d: value %d", k, n, i)
						}
					}
				}
				for _, k := range []int{-1, n, n + 1} {
					if _, err := v.Public(k); !errs.Is(err, errs.InvalidArgument) {
						t.Errorf("public %d of %d: %v", k, n, err)
					}
				}
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for _, n := range append([]int{0, 1 << 20, 130_000_000, MaxVariables}, sizes...) {
		for _, listed := range []int{0, 1, n / 100, n / 2, n} {
			if listed > n {
				continue
			}
			d, c := DenseSize(n), CompactSize(n, listed)
			if d%64 != 0 || c%64 != 0 || d < 64+32*int64(n) || c < 64+int64(n)/4+32*int64(listed) {
				t.Errorf("%d variables, %d listed: %d and %d bytes", n, listed, d, c)
			}
			form, size := Choose(n, listed)
			if size != min(d, c) || (form == Compact) != (c < d) {
				t.Errorf("%d variables, %d listed: form %d of %d bytes; dense %d, compact %d", n, listed, form, size, d, c)
			}
		}
	}
	// PoRep of 32 GiB: 1.5 % of 130 million are not bits.
	if c := CompactSize(130_000_000, 1_950_000); c > 100<<20 {
		t.Errorf("PoRep takes %d bytes", c)
	}
}

func TestBuilderRefuses(t *testing.T) {
	one, two := fr.One(), fr.NewElement(2)
	for _, n := range []int{0, -1, MaxVariables + 1} {
		if _, err := NewBuilder(used(1024), Dense, n); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%d variables: %v", n, err)
		}
	}
	for _, form := range []Form{Dense, Compact} {
		need := DenseSize(100)
		if form == Compact {
			need = CompactSize(100, 0)
		}
		if _, err := NewBuilder(used(need-1), form, 100); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("form %d, a byte short: %v", form, err)
		}
		if _, err := NewBuilder(used(need + 1)[1:], form, 100); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("form %d, unaligned: %v", form, err)
		}
		b, err := NewBuilder(used(need+64), form, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.AppendBits(0, 4); !errs.Is(err, errs.Internal) {
			t.Errorf("four bits of three: %v", err)
		}
		for _, n := range []int{-1, 65} {
			if err := b.AppendBits(0, n); !errs.Is(err, errs.Internal) {
				t.Errorf("%d bits: %v", n, err)
			}
		}
		for range 2 {
			if err := b.Append(&one); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.Finish(); !errs.Is(err, errs.Internal) {
			t.Errorf("two of three: %v", err)
		}
		if err := b.AppendBits(1, 1); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(&one); !errs.Is(err, errs.Internal) {
			t.Errorf("four of three: %v", err)
		}
		if _, err := b.Finish(); err != nil {
			t.Error(err)
		}
	}
	// Room for two listed values: the third is refused, not written beyond the buffer.
	buf := used(CompactSize(10, 2) + 64)
	tail := bytes.Clone(buf[len(buf)-64:])
	b, err := NewBuilder(buf[:len(buf)-64], Compact, 10)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := b.Append(&two); (err != nil) != (i == 2) || (err != nil && !errs.Is(err, errs.Exhausted)) {
			t.Errorf("listed value %d: %v", i, err)
		}
	}
	if !bytes.Equal(tail, buf[len(buf)-64:]) {
		t.Error("wrote beyond the buffer")
	}
}

func TestParseRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	w := sample(rng, 1100, 90)
	good := map[Form][]byte{}
	for _, form := range []Form{Dense, Compact} {
		good[form] = used(size(form, w))
		build(t, rng, form, w, good[form])
	}
	put := func(off int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[off:], v); return b }
	}
	flip := func(off int) func([]byte) []byte { return func(b []byte) []byte { b[off] ^= 1; return b } }
	rank := headerSize + 2*int(bitmapSize(1100))
	for name, tc := range map[string]struct {
		form Form
		edit func([]byte) []byte
	}{
		"empty":               {Dense, func([]byte) []byte { return nil }},
		"header only":         {Dense, func(b []byte) []byte { return b[:headerSize] }},
		"63 bytes":            {Dense, func(b []byte) []byte { return b[:63] }},
		"a value short":       {Dense, func(b []byte) []byte { return b[:len(b)-64] }},
		"magic":               {Dense, flip(0)},
		"form 0":              {Dense, put(0, magic)},
		"form 3":              {Compact, put(0, magic|3<<32)},
		"no variables":        {Dense, put(8, 0)},
		"one more":            {Dense, put(8, 1101)},
		"2^31+1":              {Compact, put(8, MaxVariables+1)},
		"2^64-1":              {Compact, put(8, 1<<64-1)},
		"listed more than n":  {Compact, put(16, 1101)},
		"listed 2^64-1":       {Compact, put(16, 1<<64-1)},
		"listed one more":     {Compact, put(16, uint64(listedOf(w)+1))},
		"listed one less":     {Compact, put(16, uint64(listedOf(w)-1))},
		"listed one less, d":  {Dense, put(16, 1099)},
		"dense as compact":    {Dense, put(0, magic|2<<32)},
		"compact as dense":    {Compact, put(0, magic|1<<32)},
		"a bit flipped":       {Compact, flip(headerSize)},
		"the last bit":        {Compact, flip(headerSize + 1099/8)},
		"rank 0":              {Compact, flip(rank)},
		"rank 1":              {Compact, flip(rank + 4)},
		"rank 2":              {Compact, flip(rank + 8)},
		"compact a bit short": {Compact, func(b []byte) []byte { return b[:len(b)-64] }},
	} {
		t.Run(name, func(t *testing.T) {
			b := tc.edit(append(used(0), good[tc.form]...))
			if _, err := Parse(b); !errs.Is(err, errs.InvalidArgument) {
				t.Errorf("%v", err)
			}
		})
	}
	b := append(make([]byte, 0, len(good[Dense])+64), good[Dense]...)
	if _, err := Parse(b[1:]); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("unaligned: %v", err)
	}
	// Bits beyond the last variable are anything.
	for i := 1100; i < 1152; i++ {
		good[Compact][headerSize+i/8] ^= 1 << (i % 8)
	}
	v, err := Parse(good[Compact])
	if err != nil {
		t.Fatal(err)
	}
	same(t, "with other bits beyond the end", v, w)
}

// FuzzParse: whatever a plugin writes into a buffer, reading it stays inside.
func FuzzParse(f *testing.F) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{1, 65, 513} {
		for _, form := range []Form{Dense, Compact} {
			w := sample(rng, n, 80)
			buf := used(size(form, w))
			build(f, rng, form, w, buf)
			f.Add(buf)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		buf := used(int64(len(in)))
		copy(buf, in)
		v, err := Parse(buf)
		if err != nil {
			return
		}
		if v.Size() > int64(len(in)) {
			t.Fatal("larger than its buffer")
		}
		for i := range v.Len() {
			v.At(i)
		}
	})
}
