package slab

import (
	"os"

	"github.com/weir-zk/weir/sdk/errs"
)

// createShared makes an unlinked temporary file of size bytes: darwin has no anonymous file that can be handed over
// and no seals. Good enough for work on a laptop.
func createShared(_ string, size int64) (*os.File, error) {
	f, err := os.CreateTemp("", "weir-slab-*")
	if err != nil {
		return nil, &errs.Error{Class: errs.Exhausted, Op: "make slab", Err: err}
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		_ = f.Close()
		return nil, &errs.Error{Class: errs.Exhausted, Op: "make slab", Err: err}
	}
	return f, nil
}

func checkShared(*os.File) error { return nil }

func adviseShared([]byte, bool) {}
