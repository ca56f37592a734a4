// Command bench measures weir as its users run it, whole processes on real files, and prints a table beside the figures of its peers:
//
//	go run ./internal/bench -weir bin/weir            the table of docs/benchmarks
//	go run ./internal/bench -weir bin/weir -quick     2^16 instead of 2^18 and 2^20
//	go run ./internal/bench -weir bin/weir -only sha256 -log2 20 -files DIR     measures nothing: leaves circuit, witness and key in DIR
//
// Machines differ and are shared, so times are also given as a ratio to gnark-crypto's G1 MultiExp of 2^20 uniform scalars, measured
// before and after. Memory is the sum of the proportional set sizes (Pss) of weir and its plugins, sampled, less what an idle proof
// of three constraints takes.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/fixedbase"
	"github.com/weir-zk/weir/internal/circuitgen"
)

func main() {
	weir := flag.String("weir", "bin/weir", "the binary to measure")
	quick := flag.Bool("quick", false, "2^16 only: a smoke test")
	only := flag.String("only", "", "circuits whose name contains this")
	runs := flag.Int("runs", 3, "proofs of each circuit; the median is printed")
	snarkjs := flag.String("snarkjs", os.Getenv("WEIR_SNARKJS"), "snarkjs' cli.cjs, to be measured in the same run")
	log2 := flag.Int("log2", 0, "circuits of so many constraints, instead of 2^18 and 2^20")
	keep := flag.String("files", "", "only write circuits, witnesses and keys, into this folder")
	flag.Parse()
	if *keep != "" {
		if err := leave(*weir, *only, sizes(*quick, *log2), *keep); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*weir, *only, sizes(*quick, *log2), *runs, *snarkjs); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// peer is what a peer took for a circuit of the same size elsewhere; 0 where nobody measured it.
type peer struct {
	who string
	s   float64 // seconds
	x   float64 // the same over gnark-crypto's MultiExp on that machine
	mib float64
}

type circuit struct {
	name string
	c    circuitgen.Circuit
	peer peer
}

func sizes(quick bool, log2 int) []int {
	switch {
	case log2 > 0:
		return []int{log2}
	case quick:
		return []int{16}
	}
	return []int{18, 20}
}

func circuits(logs []int) ([]circuit, error) {
	peers := map[string]peer{
		"bits 16": {"gnark", 0.59, 0.19, 98}, "dense 16": {"gnark", 1.53, 0.50, 220},
		"bits 18": {"gnark", 2.28, 0.75, 384}, "dense 18": {"gnark", 5.62, 1.85, 782},
		"bits 20": {"gnark", 8.98, 2.95, 1431}, "dense 20": {"gnark", 20.73, 6.8, 1750},
	}
	var out []circuit
	for _, log := range logs {
		sha, err := circuitgen.SHA256ForRows(1<<log, 1)
		if err != nil {
			return nil, err
		}
		out = append(out,
			circuit{fmt.Sprintf("sha256 2^%d", log), sha, peer{}},
			circuit{fmt.Sprintf("bits (-1 too) 2^%d", log), circuitgen.GnarkMix(circuitgen.FillDomain(log, 1), 1), peers[fmt.Sprintf("bits %d", log)]},
			circuit{fmt.Sprintf("dense 2^%d", log), circuitgen.Dense{Rows: circuitgen.FillDomain(log, 2), Seed: 1}, peers[fmt.Sprintf("dense %d", log)]})
	}
	return out, nil
}

func run(weir, only string, logs []int, runs int, snarkjs string) error {
	weir, err := filepath.Abs(weir)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, err := circuits(logs)
	if err != nil {
		return err
	}
	ref, setupRatio, err := reference()
	if err != nil {
		return err
	}
	fmt.Printf("machine: %d threads, %s/%s; unit: gnark-crypto G1 MultiExp of 2^20 uniform scalars = %.2f s\n", runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, ref.Seconds())
	fmt.Printf("development keys: %.1f times the points/s of gnark-crypto's BatchScalarMultiplicationG1 (2^17 points, G1)\n\n", setupRatio)
	base, err := idle(weir, dir)
	if err != nil {
		return err
	}
	fmt.Printf("%-20s %9s %9s %8s %8s %8s %9s   %s\n", "circuit", "setup s", "whole s", "prove s", "units", "MiB", "account", "peer elsewhere")
	for _, c := range list {
		if !strings.Contains(c.name, only) {
			continue
		}
		if err := measure(weir, dir, c, runs, ref, base, snarkjs); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	again, _, err := reference()
	if err != nil {
		return err
	}
	fmt.Printf("\nunit again at the end: %.2f s\n", again.Seconds())
	return nil
}

// leave writes the files of the chosen circuits, named "sha256-20" and so on, and their keys, for benchmarks by hand.
func leave(weir, only string, logs []int, dir string) error {
	list, err := circuits(logs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range list {
		if !strings.Contains(c.name, only) {
			continue
		}
		kind, _, _ := strings.Cut(c.name, " ")
		_, log, _ := strings.Cut(c.name, "^")
		f, err := prepare(weir, dir, kind+"-"+log, c.c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Println(f.r1cs, f.wtns, f.key)
	}
	return nil
}

// reference times the unit, and set-up's way to make points against gnark-crypto's.
func reference() (unit time.Duration, setup float64, err error) {
	const n = 1 << 20
	scalars := make([]fr.Element, n)
	for i := range scalars {
		if _, err := scalars[i].SetRandom(); err != nil {
			return 0, 0, err
		}
	}
	_, _, g, _ := bls.Generators()
	points := make([]bls.G1Affine, n)
	table, err := fixedbase.NewG1(context.Background(), &g, n, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := table.Mul(context.Background(), points, scalars, 0); err != nil {
		return 0, 0, err
	}
	for i := range 3 {
		start := time.Now()
		if _, err := new(bls.G1Jac).MultiExp(points, scalars, ecc.MultiExpConfig{}); err != nil {
			return 0, 0, err
		}
		if d := time.Since(start); i == 0 || d < unit {
			unit = d
		}
	}
	const m = 1 << 17
	start := time.Now()
	bls.BatchScalarMultiplicationG1(&g, scalars[:m])
	theirs := time.Since(start)
	start = time.Now()
	small, err := fixedbase.NewG1(context.Background(), &g, m, 0)
	if err != nil {
		return 0, 0, err
	}
	if err := small.Mul(context.Background(), points[:m], scalars[:m], 0); err != nil {
		return 0, 0, err
	}
	return unit, theirs.Seconds() / time.Since(start).Seconds(), nil
}

// answer is the part of `weir prove --json` that the table needs.
type answer struct {
	Memory struct {
		PeakReserved int64 `json:"peak_reserved"`
	} `json:"memory"`
	Partitions []struct {
		MS map[string]float64 `json:"ms"`
	} `json:"partitions"`
	Verified bool `json:"verified"`
}

type proof struct {
	whole   time.Duration
	prove   float64 // seconds in the backend and in synthesis
	pss     int64
	account int64
}

// prove proves once. sampled: peak memory is taken instead of times, for sampling costs a fifth of the time.
func prove(weir string, sampled bool, args ...string) (*proof, error) {
	var out, stderr bytes.Buffer
	cmd := exec.Command(weir, append([]string{"prove", "--json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	peak := func() int64 { return 0 }
	if sampled {
		peak = watch(cmd.Process.Pid)
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s%s", err, out.String(), stderr.String())
	}
	p := &proof{whole: time.Since(start), pss: peak()}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, err
	}
	if !a.Verified || len(a.Partitions) == 0 {
		return nil, fmt.Errorf("no verified proof in %s", out.String())
	}
	for _, stage := range []string{"synthesis", "consume", "device", "finish", "verify"} {
		p.prove += a.Partitions[0].MS[stage] / 1000
	}
	p.account = a.Memory.PeakReserved
	return p, nil
}

// idle is the memory of a proof of next to nothing: the base that is taken off.
func idle(weir, dir string) (int64, error) {
	files, err := prepare(weir, dir, "idle", circuitgen.Tiny{Rows: 3, Public: 1})
	if err != nil {
		return 0, err
	}
	p, err := prove(weir, true, files.prove(dir)...)
	if err != nil {
		return 0, err
	}
	return p.pss, nil
}

type files struct {
	r1cs, wtns, key string
	setup           time.Duration
}

func (f *files) prove(dir string) []string {
	return []string{"--key", f.key, "--witness", f.wtns, "--proof", filepath.Join(dir, "proof.json")}
}

func prepare(weir, dir, name string, c circuitgen.Circuit) (*files, error) {
	f := &files{key: filepath.Join(dir, name+".wkey")}
	var err error
	if f.r1cs, f.wtns, err = circuitgen.WriteFiles(dir, name, c); err != nil {
		return nil, err
	}
	start := time.Now()
	if out, err := exec.Command(weir, "setup", "--quiet", "--circuit", f.r1cs, "--key", f.key).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("setup: %w: %s", err, out)
	}
	f.setup = time.Since(start)
	return f, nil
}

func measure(weir, dir string, c circuit, runs int, ref time.Duration, base int64, snarkjs string) error {
	sub, err := os.MkdirTemp(dir, "c")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sub)
	f, err := prepare(weir, sub, "c", c.c)
	if err != nil {
		return err
	}
	var all []*proof
	for range runs {
		p, err := prove(weir, false, f.prove(sub)...)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	p := median(all)
	memory, err := prove(weir, true, f.prove(sub)...)
	if err != nil {
		return err
	}
	elsewhere := "-"
	if c.peer.who != "" {
		elsewhere = fmt.Sprintf("%s %.2f s = %.2f units, %.0f MiB", c.peer.who, c.peer.s, c.peer.x, c.peer.mib)
	}
	fmt.Printf("%-20s %9.1f %9.2f %8.2f %8.2f %8.0f %9.0f   %s\n", c.name, f.setup.Seconds(), p.whole.Seconds(), p.prove, p.prove/ref.Seconds(),
		float64(memory.pss-base)/(1<<20), float64(memory.account)/(1<<20), elsewhere)
	if snarkjs != "" && strings.HasPrefix(c.name, "sha256") && !strings.HasSuffix(c.name, "2^20") {
		return beside(weir, sub, f, p, runs, snarkjs)
	}
	return nil
}

// beside proves the same circuit with snarkjs, whole process against whole process.
func beside(weir, dir string, f *files, p *proof, runs int, snarkjs string) error {
	zkey := filepath.Join(dir, "c.zkey")
	if out, err := exec.Command(weir, "key", "export", "--format", "zkey", f.key, zkey).CombinedOutput(); err != nil {
		return fmt.Errorf("export: %w: %s", err, out)
	}
	var theirs, fromZKey []*proof // alternately, so that both see the same machine
	for range runs {
		start := time.Now()
		cmd := exec.Command("node", snarkjs, "groth16", "prove", zkey, f.wtns, filepath.Join(dir, "p.json"), filepath.Join(dir, "pub.json"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("snarkjs: %w: %s", err, out)
		}
		theirs = append(theirs, &proof{whole: time.Since(start)})
		ours, err := prove(weir, false, "--key", zkey, "--witness", f.wtns, "--proof", filepath.Join(dir, "z.json"))
		if err != nil {
			return err
		}
		fromZKey = append(fromZKey, ours)
	}
	t, z := median(theirs).whole.Seconds(), median(fromZKey).whole.Seconds()
	fmt.Printf("%-20s snarkjs, whole process: %.1f s = %.1f times weir with the prepared key, %.1f times weir with the same .zkey (%.2f s)\n", "", t, t/p.whole.Seconds(), t/z, z)
	return nil
}

func median(all []*proof) *proof {
	out := *all[0]
	values := func(f func(*proof) float64) float64 {
		var xs []float64
		for _, p := range all {
			xs = append(xs, f(p))
		}
		for i := range xs {
			for j := i; j > 0 && xs[j] < xs[j-1]; j-- {
				xs[j], xs[j-1] = xs[j-1], xs[j]
			}
		}
		return xs[len(xs)/2]
	}
	out.whole = time.Duration(values(func(p *proof) float64 { return float64(p.whole) }))
	out.prove = values(func(p *proof) float64 { return p.prove })
	return &out
}
