package msm

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/backend-cpu/internal/fieldtest"
	"github.com/weir-zk/weir/sdk/assignment"
)

// g1Points returns n distinct points without a known relation that a test could trip over.
func g1Points(n int) []bls12381.G1Affine {
	g, _, _, _ := bls12381.Generators()
	jac := make([]bls12381.G1Jac, n)
	acc := g
	for i := range jac {
		jac[i].Set(&acc)
		if i%3 == 0 {
			acc.DoubleAssign()
		}
		acc.AddAssign(&g)
	}
	return bls12381.BatchJacobianToAffineG1(jac)
}

func g2Points(n int) []bls12381.G2Affine {
	_, g, _, _ := bls12381.Generators()
	acc := g
	out := make([]bls12381.G2Affine, n)
	for i := range out {
		out[i].FromJacobian(&acc)
		if i%3 == 0 {
			acc.DoubleAssign()
		}
		acc.AddAssign(&g)
	}
	return out
}

// ratio runs ours and the reference alternately and reports both medians' times and the quotients, of wall time and of CPU time of the
// whole process (which other load on the machine disturbs less).
func ratio(b *testing.B, ours, reference func()) {
	var o, r, oc, rc []time.Duration
	for b.Loop() {
		begin, c0 := time.Now(), cpuTime()
		reference()
		mid, c1 := time.Now(), cpuTime()
		ours()
		o, r = append(o, time.Since(mid)), append(r, mid.Sub(begin))
		oc, rc = append(oc, cpuTime()-c1), append(rc, c1-c0)
	}
	ours1, ref1 := median(o), median(r)
	b.ReportMetric(float64(ours1.Milliseconds()), "ours-ms")
	b.ReportMetric(float64(ref1.Milliseconds()), "gnark-ms")
	b.ReportMetric(ours1.Seconds()/ref1.Seconds(), "x-gnark-time")
	b.ReportMetric(median(oc).Seconds()/median(rc).Seconds(), "x-gnark-cpu")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(d []time.Duration) time.Duration {
	for i := range d {
		for j := i; j > 0 && d[j] < d[j-1]; j-- {
			d[j], d[j-1] = d[j-1], d[j]
		}
	}
	return d[len(d)/2]
}

func BenchmarkG1(b *testing.B) {
	points := g1Points(1 << 20)
	scalars := fieldtest.Random(1<<20, 1)
	for _, log := range []int{10, 13, 16, 18, 20} {
		b.Run("2^"+string('0'+rune(log/10))+string('0'+rune(log%10)), func(b *testing.B) {
			p, s := points[:1<<log], scalars[:1<<log]
			ratio(b, func() {
				if _, err := G1(context.Background(), p, s, runtime.NumCPU()); err != nil {
					b.Fatal(err)
				}
			}, func() {
				var r bls12381.G1Jac
				r.MultiExp(p, s, ecc.MultiExpConfig{NbTasks: runtime.NumCPU()})
			})
		})
	}
}

func BenchmarkG2(b *testing.B) {
	points := g2Points(1 << 18)
	scalars := fieldtest.Random(1<<18, 1)
	for _, log := range []int{10, 16, 18} {
		b.Run("2^"+string('0'+rune(log/10))+string('0'+rune(log%10)), func(b *testing.B) {
			p, s := points[:1<<log], scalars[:1<<log]
			ratio(b, func() {
				if _, err := G2(context.Background(), p, s, runtime.NumCPU()); err != nil {
					b.Fatal(err)
				}
			}, func() {
				var r bls12381.G2Jac
				r.MultiExp(p, s, ecc.MultiExpConfig{NbTasks: runtime.NumCPU()})
			})
		})
	}
}

// BenchmarkWitness is the sum over a bit-level circuit's witness (55 % zero, 31 % one, 14 % minus one), sorting included.
func BenchmarkWitness(b *testing.B) {
	const n = 1 << 18
	points, values := g1Points(n), witnessLike(n, 55, 31, 14, 0)
	v := vector(b, assignment.Dense, values)
	all, err := WiresFrom(0, n)
	if err != nil {
		b.Fatal(err)
	}
	ratio(b, func() {
		if _, err := WitnessG1(context.Background(), points, all, Classify(v), runtime.NumCPU()); err != nil {
			b.Fatal(err)
		}
	}, func() {
		var r bls12381.G1Jac
		r.MultiExp(points, values, ecc.MultiExpConfig{NbTasks: runtime.NumCPU()})
	})
}
