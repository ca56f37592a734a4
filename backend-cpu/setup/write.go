package setup

import (
	"context"
	"io"
	"unsafe"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/sdk/encoding/wkey"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Write makes a key for sys and writes it to f as a prepared key (.wkey) with the circuit's matrices, section by section as the points are made. It
// returns the key's shape. AltDefault means H in both bases for domains of up to 2^22 points. Until the last moment the file does not look like a key, so a failure leaves nothing that could be used.
func Write(ctx context.Context, f io.WriterAt, sys *r1cs.System, opts Options, creator string) (*groth16.Shape, error) {
	w, err := wkey.NewWriter(f)
	if err != nil {
		return nil, err
	}
	opts.AltH = opts.AltH.inFile(sys.LogDomain())
	s := &fileSink{ctx: ctx, w: w, last: H}
	if opts.AltH == AltAlways {
		s.last = HAlt
	}
	if err := Make(ctx, sys, opts, s); err != nil {
		return nil, err
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if err := w.System(ctx, sys); err != nil {
		return nil, err
	}
	meta := wkey.Meta{Shape: s.shape, Digest: sys.Digest(), Source: wkey.Source{Kind: wkey.SourceSetup}, Creator: creator}
	if err := w.Finish(meta); err != nil {
		return nil, err
	}
	return &s.shape, nil
}

// fileSink writes the sections one after the other.
type fileSink struct {
	ctx   context.Context
	w     *wkey.Writer
	shape groth16.Shape
	last  Section // H or HAlt
	next  Section // the one to be begun next; the one before it is open, but for the first
}

var fileSections = [...]struct {
	id   wkey.SectionID
	elem int
}{
	A:  {wkey.SecA, int(unsafe.Sizeof(bls.G1Affine{}))},
	B1: {wkey.SecB1, int(unsafe.Sizeof(bls.G1Affine{}))},
	B2: {wkey.SecB2, int(unsafe.Sizeof(bls.G2Affine{}))},
	K:  {wkey.SecK, int(unsafe.Sizeof(bls.G1Affine{}))},
	H:  {wkey.SecH, int(unsafe.Sizeof(bls.G1Affine{}))},

	HAlt: {wkey.SecHAlt, int(unsafe.Sizeof(bls.G1Affine{}))},
}

func (s *fileSink) Begin(shape *groth16.Shape, vk *groth16.VerifyingKey, aWires, bWires groth16.Bitmap) error {
	s.shape = *shape
	if err := s.w.VerifyingKey(s.ctx, vk); err != nil {
		return err
	}
	if err := wkey.SectionOf(s.ctx, s.w, wkey.SecAWires, aWires); err != nil {
		return err
	}
	return wkey.SectionOf(s.ctx, s.w, wkey.SecBWires, bWires)
}

// open begins the sections up to s; one without points is begun and ended.
func (s *fileSink) open(to Section) error {
	for s.next <= to {
		if s.next > 0 {
			if err := s.w.End(); err != nil {
				return err
			}
		}
		if err := s.w.Begin(fileSections[s.next].id, fileSections[s.next].elem); err != nil {
			return err
		}
		s.next++
	}
	return nil
}

func (s *fileSink) G1(sec Section, part []bls.G1Affine) error {
	if err := s.open(sec); err != nil {
		return err
	}
	return wkey.Elements(s.w, part)
}

func (s *fileSink) G2(sec Section, part []bls.G2Affine) error {
	if err := s.open(sec); err != nil {
		return err
	}
	return wkey.Elements(s.w, part)
}

func (s *fileSink) end() error {
	if err := s.open(s.last); err != nil {
		return err
	}
	return s.w.End()
}
