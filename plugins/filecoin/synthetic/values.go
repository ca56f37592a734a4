package synthetic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/sdk/errs"
)

// seed gives all values of a sector: each is the hash of the seed, of what it is, and of where.
type seed uint64

// bytes are 32 of them, a canonical field element with two zero bits on top as padded data has.
func (s seed) bytes(what string, where ...uint64) [32]byte {
	b := make([]byte, 0, 128)
	b = append(b, "weir synthetic sector/"...)
	b = append(b, what...)
	b = binary.LittleEndian.AppendUint64(b, uint64(s))
	for _, n := range where {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	d := sha256.Sum256(b)
	d[31] &= 0x3f
	return d
}

func (s seed) element(what string, where ...uint64) fr.Element {
	return elementOf(s.bytes(what, where...))
}

// prover is an actor's number in a prover's id.
func (s seed) prover() [32]byte { return statement.ProverID(1000 + s.number("prover", 1<<20)) }

// sector is the number of the i-th sector.
func (s seed) sector(i uint64) uint64 { return s.number("sector", 1<<24) + i }

func (s seed) number(what string, below uint64) uint64 {
	b := s.bytes(what)
	return binary.LittleEndian.Uint64(b[:]) % below
}

// elementOf is 32 bytes as a field element; the two top bits must be zero.
func elementOf(b [32]byte) fr.Element {
	x, err := fr.LittleEndian.Element(&b)
	if err != nil {
		panic(err) // 254 bits are below r
	}
	return x
}

func bytesOf(x *fr.Element) (b [32]byte) {
	fr.LittleEndian.PutElement(&b, *x)
	return b
}

// block is how many indexes a goroutine takes at once.
const block = 256

// parallel calls each for ranges that together are 0..n-1, on all processors. When ctx ends no more ranges begin, and its error is returned.
func parallel(ctx context.Context, n uint64, each func(from, to uint64)) error {
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range min(uint64(runtime.GOMAXPROCS(0)), (n+block-1)/block) {
		wg.Go(func() {
			for ctx.Err() == nil {
				to := next.Add(block)
				if to-block >= n {
					return
				}
				each(to-block, min(to, n))
			}
		})
	}
	wg.Wait()
	return errs.Wrap(ctx.Err(), op)
}

// each is parallel with one index a range, for few indexes with much work.
func each(ctx context.Context, n int, f func(i int)) error {
	return parallel(ctx, uint64(n)*block, func(from, _ uint64) { f(int(from / block)) })
}
