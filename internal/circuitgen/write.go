package circuitgen

import (
	"encoding/binary"
	"io"
	"path/filepath"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/internal/atomicfile"
	"github.com/weir-zk/weir/sdk/errs"
)

// Sizes of the pieces of the two formats, in bytes.
const (
	fieldBytes       = fr.Bytes                     // one value or coefficient
	termBytes        = 4 + fieldBytes               // wire and coefficient
	r1csRowBytes     = 3 * 4                        // the three term counts of a row
	labelBytes       = 8                            // one entry of the label map
	fileHeadBytes    = 4 + 4 + 4                    // magic, version, number of sections
	sectionHeadBytes = 4 + 8                        // id, size
	r1csHeadBytes    = 4 + fieldBytes + 4*4 + 8 + 4 // header section of .r1cs
	wtnsHeadBytes    = 4 + fieldBytes + 4           // header section of .wtns

	flushBytes = 1 << 20 // size of a write
)

// Operations as errors name them.
const (
	opWriteR1CS = "write .r1cs"
	opWriteWTNS = "write .wtns"
)

// le collects little-endian bytes and writes them in large pieces. The first
// error stays, and later calls do nothing.
type le struct {
	w   io.Writer
	buf []byte
	err error
}

func newLE(w io.Writer) *le { return &le{w: w, buf: make([]byte, 0, flushBytes+4096)} }

func (e *le) flush() {
	if e.err == nil && len(e.buf) > 0 {
		_, e.err = e.w.Write(e.buf)
	}
	e.buf = e.buf[:0]
}

func (e *le) room() {
	if len(e.buf) >= flushBytes {
		e.flush()
	}
}

func (e *le) text(s string) { e.buf = append(e.buf, s...) }
func (e *le) u32(v uint32)  { e.buf = binary.LittleEndian.AppendUint32(e.buf, v) }
func (e *le) u64(v uint64)  { e.buf = binary.LittleEndian.AppendUint64(e.buf, v) }

// field appends the plain (not Montgomery) value of v.
func (e *le) field(v *fr.Element) {
	for _, limb := range v.Bits() {
		e.u64(limb)
	}
}

// prime appends the size and the value of the field's modulus.
func (e *le) prime() {
	e.u32(fieldBytes)
	b := fr.Modulus().FillBytes(make([]byte, fieldBytes))
	for i := range b {
		e.buf = append(e.buf, b[len(b)-1-i])
	}
}

func (e *le) section(id uint32, size uint64) {
	e.u32(id)
	e.u64(size)
}

func (e *le) combination(terms []Term) {
	e.u32(uint32(len(terms)))
	for i := range terms {
		e.u32(terms[i].Wire)
		e.field(&terms[i].Coeff)
		e.room()
	}
}

// WriteR1CS writes the constraints of c as an .r1cs file, version 1, sections in
// circom's order: constraints, header, wire-to-label map (the identity). The rows
// are generated twice. Memory is about one MiB, whatever the size.
func WriteR1CS(w io.Writer, c Circuit) error {
	if err := validate(c); err != nil {
		return err
	}
	h := c.Header()

	var rows, terms uint64
	c.Constraints(func(a, b, c []Term) bool {
		rows++
		terms += uint64(len(a) + len(b) + len(c))
		return true
	})
	if rows != uint64(h.Constraints) {
		return errs.New(errs.Internal, opWriteR1CS, "%T yields %d rows, its header says %d", c, rows, h.Constraints)
	}

	e := newLE(w)
	e.text("r1cs")
	e.u32(1)
	e.u32(3)
	e.section(2, rows*r1csRowBytes+terms*termBytes)
	c.Constraints(func(a, b, c []Term) bool {
		e.combination(a)
		e.combination(b)
		e.combination(c)
		return e.err == nil
	})

	e.section(1, r1csHeadBytes)
	e.prime()
	e.u32(h.Wires)
	e.u32(h.Outputs)
	e.u32(h.PublicInputs)
	e.u32(h.PrivateInputs)
	e.u64(uint64(h.Wires))
	e.u32(h.Constraints)

	e.section(3, uint64(h.Wires)*labelBytes)
	for i := uint32(0); i < h.Wires && e.err == nil; i++ {
		e.u64(uint64(i))
		e.room()
	}
	e.flush()
	return e.err
}

// WriteWTNS writes the witness of c as a .wtns file, version 2. Memory is about
// one MiB, whatever the size.
func WriteWTNS(w io.Writer, c Circuit) error {
	if err := validate(c); err != nil {
		return err
	}
	h := c.Header()
	e := newLE(w)
	e.text("wtns")
	e.u32(2)
	e.u32(2)
	e.section(1, wtnsHeadBytes)
	e.prime()
	e.u32(h.Wires)
	e.section(2, uint64(h.Wires)*fieldBytes)
	var n uint64
	c.Witness(func(v *fr.Element) bool {
		e.field(v)
		e.room()
		n++
		return e.err == nil
	})
	e.flush()
	if e.err == nil && n != uint64(h.Wires) {
		return errs.New(errs.Internal, opWriteWTNS, "%T yields %d values, its header says %d", c, n, h.Wires)
	}
	return e.err
}

// WriteFiles writes dir/name.r1cs and dir/name.wtns and returns their paths. Each
// is written aside and renamed, so that a file of that name is always whole.
func WriteFiles(dir, name string, c Circuit) (r1cs, wtns string, err error) {
	r1cs = filepath.Join(dir, name+".r1cs")
	wtns = filepath.Join(dir, name+".wtns")
	if err = writeFile(r1cs, c, WriteR1CS); err != nil {
		return "", "", err
	}
	if err = writeFile(wtns, c, WriteWTNS); err != nil {
		return "", "", err
	}
	return r1cs, wtns, nil
}

func writeFile(path string, c Circuit, write func(io.Writer, Circuit) error) error {
	f, err := atomicfile.Create(path, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f, c); err != nil {
		return err
	}
	return f.Commit()
}
