package cpu

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/backend-cpu/fixedbase"
	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
)

// status reads a line of /proc/self/status in MiB; 0 where there is none.
func status(name string) float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name+":"); ok {
			kib, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 64)
			return kib / 1024
		}
	}
	return 0
}

// cost is a time on the clock and on the processors: on a busy machine only the second says much.
type cost struct{ wall, cpu time.Duration }

type started struct {
	at  time.Time
	cpu time.Duration
}

func startCost() started { return started{time.Now(), processorTime()} }

func (s started) end() cost { return cost{time.Since(s.at), processorTime() - s.cpu} }

func processorTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// resetPeak makes VmHWM start again from the present size.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// BenchmarkProve is a whole proof from filled buffers, the key mapped from its file. "x-msm" is its time over that of gnark-crypto's G1 MultiExp of
// 2^20 uniform scalars in the same run, "x-msm-cpu" the same in processor time; "peak-MiB" is the largest resident size of the process with key,
// witness and evaluations, the benchmark's own circuit released. "setup-kpoints/s" is the making of the key, G2 points counted once.
func BenchmarkProve(b *testing.B) {
	reference := referenceMSM(b)
	for _, log := range []int{18, 20} {
		for _, c := range []struct {
			name    string
			circuit circuitgen.Circuit
			form    assignment.Form
		}{
			{"bits", circuitgen.GnarkMix(circuitgen.FillDomain(log, 1), 1), assignment.Compact},
			{"dense", circuitgen.Dense{Rows: circuitgen.FillDomain(log, 2)}, assignment.Dense},
		} {
			b.Run(fmt.Sprintf("%s-2^%d", c.name, log), func(b *testing.B) {
				path := b.TempDir() + "/key"
				speed := writeKey(b, path, c.circuit)
				for _, release := range []bool{false, true} {
					b.Run(fmt.Sprintf("release=%t", release), func(b *testing.B) {
						benchmarkProve(b, path, c.circuit, c.form, release, reference)
						b.ReportMetric(speed/1000, "setup-kpoints/s")
					})
				}
			})
		}
	}
}

// writeKey makes a key and returns the points made in a second of processor time.
func writeKey(b *testing.B, path string, circuit circuitgen.Circuit) float64 {
	sys := generated(b, circuit).sys
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	start := startCost()
	shape, err := setup.Write(context.Background(), f, sys, setup.Options{Scalars: testScalars(b, "bench"), Tasks: runtime.NumCPU()}, "bench")
	if err != nil {
		b.Fatal(err)
	}
	c := start.end()
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	return float64(shape.NbA+2*shape.NbB+shape.NbPrivate()+shape.NbH) / c.cpu.Seconds()
}

func benchmarkProve(b *testing.B, path string, circuit circuitgen.Circuit, form assignment.Form, release bool, reference cost) {
	bench := newBench(b, Options{ReleaseKeyPages: release})
	if _, err := bench.LoadKey(context.Background(), &contract.LoadKeyRequest{KeyID: "k", Key: bench.file(path), Trusted: true}); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := bench.UnloadKey(context.Background(), "k"); err != nil {
			b.Error(err)
		}
	}()
	pk := bench.keys["k"].pk
	v, err := groth16.NewVerifier(&pk.VK)
	if err != nil {
		b.Fatal(err)
	}
	var total cost
	var peak float64
	stages := map[string]time.Duration{}
	n := 0
	for b.Loop() {
		in := generated(b, circuit)
		x := bench.fill(in, &pk.Shape, form, true)
		public := append([]fr.Element(nil), in.public()...)
		in = nil
		debug.FreeOSMemory()
		resetPeak()
		start := startCost()
		out, err := bench.Prove(context.Background(), x.request("k"), func(contract.ProveEvent) {})
		if err != nil {
			b.Fatal(err)
		}
		c := start.end()
		total.wall, total.cpu = total.wall+c.wall, total.cpu+c.cpu
		n++
		peak = max(peak, status("VmHWM"))
		for _, t := range out.Times {
			stages[t.Stage] += t.Elapsed
		}
		var p groth16.Proof
		if err := p.SetBytes(out.Bytes); err != nil {
			b.Fatal(err)
		}
		if err := v.Verify(&p, public); err != nil {
			b.Fatal(err)
		}
		x.free(b)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total.wall.Seconds()/float64(n), "s/proof")
	b.ReportMetric(total.wall.Seconds()/float64(n)/reference.wall.Seconds(), "x-msm")
	b.ReportMetric(total.cpu.Seconds()/float64(n)/reference.cpu.Seconds(), "x-msm-cpu")
	b.ReportMetric(peak, "peak-MiB")
	for name, t := range stages {
		b.ReportMetric(t.Seconds()/float64(n), name+"-s")
	}
}

// referenceMSM is the time of gnark-crypto's G1 MultiExp of 2^20 uniform scalars.
func referenceMSM(b *testing.B) cost {
	const n = 1 << 20
	next := seeded(3)
	scalars := make([]fr.Element, n)
	for i := range scalars {
		scalars[i] = next()
	}
	points := make([]bls.G1Affine, n)
	_, _, g, _ := bls.Generators()
	table, err := fixedbase.NewG1(context.Background(), &g, n, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := table.Mul(context.Background(), points, scalars, 0); err != nil {
		b.Fatal(err)
	}
	var best cost
	for range 3 {
		start := startCost()
		if _, err := new(bls.G1Jac).MultiExp(points, scalars, ecc.MultiExpConfig{}); err != nil {
			b.Fatal(err)
		}
		if c := start.end(); best.wall == 0 || c.cpu < best.cpu {
			best = c
		}
	}
	b.Logf("reference: MultiExp of 2^20 in %v, %v of processor time", best.wall, best.cpu)
	return best
}
