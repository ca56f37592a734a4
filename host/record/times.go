package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-zk/weir/host"
)

// maxTimes is how many times a Times keeps.
const maxTimes = 1 << 14

// Times is a set of times in bounded memory. The mean is exact; quantiles are exact up to maxTimes, and those of a sample beyond (reservoir sampling: Vitter, ACM TOMS
// 11(1), 1985, algorithm R). The zero value is empty.
type Times struct {
	n    int
	sum  time.Duration
	list []time.Duration
	rng  *rand.Rand
}

// Add adds d.
func (t *Times) Add(d time.Duration) {
	t.n++
	t.sum += d
	if len(t.list) < maxTimes {
		t.list = append(t.list, d)
		return
	}
	if t.rng == nil {
		t.rng = rand.New(rand.NewPCG(1, 2))
	}
	if i := t.rng.IntN(t.n); i < maxTimes {
		t.list[i] = d
	}
}

// Len is how many there are.
func (t *Times) Len() int { return t.n }

// Quantiles are in seconds, by the nearest rank; zero of an empty set.
func (t *Times) Quantiles() host.Quantiles {
	if t.n == 0 {
		return host.Quantiles{}
	}
	list := slices.Sorted(slices.Values(t.list))
	rank := func(q float64) float64 { return list[int(math.Ceil(q*float64(len(list))))-1].Seconds() }
	return host.Quantiles{Mean: t.sum.Seconds() / float64(t.n), P50: rank(0.5), P95: rank(0.95)}
}
