package synthetic

import (
	"encoding/hex"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
)

// Hash is 32 bytes, hexadecimal as text. A field element is little-endian.
type Hash [32]byte

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

func hashOf(x fr.Element) Hash { return bytesOf(&x) }

// SealCase is the statement of a sealing proof, as a file.
type SealCase struct {
	Registered     sector.SealProof `json:"registered_seal_proof"`
	RegisteredName string           `json:"registered_seal_proof_name"`
	SectorSize     uint64           `json:"sector_size"`
	PoRepID        Hash             `json:"porep_id"`
	APIVersion     string           `json:"api_version"`
	APIFeatures    []string         `json:"api_features"`
	Partitions     int              `json:"partitions"`
	ProverID       Hash             `json:"prover_id"`
	SectorID       uint64           `json:"sector_id"`
	Ticket         Hash             `json:"ticket"`
	Seed           Hash             `json:"seed"`
	CommD          Hash             `json:"comm_d"`
	CommR          Hash             `json:"comm_r"`
	CommC          Hash             `json:"comm_c"`
	CommRLast      Hash             `json:"comm_r_last"`
	ReplicaID      Hash             `json:"replica_id"`
}

// Statement is what the file states.
func (c *SealCase) Statement() (*statement.Seal, error) {
	return statement.SealOf(c.Registered, c.ProverID, c.SectorID, c.Ticket, c.Seed, c.CommD, c.CommR)
}

var features = map[sector.Challenge][]string{sector.Interactive: {}, sector.Synthetic: {"SyntheticPoRep"}, sector.NonInteractive: {"NonInteractivePoRep"}}

// apiVersion is "V1_1_0".
func apiVersion(v sector.Version) string { return "V" + strings.ReplaceAll(v.String(), ".", "_") }

func (s *sealing) statement(r *replica, c *vanilla.C1) *SealCase {
	return &SealCase{
		Registered: s.proof, RegisteredName: s.proof.String(), SectorSize: s.proof.Size().Bytes, PoRepID: s.proof.PoRepID(),
		APIVersion: apiVersion(s.proof.Version()), APIFeatures: features[s.proof.Challenge()], Partitions: s.proof.Partitions(),
		ProverID: s.proverID, SectorID: s.sectorID, Ticket: s.ticket, Seed: s.seed,
		CommD: hashOf(c.CommD), CommR: hashOf(c.CommR), CommC: hashOf(r.columns.root()), CommRLast: hashOf(r.last.root()), ReplicaID: hashOf(c.ReplicaID),
	}
}

// PoStCase is the statement of a PoSt, as a file.
type PoStCase struct {
	Type            string       `json:"type"` // window or winning
	APIVersion      string       `json:"api_version"`
	SectorSize      uint64       `json:"sector_size"`
	Randomness      Hash         `json:"randomness"`
	ProverID        Hash         `json:"prover_id"`
	Config          PoStCounts   `json:"config"`
	Circuit         PoStCounts   `json:"circuit"`
	Sectors         []PoStSector `json:"sectors"`
	Partitions      int          `json:"partition_count"`
	CacheIdentifier string       `json:"cache_identifier"`

	version sector.Version
}

// PoStCounts are challenges of a sector and sectors of a partition.
type PoStCounts struct {
	Challenges int `json:"challenge_count"`
	Sectors    int `json:"sector_count"`
}

// PoStSector is a sector of a PoStCase.
type PoStSector struct {
	ID    uint64 `json:"sector_id"`
	CommR Hash   `json:"comm_r"`
}

// Statement is what the file states. A winning PoSt's sector stands in it as often as it has challenges.
func (c *PoStCase) Statement() (*statement.PoSt, error) {
	size, err := sector.OfBytes(c.SectorSize)
	if err != nil {
		return nil, err
	}
	s := &statement.PoSt{Nodes: size.Nodes(), Version: c.version, Randomness: c.Randomness, PerPartition: c.Circuit.Sectors, Challenges: c.Circuit.Challenges}
	for _, x := range c.Sectors {
		commR, err := statement.Element("comm_r", x.CommR)
		if err != nil {
			return nil, err
		}
		for range c.Config.Challenges / c.Circuit.Challenges {
			s.Sectors = append(s.Sectors, statement.PoStSector{ID: x.ID, CommR: commR})
		}
	}
	return s, nil
}

// UpdateCase is the statement of an update, as a file.
type UpdateCase struct {
	SectorSize      uint64 `json:"sector_size"`
	H               int    `json:"h"`
	CommROld        Hash   `json:"comm_r_old"`
	CommDNew        Hash   `json:"comm_d_new"`
	CommRNew        Hash   `json:"comm_r_new"`
	CommRLastNew    Hash   `json:"comm_r_last_new"`
	Partitions      int    `json:"partition_count"`
	CacheIdentifier string `json:"cache_identifier"`

	of *statement.Update
}

// Statement is what the file states.
func (c *UpdateCase) Statement() *statement.Update { return c.of }
