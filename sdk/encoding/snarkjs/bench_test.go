package snarkjs

import (
	"syscall"
	"testing"
	"time"

	"github.com/weir-zk/weir/internal/testfiles"
)

// BenchmarkZKey reports the CPU time too: on a busy machine the time on the clock says little.
func BenchmarkZKey(b *testing.B) {
	raw := testfiles.Fixture(b, "sha256_64", "circuit.zkey")
	z := must(openZKey(raw))(b)
	for name, f := range map[string]func() error{
		"points":          func() error { _, err := z.ProvingKey(ctx, ReadOptions{}); return err },
		"points+subgroup": func() error { _, err := z.ProvingKey(ctx, ReadOptions{Subgroup: true}); return err },
		"system":          func() error { _, err := z.System(ctx); return err },
		"shape":           func() error { _, err := z.Shape(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			from := cpuTime(b)
			n := 0
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
				n++
			}
			spent := cpuTime(b) - from
			b.ReportMetric(spent.Seconds()/float64(n), "CPU-s/op")
			b.ReportMetric(float64(len(raw))/1e6/(spent.Seconds()/float64(n)), "MB/CPU-s")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
