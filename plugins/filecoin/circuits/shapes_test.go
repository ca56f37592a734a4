package circuits

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// A circuit's file is written once, and again when it is damaged or of another circuit; what cannot be written leaves nothing behind.
func TestShapesFolder(t *testing.T) {
	const id = "por-8x64"
	s := Shapes{filepath.Join(t.TempDir(), "a", "b")}
	var want fixture.R1CS
	fixture.JSON(t, "r1cs/"+id+".json", &want)
	if s.Has(t.Context(), id) {
		t.Error("there before it was written")
	}
	open := func() os.FileInfo {
		t.Helper()
		f, err := s.Open(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if d := f.Digest(); hex.EncodeToString(d[:]) != want.SHA256 {
			t.Error("another digest")
		}
		var sum circuit.Summary
		if _, err := f.Replay(t.Context(), &sum); err != nil || hex.EncodeToString(sum.Digest[:]) != want.SHA256 {
			t.Errorf("the rows are others: %v", err)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if !s.Has(t.Context(), id) {
			t.Error("not there")
		}
		st, err := os.Stat(s.Path(id))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := open()
	if !os.SameFile(first, open()) {
		t.Error("written twice")
	}
	good, err := os.ReadFile(s.Path(id))
	if err != nil {
		t.Fatal(err)
	}
	other := Shapes{t.TempDir()}
	f, err := other.Open(t.Context(), "por-8x8")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	small, err := os.ReadFile(other.Path("por-8x8"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)-1] ^= 1
	for name, b := range map[string][]byte{"empty": nil, "short": good[:len(good)/2], "flipped": flipped, "another circuit's": small} {
		if err := os.WriteFile(s.Path(id), b, 0o666); err != nil {
			t.Fatal(err)
		}
		if s.Has(t.Context(), id) {
			t.Errorf("%s: taken for good", name)
		}
		open()
	}

	if _, err := s.Open(t.Context(), "por-8x65"); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("an id that there is not: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Open(ctx, "winning-2k"); err == nil {
		t.Error("stopped, and no error")
	}
	list, err := os.ReadDir(s.Dir)
	if err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}
