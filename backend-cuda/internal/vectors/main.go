// Command vectors writes test vectors for the programs that check kernels on a GPU: what the CPU backend and the SDK make of small circuits, in files that
// a C++ program reads without any library.
//
//	go run ./backend-cuda/internal/vectors -out DIR
//
// A file is a row of sections, each 16-byte aligned: name (16 bytes, NUL-padded), bytes of an element (u64), number of elements (u64), the elements. Numbers are
// little-endian, field elements 32 bytes in Montgomery form. Everything is the same at every run.
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/weir-zk/weir/internal/testfiles"
)

func main() {
	out := flag.String("out", "", "folder to write to")
	flag.Parse()
	if *out == "" {
		fmt.Fprintln(os.Stderr, "vectors: -out DIR is needed")
		os.Exit(1)
	}
	if err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "vectors:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	each := func(name string, make func() ([]section, error)) error {
		s, err := make()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f, err := os.Create(filepath.Join(dir, name+".wvec"))
		if err != nil {
			return err
		}
		if err := write(f, s); err != nil {
			_ = f.Close()
			return err
		}
		return f.Close()
	}
	for log := 0; log <= 13; log++ {
		if err := each(fmt.Sprintf("ntt-%02d", log), func() ([]section, error) { return transforms(ctx, log) }); err != nil {
			return err
		}
	}
	for _, c := range randomCases {
		if err := each("random-"+c.name, func() ([]section, error) { return c.sections(ctx) }); err != nil {
			return err
		}
	}
	for _, name := range testfiles.Small {
		if err := each("circom-"+name, func() ([]section, error) { return fixture(ctx, testfiles.Circom(name, "")) }); err != nil {
			return err
		}
	}
	return nil
}

type section struct {
	name string
	size int // bytes of an element
	data []byte
}

// of makes a section of a slice of numbers or field elements.
func of[T any](name string, v []T) section {
	var t T
	size := int(unsafe.Sizeof(t))
	if len(v) == 0 {
		return section{name, size, nil}
	}
	return section{name, size, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), size*len(v))}
}

func write(w io.Writer, sections []section) error {
	for _, s := range sections {
		var head [32]byte
		if len(s.name) >= 16 {
			return fmt.Errorf("section name %s is too long", s.name)
		}
		copy(head[:16], s.name)
		binary.LittleEndian.PutUint64(head[16:], uint64(s.size))
		binary.LittleEndian.PutUint64(head[24:], uint64(len(s.data)/s.size))
		if _, err := w.Write(head[:]); err != nil {
			return err
		}
		if _, err := w.Write(s.data); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, (16-len(s.data)%16)%16)); err != nil {
			return err
		}
	}
	return nil
}
