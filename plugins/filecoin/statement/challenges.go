package statement

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/chacha20"

	"github.com/weir-zk/weir/plugins/filecoin/poseidon"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// Sealed is what the challenges of a sealing proof depend on. Each way of drawing them looks at other fields.
type Sealed struct {
	ReplicaID, CommR fr.Element
	Seed             [32]byte
}

// Challenges are the nodes that partition k of a sealing proof must show, n of them.
func Challenges(how sector.Challenge, nodes uint64, s *Sealed, k, n int) []uint64 {
	out := make([]uint64, n)
	replicaID, commR := bytesOf(&s.ReplicaID), bytesOf(&s.CommR)
	switch how {
	case sector.Synthetic:
		all := SyntheticChallenges(nodes, s)
		picks := keystream(selectionKey, replicaID, s.Seed, 4*(k+1)*n)[4*k*n:]
		for i := range out {
			out[i] = all[binary.LittleEndian.Uint32(picks[4*i:])%uint32(len(all))]
		}
	case sector.NonInteractive:
		for i := range out {
			out[i] = anyNode(nodes, k*n+i, []byte("filecoin.io|PoRep|1|NonInteractive|1"), replicaID[:], commR[:])
		}
	default:
		for i := range out {
			out[i] = anyNode(nodes, k*n+i, replicaID[:], s.Seed[:])
		}
	}
	return out
}

// anyNode is the node, but never 0, that the hash of parts and a running number leads to.
func anyNode(nodes uint64, j int, parts ...[]byte) uint64 {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(j)))
	return modulo([32]byte(h.Sum(nil)), nodes-1) + 1
}

// maxSynthetic is how many challenges are fixed when a sector is sealed for synthetic proofs; smaller sectors fix one a node.
const maxSynthetic = 1 << 18

const (
	generationKey = "filecoin.io|PoRep|1|Synthetic|1|Generation"
	selectionKey  = "filecoin.io|PoRep|1|Synthetic|1|Selection"
)

// SyntheticChallenges are those among which the seed will pick.
func SyntheticChallenges(nodes uint64, s *Sealed) []uint64 {
	out := make([]uint64, min(nodes, maxSynthetic))
	stream := keystream(generationKey, bytesOf(&s.ReplicaID), bytesOf(&s.CommR), 32*len(out))
	for i := range out {
		out[i] = modulo([32]byte(stream[32*i:]), nodes-1) + 1
	}
	return out
}

// keystream is n bytes of ChaCha20 under the BLAKE2b hash of a and b.
func keystream(key string, a, b [32]byte, n int) []byte {
	h, err := blake2b.New256([]byte(key))
	if err != nil {
		panic(err) // the key is short enough
	}
	h.Write(a[:])
	h.Write(b[:])
	c, err := chacha20.NewUnauthenticatedCipher(h.Sum(nil), []byte("synth-porep\x00"))
	if err != nil {
		panic(err) // the lengths fit
	}
	out := make([]byte, n)
	c.XORKeyStream(out, out)
	return out
}

// LeafChallenge is the leaf of a replica that challenge number index of a PoSt asks for.
func LeafChallenge(nodes uint64, randomness [32]byte, sectorID, index uint64) uint64 {
	h := sha256.New()
	h.Write(randomness[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, sectorID))
	h.Write(binary.LittleEndian.AppendUint64(nil, index))
	return binary.LittleEndian.Uint64(h.Sum(nil)) % nodes
}

// ChallengeIndex is the number of challenge n of a sector, which stands at place in the list of all partitions: numbers run on over the sectors until version 1.2
// begins anew with each.
func ChallengeIndex(v sector.Version, place, n, challenges int) uint64 {
	if v >= sector.V1_2 {
		return uint64(n)
	}
	return uint64(place*challenges + n)
}

// WinningSector is the place, in a list of count sectors, of the n-th sector that must prove itself to win a block.
func WinningSector(proverID, randomness [32]byte, n, count uint64) uint64 {
	h := sha256.New()
	h.Write(proverID[:])
	h.Write(randomness[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, n))
	return binary.LittleEndian.Uint64(h.Sum(nil)) % count
}

// Phi is what the randomness of an update is derived from.
func Phi(commDNew, commROld *fr.Element) fr.Element {
	return poseidon.Custom(2, 1).Hash(*commDNew, *commROld)
}

// Rho is the factor of the data in the nodes whose index has these high bits.
func Rho(phi *fr.Element, high uint64) fr.Element {
	return poseidon.Custom(2, 1).Hash(*phi, fr.NewElement(high))
}

// UpdateChallenges are the nodes that partition k of partitions must show, n of them, each among the partition's own nodes.
func UpdateChallenges(logNodes, logPartitions int, commRNew *fr.Element, k, n int) []uint64 {
	h := poseidon.Custom(2, 1)
	width := logNodes - logPartitions
	each := (fr.Bits - 1) / width
	digests := (n + each - 1) / each
	var out []uint64
	for j := range digests {
		d := h.Hash(*commRNew, fr.NewElement(uint64(k*digests+j)))
		limbs := d.Bits()
		for i := 0; i < each && len(out) < n; i++ {
			at := i * width
			x := limbs[at>>6] >> (at & 63)
			if at&63+width > 64 {
				x |= limbs[at>>6+1] << (64 - at&63)
			}
			out = append(out, x&(1<<width-1)|uint64(k)<<width)
		}
	}
	return out
}
