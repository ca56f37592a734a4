package sector

import (
	"encoding/binary"
	"strconv"

	"github.com/weir-zk/weir/sdk/errs"
)

// Version is a version of the proofs' API: it decides the order of parents and how challenges are drawn.
type Version uint8

// The versions.
const (
	V1_0 Version = iota
	V1_1
	V1_2
)

// String is "1.1.0".
func (v Version) String() string { return "1." + strconv.Itoa(int(v)) + ".0" }

// Challenge is how a sealing proof's challenges are drawn.
type Challenge uint8

// The ways.
const (
	Interactive    Challenge = iota // from a seed that the chain gives
	Synthetic                       // the seed picks among challenges that were fixed when sealing
	NonInteractive                  // from the sealed sector itself
)

// SealProof is a registered seal proof, 0 to 19.
type SealProof uint32

// sealSizes are the sizes within each group of registered seal proofs.
var sealSizes = [...]string{"2k", "8m", "512m", "32g", "64g"}

var sealGroups = [...]struct {
	suffix    string
	version   Version
	challenge Challenge
}{
	{"V1", V1_0, Interactive},
	{"V1_1", V1_1, Interactive},
	{"V1_1_Feat_SyntheticPoRep", V1_2, Synthetic},
	{"V1_2_Feat_NonInteractivePoRep", V1_2, NonInteractive},
}

// sizeNames are the sizes as registered names have them.
var sizeNames = map[string]string{"2k": "2KiB", "8m": "8MiB", "512m": "512MiB", "32g": "32GiB", "64g": "64GiB"}

// SealProofs are all of them.
func SealProofs() []SealProof {
	out := make([]SealProof, len(sealGroups)*len(sealSizes))
	for i := range out {
		out[i] = SealProof(i)
	}
	return out
}

// Valid says whether p is registered. The other methods need that.
func (p SealProof) Valid() bool { return int(p) < len(sealGroups)*len(sealSizes) }

// String is the registered name: "StackedDrg32GiBV1_1".
func (p SealProof) String() string {
	return "StackedDrg" + sizeNames[sealSizes[int(p)%len(sealSizes)]] + sealGroups[int(p)/len(sealSizes)].suffix
}

// Variant is the name that vanilla proofs of p's size are wrapped in, and its number: the version is not part of it.
func (p SealProof) Variant() (string, uint32) {
	n := int(p) % len(sealSizes)
	return VariantName(n), uint32(n)
}

// Variants is the number of variants.
const Variants = len(sealSizes)

// VariantName is the name of a variant, below Variants.
func VariantName(n int) string { return "StackedDrg" + sizeNames[sealSizes[n]] + "V1" }

// SealProofNamed is the registered proof of a name.
func SealProofNamed(name string) (SealProof, error) {
	for _, p := range SealProofs() {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, errs.Mismatch(errs.InvalidArgument, "registered seal proof", "name", "StackedDrg2KiBV1 and the like", strconv.Quote(name))
}

// Size is the size of the sector.
func (p SealProof) Size() *Size {
	s, err := Named(sealSizes[int(p)%len(sealSizes)])
	if err != nil {
		panic(err) // the two tables are of this package
	}
	return s
}

// Version is that of the API.
func (p SealProof) Version() Version { return sealGroups[int(p)/len(sealSizes)].version }

// Challenge is how challenges are drawn.
func (p SealProof) Challenge() Challenge { return sealGroups[int(p)/len(sealSizes)].challenge }

// Partitions is the number of partitions of a proof.
func (p SealProof) Partitions() int {
	s := p.Size()
	if p.Challenge() == NonInteractive {
		return s.NonInteractivePartitions()
	}
	return s.Partitions
}

// NonInteractivePartitions is the number of partitions of a non-interactive sealing proof: more, since nobody else chooses the challenges.
func (s *Size) NonInteractivePartitions() int {
	if s.Layers > 2 {
		return 126
	}
	return 13
}

// PoRepID is what separates the graphs of different proofs: the number, eight bytes of nonce, here zero, and sixteen zero bytes.
func (p SealProof) PoRepID() (id [32]byte) {
	binary.LittleEndian.PutUint64(id[:], uint64(p))
	return id
}
