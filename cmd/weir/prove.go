package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/eip2537"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

var proveCommand = &cli.Command{
	Name:  "prove",
	Usage: "make proofs and verify them",
	Description: `A job has one partition for each witness, and is answered with one proof for each, in the same order. No proof is written that does not verify
against the key and the job's own public inputs.

  weir prove --key circuit.zkey --witness witness.wtns --proof proof.json --public public.json
  weir prove --key k.wkey --witness w1.wtns --witness w2.wtns --proof out.bin --format bellman
  weir prove --key circuit.zkey --wasm circuit.wasm --input input.json --out proofs/

With --format snarkjs one proof is an object and several are a list; public inputs are a list, or a list of lists. With --format bellman a proof is
192 bytes and several follow each other. A bellman key (.params) needs --circuit.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "key", Usage: "proving `KEY`: .zkey, .wkey or .params"},
		&cli.StringFlag{Name: "circuit", Usage: "constraint system `R1CS`; needed with .params, and to check a witness of a .zkey"},
		&cli.StringSliceFlag{Name: "witness", Usage: "witness `WTNS`; once for each partition"},
		&cli.StringSliceFlag{Name: "wasm", Usage: "circom's witness program `WASM`; one for all inputs, or one for each"},
		&cli.StringSliceFlag{Name: "input", Usage: "inputs `JSON` for the witness program; once for each partition"},
		&cli.StringFlag{Name: "sym", Usage: "names of signals `SYM`, for messages about a witness"},
		&cli.StringFlag{Name: "proof", Usage: "where the proofs go: `FILE`, or - for stdout"},
		&cli.StringFlag{Name: "public", Usage: "where the public inputs go: `FILE`, or - for stdout"},
		&cli.StringFlag{Name: "out", Usage: "`FOLDER` for proof.json (proof.bin with --format bellman) and public.json; made if it is not there"},
		&cli.StringFlag{Name: "format", Value: "snarkjs", Usage: "`FORM` of the proofs: snarkjs, bellman or eip2537"},
		&cli.StringFlag{Name: "encoding", Value: "decimal", Usage: "`FORM` of the public inputs: decimal or hex-le"},
		&cli.StringFlag{Name: "deadline", Usage: "give up after this `TIME`, such as 90s or 10m (default: none)"},
		&cli.StringFlag{Name: "priority", Value: "normal", Usage: "`LEVEL`: low, normal, high or critical"},
		&cli.BoolFlag{Name: "check", Usage: "check the witness against the constraints; fails where no C rows are at hand"},
		&cli.BoolFlag{Name: "no-check", Usage: "do not check the witness; a bad one is then noticed when its proof does not verify"},
		&cli.StringFlag{Name: "insecure-test-randomness", Usage: "fix `R,S`, decimal: the proofs tell the witness; for tests only"},
	}, engineFlags()),
	Action: action(prove),
}

func prove(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		e := err.(*errs.Error)
		return e.WithHint("give --witness once for each file; see weir prove --help")
	}
	job, err := proveJob(s)
	if err != nil {
		return err
	}
	enc, err := encodingOf(s.c)
	if err != nil {
		return err
	}
	out, made, err := proveOutputs(s)
	if err != nil {
		return err
	}
	written := false
	defer func() {
		if made != "" && !written {
			_ = os.Remove(made) // empty, or it stays
		}
	}()
	inputs := []string{job.Key, job.Circuit, job.Symbols}
	for _, p := range job.Partitions {
		inputs = append(inputs, p.Witness, p.Program, p.Inputs)
	}
	if err := out.check(inputs...); err != nil {
		return err
	}
	switch { // witnesses are checked where C rows are at hand, unless the user wants otherwise
	case s.c.Bool("check"):
		job.Check = host.CheckOn
	case !s.cfg.CheckWitness:
		job.Check = host.CheckOff
	}
	if job.InsecureTestRandomness != nil {
		s.warn("--insecure-test-randomness: r and s are fixed, and the proofs give the witness away. For tests only.")
	}

	bar := s.progress("starting", len(nextStage)*len(job.Partitions))
	defer bar.end()
	var result *host.Result
	err = s.withEngine(ctx, func(c *host.Config) { c.TestRandomness = job.InsecureTestRandomness != nil }, &host.Listener{
		Timeline: func(i host.TimelineInfo) {
			if !i.Start && i.Err == nil {
				bar.step(nextStage[i.Stage])
			}
		},
	}, func(e *host.Engine) (err error) {
		result, err = e.Prove(ctx, job)
		return err
	})
	if err != nil {
		if errs.Is(err, errs.Deadline) && !job.Deadline.IsZero() && !time.Now().Before(job.Deadline) {
			return errs.New(errs.Deadline, "weir prove", "the deadline of %s has passed", s.c.String("deadline")).WithHint("give it more time, or leave --deadline out")
		}
		return err
	}
	bar.finish()

	write := proofWriter(s, result)
	out.set("proof", write)
	out.set("public", func(w io.Writer) error { return writePublic(w, result.Public, enc) })
	if err := out.commit(); err != nil {
		return err
	}
	written = true
	if result.Key.Insecure {
		s.warn("the key was made by a development set-up: whoever made it can forge proofs")
	}
	if s.json {
		s.object(proveJSON(job, result, out, enc))
		return nil
	}
	to := io.Writer(sayer{s.terminal})
	if out.onStdout() {
		if s.quiet {
			return nil
		}
		to = s.err
		fmt.Fprintln(to) // snarkjs' JSON ends without a line break
	}
	proveTable(to, result)
	return nil
}

// nextStage is what a partition does when a stage is over: the words of the progress bar.
var nextStage = map[string]string{"admission": "key", "key": "synthesis", "synthesis": "waiting", "queue": "proving", "consume": "proving", "device": "finishing", "finish": "verifying", "verify": "verified"}

// proveJob reads the flags that say what is to be proved.
func proveJob(s *session) (*host.Job, error) {
	c := s.c
	key, err := required(c, "key")
	if err != nil {
		return nil, err
	}
	job := &host.Job{Key: key, Circuit: c.String("circuit"), Symbols: c.String("sym"), Backend: s.cfg.Backend}
	if job.Priority, err = host.ParsePriority(c.String("priority")); err != nil {
		return nil, usageError("weir prove", "expected --priority low, normal, high or critical, found %q", c.String("priority"))
	}
	if text := c.String("deadline"); c.IsSet("deadline") {
		d, err := time.ParseDuration(text)
		if err != nil {
			e := usageError("weir prove", "expected --deadline as a number and a unit, found %q", text)
			if _, derr := time.ParseDuration(text + "s"); derr == nil {
				return nil, e.WithHint("did you mean --deadline %ss?", text)
			}
			return nil, e.WithHint("write 500ms, 90s, 10m or 2h")
		}
		if d <= 0 {
			return nil, usageError("weir prove", "--deadline %v has passed before the start", d)
		}
		job.Deadline = time.Now().Add(d)
	}
	witnesses, programs, inputs := c.StringSlice("witness"), c.StringSlice("wasm"), c.StringSlice("input")
	for _, l := range [][]string{witnesses, programs, inputs} {
		for _, p := range l {
			if p == "" {
				return nil, usageError("weir prove", "a file name is empty")
			}
		}
	}
	switch {
	case len(witnesses) > 0 && len(programs)+len(inputs) > 0:
		return nil, usageError("weir prove", "give --witness, or --wasm and --input, not both")
	case len(witnesses) > 0:
		for _, w := range witnesses {
			job.Partitions = append(job.Partitions, host.Partition{Witness: w})
		}
	case len(programs) == 0 && len(inputs) == 0:
		return nil, usageError("weir prove", "no witness: give --witness, or --wasm and --input")
	case len(inputs) == 0:
		return nil, usageError("weir prove", "--wasm needs --input: the inputs that the witness is computed from")
	case len(programs) == 0:
		return nil, usageError("weir prove", "--input needs --wasm: the program that computes the witness")
	case len(programs) != 1 && len(programs) != len(inputs):
		return nil, usageError("weir prove", "expected one --wasm, or one for each --input, found %d and %d", len(programs), len(inputs))
	default:
		for i, in := range inputs {
			job.Partitions = append(job.Partitions, host.Partition{Program: programs[min(i, len(programs)-1)], Inputs: in})
		}
	}
	switch f := c.String("format"); f {
	case "snarkjs", "bellman":
	case "eip2537":
		if len(job.Partitions) > 1 {
			return nil, usageError("weir prove", "--format eip2537 is for one proof, found %d witnesses", len(job.Partitions))
		}
	default:
		return nil, usageError("weir prove", "expected --format snarkjs, bellman or eip2537, found %q", f)
	}
	if c.Bool("check") && c.Bool("no-check") {
		return nil, usageError("weir prove", "--check and --no-check exclude each other")
	}
	if text := c.String("insecure-test-randomness"); text != "" {
		if job.InsecureTestRandomness, err = parseRandomness(text); err != nil {
			return nil, err
		}
	}
	return job, nil
}

func parseRandomness(text string) (*groth16.Randomness, error) {
	r, sText, ok := strings.Cut(text, ",")
	var out groth16.Randomness
	for _, x := range []struct {
		text string
		to   *fr.Element
	}{{r, &out.R}, {sText, &out.S}} {
		l, _, err := snarkjs.ParsePublic([]byte(`["` + strings.TrimSpace(x.text) + `"]`))
		if !ok || err != nil || len(l) != 1 || len(l[0]) != 1 {
			return nil, usageError("weir prove", "expected --insecure-test-randomness R,S with two decimal numbers below the group order")
		}
		*x.to = l[0][0]
	}
	return &out, nil
}

// proveOutputs reads the flags that say where results go. made is the folder of --out when it had to be made.
func proveOutputs(s *session) (out *outputs, made string, err error) {
	c := s.c
	proof, public := c.String("proof"), c.String("public")
	dir := c.String("out")
	if dir != "" {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			if err := os.Mkdir(dir, 0o777); err != nil {
				return nil, "", writeError(err, dir)
			}
			made = dir
		}
		if proof == "" {
			proof = filepath.Join(dir, "proof.json")
			if c.String("format") == "bellman" {
				proof = filepath.Join(dir, "proof.bin")
			}
		}
		if public == "" {
			public = filepath.Join(dir, "public.json")
		}
	}
	if proof == "" && public == "" && !s.json {
		return nil, "", usageError("weir prove", "no output: give --proof and --public, or --out, or --json")
	}
	out = &outputs{t: s.terminal, command: commandPath(s.c)}
	if err := out.add("proof", proof); err != nil {
		return nil, made, err
	}
	return out, made, out.add("public", public)
}

func proofWriter(s *session, result *host.Result) func(io.Writer) error {
	switch s.c.String("format") {
	case "bellman":
		return func(w io.Writer) error {
			_, err := w.Write(bellman.AppendProofs(nil, result.Proofs))
			return err
		}
	case "eip2537":
		return func(w io.Writer) error {
			return eip2537.WriteProof(w, result.VK, &result.Proofs[0], result.Public[0])
		}
	}
	return func(w io.Writer) error {
		if len(result.Proofs) == 1 {
			return snarkjs.WriteProof(w, &result.Proofs[0])
		}
		return snarkjs.WriteProofs(w, result.Proofs)
	}
}

func proveJSON(job *host.Job, r *host.Result, out *outputs, enc encoding) map[string]any {
	proofs := make([]string, len(r.Proofs))
	public := make([][]string, len(r.Proofs))
	parts := make([]map[string]any, len(r.Proofs))
	for i := range r.Proofs {
		proofs[i] = hex.EncodeToString(bellman.AppendProof(nil, &r.Proofs[i]))
		public[i] = enc.texts(r.Public[i])
		p := &r.Partitions[i]
		ms := map[string]float64{"total": millis(openTime(r) + p.Total)}
		for _, st := range stagesOf(p, openTime(r)) {
			ms[st.key] = millis(st.d)
		}
		steps := map[string]float64{}
		for _, st := range p.Steps {
			steps[st.Stage] = millis(st.Elapsed)
		}
		parts[i] = map[string]any{"partition": i, "backend": p.Backend, "device": p.Device, "attempts": p.Attempts, "constraints": p.NbConstraints, "wires": p.NbWires,
			"public_inputs": p.NbPublic, "witness_bytes": p.WitnessBytes, "circuit_digest": hex.EncodeToString(p.CircuitDigest[:]), "ms": ms, "steps_ms": steps}
	}
	return map[string]any{"ok": true, "job": r.JobID, "verified": true, "insecure": r.Insecure, "elapsed_ms": millis(r.Elapsed), "proofs": proofs, "public": public,
		"partitions": parts, "memory": memoryJSON(&r.Peak), "files": out.paths()}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// encoding is how public inputs are written: decimal strings, or 64 hex digits little-endian.
type encoding string

func encodingOf(c *cli.Context) (encoding, error) {
	switch e := c.String("encoding"); e {
	case "decimal", "hex-le":
		return encoding(e), nil
	default:
		return "", usageError(commandPath(c), "expected --encoding decimal or hex-le, found %q", e)
	}
}

func (e encoding) texts(list []fr.Element) []string {
	out := make([]string, len(list))
	for i := range list {
		if e == "hex-le" {
			out[i] = hex.EncodeToString(groth16.ScalarBytes(&list[i]))
		} else {
			out[i] = list[i].Text(10)
		}
	}
	return out
}

// writePublic writes the inputs of one proof as a list, those of several as a list of lists.
func writePublic(w io.Writer, public [][]fr.Element, enc encoding) error {
	if enc == "decimal" {
		if len(public) == 1 {
			return snarkjs.WritePublic(w, public[0])
		}
		return snarkjs.WritePublicLists(w, public)
	}
	if len(public) == 1 {
		return writeJSON(w, enc.texts(public[0]))
	}
	all := make([][]string, len(public))
	for i := range public {
		all[i] = enc.texts(public[i])
	}
	return writeJSON(w, all)
}
