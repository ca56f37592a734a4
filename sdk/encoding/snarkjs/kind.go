package snarkjs

import (
	"bytes"
	"io"
)

// Kind is what a file of the circom tool chain is, found out from its first bytes.
type Kind uint8

const (
	KindUnknown      Kind = iota
	KindR1CS              // constraint system
	KindWitness           // .wtns
	KindZKey              // proving key, of whatever protocol
	KindPowersOfTau       // .ptau
	KindWasm              // WebAssembly module: circom's witness program
	KindVerifyingKey      // verification_key.json
	KindProof             // proof.json, one or a list
	KindPublic            // public.json, a list or a list of lists
	KindMarkup            // HTML or XML: an error page saved under a file's name
	KindEmpty             // no bytes
)

var kindNames = [...]string{"unknown file", "circom constraint system (.r1cs)", "circom witness (.wtns)", "snarkjs proving key (.zkey)", "powers of tau (.ptau)",
	"WebAssembly module (.wasm)", "snarkjs verification key (JSON)", "snarkjs proof (JSON)", "public inputs (JSON)", "HTML or XML page", "empty file"}

// String names the kind for people.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[KindUnknown]
}

// sniffSize bytes are looked at.
const sniffSize = 1 << 16

// Sniff tells what a file is from its first 64 KiB; it proves nothing about the rest. Only errors of reading are returned.
func Sniff(r io.ReaderAt, size int64) (Kind, error) {
	b := make([]byte, max(0, min(size, sniffSize)))
	if n, err := r.ReadAt(b, 0); n < len(b) {
		return KindUnknown, err
	}
	return SniffBytes(b), nil
}

// SniffBytes is Sniff for the start of a file in memory.
func SniffBytes(b []byte) Kind {
	if len(b) == 0 {
		return KindEmpty
	}
	for _, m := range []struct {
		magic string
		kind  Kind
	}{{"r1cs", KindR1CS}, {"wtns", KindWitness}, {"zkey", KindZKey}, {"ptau", KindPowersOfTau}, {"\x00asm", KindWasm}} {
		if bytes.HasPrefix(b, []byte(m.magic)) {
			return m.kind
		}
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // byte order mark
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 {
		return KindUnknown
	}
	inner := bytes.TrimLeft(b[1:], " \t\r\n")
	switch {
	case b[0] == '<':
		return KindMarkup
	case b[0] == '{' && bytes.Contains(b, []byte(`"pi_a"`)), b[0] == '[' && bytes.HasPrefix(inner, []byte("{")) && bytes.Contains(b, []byte(`"pi_a"`)):
		return KindProof
	case b[0] == '{' && bytes.Contains(b, []byte(`"vk_alpha_1"`)):
		return KindVerifyingKey
	case b[0] == '[' && (len(inner) == 0 || inner[0] == '"' || inner[0] == ']' || inner[0] == '[' || inner[0] == '-' || inner[0] >= '0' && inner[0] <= '9'):
		return KindPublic
	}
	return KindUnknown
}
