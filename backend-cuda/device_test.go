package cuda

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
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

// The GPU that was asked for does the work, and the others none, whatever order CUDA_VISIBLE_DEVICES gives them (gpu-check.sh runs this in a process for each order).
func TestAssignedDevice(t *testing.T) {
	needsDevice(t)
	want := os.Getenv("WEIR_TEST_DEVICE")
	if want == "" {
		t.Skip("for machines with several GPUs: WEIR_TEST_DEVICE names one by its UUID")
	}
	before := memoryUsed(t)
	if len(before) < 2 {
		t.Skipf("%d GPU: nothing can go to the wrong one", len(before))
	}
	pool := newPool(t)
	s := generated(t, pool, circuitgen.PoRepMix(circuitgen.FillDomain(16, 1), 3), setup.Options{})
	reference := s.reference()
	o := testOptions
	o.Device = want
	b := newBackend(t, pool, o)
	info, err := b.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.DeviceID != want {
		t.Errorf("assigned %s, described %s", want, info.DeviceID)
	}
	if _, err := s.load(b, "key"); err != nil {
		t.Fatal(err)
	}
	p, err := s.prove(b, "key", assignment.Compact, fixedRandomness())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.Bytes, reference) {
		t.Error("not the CPU backend's proof")
	}
	for uuid, mib := range memoryUsed(t) {
		t.Logf("%s: %d MiB before, %d MiB now", uuid, before[uuid], mib)
		if more := mib - before[uuid]; (uuid == want) != (more > 100) {
			t.Errorf("%s takes %d MiB more; assigned was %s", uuid, more, want)
		}
	}
}

// memoryUsed asks nvidia-smi, which shows all GPUs, for the MiB in use on each.
func memoryUsed(t *testing.T) map[string]int {
	t.Helper()
	raw, err := exec.Command("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Skipf("nvidia-smi: %v", err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		uuid, mib, _ := strings.Cut(line, ", ")
		if out[uuid], err = strconv.Atoi(mib); err != nil {
			t.Fatalf("nvidia-smi: %q", line)
		}
	}
	return out
}
