package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

// names lists a folder, temporary files too.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func TestCommitReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "second, longer", ""} {
		if err := Write(path, []byte(content), 0); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if n := names(t, dir); len(n) != 1 {
		t.Fatalf("left behind: %v", n)
	}
}

// Until Commit a reader sees the old content; without Commit nothing stays.
func TestCloseWithoutCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Write(path, []byte("old"), 0); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Fatalf("seen before the commit: %q", got)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != "old" || len(names(t, dir)) != 1 {
		t.Fatalf("%q, files %v", got, names(t, dir))
	}
	if err := f.Commit(); !errs.Is(err, errs.Internal) {
		t.Fatalf("commit after close: %v", err)
	}
}

func TestMode(t *testing.T) {
	for _, tc := range []struct {
		umask      int
		mode, want os.FileMode
	}{{0o022, 0, 0o644}, {0o077, 0, 0o600}, {0o002, 0, 0o664}, {0o022, 0o600, 0o600}} {
		old := syscall.Umask(tc.umask)
		path := filepath.Join(t.TempDir(), "f")
		err := Write(path, nil, tc.mode)
		syscall.Umask(old)
		if err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != tc.want {
			t.Errorf("umask %o, mode %o: %o, want %o", tc.umask, tc.mode, st.Mode().Perm(), tc.want)
		}
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		path  string
		class errs.Class
	}{
		"a directory":        {dir, errs.InvalidArgument},
		"no such folder":     {filepath.Join(dir, "none", "f"), errs.NotFound},
		"a file as a folder": {filepath.Join(os.Args[0], "f"), errs.InvalidArgument},
	} {
		_, err := Create(tc.path, 0)
		if !errs.Is(err, tc.class) {
			t.Errorf("%s: %v (%v), want %v", name, err, errs.ClassOf(err), tc.class)
		}
	}
	if n := names(t, dir); len(n) != 0 {
		t.Errorf("left behind: %v", n)
	}
}

// A device is written in place: a rename would replace it.
func TestDevice(t *testing.T) {
	if err := Write(os.DevNull, []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode()&os.ModeDevice == 0 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
}

// A pipe that nobody reads is refused at once; one that is read gets the bytes.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("x"), 0); !errs.Is(err, errs.InvalidArgument) {
		t.Fatalf("no reader: %v", err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := Write(path, []byte("through"), 0); err != nil {
		t.Fatal(err)
	}
	var b [16]byte
	if n, err := r.Read(b[:]); err != nil || string(b[:n]) != "through" {
		t.Fatalf("%q, %v", b[:n], err)
	}
}
