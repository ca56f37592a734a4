package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/encoding/eip2537"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// readVerifyingKey reads the verifying key from any file that has one.
func readVerifyingKey(path string) (*groth16.VerifyingKey, error) {
	f, size, err := openFile("read verifying key", path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	kind, err := keyfile.Sniff(f, size)
	if err != nil {
		return nil, errs.InFile(err, path)
	}
	if kind == keyfile.InputJSON {
		head := make([]byte, min(size, 256))
		if _, err := f.ReadAt(head, 0); err == nil && bytes.Contains(head, []byte(`"`+eip2537.Format+`"`)) {
			vk, err := eip2537.ReadVerifyingKey(f)
			return vk, errs.InFile(err, path)
		}
	}
	vk, err := keyfile.OpenVerifyingKey(context.Background(), f, size)
	return vk, errs.InFile(err, path)
}

func shapeJSON(s *groth16.Shape) map[string]any {
	return map[string]any{"log2_domain": s.LogDomain, "wires": s.NbWires, "public_inputs": s.NbPublic, "rows": s.NbConstraints,
		"points_a": s.NbA, "points_b": s.NbB, "points_k": s.NbPrivate(), "points_h": s.NbH, "row_order": s.Rows.String(), "h_basis": s.H.String(), "insecure": s.Insecure}
}

// bytesText is an amount for people: exact, and in a unit when it is large.
func bytesText(n int64) string {
	if n < 10_000 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%v (%d bytes)", ledger.Size(n), n)
}
