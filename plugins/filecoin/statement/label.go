package statement

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// LabelParents is how many parents a label hashes: those of a node are repeated to make so many.
const LabelParents = 37

// Label is a node's label in a layer, counted from 1: the hash of the replica id, the place, and the parents' labels taken in order again and again. Node 0 has no
// parents.
func Label(replicaID *fr.Element, layer uint32, node uint64, parents []fr.Element) fr.Element {
	message := make([]byte, 0, 64+LabelParents*fr.Bytes)
	id := bytesOf(replicaID)
	message = append(message, id[:]...)
	message = binary.BigEndian.AppendUint32(message, layer)
	message = binary.BigEndian.AppendUint64(message, node)
	message = message[:64]
	if node > 0 {
		for i := range LabelParents {
			b := bytesOf(&parents[i%len(parents)])
			message = append(message, b[:]...)
		}
	}
	return nodeOf(sha256.Sum256(message))
}
