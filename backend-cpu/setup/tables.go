package setup

import (
	"context"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"math/big"
)

// multiply sets points[i] to scalars[i] times a fixed base.
type multiply[P any] func(ctx context.Context, points []P, scalars []fr.Element, tasks int) error

type tableG1 struct{ base bls.G1Affine }
type tableG2 struct{ base bls.G2Affine }

func (m *maker) makeTables() error {
	_, _, g1, g2 := bls.Generators()
	var e big.Int
	m.g1.base.ScalarMultiplication(&g1, m.opts.Scalars.G1.BigInt(&e))
	m.g2.base.ScalarMultiplication(&g2, m.opts.Scalars.G2.BigInt(&e))
	return m.ctx.Err()
}

func (t *tableG1) mul(ctx context.Context, points []bls.G1Affine, scalars []fr.Element, tasks int) error {
	copy(points, bls.BatchScalarMultiplicationG1(&t.base, scalars))
	return ctx.Err()
}

func (t *tableG2) mul(ctx context.Context, points []bls.G2Affine, scalars []fr.Element, tasks int) error {
	copy(points, bls.BatchScalarMultiplicationG2(&t.base, scalars))
	return ctx.Err()
}
