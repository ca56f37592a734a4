package textbook

import (
	"sync"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Multiples of the generators by a table of byte windows: tables[k][v-1] = v 256^k G. Keys of a few thousand points would otherwise take
// most of a test's time.
var (
	tables1 = sync.OnceValue(func() *[32][255]bls.G1Affine {
		var t [32][255]bls.G1Affine
		_, _, g, _ := bls.Generators()
		var base bls.G1Jac
		base.FromAffine(&g)
		for k := range t {
			var row [255]bls.G1Jac
			row[0] = base
			for v := 1; v < 255; v++ {
				row[v] = row[v-1]
				row[v].AddAssign(&base)
			}
			base.AddAssign(&row[254])
			copy(t[k][:], bls.BatchJacobianToAffineG1(row[:]))
		}
		return &t
	})
	tables2 = sync.OnceValue(func() *[32][255]bls.G2Affine {
		var t [32][255]bls.G2Affine
		_, _, _, g := bls.Generators()
		var base bls.G2Jac
		base.FromAffine(&g)
		for k := range t {
			acc := base
			for v := range 255 {
				t[k][v].FromJacobian(&acc)
				acc.AddAssign(&base)
			}
			base = acc
		}
		return &t
	})
)

func multiples1(scalars []fr.Element) []bls.G1Affine {
	t := tables1()
	sums := make([]bls.G1Jac, len(scalars))
	for i := range scalars {
		for k, v := range bytesOf(&scalars[i]) {
			if v != 0 {
				sums[i].AddMixed(&t[k][v-1])
			}
		}
	}
	if len(sums) == 0 {
		return nil
	}
	return bls.BatchJacobianToAffineG1(sums)
}

func multiples2(scalars []fr.Element) []bls.G2Affine {
	t := tables2()
	var out []bls.G2Affine
	for i := range scalars {
		var sum bls.G2Jac
		for k, v := range bytesOf(&scalars[i]) {
			if v != 0 {
				sum.AddMixed(&t[k][v-1])
			}
		}
		var p bls.G2Affine
		p.FromJacobian(&sum)
		out = append(out, p)
	}
	return out
}

// bytesOf is x in little-endian bytes.
func bytesOf(x *fr.Element) (b [32]byte) {
	fr.LittleEndian.PutElement(&b, *x)
	return b
}
