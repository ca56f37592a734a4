package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/sdk/encoding/eip2537"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
)

var keyExportCommand = &cli.Command{
	Name:      "export",
	Usage:     "write a key in another format",
	ArgsUsage: "KEY FILE",
	Description: `Formats:
  zkey     proving key of snarkjs
  params   proving key of bellman; bellman is another name for it
  vkey     verifying key of snarkjs, verification_key.json
  vk       verifying key of bellman
  eip2537  verifying key for Ethereum's BLS12-381 precompiles; with --proof and --public that proof instead

  weir key export --format bellman c.wkey c.params
  weir key export --format vkey c.wkey verification_key.json
  weir key export --format eip2537 --proof proof.json --public public.json verification_key.json calldata.json

The last three formats are written from a verifying key too. FILE may be - for stdout.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "format", Usage: "zkey, params, bellman, vkey, vk or eip2537"},
		circuitFlag("constraint system `R1CS`, for a key that does not carry it"),
		&cli.StringFlag{Name: "proof", Usage: "with --format eip2537: a proof `FILE` to convert"},
		&cli.StringFlag{Name: "public", Usage: "with --proof: its public inputs `JSON`"},
		&cli.StringFlag{Name: "encoding", Value: "decimal", Usage: "`FORM` of the public inputs: decimal or hex-le"},
		threadsFlag(),
	}),
	Action: action(keyExport),
}

// exportFormats are the names that --format takes.
var exportFormats = map[string]keyfile.Kind{"zkey": keyfile.ZKey, "params": keyfile.Params, "bellman": keyfile.Params, "vkey": keyfile.VKJSON, "vk": keyfile.VK, "eip2537": keyfile.EIP2537}

func keyExport(ctx context.Context, s *session) error {
	args, err := arguments(s.c, "KEY", "FILE")
	if err != nil {
		return err
	}
	name, err := required(s.c, "format")
	if err != nil {
		return err
	}
	format, ok := exportFormats[name]
	if !ok {
		return usageError("weir key export", "expected --format zkey, params, bellman, vkey, vk or eip2537, found %q", name)
	}
	proof, public := s.c.String("proof"), s.c.String("public")
	if (proof != "" || public != "") && format != keyfile.EIP2537 {
		return usageError("weir key export", "--proof and --public are for --format eip2537")
	}
	if proof == "" && public != "" {
		return usageError("weir key export", "--public needs --proof")
	}
	enc, err := encodingOf(s.c)
	if err != nil {
		return err
	}
	out := &outputs{t: s.terminal, command: commandPath(s.c)}
	if err := out.addAs("FILE", "file", args[1]); err != nil {
		return err
	}
	if err := out.check(args[0], s.c.String("circuit"), proof, public); err != nil {
		return err
	}

	insecure := false
	switch format {
	case keyfile.ZKey, keyfile.Params:
		sys, err := s.openCircuit(ctx, s.c.String("circuit"))
		if err != nil {
			return err
		}
		key, file, err := s.openKey(ctx, args[0], keyfile.Options{Circuit: sys})
		if err != nil {
			return err
		}
		defer file.Close()
		defer key.Close()
		insecure = key.Insecure
		out.set("file", func(w io.Writer) error { return keyfile.Export(ctx, key, format, w, s.tasks()) })
	default:
		vk, err := readVerifyingKey(args[0])
		if err != nil {
			return err
		}
		if insecure, err = keyIsInsecure(ctx, args[0]); err != nil {
			return err
		}
		write := func(w io.Writer) error { return keyfile.ExportVerifyingKey(vk, format, w) }
		if proof != "" {
			if write, err = exportProof(ctx, vk, proof, public, enc); err != nil {
				return err
			}
		}
		out.set("file", write)
	}
	if err := out.commit(); err != nil {
		return errs.InFile(err, args[0])
	}
	if insecure {
		s.warnInsecure(args[0])
		if format != keyfile.ZKey && proof == "" {
			s.warn("this format has no place for the mark of a development key: who uses %s is not warned", args[1])
		}
	}
	if s.json {
		s.object(map[string]any{"ok": true, "format": name, "insecure": insecure, "files": out.paths()})
		return nil
	}
	if !out.onStdout() {
		s.say("%s: %s\n", oneLine(args[1]), exportText(format, proof != ""))
	}
	return nil
}

func exportText(format keyfile.Kind, proof bool) string {
	switch {
	case proof:
		return "proof and inputs of the precompiles (EIP-2537)"
	case format == keyfile.EIP2537:
		return "verifying key for the precompiles (EIP-2537)"
	}
	return format.Text()
}

// exportProof converts a proof, after it was verified: the precompiles' answer to another costs money.
func exportProof(ctx context.Context, vk *groth16.VerifyingKey, proof, public string, enc encoding) (func(io.Writer) error, error) {
	paths := []string{public}
	if public == "" {
		paths = nil
	}
	claims, err := readClaims(ctx, []string{proof}, paths, vk, enc)
	if err != nil {
		return nil, err
	}
	if len(claims) != 1 {
		return nil, errs.Mismatch(errs.InvalidArgument, "export proof", "", "one proof", fmt.Sprint(len(claims))).WithPath(proof)
	}
	v, err := groth16.NewVerifier(vk)
	if err != nil {
		return nil, err
	}
	if err := v.Verify(&claims[0].proof, claims[0].public); err != nil {
		return nil, errs.InFile(err, proof)
	}
	return func(w io.Writer) error { return eip2537.WriteProof(w, vk, &claims[0].proof, claims[0].public) }, nil
}

// keyIsInsecure reports whether a file is a proving key that a development set-up made. A file that only verifies does not tell.
func keyIsInsecure(ctx context.Context, path string) (bool, error) {
	f, size, err := openFile("read key", path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	kind, err := keyfile.Sniff(f, size)
	if err != nil || !kind.IsKey() {
		return false, errs.InFile(err, path)
	}
	sum, err := keyfile.OpenSummary(ctx, f, size)
	if err != nil {
		return false, errs.InFile(err, path)
	}
	return sum.Shape.Insecure, nil
}
