package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"syscall"

	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// fileID tells one state of one file from any other: a file that is written again has another.
type fileID struct {
	dev, ino    uint64
	size, mtime int64
}

// openInput opens a regular file read-only. Errors name the path.
func openInput(role, path string) (*os.File, fileID, error) {
	op := "open " + role
	fail := func(err error) (*os.File, fileID, error) {
		e := &errs.Error{Class: errs.ClassOf(err), Op: op, Path: path, Err: err}
		var pe *fs.PathError
		if errors.As(err, &pe) {
			e.Err = pe.Err
		}
		if e.Class == errs.Internal {
			e.Class = errs.InvalidFile
		}
		return nil, fileID{}, e
	}
	if path == "" {
		return nil, fileID{}, errs.New(errs.InvalidArgument, op, "no path given")
	}
	// O_NONBLOCK: opening a pipe must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return fail(err)
	}
	if !st.Mode().IsRegular() {
		f.Close()
		found := "something that is not a regular file"
		if st.IsDir() {
			found = "a directory"
		}
		return nil, fileID{}, errs.Mismatch(errs.InvalidFile, op, "", "a regular file", found).WithPath(path)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		f.Close()
		return fail(errors.New("no inode"))
	}
	return f, fileID{dev: uint64(sys.Dev), ino: sys.Ino, size: st.Size(), mtime: st.ModTime().UnixNano()}, nil
}

// inputs are the open files of one job. Partitions that name the same file share it.
type inputs struct {
	pool    *slab.Pool
	open    map[fileID]slab.Handle
	list    []contract.Input
	circuit fileID   // of the constraint system, if there is one
	sum     []string // identities, for the job's content digest
}

func newInputs(pool *slab.Pool) *inputs { return &inputs{pool: pool, open: map[fileID]slab.Handle{}} }

// add opens path, if any, as an input of partition (-1: of the job).
func (in *inputs) add(role, path string, partition int) error {
	if path == "" {
		return nil
	}
	f, id, err := openInput(role, path)
	if err != nil {
		return err
	}
	h, ok := in.open[id]
	if ok {
		f.Close()
	} else {
		if h, err = in.pool.AddFile(f); err != nil {
			return errs.InFile(err, path)
		}
		in.open[id] = h
	}
	if role == contract.RoleCircuit {
		in.circuit = id
	}
	in.list = append(in.list, contract.Input{Role: role, Name: path, Handle: h, Size: id.size, Partition: partition})
	in.sum = append(in.sum, fmt.Sprintf("%s %d %v", role, partition, id))
	return nil
}

// close gives the files back; nothing may use them any more.
func (in *inputs) close() error {
	var all []error
	for _, h := range in.open {
		all = append(all, in.pool.RemoveFile(h))
	}
	in.open = nil
	return errors.Join(all...)
}

// openJob checks what can be checked of a job without a plugin, and opens its files but for the key.
func openJob(pool *slab.Pool, job *Job) (*inputs, error) {
	bad := func(where string, expected, found any) (*inputs, error) {
		return nil, errs.Mismatch(errs.InvalidArgument, "job", where, expected, found)
	}
	switch {
	case job == nil:
		return bad("", "a job", "nil")
	case job.Priority < Low || job.Priority > Critical:
		return bad("priority", "low to critical", job.Priority)
	case len(job.Partitions) == 0:
		return bad("partitions", "at least one", 0)
	case job.Key == "":
		return bad("key", "a path", "nothing")
	case len(job.ID) > 256:
		return bad("id", "at most 256 bytes", len(job.ID))
	case job.Check > CheckOff:
		return bad("check", "auto, on or off", job.Check)
	}
	if v, ok := job.Options[checkOption]; ok {
		return bad("options", "no "+checkOption+": the job has a field for it", v)
	}
	in := newInputs(pool)
	fail := func(err error) (*inputs, error) {
		return nil, errors.Join(err, in.close())
	}
	for _, f := range []struct{ role, path string }{{contract.RoleCircuit, job.Circuit}, {contract.RoleSymbols, job.Symbols}} {
		if err := in.add(f.role, f.path, -1); err != nil {
			return fail(err)
		}
	}
	for i, p := range job.Partitions {
		where := fmt.Sprintf("partition %d", i)
		if (p.Witness == "") == (p.Program == "") {
			_ = in.close()
			return bad(where, "either a witness, or a program and its inputs", fmt.Sprintf("witness %q, program %q", p.Witness, p.Program))
		}
		if p.Program != "" && p.Inputs == "" {
			_ = in.close()
			return bad(where, "inputs for the program", "none")
		}
		for _, f := range []struct{ role, path string }{{contract.RoleWitness, p.Witness}, {contract.RoleProgram, p.Program}, {contract.RoleInputs, p.Inputs}} {
			if err := in.add(f.role, f.path, i); err != nil {
				return fail(err)
			}
		}
	}
	return in, nil
}

// content is a digest of all that decides a job's answer: the files by identity, and the options.
func (in *inputs) content(job *Job, key fileID) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %v %v %v %v\n", job.Kind, job.Backend, key, in.sum, job.Check, job.InsecureTestRandomness)
	for _, k := range slices.Sorted(maps.Keys(job.Options)) {
		fmt.Fprintf(h, "%q %q\n", k, job.Options[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}
