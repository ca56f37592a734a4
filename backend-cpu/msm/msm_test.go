package msm

import (
	"context"
	"fmt"
	"testing"

	"github.com/consensys/gnark-crypto/ecc"
	bls12381 "github.com/consensys/gnark-crypto/ecc/bls12-381"
)

func TestQuick(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100, 1000, 10000, 100000} {
		for _, tasks := range []int{1, 2, 9} {
			p, s := g1Points(n), randomScalars(n, uint64(n))
			got, err := G1(context.Background(), p, s, tasks)
			if err != nil {
				t.Fatal(err)
			}
			var want bls12381.G1Jac
			want.MultiExp(p, s, ecc.MultiExpConfig{})
			if !got.Equal(&want) {
				t.Error(fmt.Sprint(n, tasks, "differs"))
			}
		}
	}
}
