package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

func canMount(t *testing.T) bool {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Logf("the script with a full disk is skipped: mounting a tmpfs: %v", err)
		return false
	}
	_ = unix.Unmount(dir, 0)
	return true
}

// mountTmpfs is "tmpfs DIR SIZE": a file system that is full soon.
func mountTmpfs(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}
