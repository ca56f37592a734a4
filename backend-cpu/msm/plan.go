package msm

import (
	"math"

	"github.com/weir-zk/weir/backend-cpu/internal/digits"
)

// chooseWindow returns the width that makes a sum of n full-width terms cheapest. Costs are in field products: 6.5 an affine addition, 1.2 for
// sorting and gathering a point, 14 for a bucket in the weighted sum, and a constant for what a window costs anyway.
func chooseWindow(n int) digits.Window {
	best, bestCost := 4, math.Inf(1)
	for c := 4; c <= maxWindow; c++ {
		w := digits.New(c)
		b := float64(w.Values())
		full := b * (1 - math.Exp(-float64(n)/b))
		cost := float64(w.Count) * ((float64(n)-full)*6.5 + float64(n)*1.2 + b*14 + 500)
		if cost < bestCost {
			best, bestCost = c, cost
		}
	}
	return digits.New(best)
}

// maxWindow keeps the buckets of a window at 6 MiB in G1, 12 MiB in G2.
const maxWindow = 17
