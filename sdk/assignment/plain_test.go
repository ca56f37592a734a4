package assignment

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// plainOf is the bytes of values as a witness file has them.
func plainOf(values []fr.Element) []byte {
	out := make([]byte, 0, len(values)*PlainBytes)
	for i := range values {
		var b [fr.Bytes]byte
		fr.LittleEndian.PutElement(&b, values[i])
		out = append(out, b[:]...)
	}
	return out
}

// mixed is n values of which about share in 100 are bits; the others are special or random.
func mixed(r *rand.Rand, n, share int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		switch k := r.IntN(100); {
		case k < share:
			out[i].SetUint64(uint64(r.IntN(2)))
		case k%4 == 0:
			out[i].SetUint64(2)
		case k%4 == 1:
			out[i].SetInt64(-1)
		case k%4 == 2: // above 2^64 in a higher limb alone
			out[i].SetUint64(1 << 63)
			out[i].Double(&out[i])
		default:
			out[i].MustSetRandom()
		}
	}
	return out
}

// aligned is n bytes that start at a multiple of 8.
func aligned(n int64) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

func TestPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025, 3000} {
		for _, share := range []int{0, 50, 99, 100} {
			values := mixed(r, n, share)
			raw := plainOf(values)
			listed, err := CountPlain(raw, 0)
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			for i := range values {
				if !values[i].IsZero() && !values[i].IsOne() {
					want++
				}
			}
			if listed != want {
				t.Errorf("n=%d: %d values listed, want %d", n, listed, want)
			}
			for _, form := range []Form{Dense, Compact} {
				size := DenseSize(n)
				if form == Compact {
					size = CompactSize(n, listed)
				}
				check := func(how string, write func(w *Builder) error) {
					t.Helper()
					b := aligned(size)
					w, err := NewBuilder(b, form, n)
					if err != nil {
						t.Fatal(err)
					}
					if err := write(w); err != nil {
						t.Fatalf("n=%d form %d %s: %v", n, form, how, err)
					}
					if _, err := w.Finish(); err != nil {
						t.Fatal(err)
					}
					v, err := Parse(b)
					if err != nil {
						t.Fatal(err)
					}
					if v.Size() != size {
						t.Errorf("n=%d form %d %s: %d bytes, want %d", n, form, how, v.Size(), size)
					}
					for i := range values {
						if x := v.At(i); x != values[i] {
							t.Fatalf("n=%d form %d %s: variable %d differs", n, form, how, i)
						}
						isBit, _ := v.Bits()
						if form == Compact && isBit[i/64]>>(i%64)&1 == 0 && v.List()[ListIndex(isBit, v.Ranks(), uint32(i))] != values[i] {
							t.Fatalf("n=%d %s: list index of %d", n, how, i)
						}
					}
				}
				check("at once", func(w *Builder) error { return w.AppendPlain(raw) })
				check("in uneven pieces, with Append between", func(w *Builder) error {
					for i := 0; i < n; {
						k := min(n-i, 1+r.IntN(200))
						if err := w.AppendPlain(raw[i*PlainBytes : (i+k)*PlainBytes]); err != nil {
							return err
						}
						if i += k; i < n {
							if err := w.Append(&values[i]); err != nil {
								return err
							}
							i++
						}
					}
					return nil
				})
				check("in parts, last first", func(w *Builder) error {
					var parts []*Builder
					before := 0
					for first := 0; first < n; first += PartUnit {
						k := min(PartUnit, n-first)
						l, err := CountPlain(raw[first*PlainBytes:(first+k)*PlainBytes], first)
						if err != nil {
							return err
						}
						if form == Dense {
							l = k
						}
						p, err := w.Part(first, k, before, l)
						if err != nil {
							return err
						}
						parts = append(parts, p)
						before += l
					}
					for i := len(parts) - 1; i >= 0; i-- {
						if err := parts[i].AppendPlain(raw[i*PartUnit*PlainBytes : min(n, (i+1)*PartUnit)*PlainBytes]); err != nil {
							return err
						}
					}
					return w.Join(parts...)
				})
			}
		}
	}
}

func TestPlainErrors(t *testing.T) {
	const n = 1000
	r := rand.New(rand.NewPCG(3, 4))
	values := mixed(r, n, 90)
	raw := plainOf(values)
	listed, _ := CountPlain(raw, 0)
	modulusLE := fr.Modulus().FillBytes(make([]byte, 32))
	slices.Reverse(modulusLE)
	for _, bad := range [][]byte{modulusLE, slices.Repeat([]byte{0xff}, 32)} {
		broken := slices.Clone(raw)
		copy(broken[700*32:], bad)
		if _, err := CountPlain(broken, 0); !errs.Is(err, errs.InvalidFile) {
			t.Errorf("count: %v", err)
		}
		for _, form := range []Form{Dense, Compact} {
			w, err := NewBuilder(aligned(DenseSize(n)), form, n)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.AppendPlain(broken); !errs.Is(err, errs.InvalidFile) {
				t.Errorf("append: %v", err)
			}
		}
	}
	below := slices.Clone(modulusLE)
	below[0]-- // r - 1 is a value
	if k, err := CountPlain(below, 0); k != 1 || err != nil {
		t.Errorf("r - 1: %d, %v", k, err)
	}
	w, err := NewBuilder(aligned(CompactSize(n, listed)), Compact, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AppendPlain(append(slices.Clone(raw), raw[:32]...)); err == nil {
		t.Error("one value too many was taken")
	}
	for _, x := range [][4]int{{1, 10, 0, 0}, {-512, 1, 0, 0}, {512, n, 0, 0}, {0, 10, 0, 11}, {0, 512, listed + 3, 1}, {0, 10, -1, 1}} {
		if _, err := w.Part(x[0], x[1], x[2], x[3]); err == nil {
			t.Errorf("part %v was given", x)
		}
	}
	// Parts that were counted wrongly.
	first, _ := CountPlain(raw[:512*32], 0)
	a, err := w.Part(0, 512, 0, first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Part(512, n-512, first, listed-first)
	if err != nil {
		t.Fatal(err)
	}
	more := slices.Clone(raw[:512*32])
	for i := range 512 {
		if listed := more[i*32:][:32]; !slices.Equal(listed, plainOf([]fr.Element{fr.One()})) {
			clear(listed)
		}
	}
	if err := a.AppendPlain(more); err != nil {
		t.Fatal(err)
	}
	if err := b.AppendPlain(raw[512*32:]); err != nil {
		t.Fatal(err)
	}
	if err := w.Join(a, b); !errs.Is(err, errs.InvalidFile) {
		t.Errorf("join: %v", err)
	}
}
