package setup

import (
	"context"
	"runtime"
	"testing"
	"time"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/groth16"
)

type nowhere struct{}

func (nowhere) Begin(*groth16.Shape, *groth16.VerifyingKey, groth16.Bitmap, groth16.Bitmap) error {
	return nil
}
func (nowhere) G1(Section, []bls.G1Affine) error { return nil }
func (nowhere) G2(Section, []bls.G2Affine) error { return nil }

// BenchmarkMake is a whole set-up of a dense circuit of 2^16 rows, all five sections, G2 points counted once, beside gnark-crypto's
// BatchScalarMultiplicationG1 in the same run. Processor time, since it tells more on a busy machine.
func BenchmarkMake(b *testing.B) {
	sys := system(b, circuitgen.Dense{Rows: circuitgen.FillDomain(16, 2)})
	s, err := Seeded([]byte("bench"))
	if err != nil {
		b.Fatal(err)
	}
	const n = 1 << 13
	scalars := make([]fr.Element, n)
	for i := range scalars {
		scalars[i] = power(&s.Tau, uint64(i))
	}
	_, _, g, _ := bls.Generators()
	start := processorTime(b)
	bls.BatchScalarMultiplicationG1(&g, scalars)
	theirs := n / (processorTime(b) - start).Seconds()
	var points int
	start = processorTime(b)
	for b.Loop() {
		if err := Make(context.Background(), sys, Options{Scalars: s, Tasks: runtime.NumCPU()}, nowhere{}); err != nil {
			b.Fatal(err)
		}
		points += 5 * sys.NbWires
	}
	ours := float64(points) / (processorTime(b) - start).Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours, "points/cpu-s")
	b.ReportMetric(theirs, "gnark-points/cpu-s")
	b.ReportMetric(ours/theirs, "x-gnark")
}

func processorTime(b *testing.B) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
