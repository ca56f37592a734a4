package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/internal/atomicfile"
	"github.com/weir-zk/weir/sdk/errs"
)

// outputs are the files that a command writes: all of them or none. They are looked at before the work begins, so that an hour of proving does not end
// at a folder that is not there, and written when it is over.
type outputs struct {
	t       *terminal
	command string // for messages
	files   []*output
}

type output struct {
	flag   string // that named it, without dashes
	label  string // of the flag or argument in messages
	path   string // as given
	target string // behind links; empty: stdout
	direct bool   // a device or pipe: written in place
	write  func(io.Writer) error
}

// add registers an output; a path "-" or one that leads to stdout is stdout. Nothing is added for an empty path.
func (o *outputs) add(flag, path string) error { return o.addAs("--"+flag, flag, path) }

// addAs is add with another name in messages: that of an argument.
func (o *outputs) addAs(label, flag, path string) error {
	if path == "" {
		return nil
	}
	f := &output{flag: flag, label: label, path: path}
	switch path {
	case "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
	default:
		abs, err := filepath.Abs(path)
		if err != nil {
			return &errs.Error{Class: errs.InvalidArgument, Op: "write", Path: path, Err: err}
		}
		f.target = abs
		// Behind a link the file itself is replaced, not the link; a device stays what it is.
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			f.target = real
			st, err := os.Stat(real)
			f.direct = err == nil && !st.IsDir() && !st.Mode().IsRegular()
		} else if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			f.target = filepath.Join(dir, filepath.Base(abs))
		}
	}
	for _, g := range o.files {
		if g.target == f.target && !f.direct {
			return errs.New(errs.InvalidArgument, "write", "%s and %s lead to one file", g.label, f.label).WithPath(path)
		}
	}
	o.files = append(o.files, f)
	return nil
}

// check tries every output: its folder is there and can be written to, it is not a directory, and it is none of the inputs.
func (o *outputs) check(inputs ...string) error {
	for _, f := range o.files {
		if f.target == "" {
			if o.t.json {
				return usageError(o.command, "--json and %s both want stdout", f.label)
			}
			if stdoutClosed() {
				return errs.New(errs.InvalidArgument, "write", "stdout is closed").WithPath("stdout").WithHint("name a file, or leave stdout open")
			}
			continue
		}
		if f.direct {
			continue
		}
		if mine, err := os.Stat(f.target); err == nil {
			for _, in := range inputs {
				if st, err := os.Stat(in); in != "" && err == nil && os.SameFile(mine, st) {
					return errs.New(errs.InvalidArgument, "write", "%s would replace the input %s", f.label, in).WithPath(f.path)
				}
			}
		}
		a, err := atomicfile.Create(f.target, 0)
		if err != nil {
			return asNamed(err, f.path)
		}
		if err := a.Close(); err != nil {
			return errs.Wrap(err, "write "+f.path)
		}
	}
	return nil
}

// stdoutClosed reports whether the program was started without a stdout. Go's runtime then opens /dev/null for reading and writing in its place, which a
// shell's >/dev/null does not.
func stdoutClosed() bool {
	var out, null unix.Stat_t
	if unix.Fstat(1, &out) != nil {
		return true
	}
	mode, err := unix.FcntlInt(1, unix.F_GETFL, 0)
	return err == nil && mode&unix.O_ACCMODE == unix.O_RDWR && unix.Stat(os.DevNull, &null) == nil && out.Mode&unix.S_IFMT == unix.S_IFCHR && out.Rdev == null.Rdev
}

// onStdout reports whether an output goes to stdout, where then nothing else may go.
func (o *outputs) onStdout() bool {
	for _, f := range o.files {
		if f.target == "" {
			return true
		}
	}
	return false
}

// set says what is written to the output of a flag, if there is one.
func (o *outputs) set(flag string, write func(io.Writer) error) {
	for _, f := range o.files {
		if f.flag == flag {
			f.write = write
		}
	}
}

// commit writes all. Files are complete on disk before the first is put in place; on an error none is left behind.
func (o *outputs) commit() error {
	type ready struct {
		*atomicfile.File
		path string
	}
	var written []ready
	defer func() {
		for _, w := range written {
			w.Close()
		}
	}()
	for _, f := range o.files {
		if f.write == nil {
			continue
		}
		if f.target == "" {
			if err := f.write(o.t.out); err != nil {
				return err
			}
			continue
		}
		a, err := atomicfile.Create(f.target, 0)
		if err != nil {
			return asNamed(err, f.path)
		}
		written = append(written, ready{a, f.target})
		if !f.direct {
			o.t.aside.Store(a.Name(), true)
			defer o.t.aside.Delete(a.Name())
		}
		if err := f.write(a); err == nil && !f.direct {
			err = a.Sync()
			if err != nil {
				return writeError(err, f.path)
			}
		} else if err != nil {
			return writeError(err, f.path)
		}
	}
	for i, w := range written {
		if err := w.Commit(); err != nil {
			for _, done := range written[:i] {
				if st, serr := os.Lstat(done.path); serr == nil && st.Mode().IsRegular() {
					_ = os.Remove(done.path)
				}
			}
			return err
		}
	}
	return nil
}

// paths lists the outputs as the user named them, without stdout.
func (o *outputs) paths() map[string]string {
	out := map[string]string{}
	for _, f := range o.files {
		if f.target != "" {
			out[f.flag] = f.path
		}
	}
	return out
}

// asNamed puts the path as the user wrote it in the place of the one behind it.
func asNamed(err error, path string) error {
	var e *errs.Error
	if errors.As(err, &e) && e == err {
		c := *e
		c.Path = path
		return &c
	}
	return err
}

// writeError gives a failure of the file system its class and the user's path in place of a temporary name.
func writeError(err error, path string) error {
	var pe *os.PathError
	if !errors.As(err, &pe) {
		return err
	}
	e := &errs.Error{Class: errs.ClassOf(pe.Err), Op: "write", Path: path, Err: pe.Err}
	if e.Class == errs.Exhausted {
		e.Hint = "the disk is full, or a limit is reached; free space or choose another folder"
	}
	return e
}
