// Package atomicfile writes files so that a reader, or a crash, sees the old content or the new, never a part:
// write aside in the same folder, fsync, rename, fsync the folder.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/weir-zk/weir/sdk/errs"
)

// File is a file being written aside. Commit puts it in place; Close without Commit removes it.
type File struct {
	*os.File
	path string
	done bool
}

// Create opens a temporary file beside path, with permission 0666 less the umask as os.Create, or the mode given.
// A path that is a directory is refused at once, not at Commit.
func Create(path string, mode os.FileMode) (*File, error) {
	st, err := os.Stat(path)
	if err == nil && st.IsDir() {
		return nil, errs.Mismatch(errs.InvalidArgument, "write", "", "a file", "a directory").WithPath(path)
	}
	// A device or pipe (/dev/stdout, /dev/null) is written in place: renaming over it would replace the device.
	if err == nil && !st.Mode().IsRegular() {
		// Without O_NONBLOCK the opening of a pipe that nobody reads would wait for ever, deaf to cancellation.
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, syscall.ENXIO) {
			return nil, errs.Mismatch(errs.InvalidArgument, "write", "", "a file, or a pipe that somebody reads", "a pipe without a reader").WithPath(path)
		}
		if err != nil {
			return nil, classify(err, path)
		}
		return &File{File: f, path: "", done: false}, nil
	}
	if mode == 0 {
		mode = 0o666 &^ umask()
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, classify(err, path)
	}
	if err := f.Chmod(mode); err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, classify(err, path)
	}
	return &File{File: f, path: path}, nil
}

// umask is the process's: the system has no call that only reads it.
func umask() os.FileMode {
	maskMu.Lock()
	defer maskMu.Unlock()
	m := syscall.Umask(0o077)
	syscall.Umask(m)
	return os.FileMode(m)
}

var maskMu sync.Mutex

// Commit syncs the file and renames it into place.
func (f *File) Commit() error {
	if f.done {
		return errs.New(errs.Internal, "write "+f.path, "committed twice")
	}
	f.done = true
	if f.path == "" {
		return f.File.Close()
	}
	err := f.File.Sync()
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return classify(err, f.path)
	}
	if d, derr := os.Open(filepath.Dir(f.path)); derr == nil {
		// Some file systems cannot sync a directory; the rename is done all the same.
		_ = d.Sync()
		d.Close()
	}
	return nil
}

// Close gives the file up unless Commit was called; safe to defer.
func (f *File) Close() error {
	if f.done {
		return nil
	}
	f.done = true
	err := f.File.Close()
	if f.path != "" {
		os.Remove(f.Name())
	}
	return err
}

// Write writes a whole small file.
func Write(path string, data []byte, mode os.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.File.Write(data); err != nil {
		return classify(err, path)
	}
	return f.Commit()
}

func classify(err error, path string) error {
	e := &errs.Error{Class: errs.ClassOf(err), Op: "write", Path: path}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the temporary name would only confuse
	}
	e.Err = err
	switch {
	case errors.Is(err, syscall.ENOSPC):
		e.Class, e.Hint = errs.Exhausted, "the disk is full; free space or choose another folder"
	case errs.Is(err, errs.NotFound):
		e.Hint = "the folder does not exist; make it first"
	}
	return e
}
