package assignment

import (
	"fmt"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Direct is an assignment whose layout is known beforehand: which variables are bits follows from the circuit, not from the values, so each listed value
// has its place from the start. Its parts are written in any order, by several goroutines. A listed value may be zero or one here.
type Direct struct {
	IsBit, Value []uint64     // nil for the dense form; all zero at the start
	List         []fr.Element // every variable (dense) or those whose IsBit is zero, in order; unspecified at the start
	w            *Builder
}

// NewDirect lays out n variables in b, of which listed are not bits; for the dense form listed is n. b must be 8-byte aligned and have DenseSize(n) or
// CompactSize(n, listed) bytes.
func NewDirect(b []byte, form Form, n, listed int) (*Direct, error) {
	w, err := NewBuilder(b, form, n)
	if err != nil {
		return nil, err
	}
	if listed < 0 || listed > len(w.all) || (form == Dense) != (listed == n && w.v.isBit == nil) {
		return nil, errs.Mismatch(errs.InvalidArgument, "witness buffer", "listed values", fmt.Sprintf("at most %d, %d in the dense form", len(w.all), n), listed)
	}
	return &Direct{IsBit: w.v.isBit, Value: w.v.value, List: w.all[:listed], w: w}, nil
}

// Finish counts what is listed, writes ranks and header, and returns the assignment. It fails when the bitmap does not leave len(List) variables.
func (d *Direct) Finish() (*Vector, error) {
	w := d.w
	w.next, w.listed = w.v.n, w.v.n
	if w.v.form == Compact {
		count := 0
		for k, x := range d.IsBit {
			if k%(block/64) == 0 {
				w.v.rank[k/(block/64)] = uint32(count)
			}
			valid := ^uint64(0)
			if k == len(d.IsBit)-1 && w.v.n%64 != 0 {
				valid = 1<<(w.v.n%64) - 1
			}
			count += bits.OnesCount64(^x & valid)
		}
		if count != len(d.List) {
			return nil, errs.Mismatch(errs.Internal, "witness buffer", "listed values", len(d.List), count)
		}
		w.listed = count
	}
	return w.Finish()
}
