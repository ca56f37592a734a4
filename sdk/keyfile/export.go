package keyfile

import (
	"context"
	"io"

	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/eip2537"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// EIP2537 is a verifying key as JSON for Ethereum's precompiles; a format of ExportVerifyingKey.
const EIP2537 Kind = "eip-2537"

// Export writes a key in another format: ZKey, Params, or as ExportVerifyingKey. The H points go in the basis that the format asks for; a prepared key may have
// both. A format that cannot hold the key refuses it (class Unsupported) with the reason: bellman has no field for snarkjs' row order, and H in another basis is
// not converted.
func Export(ctx context.Context, k *Key, format Kind, w io.Writer, tasks int) error {
	switch format {
	case ZKey:
		if k.System == nil {
			return errs.New(errs.InvalidArgument, "export zkey", "a .zkey carries the rows of A and B, and the key was made without its circuit").
				WithHint("give the circuit with --circuit")
		}
		pk, err := k.forFormat(groth16.HOddCoset)
		if err != nil {
			return err
		}
		return snarkjs.WriteZKey(w, pk, k.System, k.Transcript)
	case Params:
		pk, err := k.forFormat(groth16.HMonomial)
		if err != nil {
			return err
		}
		return bellman.Write(ctx, w, pk, tasks)
	}
	return ExportVerifyingKey(&k.VK, format, w)
}

// forFormat is the key in a basis where it has it, else as it is: the writer then says what it misses.
func (k *Key) forFormat(h groth16.HBasis) (*groth16.ProvingKey, error) {
	pk, err := k.hIn(h)
	if pk == nil && err == nil {
		pk = k.ProvingKey
	}
	return pk, err
}

// ExportVerifyingKey writes a verifying key: VK, VKJSON or EIP2537.
func ExportVerifyingKey(vk *groth16.VerifyingKey, format Kind, w io.Writer) error {
	switch format {
	case VK:
		return bellman.WriteVerifyingKey(w, vk)
	case VKJSON:
		return snarkjs.WriteVerifyingKey(w, vk)
	case EIP2537:
		return eip2537.WriteVerifyingKey(w, vk)
	}
	return errs.Mismatch(errs.InvalidArgument, "export key", "format", "zkey, params, vk, vkey-json or eip-2537", string(format))
}
