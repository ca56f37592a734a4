package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/errs"
)

func testApp() *cli.App {
	return newApp(&terminal{out: &checked{w: io.Discard}, err: io.Discard})
}

func TestArrange(t *testing.T) {
	for _, c := range []struct{ in, out string }{
		{"", "weir --help"},
		{"--help", "weir --help"},
		{"help", "weir --help"},
		{"help prove", "weir prove --help"},
		{"prove --help", "weir prove --help"},
		{"key -h", "weir key --help"},
		{"help key import", "weir key import --help"},
		{"--version", "weir version"},
		{"version", "weir version"},
		{"key export a b --format zkey", "weir key export --format=zkey -- a b"},
		{"key export a --format zkey b", "weir key export --format=zkey -- a b"},
		{"key --json export a --format=zkey b", "weir key export --json --format=zkey -- a b"},
		{"--json key export a b", "weir key export --json -- a b"},
		{"--config f verify --proof p --proof q", "weir verify --config=f --proof=p --proof=q"},
		{"inspect -- --json", "weir inspect -- --json"},
		{"inspect -", "weir inspect -- -"},
		{"inspect -q x", "weir inspect -q -- x"},
		{"prove --witness a,b --proof=x", "weir prove --witness=a,b --proof=x"},
		{"prove -proof x", "weir prove -proof=x"},
		{"prove --proof=--public", "weir prove --proof=--public"},
		{"prove --proof -x", "weir prove --proof=-x"},
	} {
		got, err := arrange(testApp(), append([]string{"weir"}, strings.Fields(c.in)...))
		if err != nil || !slices.Equal(got, strings.Fields(c.out)) {
			t.Errorf("%q becomes %q, %v; want %q", c.in, got, err, c.out)
		}
	}
}

func TestArrangeRefuses(t *testing.T) {
	for _, c := range []struct{ in, message, hint string }{
		{"prov", `unknown command "prov"`, "did you mean weir prove?"},
		{"xyzzy", `unknown command "xyzzy"`, "commands are prove"},
		{"key improt", `unknown command "improt"`, "did you mean weir key import?"},
		{"plugin serv", `unknown command "serv"`, "did you mean weir plugin serve?"},
		{"key", "expected a command", "weir key --help"},
		{"--json", "expected a command", ""},
		{"--prof x", "unknown flag --prof", ""},
		{"prove --prof x", "unknown flag --prof", "did you mean --proof?"},
		{"prove --qqqqqqqqq", "unknown flag --qqqqqqqqq", "weir prove --help"},
		{"prove --proof", "--proof needs a value", ""},
		{"prove --proof --public x", "--proof needs a value", ""},
		{"prove --proof a --proof b", "--proof is given twice", ""},
		{"prove --json --json", "--json is given twice", ""},
	} {
		_, err := arrange(testApp(), append([]string{"weir"}, strings.Fields(c.in)...))
		if errs.ExitCode(err) != errs.ExitUnusable || !strings.Contains(err.Error(), c.message) || !strings.Contains(errs.HintOf(err), c.hint) {
			t.Errorf("%q: %v, hint %q; want %q, hint %q", c.in, err, errs.HintOf(err), c.message, c.hint)
		}
	}
}

// Every command explains itself, every flag has a usage, and no name is taken twice.
func TestHelp(t *testing.T) {
	app := testApp()
	each(app, func(path []string, subs []*cli.Command, flags []cli.Flag) {
		seen := map[string]bool{}
		for _, f := range flags {
			for _, n := range f.Names() {
				if seen[n] {
					t.Errorf("%v: two flags --%s", path, n)
				}
				seen[n] = true
			}
			if d, ok := f.(cli.DocGenerationFlag); !ok || d.GetUsage() == "" {
				t.Errorf("%v: flag --%s has no usage", path, f.Names()[0])
			}
		}
		for _, c := range subs {
			if c.Usage == "" {
				t.Errorf("%v %s has no usage", path, c.Name)
			}
		}
		if len(path) > 0 && len(subs) == 0 {
			for _, f := range commonFlags() {
				if !seen[f.Names()[0]] {
					t.Errorf("%v lacks the common flag --%s", path, f.Names()[0])
				}
			}
		}
	})
}

func FuzzArrange(f *testing.F) {
	for _, s := range []string{"prove --key k", "key export a b --format zkey", "-- x", "--json=1 version", "help", "prove -", "prove --proof="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := arrange(testApp(), append([]string{"weir"}, strings.Fields(s)...))
		if err != nil && errs.ExitCode(err) != errs.ExitUnusable {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func TestAsksJSON(t *testing.T) {
	for in, want := range map[string]bool{"prove --json": true, "inspect -- --json": false, "version": false, "-json x": true, "verify --json=true": true} {
		if asksJSON(strings.Fields(in)) != want {
			t.Errorf("%q: want %v", in, want)
		}
	}
}
