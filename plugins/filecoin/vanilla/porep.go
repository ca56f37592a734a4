package vanilla

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// C1 is the output of Commit1: the answers of all partitions of a sealing proof, and the statement but for the prover's and the sector's numbers.
type C1 struct {
	Proof      sector.SealProof
	Partitions [][]PoRep // by partition, then by challenge
	CommR      fr.Element
	CommD      fr.Element
	ReplicaID  fr.Element
	Seed       [32]byte
	Ticket     [32]byte
}

// PoRep is the answer to one challenge.
type PoRep struct {
	CommD     MerkleProof // of the data node in tree D
	CommRLast MerkleProof // of the encoded node in tree R
	Own       ColumnProof // c_x
	Base      []ColumnProof
	Exp       []ColumnProof
	Labeling  []Labeling // by layer
	Encoding  Labeling   // that of the last layer
}

// ColumnProof is the labels of a node, by layer, with the Merkle proof of their hash in tree C.
type ColumnProof struct {
	Index     uint32
	Rows      []fr.Element
	Inclusion MerkleProof
}

// Labeling is what a label is made of.
type Labeling struct {
	Parents []fr.Element
	Layer   uint32
	Node    uint64
}

func columnProof(d decoder, c *ColumnProof) {
	d.object(
		field{"column", func() {
			d.object(field{"index", func() { d.u32(&c.Index) }}, field{"rows", func() { elements(d, &c.Rows) }}, field{"_h", d.null})
		}},
		field{"inclusion_proof", func() { merkleProof(d, &c.Inclusion) }},
	)
}

func columnProofs(d decoder, cs *[]ColumnProof) {
	d.list(4+8+minMerkleProof, func(int) {
		var c ColumnProof
		columnProof(d, &c)
		*cs = append(*cs, c)
	})
}

func labeling(d decoder, l *Labeling) {
	d.object(
		field{"parents", func() { elements(d, &l.Parents) }},
		field{"layer_index", func() { d.u32(&l.Layer) }},
		field{"node", func() { d.u64(&l.Node) }},
	)
}

const minLabeling = 8 + 4 + 8

func poRep(d decoder, p *PoRep) {
	d.object(
		field{"comm_d_proofs", func() { merkleProof(d, &p.CommD) }},
		field{"comm_r_last_proof", func() { merkleProof(d, &p.CommRLast) }},
		field{"replica_column_proofs", func() {
			d.object(
				field{"c_x", func() { columnProof(d, &p.Own) }},
				field{"drg_parents", func() { columnProofs(d, &p.Base) }},
				field{"exp_parents", func() { columnProofs(d, &p.Exp) }},
			)
		}},
		field{"labeling_proofs", func() {
			d.list(minLabeling, func(int) {
				var l Labeling
				labeling(d, &l)
				p.Labeling = append(p.Labeling, l)
			})
		}},
		field{"encoding_proof", func() { labeling(d, &p.Encoding) }},
	)
}

func poReps(d decoder, ps *[]PoRep) {
	d.list(2*minMerkleProof, func(int) {
		var p PoRep
		poRep(d, &p)
		*ps = append(*ps, p)
	})
}

func partitions(d decoder, out *[][]PoRep) {
	d.list(8, func(int) {
		var ps []PoRep
		poReps(d, &ps)
		*out = append(*out, ps)
	})
}

// statement are the fields after the proofs.
func (c *C1) statement(d decoder) []field {
	return []field{
		{"comm_r", func() { element(d, &c.CommR) }},
		{"comm_d", func() { element(d, &c.CommD) }},
		{"replica_id", func() { element(d, &c.ReplicaID) }},
		{"seed", func() { d.hash(&c.Seed) }},
		{"ticket", func() { d.hash(&c.Ticket) }},
	}
}

const readC1 = "read Commit1 output"

// api reads the form of the API crate: the registered proof first, and the proofs wrapped in a variant by sector size.
func (c *C1) api(d decoder) error {
	var registered uint32
	variant := -1
	var names []string
	for _, p := range sector.SealProofs() {
		names = append(names, p.String())
	}
	var variants []field
	for i := range sector.Variants {
		variants = append(variants, field{sector.VariantName(i), func() {
			variant = i
			partitions(d, &c.Partitions)
		}})
	}
	d.object(append([]field{
		{"registered_proof", func() { d.unit(names, &registered) }},
		{"vanilla_proofs", func() { d.variant(variants...) }},
	}, c.statement(d)...)...)
	if err := d.end(); err != nil {
		return err
	}
	c.Proof = sector.SealProof(registered)
	if name, n := c.Proof.Variant(); int(n) != variant {
		return errs.Mismatch(errs.InvalidFile, readC1, "vanilla_proofs", name+", the variant of "+c.Proof.String(), sector.VariantName(variant))
	}
	return c.check()
}

// DecodeC1 reads the form of the API crate, JSON or bincode.
func DecodeC1(b []byte) (*C1, error) {
	var c C1
	if err := c.api(newDecoder(readC1, b)); err != nil {
		return nil, err
	}
	return &c, nil
}

// DecodeInnerC1 reads the form of the filecoin-proofs crate, JSON or bincode, which does not say of which proof it is.
func DecodeInnerC1(b []byte, proof sector.SealProof) (*C1, error) {
	c := C1{Proof: proof}
	d := newDecoder(readC1, b)
	d.object(append([]field{{"vanilla_proofs", func() { partitions(d, &c.Partitions) }}}, c.statement(d)...)...)
	if err := d.end(); err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return &c, nil
}

// DecodePartition reads the answers of one partition, JSON or bincode.
func DecodePartition(b []byte, proof sector.SealProof) ([]PoRep, error) {
	var ps []PoRep
	d := newDecoder(readC1, b)
	poReps(d, &ps)
	if err := d.end(); err != nil {
		return nil, err
	}
	p := &path{op: readC1}
	for i := range ps {
		p.at(i)
		ps[i].check(p, proof.Size())
		p.leave()
	}
	return ps, p.err
}

// newDecoder tells the forms apart: a zero byte is never in JSON, and among the first 64 bytes of bincode there is one, in a number of eight bytes.
func newDecoder(op string, b []byte) decoder {
	if len(b) > 0 && bytes.IndexByte(b[:min(len(b), 64)], 0) < 0 {
		return newJSON(op, b)
	}
	return newBincode(op, b)
}

// Wrapped is the JSON around a Commit1 output that lotus and its tools hand over.
type Wrapped struct {
	SectorNum  uint64
	Phase1Out  []byte // the JSON form of the API crate
	SectorSize uint64
}

// DecodeWrapped reads the wrapper and what is in it.
func DecodeWrapped(b []byte) (*C1, *Wrapped, error) {
	var w Wrapped
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, nil, &errs.Error{Class: errs.InvalidFile, Op: readC1, Where: "wrapper", Err: err}
	}
	c, err := DecodeC1(w.Phase1Out)
	if err != nil {
		return nil, nil, err
	}
	if n := c.Proof.Size().Bytes; n != w.SectorSize {
		return nil, nil, errs.Mismatch(errs.InvalidFile, readC1, "SectorSize", fmt.Sprintf("%d, that of %s", n, c.Proof), w.SectorSize)
	}
	return c, &w, nil
}

// check compares all counts with those that the proof must have.
func (c *C1) check() error {
	p := &path{op: readC1}
	s := c.Proof.Size()
	p.enter("vanilla_proofs")
	if len(c.Partitions) != c.Proof.Partitions() {
		p.fail(fmt.Sprintf("%d partitions of %s", c.Proof.Partitions(), c.Proof), len(c.Partitions))
	}
	for k := range c.Partitions {
		p.at(k)
		if len(c.Partitions[k]) != s.Challenges {
			p.fail(fmt.Sprintf("%d challenges", s.Challenges), len(c.Partitions[k]))
		}
		for i := range c.Partitions[k] {
			p.at(i)
			c.Partitions[k][i].check(p, s)
			p.leave()
		}
		p.leave()
	}
	p.leave()
	for _, x := range []struct {
		name string
		zero bool
	}{{"comm_r", c.CommR.IsZero()}, {"comm_d", c.CommD.IsZero()}, {"seed", c.Seed == [32]byte{} && c.Proof.Challenge() != sector.NonInteractive}} {
		p.enter(x.name)
		if x.zero {
			p.fail("a value", "zero")
		}
		p.leave()
	}
	return p.err
}

func (r *PoRep) check(p *path, s *sector.Size) {
	merkle := func(name string, m *MerkleProof, tree sector.Tree) {
		p.enter(name)
		m.check(p, tree, s.Nodes())
		p.leave()
	}
	column := func(c *ColumnProof) {
		if len(c.Rows) != s.Layers {
			p.fail(fmt.Sprintf("%d rows", s.Layers), len(c.Rows))
		}
		merkle("inclusion_proof", &c.Inclusion, s.Tree)
	}
	merkle("comm_d_proofs", &r.CommD, sector.Tree{Base: 2})
	merkle("comm_r_last_proof", &r.CommRLast, s.Tree)
	p.enter("replica_column_proofs")
	p.enter("c_x")
	column(&r.Own)
	p.leave()
	for _, part := range []struct {
		name    string
		columns []ColumnProof
		n       int
	}{{"drg_parents", r.Base, sector.BaseDegree}, {"exp_parents", r.Exp, sector.ExpansionDegree}} {
		p.enter(part.name)
		if len(part.columns) != part.n {
			p.fail(fmt.Sprintf("%d parents", part.n), len(part.columns))
		}
		for i := range part.columns {
			p.at(i)
			column(&part.columns[i])
			p.leave()
		}
		p.leave()
	}
	p.leave()
	p.enter("labeling_proofs")
	if len(r.Labeling) != s.Layers {
		p.fail(fmt.Sprintf("%d layers", s.Layers), len(r.Labeling))
	}
	p.leave()
}
