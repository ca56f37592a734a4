package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// Parameters names the key files of a circuit as the network does: the name depends on the circuit's shape, not on versions.
type Parameters struct {
	Prefix     string // of the file's name
	Identifier string // what is hashed
}

// version of the parameter files.
const version = "v28-"

// CacheID is the name without version and ending.
func (p Parameters) CacheID() string {
	d := sha256.Sum256([]byte(p.Identifier))
	return p.Prefix + "-" + hex.EncodeToString(d[:])
}

// Params is the name of the proving key.
func (p Parameters) Params() string { return version + p.CacheID() + ".params" }

// VK is the name of the verifying key.
func (p Parameters) VK() string { return version + p.CacheID() + ".vk" }

// TreeName is the name of a tree's shape in the names of keys.
func TreeName(t sector.Tree) string { return "merkletree-poseidon_hasher-" + t.String() }

// SealParameters are those of a sealing circuit.
func SealParameters(s *sector.Size) Parameters {
	return Parameters{
		"stacked-proof-of-replication-" + TreeName(s.Tree) + "-sha256_hasher",
		fmt.Sprintf("layered_drgporep::PublicParams{ graph: stacked_graph::StackedGraph{expansion_degree: %d base_graph: drgraph::BucketGraph{size: %d; degree: %d; hasher: poseidon_hasher} }, challenges: LayerChallenges { layers: %d, max_count: %d }, tree: %s }",
			sector.ExpansionDegree, s.Nodes(), sector.BaseDegree, s.Layers, s.Challenges, TreeName(s.Tree)),
	}
}

// PoStParameters are those of a PoSt circuit of so many sectors with so many challenges each.
func PoStParameters(s *sector.Size, sectors, challenges int) Parameters {
	return Parameters{
		"proof-of-spacetime-fallback-" + TreeName(s.Tree),
		fmt.Sprintf("FallbackPoSt::PublicParams{sector_size: %d, challenge_count: %d, sector_count: %d}", s.Bytes, challenges, sectors),
	}
}

// UpdateParameters are those of an update circuit.
func UpdateParameters(s *sector.Size, poseidon bool) Parameters {
	prefix := "empty-sector-update-"
	if poseidon {
		prefix += "poseidon-"
	}
	return Parameters{prefix + TreeName(s.Tree), fmt.Sprintf("empty_sector_update::PublicParams{ sector_nodes: %d }", s.Nodes())}
}
