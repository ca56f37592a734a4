package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
)

const inspectAbout = `Tells what a file is, by its content, and the sizes of its parts, reading little of it. --deep also reads circuits for their digests, whole
witnesses (their values are never shown), and the checksums of a prepared key.`

func inspectFlags() []cli.Flag {
	return flags([]cli.Flag{&cli.BoolFlag{Name: "deep", Usage: "read the whole file"}})
}

var inspectCommand = &cli.Command{
	Name: "inspect", Usage: "say what a file is", ArgsUsage: "FILE", Description: inspectAbout,
	Flags: inspectFlags(), Action: action(func(ctx context.Context, s *session) error { return inspect(ctx, s, false) }),
}

var keyInspectCommand = &cli.Command{
	Name: "inspect", Usage: "say what a key file is", ArgsUsage: "FILE", Description: inspectAbout,
	Flags: inspectFlags(), Action: action(func(ctx context.Context, s *session) error { return inspect(ctx, s, true) }),
}

func inspect(ctx context.Context, s *session, keysOnly bool) error {
	args, err := arguments(s.c, "FILE")
	if err != nil {
		return err
	}
	f, size, err := openFile("inspect", args[0])
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := keyfile.Inspect(ctx, f, size, args[0], s.c.Bool("deep"))
	err = errs.InFile(err, args[0])
	if err == nil && keysOnly && r.Key == nil && r.VerifyingKey == nil {
		err = errs.Mismatch(errs.InvalidFile, "inspect", "", "a key", r.Text).WithPath(args[0]).WithHint("see weir inspect for files of any kind")
	}
	if err != nil {
		if r != nil && !s.json {
			s.say("%s: %s, %s\n", oneLine(args[0]), r.Text, bytesText(r.Size))
		}
		return err
	}
	if s.json {
		s.object(struct {
			OK bool `json:"ok"`
			*keyfile.Report
		}{true, r})
		return nil
	}
	inspectTable(s, r)
	return nil
}

// inspectTable prints a report, a line a fact.
func inspectTable(s *session, r *keyfile.Report) {
	s.say("%s: %s, %s\n", oneLine(r.Name), r.Text, bytesText(r.Size))
	w := tabwriter.NewWriter(sayer{s.terminal}, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, oneLine(fmt.Sprintf(format, args...)))
	}
	if r.Protocol != "" {
		row("protocol", "%s", r.Protocol)
	}
	if k := r.Key; k != nil {
		row("domain", "2^%d", k.LogDomain)
		row("wires", "%d, of which %d public inputs and the one", k.Wires, k.Public)
		if k.Rows >= 0 {
			row("constraints", "%d", k.Rows)
		} else {
			row("constraints", "not told by this format")
		}
		row("points", "A %d, B %d, K %d, H %d", k.PointsA, k.PointsB, k.PointsK, k.PointsH)
		row("layout", "%s, H %s", k.RowOrder, k.Basis)
		if k.Matrices != "" {
			row("matrices", "%s", strings.Join(strings.Split(k.Matrices, ""), ", "))
		}
		if k.Insecure {
			row("INSECURE", "a development key: whoever made it can forge proofs")
		}
	} else if r.VerifyingKey != nil {
		row("public inputs", "%d", r.VerifyingKey.Public)
	}
	if c := r.Circuit; c != nil {
		if r.Key == nil {
			row("constraints", "%d", c.Rows)
			row("wires", "%d", c.Wires)
			row("public", "%d, of which %d outputs", c.Public, c.Outputs)
			row("private inputs", "%d", c.Private)
		}
		if c.Coeffs > 0 {
			row("terms", "A %d, B %d, C %d; %d distinct coefficients", c.NonZeroA, c.NonZeroB, c.NonZeroC, c.Coeffs)
		}
		if c.DigestAB != "" {
			row("digest A, B", "%s", c.DigestAB)
		}
		if c.DigestABC != "" {
			row("digest A, B, C", "%s", c.DigestABC)
		}
	}
	if r.Witness != nil {
		row("values", "%d", r.Witness.Values)
		if r.Witness.NonBits != nil {
			row("neither 0 nor 1", "%d", *r.Witness.NonBits)
		}
	}
	if r.Proofs > 0 {
		row("proofs", "%d", r.Proofs)
	}
	if len(r.Public) == 1 {
		row("public inputs", "%d", r.Public[0])
	} else if len(r.Public) > 1 {
		row("public inputs", "%d lists, the first of %d", len(r.Public), r.Public[0])
	}
	if r.Source != nil {
		row("made from", "%s", strings.TrimSpace(r.Source.Kind+" "+r.Source.Blake2b))
	}
	if r.Creator != "" {
		row("made by", "%s", r.Creator)
	}
	for _, c := range r.Ceremony {
		row("contribution", "%q%s", c.Name, map[bool]string{true: " (beacon)"}[c.Beacon])
	}
	for _, x := range r.Sections {
		row("section", "%s: %d at %d, %s", x.Name, x.Count, x.Offset, bytesText(x.Bytes))
	}
	if r.TrailingBytes > 0 {
		row("trailing", "%s after the last section (a ceremony's record; not used)", bytesText(r.TrailingBytes))
	}
	_ = w.Flush()
}
