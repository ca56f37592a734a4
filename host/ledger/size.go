package ledger

import (
	"fmt"
	"math"
	"strings"
)

// Size prints bytes as people read them.
type Size int64

// String has binary units and at most one decimal: "141GiB", "1.5GiB", "96MiB", "512B".
func (s Size) String() string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	sign, v, i := "", float64(s), 0
	if v < 0 {
		sign, v = "-", -v
	}
	for v >= 1023.5 && i < len(units)-1 { // which would be printed as 1024
		v /= 1024
		i++
	}
	t := fmt.Sprintf("%.0f", v)
	if v < 10 && i > 0 {
		t = strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return sign + t + units[i]
}

// NoBudget is a budget that refuses nothing: the system kills what does not fit.
const NoBudget = math.MaxInt64

// Budget prints a budget: a Size, or "none" for NoBudget.
type Budget int64

// String is "256GiB" or "none".
func (b Budget) String() string {
	if b == NoBudget {
		return "none"
	}
	return Size(b).String()
}

// plus adds without overflow: a sum that does not fit is the largest (or smallest) number there is, which no budget can hold.
func plus(a, b int64) int64 {
	switch s := a + b; {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	default:
		return s
	}
}
