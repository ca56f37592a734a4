package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		args string
		want string // begin of the output
		name string // of the files
	}{
		{"-kind sha256 -blocks 1", "rows 29298, domain 32768, wires 29051, public 2\n", "sha256"},
		{"-log2 15", "rows 29298, domain 32768, wires 29051, public 2\n", "sha256"},
		{"-rows 58341 -name two", "rows 58338, domain 65536, wires 57843, public 2\n", "two"},
		{"-kind dense -log2 10", "rows 1022, domain 1024, wires 1025, public 1\n", "dense"},
		{"-kind dense -rows 1023", "rows 1023, domain 2048, wires 1026, public 1\n", "dense"},
		{"-kind mix -rows 100 -zero 1 -one 0 -minus-one 0", "rows 100, domain 128, wires 105, public 1\n", "mix"},
		{"-kind porep -log2 8 -seed 3 -unsatisfied", "rows 254, domain 256, wires 259, public 1\n", "porep"},
		{"-kind tiny -rows 0 -public 0", "rows 0, domain 2, wires 2, public 0\n", "tiny"},
		{"-kind tiny -log2 4 -public 5", "rows 10, domain 16, wires 16, public 5\n", "tiny"},
	} {
		dir := filepath.Join(t.TempDir(), "made")
		var out strings.Builder
		if err := run(append(strings.Fields(tc.args), "-out", dir), &out, io.Discard); err != nil {
			t.Errorf("%s: %v", tc.args, err)
			continue
		}
		if !strings.HasPrefix(out.String(), tc.want) {
			t.Errorf("%s: output\n%swant it to begin with\n%s", tc.args, &out, tc.want)
		}
		for _, ext := range []string{".r1cs", ".wtns"} {
			if st, err := os.Stat(filepath.Join(dir, tc.name+ext)); err != nil || st.Size() < 100 {
				t.Errorf("%s: %s: error %v, or too small", tc.args, ext, err)
			}
		}
	}
}

func TestRunErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "one of -rows, -blocks and -log2",
		"-rows 1 -log2 2":          "one of -rows, -blocks and -log2",
		"-rows 1 extra":            `unexpected argument "extra"`,
		"-log2 31":                 "want 1 to 30",
		"-log2 0":                  "want 1 to 30",
		"-log2 -1":                 "want 1 to 30",
		"-kind dense -blocks 1":    "-blocks does not go with -kind dense",
		"-kind other -rows 1":      `-kind "other"`,
		"-rows 1000":               "at least 29301 rows",
		"-blocks 0":                "expected 1 to",
		"-blocks -1":               "expected 1 to",
		"-kind dense -rows 0":      "dense rows",
		"-kind mix -rows 1 -one 2": "mix shares",
		"-nosuch":                  "flag provided but not defined",
	} {
		dir := filepath.Join(t.TempDir(), "made")
		err := run(append([]string{"-out", dir}, strings.Fields(args)...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", args, err, want)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: the folder was made", args)
		}
	}
}
