package ntt

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr/fft"

	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
	"github.com/weir-zk/weir/sdk/errs"
)

// vectors returns vectors of n elements: random, special values, a single one at the end, zero.
func vectors(n int) map[string][]fr.Element {
	special := fieldtest.Special()
	s, last := make([]fr.Element, n), make([]fr.Element, n)
	for i := range s {
		s[i] = special[i%len(special)]
	}
	last[n-1].SetOne()
	return map[string][]fr.Element{"random": fieldtest.Random(n, uint64(n)), "special": s, "last": last, "zero": make([]fr.Element, n)}
}

func scaled(a []fr.Element, by uint64) []fr.Element {
	k := fr.NewElement(by)
	out := make([]fr.Element, len(a))
	for i := range a {
		out[i].Mul(&a[i], &k)
	}
	return out
}

func equal(t *testing.T, what string, got, want []fr.Element) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: element %d of %d differs", what, i, len(want))
			return
		}
	}
}

func TestAgainstLibrary(t *testing.T) {
	ctx := context.Background()
	for log := range 17 {
		if fieldtest.Race && log > 3 && log != 11 && log != 13 && log != 14 {
			continue
		}
		n := 1 << log
		d, err := NewDomain(log, 2)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(d.twiddle))*32 != Bytes(log) {
			t.Errorf("table of 2^%d: %d elements, stated %d bytes", log, len(d.twiddle), Bytes(log))
		}
		lib := fft.NewDomain(uint64(n), fft.WithShift(d.Shift()))
		for name, v := range vectors(n) {
			if (log > 12 || fieldtest.Race) && name != "random" {
				continue
			}
			for _, tasks := range []int{1, 2, 7} {
				if log > 14 && tasks == 1 {
					continue
				}
				for _, c := range []struct {
					what string
					ours func(context.Context, []fr.Element, int) error
					lib  func(a []fr.Element) []fr.Element
				}{
					{"Forward", d.Forward, func(a []fr.Element) []fr.Element { lib.FFT(a, fft.DIF); return a }},
					{"ForwardReversed", d.ForwardReversed, func(a []fr.Element) []fr.Element { lib.FFT(a, fft.DIT); return a }},
					{"ForwardCosetReversed", d.ForwardCosetReversed, func(a []fr.Element) []fr.Element { lib.FFT(a, fft.DIT, fft.OnCoset()); return a }},
					{"Inverse", d.Inverse, func(a []fr.Element) []fr.Element { lib.FFTInverse(a, fft.DIF); return scaled(a, uint64(n)) }},
					{"InverseReversed", d.InverseReversed, func(a []fr.Element) []fr.Element { lib.FFTInverse(a, fft.DIT); return scaled(a, uint64(n)) }},
					{"InverseCoset", d.InverseCoset, func(a []fr.Element) []fr.Element {
						lib.FFTInverse(a, fft.DIF, fft.OnCoset())
						return scaled(a, uint64(n))
					}},
				} {
					got := append([]fr.Element(nil), v...)
					if err := c.ours(ctx, got, tasks); err != nil {
						t.Fatal(err)
					}
					equal(t, fmt.Sprintf("%s of 2^%d, %s, %d tasks", c.what, log, name, tasks), got, c.lib(append([]fr.Element(nil), v...)))
				}
			}
		}
	}
}

// The definition itself, for small sizes.
func TestAgainstDefinition(t *testing.T) {
	for log := range 6 {
		n := 1 << log
		d, err := NewDomain(log, 1)
		if err != nil {
			t.Fatal(err)
		}
		w, u := Root(log), d.Shift()
		if new(fr.Element).Exp(u, big.NewInt(int64(n))).String() != new(fr.Element).Neg(new(fr.Element).SetOne()).String() {
			t.Fatalf("2^%d: u^N is not -1", log)
		}
		coeffs := fieldtest.Random(n, 3)
		got := append([]fr.Element(nil), coeffs...)
		BitReverse(got)
		if err := d.ForwardCosetReversed(context.Background(), got, 1); err != nil {
			t.Fatal(err)
		}
		x := u
		for i := range got {
			var want fr.Element
			for k := n - 1; k >= 0; k-- {
				want.Mul(&want, &x)
				want.Add(&want, &coeffs[k])
			}
			if got[i] != want {
				t.Fatalf("2^%d: value %d on the coset is wrong", log, i)
			}
			x.Mul(&x, &w)
		}
	}
}

func TestRootIsSevenToTheT(t *testing.T) {
	for log := range 33 {
		want, err := fr.Generator(1 << log)
		if err != nil {
			t.Fatal(err)
		}
		if Root(log) != want {
			t.Errorf("root of order 2^%d is not the library's", log)
		}
	}
}

// The prover's way there and back, at a size with several passes.
func TestRoundTripOnCoset(t *testing.T) {
	log := 18
	if fieldtest.Race {
		log = 15
	}
	d, err := NewDomain(log, 2)
	if err != nil {
		t.Fatal(err)
	}
	a := fieldtest.Random(1<<log, 1)
	got := append([]fr.Element(nil), a...)
	for _, step := range []func(context.Context, []fr.Element, int) error{d.Inverse, d.ForwardCosetReversed, d.InverseCoset, d.ForwardReversed} {
		if err := step(context.Background(), got, 2); err != nil {
			t.Fatal(err)
		}
	}
	s := d.SizeInverse()
	s.Square(&s)
	for i := range got {
		got[i].Mul(&got[i], &s)
	}
	equal(t, "there and back", got, a)
}

func TestBitReverse(t *testing.T) {
	for log := range 12 {
		a, b := make([]int, 1<<log), make([]int, 1<<log)
		for i := range a {
			a[i] = i
			r := 0
			for k := range log {
				r |= i >> k & 1 << (log - 1 - k)
			}
			b[i] = r
		}
		BitReverse(a)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("2^%d: element %d is %d", log, i, a[i])
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, log := range []int{-1, MaxLog + 1, 1 << 40} {
		if _, err := NewDomain(log, 1); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("domain of 2^%d: %v", log, err)
		}
	}
	d, err := NewDomain(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 7, 9} {
		if err := d.Forward(context.Background(), make([]fr.Element, n), 1); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%d elements: %v", n, err)
		}
		if err := d.InverseReversed(context.Background(), make([]fr.Element, n), 1); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%d elements: %v", n, err)
		}
	}
}

// countdown is a context that ends when it was asked n times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancel(t *testing.T) {
	d, err := NewDomain(15, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := make([]fr.Element, d.Size())
	for name, f := range map[string]func(context.Context, []fr.Element, int) error{"Inverse": d.Inverse, "ForwardCosetReversed": d.ForwardCosetReversed} {
		for _, tasks := range []int{1, 3} {
			for _, n := range []int{0, 1, 3, 10} {
				c := &countdown{Context: context.Background()}
				c.left.Store(int64(n))
				if err := f(c, a, tasks); !errors.Is(err, context.Canceled) {
					t.Errorf("%s, %d tasks, cancelled after %d looks: %v", name, tasks, n, err)
				}
			}
		}
	}
}

// Benchmark compares with the library's transforms in the same run, by wall time and by CPU time (which other load disturbs less).
func Benchmark(b *testing.B) {
	for _, log := range []int{16, 20} {
		d, err := NewDomain(log, 0)
		if err != nil {
			b.Fatal(err)
		}
		lib := fft.NewDomain(1<<log, fft.WithShift(d.Shift()))
		a := fieldtest.Random(1<<log, 1)
		ctx := context.Background()
		for _, c := range []struct {
			name      string
			ours, lib func()
		}{
			{"Inverse", func() { d.Inverse(ctx, a, 0) }, func() { lib.FFTInverse(a, fft.DIF) }},
			{"Coset", func() { d.ForwardCosetReversed(ctx, a, 0) }, func() { lib.FFT(a, fft.DIT, fft.OnCoset()) }},
			{"Forward", func() { d.Forward(ctx, a, 0) }, func() { lib.FFT(a, fft.DIF) }},
		} {
			b.Run(fmt.Sprintf("%s/2^%d", c.name, log), func(b *testing.B) {
				var ours, theirs, oursCPU, theirsCPU time.Duration
				for b.Loop() {
					t0, c0 := time.Now(), cpuTime()
					c.lib()
					t1, c1 := time.Now(), cpuTime()
					c.ours()
					ours, theirs = ours+time.Since(t1), theirs+t1.Sub(t0)
					oursCPU, theirsCPU = oursCPU+cpuTime()-c1, theirsCPU+c1-c0
				}
				b.ReportMetric(ours.Seconds()*1000/float64(b.N), "ours-ms")
				b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x-gnark-time")
				b.ReportMetric(oursCPU.Seconds()/theirsCPU.Seconds(), "x-gnark-cpu")
				b.ReportMetric(0, "ns/op")
			})
		}
		runtime.GC()
	}
}

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
