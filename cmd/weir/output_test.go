package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	l, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range l {
		out = append(out, e.Name())
	}
	return out
}

func TestOutputsAllOrNone(t *testing.T) {
	dir := t.TempDir()
	o := &outputs{t: &terminal{}}
	for _, f := range []string{"a", "b"} {
		if err := o.add(f, filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if l := names(t, dir); len(l) != 0 {
		t.Fatalf("a look leaves %v", l)
	}
	o.set("a", text("A"))
	broken := errors.New("broken")
	o.set("b", func(io.Writer) error { return broken })
	if err := o.commit(); !errors.Is(err, broken) {
		t.Fatalf("%v", err)
	}
	if l := names(t, dir); len(l) != 0 {
		t.Fatalf("a failure leaves %v", l)
	}
	o.set("b", text("B"))
	if err := o.commit(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"a", "b"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err != nil || len(b) != 1 {
			t.Fatalf("%s: %q, %v", f, b, err)
		}
	}
	if l := names(t, dir); len(l) != 2 {
		t.Fatalf("%v", l)
	}
}

// A rename that fails takes back the ones before it.
func TestOutputsCommitFails(t *testing.T) {
	dir := t.TempDir()
	o := &outputs{t: &terminal{}}
	_ = o.add("a", filepath.Join(dir, "a"))
	_ = o.add("b", filepath.Join(dir, "b"))
	o.set("a", text("A"))
	o.set("b", func(w io.Writer) error {
		// a folder in the place of the file, made after everything was looked at
		return os.MkdirAll(filepath.Join(dir, "b", "x"), 0o700)
	})
	if err := o.commit(); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Fatalf("a is left behind: %v", names(t, dir))
	}
}

func TestOutputsRefused(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("in", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		paths []string
	}{
		{"one file twice", []string{filepath.Join(dir, "a"), dir + "/./a"}},
		{"a file and a link to it", []string{in, link}},
		{"stdout twice", []string{"-", "/dev/stdout"}},
		{"a folder", []string{dir}},
		{"an input", []string{in}},
		{"an input by its link", []string{link}},
		{"a folder that is not there", []string{filepath.Join(dir, "x", "y")}},
		{"a file as a folder", []string{filepath.Join(in, "y")}},
	} {
		o := &outputs{t: &terminal{}}
		var err error
		for i, p := range c.paths {
			if err == nil {
				err = o.add([]string{"proof", "public"}[i], p)
			}
		}
		if err == nil {
			err = o.check(in)
		}
		if errs.ExitCode(err) != errs.ExitUnusable {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A link stays a link, and a device stays a device.
func TestOutputsKeepLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "real"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	o := &outputs{t: &terminal{}}
	if err := o.add("proof", link); err != nil {
		t.Fatal(err)
	}
	if err := o.add("public", "/dev/null"); err != nil {
		t.Fatal(err)
	}
	o.set("proof", text("new"))
	o.set("public", text("gone"))
	if err := errors.Join(o.check(), o.commit()); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Fatalf("the link is gone: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "real")); string(b) != "new" {
		t.Fatalf("%q", b)
	}
	if st, err := os.Stat("/dev/null"); err != nil || st.Mode().IsRegular() {
		t.Fatalf("/dev/null: %v", err)
	}
}
