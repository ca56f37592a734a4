package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// handed is a buffer that the plugin of the test has, filled with 1, 2, 3, ...
func handed(t testing.TB, p *Process, pool *slab.Pool, size int64) (*slab.Buffer, string, uint64) {
	t.Helper()
	b, err := pool.Get(slab.Evaluations, size, "")
	if err != nil {
		t.Fatal(err)
	}
	words, err := slab.View[uint64](b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i := range words {
		words[i] = uint64(i) + 1
	}
	if err := pool.Hand(p.Channel(), b.Ref().Handle); err != nil {
		_ = b.Free()
		if errs.Is(err, errs.Unsupported) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	ref, err := json.Marshal(b.Ref())
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(len(words))
	return b, string(ref), n * (n + 1) / 2
}

func TestBuffers(t *testing.T) {
	p := launchTest(t, "ok")
	pool := slab.NewPool(slab.PoolOptions{})
	for _, size := range []int64{8, 4096, 1 << 20, 2 << 20, 24 << 20} {
		b, ref, want := handed(t, p, pool, size)
		for range 2 { // cold, then mapped
			if got := mustCall(t, p, "Sum", ref); got != strconv.FormatUint(want, 10) {
				t.Errorf("%d bytes: sum %s, want %d", size, got, want)
			}
		}
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	}
	before := p.maps(t)
	if before < 4 {
		t.Errorf("the plugin has %d slabs mapped", before)
	}
	pool.Trim(0)
	if after := p.maps(t); after != 0 {
		t.Errorf("the plugin has %d slabs mapped after the trim", after)
	}
	_, err := call(t.Context(), p, "Sum", `{"Handle":99999999,"Length":8}`)
	wantClass(t, errs.FromStatus(err), errs.NotFound)
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// maps counts the plugin's maps of slabs; darwin has no /proc, so there it checks nothing.
func (p *Process) maps(t *testing.T) int {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/maps")
	if err != nil {
		t.Skip(err)
	}
	return strings.Count(string(data), "memfd:weir")
}

// TestBuffersSurviveThePlugin: a plugin's death does not touch what the host owns, and the next one gets it.
func TestBuffersSurviveThePlugin(t *testing.T) {
	pool := slab.NewPool(slab.PoolOptions{})
	first := launchTest(t, "ok")
	b, ref, want := handed(t, first, pool, 1<<20)
	if err := first.Kill("test"); err != nil {
		t.Fatal(err)
	}
	wantClass(t, pool.Hand(first.Channel(), b.Ref().Handle), errs.BackendGone)
	second := launchTest(t, "ok")
	if err := pool.Hand(second.Channel(), b.Ref().Handle); err != nil {
		t.Fatal(err)
	}
	if got := mustCall(t, second, "Sum", ref); got != strconv.FormatUint(want, 10) {
		t.Errorf("sum %s, want %d", got, want)
	}
	if err := b.Free(); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// TestHandOverToStopped: a hand-over to a plugin that does not answer ends with its deadline.
func TestHandOverToStopped(t *testing.T) {
	p := launchTest(t, "ok", func(c *LaunchConfig) {
		c.HandOverTimeout = 100 * time.Millisecond
		c.KillTimeout = 100 * time.Millisecond
	})
	stopProcess(t, p.PID())
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	pool := slab.NewPool(slab.PoolOptions{})
	h, err := pool.AddFile(f)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	wantClass(t, pool.Hand(p.Channel(), h), errs.BackendGone, "100ms")
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// BenchmarkDataPlane is the time from a call to the plugin's having summed a warm, already mapped slab of 1 GiB, and the
// same with a small slab, which is the overhead of the call alone.
func BenchmarkDataPlane(b *testing.B) {
	for _, c := range []struct {
		name string
		size int64
	}{{"4KiB", 4 << 10}, {"1GiB", 1 << 30}} {
		b.Run(c.name, func(b *testing.B) {
			p := launchTest(b, "ok")
			pool := slab.NewPool(slab.PoolOptions{})
			buf, ref, want := handed(b, p, pool, c.size)
			sum := strconv.FormatUint(want, 10)
			if got := mustCall(b, p, "Sum", ref); got != sum { // maps it
				b.Fatalf("sum %s, want %s", got, sum)
			}
			b.SetBytes(c.size)
			b.ResetTimer()
			best := time.Hour
			for b.Loop() {
				start := time.Now()
				if got := mustCall(b, p, "Sum", ref); got != sum {
					b.Fatalf("sum %s, want %s", got, sum)
				}
				best = min(best, time.Since(start))
			}
			b.StopTimer()
			b.ReportMetric(float64(best.Nanoseconds()), "best-ns/op")
			if c.size >= 1<<30 { // the same sum without any plugin: what the memory of this machine allows now
				words, err := slab.View[uint64](buf.Bytes())
				if err != nil {
					b.Fatal(err)
				}
				best := time.Hour
				for range b.N {
					start := time.Now()
					if sumParallel(words) != want {
						b.Fatal("another sum")
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best.Nanoseconds()), "best-in-process-ns/op")
			}
			_ = buf.Free()
			_ = pool.Close()
		})
	}
}

// BenchmarkLaunch is a whole life: start, first answer, stop.
func BenchmarkLaunch(b *testing.B) {
	for b.Loop() {
		p, err := Launch(b.Context(), testConfig("ok"))
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
