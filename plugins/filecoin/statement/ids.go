// Package statement computes what a verifier knows: graphs, labels, identifiers, challenges, and from them the public inputs of every proof.
package statement

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/poseidon"
	"github.com/weir-zk/weir/sdk/errs"
)

// clearTop makes a digest a field element: two bits of the last byte are cleared.
func clearTop(d [32]byte) [32]byte {
	d[31] &= 0x3f
	return d
}

// nodeOf is a digest as a node.
func nodeOf(d [32]byte) fr.Element {
	d = clearTop(d)
	x, err := fr.LittleEndian.Element(&d)
	if err != nil {
		panic(err) // 254 bits are below r
	}
	return x
}

// bytesOf are the 32 bytes of a node, little-endian.
func bytesOf(x *fr.Element) (b [fr.Bytes]byte) {
	fr.LittleEndian.PutElement(&b, *x)
	return b
}

// Element reads 32 bytes that must be a field element; name says what they are.
func Element(name string, b [32]byte) (fr.Element, error) {
	x, err := fr.LittleEndian.Element(&b)
	if err != nil {
		return x, errs.Mismatch(errs.InvalidArgument, "statement", name, "a value below the group order r", "one that is not")
	}
	return x, nil
}

// ProverID is an actor's number as proofs have it: LEB128, filled up with zeros.
func ProverID(actor uint64) (id [32]byte) {
	binary.PutUvarint(id[:], actor)
	return id
}

// ReplicaID separates the replicas of different provers and sectors.
func ReplicaID(proverID [32]byte, sector uint64, ticket, commD, porepID [32]byte) fr.Element {
	h := sha256.New()
	h.Write(proverID[:])
	h.Write(binary.BigEndian.AppendUint64(nil, sector))
	h.Write(ticket[:])
	h.Write(commD[:])
	h.Write(porepID[:])
	return nodeOf([32]byte(h.Sum(nil)))
}

// CommR is the commitment to a replica: to its columns and its last layer.
func CommR(commC, commRLast *fr.Element) fr.Element {
	return poseidon.MerkleTree(2).Hash(*commC, *commRLast)
}

// DataNode is the parent of two nodes of a tree over data.
func DataNode(left, right *fr.Element) fr.Element {
	l, r := bytesOf(left), bytesOf(right)
	return nodeOf(sha256.Sum256(append(l[:], r[:]...)))
}

// Column is the hash of a node's labels, first layer first: 2 or 11.
func Column(labels []fr.Element) fr.Element {
	return poseidon.MerkleTree(len(labels)).Hash(labels...)
}

// modulo is a little-endian number of 32 bytes modulo m.
func modulo(b [32]byte, m uint64) uint64 {
	rem := uint64(0)
	for i := 24; i >= 0; i -= 8 {
		_, rem = bits.Div64(rem, binary.LittleEndian.Uint64(b[i:]), m)
	}
	return rem
}
