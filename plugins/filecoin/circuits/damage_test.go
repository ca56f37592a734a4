package circuits

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/plugins/filecoin/vanilla"
	"github.com/weir-zk/weir/sdk/circuit"
	"github.com/weir-zk/weir/sdk/errs"
)

// changeable is a field of a vanilla proof: its path in the JSON form, whether the circuit reads it, and a change to it and back.
type changeable struct {
	path         string
	read         bool
	change, back func()
}

func element(path string, read bool, x *fr.Element) changeable {
	one, old := fr.One(), *x
	return changeable{path, read, func() { x.Add(x, &one) }, func() { *x = old }}
}

func whole[T int | uint32 | uint64](path string, read bool, x *T) changeable {
	old := *x
	return changeable{path, read, func() { *x ^= 1 }, func() { *x = old }}
}

// merkle are the fields of a Merkle proof. readPath says which levels' hashes are read, readPlace whether the places are.
func merkle(path string, m *vanilla.MerkleProof, readRoot, readLeaf, readPlace bool, readPath func(level int) bool) []changeable {
	out := []changeable{element(path+".root", readRoot, &m.Root), element(path+".leaf", readLeaf, &m.Leaf)}
	level := 0
	for _, part := range [][]gadgets.Step{m.Base, m.Sub, m.Top} {
		for i := range part {
			s := &part[i]
			out = append(out, whole(fmt.Sprintf("%s.path[%d].index", path, level), readPlace, &s.Index))
			for j := range s.Siblings {
				out = append(out, element(fmt.Sprintf("%s.path[%d].hashes[%d]", path, level, j), readPath(level), &s.Siblings[j]))
			}
			level++
		}
	}
	return out
}

func every(int) bool { return true }

func fieldsOfPoRep(c *vanilla.C1) (out []changeable) {
	out = append(out, element("comm_r", true, &c.CommR), element("comm_d", true, &c.CommD), element("replica_id", true, &c.ReplicaID))
	for i := range c.Partitions[0] {
		a := &c.Partitions[0][i]
		path := fmt.Sprintf("vanilla_proofs[0][%d]", i)
		out = append(out, merkle(path+".comm_d_proofs", &a.CommD, false, true, true, every)...)
		out = append(out, merkle(path+".comm_r_last_proof", &a.CommRLast, i == 0, false, true, every)...)
		column := func(path string, p *vanilla.ColumnProof, own bool) {
			out = append(out, whole(path+".column.index", false, &p.Index))
			for j := range p.Rows {
				out = append(out, element(fmt.Sprintf("%s.column.rows[%d]", path, j), !own, &p.Rows[j]))
			}
			out = append(out, merkle(path+".inclusion_proof", &p.Inclusion, own && i == 0, false, true, every)...)
		}
		column(path+".replica_column_proofs.c_x", &a.Own, true)
		for j := range a.Base {
			column(fmt.Sprintf("%s.replica_column_proofs.drg_parents[%d]", path, j), &a.Base[j], false)
		}
		for j := range a.Exp {
			// The last layer's labels of the parents below are part of their columns alone.
			column(fmt.Sprintf("%s.replica_column_proofs.exp_parents[%d]", path, j), &a.Exp[j], false)
		}
		label := func(path string, l *vanilla.Labeling, node bool) {
			out = append(out, whole(path+".layer_index", false, &l.Layer), whole(path+".node", node, &l.Node))
			for j := range l.Parents {
				out = append(out, element(fmt.Sprintf("%s.parents[%d]", path, j), false, &l.Parents[j]))
			}
		}
		for l := range a.Labeling {
			label(fmt.Sprintf("%s.labeling_proofs[%d]", path, l), &a.Labeling[l], l == 0)
		}
		label(path+".encoding_proof", &a.Encoding, false)
	}
	return out
}

func fieldsOfPoSt(a *vanilla.PoSt) []changeable {
	out := []changeable{element("comm_r", true, &a.CommR)}
	path := "vanilla_proof.sectors[0]"
	out = append(out, element(path+".comm_c", true, &a.CommC), element(path+".comm_r_last", true, &a.CommRLast))
	for i := range a.Leaves {
		out = append(out, merkle(fmt.Sprintf("%s.inclusion_proofs[%d]", path, i), &a.Leaves[i], false, true, true, every)...)
	}
	return out
}

func fieldsOfUpdate(a *vanilla.Update, size *sector.Size) []changeable {
	out := []changeable{element("comm_c", true, &a.CommC)}
	for i := range a.ApexLeaves {
		out = append(out, element(fmt.Sprintf("apex_leafs[%d]", i), true, &a.ApexLeaves[i]))
	}
	c := blankUpdate(size, false)
	below, apexTop := size.LogNodes()-c.partitionBits()-c.apexBits(), size.LogNodes()-c.partitionBits()
	for i := range a.Challenges {
		ch := &a.Challenges[i]
		path := fmt.Sprintf("challenge_proofs[%d]", i)
		out = append(out, merkle(path+".proof_r_old", &ch.ROld, i == 0, true, false, every)...)
		out = append(out, merkle(path+".proof_r_new", &ch.RNew, i == 0, false, false, every)...)
		out = append(out, merkle(path+".proof_d_new", &ch.DNew, false, true, false, func(level int) bool { return level < below || i == 0 && level >= apexTop })...)
	}
	return out
}

// changeEach changes fields, one at a time: what the circuit reads breaks a row, and what it does not read breaks none and is named before.
func changeEach(t *testing.T, fields []changeable, sample int, consistent func() error, assemble func() circuit.Circuit) {
	t.Helper()
	if os.Getenv("WEIR_TEST_FULL") == "" {
		r := rand.New(rand.NewPCG(1, 2))
		r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
		// Both kinds must be among them.
		var some []changeable
		for _, read := range []bool{true, false} {
			n := 0
			for _, f := range fields {
				if f.read == read && n < sample {
					some = append(some, f)
					n++
				}
			}
		}
		t.Logf("%d of %d fields; all with make test-full", len(some), len(fields))
		fields = some
	}
	for _, f := range fields {
		f.change()
		err := consistent()
		c := assemble()
		w, _, werr := circuit.NewWitness(t.Context(), c, 2)
		if werr != nil {
			t.Fatalf("%s: %v", f.path, werr)
		}
		v, cerr := circuit.Check(t.Context(), c, w)
		if cerr != nil {
			t.Fatalf("%s: %v", f.path, cerr)
		}
		f.back()
		switch {
		case f.read && v == nil:
			t.Errorf("%s is read, and no row is broken", f.path)
		case f.read && v.Path == "":
			t.Errorf("%s breaks row %d without a path", f.path, v.Row)
		case !f.read && v != nil:
			t.Errorf("%s is not read, but breaks row %d, %s", f.path, v.Row, v.Path)
		case !f.read && (!errs.Is(err, errs.InvalidFile) || err.Error() != "inconsistent vanilla proof: "+f.path):
			t.Errorf("%s is not read, and: %v", f.path, err)
		}
	}
	if err := consistent(); err != nil {
		t.Errorf("all fields as they were: %v", err)
	}
}

func TestChangedPoRep(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: millions of rows")
	}
	c1, err := vanilla.DecodeC1(flow(t, "v1_1/c1.api.json"))
	if err != nil {
		t.Fatal(err)
	}
	changeEach(t, fieldsOfPoRep(c1), 4, func() error { return ConsistentPoRep(c1, 0) }, func() circuit.Circuit {
		c, err := AssemblePoRep(c1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

func TestChangedPoSt(t *testing.T) {
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, assemble := range map[string]func(a *vanilla.PoSt) *PoSt{
		"window-v1_2-1": func(a *vanilla.PoSt) *PoSt {
			c, err := AssembleWindow([]*vanilla.PoSt{a}, 2, 0)
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		"winning": AssembleWinning,
	} {
		t.Run(name, func(t *testing.T) {
			a, err := vanilla.DecodePoSt(flow(t, "post/"+name+"/vanilla-0.bincode"), size)
			if err != nil {
				t.Fatal(err)
			}
			changeEach(t, fieldsOfPoSt(a), 12, func() error { return ConsistentPoSt(a) }, func() circuit.Circuit { return assemble(a) })
		})
	}
}

func TestChangedUpdate(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: 1.7 million rows")
	}
	s, a, _ := update(t, flow(t, "update/partition-0.bincode"))
	changeEach(t, fieldsOfUpdate(a, s.Size), 5, func() error { return ConsistentUpdate(a, s, 0) }, func() circuit.Circuit {
		c, err := AssembleUpdate(a, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// The reference's damaged files, taken into the circuit: the same row is the first that does not hold, in the same part.
func TestDamagedRows(t *testing.T) {
	if short() {
		t.Skip("not with -short, nor under the race detector: millions of rows")
	}
	var edits, rows struct {
		Cases []struct {
			ID, File string
			Edit     struct {
				Op     string
				Offset int
				Hex    string
			}
			Circuit struct {
				Row       *int   `json:"first_unsatisfied_row"`
				Namespace string `json:"row_namespace"`
				Satisfied *bool
			}
		}
	}
	flowJSON(t, "negatives.json", &edits)
	flowJSON(t, "negatives-circuit.json", &rows)
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rows.Cases {
		if r.Circuit.Satisfied == nil || strings.Contains(r.ID, "trailing") || strings.Contains(r.ID, "count") {
			continue // refused when read, there or here
		}
		t.Run(r.ID, func(t *testing.T) {
			var c circuit.Circuit
			for _, e := range edits.Cases {
				if e.ID != r.ID {
					continue
				}
				b := flow(t, e.File)
				raw, err := hex.DecodeString(e.Edit.Hex)
				if err != nil {
					t.Fatal(err)
				}
				for i := range raw {
					if e.Edit.Op == "xor" {
						raw[i] ^= b[e.Edit.Offset+i]
					}
					b[e.Edit.Offset+i] = raw[i]
				}
				c = damaged(t, e.File, b, size)
			}
			if c == nil {
				return
			}
			n++
			w, _, err := circuit.NewWitness(t.Context(), c, 2)
			if err != nil {
				t.Fatal(err)
			}
			v, err := circuit.Check(t.Context(), c, w)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r.Circuit.Row == nil && v != nil:
				t.Errorf("row %d (%s) does not hold, there all do", v.Row, v.Path)
			case r.Circuit.Row != nil && (v == nil || v.Row != *r.Circuit.Row):
				t.Errorf("%+v, there row %d (%s)", v, *r.Circuit.Row, r.Circuit.Namespace)
			case v != nil && strings.HasPrefix(r.Circuit.Namespace, "challenge_") && !strings.Contains(r.ID, "parent") && !strings.HasPrefix(v.Path, r.Circuit.Namespace):
				t.Errorf("row %d is at %s, there at %s", v.Row, v.Path, r.Circuit.Namespace)
			}
		})
	}
	if n < 25 {
		t.Errorf("only %d cases", n)
	}
}

// damaged is the circuit of a damaged file; nil where it is refused when read.
func damaged(t *testing.T, file string, b []byte, size *sector.Size) circuit.Circuit {
	t.Helper()
	switch {
	case strings.HasPrefix(file, "v1_1"):
		c1, err := vanilla.DecodeC1(b)
		if err != nil {
			return nil
		}
		c, err := AssemblePoRep(c1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	case strings.HasPrefix(file, "post/winning"):
		a, err := vanilla.DecodePoSt(b, size)
		if err != nil {
			return nil
		}
		return AssembleWinning(a)
	case strings.HasPrefix(file, "post/window-v1_0-2"):
		first, err := vanilla.DecodePoSt(b, size)
		if err != nil {
			return nil
		}
		second, err := vanilla.DecodePoSt(flow(t, "post/window-v1_0-2/vanilla-1.bincode"), size)
		if err != nil {
			t.Fatal(err)
		}
		c, err := AssembleWindow([]*vanilla.PoSt{first, second}, 2, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	case strings.HasPrefix(file, "update"):
		if _, err := vanilla.DecodeUpdate(b, size); err != nil {
			return nil
		}
		s, a, _ := update(t, b)
		c, err := AssembleUpdate(a, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	t.Fatalf("file %s", file)
	return nil
}
