package vanilla

import (
	"strconv"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// decoder reads one of the two forms. The first failure stays, with the path of the field where it happened; what is read after it is zero.
type decoder interface {
	object(fields ...field)
	// list reads as many members as there are; each takes at least min bytes in the binary form, so that no count is believed.
	list(min int, each func(i int))
	// variant reads one of several alternatives; JSON names it, the binary form has its number.
	variant(alternatives ...field)
	// unit reads an alternative without content.
	unit(names []string, x *uint32)
	hash(x *[32]byte)
	u64(x *uint64)
	u32(x *uint32)
	null()      // a field without content
	end() error // nothing may follow
	path() *path
}

// field is a member of an object: its name, and how it is read.
type field struct {
	name string
	read func()
}

// path is where a decoder is, and the failure.
type path struct {
	op    string
	parts []part
	err   error
}

type part struct {
	name  string
	index int // -1: a name
}

func (p *path) enter(name string) { p.parts = append(p.parts, part{name, -1}) }
func (p *path) at(i int)          { p.parts = append(p.parts, part{"", i}) }
func (p *path) leave()            { p.parts = p.parts[:len(p.parts)-1] }

func (p *path) String() string {
	var s strings.Builder
	for _, x := range p.parts {
		switch {
		case x.index >= 0:
			s.WriteString("[" + strconv.Itoa(x.index) + "]")
		case s.Len() > 0:
			s.WriteString("." + x.name)
		default:
			s.WriteString(x.name)
		}
	}
	return s.String()
}

// fail keeps the first failure.
func (p *path) fail(expected, found any) {
	if p.err == nil {
		where := p.String()
		if where == "" {
			where = "top level"
		}
		p.err = errs.Mismatch(errs.InvalidFile, p.op, where, expected, found)
	}
}

// element reads a field element: 32 bytes, little-endian, below r.
func element(d decoder, x *fr.Element) {
	var b [32]byte
	d.hash(&b)
	if d.path().err != nil {
		return
	}
	e, err := fr.LittleEndian.Element(&b)
	if err != nil {
		d.path().fail("a value below the group order r", "one that is not")
		return
	}
	*x = e
}

// elements reads a list of them.
func elements(d decoder, xs *[]fr.Element) {
	d.list(fr.Bytes, func(int) {
		var x fr.Element
		element(d, &x)
		*xs = append(*xs, x)
	})
}
