package snarkjs

import (
	"fmt"
	"io"
	"math/big"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// WriteZKey writes a key as snarkjs reads it, sections 1 to 10 in order. s gives the rows of A and B.
//
// The H points must be those of the odd coset; monomial ones would need a transform over the points and are refused with class Unsupported. Rows may be in either order:
// those of the generator 7 are placed so that snarkjs finds each at its point of the domain (see zkey_rows.go).
//
// transcript is section 10 as ZKey.Transcript returned it; nil writes a record of no contributions, which is right for a development key:
// read back it counts as insecure. The format has no other place for that mark.
func WriteZKey(w io.Writer, pk *groth16.ProvingKey, s *r1cs.System, transcript []byte) error {
	const op = "write .zkey"
	if err := pk.Validate(); err != nil {
		return err
	}
	bad := func(class errs.Class, where string, expected, found any) error {
		return errs.Mismatch(class, op, where, expected, found)
	}
	switch {
	case pk.Shape.H != groth16.HOddCoset:
		return errs.Mismatch(errs.Unsupported, op, "H", groth16.HOddCoset, pk.Shape.H).
			WithHint("snarkjs needs the points of the odd coset; make the key with weir setup, which keeps both forms unless the circuit is very large")
	case pk.LogDomain < 1:
		return bad(errs.Unsupported, "domain", "at least 2 points, as snarkjs has", 1)
	case pk.VK.BetaG1.IsInfinity() || pk.VK.DeltaG1.IsInfinity():
		return bad(errs.InvalidArgument, "verifying key", "beta and delta in G1", "infinity")
	case s.NbWires != pk.NbWires || s.NbPublic != pk.NbPublic || (pk.NbConstraints >= 0 && s.NbConstraints() != pk.NbConstraints):
		return bad(errs.InvalidArgument, "constraint system", fmt.Sprintf("that of the key: %d wires, %d public, %d rows", pk.NbWires, pk.NbPublic, pk.NbConstraints), fmt.Sprintf("%d, %d, %d", s.NbWires, s.NbPublic, s.NbConstraints()))
	case s.NbConstraints()+s.NbPublic+1 > pk.DomainSize():
		return bad(errs.InvalidArgument, "constraint system", fmt.Sprintf("at most %d rows with the public inputs", pk.DomainSize()), s.NbConstraints()+s.NbPublic+1)
	}
	if err := lengths(op, pk); err != nil {
		return err
	}
	nbCoefs := uint64(s.A.NNZ()) + uint64(s.B.NNZ()) + uint64(s.NbPublic) + 1
	if nbCoefs > 1<<32-1 {
		return bad(errs.Unsupported, "constraint system", "fewer than 2^32 coefficients of A and B", nbCoefs)
	}
	if transcript == nil {
		transcript = emptyTranscript(pk.Rows, pk.LogDomain)
	}

	e := zkeyWriter{iden3.NewWriter(w, "zkey", 1, 10)}
	e.Section(secProtocol, 4)
	e.U32(protocolGroth16)
	e.header(pk)
	e.Section(secIC, uint64(len(pk.VK.IC))*sizeG1)
	for i := range pk.VK.IC {
		e.g1(&pk.VK.IC[i])
	}
	e.coefs(s, pk.Rows, pk.LogDomain, nbCoefs)
	e.Section(secA, uint64(pk.NbWires)*sizeG1)
	spread(pk.A, pk.AWires, pk.NbWires, e.g1)
	e.Section(secB1, uint64(pk.NbWires)*sizeG1)
	spread(pk.B1, pk.BWires, pk.NbWires, e.g1)
	e.Section(secB2, uint64(pk.NbWires)*sizeG2)
	spread(pk.B2, pk.BWires, pk.NbWires, e.g2)
	e.Section(secC, uint64(len(pk.K))*sizeG1)
	for i := range pk.K {
		e.g1(&pk.K[i])
	}
	e.Section(secH, uint64(len(pk.H))*sizeG1)
	for i := range pk.H {
		e.g1(&pk.H[hPosition(i, pk.LogDomain)])
	}
	e.Section(secContributions, uint64(len(transcript)))
	e.Bytes(transcript)
	return e.Close()
}

// lengths checks that the slices of pk are what its shape says.
func lengths(op string, pk *groth16.ProvingKey) error {
	for _, x := range []struct {
		name      string
		want, got int
	}{
		{"ic", pk.NbPublic + 1, len(pk.VK.IC)}, {"A", pk.NbA, len(pk.A)}, {"B1", pk.NbB, len(pk.B1)}, {"B2", pk.NbB, len(pk.B2)}, {"K", pk.NbPrivate(), len(pk.K)}, {"H", pk.NbH, len(pk.H)},
		{"wires of A", (pk.NbWires + 63) / 64, len(pk.AWires)}, {"wires of B", (pk.NbWires + 63) / 64, len(pk.BWires)}, {"wires of A", pk.NbA, pk.AWires.Count()}, {"wires of B", pk.NbB, pk.BWires.Count()},
	} {
		if x.want != x.got {
			return errs.Mismatch(errs.InvalidArgument, op, x.name, x.want, x.got)
		}
	}
	return nil
}

type zkeyWriter struct{ *iden3.Writer }

func (e zkeyWriter) g1(p *bls.G1Affine) {
	var b [sizeG1]byte
	encodeG1(b[:], p)
	e.Bytes(b[:])
}

func (e zkeyWriter) g2(p *bls.G2Affine) {
	var b [sizeG2]byte
	encodeG2(b[:], p)
	e.Bytes(b[:])
}

func (e zkeyWriter) header(pk *groth16.ProvingKey) {
	prime := func(be []byte) {
		e.U32(uint32(len(be)))
		for i := range be {
			e.Bytes(be[len(be)-1-i : len(be)-i])
		}
	}
	e.Section(secHeader, sizeHeader)
	prime(fp.Modulus().FillBytes(make([]byte, fp.Bytes)))
	prime(fr.Modulus().FillBytes(make([]byte, fr.Bytes)))
	e.U32(uint32(pk.NbWires))
	e.U32(uint32(pk.NbPublic))
	e.U32(uint32(pk.DomainSize()))
	e.g1(&pk.VK.AlphaG1)
	e.g1(&pk.VK.BetaG1)
	e.g2(&pk.VK.BetaG2)
	e.g2(&pk.VK.GammaG2)
	e.g1(&pk.VK.DeltaG1)
	e.g2(&pk.VK.DeltaG2)
}

// coefs writes section 4 index by index: of the row that stands there A's terms, then B's. The extra rows of the public inputs follow the others.
func (e zkeyWriter) coefs(s *r1cs.System, order groth16.RowOrder, logDomain int, count uint64) {
	// Multiplying by the element R gives limbs n R * R^2 / R = n R^2: see coef.
	one := fr.One() // has the limbs of R
	var r fr.Element
	r.SetBigInt(limbsValue(&one))
	double := make([]fr.Element, len(s.Coeffs))
	for i := range double {
		double[i].Mul(&s.Coeffs[i], &r)
	}
	e.Section(secCoefs, 4+count*sizeCoef)
	e.U32(uint32(count))
	put := func(matrix, row, wire uint32, v *fr.Element) {
		e.U32(matrix)
		e.U32(row)
		e.U32(wire)
		for _, l := range v {
			e.U64(l)
		}
	}
	ms := []*r1cs.Matrix{&s.A, &s.B}
	rows, n := s.NbConstraints(), s.NbConstraints()+s.NbPublic+1
	if order == groth16.RowsSeven {
		n = 1 << logDomain
	}
	for index := 0; index < n && e.Err() == nil; index++ {
		row := index
		if order == groth16.RowsSeven {
			row = int(groth16.RowsFive.Position(uint64(index), uint64(n)))
		}
		switch {
		case row < rows:
			for k, m := range ms {
				wire, coeff := m.Row(row)
				for i := range wire {
					put(uint32(k), uint32(index), wire[i], &double[coeff[i]])
				}
			}
		case row <= rows+s.NbPublic:
			put(0, uint32(index), uint32(row-rows), &r)
		}
	}
}

// limbsValue is the number that the limbs of x spell.
func limbsValue(x *fr.Element) *big.Int {
	v := new(big.Int)
	for i := len(x) - 1; i >= 0; i-- {
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(x[i]))
	}
	return v
}

// spread writes n points: those of the set wires, infinity for the others.
func spread[T any](points []T, wires groth16.Bitmap, n int, put func(*T)) {
	var infinity T
	k := 0
	for i := range n {
		if wires.Has(i) {
			put(&points[k])
			k++
		} else {
			put(&infinity)
		}
	}
}
