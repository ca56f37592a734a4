package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSweep(t *testing.T) {
	parent := t.TempDir()
	alive, err := newSocketDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newSocketDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.lock.Close() // as the kernel does when its host dies
	old := filepath.Join(parent, newDirPrefix+"00000001")
	fresh := filepath.Join(parent, newDirPrefix+"00000002")
	other := filepath.Join(parent, dirPrefix+"not-ours!")
	link := filepath.Join(parent, dirPrefix+"00000003")
	outside := t.TempDir()
	for _, d := range []string{old, fresh, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * staleNew)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	sweepSocketDirs(parent)
	for path, want := range map[string]bool{alive.path: true, dead.path: false, old: false, fresh: true, other: true, link: true, outside: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s exists: %t, want %t", path, err == nil, want)
		}
	}
	alive.remove()
	sweepSocketDirs(filepath.Join(parent, "missing"))
}

// TestSweepRace: hosts that start at the same moment do not sweep each other's directories.
func TestSweepRace(t *testing.T) {
	parent := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				sweepSocketDirs(parent)
				d, err := newSocketDir(parent)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(filepath.Join(d.path, lockName)); err != nil {
					t.Error(err)
				}
				d.remove()
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestSocketDirChoice(t *testing.T) {
	short, err := os.MkdirTemp("", "wt")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	nested := filepath.Join(short, "made")
	d, err := makeSocketDir(nested)
	if err != nil || filepath.Dir(d.path) != nested {
		t.Fatalf("%v, %v", d, err)
	}
	if n := len(d.path) + insideLength; n > maxSocketPath {
		t.Errorf("socket paths of %d bytes", n)
	}
	d.remove()
	d, err = makeSocketDir(filepath.Join(short, strings.Repeat("x", 100)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(d.path) + insideLength; n > maxSocketPath {
		t.Errorf("socket paths of %d bytes", n)
	}
	d.remove()
}

func TestPluginEnv(t *testing.T) {
	t.Setenv("GIVEN", "1=2")
	host := []string{"PATH=/bin", "SECRET=s", "LC_TIME=C", "CUDA_VISIBLE_DEVICES=1", "GOMAXPROCS=7", "broken", "HOME=/h", "HOME=/h2"}
	got := strings.Join(pluginEnv(host, []string{"GIVEN", "ABSENT_HERE", "PATH=/usr/bin", "NEW=", "NEW=x"}), " ")
	if want := "PATH=/usr/bin LC_TIME=C CUDA_VISIBLE_DEVICES=1 HOME=/h2 GIVEN=1=2 NEW=x"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
