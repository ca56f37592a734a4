package iden3

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/sdk/errs"
)

func TestSymbols(t *testing.T) {
	raw := testfiles.Fixture(t, "publics100", "circuit.sym")
	r1, err := openR1CS(testfiles.Fixture(t, "publics100", "circuit.r1cs"))
	if err != nil {
		t.Fatal(err)
	}
	// The label map of the .r1cs and the .sym say the same.
	var labels []uint64
	for l, err := range r1.Labels() {
		if err != nil {
			t.Fatal(err)
		}
		labels = append(labels, l)
	}
	n, gone := 0, 0
	for s, err := range Symbols(bytes.NewReader(raw)) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if s.Wire < 0 {
			gone++
			continue
		}
		if labels[s.Wire] != s.Label && s.Wire != 0 {
			t.Errorf("wire %d has label %d in the .r1cs, %d in the .sym", s.Wire, labels[s.Wire], s.Label)
		}
	}
	if n != 410 || gone != 4 {
		t.Errorf("%d signals, %d optimised away", n, gone)
	}
	names, err := Names(bytes.NewReader(raw), []uint32{1, 2, 4, 1000})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 3 || !slices.Equal(names[1], []string{"main.inner"}) || !slices.Equal(names[4], []string{"main.x[0]"}) {
		t.Errorf("%v", names)
	}
}

func TestRowNames(t *testing.T) {
	s, err := readR1CS(testfiles.Fixture(t, "multiplier", "circuit.r1cs"))
	if err != nil {
		t.Fatal(err)
	}
	sym := testfiles.Fixture(t, "multiplier", "circuit.sym")
	wires, names, err := RowNames(bytes.NewReader(sym), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(wires, []uint32{2, 3, 5}) || names[2][0] != "main.a" || names[3][0] != "main.b" || names[5][0] != "main.t" {
		t.Errorf("%v %v", wires, names)
	}
	for _, row := range []int{-1, s.NbConstraints()} {
		if _, _, err := RowNames(bytes.NewReader(sym), s, row); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("row %d: %v", row, err)
		}
	}
}

func TestSymRefuses(t *testing.T) {
	long := strings.Repeat("x", maxSymLine)
	for name, tc := range map[string]struct{ text, where string }{
		"three fields":       {"1,1,0,a\n2,2,0\n", "line 2"},
		"no name":            {"1,1,0,\n", "line 1"},
		"word for a label":   {"x,1,0,a", "line 1"},
		"negative label":     {"-1,1,0,a", "line 1"},
		"wire -2":            {"1,-2,0,a", "line 1"},
		"wire 2^32":          {"1,4294967296,0,a", "line 1"},
		"wire 2^64":          {"1,18446744073709551616,0,a", "line 1"},
		"empty line":         {"1,1,0,a\n\n", "line 2"},
		"component is empty": {"1,1,,a\n", "line 1"},
		"a long line":        {"1,1,0,a\n1,1,0," + long + "\n", "line 2"},
		"binary":             {"\x00\x01\x02", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			if n := allocated(func() { _, err = Names(strings.NewReader(tc.text), []uint32{1}) }); n > 1<<20 {
				t.Errorf("%d bytes allocated", n)
			}
			wantClass(t, err, errs.InvalidFile, tc.where)
		})
	}
	for _, ok := range []string{"", "1,1,0,a", "1,-1,0,main.a,b\r\n", "18446744073709551615,4294967295,-1,z\n"} {
		if _, err := Names(strings.NewReader(ok), []uint32{1}); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
}

// A wire with very many names costs no more than a few.
func TestNamesAreBounded(t *testing.T) {
	names, err := Names(strings.NewReader(strings.Repeat("1,7,0,main.alias\n", 1000)), []uint32{7})
	if err != nil || len(names[7]) != maxNames {
		t.Errorf("%d names, %v", len(names[7]), err)
	}
}
