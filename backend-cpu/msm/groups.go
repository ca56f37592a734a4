package msm

import (
	"unsafe"

	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"

	"github.com/weir-zk/weir/backend-cpu/internal/affine"
	"github.com/weir-zk/weir/backend-cpu/internal/arena"
)

type g1 struct{}

func (g1) kernel(n int) affine.Kernel[bls12381.G1Affine] { return affine.NewG1(n) }
func (g1) batch() int                                    { return 1024 }
func (g1) pointBytes() int                               { return int(unsafe.Sizeof(bls12381.G1Affine{})) }
func (g1) kernelBytes() int                              { return affine.ScratchG1() }
func (g1) add(z, x *bls12381.G1Jac)                      { z.AddAssign(x) }
func (g1) addAffine(z *bls12381.G1Jac, x *bls12381.G1Affine) {
	z.AddMixed(x)
}
func (g1) double(z *bls12381.G1Jac) { z.DoubleAssign() }
func (g1) infinity() (z bls12381.G1Jac) {
	z.X.SetOne()
	z.Y.SetOne()
	return z
}

type g2 struct{}

func (g2) kernel(n int) affine.Kernel[bls12381.G2Affine] { return affine.NewG2(n) }
func (g2) batch() int                                    { return 512 }
func (g2) pointBytes() int                               { return int(unsafe.Sizeof(bls12381.G2Affine{})) }
func (g2) kernelBytes() int                              { return affine.ScratchG2() }
func (g2) add(z, x *bls12381.G2Jac)                      { z.AddAssign(x) }
func (g2) addAffine(z *bls12381.G2Jac, x *bls12381.G2Affine) {
	z.AddMixed(x)
}
func (g2) double(z *bls12381.G2Jac) { z.DoubleAssign() }
func (g2) infinity() (z bls12381.G2Jac) {
	z.X.SetOne()
	z.Y.SetOne()
	return z
}

func newEngineG1(mem *arena.Arena) engine[bls12381.G1Affine, bls12381.G1Jac] {
	return engine[bls12381.G1Affine, bls12381.G1Jac]{g1{}, mem}
}

func newEngineG2(mem *arena.Arena) engine[bls12381.G2Affine, bls12381.G2Jac] {
	return engine[bls12381.G2Affine, bls12381.G2Jac]{g2{}, mem}
}
