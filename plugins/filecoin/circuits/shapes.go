package circuits

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weir-zk/weir/internal/atomicfile"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// shapesVersion is part of the files' names: it changes whenever a circuit does, so that no file of another circuit is taken for it.
const shapesVersion = 1

// Shapes is a folder of shape files, one a circuit. A file is written when its circuit is first wanted, and is only read from then on; several processes may do so.
type Shapes struct{ Dir string }

// UserShapes is weir/shapes in the user's cache folder.
func UserShapes() (Shapes, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Shapes{}, &errs.Error{Class: errs.InvalidArgument, Op: "recorded circuits", Err: err}
	}
	return Shapes{filepath.Join(dir, "weir", "shapes")}, nil
}

// Path is the file of a circuit.
func (s Shapes) Path(id string) string {
	return filepath.Join(s.Dir, fmt.Sprintf("filecoin-%s.v%d.shape", id, shapesVersion))
}

// Has says whether the circuit's file is there, whole, and of the circuit's sizes.
func (s Shapes) Has(ctx context.Context, id string) bool {
	c, err := Blank(id)
	if err != nil {
		return false
	}
	n, err := circuit.Measure(ctx, c)
	if err != nil {
		return false
	}
	f, err := s.existing(id, n)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// Open maps the circuit's file, and writes it before if it is not there or is damaged. What it takes then is in docs/benchmarks/filecoin.md: a minute for the largest.
func (s Shapes) Open(ctx context.Context, id string) (*circuit.ShapeFile, error) {
	c, err := Blank(id)
	if err != nil {
		return nil, err
	}
	n, err := circuit.Measure(ctx, c)
	if err != nil {
		return nil, err
	}
	f, err := s.existing(id, n)
	if err == nil || (!errs.Is(err, errs.InvalidFile) && !errors.Is(err, fs.ErrNotExist)) {
		return f, err
	}
	if err := os.MkdirAll(s.Dir, 0o777); err != nil {
		return nil, errs.InFile(errs.Wrap(err, "record circuit"), s.Dir)
	}
	out, err := atomicfile.Create(s.Path(id), 0)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if _, err := circuit.WriteShape(ctx, out.File, c); err != nil {
		return nil, errs.InFile(err, s.Path(id))
	}
	if err := out.Commit(); err != nil {
		return nil, err
	}
	return s.existing(id, n)
}

// existing maps a file that is there.
func (s Shapes) existing(id string, n circuit.Counts) (*circuit.ShapeFile, error) {
	f, err := circuit.MapShape(s.Path(id))
	if err != nil {
		return nil, err
	}
	if got := f.Counts(); got != n {
		_ = f.Close()
		return nil, errs.Mismatch(errs.InvalidFile, "recorded circuit", "sizes", fmt.Sprintf("%+v", n), fmt.Sprintf("%+v", got)).WithPath(s.Path(id))
	}
	return f, nil
}
