package snarkjs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc"
	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Shape finds out which points of A and B are finite and how many rows there are: one pass over sections 4 to 7.
func (z *ZKey) Shape(ctx context.Context) (groth16.Shape, error) {
	s, _, _, err := z.shape(ctx, ReadOptions{})
	return s, err
}

func (z *ZKey) shape(ctx context.Context, opt ReadOptions) (s groth16.Shape, a, b groth16.Bitmap, err error) {
	s = z.Bound()
	n := z.h.NbWires
	if a, err = z.finite(ctx, z.sections[secA], n, sizeG1, opt.tasks()); err != nil {
		return s, nil, nil, err
	}
	if b, err = z.finite(ctx, z.sections[secB1], n, sizeG1, opt.tasks()); err != nil {
		return s, nil, nil, err
	}
	b2, err := z.finite(ctx, z.sections[secB2], n, sizeG2, opt.tasks())
	if err != nil {
		return s, nil, nil, err
	}
	for i := range n {
		if b.Has(i) != b2.Has(i) {
			return s, nil, nil, z.c.Bad(errs.InvalidFile, fmt.Sprintf("sections %d and %d, wire %d", secB1, secB2, i), "infinity in both or in neither", fmt.Sprintf("finite: %v, %v", b.Has(i), b2.Has(i)))
		}
	}
	if s.NbConstraints, s.Rows, err = z.placement(ctx); err != nil {
		return s, nil, nil, err
	}
	s.NbA, s.NbB = a.Count(), b.Count()
	contributions, err := z.Contributions()
	if err != nil {
		return s, nil, nil, err
	}
	// Before the first contribution delta is 1, which everybody knows.
	s.Insecure = len(contributions.List) == 0
	return s, a, b, s.Validate()
}

// ProvingKey reads all points into weir's form: infinities leave A, B1 and B2 for the bitmaps, and the H points are brought from the order of
// snarkjs' root of unity into that of the generator 7. In the file, point i belongs to u' w'^i with the roots u', w' = u'^2 of the generator 5. Since u' = u^E with u
// the root of order 2N of the generator 7, u' w'^i = u^(E (2i+1)) = u w^j with j = (E (2i+1) - 1)/2 mod N.
func (z *ZKey) ProvingKey(ctx context.Context, opt ReadOptions) (*groth16.ProvingKey, error) {
	shape, aWires, bWires, err := z.shape(ctx, opt)
	if err != nil {
		return nil, err
	}
	vk, err := z.VerifyingKey(ctx)
	if err != nil {
		return nil, err
	}
	pk := &groth16.ProvingKey{Shape: shape, VK: *vk, AWires: aWires, BWires: bWires}
	pk.A = make([]bls.G1Affine, shape.NbA)
	pk.B1 = make([]bls.G1Affine, shape.NbB)
	pk.B2 = make([]bls.G2Affine, shape.NbB)
	pk.K = make([]bls.G1Affine, shape.NbPrivate())
	pk.H = make([]bls.G1Affine, shape.NbH)
	n := z.h.NbWires
	for _, read := range []func() error{
		func() error { return readPoints(ctx, z, g1Codec, z.sections[secA], n, opt, filter(pk.A, aWires)) },
		func() error { return readPoints(ctx, z, g1Codec, z.sections[secB1], n, opt, filter(pk.B1, bWires)) },
		func() error { return readPoints(ctx, z, g2Codec, z.sections[secB2], n, opt, filter(pk.B2, bWires)) },
		func() error {
			return readPoints(ctx, z, g1Codec, z.sections[secC], len(pk.K), opt, func(lo int, p []bls.G1Affine) { copy(pk.K[lo:], p) })
		},
		func() error {
			return readPoints(ctx, z, g1Codec, z.sections[secH], len(pk.H), opt, func(lo int, p []bls.G1Affine) {
				for i := range p {
					pk.H[hPosition(lo+i, shape.LogDomain)] = p[i]
				}
			})
		},
	} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	if opt.Subgroup {
		if err := z.subgroups(ctx, pk, opt); err != nil {
			return nil, err
		}
		if err := z.sameNumbers(pk); err != nil {
			return nil, err
		}
	}
	return pk, nil
}

// subgroups tests every point but those of the verifying key, which were tested before.
func (z *ZKey) subgroups(ctx context.Context, pk *groth16.ProvingKey, opt ReadOptions) error {
	wire := func(wires groth16.Bitmap) func(i int) int {
		return func(i int) int {
			for w := range pk.NbWires {
				if wires.Has(w) {
					if i--; i < 0 {
						return w
					}
				}
			}
			return -1
		}
	}
	inFile := func(j int) int {
		for i := range pk.H {
			if hPosition(i, pk.LogDomain) == j {
				return i
			}
		}
		return -1
	}
	for _, x := range []struct {
		id    uint32
		ps    []bls.G1Affine
		index func(i int) int
	}{{secA, pk.A, wire(pk.AWires)}, {secB1, pk.B1, wire(pk.BWires)}, {secC, pk.K, identity}, {secH, pk.H, inFile}} {
		if err := z.subgroupG1(ctx, z.sections[x.id], x.ps, opt, x.index); err != nil {
			return err
		}
	}
	return z.subgroupG2(ctx, z.sections[secB2], pk.B2, opt, wire(pk.BWires))
}

// hPosition is where point i of section 9 belongs in the natural order of the generator 7.
func hPosition(i, logDomain int) int {
	mask2N := uint64(2)<<logDomain - 1
	return int((groth16.SnarkjsRootExponent * uint64(2*i+1) & mask2N) >> 1) // the product is odd: (x-1)/2
}

// filter places the finite points of a chunk.
func filter[T any](to []T, finite groth16.Bitmap) func(lo int, p []T) {
	before, _ := ranks(finite)
	return func(lo int, p []T) {
		k := before[lo/pointsPerChunk]
		for i := range p {
			if finite.Has(lo + i) {
				to[k] = p[i]
				k++
			}
		}
	}
}

// sameNumbers checks with pairings that beta1 and beta2, delta1 and delta2, and a random combination of B1 and the same of B2 are multiples of the generators by the
// same numbers.
func (z *ZKey) sameNumbers(pk *groth16.ProvingKey) error {
	scalars := make([]fr.Element, len(pk.B1))
	for i := range scalars {
		var b [16]byte
		rand.Read(b[:]) // never fails
		// 128 random bits in the two low limbs: a number below r in Montgomery form like any other, distinct for distinct bits.
		scalars[i][0], scalars[i][1] = binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	}
	var b1 bls.G1Affine
	var b2 bls.G2Affine
	if len(scalars) > 0 {
		if _, err := b1.MultiExp(pk.B1, scalars, ecc.MultiExpConfig{}); err != nil {
			return &errs.Error{Class: errs.Internal, Op: "read .zkey", Err: err}
		}
		if _, err := b2.MultiExp(pk.B2, scalars, ecc.MultiExpConfig{}); err != nil {
			return &errs.Error{Class: errs.Internal, Op: "read .zkey", Err: err}
		}
	}
	_, _, g1, g2 := bls.Generators()
	for _, x := range []struct {
		where string
		p     bls.G1Affine
		q     bls.G2Affine
	}{{"beta1 and beta2", pk.VK.BetaG1, pk.VK.BetaG2}, {"delta1 and delta2", pk.VK.DeltaG1, pk.VK.DeltaG2}, {fmt.Sprintf("sections %d and %d", secB1, secB2), b1, b2}} {
		x.p.Neg(&x.p)
		ok, err := bls.PairingCheck([]bls.G1Affine{x.p, g1}, []bls.G2Affine{g2, x.q})
		if err != nil {
			return &errs.Error{Class: errs.Internal, Op: "read .zkey", Err: err}
		}
		if !ok {
			return z.c.Bad(errs.InvalidFile, x.where, "the same multiples of the two generators", "different ones")
		}
	}
	return nil
}

// Contribution is one entry of the ceremony's record. weir shows it and does not verify it: `snarkjs zkey verify` does, with the circuit and the powers of tau.
type Contribution struct {
	Name   string // as the contributor gave it, any bytes: quote it before printing
	Beacon bool   // made from a public random beacon
}

// Contributions is section 10.
type Contributions struct {
	CircuitHash [64]byte // of the key before the first contribution
	List        []Contribution
}

const (
	contributionFixed = 3*sizeG1 + sizeG2 + 64 + 4 + 4 // points, transcript hash, type, length of what follows
	// maxTranscript bounds section 10; an entry has some 650 bytes.
	maxTranscript = 16 << 20
)

// Transcript returns section 10 as it is, nil when the file has none. More than 16 MiB are refused.
func (z *ZKey) Transcript() ([]byte, error) {
	s := z.sections[secContributions]
	if s.Size == 0 {
		return nil, nil
	}
	if s.Size > maxTranscript {
		return nil, z.c.Bad(errs.Unsupported, s.Where(), fmt.Sprintf("at most %d bytes of contributions", maxTranscript), s.Size)
	}
	b := make([]byte, s.Size)
	return b, z.c.ReadAt(s, b, 0)
}

// Contributions reads the ceremony's record.
func (z *ZKey) Contributions() (*Contributions, error) {
	out := &Contributions{}
	s := z.sections[secContributions]
	if s.Size == 0 {
		return out, nil
	}
	if s.Size > maxTranscript {
		return nil, z.c.Bad(errs.Unsupported, s.Where(), fmt.Sprintf("at most %d bytes of contributions", maxTranscript), s.Size)
	}
	r := z.c.Reader(s)
	b, err := r.Next(64)
	if err != nil {
		return nil, err
	}
	copy(out.CircuitHash[:], b)
	n, err := r.U32()
	if err != nil {
		return nil, err
	}
	if int64(n)*contributionFixed > r.Rest() {
		return nil, z.c.Bad(errs.InvalidFile, r.Where(), fmt.Sprintf("at most %d contributions", r.Rest()/contributionFixed), n)
	}
	for range n {
		c, err := z.contribution(r)
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, c)
	}
	return out, r.End()
}

// contribution reads one entry. Its parameters are {kind:u8 ...}: 1 name (length:u8, text), 2 log2 of the beacon's iterations (u8), 3 beacon (length:u8, bytes).
func (z *ZKey) contribution(r *iden3.Reader) (c Contribution, err error) {
	if err := r.Skip(contributionFixed - 8); err != nil {
		return c, err
	}
	kind, err := r.U32()
	if err != nil {
		return c, err
	}
	c.Beacon = kind == 1
	left, err := r.U32()
	if err != nil {
		return c, err
	}
	next := func(n int) ([]byte, error) {
		if uint32(n) > left {
			return nil, z.c.Bad(errs.InvalidFile, r.Where(), fmt.Sprintf("%d bytes of a contribution's parameters", n), left)
		}
		left -= uint32(n)
		return r.Next(n)
	}
	for left > 0 {
		head, err := next(2)
		if err != nil {
			return c, err
		}
		kind, n := head[0], int(head[1])
		switch kind {
		case 1, 3:
			b, err := next(n)
			if err != nil {
				return c, err
			}
			if kind == 1 {
				c.Name = string(b)
			}
		case 2:
		default:
			return c, z.c.Bad(errs.InvalidFile, r.WhereBack(2), "a contribution's parameter of kind 1, 2 or 3", kind)
		}
	}
	return c, nil
}
