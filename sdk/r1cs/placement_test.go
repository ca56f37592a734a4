package r1cs

import (
	"context"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/groth16"
)

// Rows written through buckets end where RowOrder.Position says, on domains around and above the size from which buckets are used and grow.
func TestPlacement(t *testing.T) {
	logs := []int{0, 1, 2, 5, bucketLog, bucketLog + 1, bucketLog + 2, bucketLog + 4}
	if !testing.Short() {
		logs = append(logs, bucketLog+maxBucketsLog, bucketLog+maxBucketsLog+1)
	}
	ctx := context.Background()
	for _, k := range logs {
		n := 1 << k
		for _, order := range []groth16.RowOrder{groth16.RowsSeven, groth16.RowsFive} {
			v := make([]fr.Element, n)
			p, err := newPlacement(ctx, order, n, 2)
			if err != nil {
				t.Fatal(err)
			}
			err = eachChunk(ctx, n, evaluationChunk(n), 3, func(lo, hi int) error {
				c := p.chunk(lo)
				for i := lo; i < hi; i++ {
					v[c.advance()] = fr.Element{uint64(i), 1}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.settle(ctx, [][]fr.Element{v}, 3); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if v[order.Position(uint64(i), uint64(n))] != (fr.Element{uint64(i), 1}) {
					t.Fatalf("2^%d, %v: row %d is not in its place", k, order, i)
				}
			}
		}
	}
}
