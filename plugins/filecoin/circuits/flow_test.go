package circuits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/statement"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
)

// flow reads a file of the whole-sector data, unpacked where it is packed.
func flow(t *testing.T, name string) []byte {
	t.Helper()
	path := filepath.Join(testfiles.Shared(t, "fixtures", "filecoin", "flow"), filepath.FromSlash(name))
	if b, err := os.ReadFile(path); err == nil {
		return b
	}
	f, err := os.Open(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return testfiles.Gunzip(t, f)
}

func flowJSON(t *testing.T, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(flow(t, name), v); err != nil {
		t.Fatal(err)
	}
}

// partition is what the reference says of one partition.
type partition struct {
	Partition int
	Inputs    []fixture.Element `json:"public_inputs"`
	Record    *struct {
		R1CS    fixture.R1CS
		Witness struct {
			SHA256 string `json:"witness_sha256"`
		}
	}
}

// compare compares the statement's inputs and, where the reference has a record, the circuit and its witness.
func (p *partition) compare(t *testing.T, inputs []fr.Element, c circuit.Circuit) {
	t.Helper()
	want := fixture.Elements(p.Inputs)
	if !slices.Equal(inputs, want) {
		t.Errorf("partition %d: inputs of the statement differ", p.Partition)
	}
	if p.Record == nil {
		return
	}
	p.Record.R1CS.Compare(t, c)
	w, n, err := circuit.NewWitness(t.Context(), c, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := fixture.WitnessDigest(w, n.Inputs); got != p.Record.Witness.SHA256 {
		t.Errorf("partition %d: witness %s, want %s", p.Partition, got, p.Record.Witness.SHA256)
	}
	if got, err := w.Public(n.Inputs - 1); err != nil || !slices.Equal(got, want) {
		t.Errorf("partition %d: inputs of the witness differ: %v", p.Partition, err)
	}
	if v, err := circuit.Check(t.Context(), c, w); v != nil || err != nil {
		t.Errorf("partition %d: %+v, %v", p.Partition, v, err)
	}
}

// actor is the prover of the reference's sectors.
const actor = 1006

// Whole sealed sectors from Commit1 output to witness, in every way of drawing challenges.
func TestFlowPoRep(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: millions of rows")
	}
	for folder, sectorID := range map[string]uint64{"v1_0": 4242, "v1_1": 4242, "v1_1-b": 4243, "v1_1-c": 4244, "synthetic": 4242, "non-interactive": 4242, "published": 1498} {
		t.Run(folder, func(t *testing.T) {
			name, check := folder+"/c1.api.json", folder+"/c1.check.json"
			if folder == "published" {
				name, check = "published-c1-8MiB.api.json", "published-c1-8MiB.check.json"
			}
			c1, err := vanilla.DecodeC1(flow(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var want struct{ Partitions []partition }
			flowJSON(t, check, &want)
			if len(want.Partitions) != len(c1.Partitions) {
				t.Fatalf("%d partitions, want %d", len(c1.Partitions), len(want.Partitions))
			}
			var commD, commR [32]byte
			fr.LittleEndian.PutElement(&commD, c1.CommD)
			fr.LittleEndian.PutElement(&commR, c1.CommR)
			s, err := statement.SealOf(c1.Proof, statement.ProverID(actor), sectorID, c1.Ticket, c1.Seed, commD, commR)
			if err != nil {
				t.Fatal(err)
			}
			if s.ReplicaID != c1.ReplicaID {
				t.Error("replica id of another statement")
			}
			for k := range want.Partitions {
				if err := ConsistentPoRep(c1, k); err != nil {
					t.Error(err)
				}
				c, err := AssemblePoRep(c1, k)
				if err != nil {
					t.Fatal(err)
				}
				want.Partitions[k].compare(t, s.Inputs(k), c)
			}
		})
	}
}

func TestFlowPoSt(t *testing.T) {
	for _, name := range []string{"winning", "window-v1_0-1", "window-v1_0-2", "window-v1_0-3", "window-v1_2-1", "window-v1_2-2", "window-v1_2-3"} {
		t.Run(name, func(t *testing.T) {
			var want struct {
				Randomness string
				Version    string `json:"api_version"`
				Sectors    []struct {
					ID    uint64          `json:"sector_id"`
					CommR fixture.Element `json:"comm_r"`
				}
				Partitions []partition
			}
			flowJSON(t, "post/"+name+"/case.json", &want)
			size, err := sector.Named("2k")
			if err != nil {
				t.Fatal(err)
			}
			s := &statement.PoSt{Nodes: size.Nodes(), PerPartition: 2, Challenges: sector.WindowChallenges}
			if want.Version == "V1_2_0" {
				s.Version = sector.V1_2
			}
			var randomness fixture.Element
			if err := json.Unmarshal([]byte(`"`+want.Randomness+`"`), &randomness); err != nil {
				t.Fatal(err)
			}
			fr.LittleEndian.PutElement(&s.Randomness, randomness.Element)
			var answers []*vanilla.PoSt
			for i, x := range want.Sectors {
				a, err := vanilla.DecodePoSt(flow(t, fmt.Sprintf("post/%s/vanilla-%d.bincode", name, i)), size)
				if err != nil {
					t.Fatal(err)
				}
				if err := ConsistentPoSt(a); err != nil || a.SectorID != x.ID || a.CommR != x.CommR.Element {
					t.Errorf("sector %d: %v", x.ID, err)
				}
				answers = append(answers, a)
				s.Sectors = append(s.Sectors, statement.PoStSector{ID: x.ID, CommR: x.CommR.Element})
			}
			for k := range want.Partitions {
				var c *PoSt
				if name == "winning" {
					c = AssembleWinning(answers[0])
					s.Sectors = slices.Repeat(s.Sectors, sector.WinningChallenges)
					s.PerPartition, s.Challenges = sector.WinningChallenges, 1
				} else if c, err = AssembleWindow(answers, 2, k); err != nil {
					t.Fatal(err)
				}
				inputs, err := s.Inputs(k)
				if err != nil {
					t.Fatal(err)
				}
				want.Partitions[k].compare(t, inputs, c)
			}
			if name != "winning" && s.Partitions() != len(want.Partitions) {
				t.Errorf("%d partitions", s.Partitions())
			}
		})
	}
}

// update is the reference's updated sector.
func update(t *testing.T, file []byte) (*statement.Update, *vanilla.Update, []partition) {
	t.Helper()
	var want struct {
		CommROld   fixture.Element `json:"comm_r_old"`
		CommDNew   fixture.Element `json:"comm_d_new"`
		CommRNew   fixture.Element `json:"comm_r_new"`
		H          int
		Partitions []partition
	}
	flowJSON(t, "update/case.json", &want)
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	a, err := vanilla.DecodeUpdate(file, size)
	if err != nil {
		t.Fatal(err)
	}
	return &statement.Update{Size: size, CommROld: want.CommROld.Element, CommDNew: want.CommDNew.Element, CommRNew: want.CommRNew.Element, H: want.H}, a, want.Partitions
}

func TestFlowUpdate(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: 1.7 million rows")
	}
	s, a, want := update(t, flow(t, "update/partition-0.bincode"))
	if err := ConsistentUpdate(a, s, 0); err != nil {
		t.Error(err)
	}
	c, err := AssembleUpdate(a, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := s.Inputs(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != 1 {
		t.Fatalf("%d partitions", len(want))
	}
	want[0].compare(t, inputs, c)
}
