package kernels

import (
	"fmt"
	"os"
	"testing"
)

// buildDir holds the programs that the tests compile.
var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir-kernels-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}
