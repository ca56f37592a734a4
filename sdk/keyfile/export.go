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

// Export writes a key in another format: ZKey, Params, or as ExportVerifyingKey. A format that cannot hold the key refuses it (class Unsupported) with the
// reason: bellman has no field for snarkjs' row order, snarkjs needs its own order and basis.
func Export(ctx context.Context, k *Key, format Kind, w io.Writer, tasks int) error {
	switch format {
	case ZKey:
		if k.System == nil {
			return errs.New(errs.InvalidArgument, "export zkey", "a .zkey carries the rows of A and B, and the key was made without its circuit").
				WithHint("give the circuit with --circuit")
		}
		return snarkjs.WriteZKey(w, k.ProvingKey, k.System, k.Transcript)
	case Params:
		return bellman.Write(ctx, w, k.ProvingKey, tasks)
	}
	return ExportVerifyingKey(&k.VK, format, w)
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
