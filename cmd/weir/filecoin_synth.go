package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/synthetic"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/errs"
)

var filecoinSynthCommand = &cli.Command{
	Name:  "synth",
	Usage: "make a valid vanilla proof of a sector that nobody stored",
	Description: `For tests and measurements where there is no sealed sector: trees are hashed only where challenges look. The same --seed gives the same files.

  weir filecoin synth --proof porep-32g --seed 7 --out c1.json \
      --statement statement.json
  weir filecoin synth --proof window-32g --seed 7 --sectors 3 --out window
  weir filecoin synth --proof winning-32g --seed 7 --out winning
  weir filecoin synth --proof upd-32g --seed 7 --out update

porep- writes a Commit1 output. The others write a folder: case.json, the statement, and a vanilla-N.bincode for each sector of a PoSt, a partition-N.bincode for each
partition of an update.

Sectors of synthetic and non-interactive sealing proofs (--registered-proof) have to be sealed for real. That is done up to 512 MiB, in minutes.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "proof", Usage: "`KIND-SIZE`: porep-, window-, winning- or upd-, and 2k, 32g and the like"},
		&cli.Uint64Flag{Name: "seed", Usage: "derive the sector from this `N`"},
		&cli.StringFlag{Name: "out", Usage: "`FILE` of a Commit1 output, or folder of the others"},
		&cli.StringFlag{Name: "statement", Usage: "porep-: where the statement goes: `FILE`"},
		&cli.StringFlag{Name: "registered-proof", Usage: "porep-: `NAME|N` of another proof than the interactive one of version 1.1"},
		&cli.BoolFlag{Name: "bincode", Usage: "porep-: write the Commit1 output as bincode, not as JSON"},
		&cli.IntFlag{Name: "sectors", Value: 2, Usage: "window-: `N` sectors; a whole partition has 2349 at 32g"},
		&cli.StringFlag{Name: "api-version", Value: "1.2", Usage: "window-: how challenges are numbered: 1.0 or 1.2"},
	}),
	Action: plain(filecoinSynth),
}

// synthFlags are those that only one kind has.
var synthFlags = map[string]string{"statement": "porep", "registered-proof": "porep", "bincode": "porep", "sectors": "window", "api-version": "window"}

// synthesis is what a command makes.
type synthesis struct {
	size *sector.Size
	seed uint64
	out  *outputs
	// report is what --json prints, and say what people read.
	report map[string]any
	say    string
}

func filecoinSynth(ctx context.Context, s *session) error {
	c := s.c
	if _, err := arguments(c); err != nil {
		return err
	}
	proof, err := required(c, "proof")
	if err != nil {
		return err
	}
	path, err := required(c, "out")
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(proof, "-")
	size, err := sector.Named(name)
	if err != nil {
		return usageError(commandPath(c), "expected --proof as porep-32g, window-32g, winning-32g, upd-32g and the like, found %q", proof)
	}
	for flag, of := range synthFlags {
		if c.IsSet(flag) && kind != of {
			return usageError(commandPath(c), "flag --%s is for %s- proofs", flag, of)
		}
	}
	y := &synthesis{size: size, seed: c.Uint64("seed"), out: &outputs{t: s.terminal, command: commandPath(c)}}
	y.report = map[string]any{"ok": true, "proof": proof, "seed": y.seed}
	began := time.Now()
	switch kind {
	case "porep":
		err = y.poRep(ctx, s, path)
	case "window", "winning", "upd":
		err = y.inFolder(path, func() error {
			switch kind {
			case "window":
				return y.window(ctx, c, path)
			case "winning":
				return y.winning(ctx, path)
			}
			return y.update(ctx, path)
		})
	default:
		err = usageError(commandPath(c), "expected --proof as porep-, window-, winning- or upd- and a size, found %q", proof)
	}
	if err != nil {
		return err
	}
	if s.json {
		y.report["elapsed_ms"] = millis(time.Since(began))
		s.object(y.report)
		return nil
	}
	if !y.out.onStdout() {
		s.say("%s: %s, made in %s\n", oneLine(path), y.say, short(time.Since(began)))
	}
	return nil
}

func (y *synthesis) poRep(ctx context.Context, s *session, path string) error {
	c := s.c
	proof, err := y.registered(c)
	if err != nil {
		return err
	}
	if err := y.out.add("out", path); err != nil {
		return err
	}
	if err := y.out.add("statement", c.String("statement")); err != nil {
		return err
	}
	if err := y.out.check(); err != nil {
		return err
	}
	bar := s.progress("starting", 1000)
	defer bar.end()
	c1, stated, err := synthetic.PoRep(ctx, proof, y.seed, bar.set)
	if err != nil {
		return err
	}
	bar.end()
	form := vanilla.JSON
	if c.Bool("bincode") {
		form = vanilla.Bincode
	}
	y.out.set("out", func(w io.Writer) error { return c1.Write(w, form) })
	y.out.set("statement", func(w io.Writer) error { return writeJSON(w, stated) })
	y.report["registered_proof"], y.report["partitions"], y.report["files"] = proof.String(), len(c1.Partitions), y.out.paths()
	y.report["prover_id"], y.report["sector_id"] = stated.ProverID, stated.SectorID
	y.say = fmt.Sprintf("Commit1 output of %s, %s", proof, count(len(c1.Partitions), "partition"))
	return y.out.commit()
}

// registered is the proof that --registered-proof asks for.
func (y *synthesis) registered(c *cli.Context) (sector.SealProof, error) {
	given := c.String("registered-proof")
	if given == "" {
		for _, p := range sector.SealProofs() {
			if p.Size() == y.size && p.Version() == sector.V1_1 && p.Challenge() == sector.Interactive {
				return p, nil
			}
		}
		return 0, usageError(commandPath(c), "no sealing proof of %s is registered: expected porep-2k, -8m, -512m, -32g or -64g", y.size.Name)
	}
	var p sector.SealProof
	if n, err := strconv.ParseUint(given, 10, 32); err == nil {
		if p = sector.SealProof(n); !p.Valid() {
			return 0, usageError(commandPath(c), "expected --registered-proof below %d, found %d", len(sector.SealProofs()), n)
		}
	} else if p, err = sector.SealProofNamed(given); err != nil {
		return 0, err
	}
	if p.Size() != y.size {
		return 0, usageError(commandPath(c), "%s is not a proof of %s", p, y.size.Name)
	}
	return p, nil
}

// inFolder runs f with a folder, which is taken away again if f fails and it was not there before.
func (y *synthesis) inFolder(path string, f func() error) error {
	err := os.Mkdir(path, 0o777)
	made := err == nil
	if err != nil && !os.IsExist(err) {
		return writeError(err, path)
	}
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		return errs.New(errs.InvalidArgument, "write", "expected a folder, found a file").WithPath(path)
	}
	err = f()
	if err != nil && made {
		_ = os.Remove(path) // fails if somebody put something in
	}
	return err
}

func (y *synthesis) window(ctx context.Context, c *cli.Context, path string) error {
	version, ok := map[string]sector.Version{"1.0": sector.V1_0, "1.2": sector.V1_2}[c.String("api-version")]
	if !ok {
		return usageError(commandPath(c), "expected --api-version 1.0 or 1.2, found %q", c.String("api-version"))
	}
	answers, stated, err := synthetic.Window(ctx, y.size, version, c.Int("sectors"), y.seed)
	if err != nil {
		return err
	}
	return y.post(path, answers, stated)
}

func (y *synthesis) winning(ctx context.Context, path string) error {
	answer, stated, err := synthetic.Winning(ctx, y.size, y.seed)
	if err != nil {
		return err
	}
	return y.post(path, []*vanilla.PoSt{answer}, stated)
}

func (y *synthesis) post(path string, answers []*vanilla.PoSt, stated *synthetic.PoStCase) error {
	y.report["sectors"] = len(answers)
	y.say = fmt.Sprintf("answers of %s to a %s PoSt, %s", count(len(answers), "sector"), stated.Type, count(stated.Partitions, "partition"))
	return writeAnswers(y, path, "vanilla", stated, stated.Partitions, answers)
}

func (y *synthesis) update(ctx context.Context, path string) error {
	answers, stated, err := synthetic.Update(ctx, y.size, y.seed)
	if err != nil {
		return err
	}
	y.say = "answers of an updated sector, " + count(stated.Partitions, "partition")
	return writeAnswers(y, path, "partition", stated, stated.Partitions, answers)
}

// writeAnswers writes the files of a folder.
func writeAnswers[T interface {
	Write(io.Writer, vanilla.Form) error
}](y *synthesis, path, name string, stated any, partitions int, answers []T) error {
	files := []string{filepath.Join(path, "case.json")}
	for i := range answers {
		files = append(files, filepath.Join(path, fmt.Sprintf("%s-%d.bincode", name, i)))
	}
	for _, f := range files {
		if err := y.out.addAs("--out", f, f); err != nil {
			return err
		}
	}
	if err := y.out.check(); err != nil {
		return err
	}
	y.out.set(files[0], func(w io.Writer) error { return writeJSON(w, stated) })
	for i, a := range answers {
		y.out.set(files[i+1], func(w io.Writer) error { return a.Write(w, vanilla.Bincode) })
	}
	y.report["partitions"], y.report["files"] = partitions, files
	return y.out.commit()
}
