// Package testfiles finds the files that tests read: the small circom fixtures in testdata/circom, the large ones that are not in the
// repository, and snarkjs from npm. Each function skips the test, with the reason, when what it looks for is not there.
package testfiles

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// SnarkjsVersion is the version that Snarkjs installs.
const SnarkjsVersion = "0.7.6"

// Small are the folders of testdata/circom.
var Small = []string{"allzero", "dom_1022", "dom_1023", "multiplier", "nopublic", "publics100", "unused_input", "zero_constraints"}

// Large are the folders of circom fixtures that only the shared folder has.
var Large = []string{"merkle20", "sha256_64"}

// Full skips a test that takes minutes or much memory, unless make test-full runs it.
func Full(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("WEIR_TEST_FULL") == "" {
		t.Skipf("%s: only with make test-full", why)
	}
}

// Root is the top folder of the repository: where this file was compiled, or WEIR_ROOT for a test binary that runs elsewhere.
func Root() string {
	if dir := os.Getenv("WEIR_ROOT"); dir != "" {
		return dir
	}
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Circom is the path of a file of a small fixture.
func Circom(name, file string) string {
	return filepath.Join(Root(), "testdata", "circom", name, file)
}

// Shared is a path in the shared folder: WEIR_SHARED, or ../shared beside the repository.
func Shared(t testing.TB, path ...string) string {
	t.Helper()
	dir := os.Getenv("WEIR_SHARED")
	if dir == "" {
		dir = filepath.Join(filepath.Dir(Root()), "shared")
	}
	p := filepath.Join(append([]string{dir}, path...)...)
	if _, err := os.Stat(p); err != nil {
		t.Skipf("large fixtures are not here (set WEIR_SHARED to their folder): %v", err)
	}
	return p
}

// Fixture is the content of a file of any circom fixture, small or large, unpacked if it is there as .gz.
func Fixture(t testing.TB, name, file string) []byte {
	t.Helper()
	if b, err := os.ReadFile(Circom(name, file)); err == nil {
		return b
	}
	dir := Shared(t, "fixtures", "circom", name)
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err == nil {
		return b
	}
	f, err := os.Open(filepath.Join(dir, file+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return Gunzip(t, f)
}

// Gunzip unpacks all of r.
func Gunzip(t testing.TB, r io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Snarkjs returns a function that runs the snarkjs command with the given arguments and returns what it printed; a
// failing command's error comes back. snarkjs is looked for in the folder WEIR_SNARKJS (that has node_modules), else in a folder of the
// user's cache, and installed there with npm when it is missing.
func Snarkjs(t testing.TB) func(args ...string) (string, error) {
	t.Helper()
	if Race {
		t.Skip("no snarkjs under the race detector: it sees nothing of another program")
	}
	if testing.Short() {
		t.Skip("no snarkjs with -short: it takes seconds to start")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no snarkjs: node is not installed")
	}
	dir := os.Getenv("WEIR_SNARKJS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "weir-test", "snarkjs-"+SnarkjsVersion)
	}
	cli := filepath.Join(dir, "node_modules", "snarkjs", "build", "cli.cjs")
	if _, err := os.Stat(cli); err != nil {
		install(t, dir)
		if _, err := os.Stat(cli); err != nil {
			t.Skipf("no snarkjs: npm left no %s", cli)
		}
	}
	return func(args ...string) (string, error) {
		cmd := exec.Command(node, append([]string{cli}, args...)...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		return out.String(), err
	}
}

// install puts snarkjs into a folder of its own and renames it, so that tests of several packages can do it at the same time.
func install(t testing.TB, dir string) {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("no snarkjs: npm is not installed")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Skipf("no snarkjs: %v", err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), "snarkjs-install-*")
	if err != nil {
		t.Skipf("no snarkjs: %v", err)
	}
	defer os.RemoveAll(aside)
	cmd := exec.Command(npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", aside, "snarkjs@"+SnarkjsVersion)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no snarkjs: npm install failed: %v\n%s", err, out)
	}
	if err := os.Rename(aside, dir); err != nil {
		if _, err2 := os.Stat(dir); err2 != nil {
			t.Skipf("no snarkjs: %v", err)
		}
	}
}
