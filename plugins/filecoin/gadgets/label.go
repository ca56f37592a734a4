package gadgets

import "github.com/weir-zk/weir/sdk/circuit"

// LabelParents is how many parents a label hashes: those of a node are repeated to make so many.
const LabelParents = 37

// CreateLabel is the label of a node: SHA-256 of the replica id (256 bits), the layer and the node as big-endian numbers of 32 and 64 bits, 20 zero bytes, and the
// labels of the parents (256 bits each), taken in order again and again. Of the digest the first 254 bits count. node has its bits least significant first.
func CreateLabel(b *circuit.Builder, replicaID []circuit.Bool, parents [][]circuit.Bool, layer uint32, node []circuit.Bool) circuit.Num {
	message := make([]circuit.Bool, 0, (2+LabelParents)*256)
	message = append(message, replicaID...)
	for i := 31; i >= 0; i-- {
		message = append(message, circuit.Constant(layer>>i&1 == 1))
	}
	for i := len(node) - 1; i >= 0; i-- {
		message = append(message, node[i])
	}
	message = message[:512] // the zero value is false
	for i := range LabelParents {
		message = append(message, parents[i%len(parents)]...)
	}
	return PackBits(b, "label", ReverseBitNumbering(SHA256(b, message)))
}
