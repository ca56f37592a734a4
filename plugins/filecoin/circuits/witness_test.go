package circuits

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
)

// record is a witness of the reference data: what it was made from, and what it must be.
type record struct {
	Circuit      string
	Rows         int
	PublicInputs []fixture.Element `json:"public_inputs"`
	SHA256       string            `json:"witness_sha256"`
	Source       json.RawMessage
}

// proof is a Merkle proof of the reference data: all levels in one list.
type proof struct {
	Leaf, Root fixture.Element
	Path       []struct {
		Hashes []fixture.Element
		Index  int
	}
}

func (p *proof) inclusion(t *testing.T, tree sector.Tree, leaves uint64) Inclusion {
	t.Helper()
	out := blankInclusion(tree, leaves)
	i := 0
	for _, part := range [][]gadgets.Step{out.Proof.Base, out.Proof.Sub, out.Proof.Top} {
		for k := range part {
			if len(part[k].Siblings) != len(p.Path[i].Hashes) {
				t.Fatalf("level %d has %d siblings, want %d", i, len(p.Path[i].Hashes), len(part[k].Siblings))
			}
			part[k] = gadgets.Step{Siblings: fixture.Elements(p.Path[i].Hashes), Index: p.Path[i].Index}
			i++
		}
	}
	if i != len(p.Path) {
		t.Fatalf("%d levels, want %d", len(p.Path), i)
	}
	out.Leaf = p.Leaf.Element
	return out
}

// siblings are those of each level.
func (p *proof) siblings(levels int) (out [][]fr.Element) {
	for _, s := range p.Path[:levels] {
		out = append(out, fixture.Elements(s.Hashes))
	}
	return out
}

func decode(t *testing.T, raw []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// fill is the circuit of a record with its values.
func fill(t *testing.T, r *record) circuit.Circuit {
	t.Helper()
	var kind struct{ Type string }
	decode(t, r.Source, &kind)
	switch kind.Type {
	case "por":
		return fillPoR(t, r)
	case "post":
		return fillPoSt(t, r.Source)
	case "porep":
		return fillPoRep(t, r.Source)
	case "update", "update-poseidon":
		return fillUpdate(t, r.Source, kind.Type == "update-poseidon")
	}
	t.Fatalf("type %s", kind.Type)
	return nil
}

func fillPoR(t *testing.T, r *record) *PoR {
	var s struct {
		Proof  proof
		Leaves uint64
	}
	decode(t, r.Source, &s)
	blank, err := Blank(r.Circuit)
	if err != nil {
		t.Fatal(err)
	}
	c := blank.(*PoR)
	tree := sector.Tree{Base: len(c.Proof.Base[0].Siblings) + 1}
	if len(c.Proof.Sub) > 0 {
		tree.Sub = len(c.Proof.Sub[0].Siblings) + 1
	}
	if len(c.Proof.Top) > 0 {
		tree.Top = len(c.Proof.Top[0].Siblings) + 1
	}
	c.Inclusion = s.Proof.inclusion(t, tree, s.Leaves)
	c.Root = s.Proof.Root.Element
	return c
}

func fillPoSt(t *testing.T, source []byte) *PoSt {
	var s struct {
		SectorSize    uint64 `json:"sector_size"`
		PublicSectors []struct {
			CommR fixture.Element `json:"comm_r"`
		} `json:"public_sectors"`
		Partition      int
		SectorCount    int `json:"sector_count"`
		CircuitSectors []struct {
			CommC     fixture.Element `json:"comm_c"`
			CommRLast fixture.Element `json:"comm_r_last"`
			Proofs    []proof         `json:"inclusion_proofs"`
		} `json:"circuit_sectors"`
	}
	decode(t, source, &s)
	size, err := sector.OfBytes(s.SectorSize)
	if err != nil {
		t.Fatal(err)
	}
	c := &PoSt{}
	for i, cs := range s.CircuitSectors {
		public := min(s.Partition*s.SectorCount+i, len(s.PublicSectors)-1) // the last one fills up
		out := PoStSector{CommC: cs.CommC.Element, CommRLast: cs.CommRLast.Element, CommR: s.PublicSectors[public].CommR.Element}
		for _, p := range cs.Proofs {
			out.Leaves = append(out.Leaves, p.inclusion(t, size.Tree, size.Nodes()))
		}
		c.Sectors = append(c.Sectors, out)
	}
	return c
}

func fillPoRep(t *testing.T, source []byte) *PoRep {
	var s struct {
		ReplicaID fixture.Element `json:"replica_id"`
		CommD     fixture.Element `json:"comm_d"`
		CommR     fixture.Element `json:"comm_r"`
		CommC     fixture.Element `json:"comm_c"`
		CommRLast fixture.Element `json:"comm_r_last"`
		Bincode   string          `json:"proofs_bincode"`
		JSON      json.RawMessage `json:"proofs_json"`
	}
	decode(t, source, &s)
	raw, err := hex.DecodeString(s.Bincode)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := vanilla.DecodePartition(raw, 5)
	if err != nil {
		t.Fatal(err)
	}
	same, err := vanilla.DecodePartition(s.JSON, 5)
	if err != nil || !reflect.DeepEqual(answers, same) {
		t.Fatalf("JSON and bincode differ: %v", err)
	}
	c1 := &vanilla.C1{Proof: 5, Partitions: [][]vanilla.PoRep{answers}, ReplicaID: s.ReplicaID.Element, CommD: s.CommD.Element, CommR: s.CommR.Element}
	if err := ConsistentPoRep(c1, 0); err != nil {
		t.Error(err)
	}
	c, err := AssemblePoRep(c1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c.CommC != s.CommC.Element || c.CommRLast != s.CommRLast.Element {
		t.Error("comm_c or comm_r_last")
	}
	return c
}

func fillUpdate(t *testing.T, source []byte, poseidon bool) *Update {
	var s struct {
		Nodes      uint64            `json:"sector_nodes"`
		CommROld   fixture.Element   `json:"comm_r_old"`
		CommDNew   fixture.Element   `json:"comm_d_new"`
		CommRNew   fixture.Element   `json:"comm_r_new"`
		CommC      fixture.Element   `json:"comm_c"`
		RootROld   fixture.Element   `json:"root_r_old"`
		RootRNew   fixture.Element   `json:"root_r_new"`
		K          uint64            `json:"k"`
		HSelect    uint64            `json:"h_select"`
		Apex       []fixture.Element `json:"apex_leafs"`
		Challenges []struct {
			ROld proof `json:"r_old"`
			RNew proof `json:"r_new"`
			DNew proof `json:"d_new"`
		} `json:"challenge_proofs"`
	}
	decode(t, source, &s)
	size, err := sector.OfBytes(s.Nodes * sector.NodeBytes)
	if err != nil {
		t.Fatal(err)
	}
	c := blankUpdate(size, poseidon)
	c.Select = s.HSelect<<c.partitionBits() | s.K
	c.CommROld, c.CommDNew, c.CommRNew = s.CommROld.Element, s.CommDNew.Element, s.CommRNew.Element
	c.CommC, c.RootROld, c.RootRNew = s.CommC.Element, s.RootROld.Element, s.RootRNew.Element
	if !poseidon {
		c.ApexLeaves = fixture.Elements(s.Apex)
		for i, step := range s.Challenges[0].DNew.Path[size.LogNodes()-c.partitionBits():] {
			c.PartitionPath[i] = step.Hashes[0].Element
		}
	}
	for i := range c.Challenges {
		ch, p := &c.Challenges[i], &s.Challenges[i]
		ch.LeafROld, ch.LeafDNew = p.ROld.Leaf.Element, p.DNew.Leaf.Element
		ch.PathROld = p.ROld.siblings(len(ch.PathROld))
		ch.PathRNew = p.RNew.siblings(len(ch.PathRNew))
		ch.PathDNew = p.DNew.siblings(len(ch.PathDNew))
	}
	return c
}

// Every witness of the reference data: all values, public inputs, and no row broken.
func TestWitnesses(t *testing.T) {
	for _, name := range fixture.Names(t, "wit") {
		t.Run(name, func(t *testing.T) {
			var want record
			fixture.JSON(t, "wit/"+name+".json", &want)
			if short() && want.Rows > 300_000 {
				t.Skip("not with -short, nor under the race detector: more than 300,000 rows")
			}
			compareWitness(t, &want, fill(t, &want))
		})
	}
}

func compareWitness(t *testing.T, want *record, c circuit.Circuit) {
	t.Helper()
	w, n, err := circuit.NewWitness(t.Context(), c, 3)
	if err != nil {
		t.Fatal(err)
	}
	if n.Rows != want.Rows {
		t.Errorf("%d rows, want %d", n.Rows, want.Rows)
	}
	if got := fixture.WitnessDigest(w, n.Inputs); got != want.SHA256 {
		t.Errorf("witness %s, want %s", got, want.SHA256)
	}
	public, err := w.Public(n.Inputs - 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range public {
		if public[i] != want.PublicInputs[i].Element {
			t.Fatalf("public input %d is %v, want %v", i, &public[i], &want.PublicInputs[i])
		}
	}
	if v, err := circuit.Check(t.Context(), c, w); v != nil || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}
