package statement

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/testfiles"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// bytes32 is 32 bytes in hexadecimal digits, or a list of numbers.
type bytes32 [32]byte

func (b *bytes32) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[32]byte)(b))
	}
	_, err := hex.Decode(b[:], bytes.Trim(raw, `"`))
	return err
}

// versionNamed reads "V1_1_0" and "1.1.0".
func versionNamed(t *testing.T, name string) sector.Version {
	t.Helper()
	name = strings.ReplaceAll(strings.TrimPrefix(name, "V"), "_", ".")
	for _, v := range []sector.Version{sector.V1_0, sector.V1_1, sector.V1_2} {
		if v.String() == name {
			return v
		}
	}
	t.Fatalf("version %s", name)
	return 0
}

func named(t *testing.T, name string) *sector.Size {
	t.Helper()
	s, err := sector.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(t *testing.T, s string) (n uint64) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestGraph(t *testing.T) {
	var f struct {
		Graphs []struct {
			Version string  `json:"api_version"`
			PoRepID bytes32 `json:"porep_id"`
			Nodes   uint64
			Parents []json.RawMessage
			All     string `json:"all_parents_u32le_sha256"`
		}
	}
	fixture.JSON(t, "vec/graph.json", &f)
	if len(f.Graphs) == 0 {
		t.Fatal("no graphs")
	}
	for _, g := range f.Graphs {
		graph := NewGraph(g.Nodes, g.PoRepID, versionNamed(t, g.Version))
		for _, raw := range g.Parents {
			var node uint64
			var base [6]uint32
			var exp [8]uint32
			if err := json.Unmarshal(raw, &[]any{&node, &base, &exp}); err != nil {
				t.Fatal(err)
			}
			if got := graph.Base(node); got != base {
				t.Errorf("%d nodes, %s, %x: base parents of %d: %v, want %v", g.Nodes, g.Version, g.PoRepID[:2], node, got, base)
			}
			if got := graph.Expander(node); got != exp {
				t.Errorf("%d nodes, %s, %x: expander parents of %d: %v, want %v", g.Nodes, g.Version, g.PoRepID[:2], node, got, exp)
			}
		}
		if g.All == "" {
			continue
		}
		h := sha256.New()
		for node := range g.Nodes {
			for _, p := range graph.Parents(node) {
				h.Write(binary.LittleEndian.AppendUint32(nil, p))
			}
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != g.All {
			t.Errorf("%d nodes, %s, %x: all parents: %s, want %s", g.Nodes, g.Version, g.PoRepID[:2], got, g.All)
		}
	}
}

func TestLabels(t *testing.T) {
	var f struct {
		Layers []struct {
			Version   string  `json:"api_version"`
			PoRepID   bytes32 `json:"porep_id"`
			Nodes     uint64
			ReplicaID fixture.Element `json:"replica_id"`
			Layers    []string
		} `json:"label_layers"`
		Columns []struct {
			Hash fixture.Element
			Rows []fixture.Element
		} `json:"column_hashes"`
	}
	fixture.JSON(t, "vec/labels.json", &f)
	if len(f.Layers) == 0 || len(f.Columns) == 0 {
		t.Fatal("nothing there")
	}
	for _, l := range f.Layers {
		graph := NewGraph(l.Nodes, l.PoRepID, versionNamed(t, l.Version))
		var below []fr.Element
		for i, want := range l.Layers {
			var labels []fr.Element
			var got strings.Builder
			for node := range l.Nodes {
				var parents []fr.Element
				for _, p := range graph.Base(node) {
					if node > 0 {
						parents = append(parents, labels[p])
					}
				}
				for _, p := range graph.Expander(node) {
					if i > 0 {
						parents = append(parents, below[p])
					}
				}
				labels = append(labels, Label(&l.ReplicaID.Element, uint32(i+1), node, parents))
				got.WriteString(fixture.Hex(&labels[node]))
			}
			if got.String() != want {
				t.Errorf("%s, layer %d differs", l.Version, i+1)
			}
			below = labels
		}
	}
	for _, c := range f.Columns {
		if got := Column(fixture.Elements(c.Rows)); got != c.Hash.Element {
			t.Errorf("hash of a column of %d: %v, want %v", len(c.Rows), &got, &c.Hash)
		}
	}
}

func TestIDs(t *testing.T) {
	var f struct {
		CommR []struct {
			CommC     fixture.Element `json:"comm_c"`
			CommR     fixture.Element `json:"comm_r"`
			CommRLast fixture.Element `json:"comm_r_last"`
		} `json:"comm_r"`
		ReplicaIDs []struct {
			Actor     string          `json:"actor_id"`
			CommD     bytes32         `json:"comm_d"`
			PoRepID   bytes32         `json:"porep_id"`
			ProverID  bytes32         `json:"prover_id"`
			ReplicaID fixture.Element `json:"replica_id"`
			SectorID  string          `json:"sector_id"`
			Ticket    bytes32
		} `json:"replica_ids"`
		Hash2 []struct{ Hash, Left, Right fixture.Element } `json:"sha256_hash2"`
	}
	fixture.JSON(t, "vec/ids.json", &f)
	if len(f.CommR) == 0 || len(f.ReplicaIDs) == 0 || len(f.Hash2) == 0 {
		t.Fatal("nothing there")
	}
	for _, c := range f.CommR {
		if got := CommR(&c.CommC.Element, &c.CommRLast.Element); got != c.CommR.Element {
			t.Errorf("comm_r %v, want %v", &got, &c.CommR)
		}
	}
	for _, r := range f.ReplicaIDs {
		if got := ProverID(number(t, r.Actor)); got != r.ProverID {
			t.Errorf("actor %s: prover id %x, want %x", r.Actor, got, r.ProverID)
		}
		if got := ReplicaID(r.ProverID, number(t, r.SectorID), r.Ticket, r.CommD, r.PoRepID); got != r.ReplicaID.Element {
			t.Errorf("sector %s of %s: replica id %v, want %v", r.SectorID, r.Actor, &got, &r.ReplicaID)
		}
	}
	for _, h := range f.Hash2 {
		if got := DataNode(&h.Left.Element, &h.Right.Element); got != h.Hash.Element {
			t.Errorf("data node %v, want %v", &got, &h.Hash)
		}
	}
	if got := ProverID(1<<64 - 1); got[9] != 1 || got[10] != 0 {
		t.Errorf("the largest actor: %x", got)
	}
}

func TestChallenges(t *testing.T) {
	var f struct {
		CommR     fixture.Element `json:"comm_r"`
		ReplicaID fixture.Element `json:"replica_id"`
		Seed      bytes32
		Sizes     []struct {
			Nodes uint64
			Sets  []struct {
				Kind         string
				K            int
				PerPartition int `json:"per_partition"`
				Challenges   []uint64
				First, Last  []uint64
				Len          int
				SHA256       string `json:"u32le_sha256"`
			}
		}
	}
	fixture.JSON(t, "vec/challenges.json", &f)
	kinds := map[string]sector.Challenge{"interactive": sector.Interactive, "synthetic": sector.Synthetic, "non-interactive": sector.NonInteractive}
	s := &Sealed{f.ReplicaID.Element, f.CommR.Element, f.Seed}
	n := 0
	for _, size := range f.Sizes {
		for _, set := range size.Sets {
			n++
			if set.Kind == "synthetic-list" {
				all := SyntheticChallenges(size.Nodes, s)
				h := sha256.New()
				for _, c := range all {
					h.Write(binary.LittleEndian.AppendUint32(nil, uint32(c)))
				}
				if len(all) != set.Len || hex.EncodeToString(h.Sum(nil)) != set.SHA256 || !slices.Equal(all[:len(set.First)], set.First) || !slices.Equal(all[len(all)-len(set.Last):], set.Last) {
					t.Errorf("%d nodes: synthetic list of %d", size.Nodes, len(all))
				}
				continue
			}
			how, ok := kinds[set.Kind]
			if !ok {
				t.Fatalf("kind %s", set.Kind)
			}
			if got := Challenges(how, size.Nodes, s, set.K, set.PerPartition); !slices.Equal(got, set.Challenges) {
				t.Errorf("%d nodes, %s, %d a partition, partition %d: %v, want %v", size.Nodes, set.Kind, set.PerPartition, set.K, got, set.Challenges)
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d sets", n)
	}
}

// idList is [sector id, list].
type idList struct {
	id   string
	list []uint64
}

func (l *idList) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&l.id, &l.list})
}

type idCommR struct {
	id    string
	commR fixture.Element
}

func (l *idCommR) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&l.id, &l.commR})
}

func digest(xs []fr.Element) string {
	h := sha256.New()
	for i := range xs {
		b := bytesOf(&xs[i])
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestPoSt(t *testing.T) {
	var f struct {
		Sizes []struct {
			Size      string
			ByVersion []struct {
				Version string     `json:"api_version"`
				Index   [][]uint64 `json:"challenge_index"`
				Leaves  []idList   `json:"leaf_challenges"`
			} `json:"by_version"`
			CommR      []idCommR `json:"comm_r"`
			Randomness bytes32
			ProverID   bytes32 `json:"prover_id"`
			Inputs     []struct {
				Version     string `json:"api_version"`
				Inputs      []fixture.Element
				Count       int
				K           int
				SectorCount int `json:"sector_count"`
				Sectors     any
				SHA256      string
				Type        string
			} `json:"public_inputs"`
			Fallback []struct {
				Version    string `json:"api_version"`
				Challenges []idList
				Sectors    []string
				Type       string
				PerPart    int `json:"sector_count"`
			} `json:"fallback_sector_challenges"`
			WinningPick []json.RawMessage `json:"winning_sector_pick"`
			SectorPick  []json.RawMessage `json:"sector_pick"`
		}
	}
	fixture.JSON(t, "vec/post.json", &f)
	if len(f.Sizes) != 10 {
		t.Fatalf("%d sizes", len(f.Sizes))
	}
	for _, s := range f.Sizes {
		size := named(t, s.Size)
		nodes := size.Nodes()
		sectorOf := func(id string) PoStSector {
			i := slices.IndexFunc(s.CommR, func(x idCommR) bool { return x.id == id })
			return PoStSector{number(t, id), s.CommR[i].commR.Element}
		}
		for _, v := range s.ByVersion {
			for place, row := range v.Index {
				for n, want := range row {
					if got := ChallengeIndex(versionNamed(t, v.Version), place, n, 10); got != want {
						t.Errorf("%s: index of challenge %d at place %d: %d, want %d", v.Version, n, place, got, want)
					}
				}
			}
			for _, l := range v.Leaves {
				for n, want := range l.list {
					if got := LeafChallenge(nodes, s.Randomness, number(t, l.id), uint64(n)); got != want {
						t.Errorf("%s: leaf %d of sector %s: %d, want %d", s.Size, n, l.id, got, want)
					}
				}
			}
		}
		for _, fb := range s.Fallback {
			p := &PoSt{Nodes: nodes, Version: versionNamed(t, fb.Version), Randomness: s.Randomness, PerPartition: max(1, fb.PerPart), Challenges: 10}
			for _, id := range fb.Sectors {
				p.Sectors = append(p.Sectors, sectorOf(id))
			}
			if fb.Type == "winning" {
				p.Sectors = slices.Repeat(p.Sectors, 66)
				p.PerPartition, p.Challenges = 66, 1
			}
			for i, want := range fb.Challenges {
				var got []uint64
				if fb.Type == "winning" {
					for place := range p.Sectors {
						got = append(got, p.Leaves(place)...)
					}
				} else {
					place := slices.IndexFunc(p.Sectors, func(x PoStSector) bool { return x.ID == number(t, want.id) })
					got = p.Leaves(place)
				}
				if !slices.Equal(got, want.list) {
					t.Errorf("%s, %s %s: challenges of %d (sector %s): %v, want %v", s.Size, fb.Type, fb.Version, i, want.id, got, want.list)
				}
			}
		}
		for _, in := range s.Inputs {
			p := &PoSt{Nodes: nodes, Version: versionNamed(t, in.Version), Randomness: s.Randomness, PerPartition: in.SectorCount, Challenges: 10}
			switch x := in.Sectors.(type) {
			case float64:
				for i := range int(x) {
					p.Sectors = append(p.Sectors, sectorOf(s.CommR[i].id))
				}
			case string:
				if strings.HasPrefix(x, "first sector") {
					p.Sectors = slices.Repeat([]PoStSector{sectorOf(s.CommR[0].id)}, 66)
					p.PerPartition, p.Challenges = 66, 1
					break
				}
				for id := range number(t, x) {
					p.Sectors = append(p.Sectors, PoStSector{id, nodeOf(sha256.Sum256(fmt.Appendf(nil, "weir-fixture/post/many/%d", id)))})
				}
			}
			got, err := p.Inputs(in.K)
			if err != nil {
				t.Fatal(err)
			}
			if in.SHA256 != "" {
				if digest(got) != in.SHA256 || len(got) != in.Count {
					t.Errorf("%s, %s %s, partition %d: digest of %d inputs", s.Size, in.Type, in.Version, in.K, len(got))
				}
			} else if !slices.Equal(got, fixture.Elements(in.Inputs)) {
				t.Errorf("%s, %s %s of %v, partition %d: inputs differ", s.Size, in.Type, in.Version, in.Sectors, in.K)
			}
		}
		for _, raw := range append(s.WinningPick, s.SectorPick...) {
			var count uint64
			var picks []uint64
			if err := json.Unmarshal(raw, &[]any{&count, &picks}); err != nil {
				t.Fatal(err)
			}
			for n, want := range picks {
				if got := WinningSector(s.ProverID, s.Randomness, uint64(n), count); got != want {
					t.Errorf("%s: pick %d of %d: %d, want %d", s.Size, n, count, got, want)
				}
			}
		}
	}
}

func TestUpdate(t *testing.T) {
	var f struct {
		CommDNew fixture.Element `json:"comm_d_new"`
		CommRNew fixture.Element `json:"comm_r_new"`
		CommROld fixture.Element `json:"comm_r_old"`
		Phi      fixture.Element
		Inputs   []struct {
			Inputs [][]fixture.Element
			Size   string
		} `json:"public_inputs"`
		Rho   []json.RawMessage
		Sizes []struct {
			Apex       int `json:"apex_leaf_count"`
			Count      int `json:"challenge_count"`
			Challenges [][]uint64
			H          int    `json:"h_default"`
			HSelect    uint64 `json:"h_select_default"`
			Hs         [6]int
			Nodes      uint64
			Partitions int
			Poseidon   []uint64 `json:"poseidon_challenges"`
		}
	}
	fixture.JSON(t, "vec/update.json", &f)
	if len(f.Sizes) != 11 || len(f.Inputs) == 0 {
		t.Fatalf("%d sizes", len(f.Sizes))
	}
	phi := Phi(&f.CommDNew.Element, &f.CommROld.Element)
	if phi != f.Phi.Element {
		t.Errorf("phi %v", &phi)
	}
	for _, raw := range f.Rho {
		var high uint64
		var want fixture.Element
		if err := json.Unmarshal(raw, &[]any{&high, &want}); err != nil {
			t.Fatal(err)
		}
		if got := Rho(&phi, high); got != want.Element {
			t.Errorf("rho of %d: %v, want %v", high, &got, &want)
		}
	}
	for _, s := range f.Sizes {
		size, err := sector.OfBytes(32 * s.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		u := &Update{Size: size, CommROld: f.CommROld.Element, CommDNew: f.CommDNew.Element, CommRNew: f.CommRNew.Element, H: DefaultH(size)}
		sel, err := HSelect(size, u.H)
		if err != nil || size.ApexLeaves != s.Apex || size.UpdateChallenges != s.Count || size.UpdatePartitions != s.Partitions || size.UpdateHs() != s.Hs || u.H != s.H || sel != s.HSelect {
			t.Errorf("%s: %+v, h %d, h_select %d (%v), want %+v", size.Name, size, u.H, sel, err, s)
		}
		for k, want := range s.Challenges {
			if got := u.Challenges(k); !slices.Equal(got, want) {
				t.Errorf("%s, partition %d: %v, want %v", size.Name, k, got, want)
			}
		}
		if got := UpdateChallenges(size.LogNodes(), 0, &u.CommRNew, 0, len(s.Poseidon)); !slices.Equal(got, s.Poseidon) || len(got) != s.Count*s.Partitions {
			t.Errorf("%s, Poseidon variant: %v, want %v", size.Name, got, s.Poseidon)
		}
	}
	for _, in := range f.Inputs {
		size := named(t, in.Size)
		u := &Update{Size: size, CommROld: f.CommROld.Element, CommDNew: f.CommDNew.Element, CommRNew: f.CommRNew.Element, H: DefaultH(size)}
		if len(in.Inputs) != size.UpdatePartitions {
			t.Errorf("%s: %d partitions", in.Size, len(in.Inputs))
		}
		for k, want := range in.Inputs {
			if got, err := u.Inputs(k); err != nil || !slices.Equal(got, fixture.Elements(want)) {
				t.Errorf("%s, partition %d: %v, %v", in.Size, k, got, err)
			}
		}
	}
	if _, err := HSelect(named(t, "32g"), 13); !errs.Is(err, errs.InvalidArgument) {
		t.Errorf("13 high bits: %v", err)
	}
}

// All registered seal proofs, and the sizes that are none.
func TestSealInputs(t *testing.T) {
	var f struct {
		CommD    bytes32 `json:"comm_d"`
		CommR    bytes32 `json:"comm_r"`
		ProverID bytes32 `json:"prover_id"`
		SectorID string  `json:"sector_id"`
		Seed     bytes32
		Ticket   bytes32
		AllSizes []struct {
			Version string  `json:"api_version"`
			PoRepID bytes32 `json:"porep_id"`
			SHA256  []string
			Size    string
		} `json:"all_sizes"`
		Registered []struct {
			Version      string `json:"api_version"`
			Features     []string
			Inputs       [][]fixture.Element
			PerPartition int `json:"inputs_per_partition"`
			Partition0   []fixture.Element
			Partitions   int
			PoRepID      bytes32          `json:"porep_id"`
			Proof        sector.SealProof `json:"registered_seal_proof"`
			ReplicaID    fixture.Element  `json:"replica_id"`
			SectorSize   string           `json:"sector_size"`
			SHA256       []string
		}
	}
	fixture.JSON(t, "vec/seal_inputs.json", &f)
	if len(f.Registered) != 20 || len(f.AllSizes) != 20 {
		t.Fatalf("%d registered, %d sizes", len(f.Registered), len(f.AllSizes))
	}
	features := map[sector.Challenge][]string{sector.Interactive: {}, sector.Synthetic: {"synthetic-porep"}, sector.NonInteractive: {"non-interactive-porep"}}
	for _, r := range f.Registered {
		p := r.Proof
		s, err := SealOf(p, f.ProverID, number(t, f.SectorID), f.Ticket, f.Seed, f.CommD, f.CommR)
		if err != nil {
			t.Fatal(err)
		}
		if p.Version().String() != r.Version || !slices.Equal(features[p.Challenge()], r.Features) || p.Partitions() != r.Partitions || p.Size().Bytes != number(t, r.SectorSize) ||
			p.PoRepID() != r.PoRepID || s.ReplicaID != r.ReplicaID.Element || len(r.SHA256) != r.Partitions {
			t.Errorf("%v: version %v, %d partitions, porep id %x", p, p.Version(), p.Partitions(), p.PoRepID())
		}
		for k, want := range r.SHA256 {
			got := s.Inputs(k)
			if digest(got) != want || len(got) != r.PerPartition {
				t.Errorf("%v, partition %d: inputs differ", p, k)
			}
			if k == 0 && r.Partition0 != nil && !slices.Equal(got, fixture.Elements(r.Partition0)) {
				t.Errorf("%v: %v, want %v", p, got, r.Partition0)
			}
			if r.Inputs != nil && !slices.Equal(got, fixture.Elements(r.Inputs[k])) {
				t.Errorf("%v, partition %d: %v, want %v", p, k, got, r.Inputs[k])
			}
		}
	}
	for _, a := range f.AllSizes {
		size := named(t, a.Size)
		commD, err := Element("comm_d", f.CommD)
		if err != nil {
			t.Fatal(err)
		}
		commR, err := Element("comm_r", f.CommR)
		if err != nil {
			t.Fatal(err)
		}
		s := &Seal{Nodes: size.Nodes(), PoRepID: a.PoRepID, Version: versionNamed(t, a.Version), Challenges: size.Challenges, CommD: commD,
			Sealed: Sealed{ReplicaID(f.ProverID, number(t, f.SectorID), f.Ticket, f.CommD, a.PoRepID), commR, f.Seed}}
		for k, want := range a.SHA256 {
			if digest(s.Inputs(k)) != want {
				t.Errorf("%s %s, partition %d: inputs differ", a.Size, a.Version, k)
			}
		}
	}
}

// The public regression records of the original: every line's statement gives the inputs that the original computes.
func TestSealRecords(t *testing.T) {
	var f struct {
		Files []struct {
			File    string
			Records []struct {
				Line         int
				PerPartition int `json:"inputs_per_partition"`
				Partitions   int
				SHA256       []string
			}
		}
	}
	fixture.JSON(t, "vec/seal_records.json", &f)
	total := 0
	for _, file := range f.Files {
		in, err := os.Open(testfiles.Shared(t, "filecoin", "public", file.File+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		lines := bufio.NewScanner(bytes.NewReader(testfiles.Gunzip(t, in)))
		lines.Buffer(nil, 1<<20)
		for n := 1; lines.Scan(); n++ {
			i := slices.IndexFunc(file.Records, func(r struct {
				Line         int
				PerPartition int `json:"inputs_per_partition"`
				Partitions   int
				SHA256       []string
			}) bool {
				return r.Line == n
			})
			if i < 0 {
				t.Fatalf("%s, line %d has no record", file.File, n)
			}
			want := file.Records[i]
			s := sealOfRecord(t, lines.Bytes())
			if len(want.SHA256) != want.Partitions {
				t.Errorf("%s, line %d: %d digests", file.File, n, len(want.SHA256))
			}
			for k, d := range want.SHA256 {
				if got := s.Inputs(k); digest(got) != d || len(got) != want.PerPartition {
					t.Errorf("%s, line %d, partition %d: inputs differ", file.File, n, k)
				}
			}
			total++
		}
	}
	if total != 561 {
		t.Errorf("%d records", total)
	}
}

// sealOfRecord reads one line of the record files.
func sealOfRecord(t *testing.T, line []byte) *Seal {
	t.Helper()
	var r struct {
		Config struct {
			SectorSize uint64   `json:"sector_size"`
			PoRepID    bytes32  `json:"porep_id"`
			Version    string   `json:"api_version"`
			Features   []string `json:"api_features"`
			Partitions int
		} `json:"porep_config"`
		CommR    bytes32 `json:"comm_r"`
		CommD    bytes32 `json:"comm_d"`
		ProverID bytes32 `json:"prover_id"`
		SectorID uint64  `json:"sector_id"`
		Ticket   bytes32
		Seed     bytes32
	}
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%v in %.600s", err, line)
	}
	size, err := sector.OfBytes(r.Config.SectorSize)
	if err != nil {
		t.Fatal(err)
	}
	how := sector.Interactive
	for _, x := range r.Config.Features {
		switch x {
		case "SyntheticPoRep":
			how = sector.Synthetic
		case "NonInteractivePoRep":
			how = sector.NonInteractive
		}
	}
	commD, err := Element("comm_d", r.CommD)
	if err != nil {
		t.Fatal(err)
	}
	commR, err := Element("comm_r", r.CommR)
	if err != nil {
		t.Fatal(err)
	}
	return &Seal{Nodes: size.Nodes(), PoRepID: r.Config.PoRepID, Version: versionNamed(t, r.Config.Version), Challenge: how, Challenges: size.Challenges, CommD: commD,
		Sealed: Sealed{ReplicaID(r.ProverID, r.SectorID, r.Ticket, r.CommD, r.Config.PoRepID), commR, r.Seed}}
}

func TestNames(t *testing.T) {
	type name struct {
		CacheID    string `json:"cache_id"`
		Identifier string
		Params, VK string
	}
	var f struct {
		Sizes []struct {
			Size           string
			Tree           string
			NIPartitions   int    `json:"ni_partitions"`
			Partitions     int    `json:"porep_partitions"`
			WindowSectors  int    `json:"window_sectors"`
			SectorSize     string `json:"sector_size"`
			PoRep          name
			Update         name
			UpdatePoseidon name `json:"update_poseidon"`
			Window         name
			Winning        name
		}
	}
	fixture.JSON(t, "vec/names.json", &f)
	if len(f.Sizes) == 0 {
		t.Fatal("no sizes")
	}
	for _, s := range f.Sizes {
		size := named(t, s.Size)
		if TreeName(size.Tree) != s.Tree || size.Bytes != number(t, s.SectorSize) || size.Partitions != s.Partitions || size.NonInteractivePartitions() != s.NIPartitions || size.WindowSectors != s.WindowSectors {
			t.Errorf("%s: %+v, want %+v", s.Size, size, s)
		}
		for _, x := range []struct {
			got  Parameters
			want name
		}{
			{SealParameters(size), s.PoRep},
			{UpdateParameters(size, false), s.Update},
			{UpdateParameters(size, true), s.UpdatePoseidon},
			{PoStParameters(size, size.WindowSectors, sector.WindowChallenges), s.Window},
			{PoStParameters(size, sector.WinningChallenges, 1), s.Winning},
		} {
			if x.want == (name{}) {
				continue // no update of that size in the original
			}
			if got := (name{x.got.CacheID(), x.got.Identifier, x.got.Params(), x.got.VK()}); got != x.want {
				t.Errorf("%s: %+v, want %+v", s.Size, got, x.want)
			}
		}
	}
}
