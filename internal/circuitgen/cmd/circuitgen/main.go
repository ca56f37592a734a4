// Command circuitgen writes a circuit and its witness as circom's .r1cs and .wtns
// files:
//
//	circuitgen -kind sha256 -log2 20 -out dir
//
// prints the sizes and leaves dir/sha256.r1cs and dir/sha256.wtns. See package
// circuitgen for the kinds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-zk/weir/internal/circuitgen"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "circuitgen: error:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	kind                string
	size                string // which of the next three is given
	rows, blocks, log2  int
	public              int
	zero, one, minusOne float64
	seed                uint64
	out, name           string
	unsatisfied         bool
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	f := flag.NewFlagSet("circuitgen", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.kind, "kind", "sha256", "sha256, dense, mix, porep (mix with Filecoin's shares) or tiny")
	f.IntVar(&o.rows, "rows", 0, "number of rows; for sha256 an upper bound of the domain")
	f.IntVar(&o.blocks, "blocks", 0, "sha256: number of compressions")
	f.IntVar(&o.log2, "log2", 0, "fill (sha256: fit) a domain of 2^N rows, public rows included")
	f.IntVar(&o.public, "public", 1, "tiny: number of public wires")
	f.Float64Var(&o.zero, "zero", 0.552, "mix: share of wires that are 0")
	f.Float64Var(&o.one, "one", 0.306, "mix: share of wires that are 1")
	f.Float64Var(&o.minusOne, "minus-one", 0.139, "mix: share of wires that are -1")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the values")
	f.StringVar(&o.out, "out", ".", "folder to write to, made if it is missing")
	f.StringVar(&o.name, "name", "", "base name of the files (default: the kind)")
	f.BoolVar(&o.unsatisfied, "unsatisfied", false, "make one value of the witness wrong")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	given := 0
	f.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "rows", "blocks", "log2":
			o.size = f.Name
			given++
		}
	})
	switch {
	case given != 1:
		return o, errors.New("give one of -rows, -blocks and -log2")
	case o.size == "log2" && (o.log2 < 1 || o.log2 > 30):
		return o, fmt.Errorf("-log2 %d: want 1 to 30", o.log2)
	case o.size == "blocks" && o.kind != "sha256":
		return o, fmt.Errorf("-blocks does not go with -kind %s", o.kind)
	}
	if o.name == "" {
		o.name = o.kind
	}
	return o, nil
}

// circuit makes the circuit that the options ask for.
func (o options) circuit() (circuitgen.Circuit, error) {
	rows := func(public int) int {
		if o.size == "log2" {
			return circuitgen.FillDomain(o.log2, public)
		}
		return o.rows
	}
	var c circuitgen.Circuit
	switch o.kind {
	case "sha256":
		if o.size == "blocks" {
			c = circuitgen.SHA256{Blocks: o.blocks, Seed: o.seed}
			break
		}
		domain := o.rows
		if o.size == "log2" {
			domain = 1 << o.log2
		}
		s, err := circuitgen.SHA256ForRows(domain, o.seed)
		if err != nil {
			return nil, err
		}
		c = s
	case "dense":
		c = circuitgen.Dense{Rows: rows(1), Seed: o.seed}
	case "mix":
		c = circuitgen.Mix{Rows: rows(1), Zero: o.zero, One: o.one, MinusOne: o.minusOne, Seed: o.seed}
	case "porep":
		c = circuitgen.PoRepMix(rows(1), o.seed)
	case "tiny":
		c = circuitgen.Tiny{Rows: rows(o.public), Public: o.public, Seed: o.seed}
	default:
		return nil, fmt.Errorf("-kind %q: want sha256, dense, mix, porep or tiny", o.kind)
	}
	if o.unsatisfied {
		c = circuitgen.Unsatisfied(c)
	}
	return c, nil
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	c, err := o.circuit()
	if err != nil {
		return err
	}
	s, err := circuitgen.Measure(c)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	start := time.Now()
	r1cs, wtns, err := circuitgen.WriteFiles(o.out, o.name, c)
	if err != nil {
		return err
	}
	elapsed := time.Since(start)

	fmt.Fprintf(stdout, "rows %d, domain %d, wires %d, public %d\n", s.Constraints, s.Domain(), s.Wires, s.Public())
	fmt.Fprintf(stdout, "terms A %d, B %d, C %d; wires in A %d, in B %d\n", s.TermsA, s.TermsB, s.TermsC, s.WiresA, s.WiresB)
	fmt.Fprintf(stdout, "values 0: %.1f %%, 1: %.1f %%, -1: %.1f %%, others: %.1f %%\n",
		100*s.Share(s.Zero), 100*s.Share(s.One), 100*s.Share(s.MinusOne), 100*s.Share(s.Large))
	fmt.Fprintf(stdout, "%s %d bytes, %s %d bytes, written in %.2f s\n",
		filepath.ToSlash(r1cs), s.R1CSBytes(), filepath.ToSlash(wtns), s.WTNSBytes(), elapsed.Seconds())
	return nil
}
