package snarkjs

import (
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
)

func BenchmarkZKey(b *testing.B) {
	raw := testfiles.Fixture(b, "sha256_64", "circuit.zkey")
	z := must(openZKey(raw))(b)
	for name, f := range map[string]func() error{
		"points":          func() error { _, err := z.ProvingKey(ctx, ReadOptions{}); return err },
		"points+subgroup": func() error { _, err := z.ProvingKey(ctx, ReadOptions{Subgroup: true}); return err },
		"system":          func() error { _, err := z.System(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
