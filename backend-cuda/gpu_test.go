package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/slab"
)

// needsDevice is for tests that would take the stub, or a small machine, too long.
func needsDevice(t testing.TB) {
	t.Helper()
	if os.Getenv(realLibrary) == "" {
		t.Skip("no GPU: set " + realLibrary + " to a libweir_cuda.so on a machine that has one (make gpu-check)")
	}
}

// rig is a device without keys, for tests of single steps.
type rig struct {
	t testing.TB
	g *gpu
	l *lane
}

func newRig(t testing.TB) *rig {
	t.Helper()
	path, _ := library(t)
	lib, err := cudalib.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Lanes: 1}
	opts.ensureDefaults()
	g, err := openGPU(lib, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, g, g.loader}
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// alloc gives the block back when the returned function is called.
func (r *rig) alloc(n int64) (cudalib.Block, func()) {
	r.t.Helper()
	b, err := r.g.vram.alloc(forKeys, "test", max(n, 256))
	r.ok(err)
	return b, func() { r.ok(r.g.vram.free(forKeys, &b)) }
}

func (r *rig) put(b []byte) (cudalib.Block, func()) {
	r.t.Helper()
	block, free := r.alloc(int64(len(b)))
	if len(b) > 0 {
		_, err := r.l.ring.uploadBytes(block.At, b, 0, 4)
		r.ok(err)
		r.ok(r.l.dev.Wait(cudalib.QueueCopy, 0))
	}
	return block, free
}

// msm sums points with scalars on the device, in every way that a proof uses: dense, by an index, and sorted as a witness. index[i] is the scalar of point i.
func (r *rig) msm(group int, points []byte, n int, scalars []fr.Element, index []uint32, witness bool) ([]byte, cudalib.Windows) {
	r.t.Helper()
	p, free := r.put(points)
	defer free()
	s, free := r.put(slab.BytesOf(scalars))
	defer free()
	need := cudalib.Need{LogN: -1, Wires: len(scalars), Listed: len(scalars)}
	if group == 1 {
		need.G1Points = n
	} else {
		need.G2Points = n
	}
	sizes, err := r.g.dev.Sizes(need)
	r.ok(err)
	scratch, free := r.alloc(max(sizes.G1, sizes.G2, sizes.Witness))
	defer free()
	result, free := r.alloc(cudalib.ResultBytes(group))
	defer free()
	m := cudalib.MSM{Group: group, Points: p.At, N: n, Scalars: s.At, Result: result.At, Scratch: scratch}
	if index != nil {
		x, free := r.put(slab.BytesOf(index))
		defer free()
		m.Index = x.At
	}
	if witness {
		classes, free := r.alloc(sizes.Classes)
		defer free()
		_, err := r.l.dev.Witness(&cudalib.Witness{Wires: len(scalars), Listed: len(scalars), List: s.At, Scalars: s.At, Classes: classes, Scratch: scratch}, 0)
		r.ok(err)
		m.Witness, m.Classes = true, classes.At
	}
	_, sum, err := r.l.dev.MSM(&m, 0)
	r.ok(err)
	out := make([]byte, cudalib.ResultBytes(group))
	r.ok(r.l.ring.download(out, result.At))
	return out, sum.Windows
}

// sumSizes are 0, 1, 2, 3 and both sides of powers of two.
func sumSizes(most int) []int {
	out := []int{0, 1, 2, 3}
	for _, k := range []int{4, 6, 8, 10, 13, 16} {
		if 1<<k <= most {
			out = append(out, 1<<k-1, 1<<k, 1<<k+1)
		}
	}
	return out
}

// testScalars are 0, 1, r-1, their neighbours and a power of two among random ones; bit-heavy like a witness where bits is set.
func testScalars(n int, bits bool) []fr.Element {
	out := make([]fr.Element, n)
	var minus fr.Element
	minus.SetOne().Neg(&minus)
	for i := range out {
		x := &out[i]
		x.SetUint64(uint64(i)*0x9e3779b97f4a7c15 + 12345)
		x.Exp(*x, ecc.BLS12_381.BaseField()) // something of full width
		if bits && i%50 != 7 {
			switch i * 7 % 5 {
			case 0, 1:
				x.SetZero()
			case 2, 3:
				x.SetOne()
			default:
				x.Set(&minus)
			}
			continue
		}
		switch i % 11 {
		case 1:
			x.SetZero()
		case 2:
			x.SetOne()
		case 3:
			x.Set(&minus)
		case 4:
			x.SetUint64(2)
		case 5:
			x.SetUint64(2).Neg(x)
		case 6:
			x.SetUint64(1 << 63)
		}
	}
	return out
}

// pointLogs are the discrete logarithms of test points: infinity, equal and opposite neighbours, and others, by position.
func pointLogs(n int) []fr.Element {
	out := make([]fr.Element, n)
	for i := range out {
		switch i % 9 {
		case 2:
			// infinity
		case 4:
			out[i] = out[i-1]
		case 6:
			out[i].Neg(&out[i-1])
		default:
			out[i].SetUint64(uint64(i) + 2)
		}
	}
	return out
}

// Sums in G1 and G2 are gnark-crypto's: dense, over an index, and of a witness, for sizes at the edges, special scalars and special points.
func TestSumsAreGnarks(t *testing.T) {
	r := newRig(t)
	most := 1 << 8
	if os.Getenv(realLibrary) != "" {
		most = 1 << 16
	}
	_, _, g1, g2 := bls.Generators()
	for _, n := range sumSizes(most) {
		logs := pointLogs(n)
		p1, p2 := bls.BatchScalarMultiplicationG1(&g1, logs), bls.BatchScalarMultiplicationG2(&g2, logs)
		for _, kind := range []string{"dense", "index", "witness", "bits", "bits by index", "all equal"} {
			scalars := testScalars(n, kind == "bits" || kind == "bits by index")
			if kind == "all equal" {
				for i := range scalars {
					scalars[i].SetUint64(0xfedcba9876543210)
				}
			}
			used := scalars
			var index []uint32
			if n > 0 && (kind == "index" || kind == "bits by index") {
				used = make([]fr.Element, n)
				for i := range used { // ascending, as the wires of a key's points are, with gaps: every second scalar, then the rest of them again
					index = append(index, uint32(min(2*i, n-1)))
					used[i] = scalars[index[i]]
				}
			}
			witness := kind != "dense" && kind != "index" && n > 0
			what := fmt.Sprintf("%d points, %s", n, kind)
			var want1 bls.G1Jac
			var want2 bls.G2Jac
			if n > 0 {
				if _, err := want1.MultiExp(p1, used, ecc.MultiExpConfig{}); err != nil {
					t.Fatal(err)
				}
				if _, err := want2.MultiExp(p2, used, ecc.MultiExpConfig{}); err != nil {
					t.Fatal(err)
				}
			}
			got1, ok := sumG1(r.msm(1, slab.BytesOf(p1), n, scalars, index, witness))
			if !ok || !got1.Equal(&want1) {
				t.Errorf("G1, %s: another sum; on the curve: %v", what, ok)
			}
			got2, ok := sumG2(r.msm(2, slab.BytesOf(p2), n, scalars, index, witness))
			if !ok || !got2.Equal(&want2) {
				t.Errorf("G2, %s: another sum; on the curve: %v", what, ok)
			}
		}
	}
}

// public values of the subject.
func (s *subject) public() []fr.Element { return s.witness[1 : s.shape.NbPublic+1] }

// check verifies a proof by the key that b has loaded as "key".
func (s *subject) check(b *Backend, p *contract.Proof) {
	s.t.Helper()
	v, err := groth16.NewVerifier(&b.keys["key"].vk)
	if err != nil {
		s.t.Fatal(err)
	}
	var proof groth16.Proof
	if err := proof.SetBytes(p.Bytes); err != nil {
		s.t.Fatal(err)
	}
	if err := v.Verify(&proof, s.public()); err != nil {
		s.t.Error(err)
	}
}

func stageTimes(times []contract.StageTime) string {
	var out string
	var all time.Duration
	for _, x := range times {
		out += fmt.Sprintf(" %s %.2f", x.Stage, x.Elapsed.Seconds()*1e3)
		all += x.Elapsed
	}
	return fmt.Sprintf("%.2f ms:%s", all.Seconds()*1e3, out)
}

// Bit-heavy and dense circuits of 2^16 and 2^20 rows: the proof is the CPU backend's and verifies, also when the key is streamed through a small card.
func TestLargeProofsAreTheCPUs(t *testing.T) {
	needsDevice(t)
	for _, c := range []struct {
		name    string
		circuit circuitgen.Circuit
		opts    setup.Options
		limit   int64
	}{
		{"2^16 bits, rows 5", circuitgen.GnarkMix(circuitgen.FillDomain(16, 1), 1), setup.Options{Rows: groth16.RowsFive}, 96 << 20},
		{"2^16 dense", circuitgen.Dense{Rows: 1<<16 - 2, Seed: 2}, setup.Options{H: groth16.HOddCoset}, 96 << 20},
		{"2^20 bits", circuitgen.PoRepMix(circuitgen.FillDomain(20, 1), 3), setup.Options{}, 768 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := newPool(t)
			start := time.Now()
			s := generated(t, pool, c.circuit, c.opts)
			t.Logf("circuit and key: %v", time.Since(start))
			start = time.Now()
			want := s.reference()
			t.Logf("CPU backend, %v with loading: %s", time.Since(start), stageTimes(s.referenceTimes))
			for _, o := range []Options{testOptions, {AllowInsecureTestRandomness: true, HostEvaluates: true}, {AllowInsecureTestRandomness: true, VRAMLimit: c.limit}} {
				what := fmt.Sprintf("host evaluates %v, limit %s", o.HostEvaluates, size(o.VRAMLimit))
				b := newBackend(t, pool, o)
				if _, err := s.load(b, "key"); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				t.Logf("%s: %v", what, b.keys["key"].plan)
				if streams := b.keys["key"].streams(); streams != (o.VRAMLimit > 0) {
					t.Errorf("%s: streams %v", what, streams)
				}
				for range 2 {
					p, err := s.prove(b, "key", assignment.Compact, fixedRandomness())
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if !bytes.Equal(p.Bytes, want) {
						t.Errorf("%s: not the CPU backend's proof", what)
					}
					s.check(b, p)
					t.Logf("%s: %s", what, stageTimes(p.Times))
				}
				launched(t, b, !o.HostEvaluates)
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkProof is a whole warm proof of a bit-heavy circuit, the key resident: from the host's witness to the proof's bytes. The first proof is compared with the CPU
// backend's, whose time is a metric too.
func BenchmarkProof(b *testing.B) {
	needsDevice(b)
	logs := []int{16, 18, 20, 22}
	if os.Getenv("WEIR_BENCH_LARGE") == "1" { // minutes for the circuit and its key
		logs = []int{24}
	}
	for _, log := range logs {
		b.Run(fmt.Sprintf("2^%d", log), func(b *testing.B) {
			pool := slab.NewPool(slab.PoolOptions{Name: "cuda"})
			s := generated(b, pool, circuitgen.PoRepMix(circuitgen.FillDomain(log, 1), 3), setup.Options{})
			want := s.reference()
			var processor time.Duration
			for _, x := range s.referenceTimes {
				processor += x.Elapsed
			}
			x := newBackend(b, pool, testOptions)
			begin := time.Now()
			if _, err := s.load(x, "key"); err != nil {
				b.Fatal(err)
			}
			b.Logf("key loaded in %.2f s; %v", time.Since(begin).Seconds(), x.keys["key"].plan)
			req, free := s.buffers(0, assignment.Compact)
			defer free()
			req.KeyID, req.InsecureTestRandomness = "key", fixedRandomness()
			var all []time.Duration
			var stages [][]contract.StageTime
			for b.Loop() {
				start := time.Now()
				p, err := x.Prove(b.Context(), req, func(contract.ProveEvent) {})
				if err != nil {
					b.Fatal(err)
				}
				all, stages = append(all, time.Since(start)), append(stages, p.Times)
				if !bytes.Equal(p.Bytes, want) {
					b.Fatal("not the CPU backend's proof")
				}
			}
			// Two lanes, side by side.
			const each = 8
			var wg sync.WaitGroup
			var failed [2]error
			start := time.Now()
			for k := range failed {
				wg.Go(func() {
					for range each {
						if _, err := x.Prove(b.Context(), req, func(contract.ProveEvent) {}); err != nil {
							failed[k] = err
							return
						}
					}
				})
			}
			wg.Wait()
			if err := errors.Join(failed[:]...); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(start).Seconds()*1e3/(2*each), "ms-each-on-2-lanes")
			if len(all) > 2 { // the first ones warm up
				all, stages = all[1:], stages[1:]
			}
			b.Logf("%s", stageTimes(stages[len(stages)-1]))
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, "ms-median")
			b.ReportMetric(all[0].Seconds()*1e3, "ms-least")
			b.ReportMetric(processor.Seconds()*1e3, "ms-cpu-backend")
		})
	}
}
