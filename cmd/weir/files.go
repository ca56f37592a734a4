package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// openFile opens a regular file for reading.
func openFile(op, path string) (*os.File, int64, error) {
	fail := func(class errs.Class, format string, args ...any) (*os.File, int64, error) {
		return nil, 0, errs.New(class, op, format, args...).WithPath(path)
	}
	if path == "" {
		return fail(errs.InvalidArgument, "the file name is empty")
	}
	// O_NONBLOCK: opening a pipe must not wait for a writer; it is refused below.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		var pe *os.PathError
		class := errs.ClassOf(err)
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, 0, &errs.Error{Class: class, Op: op, Path: path, Err: err}
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		_ = f.Close()
		return nil, 0, &errs.Error{Class: errs.InvalidArgument, Op: op, Path: path, Err: err}
	case st.IsDir():
		_ = f.Close()
		return fail(errs.InvalidArgument, "expected a file, found a directory")
	case !st.Mode().IsRegular():
		_ = f.Close()
		return fail(errs.InvalidArgument, "expected a regular file, found a pipe or device")
	}
	return f, st.Size(), nil
}

// maxSmall bounds files that are read whole: proofs and public inputs.
const maxSmall = snarkjs.MaxJSON

// readSmall reads a whole file, which may be a pipe (<(command)); - is stdin. A pipe may let wait for ever, so the waiting ends with ctx.
func readSmall(ctx context.Context, op, path string) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := readWhole(op, path)
		done <- result{b, err}
	}()
	select {
	case r := <-done:
		return r.b, r.err
	case <-ctx.Done():
		return nil, errs.Wrap(ctx.Err(), op)
	}
}

func readWhole(op, path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		st, err := os.Stat(path)
		if err == nil && (st.Mode()&os.ModeNamedPipe != 0 || st.Mode()&os.ModeCharDevice != 0) {
			in, err = os.Open(path)
		} else {
			in, _, err = openFile(op, path)
		}
		if err != nil {
			return nil, errs.InFile(err, path)
		}
		defer in.Close()
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSmall+1))
	switch {
	case err != nil:
		return nil, &errs.Error{Class: errs.InvalidFile, Op: op, Path: path, Err: err}
	case len(b) > maxSmall:
		return nil, errs.Mismatch(errs.InvalidFile, op, "size", fmt.Sprintf("at most %d bytes", maxSmall), "more").WithPath(path)
	case len(b) == 0:
		return nil, errs.New(errs.InvalidFile, op, "the file is empty").WithPath(path)
	}
	return b, nil
}

// readProofs reads proofs of snarkjs or bellman, by content.
func readProofs(ctx context.Context, path string) ([]groth16.Proof, error) {
	const op = "read proof"
	b, err := readSmall(ctx, op, path)
	if err != nil {
		return nil, err
	}
	var proofs []groth16.Proof
	switch kind := snarkjs.SniffBytes(b); {
	case kind == snarkjs.KindProof:
		proofs, _, err = snarkjs.ParseProofs(b)
	case len(b)%groth16.ProofSize == 0 && b[0]&0x80 != 0:
		proofs, err = bellman.ParseProofs(b)
	case kind == snarkjs.KindUnknown && len(bytes.TrimSpace(b)) > 0 && (bytes.TrimSpace(b)[0] == '{' || bytes.TrimSpace(b)[0] == '['):
		proofs, _, err = snarkjs.ParseProofs(b) // says what is missing
	default:
		found := fmt.Sprintf("%d bytes", len(b))
		if kind != snarkjs.KindUnknown {
			found = kind.String()
		}
		err = errs.Mismatch(errs.InvalidFile, op, "", "proofs as snarkjs' JSON or 192 bytes each", found)
	}
	if err == nil && len(proofs) == 0 {
		err = errs.New(errs.InvalidFile, op, "the list of proofs is empty")
	}
	return proofs, errs.InFile(err, path)
}

// readPublic reads the public inputs of one proof or of several.
func readPublic(ctx context.Context, path string, enc encoding) ([][]fr.Element, error) {
	const op = "read public inputs"
	b, err := readSmall(ctx, op, path)
	if err != nil {
		return nil, err
	}
	var out [][]fr.Element
	if enc == "decimal" {
		if out, _, err = snarkjs.ParsePublic(b); err != nil {
			if _, herr := parseHexPublic(b); herr == nil {
				err = withHint(errs.InFile(err, path), "these are hex digits: give --encoding hex-le")
			}
		}
	} else {
		out, err = parseHexPublic(b)
	}
	return out, errs.InFile(err, path)
}

// parseHexPublic reads a list, or a list of lists, of 64 hex digits, little-endian.
func parseHexPublic(b []byte) ([][]fr.Element, error) {
	const op = "read public inputs"
	var lists [][]string
	var list []string
	if json.Unmarshal(b, &list) == nil {
		lists = [][]string{list}
	} else if err := json.Unmarshal(b, &lists); err != nil {
		return nil, errs.Mismatch(errs.InvalidFile, op, "", "a JSON list of strings, or a list of such lists", err.Error())
	}
	out := make([][]fr.Element, len(lists))
	for i, l := range lists {
		out[i] = make([]fr.Element, len(l))
		for j, s := range l {
			raw, err := hex.DecodeString(s)
			if err == nil {
				out[i][j], err = groth16.ScalarFromBytes(raw)
			}
			if err != nil {
				return nil, errs.Mismatch(errs.InvalidFile, op, fmt.Sprintf("list %d, value %d", i, j), "64 hex digits, little-endian, below the group order", fmt.Sprintf("%.80q", s))
			}
		}
	}
	return out, nil
}

func writeJSON(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return &errs.Error{Class: errs.Internal, Op: "write JSON", Err: err}
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
