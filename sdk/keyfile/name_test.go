package keyfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

// A file that another process handed over is called what its user calls it, in every error.
func TestErrorsNameTheFile(t *testing.T) {
	ctx := context.Background()
	p, z := makeKeys(t, 12, 2, Params), makeKeys(t, 12, 2, ZKey)
	prepared, _, err := importTo(t, p.params, p.sys, ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const theirs = "keys/of the user.key"
	try := func(what, path string, o Options) {
		f, _ := open(t, path)
		fd, err := syscall.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		g := os.NewFile(uintptr(fd), "handed-over-7")
		defer g.Close()
		for _, mapped := range []bool{false, true} {
			o.Name, o.Map = theirs, mapped
			_, err := OpenKey(ctx, g, o)
			if err == nil || !strings.Contains(err.Error(), theirs) || strings.Contains(err.Error(), "handed-over") {
				t.Errorf("%s, mapped %v: %v", what, mapped, err)
			}
			if o.Name = ""; !mapped {
				if _, err = OpenKey(ctx, g, o); err == nil || !strings.Contains(err.Error(), "handed-over-7") {
					t.Errorf("%s without a name: %v", what, err)
				}
			}
		}
		dst, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Close()
		if o.Circuit != nil || !strings.HasSuffix(what, "params") {
			_, err = Import(ctx, g, o.Circuit, dst, ImportOptions{Name: theirs})
			if err == nil || !strings.Contains(err.Error(), theirs) || strings.Contains(err.Error(), "handed-over") {
				t.Errorf("import of %s: %v", what, err)
			}
		}
	}
	for kind, path := range map[string]string{"zkey": z.zkey, "wkey": prepared, "params": p.params} {
		good := raw(t, path)
		half := write(t, "half", func(w io.Writer) error { _, err := w.Write(good[:len(good)/2]); return err })
		try(fmt.Sprintf("half a %s", kind), half, Options{Circuit: p.sys})
		try("the circuit of another "+kind, path, Options{Circuit: makeKeys(t, 30, 2, Params).sys})
	}
	try("no circuit of a params", p.params, Options{})
	try("a directory", t.TempDir(), Options{})
	try("a circuit", p.r1cs, Options{})

	// an error of the system has the system's name for the file inside; ours is there too
	closed, _ := open(t, prepared)
	closed.Close()
	_, err = OpenKey(ctx, closed, Options{Name: theirs})
	if !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), theirs) || errs.ClassOf(err) != errs.Internal {
		t.Errorf("closed: %v", err)
	}
}
