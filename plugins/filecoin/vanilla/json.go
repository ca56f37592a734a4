package vanilla

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// jsonDecoder reads JSON as serde writes it: objects in any order of their fields, unknown ones skipped, none missing or doubled; byte arrays as lists of numbers. The text
// is read once, without a tree in memory: a Commit1 output of a 32 GiB sector has 50 MB.
type jsonDecoder struct {
	p   path
	b   []byte
	off int
}

func newJSON(op string, b []byte) *jsonDecoder { return &jsonDecoder{p: path{op: op}, b: b} }

func (d *jsonDecoder) path() *path { return &d.p }

// fail adds the place in the text.
func (d *jsonDecoder) fail(expected string) {
	found := "the end"
	if d.off < len(d.b) {
		found = strconv.QuoteRune(rune(d.b[d.off]))
	}
	d.p.fail(expected, fmt.Sprintf("%s at byte %d", found, d.off))
}

func (d *jsonDecoder) space() {
	for d.off < len(d.b) {
		switch d.b[d.off] {
		case ' ', '\t', '\r', '\n':
			d.off++
		default:
			return
		}
	}
}

// next skips space and takes c if it comes next.
func (d *jsonDecoder) next(c byte) bool {
	d.space()
	if d.p.err != nil || d.off >= len(d.b) || d.b[d.off] != c {
		return false
	}
	d.off++
	return true
}

func (d *jsonDecoder) expect(c byte) {
	if !d.next(c) {
		d.fail(strconv.QuoteRune(rune(c)))
	}
}

// text reads a string.
func (d *jsonDecoder) text() string {
	d.space()
	start := d.off
	if !d.next('"') {
		d.fail("a string")
		return ""
	}
	escaped := false
	for d.off < len(d.b) && d.b[d.off] != '"' {
		if d.b[d.off] == '\\' {
			escaped = true
			d.off++
		}
		d.off++
	}
	if d.off >= len(d.b) {
		d.off = len(d.b)
		d.fail("the end of the string")
		return ""
	}
	d.off++
	raw := d.b[start:d.off]
	if !escaped {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		d.p.fail("a string", err)
	}
	return s
}

func (d *jsonDecoder) object(fields ...field) {
	d.expect('{')
	var seen uint64 // objects here have few fields
	for first := true; d.p.err == nil && !d.next('}'); first = false {
		if !first {
			d.expect(',')
		}
		name := d.text()
		d.expect(':')
		if d.p.err != nil {
			return
		}
		i := 0
		for i < len(fields) && fields[i].name != name {
			i++
		}
		if i == len(fields) {
			d.skip(0)
			continue
		}
		d.p.enter(name)
		if seen>>i&1 == 1 {
			d.p.fail("the field once", "again")
		} else {
			fields[i].read()
		}
		seen |= 1 << i
		d.p.leave()
	}
	for i, f := range fields {
		if d.p.err == nil && seen>>i&1 == 0 {
			d.p.fail("the field "+f.name, "an object without it")
		}
	}
}

func (d *jsonDecoder) list(_ int, each func(i int)) {
	d.expect('[')
	for i := 0; d.p.err == nil && !d.next(']'); i++ {
		if i > 0 {
			d.expect(',')
		}
		d.p.at(i)
		each(i)
		d.p.leave()
	}
}

func (d *jsonDecoder) variant(alternatives ...field) {
	d.expect('{')
	name := d.text()
	d.expect(':')
	for _, a := range alternatives {
		if a.name == name && d.p.err == nil {
			d.p.enter(name)
			a.read()
			d.p.leave()
			d.expect('}')
			return
		}
	}
	var names []string
	for _, a := range alternatives {
		names = append(names, a.name)
	}
	d.p.fail(fmt.Sprintf("one of %q", names), strconv.Quote(name))
}

func (d *jsonDecoder) unit(names []string, x *uint32) {
	name := d.text()
	if d.p.err != nil {
		return
	}
	i := slices.Index(names, name)
	if i < 0 {
		d.p.fail(fmt.Sprintf("one of %q", names), strconv.Quote(name))
		return
	}
	*x = uint32(i)
}

// number reads an unsigned integer up to limit.
func (d *jsonDecoder) number(limit uint64) uint64 {
	d.space()
	start, x := d.off, uint64(0)
	for d.off < len(d.b) && d.b[d.off] >= '0' && d.b[d.off] <= '9' {
		digit := uint64(d.b[d.off] - '0')
		if x > (limit-digit)/10 {
			d.fail(fmt.Sprintf("a number up to %d", limit))
			return 0
		}
		x = 10*x + digit
		d.off++
	}
	if d.off == start || (d.b[start] == '0' && d.off > start+1) {
		d.fail("a number")
		return 0
	}
	if d.off < len(d.b) && bytes.IndexByte([]byte(".eE"), d.b[d.off]) >= 0 {
		d.fail("a whole number")
	}
	return x
}

func (d *jsonDecoder) hash(x *[32]byte) {
	d.expect('[')
	for i := range x {
		if i > 0 {
			d.expect(',')
		}
		if d.p.err != nil {
			return
		}
		x[i] = byte(d.number(255))
	}
	if !d.next(']') {
		d.fail("the end of 32 bytes")
	}
}

func (d *jsonDecoder) u64(x *uint64) { *x = d.number(1<<64 - 1) }
func (d *jsonDecoder) u32(x *uint32) { *x = uint32(d.number(1<<32 - 1)) }

func (d *jsonDecoder) null() {
	d.space()
	if d.p.err == nil && bytes.HasPrefix(d.b[d.off:], []byte("null")) {
		d.off += 4
		return
	}
	d.fail("null")
}

// maxDepth bounds how deep a skipped value may be nested.
const maxDepth = 100

// skip reads a value of any kind.
func (d *jsonDecoder) skip(depth int) {
	d.space()
	if depth > maxDepth || d.off >= len(d.b) || d.p.err != nil {
		d.fail("a value")
		return
	}
	switch c := d.b[d.off]; c {
	case '{', '[':
		d.off++
		end := c + 2
		for first := true; d.p.err == nil && !d.next(end); first = false {
			if !first {
				d.expect(',')
			}
			if c == '{' {
				d.text()
				d.expect(':')
			}
			d.skip(depth + 1)
		}
	case '"':
		d.text()
	default:
		start := d.off
		for d.off < len(d.b) && bytes.IndexByte([]byte(" \t\r\n,]}"), d.b[d.off]) < 0 {
			d.off++
		}
		if !json.Valid(d.b[start:d.off]) {
			d.off = start
			d.fail("a value")
		}
	}
}

func (d *jsonDecoder) end() error {
	d.space()
	if d.p.err == nil && d.off < len(d.b) {
		d.fail("the end")
	}
	return d.p.err
}
