package ledger

import (
	"fmt"
	"testing"
)

// A partition is granted and closed while thousands wait, and a small request behind the first fifteen looks for a way past.
func BenchmarkLongLine(b *testing.B) {
	for _, n := range []int{0, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := New(Options{Budget: 256 << 30, Permits: 12, AgeAfter: -1})
			need := Bytes{Evaluations: 12 << 30, Witness: 4 << 30, Synthesis: 1 << 30, Scratch: 300 << 20}
			for i := range 12 {
				if _, ok := l.TryAcquire(Request{Owner: fmt.Sprint(i), Permit: true, Need: need}); !ok {
					b.Fatal("not granted")
				}
			}
			for i := range n {
				if _, err := l.enter(Request{Owner: fmt.Sprint("w", i), Permit: true, Order: uint64(i), Need: need}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if g, ok := l.TryAcquire(Request{Owner: "small", Order: 14, Need: Bytes{Session: 16 << 20}}); ok {
					if err := g.Close(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
