package circuits

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// scramble gives every field element that can be reached from v a value of its own.
func scramble(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		scramble(r, v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			scramble(r, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scramble(r, v.Field(i))
		}
	case reflect.Array:
		if x, ok := v.Addr().Interface().(*fr.Element); ok {
			*x = fr.Element{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64() >> 2}
		}
	}
}

// The witness of one partition, on one core, on data of the right shape.
func BenchmarkWitness(b *testing.B) {
	for _, id := range []string{"porep-32g", "upd-32g", "winning-32g"} {
		b.Run(id, func(b *testing.B) {
			c, err := Blank(id)
			if err != nil {
				b.Fatal(err)
			}
			if _, ok := c.(*Update); !ok { // the sectors' sizes are shared
				scramble(rand.New(rand.NewPCG(1, 1)), reflect.ValueOf(c))
			}
			n, err := circuit.Measure(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			_, size := n.Form()
			words := make([]uint64, (size+7)/8)
			buf := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := circuit.Witness(b.Context(), c, n, buf, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)/(1<<20), "witness-MiB")
			b.ReportMetric(float64(n.Rows), "rows")
		})
	}
}

// Recording, with the digest in a goroutine of its own.
func BenchmarkRecord(b *testing.B) {
	for _, id := range []string{"porep-32g-c1", "upd-16k", "winning-32g"} {
		b.Run(id, func(b *testing.B) {
			c, err := Blank(id)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			rows := 0
			for b.Loop() {
				var sum circuit.Summary
				if _, err := circuit.Record(b.Context(), c, &sum); err != nil {
					b.Fatal(err)
				}
				rows = sum.Counts.Rows
			}
			b.ReportMetric(float64(rows), "rows")
		})
	}
}
