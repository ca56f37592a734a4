// Package stubtest compiles kernels/stub, a libweir_cuda that computes on the processor, for tests of the Go side on machines without a GPU.
package stubtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ebitengine/purego"
)

// Kernels is the folder of the library's sources.
func Kernels() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(self), "..", "..", "kernels")
}

// Compiler is a C compiler; the test is skipped where there is none.
func Compiler(t testing.TB) string {
	t.Helper()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the stub is for 64-bit little-endian machines")
	}
	for _, c := range []string{"gcc", "cc", "clang"} {
		if p, err := exec.LookPath(c); err == nil {
			return p
		}
	}
	t.Skip("no C compiler (gcc, cc, clang) to build the stub library with")
	return ""
}

var (
	mu    sync.Mutex
	built = map[string]string{}
	dir   string
)

// Build compiles the stub with -D for each define and returns its path. Each process builds a set of defines once.
func Build(t testing.TB, defines ...string) string {
	t.Helper()
	cc := Compiler(t)
	key := strings.Join(defines, " ")
	mu.Lock()
	defer mu.Unlock()
	if p := built[key]; p != "" {
		return p
	}
	if dir == "" {
		d, err := os.MkdirTemp("", "weir-stub-*") // for the life of the process: a loaded library is never unloaded
		if err != nil {
			t.Fatal(err)
		}
		dir = d
	}
	path := filepath.Join(dir, "libweir_cuda_"+strings.NewReplacer(" ", "_", "=", "_").Replace(key)+".so")
	args := []string{"-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-o", path}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	args = append(args, filepath.Join(Kernels(), "stub", "stub.c"), "-lpthread")
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", cc, strings.Join(args, " "), err, out)
	}
	built[key] = path
	return path
}

// Clean removes what Build has made. For TestMain.
func Clean() {
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
}

// Setting is a knob or gauge of the stub: see weir_stub_set.
type Setting uint32

// In the order of stub.c.
const (
	Devices    Setting = iota // how many there are; 1
	Memory                    // bytes of each; 1 GiB
	NoDriver                  // 1: the driver is missing
	FailAlloc                 // k: the k-th allocation or pinning from now on fails
	FailCall                  // k: the k-th call from now on fails, once
	StickyCall                // k: from the k-th call on all fail, the device is lost
	Flip                      // 1: a bit of each download is wrong
	Calls                     // calls so far
	Alive                     // bytes allocated (gauge)
	Pinned                    // bytes registered (gauge)
	Reset                     // all as at the start
	SwapUUID                  // 1: the devices are in the opposite order
)

// Knobs sets what the stub at path does, and returns what was set or measured before. All is reset at once and when the test ends.
func Knobs(t testing.TB, path string) func(Setting, uint64) uint64 {
	t.Helper()
	knob := Gauges(t, path)
	knob(Reset, 0)
	t.Cleanup(func() { knob(Reset, 0) })
	return knob
}

// Gauges is Knobs without a reset.
func Gauges(t testing.TB, path string) func(Setting, uint64) uint64 {
	t.Helper()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		t.Fatal(err)
	}
	var set func(what uint32, value uint64) uint64
	purego.RegisterLibFunc(&set, handle, "weir_stub_set")
	return func(s Setting, v uint64) uint64 { return set(uint32(s), v) }
}
