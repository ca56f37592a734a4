package arena

import (
	"testing"
	"unsafe"
)

func TestTakeGivesZeros(t *testing.T) {
	a, err := New(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	mark := a.Mark()
	for round := range 3 {
		x, y := Take[uint64](a, 100), Take[uint32](a, 33+round)
		for i := range x {
			if x[i] != 0 {
				t.Fatalf("round %d: x[%d] = %d", round, i, x[i])
			}
			x[i] = ^uint64(0)
		}
		for i := range y {
			if y[i] != 0 {
				t.Fatalf("round %d: y[%d] = %d", round, i, y[i])
			}
			y[i] = 7
		}
		if uintptr(unsafe.Pointer(&y[0]))%align != 0 {
			t.Error("not at a cache line")
		}
		a.Reset(mark)
	}
	if a.Missed() != 0 {
		t.Errorf("%d bytes missed", a.Missed())
	}
}

func TestWhatDoesNotFitIsOfTheHeap(t *testing.T) {
	a, err := New(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if x := Take[uint64](a, 512); len(x) != 512 || a.Missed() != 0 {
		t.Fatalf("%d values, %d bytes missed", len(x), a.Missed())
	}
	if x := Take[uint64](a, 1); len(x) != 1 || a.Missed() != align {
		t.Errorf("%d values, %d bytes missed", len(x), a.Missed())
	}
	if x := Take[uint64]((*Arena)(nil), 5); len(x) != 5 {
		t.Errorf("%d values of the heap", len(x))
	}
}
