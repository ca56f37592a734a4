package bellman

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// CanHold reports why a key of this shape cannot be a .params file, nil if it can.
func CanHold(s *groth16.Shape) error {
	const op = "write params"
	if s.Rows != groth16.RowsSeven && s.LogDomain >= 3 {
		return errs.Mismatch(errs.Unsupported, op, "row order", groth16.RowsSeven, s.Rows).
			WithHint("a bellman file has no field for the order of the rows, and bellman would take snarkjs' rows for its own; its .vk can be exported")
	}
	if s.H != groth16.HMonomial {
		return errs.Mismatch(errs.Unsupported, op, "H", groth16.HMonomial, s.H).WithHint("bellman needs the points of the coefficients; make the key with weir setup")
	}
	return nil
}

// Write writes a key as a .params file, converting on tasks goroutines, chunk by chunk. Refused (class Unsupported) are keys that
// bellman would misread or not accept: rows in snarkjs' order on domains of 8 and more, H points of another basis, a point at infinity.
func Write(ctx context.Context, w io.Writer, pk *groth16.ProvingKey, tasks int) error {
	const op = "write params"
	if err := CanHold(&pk.Shape); err != nil {
		return err
	}
	head, err := appendVerifyingKey(nil, &pk.VK, op)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return errs.Wrap(err, op)
	}
	for _, s := range []struct {
		name string
		ps   []bls12381.G1Affine
	}{{"h", pk.H}, {"l", pk.K}, {"a", pk.A}, {"b_g1", pk.B1}} {
		if err := writeList(ctx, w, s.name, len(s.ps), points.G1Size, tasks, func(b []byte, i int) bool {
			points.EncodeG1((*[points.G1Size]byte)(b), &s.ps[i])
			return !s.ps[i].IsInfinity()
		}); err != nil {
			return err
		}
	}
	return writeList(ctx, w, "b_g2", len(pk.B2), points.G2Size, tasks, func(b []byte, i int) bool {
		points.EncodeG2((*[points.G2Size]byte)(b), &pk.B2[i])
		return !pk.B2[i].IsInfinity()
	})
}

func writeList(ctx context.Context, w io.Writer, name string, n, size, tasks int, encode func(b []byte, i int) bool) error {
	const op = "write params"
	if uint64(n) > 1<<32-1 {
		return errs.Mismatch(errs.Unsupported, op, "list "+name, "fewer than 2^32 points", n)
	}
	if _, err := w.Write(binary.BigEndian.AppendUint32(nil, uint32(n))); err != nil {
		return errs.Wrap(err, op)
	}
	buf := make([]byte, min(n, chunkPoints)*size)
	for lo := 0; lo < n; lo += chunkPoints {
		m := min(chunkPoints, n-lo)
		err := points.Each(ctx, tasks, m, 1<<11, func(a, z int) error {
			for i := a; i < z; i++ {
				if !encode(buf[i*size:], lo+i) {
					return errs.Mismatch(errs.Unsupported, op, fmt.Sprintf("list %s, point %d", name, lo+i), "a finite point", "infinity").
						WithHint("bellman refuses points at infinity: the circuit has a variable without constraints")
				}
			}
			return nil
		})
		if err != nil {
			return errs.Wrap(err, op)
		}
		if _, err := w.Write(buf[:m*size]); err != nil {
			return errs.Wrap(err, op)
		}
	}
	return nil
}
