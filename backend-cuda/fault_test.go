package cuda

import (
	"os"
	"testing"

	"github.com/weir-zk/weir/backend-cpu/setup"
	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
)

// A real fault: points at an address that is none, in the middle of a proof. No proof comes of it, the error says that the device is lost and may be tried elsewhere, the
// program is told once, and every later call fails at once. The process is of no more use: the test runs in one of its own (gpu-check.sh).
func TestDeviceFault(t *testing.T) {
	needsDevice(t)
	if os.Getenv("WEIR_TEST_DEVICE_FAULT") != "1" {
		t.Skip("it costs the process its device: WEIR_TEST_DEVICE_FAULT=1 in a process of its own")
	}
	pool := newPool(t)
	s := generated(t, pool, circuitgen.PoRepMix(circuitgen.FillDomain(14, 1), 3), setup.Options{})
	o := testOptions
	o.Library = os.Getenv(realLibrary)
	lost := 0
	o.OnLost = func(error) { lost++ }
	b := New(pool, o)
	if _, err := s.load(b, "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.prove(b, "key", assignment.Compact, nil); err != nil {
		t.Fatal(err)
	}
	b.keys["key"].sections[sectionA] = 4096
	for i := range 3 {
		p, err := s.prove(b, "key", assignment.Compact, nil)
		if p != nil || !cudalib.IsLost(err) || !errs.Is(err, errs.Unavailable) || !errs.IsRetryable(err) {
			t.Fatalf("proof %d: %v (%v): want a lost device", i, err, errs.ClassOf(err))
		}
		if i == 0 {
			t.Log(err)
		}
	}
	if _, err := b.Describe(t.Context()); !cudalib.IsLost(err) {
		t.Errorf("described: %v", err)
	}
	if lost != 1 {
		t.Errorf("told %d times", lost)
	}
}
