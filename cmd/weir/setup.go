package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/plugins/filecoin/circuits"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

var setupCommand = &cli.Command{
	Name:  "setup",
	Usage: "make a development key",
	Description: `Whoever makes a key this way could forge proofs for it; the key file says so, and so does every use of it. For production use a ceremony's key and
"weir key import".

  weir setup --circuit circuit.r1cs --key circuit.wkey --vkey vkey.json
  weir setup --circuit circuit.r1cs --key circuit.wkey --seed 42
  weir setup --circuit filecoin/winning-2k --key winning.wkey

filecoin/ID is a circuit of "weir filecoin circuits"; it is recorded once, into the user's cache folder. ./filecoin/ID is a file.
The same --seed gives the same key everywhere. --insecure-scalars FILE takes the secrets from a JSON object with tau, alpha, beta, gamma, delta (and g1, g2),
each 64 hex digits little-endian, 0x and hex, or decimal.`,
	Flags: flags([]cli.Flag{
		&cli.StringFlag{Name: "circuit", Usage: "constraint system `R1CS`, or filecoin/ID"},
		&cli.StringFlag{Name: "key", Usage: "where the proving key goes: `WKEY`"},
		&cli.StringFlag{Name: "vkey", Usage: "where the verifying key goes, as snarkjs' JSON: `FILE`"},
		&cli.StringFlag{Name: "seed", Usage: "derive the secrets from this `TEXT`"},
		&cli.StringFlag{Name: "insecure-scalars", Usage: "take the secrets from this `JSON`"},
		&cli.StringFlag{Name: "layout", Value: "weir", Usage: "order of rows and form of H: weir, or snarkjs"},
	}, engineFlags()),
	Action: action(setup),
}

func setup(ctx context.Context, s *session) error {
	c := s.c
	if _, err := arguments(c); err != nil {
		return err
	}
	job := &host.SetupJob{Backend: s.cfg.Backend}
	var err error
	if job.Circuit, err = required(c, "circuit"); err != nil {
		return err
	}
	if job.Out, err = required(c, "key"); err != nil {
		return err
	}
	switch l := c.String("layout"); l {
	case "weir":
	case "snarkjs":
		job.Rows, job.H = groth16.RowsFive, groth16.HOddCoset
	default:
		return usageError("weir setup", "expected --layout weir or snarkjs, found %q", l)
	}
	if c.IsSet("seed") && c.IsSet("insecure-scalars") {
		return usageError("weir setup", "--seed and --insecure-scalars exclude each other")
	}
	if c.IsSet("seed") {
		// A number and any other text alike: the seed is its bytes.
		if c.String("seed") == "" {
			return usageError("weir setup", "--seed is empty")
		}
		job.Seed = []byte(c.String("seed"))
	}
	if c.IsSet("insecure-scalars") {
		if job.Scalars, err = readScalars(ctx, c.String("insecure-scalars")); err != nil {
			return err
		}
	}
	out := &outputs{t: s.terminal, command: commandPath(s.c)}
	if err := out.add("key", job.Out); err != nil {
		return err
	}
	if out.onStdout() || out.files[0].direct {
		return usageError("weir setup", "--key must be a file")
	}
	if err := out.add("vkey", c.String("vkey")); err != nil {
		return err
	}
	id, filecoin := strings.CutPrefix(job.Circuit, "filecoin/")
	circuitFile := job.Circuit
	if filecoin {
		circuitFile = ""
	}
	if err := out.check(circuitFile, c.String("insecure-scalars")); err != nil {
		return err
	}
	job.Out = out.files[0].target
	out.files = out.files[1:] // the engine writes the key

	bar := s.progress("starting", 1000)
	defer bar.end()
	job.Progress = bar.set
	if filecoin {
		bar.set("record circuit", 0)
		if job.Circuit, err = recordedCircuit(ctx, id); err != nil {
			return err
		}
	}
	var result *host.SetupResult
	err = s.withEngine(ctx, nil, nil, func(e *host.Engine) (err error) {
		result, err = e.Setup(ctx, job)
		return err
	})
	if err != nil {
		return err
	}
	bar.finish()
	keyPath := c.String("key")
	out.set("vkey", func(w io.Writer) error {
		vk, err := readVerifyingKey(keyPath)
		if err != nil {
			return err
		}
		return snarkjs.WriteVerifyingKey(w, vk)
	})
	if err := out.commit(); err != nil {
		return err
	}
	s.warn("%s is a development key: whoever made it can forge proofs", keyPath)
	switch {
	case job.Scalars != nil:
		s.warn("its secrets are in %s: everybody who can read that file can forge proofs", c.String("insecure-scalars"))
	case job.Seed != nil:
		s.warn("its secrets follow from the seed: everybody who knows the seed can forge proofs")
	}
	if s.json {
		files := out.paths()
		files["key"] = keyPath
		s.object(map[string]any{"ok": true, "insecure": true, "shape": shapeJSON(&result.Shape), "bytes": result.Bytes, "elapsed_ms": millis(result.Elapsed), "memory": memoryJSON(&result.Peak), "files": files})
		return nil
	}
	if !out.onStdout() {
		s.say("%s: development key for %s, domain 2^%d, %s, made in %s\n", oneLine(keyPath), count(result.Shape.NbConstraints, "constraint"), result.Shape.LogDomain, bytesText(result.Bytes), short(result.Elapsed))
	}
	return nil
}

// recordedCircuit is the shape file of one of Filecoin's circuits.
func recordedCircuit(ctx context.Context, id string) (string, error) {
	shapes, err := circuits.UserShapes()
	if err != nil {
		return "", err
	}
	f, err := shapes.Open(ctx, id)
	if err != nil {
		return "", err
	}
	return shapes.Path(id), f.Close()
}

// scalarNames are the secrets; the last two may be left out.
var scalarNames = []string{"tau", "alpha", "beta", "gamma", "delta", "g1", "g2"}

// readScalars reads {"tau": ...}, alone or as the member "toxic_waste", "scalars" or "scalars_le_hex" of a larger object.
func readScalars(ctx context.Context, path string) (*contract.ToxicScalars, error) {
	const op = "read scalars"
	b, err := readSmall(ctx, op, path)
	if err != nil {
		return nil, err
	}
	bad := func(where, expected, found string) error {
		return errs.Mismatch(errs.InvalidFile, op, where, expected, found).WithPath(path)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(b, &whole); err != nil {
		return nil, bad("", "a JSON object with "+strings.Join(scalarNames, ", "), err.Error())
	}
	inner := whole
	for _, name := range []string{"toxic_waste", "scalars", "scalars_le_hex"} {
		if raw, ok := whole[name]; ok {
			inner = nil
			if err := json.Unmarshal(raw, &inner); err != nil {
				return nil, bad(name, "a JSON object", err.Error())
			}
			break
		}
	}
	if whole != nil && len(inner) == len(whole) {
		for name := range inner {
			if !slices.Contains(scalarNames, name) {
				return nil, bad(name, "one of "+strings.Join(scalarNames, ", "), fmt.Sprintf("%q", name))
			}
		}
	}
	var out contract.ToxicScalars
	to := []*[]byte{&out.Tau, &out.Alpha, &out.Beta, &out.Gamma, &out.Delta, &out.G1, &out.G2}
	for i, name := range scalarNames {
		raw, ok := inner[name]
		if !ok {
			if i < 5 {
				return nil, bad(name, "a scalar", "none")
			}
			continue
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, bad(name, "a string", fmt.Sprintf("%.40s", raw))
		}
		if *to[i], ok = parseScalar(text); !ok {
			return nil, bad(name, "a number below the group order: 64 hex digits little-endian, 0x and hex, or decimal", fmt.Sprintf("a string of %d characters", len(text)))
		}
	}
	return &out, nil
}

// parseScalar gives 32 bytes, little-endian. 64 hex digits are little-endian bytes, as bellperson prints them.
func parseScalar(text string) ([]byte, bool) {
	digits, base := text, 10
	if h, ok := strings.CutPrefix(text, "0x"); ok {
		digits, base = h, 16
	}
	if base == 10 && len(text) == 64 && strings.ContainsAny(text, "abcdefABCDEF") { // else it could be decimal: refused below, by its length
		if raw, err := hex.DecodeString(text); err == nil {
			_, err := groth16.ScalarFromBytes(raw)
			return raw, err == nil
		}
		return nil, false
	}
	if digits == "" || len(digits) > 80 || (base == 10 && len(text) == 64) || strings.ContainsAny(digits, "+-_ ") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok || n.Cmp(fr.Modulus()) >= 0 {
		return nil, false
	}
	var x fr.Element
	x.SetBigInt(n)
	return groth16.ScalarBytes(&x), true
}
