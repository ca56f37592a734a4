package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/sdk/keyfile"
)

var keyCheckCommand = &cli.Command{
	Name:  "check",
	Usage: "find out whether a key and a circuit belong together",
	Description: `Compares counts, which wires have points in A and in B, and the circuit's digest where the key has one. With a witness it also makes one proof and
verifies it, so that key, circuit and backend are known to work before a deadline.

  weir key check --key circuit.wkey --circuit circuit.r1cs --witness witness.wtns`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "key", Usage: "proving `KEY`: .zkey, .wkey or .params"},
		circuitFlag("constraint system `R1CS`"),
		&cli.StringFlag{Name: "witness", Usage: "witness `WTNS`: prove and verify once"},
		&cli.BoolFlag{Name: "subgroup", Usage: "also check every point of a .zkey or .params for the subgroup"},
	}, engineFlags()),
	Action: action(keyCheck),
}

func keyCheck(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	path, err := required(s.c, "key")
	if err != nil {
		return err
	}
	circuit, err := required(s.c, "circuit")
	if err != nil {
		return err
	}
	sys, err := s.openCircuit(ctx, circuit)
	if err != nil {
		return err
	}
	key, file, err := s.openKey(ctx, path, keyfile.Options{Circuit: sys, CheckSubgroup: s.c.Bool("subgroup")})
	if err != nil {
		return err
	}
	err = keyfile.Check(key.ProvingKey, key.Digest, sys)
	shape := key.Shape
	_ = key.Close()
	_ = file.Close()
	key = nil // its points may go before the proof
	if err != nil {
		return err
	}
	proved := false
	var result *host.Result
	if w := s.c.String("witness"); w != "" {
		job := &host.Job{Key: path, Circuit: circuit, Partitions: []host.Partition{{Witness: w}}}
		err := s.withEngine(ctx, nil, nil, func(e *host.Engine) (err error) {
			result, err = e.Prove(ctx, job)
			return err
		})
		if err != nil {
			return err
		}
		proved = true
	}
	if shape.Insecure {
		s.warnInsecure(path)
	}
	if s.json {
		out := map[string]any{"ok": true, "shape": shapeJSON(&shape), "insecure": shape.Insecure, "proved": proved}
		if proved {
			out["elapsed_ms"] = millis(result.Elapsed)
			out["memory"] = memoryJSON(&result.Peak)
		}
		s.object(out)
		return nil
	}
	s.say("key and circuit belong together: %s, %s, %s, domain 2^%d\n", count(sys.NbConstraints(), "constraint"), count(sys.NbWires, "wire"), count(sys.NbPublic, "public input"), shape.LogDomain)
	if proved {
		s.say("a proof was made in %s and holds\n", short(result.Elapsed))
	}
	return nil
}
