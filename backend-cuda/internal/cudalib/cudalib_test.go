package cudalib

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-zk/weir/backend-cuda/internal/stubtest"
	"github.com/weir-zk/weir/sdk/errs"
)

func TestMain(m *testing.M) {
	code := m.Run()
	stubtest.Clean()
	os.Exit(code)
}

// A C program prints offset and size of every field that the Go structs have, and the size of every struct; the compiler refuses a field that the
// header does not know.
func TestLayoutIsTheHeaders(t *testing.T) {
	cc := stubtest.Compiler(t)
	var src, want strings.Builder
	src.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"weir_cuda.h\"\nint main(void) {\n")
	upper := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	for _, l := range layouts {
		typ := reflect.TypeOf(l.zero)
		for i := range typ.NumField() {
			f := typ.Field(i)
			name := strings.ToLower(upper.ReplaceAllString(f.Name, "${1}_$2"))
			fmt.Fprintf(&src, "\tprintf(\"%s.%s %%zu %%zu\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", l.name, name, l.name, name, l.name, name)
			fmt.Fprintf(&want, "%s.%s %d %d\n", l.name, name, f.Offset, f.Type.Size())
		}
		fmt.Fprintf(&src, "\tprintf(\"%s %%zu\\n\", sizeof(%s));\n", l.name, l.name)
		fmt.Fprintf(&want, "%s %d\n", l.name, typ.Size())
	}
	fmt.Fprintf(&src, "\tprintf(\"abi %%u\\n\", WEIR_CUDA_ABI);\n\treturn 0;\n}\n")
	fmt.Fprintf(&want, "abi %d\n", ABIVersion)

	dir := t.TempDir()
	file, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-std=c11", "-Wall", "-Wextra", "-Wpadded", "-Werror", "-pedantic", "-I", stubtest.Kernels(), "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(want.String(), "\n") {
		if g := strings.Split(string(got), "\n"); i >= len(g) || g[i] != line {
			t.Fatalf("the header says %q, Go %q", g[min(i, len(g)-1)], line)
		}
	}
}

// Every function that the header declares is one that Go calls, and the other way round.
func TestFunctionsAreTheHeaders(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(stubtest.Kernels(), "weir_cuda.h"))
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`(?m)^WEIR_CUDA_EXPORT void weir_cuda_([a-z0-9_]+)\(`).FindAllSubmatch(text, -1) {
		declared = append(declared, string(m[1]))
	}
	if !reflect.DeepEqual(declared, functionNames[:]) {
		t.Fatalf("the header declares %v, Go calls %v", declared, functionNames)
	}
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, FileName)
	if err := os.WriteFile(page, []byte("<html>404</html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, says string
		class            errs.Class
	}{
		{"missing file", filepath.Join(dir, "none.so"), "none.so", errs.Unavailable},
		{"no library", page, FileName, errs.Unavailable},
		{"another version", stubtest.Build(t, "STUB_VERSION=7"), "expected 1, found 7", errs.Unsupported},
		{"another layout", stubtest.Build(t, "STUB_SIZE_DELTA=8"), "size of weir_cuda_call", errs.Unsupported},
		{"missing symbol", stubtest.Build(t, "STUB_OMIT"), "weir_cuda_msm", errs.Unsupported},
		{"library of somebody else", other(t), "weir_cuda_abi", errs.Unsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Load(c.path)
			if l != nil || !errs.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("%v (%v): want class %v, the path and %q", err, errs.ClassOf(err), c.class, c.says)
			}
			if errs.HintOf(err) == "" {
				t.Error("no hint")
			}
		})
	}
	if _, err := Find(filepath.Join(dir, "none.so")); !errs.Is(err, errs.Unavailable) || errs.HintOf(err) == "" {
		t.Errorf("a named library that is not there: %v", err)
	}
	if p, err := Find(page); err != nil || p != page {
		t.Errorf("found %q: %v", p, err)
	}
}

func other(t *testing.T) string {
	dir := t.TempDir()
	src, lib := filepath.Join(dir, "other.c"), filepath.Join(dir, "libother.so")
	if err := os.WriteFile(src, []byte("int other(void) { return 1; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(stubtest.Compiler(t), "-fPIC", "-shared", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return lib
}

func load(t *testing.T) (*Library, func(stubtest.Setting, uint64) uint64) {
	path := stubtest.Build(t)
	knob := stubtest.Knobs(t, path)
	l, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return l, knob
}

func open(t *testing.T, l *Library, lanes int, lost func(error)) *Device {
	info, err := l.Choose("")
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Open(info, lanes, lost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A device is named by its UUID, whatever number it has.
func TestChooseByUUID(t *testing.T) {
	l, knob := load(t)
	knob(stubtest.Devices, 3)
	list, driver, err := l.Devices()
	if err != nil || len(list) != 3 || driver != 13000 {
		t.Fatalf("%+v, driver %d: %v", list, driver, err)
	}
	want := list[2]
	knob(stubtest.SwapUUID, 1)
	for _, name := range []string{want.UUID.String(), strings.ToUpper(want.UUID.String()), strings.TrimPrefix(want.UUID.String(), "GPU-")} {
		info, err := l.Choose(name)
		if err != nil || info.UUID != want.UUID || info.Name != "stub GPU 0" {
			t.Fatalf("%s: %+v, %v", name, info, err)
		}
		d, err := l.Open(info, 1, nil)
		if err != nil || d.UUID != want.UUID {
			t.Fatalf("opened %+v, %v", d, err)
		}
		_ = d.Close()
	}
	if _, err := l.Choose("GPU-00000000-0000-0000-0000-000000000000"); !errs.Is(err, errs.Unavailable) || !strings.Contains(err.Error(), want.UUID.String()) {
		t.Errorf("a GPU that is not there: %v", err)
	}
	if _, err := l.Choose("1"); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("a number for a UUID: %v", err)
	}
	knob(stubtest.Devices, 0)
	if _, err := l.Choose(""); !errs.Is(err, errs.Unavailable) || errs.HintOf(err) == "" {
		t.Errorf("no GPU: %v", err)
	}
	knob(stubtest.NoDriver, 1)
	if _, err := l.Choose(""); !errs.Is(err, errs.Unavailable) || !strings.Contains(errs.HintOf(err), "driver") {
		t.Errorf("no driver: %v", err)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	l, knob := load(t)
	var lost []error
	d := open(t, l, 1, func(err error) { lost = append(lost, err) })
	if _, err := d.Alloc(1 << 40); !errs.Is(err, errs.Exhausted) || !errs.IsRetryable(err) {
		t.Errorf("out of memory: %v", err)
	}
	knob(stubtest.FailCall, 1)
	if _, err := d.MemoryUse(); !errs.Is(err, errs.Unavailable) || IsLost(err) || !errs.IsRetryable(err) {
		t.Errorf("a call that failed: %v", err)
	}
	if _, err := d.MemoryUse(); err != nil {
		t.Errorf("the call after it: %v", err)
	}
	if err := d.Free(12345); !errs.Is(err, errs.Internal) {
		t.Errorf("free of nothing: %v", err)
	}
	knob(stubtest.StickyCall, 1)
	if _, err := d.MemoryUse(); !IsLost(err) || !errs.Is(err, errs.Unavailable) || !errs.IsRetryable(err) {
		t.Errorf("a lost device: %v", err)
	}
	before := knob(stubtest.Calls, 0)
	if _, err := d.Alloc(1); !IsLost(err) {
		t.Errorf("after it is lost: %v", err)
	}
	if n := knob(stubtest.Calls, before); n != 0 {
		t.Errorf("%d calls to a lost device", n)
	}
	if len(lost) != 1 || d.Lost() == nil {
		t.Errorf("told %d times, %v", len(lost), d.Lost())
	}
}

var inHeap [][]byte

func TestCopies(t *testing.T) {
	l, _ := load(t)
	d := open(t, l, 2, nil)
	at, err := d.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	lane := d.Lane(1)
	in, out := bytes.Repeat([]byte{1, 2, 3, 4}, 1024), make([]byte, 4096)
	inHeap = append(inHeap, in, out) // addresses are numbers to the library
	up, err := lane.Upload(at, in, 0)
	if err != nil || up != 1 {
		t.Fatalf("ticket %d: %v", up, err)
	}
	if err := lane.Wait(QueueCopy, up); err != nil {
		t.Fatal(err)
	}
	if _, err := lane.Clear(at+1024, 1024); err != nil {
		t.Fatal(err)
	}
	if _, err := lane.Download(out, at); err != nil {
		t.Fatal(err)
	}
	if err := lane.Wait(QueueWork, 0); err != nil {
		t.Fatal(err)
	}
	clear(in[1024:2048])
	if !bytes.Equal(in, out) {
		t.Error("what came back is not what went up")
	}
	if _, err := lane.Upload(at+1, in, 0); err == nil {
		t.Error("an upload beyond its block")
	}
	if err := d.Free(at); err != nil {
		t.Fatal(err)
	}
	if use, err := d.MemoryUse(); err != nil || use.Allocated != 0 {
		t.Errorf("%+v, %v", use, err)
	}
}
