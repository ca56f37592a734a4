// Package snarkjs reads and writes the files of snarkjs for Groth16 over BLS12-381: proving keys (.zkey), verification_key.json,
// proof.json and public.json.
package snarkjs

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"math/bits"
	"slices"
	"sync"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Sections of a Groth16 .zkey file.
const (
	secProtocol      = 1
	secHeader        = 2
	secIC            = 3
	secCoefs         = 4
	secA             = 5
	secB1            = 6
	secB2            = 7
	secC             = 8 // the K points of the private wires
	secH             = 9
	secContributions = 10
)

// Protocol numbers in section 1.
const (
	protocolGroth16 = 1
	protocolPlonk   = 2
	protocolFflonk  = 10
)

const (
	sizeG1   = 2 * fp.Bytes
	sizeG2   = 4 * fp.Bytes
	sizeCoef = 3*4 + fr.Bytes
	// sizeSizes is u32 n8q, q, u32 n8r, r, u32 wires, public inputs, domain.
	sizeSizes  = 4 + fp.Bytes + 4 + fr.Bytes + 3*4
	sizeHeader = sizeSizes + 3*sizeG1 + 3*sizeG2
)

// Header is the sizes of a key, read without looking at its points.
type Header struct {
	NbWires   int // all wires with the one
	NbPublic  int // public inputs, the one not counted
	LogDomain int // N = 2^LogDomain, at least 1
	NbCoefs   int // non-zero entries of A and B, the NbPublic+1 extra rows with them
}

// ZKey is an open .zkey file whose header, verifying points and section sizes were checked. Safe for concurrent use.
type ZKey struct {
	c        *iden3.Container
	h        Header
	vk       groth16.VerifyingKey // without IC
	sections [secContributions + 1]iden3.Section
	buffers  sync.Pool // *[]byte, of eachBlock
	placed   struct {  // what placement found
		mu    sync.Mutex
		known bool
		rows  int
		order groth16.RowOrder
	}
}

// OpenZKey indexes a key. Errors: InvalidFile for a damaged file, Unsupported for a key of another protocol (plonk, fflonk), another curve or
// a domain above 2^28. The six points of the header are checked for curve and subgroup.
func OpenZKey(r io.ReaderAt, size int64) (*ZKey, error) {
	c, err := iden3.OpenContainer(r, size, "zkey", 1)
	if err != nil {
		return nil, err
	}
	z := &ZKey{c: c}
	if err := z.protocol(); err != nil {
		return nil, err
	}
	if err := z.header(); err != nil {
		return nil, err
	}
	if err := z.sizes(); err != nil {
		return nil, err
	}
	return z, nil
}

func (z *ZKey) protocol() error {
	s, err := z.c.NeedSize(secProtocol, "the protocol", 4)
	if err != nil {
		return err
	}
	p, err := z.c.Reader(s).U32()
	if err != nil {
		return err
	}
	switch p {
	case protocolGroth16:
		return nil
	case protocolPlonk:
		return z.c.Bad(errs.Unsupported, s.Where(), "a Groth16 key", "a PLONK key").WithHint("make the key with `snarkjs groth16 setup`")
	case protocolFflonk:
		return z.c.Bad(errs.Unsupported, s.Where(), "a Groth16 key", "an FFLONK key").WithHint("make the key with `snarkjs groth16 setup`")
	}
	return z.c.Bad(errs.InvalidFile, s.Where(), "protocol 1 (Groth16)", p)
}

// field reads a size and a prime of the header at off and compares with want.
func (z *ZKey) field(s iden3.Section, off int64, name string, want *big.Int) error {
	size := (want.BitLen() + 63) / 64 * 8
	b := make([]byte, 4+size)
	if err := z.c.ReadAt(s, b[:4], off); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint32(b); int(n) != size {
		found := fmt.Sprintf("%d bytes", n)
		if n == 32 && size == fp.Bytes {
			found += " (bn128, circom's and snarkjs' default, has 32)"
		}
		return z.c.Bad(errs.Unsupported, s.Where()+", "+name, fmt.Sprintf("a key over bls12-381: field elements of %d bytes", size), found).
			WithHint("compile with circom --prime bls12381 and use a bls12-381 powers-of-tau file")
	}
	if err := z.c.ReadAt(s, b[4:], off+4); err != nil {
		return err
	}
	p := b[4:]
	slices.Reverse(p)
	if got := new(big.Int).SetBytes(p); got.Cmp(want) != 0 {
		return z.c.Bad(errs.Unsupported, s.Where()+", "+name, "a key over bls12-381: modulus "+want.String(), got)
	}
	return nil
}

func (z *ZKey) header() error {
	s, err := z.c.Need(secHeader, "the header")
	if err != nil {
		return err
	}
	if err := z.field(s, 0, "base field", fp.Modulus()); err != nil {
		return err
	}
	if err := z.field(s, 4+fp.Bytes, "scalar field", fr.Modulus()); err != nil {
		return err
	}
	if s.Size != sizeHeader {
		return z.c.Bad(errs.InvalidFile, s.Where(), fmt.Sprintf("the header: %d bytes", sizeHeader), fmt.Sprintf("%d bytes", s.Size))
	}
	var b [sizeHeader]byte
	if err := z.c.ReadAt(s, b[:], 0); err != nil {
		return err
	}
	u := func(off int) uint64 { return uint64(binary.LittleEndian.Uint32(b[off:])) }
	wires, public, domain := u(sizeSizes-12), u(sizeSizes-8), u(sizeSizes-4)
	switch {
	case wires == 0 || public >= wires:
		return z.c.Bad(errs.InvalidFile, s.Where(), "more wires than public inputs", fmt.Sprintf("%d wires, %d public inputs", wires, public))
	case wires > assignment.MaxVariables:
		return z.c.Bad(errs.Unsupported, s.Where(), "at most 2^31 wires", wires)
	case domain < 2 || domain&(domain-1) != 0:
		return z.c.Bad(errs.InvalidFile, s.Where(), "a domain size that is a power of two, at least 2", domain)
	case domain > 1<<groth16.MaxLogDomain:
		return z.c.Bad(errs.Unsupported, s.Where(), "a domain of at most 2^28", domain)
	case public+1 > domain:
		return z.c.Bad(errs.InvalidFile, s.Where(), "a domain with room for the public inputs", fmt.Sprintf("%d public inputs, domain %d", public, domain))
	}
	z.h = Header{NbWires: int(wires), NbPublic: int(public), LogDomain: bits.TrailingZeros64(domain)}
	off := sizeSizes
	g1 := func(name string, p *bls.G1Affine) error {
		ok := decodeG1(p, b[off:]) && !p.IsInfinity() && p.IsInSubGroup()
		off += sizeG1
		return z.headerPoint(s, name, off-sizeG1, ok)
	}
	g2 := func(name string, p *bls.G2Affine) error {
		ok := decodeG2(p, b[off:]) && !p.IsInfinity() && p.IsInSubGroup()
		off += sizeG2
		return z.headerPoint(s, name, off-sizeG2, ok)
	}
	for _, err := range []error{g1("alpha1", &z.vk.AlphaG1), g1("beta1", &z.vk.BetaG1), g2("beta2", &z.vk.BetaG2),
		g2("gamma2", &z.vk.GammaG2), g1("delta1", &z.vk.DeltaG1), g2("delta2", &z.vk.DeltaG2)} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (z *ZKey) headerPoint(s iden3.Section, name string, off int, ok bool) error {
	if ok {
		return nil
	}
	return z.c.Bad(errs.InvalidFile, fmt.Sprintf("section %d, offset %d, %s", s.ID, s.Offset+int64(off), name), "a finite point of the curve in the subgroup of order r", "another value")
}

// sizes finds the sections and compares each with the counts of the header, so that a count stands for bytes that exist.
func (z *ZKey) sizes() error {
	n, pub, dom := uint64(z.h.NbWires), uint64(z.h.NbPublic), uint64(1)<<z.h.LogDomain
	for _, x := range []struct {
		id    uint32
		what  string
		count uint64
		each  uint64
	}{
		{secIC, "points of IC", pub + 1, sizeG1}, {secA, "points of A", n, sizeG1}, {secB1, "points of B1", n, sizeG1}, {secB2, "points of B2", n, sizeG2},
		{secC, "points of the private wires", n - pub - 1, sizeG1}, {secH, "points of H", dom, sizeG1},
	} {
		s, err := z.c.NeedSize(x.id, fmt.Sprintf("%d %s", x.count, x.what), x.count*x.each)
		if err != nil {
			return err
		}
		z.sections[x.id] = s
	}
	s, err := z.c.Need(secCoefs, "the coefficients")
	if err != nil {
		return err
	}
	count, err := z.c.Reader(s).U32()
	if err != nil {
		return err
	}
	if want := 4 + uint64(count)*sizeCoef; uint64(s.Size) != want {
		return z.c.Bad(errs.InvalidFile, s.Where(), fmt.Sprintf("%d coefficients: %d bytes", count, want), fmt.Sprintf("%d bytes", s.Size))
	}
	if uint64(count) < pub+1 {
		return z.c.Bad(errs.InvalidFile, s.Where(), fmt.Sprintf("at least the %d coefficients of the public inputs' extra rows", pub+1), count)
	}
	z.h.NbCoefs = int(count)
	z.sections[secCoefs] = s
	if s, ok := z.c.Find(secContributions); ok {
		z.sections[secContributions] = s
	}
	return nil
}

// Header returns the sizes.
func (z *ZKey) Header() Header { return z.h }

// Bound is the shape as far as the header tells it: A and B count as if every wire had a finite point, the number of rows is
// unknown (-1), and the row order taken for snarkjs' own. For planning; it costs nothing.
func (z *ZKey) Bound() groth16.Shape {
	return groth16.Shape{LogDomain: z.h.LogDomain, NbWires: z.h.NbWires, NbPublic: z.h.NbPublic, NbConstraints: -1, NbA: z.h.NbWires, NbB: z.h.NbWires,
		NbH: 1 << z.h.LogDomain, Rows: groth16.RowsFive, H: groth16.HOddCoset, HasMatrices: true}
}

// VerifyingKey reads the points of IC; all are checked for curve and subgroup.
func (z *ZKey) VerifyingKey(ctx context.Context) (*groth16.VerifyingKey, error) {
	vk := z.vk
	vk.IC = make([]bls.G1Affine, z.h.NbPublic+1)
	err := readDense(ctx, z, g1Codec, z.sections[secIC], 0, len(vk.IC), ReadOptions{}.tasks(), vk.IC)
	if err == nil {
		err = z.subgroupG1(ctx, z.sections[secIC], vk.IC, ReadOptions{}, identity)
	}
	if err != nil {
		return nil, err
	}
	return &vk, nil
}
