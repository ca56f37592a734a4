package circuits

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Sizes are what a circuit takes, with the names of the reference data. Densities are the numbers of variables with a term in A or B.
type Sizes struct {
	ID           string `json:"id"`
	Rows         int    `json:"rows"`   // without those that a set-up adds for the inputs
	Inputs       int    `json:"inputs"` // the one included
	Aux          int    `json:"aux"`
	Domain       int    `json:"domain"`
	AAux         int    `json:"a_aux"`
	BInput       int    `json:"b_input"`
	BAux         int    `json:"b_aux"`
	Boolean      int    `json:"boolean"` // auxiliary variables that are bits in every witness
	WitnessBytes int64  `json:"witness_bytes"`
	MemoryBytes  int64  `json:"memory_bytes"` // of a partition: the witness, and the values of A, B and C on the domain
	ParamsBytes  int64  `json:"params_bytes"` // of the key in bellman's form
	VKBytes      int64  `json:"vk_bytes"`
}

func newSizes(id string, n circuit.Counts, density [3]int) Sizes {
	s := Sizes{ID: id, Rows: n.Rows, Inputs: n.Inputs, Aux: n.Aux, Domain: n.Domain(), AAux: density[0], BInput: density[1], BAux: density[2], Boolean: n.Bits}
	_, s.WitnessBytes = n.Form()
	s.MemoryBytes = s.WitnessBytes + 3*fr.Bytes*int64(s.Domain)
	const g1, g2, count = 96, 192, 4 // uncompressed points, and the length before each list
	b := int64(s.BInput + s.BAux)
	s.VKBytes = 3*g1 + 3*g2 + count + g1*int64(n.Inputs)
	s.ParamsBytes = s.VKBytes + 5*count + g1*(int64(s.Domain-1)+int64(n.Aux)+int64(n.Inputs+s.AAux)+b) + g2*b
	return s
}

// Description is what can be told of a circuit that was recorded. A digest of a density is SHA-256 over a bit a variable, the first the least significant of the first
// byte; that of the rows is WEIR-R1CS-1.
type Description struct {
	Sizes
	NonZero      [3]int64 `json:"nnz"`
	AAuxSHA256   string   `json:"a_aux_sha256"`
	BInputSHA256 string   `json:"b_input_sha256"`
	BAuxSHA256   string   `json:"b_aux_sha256"`
	R1CSSHA256   string   `json:"r1cs_sha256"`
}

// Describe records the circuit of an id: some 30 seconds for 100 million rows, on two cores.
func Describe(ctx context.Context, id string) (*Description, error) {
	c, err := Blank(id)
	if err != nil {
		return nil, err
	}
	var s circuit.Summary
	if _, err := circuit.Record(ctx, c, &s); err != nil {
		return nil, err
	}
	n := s.Counts
	return &Description{
		Sizes: newSizes(id, n, [3]int{s.AAux.Count(), s.BInput.Count(), s.BAux.Count()}), NonZero: s.NonZero,
		AAuxSHA256: bitmapDigest(s.AAux, n.Aux), BInputSHA256: bitmapDigest(s.BInput, n.Inputs), BAuxSHA256: bitmapDigest(s.BAux, n.Aux),
		R1CSSHA256: hex.EncodeToString(s.Digest[:]),
	}, nil
}

func bitmapDigest(b groth16.Bitmap, n int) string {
	raw := make([]byte, 0, 8*len(b))
	for _, w := range b {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	d := sha256.Sum256(raw[:(n+7)/8])
	return hex.EncodeToString(d[:])
}
