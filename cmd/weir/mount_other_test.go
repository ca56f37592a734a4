//go:build !linux

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func canMount(t *testing.T) bool {
	t.Log("the script with a full disk is skipped: it mounts a tmpfs, which is Linux")
	return false
}

func mountTmpfs(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no tmpfs on this system") }
