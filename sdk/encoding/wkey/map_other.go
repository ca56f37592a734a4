//go:build !linux && !darwin

package wkey

import (
	"os"

	"github.com/weir-zk/weir/sdk/errs"
)

const (
	adviseDontNeed = 0
	adviseWillNeed = 0
)

func mapFile(*os.File, int64) ([]byte, error) {
	return nil, errs.New(errs.Unsupported, "map wkey", "this system has no file mappings that weir knows")
}

func unmap([]byte) error { return nil }

func madvise([]byte, int) {}
