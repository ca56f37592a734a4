package keyfile

import (
	"context"
	"io"

	"github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/bellman"
	"github.com/weir-zk/weir/sdk/encoding/snarkjs"
	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// source is a key to import: its points come in chunks, checked, in the order of the prepared key's sections.
type source interface {
	// describe is called first. sys is what the prepared key will hold, nil for none.
	describe(ctx context.Context) (d description, err error)
	g1(ctx context.Context, id wkey.SectionID, f func([]bls12381.G1Affine) error) error
	g2(ctx context.Context, f func([]bls12381.G2Affine) error) error
}

type description struct {
	shape          groth16.Shape
	vk             *groth16.VerifyingKey
	aWires, bWires groth16.Bitmap
	sys            *r1cs.System
	digest         r1cs.Digest
	transcript     []byte
	kind           wkey.SourceKind
	places         string // where B1 and B2 are, for an error
	altH           bool   // the source has H in another basis too
	altBasis       groth16.HBasis
	nbAltH         int
}

func openSource(r io.ReaderAt, size int64, circuit *r1cs.System, o *ImportOptions) (source, error) {
	kind, err := Sniff(r, size)
	if err != nil {
		return nil, err
	}
	switch kind {
	case Params:
		p, err := bellman.Open(r, size)
		if err != nil {
			return nil, err
		}
		if circuit == nil {
			return nil, needCircuit()
		}
		return &paramsSource{p: p, circuit: circuit, o: o}, nil
	case ZKey:
		z, err := snarkjs.OpenZKey(r, size)
		if err != nil {
			return nil, err
		}
		return &zkeySource{z: z, circuit: circuit, o: o}, nil
	case WKey:
		h, err := wkey.ReadHeader(r, size)
		if err != nil {
			return nil, err
		}
		return &wkeySource{h: h, r: r, circuit: circuit, o: o}, nil
	}
	return nil, unusable("import key", "a proving key (.zkey, .params or .wkey)", kind)
}

// paramsSource streams: a chunk of points at a time is in memory.
type paramsSource struct {
	p       *bellman.Params
	circuit *r1cs.System
	o       *ImportOptions
}

func (s *paramsSource) describe(context.Context) (d description, err error) {
	dens := bellman.DensitiesOf(s.circuit)
	if err := s.p.Match(dens); err != nil {
		return d, err
	}
	d.shape, d.kind, d.places = s.p.Shape(), wkey.SourceParams, paramsPairs
	d.aWires, d.bWires, d.sys = dens.A, dens.B, s.circuit
	d.vk, err = s.p.VerifyingKey()
	return d, err
}

func (s *paramsSource) options() bellman.Options {
	return bellman.Options{Tasks: s.o.Tasks, CheckSubgroup: !s.o.Trust}
}

func (s *paramsSource) g1(ctx context.Context, id wkey.SectionID, f func([]bls12381.G1Affine) error) error {
	list := map[wkey.SectionID]*bellman.Section{wkey.SecA: &s.p.A, wkey.SecB1: &s.p.B1, wkey.SecK: &s.p.L, wkey.SecH: &s.p.H}[id]
	return s.p.StreamG1(ctx, list, s.options(), f)
}

func (s *paramsSource) g2(ctx context.Context, f func([]bls12381.G2Affine) error) error {
	return s.p.StreamG2(ctx, &s.p.B2, s.options(), f)
}

// zkeySource streams: a chunk of points at a time is in memory, of H a sixteenth if that is more.
type zkeySource struct {
	z       *snarkjs.ZKey
	circuit *r1cs.System
	o       *ImportOptions
	points  *snarkjs.Points
}

func (s *zkeySource) describe(ctx context.Context) (d description, err error) {
	if d.sys, err = s.z.System(ctx); err != nil {
		return d, err
	}
	if s.circuit != nil {
		bound := s.z.Bound()
		if d.sys, err = same(&bound, r1cs.Digest{}, d.sys, s.circuit); err != nil {
			return d, err
		}
	}
	if s.points, err = s.z.Points(ctx, snarkjs.ReadOptions{Tasks: max(1, s.o.Tasks), Subgroup: !s.o.Trust}); err != nil {
		return d, err
	}
	if d.vk, err = s.z.VerifyingKey(ctx); err != nil {
		return d, err
	}
	if !s.o.Trust {
		if err := s.z.CheckHeaderPairs(); err != nil {
			return d, err
		}
	}
	if d.transcript, err = s.z.Transcript(); err != nil {
		return d, err
	}
	d.shape, d.aWires, d.bWires, d.kind, d.places = s.points.Shape, s.points.AWires, s.points.BWires, wkey.SourceZKey, "sections 6 and 7"
	return d, nil
}

func (s *zkeySource) g1(ctx context.Context, id wkey.SectionID, f func([]bls12381.G1Affine) error) error {
	list := map[wkey.SectionID]snarkjs.List{wkey.SecA: snarkjs.ListA, wkey.SecB1: snarkjs.ListB1, wkey.SecK: snarkjs.ListK, wkey.SecH: snarkjs.ListH}[id]
	return s.points.StreamG1(ctx, list, f)
}

func (s *zkeySource) g2(ctx context.Context, f func([]bls12381.G2Affine) error) error {
	return s.points.StreamB2(ctx, f)
}

// wkeySource streams another prepared key, so that a circuit (or its C) can be added, or the points be checked again.
type wkeySource struct {
	h       *wkey.Header
	r       io.ReaderAt
	circuit *r1cs.System
	o       *ImportOptions
}

func (s *wkeySource) describe(ctx context.Context) (d description, err error) {
	if err := s.h.VerifyChecksums(ctx, s.r, s.o.Tasks); err != nil {
		return d, err
	}
	if err := s.h.VerifyPoints(ctx, s.r, wkey.VerifyOptions{Tasks: s.o.Tasks, Curve: true, Subgroup: !s.o.Trust}); err != nil {
		return d, err
	}
	d.shape, d.digest, d.kind, d.places = s.h.Shape, s.h.Digest, wkey.SourceWKey, "sections B1, B2"
	if d.vk, err = s.h.VerifyingKey(s.r); err != nil {
		return d, err
	}
	if d.aWires, err = s.h.ReadWires(s.r, wkey.SecAWires); err != nil {
		return d, err
	}
	if d.bWires, err = s.h.ReadWires(s.r, wkey.SecBWires); err != nil {
		return d, err
	}
	if d.sys, err = s.h.ReadSystem(ctx, s.r, s.o.Tasks); err != nil {
		return d, err
	}
	if d.transcript, err = s.h.Transcript(s.r); err != nil {
		return d, err
	}
	if d.altBasis, d.altH = s.h.AltBasis(); d.altH {
		d.nbAltH = int(s.h.Section(wkey.SecHAlt).Count)
	}
	if s.circuit == nil {
		return d, nil
	}
	if d.sys == nil {
		d.sys = s.circuit
		pk := groth16.ProvingKey{Shape: d.shape, AWires: d.aWires, BWires: d.bWires}
		return d, Check(&pk, d.digest, s.circuit)
	}
	d.sys, err = same(&d.shape, d.digest, d.sys, s.circuit)
	return d, err
}

func (s *wkeySource) g1(ctx context.Context, id wkey.SectionID, f func([]bls12381.G1Affine) error) error {
	return s.h.StreamG1(ctx, s.r, id, func(_ int, ps []bls12381.G1Affine) error { return f(ps) })
}

func (s *wkeySource) g2(ctx context.Context, f func([]bls12381.G2Affine) error) error {
	return s.h.StreamG2(ctx, s.r, wkey.SecB2, func(_ int, ps []bls12381.G2Affine) error { return f(ps) })
}

// matched compares a key's bitmaps with the circuit it will carry: a .zkey says itself which points are finite.
func (d *description) matched() error {
	if d.sys == nil {
		return nil
	}
	pk := groth16.ProvingKey{Shape: d.shape, AWires: d.aWires, BWires: d.bWires}
	return errs.Wrap(Check(&pk, r1cs.Digest{}, d.sys), "import key")
}
