package vanilla

import (
	"bufio"
	"encoding/binary"
	"io"
	"strconv"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/gadgets"
)

// Form is one of the two forms that answers come in.
type Form uint8

// The forms: JSON as serde writes it, compact; bincode 1.3 with its default options.
const (
	JSON Form = iota
	Bincode
)

// encoder writes one of the two forms; it is the counterpart of decoder. Errors of the writer stay in it until the end.
type encoder interface {
	object(members ...member)
	list(n int, each func(i int))
	// variant writes an alternative: JSON has its name, the binary form its number.
	variant(name string, n uint32, content func())
	unit(name string, n uint32)
	hash(x *[32]byte)
	u64(x uint64)
	u32(x uint32)
	null()
	end() error
}

// member is a member of an object: its name, and how it is written.
type member struct {
	name  string
	write func()
}

func newEncoder(w io.Writer, f Form) encoder {
	b := bufio.NewWriterSize(w, 1<<16)
	if f == JSON {
		return &jsonEncoder{w: b}
	}
	return &bincodeEncoder{w: b}
}

type jsonEncoder struct {
	w   *bufio.Writer
	num [20]byte
}

func (e *jsonEncoder) text(s string) { _, _ = e.w.WriteString(s) }

func (e *jsonEncoder) object(members ...member) {
	for i, m := range members {
		sep := `,"`
		if i == 0 {
			sep = `{"`
		}
		e.text(sep)
		e.text(m.name) // names here need no escape
		e.text(`":`)
		m.write()
	}
	e.text("}")
}

func (e *jsonEncoder) list(n int, each func(i int)) {
	e.text("[")
	for i := range n {
		if i > 0 {
			e.text(",")
		}
		each(i)
	}
	e.text("]")
}

func (e *jsonEncoder) variant(name string, _ uint32, content func()) {
	e.object(member{name, content})
}
func (e *jsonEncoder) unit(name string, _ uint32) { e.text(strconv.Quote(name)) }

func (e *jsonEncoder) hash(x *[32]byte) {
	e.list(len(x), func(i int) { e.u64(uint64(x[i])) })
}

func (e *jsonEncoder) u64(x uint64) { _, _ = e.w.Write(strconv.AppendUint(e.num[:0], x, 10)) }
func (e *jsonEncoder) u32(x uint32) { e.u64(uint64(x)) }
func (e *jsonEncoder) null()        { e.text("null") }
func (e *jsonEncoder) end() error   { return e.w.Flush() }

type bincodeEncoder struct {
	w   *bufio.Writer
	num [8]byte
}

func (e *bincodeEncoder) object(members ...member) {
	for _, m := range members {
		m.write()
	}
}

func (e *bincodeEncoder) list(n int, each func(i int)) {
	e.u64(uint64(n))
	for i := range n {
		each(i)
	}
}

func (e *bincodeEncoder) variant(_ string, n uint32, content func()) {
	e.u32(n)
	content()
}
func (e *bincodeEncoder) unit(_ string, n uint32) { e.u32(n) }
func (e *bincodeEncoder) hash(x *[32]byte)        { _, _ = e.w.Write(x[:]) }
func (e *bincodeEncoder) u64(x uint64) {
	_, _ = e.w.Write(binary.LittleEndian.AppendUint64(e.num[:0], x))
}
func (e *bincodeEncoder) u32(x uint32) {
	_, _ = e.w.Write(binary.LittleEndian.AppendUint32(e.num[:0], x))
}
func (e *bincodeEncoder) null()      {}
func (e *bincodeEncoder) end() error { return e.w.Flush() }

func writeElement(e encoder, x *fr.Element) {
	var b [fr.Bytes]byte
	fr.LittleEndian.PutElement(&b, *x)
	e.hash(&b)
}

func writeElements(e encoder, xs []fr.Element) {
	e.list(len(xs), func(i int) { writeElement(e, &xs[i]) })
}

// elementMember is a member that is a field element.
func elementMember(e encoder, name string, x *fr.Element) member {
	return member{name, func() { writeElement(e, x) }}
}

func writeMerkleProof(e encoder, m *MerkleProof) {
	ends := []member{elementMember(e, "root", &m.Root), elementMember(e, "leaf", &m.Leaf)}
	levels := func(name string, steps []gadgets.Step) member {
		return member{name, func() {
			e.object(member{"path", func() {
				e.list(len(steps), func(i int) {
					e.object(
						member{"hashes", func() { writeElements(e, steps[i].Siblings) }},
						member{"index", func() { e.u64(uint64(steps[i].Index)) }},
					)
				})
			}})
		}}
	}
	e.object(member{"data", func() {
		switch {
		case len(m.Sub) == 0:
			e.variant("Single", 0, func() { e.object(append(ends, levels("path", m.Base))...) })
		case len(m.Top) == 0:
			e.variant("Sub", 1, func() {
				e.object(append([]member{levels("base_proof", m.Base), levels("sub_proof", m.Sub)}, ends...)...)
			})
		default:
			e.variant("Top", 2, func() {
				e.object(append([]member{levels("base_proof", m.Base), levels("sub_proof", m.Sub), levels("top_proof", m.Top)}, ends...)...)
			})
		}
	}})
}

func writeColumnProof(e encoder, c *ColumnProof) {
	e.object(
		member{"column", func() {
			e.object(member{"index", func() { e.u32(c.Index) }}, member{"rows", func() { writeElements(e, c.Rows) }}, member{"_h", e.null})
		}},
		member{"inclusion_proof", func() { writeMerkleProof(e, &c.Inclusion) }},
	)
}

func writeLabeling(e encoder, l *Labeling) {
	e.object(
		member{"parents", func() { writeElements(e, l.Parents) }},
		member{"layer_index", func() { e.u32(l.Layer) }},
		member{"node", func() { e.u64(l.Node) }},
	)
}

func writePoRep(e encoder, p *PoRep) {
	columns := func(cs []ColumnProof) func() {
		return func() { e.list(len(cs), func(i int) { writeColumnProof(e, &cs[i]) }) }
	}
	e.object(
		member{"comm_d_proofs", func() { writeMerkleProof(e, &p.CommD) }},
		member{"comm_r_last_proof", func() { writeMerkleProof(e, &p.CommRLast) }},
		member{"replica_column_proofs", func() {
			e.object(
				member{"c_x", func() { writeColumnProof(e, &p.Own) }},
				member{"drg_parents", columns(p.Base)},
				member{"exp_parents", columns(p.Exp)},
			)
		}},
		member{"labeling_proofs", func() { e.list(len(p.Labeling), func(i int) { writeLabeling(e, &p.Labeling[i]) }) }},
		member{"encoding_proof", func() { writeLabeling(e, &p.Encoding) }},
	)
}

// Write writes the form of the API crate: what DecodeC1 reads. An error is that of w.
func (c *C1) Write(w io.Writer, form Form) error {
	e := newEncoder(w, form)
	variant, number := c.Proof.Variant()
	e.object(
		member{"registered_proof", func() { e.unit(c.Proof.String(), uint32(c.Proof)) }},
		member{"vanilla_proofs", func() {
			e.variant(variant, number, func() {
				e.list(len(c.Partitions), func(k int) {
					e.list(len(c.Partitions[k]), func(i int) { writePoRep(e, &c.Partitions[k][i]) })
				})
			})
		}},
		elementMember(e, "comm_r", &c.CommR),
		elementMember(e, "comm_d", &c.CommD),
		elementMember(e, "replica_id", &c.ReplicaID),
		member{"seed", func() { e.hash(&c.Seed) }},
		member{"ticket", func() { e.hash(&c.Ticket) }},
	)
	return e.end()
}

// Write writes what DecodePoSt reads. An error is that of w.
func (p *PoSt) Write(w io.Writer, form Form) error {
	e := newEncoder(w, form)
	e.object(
		member{"sector_id", func() { e.u64(p.SectorID) }},
		elementMember(e, "comm_r", &p.CommR),
		member{"vanilla_proof", func() {
			e.object(member{"sectors", func() {
				e.list(1, func(int) {
					e.object(
						member{"inclusion_proofs", func() { e.list(len(p.Leaves), func(i int) { writeMerkleProof(e, &p.Leaves[i]) }) }},
						elementMember(e, "comm_c", &p.CommC),
						elementMember(e, "comm_r_last", &p.CommRLast),
					)
				})
			}})
		}},
	)
	return e.end()
}

// Write writes what DecodeUpdate reads. An error is that of w.
func (u *Update) Write(w io.Writer, form Form) error {
	e := newEncoder(w, form)
	e.object(
		elementMember(e, "comm_c", &u.CommC),
		member{"apex_leafs", func() { writeElements(e, u.ApexLeaves) }},
		member{"challenge_proofs", func() {
			e.list(len(u.Challenges), func(i int) {
				c := &u.Challenges[i]
				e.object(
					member{"proof_r_old", func() { writeMerkleProof(e, &c.ROld) }},
					member{"proof_d_new", func() { writeMerkleProof(e, &c.DNew) }},
					member{"proof_r_new", func() { writeMerkleProof(e, &c.RNew) }},
				)
			})
		}},
	)
	return e.end()
}
