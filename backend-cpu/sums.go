package cpu

import (
	"context"

	"github.com/weir-zk/weir/backend-cpu/msm"
)

// sums does all that needs the witness only: the sums over A, B1, B2 and K. The witness is sorted once by what its values cost.
func (p *proof) sums(ctx context.Context) error {
	in := msm.In{Arena: p.scratch}
	if err := p.stage("classify", func() error { p.classes = in.Classify(p.w); return ctx.Err() }); err != nil {
		return err
	}
	pk, w := p.key.pk, p.classes
	for _, s := range []struct {
		name string
		of   section
		sum  func() error
	}{
		{"msm-a", sectionA, func() (err error) {
			p.aSum, err = in.WitnessG1(ctx, pk.A, p.key.aWires, w, p.tasks)
			return err
		}},
		{"msm-b1", sectionB1, func() (err error) {
			p.b1Sum, err = in.WitnessG1(ctx, pk.B1, p.key.bWires, w, p.tasks)
			return err
		}},
		{"msm-b2", sectionB2, func() (err error) {
			p.b2Sum, err = in.WitnessG2(ctx, pk.B2, p.key.bWires, w, p.tasks)
			return err
		}},
		{"msm-k", sectionK, func() (err error) {
			p.kSum, err = in.WitnessG1(ctx, pk.K, p.key.kWires, w, p.tasks)
			return err
		}},
	} {
		if err := p.stage(s.name, s.sum); err != nil {
			return err
		}
		p.drop(s.of)
	}
	return nil
}

// drop gives the pages of a section back when its sum is done.
func (p *proof) drop(s section) {
	if p.releasePages && p.key.release != nil {
		p.key.release(s)
	}
}
