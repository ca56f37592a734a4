// Package ntt has the number-theoretic transforms over BLS12-381's scalar field that a Groth16 prover needs, in place and without any reordering.
//
// A polynomial's coefficients are turned into its values on D = {w^i} (w = 7^t of order N = 2^k, the root of gnark-crypto and bellman) or on
// the odd coset uD, u of order 2N, u^2 = w, where X^N - 1 is -2 everywhere. One side of a transform is in natural order, the other in bit-reversed
// order: element p of a bit-reversed vector has the index that p's k bits give backwards. The way of a prover is
//
//	values on D, natural  --Inverse-->  coefficients, bit-reversed  --ForwardCosetReversed-->  values on uD, natural
//
// Method. Reducing f mod X^m - z^2 to f mod X^(m/2) - z and mod X^(m/2) + z halves a transform. Every such step of one block of elements has one twiddle
// factor z, which depends on the block's number only: with the factors stored in bit-reversed order, T[b] = w^(rev b), they are the same table at every level,
// are read in order, serve all smaller domains as well, and their inverses are -T at the mirrored place. So N/2 elements are all that a domain stores.
// The transposed network goes from bit-reversed to natural order. Two levels are done in one pass over memory, and blocks are finished one after the
// other once they fit into the cache (the recursive order of M. Frigo et al., "Cache-oblivious algorithms", 1999).
//
// The coset costs about one level: powers of u in bit-reversed order are T again.
package ntt

import (
	"context"
	"math/big"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/internal/arena"
	"github.com/weir-zk/weir/backend-cpu/internal/parallel"
	"github.com/weir-zk/weir/sdk/errs"
)

// MaxLog is the largest k of a domain.
const MaxLog = 28

// Domain holds what transforms of N = 2^k elements need: N/2 elements of twiddle factors. It is safe for concurrent use.
type Domain struct {
	log     int
	n       int
	twiddle []fr.Element // T[b], b < max(1, N/2)
	u, uInv fr.Element   // the odd coset's shift, of order 2N
	nInv    fr.Element
}

// Bytes is the size of the table of NewDomain(log, ...).
func Bytes(log int) int64 { return 32 * int64(max(1, 1<<log/2)) }

// NewDomain makes the domain of 2^log elements with at most tasks goroutines (all processors if tasks <= 0). It errors if log is not in 0..MaxLog.
func NewDomain(log, tasks int) (*Domain, error) { return NewDomainIn(nil, log, tasks) }

// NewDomainIn is NewDomain with its table in mem, which must live as long as the domain is used and have room for Bytes(log).
func NewDomainIn(mem *arena.Arena, log, tasks int) (*Domain, error) {
	if log < 0 || log > MaxLog {
		return nil, errs.Mismatch(errs.InvalidArgument, "transform domain", "log2 of its size", "0 to 28", log)
	}
	d := &Domain{log: log, n: 1 << log, twiddle: arena.Take[fr.Element](mem, max(1, 1<<log/2))}
	d.u = Root(log + 1)
	d.uInv.Inverse(&d.u)
	d.nInv.SetUint64(uint64(d.n))
	d.nInv.Inverse(&d.nInv)
	d.twiddle[0].SetOne()
	for b := 0; 1<<b < len(d.twiddle); b++ {
		// T[2^b + i] = T[2^b] T[i]
		z, lower, upper := Root(b+2), d.twiddle[:1<<b], d.twiddle[1<<b:2<<b]
		parallel.Run(context.Background(), len(lower)>>12+1, tasks, func(i int) {
			lo := i << 12
			mulVec(upper[lo:min(lo+1<<12, len(upper))], lower[lo:min(lo+1<<12, len(lower))], &z)
		})
	}
	return d, nil
}

// Root returns the root of unity of order 2^log, log <= 32: w = 7^((r-1)/2^32) to the power 2^(32-log).
func Root(log int) fr.Element {
	t := new(big.Int).Sub(fr.Modulus(), big.NewInt(1))
	w := fr.NewElement(7)
	w.Exp(w, t.Rsh(t, 32))
	for range 32 - log {
		w.Square(&w)
	}
	return w
}

// Size is N.
func (d *Domain) Size() int { return d.n }

// Log is k = log2 N.
func (d *Domain) Log() int { return d.log }

// SizeInverse is 1/N, the factor that the inverse transforms leave out.
func (d *Domain) SizeInverse() fr.Element { return d.nInv }

// Shift is u, the generator of the odd coset.
func (d *Domain) Shift() fr.Element { return d.u }

// The transforms work in place on N elements with at most tasks goroutines (all processors if tasks <= 0). They error if the length is wrong, and with
// ctx's error soon after ctx ends; the vector is of no use then.

// Forward takes coefficients in natural order to values on D in bit-reversed order.
func (d *Domain) Forward(ctx context.Context, a []fr.Element, tasks int) error {
	return d.scatter(ctx, a, tasks, false, false)
}

// ForwardReversed takes coefficients in bit-reversed order to values on D in natural order.
func (d *Domain) ForwardReversed(ctx context.Context, a []fr.Element, tasks int) error {
	return d.gather(ctx, a, tasks, false, false)
}

// ForwardCosetReversed takes coefficients in bit-reversed order to values on the odd coset in natural order: element i is the value at u w^i.
func (d *Domain) ForwardCosetReversed(ctx context.Context, a []fr.Element, tasks int) error {
	return d.gather(ctx, a, tasks, false, true)
}

// Inverse takes values on D in natural order to N times the coefficients, in bit-reversed order.
func (d *Domain) Inverse(ctx context.Context, a []fr.Element, tasks int) error {
	return d.scatter(ctx, a, tasks, true, false)
}

// InverseReversed takes values on D in bit-reversed order to N times the coefficients, in natural order.
func (d *Domain) InverseReversed(ctx context.Context, a []fr.Element, tasks int) error {
	return d.gather(ctx, a, tasks, true, false)
}

// InverseCoset takes values on the odd coset in natural order to N times the coefficients, in bit-reversed order.
func (d *Domain) InverseCoset(ctx context.Context, a []fr.Element, tasks int) error {
	return d.scatter(ctx, a, tasks, true, true)
}

// BitReverse puts a vector of 2^k elements in bit-reversed order, or back.
func BitReverse[T any](a []T) {
	shift := 64 - bits.TrailingZeros64(uint64(len(a)))
	for i := range a {
		if j := int(bits.Reverse64(uint64(i)) >> shift); i < j {
			a[i], a[j] = a[j], a[i]
		}
	}
}
