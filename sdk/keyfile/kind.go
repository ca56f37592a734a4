// Package keyfile is one door to every key and circuit file that weir knows: what a file is is found from its content, never from its name.
//
//	Sniff, Inspect          any file: what it is and its sizes
//	OpenKey                 a proving key for a prover (.wkey mapped or read, .zkey, .params)
//	OpenSummary             shape, digests and verifying key for the host, by pread
//	OpenCircuit             constraint systems (.r1cs, .shape, and those inside .zkey and .wkey)
//	OpenVerifyingKey        verifying keys, also those inside proving keys
//	Check                   do key and circuit belong together
//	Import, Export          between all formats
package keyfile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"regexp"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// Kind is what a file is. The values are what `weir inspect --json` prints.
type Kind string

const (
	Unknown     Kind = "unknown"
	Empty       Kind = "empty"
	R1CS        Kind = "r1cs"        // circom constraint system
	Witness     Kind = "wtns"        // circom witness
	ZKey        Kind = "zkey"        // snarkjs proving key, of any protocol
	PowersOfTau Kind = "ptau"        // snarkjs powers of tau
	Wasm        Kind = "wasm"        // WebAssembly module: circom's witness program
	Symbols     Kind = "sym"         // circom signal names
	WKey        Kind = "wkey"        // weir's prepared key
	Shape       Kind = "shape"       // weir's recorded circuit
	Params      Kind = "params"      // bellman proving key
	VK          Kind = "vk"          // bellman verifying key
	Proofs      Kind = "proofs"      // bellman proofs, 192 bytes each
	VKJSON      Kind = "vkey-json"   // snarkjs verification_key.json
	ProofJSON   Kind = "proof-json"  // snarkjs proof.json
	PublicJSON  Kind = "public-json" // snarkjs public.json
	InputJSON   Kind = "input-json"  // some other JSON object: a circuit's inputs
	Markup      Kind = "markup"      // HTML or XML: an error page saved under a file's name
	Gzip        Kind = "gzip"
)

var kindTexts = map[Kind]string{
	Unknown: "unknown file", Empty: "empty file", R1CS: "circom constraint system (.r1cs)", Witness: "circom witness (.wtns)",
	ZKey: "snarkjs proving key (.zkey)", PowersOfTau: "powers of tau (.ptau)", Wasm: "WebAssembly module (.wasm)", Symbols: "circom signal names (.sym)",
	WKey: "weir prepared key (.wkey)", Shape: "weir recorded circuit (.shape)", Params: "bellman proving key (.params)", VK: "bellman verifying key (.vk)", Proofs: "bellman proofs",
	VKJSON: "snarkjs verification key (JSON)", ProofJSON: "snarkjs proof (JSON)", PublicJSON: "public inputs (JSON)", InputJSON: "JSON object (circuit inputs)",
	Markup: "HTML or XML page", Gzip: "gzip file",
}

// Text names a kind for people.
func (k Kind) Text() string {
	if s, ok := kindTexts[k]; ok {
		return s
	}
	return string(k)
}

// IsKey reports whether a proving key can be opened from a file of this kind.
func (k Kind) IsKey() bool { return k == WKey || k == ZKey || k == Params }

// sniffSize bytes are looked at.
const sniffSize = 1 << 16

var symbolLine = regexp.MustCompile(`^[0-9]+,-?[0-9]+,-?[0-9]+,\S+\r?(\n|$)`)

// Sniff tells what a file is from its first 64 KiB and its size; it proves nothing about the rest. Only errors of reading are returned.
// bellman's files have no magic number: one that begins with a point of the curve is taken for theirs.
func Sniff(r io.ReaderAt, size int64) (Kind, error) {
	b := make([]byte, max(0, min(size, sniffSize)))
	if n, err := r.ReadAt(b, 0); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Unknown, errs.Wrap(err, "read")
	}
	switch k := snarkjs.SniffBytes(b); k {
	case snarkjs.KindEmpty:
		return Empty, nil
	case snarkjs.KindR1CS:
		return R1CS, nil
	case snarkjs.KindWitness:
		return Witness, nil
	case snarkjs.KindZKey:
		return ZKey, nil
	case snarkjs.KindPowersOfTau:
		return PowersOfTau, nil
	case snarkjs.KindWasm:
		return Wasm, nil
	case snarkjs.KindVerifyingKey:
		return VKJSON, nil
	case snarkjs.KindProof:
		return ProofJSON, nil
	case snarkjs.KindPublic:
		return PublicJSON, nil
	case snarkjs.KindMarkup:
		return Markup, nil
	}
	switch {
	case bytes.HasPrefix(b, []byte(wkey.Magic)):
		return WKey, nil
	case bytes.HasPrefix(b, []byte(circuit.ShapeMagic)):
		return Shape, nil
	case b[0] == 0x1f && len(b) > 1 && b[1] == 0x8b:
		return Gzip, nil
	case symbolLine.Match(b[:min(len(b), 1<<12)]):
		return Symbols, nil
	case jsonObject(b, size):
		return InputJSON, nil
	}
	return sniffBellman(b, size), nil
}

// jsonObject reports whether b begins a JSON object; a whole small file must be valid.
func jsonObject(b []byte, size int64) bool {
	t := bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(t) == 0 || t[0] != '{' {
		return false
	}
	if int64(len(b)) == size {
		return json.Valid(t)
	}
	t = bytes.TrimLeft(t[1:], " \t\r\n")
	return len(t) > 0 && (t[0] == '"' || t[0] == '}')
}

func sniffBellman(b []byte, size int64) Kind {
	var p bls12381.G1Affine
	if len(b) >= points.G1Size && b[0]&0xe0 == 0 && points.DecodeG1(&p, (*[points.G1Size]byte)(b)) == "" {
		const count = 3*points.G1Size + 3*points.G2Size
		if len(b) >= count+4 && bellman.VerifyingKeySize(int(binary.BigEndian.Uint32(b[count:]))) == size {
			return VK
		}
		return Params
	}
	if size%bellman.ProofSize == 0 && b[0]&0x80 != 0 {
		// x of the first point is on the curve for half of all values: a file of noise passes once in 16
		if _, err := p.SetBytes(b[:48]); err == nil {
			return Proofs
		}
	}
	return Unknown
}

// unusable is the error for a file of the wrong kind.
func unusable(op string, expected string, k Kind) error {
	e := errs.Mismatch(errs.InvalidFile, op, "", expected, "a file of another kind: "+k.Text())
	switch k {
	case Markup:
		e.Hint = "a download failed and its error page was saved; fetch the file again"
	case Empty:
		e.Hint = "a download or a copy failed; fetch the file again"
	case Gzip:
		e.Hint = "unpack it first (gzip -d)"
	case Unknown:
		e.Hint = "the file is damaged, or of a format that weir does not know"
	default:
		e.Hint = "see weir inspect for what a file is"
	}
	return e
}
