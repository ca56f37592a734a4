package bellman

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/internal/points"
)

// VerifyingKeySize is the bytes of a .vk file with n points in ic.
func VerifyingKeySize(n int) int64 { return fixedSize + 4 + points.G1Size*int64(n) }

// ReadVerifyingKey reads a .vk file: the head of a .params file up to ic. All points must be finite and in the subgroup, and nothing may follow.
func ReadVerifyingKey(r io.ReaderAt, size int64) (*groth16.VerifyingKey, error) {
	const op = "read vk"
	if size < VerifyingKeySize(1) || (size-fixedSize-4)%points.G1Size != 0 {
		return nil, errs.Mismatch(errs.InvalidFile, op, "size", fmt.Sprintf("%d bytes and 96 for each point of ic", fixedSize+4), fmt.Sprintf("%d bytes", size)).
			WithHint("the file is truncated, or is not a .vk file")
	}
	n, err := readCount(r, fixedSize, "count of ic")
	if err != nil {
		return nil, err
	}
	if VerifyingKeySize(int(n)) != size {
		return nil, errs.Mismatch(errs.InvalidFile, op, "count of ic", fmt.Sprintf("the %d points that follow", (size-fixedSize-4)/points.G1Size), n).
			WithHint("the file is truncated, or is not a .vk file")
	}
	b := make([]byte, size)
	if err := readFull(r, b, 0); err != nil {
		return nil, &errs.Error{Class: ioClass(err), Op: op, Err: err}
	}
	return parseVerifyingKey(b, op)
}

func parseVerifyingKey(b []byte, op string) (*groth16.VerifyingKey, error) {
	n := (len(b) - fixedSize - 4) / points.G1Size
	vk := &groth16.VerifyingKey{IC: make([]bls12381.G1Affine, n)}
	off := 0
	bad := func(name, found string) error {
		return errs.Mismatch(errs.InvalidFile, op, fmt.Sprintf("%s, offset %d", name, off), "an uncompressed finite point of BLS12-381 of order r", found)
	}
	g1 := func(name string, p *bls12381.G1Affine) error {
		if s := points.DecodeG1(p, (*[points.G1Size]byte)(b[off:])); s != "" {
			return bad(name, s)
		}
		if p.IsInfinity() {
			return bad(name, "infinity")
		}
		if !p.IsInSubGroup() {
			return bad(name, "a point not in the subgroup of order r")
		}
		off += points.G1Size
		return nil
	}
	g2 := func(name string, p *bls12381.G2Affine) error {
		if s := points.DecodeG2(p, (*[points.G2Size]byte)(b[off:])); s != "" {
			return bad(name, s)
		}
		if p.IsInfinity() {
			return bad(name, "infinity")
		}
		if !p.IsInSubGroup() {
			return bad(name, "a point not in the subgroup of order r")
		}
		off += points.G2Size
		return nil
	}
	for _, read := range []func() error{
		func() error { return g1("alpha_g1", &vk.AlphaG1) }, func() error { return g1("beta_g1", &vk.BetaG1) },
		func() error { return g2("beta_g2", &vk.BetaG2) }, func() error { return g2("gamma_g2", &vk.GammaG2) },
		func() error { return g1("delta_g1", &vk.DeltaG1) }, func() error { return g2("delta_g2", &vk.DeltaG2) },
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	off += 4
	for i := range vk.IC {
		if err := g1(fmt.Sprintf("ic, point %d", i), &vk.IC[i]); err != nil {
			return nil, err
		}
	}
	return vk, nil
}

// appendVerifyingKey appends the head of both files. It refuses what no reader would take.
func appendVerifyingKey(b []byte, vk *groth16.VerifyingKey, op string) ([]byte, error) {
	var e1 [points.G1Size]byte
	var e2 [points.G2Size]byte
	var failed error
	g1 := func(name string, p *bls12381.G1Affine) {
		if p.IsInfinity() && failed == nil {
			failed = errs.Mismatch(errs.Unsupported, op, name, "a finite point", "infinity").
				WithHint("bellman's files cannot hold it; a verification_key.json has no beta_g1 and delta_g1: export from the proving key")
		}
		points.EncodeG1(&e1, p)
		b = append(b, e1[:]...)
	}
	g2 := func(name string, p *bls12381.G2Affine) {
		if p.IsInfinity() && failed == nil {
			failed = errs.Mismatch(errs.Unsupported, op, name, "a finite point", "infinity")
		}
		points.EncodeG2(&e2, p)
		b = append(b, e2[:]...)
	}
	g1("alpha_g1", &vk.AlphaG1)
	g1("beta_g1", &vk.BetaG1)
	g2("beta_g2", &vk.BetaG2)
	g2("gamma_g2", &vk.GammaG2)
	g1("delta_g1", &vk.DeltaG1)
	g2("delta_g2", &vk.DeltaG2)
	b = binary.BigEndian.AppendUint32(b, uint32(len(vk.IC)))
	for i := range vk.IC {
		g1(fmt.Sprintf("ic, point %d", i), &vk.IC[i])
	}
	return b, failed
}

// WriteVerifyingKey writes a .vk file.
func WriteVerifyingKey(w io.Writer, vk *groth16.VerifyingKey) error {
	b, err := appendVerifyingKey(make([]byte, 0, VerifyingKeySize(len(vk.IC))), vk, "write vk")
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return errs.Wrap(err, "write vk")
}
