package snarkjs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fp"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// MaxJSON bounds a JSON file: a verification key of 256 k public inputs is not larger.
const MaxJSON = 128 << 20

// Names in snarkjs' JSON.
const (
	protocolName = "groth16"
	curveName    = "bls12381"
)

// readJSON reads all of r, at most MaxJSON bytes.
func readJSON(r io.Reader, op string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxJSON+1))
	if err != nil {
		return nil, errs.Wrap(err, op)
	}
	if len(b) > MaxJSON {
		return nil, errs.Mismatch(errs.Exhausted, op, "", fmt.Sprintf("at most %d bytes of JSON", MaxJSON), "more")
	}
	return b, nil
}

// node is a place in a JSON text: how it was reached, for messages, and its own text, which is a part of the whole and known to be valid.
type node struct {
	op    string
	up    *node
	name  string // in an object
	index int    // in a list
	raw   []byte
}

// parse checks that b is one JSON value and nothing else.
func parse(op string, b []byte) (*node, error) {
	if !json.Valid(b) {
		var v json.RawMessage
		err := json.Unmarshal(b, &v)
		e := &errs.Error{Class: errs.InvalidFile, Op: op, Expected: "a JSON text", Found: head(b), Err: err}
		return nil, e.WithHint("numbers are written as decimal strings; NaN and Infinity are not JSON")
	}
	return &node{op: op, raw: bytes.Trim(b, space)}, nil
}

// head is the start of a text for messages.
func head(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q...", b[:40])
	}
	return fmt.Sprintf("%q", b)
}

// path is how people write the place: "[2].pi_b[0]".
func (n *node) path() string {
	switch {
	case n.up == nil:
		return ""
	case n.name != "":
		return strings.TrimPrefix(n.up.path()+"."+n.name, ".")
	}
	return fmt.Sprintf("%s[%d]", n.up.path(), n.index)
}

func (n *node) bad(expected, found string) *errs.Error {
	return errs.Mismatch(errs.InvalidFile, n.op, n.path(), expected, found)
}

const space = " \t\r\n"

// value splits valid JSON after its first value, which must not be preceded by white space.
func value(b []byte) (first, rest []byte) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
			continue
		case ']', '}':
			depth--
		case ' ', '\t', '\r', '\n', ',', ':':
			continue
		default:
			// A number or a word ends before white space, a comma, a colon or a bracket.
			for i+1 < len(b) && !strings.ContainsRune(space+",:]}", rune(b[i+1])) {
				i++
			}
		}
		if depth == 0 {
			return b[:i+1], bytes.TrimLeft(b[i+1:], space)
		}
	}
	return b, nil
}

// inside is the text between the brackets of n.
func (n *node) inside() []byte { return bytes.Trim(n.raw[1:len(n.raw)-1], space) }

// after drops the comma between two values.
func after(b []byte) []byte {
	if len(b) > 0 {
		b = bytes.TrimLeft(b[1:], space)
	}
	return b
}

// isList reports whether n is an array.
func (n *node) isList() bool { return n.raw[0] == '[' }

// each calls f for the elements of an array. Nothing is copied; e is valid during the call only.
func (n *node) each(f func(e *node) error) error {
	if !n.isList() {
		return n.bad("a list", head(n.raw))
	}
	e := node{op: n.op, up: n}
	for b := n.inside(); len(b) > 0; e.index++ {
		e.raw, b = value(b)
		b = after(b)
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

// fixed returns the elements of an array of known, small length.
func (n *node) fixed(length int) ([]node, error) {
	l := make([]node, 0, length)
	err := n.each(func(e *node) error {
		if len(l) == length {
			return n.bad(fmt.Sprintf("%d elements", length), "more")
		}
		l = append(l, *e)
		return nil
	})
	if err == nil && len(l) != length {
		err = n.bad(fmt.Sprintf("%d elements", length), fmt.Sprint(len(l)))
	}
	return l, err
}

// object returns the members of an object that are among names. They are compared exactly; a doubled one is refused, for two readers would see different files.
// Other members are passed over.
func (n *node) object(names ...string) (map[string]*node, error) {
	if n.raw[0] != '{' {
		return nil, n.bad("an object", head(n.raw))
	}
	out := make(map[string]*node, len(names))
	for b := n.inside(); len(b) > 0; {
		var key, raw []byte
		key, b = value(b)
		raw, b = value(after(b))
		b = after(b)
		var name string
		if err := json.Unmarshal(key, &name); err != nil {
			return nil, n.bad("a name", head(key))
		}
		if !slices.Contains(names, name) {
			continue
		}
		if _, twice := out[name]; twice {
			return nil, n.bad("each name once", fmt.Sprintf("%q twice", name))
		}
		out[name] = &node{op: n.op, up: n, name: name, raw: raw}
	}
	return out, nil
}

// need is a member that must be there.
func (n *node) need(m map[string]*node, name string) (*node, error) {
	x, ok := m[name]
	if !ok {
		return nil, n.bad(fmt.Sprintf("a member %q", name), "none")
	}
	return x, nil
}

// text is the value of a string.
func (n *node) text() (string, error) {
	if n.raw[0] != '"' {
		return "", n.bad("a string", head(n.raw))
	}
	var s string
	if err := json.Unmarshal(n.raw, &s); err != nil {
		return "", n.bad("a string", err.Error())
	}
	return s, nil
}

// number reads a canonical decimal string below modulus: digits only, no sign, no leading zero.
func (n *node) number(modulus *big.Int, below string) (*big.Int, error) {
	if n.raw[0] != '"' {
		return nil, n.bad("a decimal string", head(n.raw)).WithHint("numbers are written in quotes, as snarkjs writes them")
	}
	// A number has no character that JSON escapes, so the text between the quotes is the value.
	s := string(n.raw[1 : len(n.raw)-1])
	ok := s != "" && (s == "0" || s[0] != '0')
	for i := 0; i < len(s) && ok; i++ {
		ok = s[i] >= '0' && s[i] <= '9'
	}
	// 2^k has fewer than k/3 + 1 digits: longer texts are never converted.
	if ok && len(s) > modulus.BitLen()/3+1 {
		return nil, n.bad(below, fmt.Sprintf("a number of %d digits", len(s)))
	}
	if !ok {
		return nil, n.bad("a decimal string without sign or leading zeros", head([]byte(s)))
	}
	x, _ := new(big.Int).SetString(s, 10)
	if x.Cmp(modulus) >= 0 {
		return nil, n.bad(below, s)
	}
	return x, nil
}

func (n *node) scalar() (x fr.Element, err error) {
	v, err := n.number(fr.Modulus(), "a value below the group order r")
	if err == nil {
		x.SetBigInt(v)
	}
	return x, err
}

func (n *node) coordinate(x *fp.Element) error {
	v, err := n.number(fp.Modulus(), "a coordinate below the field modulus q")
	if err == nil {
		x.SetBigInt(v)
	}
	return err
}

// pair is [c0, c1].
func (n *node) pair(x *bls.E2) error {
	l, err := n.fixed(2)
	if err != nil {
		return err
	}
	if err := l[0].coordinate(&x.A0); err != nil {
		return err
	}
	return l[1].coordinate(&x.A1)
}

// g1 reads [x, y, z] with z = 1, or [0, 1, 0] for infinity. A point off the curve or outside the subgroup is an error of the given class.
func (n *node) g1(p *bls.G1Affine, class errs.Class) error {
	l, err := n.fixed(3)
	if err != nil {
		return err
	}
	var z fp.Element
	for i, c := range []*fp.Element{&p.X, &p.Y, &z} {
		if err := l[i].coordinate(c); err != nil {
			return err
		}
	}
	if z.IsZero() && p.X.IsZero() && p.Y.IsOne() {
		*p = bls.G1Affine{}
		return nil
	}
	if !z.IsOne() {
		return n.bad(`an affine point: [x, y, "1"], or ["0", "1", "0"] for infinity`, "another third coordinate")
	}
	return n.member(p.IsInfinity(), p.IsOnCurve(), p.IsInSubGroup, class)
}

// g2 is g1 with pairs for coordinates.
func (n *node) g2(p *bls.G2Affine, class errs.Class) error {
	l, err := n.fixed(3)
	if err != nil {
		return err
	}
	var z bls.E2
	for i, c := range []*bls.E2{&p.X, &p.Y, &z} {
		if err := l[i].pair(c); err != nil {
			return err
		}
	}
	if z.IsZero() && p.X.IsZero() && p.Y.IsOne() {
		*p = bls.G2Affine{}
		return nil
	}
	if !z.IsOne() {
		return n.bad(`an affine point: [[x0, x1], [y0, y1], ["1", "0"]], or zero, one, zero for infinity`, "another third coordinate")
	}
	return n.member(p.IsInfinity(), p.IsOnCurve(), p.IsInSubGroup, class)
}

// member judges a point. (0, 0) stands for infinity in memory, but in a file it is a point off the curve.
func (n *node) member(zero, onCurve bool, inSubgroup func() bool, class errs.Class) error {
	if zero || !onCurve {
		return errs.Mismatch(class, n.op, n.path(), "a point of the curve", "one that is not")
	}
	if !inSubgroup() {
		return errs.Mismatch(class, n.op, n.path(), "a point of the subgroup of order r", "one that is not")
	}
	return nil
}

// called checks a member that names the protocol or the curve, as snarkjs compares: without case and punctuation.
func (n *node) called(m map[string]*node, member, want string, must bool) error {
	x, ok := m[member]
	if !ok && !must {
		return nil
	}
	if !ok {
		return n.bad(fmt.Sprintf("a member %q", member), "none")
	}
	s, err := x.text()
	if err != nil {
		return err
	}
	if strings.Map(alphanumeric, s) != want {
		return errs.Mismatch(errs.Unsupported, x.op, x.path(), want, head([]byte(s)))
	}
	return nil
}

func alphanumeric(r rune) rune {
	switch {
	case r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
		return r
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	}
	return -1
}

// Texts of values as snarkjs writes them.

// Element.Text would write -1 for the modulus less one.

func fpText(x *fp.Element) string {
	var b big.Int
	return x.BigInt(&b).Text(10)
}

func frText(x *fr.Element) string {
	var b big.Int
	return x.BigInt(&b).Text(10)
}

func g1Text(p *bls.G1Affine) []any {
	if p.IsInfinity() {
		return []any{"0", "1", "0"}
	}
	return []any{fpText(&p.X), fpText(&p.Y), "1"}
}

func e2Text(x *bls.E2) []any { return []any{fpText(&x.A0), fpText(&x.A1)} }

func g2Text(p *bls.G2Affine) []any {
	if p.IsInfinity() {
		return []any{[]any{"0", "0"}, []any{"1", "0"}, []any{"0", "0"}}
	}
	return []any{e2Text(&p.X), e2Text(&p.Y), []any{"1", "0"}}
}

// member of an object that is written in order.
type member struct {
	name  string
	value any
}

// write appends v with one space of indentation a level: the bytes that snarkjs writes. v is a string, an int, a []any or a []member. An empty list takes
// two lines.
func write(b []byte, v any, depth int) []byte {
	line := func(d int) {
		b = append(b, '\n')
		for range d {
			b = append(b, ' ')
		}
	}
	switch v := v.(type) {
	case string: // digits and names: nothing to escape
		b = append(append(append(b, '"'), v...), '"')
	case int:
		b = fmt.Append(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			line(depth + 1)
			b = write(b, x, depth+1)
		}
		line(depth)
		b = append(b, ']')
	case []member:
		b = append(b, '{')
		for i, m := range v {
			if i > 0 {
				b = append(b, ',')
			}
			line(depth + 1)
			b = append(append(append(b, '"'), m.name...), `": `...)
			b = write(b, m.value, depth+1)
		}
		line(depth)
		b = append(b, '}')
	}
	return b
}
