package statement

import (
	"fmt"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// Data is padded so that each 254 bits are a field element: 127 bytes become 128.
const (
	unpaddedUnit = 127
	paddedUnit   = 128
)

// Pad spreads data over field elements of 254 bits (fr32): two zero bits follow each 254. The last element is filled up with zeros.
func Pad(data []byte) []byte {
	const elementBits = 254
	n := len(data) * 8
	out := make([]byte, (n+elementBits-1)/elementBits*sector.NodeBytes)
	for i := range n {
		at := i/elementBits*256 + i%elementBits
		out[at/8] |= data[i/8] >> (i % 8) & 1 << (at % 8)
	}
	return out
}

// Piece is a piece of a sector's data.
type Piece struct {
	Unpadded uint64 // bytes, as its owner counts them: 127 times a power of two
	CommP    fr.Element
}

// CommP is a piece's commitment: the root of the binary tree over its padded data.
func CommP(data []byte) (fr.Element, error) {
	padded := Pad(data)
	row := make([]fr.Element, len(padded)/sector.NodeBytes)
	if len(data)%unpaddedUnit != 0 || len(row) == 0 || len(row)&(len(row)-1) != 0 {
		return fr.Element{}, errs.Mismatch(errs.InvalidArgument, "piece commitment", "length", "127 bytes times a power of two", len(data))
	}
	for i := range row {
		row[i] = nodeOf([32]byte(padded[i*sector.NodeBytes:]))
	}
	for ; len(row) > 1; row = row[:len(row)/2] {
		for i := range len(row) / 2 {
			row[i] = DataNode(&row[2*i], &row[2*i+1])
		}
	}
	return row[0], nil
}

// CommD is the commitment to data that consists of pieces, in their order: each begins at a multiple of its own size, and what is left over is zero, up to the next power of
// two. A sector's pieces fill it, with zero pieces where there is no other; filling up a larger sector is up to the caller, as it is for the network.
func CommD(s *sector.Size, pieces []Piece) (fr.Element, error) {
	const op = "comm_d"
	bad := func(i int, expected string, found any) (fr.Element, error) {
		return fr.Element{}, errs.Mismatch(errs.InvalidArgument, op, fmt.Sprintf("piece %d", i), expected, found)
	}
	if len(pieces) == 0 {
		return zeroPiece(s.LogNodes()), nil
	}
	type part struct {
		log  int // of its nodes
		node fr.Element
	}
	var stack []part
	push := func(p part) {
		stack = append(stack, p)
		for n := len(stack); n > 1 && stack[n-1].log == stack[n-2].log; n-- {
			stack[n-2] = part{stack[n-2].log + 1, DataNode(&stack[n-2].node, &stack[n-1].node)}
			stack = stack[:n-1]
		}
	}
	last := func() int { return stack[len(stack)-1].log }
	total := uint64(0) // nodes
	for i, p := range pieces {
		nodes := p.Unpadded / unpaddedUnit * (paddedUnit / sector.NodeBytes)
		if p.Unpadded%unpaddedUnit != 0 || bits.OnesCount64(nodes) != 1 || nodes > s.Nodes() {
			return bad(i, fmt.Sprintf("127 bytes times a power of two, within %d", s.Bytes/paddedUnit*unpaddedUnit), p.Unpadded)
		}
		log := bits.TrailingZeros64(nodes)
		for len(stack) > 0 && last() < log {
			push(part{last(), zeroPiece(last())})
		}
		push(part{log, p.CommP})
		if total = (total+nodes-1)/nodes*nodes + nodes; total > s.Nodes() {
			return bad(i, fmt.Sprintf("data within %d bytes", s.Bytes), total*sector.NodeBytes)
		}
	}
	for len(stack) > 1 {
		push(part{last(), zeroPiece(last())})
	}
	return stack[0].node, nil
}

// zeroPiece is the root over 2^log zero nodes.
func zeroPiece(log int) (x fr.Element) {
	for range log {
		x = DataNode(&x, &x)
	}
	return x
}
