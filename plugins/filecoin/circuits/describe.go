package circuits

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Description is what can be told of a circuit, with the names and forms of the reference data. Densities are the numbers of variables with a term in A or B; a digest of
// one is SHA-256 over a bit a variable, the first the least significant of the first byte.
type Description struct {
	ID           string   `json:"id"`
	Rows         int      `json:"rows"`   // without those that a set-up adds for the inputs
	Inputs       int      `json:"inputs"` // the one included
	Aux          int      `json:"aux"`
	Domain       int      `json:"domain"`
	NonZero      [3]int64 `json:"nnz"`
	AAux         int      `json:"a_aux"`
	AAuxSHA256   string   `json:"a_aux_sha256"`
	BInput       int      `json:"b_input"`
	BInputSHA256 string   `json:"b_input_sha256"`
	BAux         int      `json:"b_aux"`
	BAuxSHA256   string   `json:"b_aux_sha256"`
	R1CSSHA256   string   `json:"r1cs_sha256"` // WEIR-R1CS-1
	Boolean      int      `json:"boolean"`     // auxiliary variables that are bits in every witness
	WitnessBytes int64    `json:"witness_bytes"`
	ParamsBytes  int64    `json:"params_bytes"` // of the key in bellman's form
	VKBytes      int64    `json:"vk_bytes"`
}

// Describe records the circuit of an id: some 10 seconds for 100 million rows on a free core, and as long again on another one for the digest.
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
	d := &Description{
		ID: id, Rows: n.Rows, Inputs: n.Inputs, Aux: n.Aux, Domain: n.Domain(), NonZero: s.NonZero,
		AAux: s.AAux.Count(), AAuxSHA256: bitmapDigest(s.AAux, n.Aux),
		BInput: s.BInput.Count(), BInputSHA256: bitmapDigest(s.BInput, n.Inputs),
		BAux: s.BAux.Count(), BAuxSHA256: bitmapDigest(s.BAux, n.Aux),
		R1CSSHA256: hex.EncodeToString(s.Digest[:]), Boolean: n.Bits,
	}
	_, d.WitnessBytes = n.Form()
	const g1, g2, count = 96, 192, 4 // uncompressed points, and the length before each list
	b := int64(d.BInput + d.BAux)
	d.VKBytes = 3*g1 + 3*g2 + count + g1*int64(n.Inputs)
	d.ParamsBytes = d.VKBytes + 5*count + g1*(int64(d.Domain-1)+int64(n.Aux)+int64(n.Inputs+d.AAux)+b) + g2*b
	return d, nil
}

func bitmapDigest(b groth16.Bitmap, n int) string {
	raw := make([]byte, 0, 8*len(b))
	for _, w := range b {
		raw = binary.LittleEndian.AppendUint64(raw, w)
	}
	d := sha256.Sum256(raw[:(n+7)/8])
	return hex.EncodeToString(d[:])
}
