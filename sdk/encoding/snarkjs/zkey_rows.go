package snarkjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Section 4 says of every coefficient at which power of snarkjs' root of unity (generator 5) its row stands: index i is the point w5^i. snarkjs puts row i there, but
// its prover does not ask for that: it adds up what stands at an index and knows nothing of rows. So a key whose row i stands at w7^i (generator 7: bellman,
// weir) can be a .zkey too, with row i at the index i' for which w5^i' = w7^i: E i' = i mod N with E = groth16.SnarkjsRootExponent. For N <= 4 the two are the same.
//
// Which of the two a file has is seen at the extra rows of the public inputs, the last ones of all: A = 1 * wire s and B = 0 at index n+s, or at the index
// of row n+s. Both fit only where rows of the circuit happen to look like that; then a mark in the record of contributions decides.

// rowsSevenMark is in place of the circuit's hash in the record of contributions of keys that weir writes with rows at w7^i. snarkjs carries the hash along
// through contributions, and compares it only with the circuit and the powers of tau of its own set-up.
const rowsSevenMark = "weir: row i is at w^i of the generator 7"

// rowsMatter reports whether the two placements differ.
func rowsMatter(logDomain int) bool { return logDomain > 2 }

// emptyTranscript is a record of no contributions.
func emptyTranscript(order groth16.RowOrder, logDomain int) []byte {
	b := make([]byte, 64+4)
	if order == groth16.RowsSeven && rowsMatter(logDomain) {
		copy(b, rowsSevenMark)
	}
	return b
}

// doubleOne is the coefficient one as section 4 has it.
var doubleOne = func() (b [fr.Bytes]byte) {
	one := fr.One() // has the limbs of R
	var r fr.Element
	r.SetBigInt(limbsValue(&one))
	for i, l := range r {
		binary.LittleEndian.PutUint64(b[8*i:], l)
	}
	return b
}()

// rowAt is the row at an index.
func (z *ZKey) rowAt(order groth16.RowOrder, index uint32) int {
	if order == groth16.RowsSeven {
		return int(groth16.RowsFive.Position(uint64(index), 1<<z.h.LogDomain))
	}
	return int(index)
}

// extraRows looks for the extra rows, as the last ones of an order.
type extraRows struct {
	order groth16.RowOrder
	last  int
	seen  groth16.Bitmap
	wrong bool
}

func (z *ZKey) extraRows(order groth16.RowOrder, last int) *extraRows {
	return &extraRows{order: order, last: last, seen: groth16.NewBitmap(z.h.NbPublic + 1), wrong: last < z.h.NbPublic}
}

func (e *extraRows) see(z *ZKey, c *coef) {
	s := z.rowAt(e.order, c.index) - (e.last - z.h.NbPublic)
	if e.wrong || s < 0 {
		return
	}
	if s > z.h.NbPublic || c.matrix != 0 || int(c.wire) != s || e.seen.Has(s) || !bytes.Equal(c.value, doubleOne[:]) {
		e.wrong = true
		return
	}
	e.seen.Set(s)
}

func (e *extraRows) fit(z *ZKey) bool { return !e.wrong && e.seen.Count() == z.h.NbPublic+1 }

// placement finds the number of rows of the circuit and where they stand. Where neither placement fits, it is snarkjs': System then says which extra row is
// wrong. The first call passes over section 4 once, or twice for a file that snarkjs did not write.
func (z *ZKey) placement(ctx context.Context) (rows int, order groth16.RowOrder, err error) {
	z.placed.mu.Lock()
	defer z.placed.mu.Unlock()
	if z.placed.known {
		return z.placed.rows, z.placed.order, nil
	}
	if rows, order, err = z.findPlacement(ctx); err == nil {
		z.placed.rows, z.placed.order, z.placed.known = rows, order, true
	}
	return rows, order, err
}

func (z *ZKey) findPlacement(ctx context.Context) (rows int, order groth16.RowOrder, err error) {
	var lastFive, lastSeven int
	matters := rowsMatter(z.h.LogDomain)
	err = z.coefs(ctx, func(_ *iden3.Reader, c coef) error {
		lastFive = max(lastFive, int(c.index))
		if matters {
			lastSeven = max(lastSeven, z.rowAt(groth16.RowsSeven, c.index))
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	if matters {
		if order, err = z.findOrder(ctx, lastFive, lastSeven); err != nil {
			return 0, 0, err
		}
	} else {
		order = groth16.RowsFive
	}
	last := lastFive
	if order == groth16.RowsSeven {
		last = lastSeven
	}
	if last < z.h.NbPublic {
		return 0, 0, z.c.Bad(errs.InvalidFile, z.sections[secCoefs].Where(), fmt.Sprintf("%d extra rows for the one and the public inputs", z.h.NbPublic+1), fmt.Sprintf("a last row %d", last))
	}
	return last - z.h.NbPublic, order, nil
}

func (z *ZKey) findOrder(ctx context.Context, lastFive, lastSeven int) (groth16.RowOrder, error) {
	marked, err := z.marked()
	if err != nil {
		return 0, err
	}
	if !marked {
		// snarkjs writes the extra rows last: then their coefficients are enough to look at.
		e := z.extraRows(groth16.RowsFive, lastFive)
		if err := z.lastCoefs(ctx, e); err != nil || e.fit(z) {
			return groth16.RowsFive, err
		}
	}
	five, seven := z.extraRows(groth16.RowsFive, lastFive), z.extraRows(groth16.RowsSeven, lastSeven)
	err = z.coefs(ctx, func(_ *iden3.Reader, c coef) error {
		five.see(z, &c)
		seven.see(z, &c)
		return nil
	})
	if seven.fit(z) && (marked || !five.fit(z)) {
		return groth16.RowsSeven, err
	}
	return groth16.RowsFive, err
}

// marked reports whether the record of contributions has rowsSevenMark.
func (z *ZKey) marked() (bool, error) {
	s := z.sections[secContributions]
	if s.Size < 64 {
		return false, nil
	}
	var b [64]byte
	err := z.c.ReadAt(s, b[:], 0)
	return string(bytes.TrimRight(b[:], "\x00")) == rowsSevenMark, err
}

// lastCoefs shows e the last coefficients of the file, as many as there are extra rows.
func (z *ZKey) lastCoefs(ctx context.Context, e *extraRows) error {
	s := z.sections[secCoefs]
	n := int64(z.h.NbPublic+1) * sizeCoef
	s.Offset, s.Size = s.Offset+s.Size-n, n
	r := z.c.Reader(s)
	for i := range z.h.NbPublic + 1 {
		if i%coefsBetweenChecks == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		b, err := r.Next(sizeCoef)
		if err != nil {
			return err
		}
		c := decodeCoef(b)
		e.see(z, &c)
	}
	return nil
}

func decodeCoef(b []byte) coef {
	return coef{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), b[12:]}
}
