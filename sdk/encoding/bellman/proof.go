package bellman

import (
	"fmt"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// ProofSize is the bytes of a proof: A 48, B 96, C 48, compressed.
const ProofSize = 192

// AppendProof appends the 192 bytes of a proof.
func AppendProof(b []byte, p *groth16.Proof) []byte {
	a, bb, c := p.A.Bytes(), p.B.Bytes(), p.C.Bytes()
	b = append(b, a[:]...)
	b = append(b, bb[:]...)
	return append(b, c[:]...)
}

// AppendProofs appends the proofs of a job in partition order.
func AppendProofs(b []byte, ps []groth16.Proof) []byte {
	for i := range ps {
		b = AppendProof(b, &ps[i])
	}
	return b
}

// ParseProof reads one proof. Each point must be compressed, on the curve, in the subgroup and not infinity, as bellman
// demands. Errors are of class InvalidProof, but InvalidFile for a wrong length.
func ParseProof(b []byte) (*groth16.Proof, error) {
	if len(b) != ProofSize {
		return nil, errs.Mismatch(errs.InvalidFile, "read proof", "size", "192 bytes", len(b))
	}
	return parseProof(b, "")
}

// ParseProofs reads the proofs of a job: n times 192 bytes, n at least 1.
func ParseProofs(b []byte) ([]groth16.Proof, error) {
	if len(b) == 0 || len(b)%ProofSize != 0 {
		return nil, errs.Mismatch(errs.InvalidFile, "read proofs", "size", "a multiple of 192 bytes", len(b)).WithHint("the file is truncated, or does not hold bellman proofs")
	}
	out := make([]groth16.Proof, len(b)/ProofSize)
	for i := range out {
		p, err := parseProof(b[i*ProofSize:(i+1)*ProofSize], fmt.Sprintf("proof %d, ", i))
		if err != nil {
			return nil, err
		}
		out[i] = *p
	}
	return out, nil
}

func parseProof(b []byte, where string) (*groth16.Proof, error) {
	p := new(groth16.Proof)
	for _, c := range []struct {
		name     string
		from, to int
		set      func([]byte) (int, error)
		infinity func() bool
	}{{"A", 0, 48, p.A.SetBytes, p.A.IsInfinity}, {"B", 48, 144, p.B.SetBytes, p.B.IsInfinity}, {"C", 144, 192, p.C.SetBytes, p.C.IsInfinity}} {
		bad := func(found string, err error) error {
			return &errs.Error{Class: errs.InvalidProof, Op: "read proof", Where: where + "point " + c.name, Expected: "a compressed finite point of order r", Found: found, Err: err}
		}
		// SetBytes takes the uncompressed form by its flag: too short here, but then the error would speak of a short buffer.
		if b[c.from]&0x80 == 0 {
			return nil, bad("an uncompressed point", nil)
		}
		if _, err := c.set(b[c.from:c.to]); err != nil {
			return nil, bad("another", err)
		}
		if c.infinity() {
			return nil, bad("infinity", nil)
		}
	}
	return p, nil
}
