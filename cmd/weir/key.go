package main

import (
	"context"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
	"github.com/weir-zk/weir/sdk/r1cs"
)

var keyCommand = &cli.Command{
	Name:        "key",
	Usage:       "import, export, inspect and check keys",
	Subcommands: []*cli.Command{keyImportCommand, keyExportCommand, keyInspectCommand, keyCheckCommand},
}

// tasks is how many goroutines work on a key in this process.
func (s *session) tasks() int {
	if s.cfg.Threads > 0 {
		return s.cfg.Threads
	}
	return runtime.GOMAXPROCS(0)
}

// circuitFlag is on every command that may need a circuit beside a key.
func circuitFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "circuit", Usage: usage}
}

func threadsFlag() cli.Flag {
	return &cli.StringFlag{Name: "threads", Usage: "threads to use: `N`"}
}

// openCircuit reads the constraint system of a path; nil for an empty one.
func (s *session) openCircuit(ctx context.Context, path string) (*r1cs.System, error) {
	if path == "" {
		return nil, nil
	}
	f, size, err := openFile("read circuit", path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sys, err := keyfile.OpenCircuit(ctx, f, size, s.tasks())
	return sys, errs.InFile(err, path)
}

// openKey opens a proving key with its points. The checksums of a prepared key are always looked at: what was damaged is not passed on.
func (s *session) openKey(ctx context.Context, path string, opt keyfile.Options) (*keyfile.Key, *os.File, error) {
	f, size, err := openFile("read key", path)
	if err != nil {
		return nil, nil, err
	}
	opt.Tasks = s.tasks()
	if kind, kerr := keyfile.Sniff(f, size); kerr == nil && kind == keyfile.WKey {
		opt.CheckSubgroup = true
	}
	k, err := keyfile.OpenKey(ctx, f, opt)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return k, f, nil
}

// warnInsecure is said whenever a development key is touched.
func (s *session) warnInsecure(path string) {
	s.warn("%s is a development key: whoever made it can forge proofs", path)
}

var keyImportCommand = &cli.Command{
	Name:      "import",
	Usage:     "check a key once and write it as a prepared key",
	ArgsUsage: "KEY WKEY",
	Description: `Reads a .zkey, .params or .wkey, checks every point (curve, subgroup, B1 against B2), the counts and, where a circuit is given, that it is the
key's, and writes a prepared key, which provers map instead of reading. A .params needs --circuit; a .zkey gains the C rows from it.

  weir key import circuit.zkey circuit.wkey
  weir key import --circuit circuit.r1cs circuit.params circuit.wkey`,
	Flags: flags([]cli.Flag{
		circuitFlag("constraint system `R1CS` of the key"),
		&cli.BoolFlag{Name: "trust", Usage: "leave out the subgroup checks: for a key that was checked before"},
		threadsFlag(),
	}),
	Action: action(keyImport),
}

func keyImport(ctx context.Context, s *session) error {
	args, err := arguments(s.c, "KEY", "WKEY")
	if err != nil {
		return err
	}
	src, size, err := openFile("import key", args[0])
	if err != nil {
		return err
	}
	defer src.Close()
	out := &outputs{t: s.terminal, command: commandPath(s.c)}
	if err := out.addAs("WKEY", "key", args[1]); err != nil {
		return err
	}
	if out.onStdout() || out.files[0].direct {
		return usageError("weir key import", "a prepared key must be written to a file")
	}
	if err := out.check(args[0], s.c.String("circuit")); err != nil {
		return err
	}
	sys, err := s.openCircuit(ctx, s.c.String("circuit"))
	if err != nil {
		return err
	}
	bar := s.progress("import", 1000)
	defer bar.end()
	v, _, _ := buildVersion()
	insecure := false
	out.set("key", func(w io.Writer) error {
		at, ok := w.(io.WriterAt)
		if !ok {
			return errs.New(errs.Internal, "import key", "%T cannot be written at an offset", w)
		}
		h, err := keyfile.Import(ctx, src, sys, at, keyfile.ImportOptions{Trust: s.c.Bool("trust"), Tasks: s.tasks(), Creator: "weir " + v,
			Progress: func(done, total int64) { bar.set("import", float64(done)/float64(max(1, total))) }})
		if h != nil {
			insecure = h.Shape.Insecure
		}
		return err
	})
	if err := out.commit(); err != nil {
		if sys == nil && strings.Contains(errs.HintOf(err), "--circuit") {
			return withHint(err, "give its circuit: weir key import --circuit CIRCUIT.r1cs KEY WKEY")
		}
		return err
	}
	bar.finish()
	if insecure {
		s.warnInsecure(args[1])
	}
	st, err := os.Stat(args[1])
	if err != nil {
		return errs.Wrap(err, "import key")
	}
	if s.json {
		s.object(map[string]any{"ok": true, "insecure": insecure, "bytes": st.Size(), "source_bytes": size, "files": map[string]string{"key": args[1]}})
		return nil
	}
	s.say("%s: prepared key, %s\n", oneLine(args[1]), bytesText(st.Size()))
	return nil
}
