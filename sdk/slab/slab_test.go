package slab

import (
	"math"
	"testing"
)

func TestRoundSizeDoesNotOverflow(t *testing.T) {
	for _, n := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - hugeSize} {
		if got := RoundSize(n); got <= 0 || got%hugeSize != 0 {
			t.Errorf("RoundSize(%d) = %d", n, got)
		}
	}
}
