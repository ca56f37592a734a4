package plugin

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/sdk/errs"
)

// A socket directory is PARENT/weir-plugin-XXXXXXXX with mode 0700. The host that made it holds a lock (flock(2)) on
// the file "host" in it for as long as it lives, so one whose lock is free is a dead host's and may be swept. It gets
// its final name only when the lock is held; until then it is called weir-new-XXXXXXXX.
const (
	dirPrefix    = "weir-plugin-"
	newDirPrefix = "weir-new-"
	lockName     = "host"
	nameBytes    = 4

	// inside comes go-plugin's own directory and socket: /plugin-dir and /plugin, each with up to ten digits.
	insideLength = len("/plugin-dir") + 10 + len("/plugin") + 10
	// staleNew is the age at which a directory that never got its final name is swept.
	staleNew = time.Hour
)

type socketDir struct {
	path string
	lock *os.File
}

// makeSocketDir makes one in the first of the possible parents whose path is short enough, and sweeps that parent.
// parent is the wish of the configuration; empty means the system's directory for temporary files.
func makeSocketDir(parent string) (*socketDir, error) {
	var first error
	for _, p := range socketParents(parent) {
		p, err := filepath.Abs(p)
		if err != nil || len(p)+1+len(dirPrefix)+2*nameBytes+insideLength > maxSocketPath {
			continue
		}
		if p == parent {
			_ = os.MkdirAll(p, 0o700)
		}
		sweepSocketDirs(p)
		d, err := newSocketDir(p)
		if err == nil {
			return d, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errs.New(errs.InvalidArgument, "make socket directory", "every candidate path is too long for a socket")
	}
	return nil, first
}

func socketParents(wish string) []string {
	out := []string{wish, os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), fmt.Sprintf("/run/user/%d", os.Getuid()), "/tmp", "/var/tmp"}
	keep := out[:0]
	for _, p := range out {
		if p != "" {
			keep = append(keep, p)
		}
	}
	return keep
}

func newSocketDir(parent string) (*socketDir, error) {
	fail := func(err error) error {
		return &errs.Error{Class: errs.Unavailable, Op: "make socket directory", Path: parent, Err: err}
	}
	var random [nameBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fail(err)
	}
	name := hex.EncodeToString(random[:])
	unnamed := filepath.Join(parent, newDirPrefix+name)
	if err := os.Mkdir(unnamed, 0o700); err != nil {
		return nil, fail(err)
	}
	lock, err := os.OpenFile(filepath.Join(unnamed, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		_, err = lock.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		if err == nil {
			err = flock(lock)
		}
	}
	path := filepath.Join(parent, dirPrefix+name)
	if err == nil {
		err = os.Rename(unnamed, path)
	}
	if err != nil {
		if lock != nil {
			_ = lock.Close()
		}
		_ = os.RemoveAll(unnamed)
		return nil, fail(err)
	}
	return &socketDir{path: path, lock: lock}, nil
}

func (d *socketDir) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

func flock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// sweepSocketDirs removes what dead hosts of this user left in parent.
func sweepSocketDirs(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		named := isSocketDirName(e.Name(), dirPrefix)
		if !named && !isSocketDirName(e.Name(), newDirPrefix) {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || uint32(st.Mode)&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() {
			continue
		}
		info, err := e.Info()
		if err != nil || (!named && time.Since(info.ModTime()) < staleNew) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			if !named || os.IsNotExist(err) { // half swept, or never finished
				_ = os.RemoveAll(path)
			}
			continue
		}
		if flock(lock) == nil {
			_ = os.RemoveAll(path)
		}
		_ = lock.Close()
	}
}

func isSocketDirName(name, prefix string) bool {
	hexed, ok := strings.CutPrefix(name, prefix)
	if !ok || len(hexed) != 2*nameBytes {
		return false
	}
	_, err := hex.DecodeString(hexed)
	return err == nil
}
