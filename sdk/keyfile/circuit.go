package keyfile

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// OpenCircuit reads a constraint system into the heap, by pread: an .r1cs or .shape file, or the matrices inside a .zkey (no C) or a .wkey (if it has
// them).
func OpenCircuit(ctx context.Context, r io.ReaderAt, size int64, tasks int) (*r1cs.System, error) {
	k, err := Sniff(r, size)
	if err != nil {
		return nil, err
	}
	switch k {
	case R1CS:
		f, err := iden3.OpenR1CS(r, size)
		if err != nil {
			return nil, err
		}
		return f.System(ctx)
	case Shape:
		f, err := circuit.ReadShape(r, size)
		if err != nil {
			return nil, err
		}
		return f.System(ctx)
	case ZKey:
		z, err := snarkjs.OpenZKey(r, size)
		if err != nil {
			return nil, err
		}
		return z.System(ctx)
	case WKey:
		h, err := wkey.ReadHeader(r, size)
		if err != nil {
			return nil, err
		}
		if !h.Shape.HasMatrices {
			return nil, errs.New(errs.InvalidFile, "read circuit", "the prepared key was made without its circuit").WithHint("give the .r1cs file with --circuit")
		}
		return h.ReadSystem(ctx, r, tasks)
	}
	return nil, unusable("read circuit", "a constraint system", k)
}

// OpenVerifyingKey reads a verifying key: verification_key.json, .vk, or that inside a proving key. All points are checked.
func OpenVerifyingKey(ctx context.Context, r io.ReaderAt, size int64) (*groth16.VerifyingKey, error) {
	k, err := Sniff(r, size)
	if err != nil {
		return nil, err
	}
	switch k {
	case VKJSON:
		return snarkjs.ReadVerifyingKey(io.NewSectionReader(r, 0, size))
	case VK:
		return bellman.ReadVerifyingKey(r, size)
	case ZKey, WKey, Params:
		s, err := OpenSummary(ctx, r, size)
		if err != nil {
			return nil, err
		}
		return s.VK, nil
	}
	return nil, unusable("read verifying key", "a verifying key", k)
}

// OpenProofs reads proofs: a proof.json, a JSON list of them, or bellman's 192 bytes each. list tells whether a JSON file was a list.
func OpenProofs(r io.ReaderAt, size int64) (proofs []groth16.Proof, list bool, err error) {
	k, err := Sniff(r, size)
	if err != nil {
		return nil, false, err
	}
	switch k {
	case ProofJSON:
		return snarkjs.ReadProofs(io.NewSectionReader(r, 0, size))
	case Proofs:
		const most = 1 << 20 // 200 MB: more partitions than any job has
		if size/bellman.ProofSize > most {
			return nil, false, errs.Mismatch(errs.Unsupported, "read proofs", "size", fmt.Sprintf("at most %d proofs", most), size/bellman.ProofSize)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(io.NewSectionReader(r, 0, size)); err != nil {
			return nil, false, errs.Wrap(err, "read proofs")
		}
		proofs, err = bellman.ParseProofs(b.Bytes())
		return proofs, len(proofs) > 1, err
	}
	return nil, false, unusable("read proofs", "a proof", k)
}

// Summary is what the host needs of a key, read without its points.
type Summary struct {
	Kind   Kind
	Shape  groth16.Shape // of a .params: without rows, NbConstraints -1; of a .zkey: after a pass over A and B
	VK     *groth16.VerifyingKey
	Digest r1cs.Digest // of a .wkey's circuit; zero where the header does not tell
	Header *wkey.Header
}

// OpenSummary reads a key's shape and verifying key by pread. For a .zkey sections 4 to 7 are passed over once.
func OpenSummary(ctx context.Context, r io.ReaderAt, size int64) (*Summary, error) {
	k, err := Sniff(r, size)
	if err != nil {
		return nil, err
	}
	s := &Summary{Kind: k}
	switch k {
	case WKey:
		if s.Header, err = wkey.ReadHeader(r, size); err != nil {
			return nil, err
		}
		s.Shape, s.Digest = s.Header.Shape, s.Header.Digest
		s.VK, err = s.Header.VerifyingKey(r)
	case ZKey:
		var z *snarkjs.ZKey
		if z, err = snarkjs.OpenZKey(r, size); err != nil {
			return nil, err
		}
		if s.Shape, err = z.Shape(ctx); err != nil {
			return nil, err
		}
		s.VK, err = z.VerifyingKey(ctx)
	case Params:
		var p *bellman.Params
		if p, err = bellman.Open(r, size); err != nil {
			return nil, err
		}
		s.Shape = p.Shape()
		s.VK, err = p.VerifyingKey()
	default:
		return nil, unusable("read key", "a proving key", k)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}
