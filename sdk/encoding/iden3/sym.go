package iden3

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/r1cs"
)

const (
	// maxSymLine bounds a line of a .sym file: far longer than any signal's name.
	maxSymLine = 1 << 16
	// maxNames bounds the names kept for one wire.
	maxNames = 8
)

// Symbol is one line of a .sym file: a signal of the source.
type Symbol struct {
	Label     uint64
	Wire      int64 // -1: optimised away
	Component int64
	Name      string // "main.adder[3].out"
}

// Symbols yields the lines of a .sym file (label,wire,component,name). After an error nothing follows. Lines are bounded at 64 KiB.
func Symbols(r io.Reader) iter.Seq2[Symbol, error] {
	return func(yield func(Symbol, error) bool) {
		sc := bufio.NewScanner(r)
		sc.Buffer(make([]byte, 0, 4096), maxSymLine)
		line := 0
		for sc.Scan() {
			line++
			s, err := parseSymbol(sc.Text(), line)
			if err != nil {
				yield(Symbol{}, err)
				return
			}
			if !yield(s, nil) {
				return
			}
		}
		switch err := sc.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(Symbol{}, badSym(line+1, fmt.Sprintf("a line of at most %d bytes", maxSymLine), "a longer one"))
		case err != nil:
			yield(Symbol{}, errs.Wrap(err, "read .sym"))
		}
	}
}

func badSym(line int, expected, found string) error {
	return errs.Mismatch(errs.InvalidFile, "read .sym", fmt.Sprintf("line %d", line), expected, found)
}

func parseSymbol(text string, line int) (Symbol, error) {
	clip := func(s string) string {
		if len(s) > 80 {
			return strconv.Quote(s[:80]) + "..."
		}
		return strconv.Quote(s)
	}
	f := strings.SplitN(text, ",", 4)
	if len(f) != 4 || f[3] == "" {
		return Symbol{}, badSym(line, "label,wire,component,name", clip(text))
	}
	var s Symbol
	var errLabel, errWire, errComponent error
	s.Label, errLabel = strconv.ParseUint(f[0], 10, 64)
	s.Wire, errWire = strconv.ParseInt(f[1], 10, 64)
	s.Component, errComponent = strconv.ParseInt(f[2], 10, 64)
	if errors.Join(errLabel, errWire, errComponent) != nil || s.Wire < -1 || s.Wire > 1<<32-1 {
		return Symbol{}, badSym(line, "label,wire,component,name", clip(text))
	}
	s.Name = strings.Clone(f[3])
	return s, nil
}

// Names finds the names of the given wires, at most 8 a wire, in one pass over the file. Memory is that of the answer. A wire without a line has no entry.
func Names(r io.Reader, wires []uint32) (map[uint32][]string, error) {
	want := make(map[uint32][]string, len(wires))
	for _, w := range wires {
		want[w] = nil
	}
	for s, err := range Symbols(r) {
		if err != nil {
			return nil, err
		}
		if s.Wire < 0 {
			continue
		}
		if names, ok := want[uint32(s.Wire)]; ok && len(names) < maxNames {
			want[uint32(s.Wire)] = append(names, s.Name)
		}
	}
	for w, names := range want {
		if names == nil {
			delete(want, w)
		}
	}
	return want, nil
}

// RowNames finds the names of the wires in one row of a system: what a message about a violated constraint shows. The wires come in
// ascending order; wire 0, the one, has no name.
func RowNames(r io.Reader, s *r1cs.System, row int) (wires []uint32, names map[uint32][]string, err error) {
	if row < 0 || row >= s.NbConstraints() {
		return nil, nil, errs.Mismatch(errs.InvalidArgument, "read .sym", "row", fmt.Sprintf("a row below %d", s.NbConstraints()), row)
	}
	ms := []*r1cs.Matrix{&s.A, &s.B}
	if s.HasC {
		ms = append(ms, &s.C)
	}
	for _, m := range ms {
		w, _ := m.Row(row)
		wires = append(wires, w...)
	}
	slices.Sort(wires)
	wires = slices.Compact(wires)
	if len(wires) > 0 && wires[0] == 0 {
		wires = wires[1:]
	}
	names, err = Names(r, wires)
	return wires, names, err
}
