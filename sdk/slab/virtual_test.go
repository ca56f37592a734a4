package slab

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-zk/weir/sdk/errs"
)

// A virtual pool counts as a real one does, whatever is asked of it, and gives no bytes.
func TestVirtualPoolCountsAsARealOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	opts := PoolOptions{MaxIdle: 64 * pageSize}
	pools := []*Pool{NewPool(opts), nil}
	opts.Virtual = true
	pools[1] = NewPool(opts)
	var live [][2]*Buffer
	for range 2000 {
		switch n := len(live); {
		case n > 0 && (n > 30 || rng.IntN(2) == 0):
			i := rng.IntN(n)
			for _, b := range live[i] {
				free(t, b)
			}
			live[i], live = live[n-1], live[:n-1]
		case rng.IntN(20) == 0:
			keep := rng.Int64N(64 * pageSize)
			if a, b := pools[0].Trim(keep), pools[1].Trim(keep); a != b {
				t.Fatalf("trimmed %d and %d bytes", a, b)
			}
		default:
			purpose, size, tenant := Purpose(rng.IntN(int(numPurposes))), rng.Int64N(5)*pageSize-rng.Int64N(2), []string{"", "a"}[rng.IntN(2)]
			var pair [2]*Buffer
			for k, p := range pools {
				pair[k] = get(t, p, purpose, max(size, 0), tenant)
			}
			if pair[0].Size() != pair[1].Size() || pair[0].Len() != pair[1].Len() || pair[1].Bytes() != nil {
				t.Fatalf("%v and %v, %d bytes", pair[0].Ref(), pair[1].Ref(), len(pair[1].Bytes()))
			}
			live = append(live, pair)
		}
		if a, b := pools[0].Stats(), pools[1].Stats(); a != b {
			t.Fatalf("a real pool has %+v, a virtual one %+v", a, b)
		}
	}
	if s := pools[1].Stats(); s.Reused == 0 || s.Dropped == 0 {
		t.Errorf("nothing was used again or dropped: %+v", s)
	}
	for _, pair := range live {
		for _, b := range pair {
			free(t, b)
		}
	}
	for _, p := range pools {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A machine that nobody has: 2 TiB of buffers, that cannot be read or handed over, and leaks are told as ever.
func TestVirtualBuffersHaveNoBytes(t *testing.T) {
	p := NewPool(PoolOptions{Virtual: true})
	b := get(t, p, Witness, maxSlab, "")
	other := get(t, p, Evaluations, maxSlab, "")
	if n := p.Stats().Live(); n != 2*maxSlab {
		t.Errorf("%d bytes live", n)
	}
	_, err := p.Bytes(b.Ref())
	wantClass(t, err, errs.Unsupported)
	_, err = p.Bytes(b.Ref().Slice(0, maxSlab+1))
	wantClass(t, err, errs.InvalidArgument)
	_, err = b.File()
	wantClass(t, err, errs.Unsupported)
	free(t, b)
	_, err = p.Bytes(b.Ref())
	wantClass(t, err, errs.NotFound)
	mustPanic(t, func() { wantClass(t, b.Free(), errs.Internal) })
	if err := p.Close(); !errs.Is(err, errs.Internal) {
		t.Errorf("a leak: %v", err)
	}
	free(t, other)
}
