package vanilla

import (
	"encoding/binary"
	"fmt"
)

// bincodeDecoder reads bincode 1.3 with its default options: fixed little-endian numbers, u64 before lists, u32 for alternatives.
type bincodeDecoder struct {
	p path
	b []byte
	n int // of all bytes, for messages
}

func newBincode(op string, b []byte) *bincodeDecoder {
	return &bincodeDecoder{p: path{op: op}, b: b, n: len(b)}
}

func (d *bincodeDecoder) path() *path { return &d.p }

// take is the next n bytes, nil after a failure.
func (d *bincodeDecoder) take(n int) []byte {
	if d.p.err != nil {
		return nil
	}
	if len(d.b) < n {
		d.p.fail(fmt.Sprintf("%d bytes at offset %d", n, d.n-len(d.b)), fmt.Sprintf("the end after %d", len(d.b)))
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *bincodeDecoder) object(fields ...field) {
	for _, f := range fields {
		if d.p.err != nil {
			return
		}
		d.p.enter(f.name)
		f.read()
		d.p.leave()
	}
}

func (d *bincodeDecoder) list(min int, each func(i int)) {
	var n uint64
	d.u64(&n)
	if n > uint64(len(d.b)/max(1, min)) {
		d.p.fail(fmt.Sprintf("a list that fits the remaining %d bytes", len(d.b)), fmt.Sprintf("%d members of at least %d bytes", n, min))
	}
	for i := 0; uint64(i) < n && d.p.err == nil; i++ {
		d.p.at(i)
		each(i)
		d.p.leave()
	}
}

func (d *bincodeDecoder) variant(alternatives ...field) {
	var n uint32
	d.u32(&n)
	if d.p.err != nil {
		return
	}
	if int64(n) >= int64(len(alternatives)) {
		d.p.fail(fmt.Sprintf("a tag below %d", len(alternatives)), n)
		return
	}
	d.p.enter(alternatives[n].name)
	alternatives[n].read()
	d.p.leave()
}

func (d *bincodeDecoder) unit(names []string, x *uint32) {
	d.u32(x)
	if d.p.err == nil && int64(*x) >= int64(len(names)) {
		d.p.fail(fmt.Sprintf("a number below %d", len(names)), *x)
	}
}

func (d *bincodeDecoder) hash(x *[32]byte) { copy(x[:], d.take(32)) }

func (d *bincodeDecoder) u64(x *uint64) {
	if b := d.take(8); b != nil {
		*x = binary.LittleEndian.Uint64(b)
	}
}

func (d *bincodeDecoder) u32(x *uint32) {
	if b := d.take(4); b != nil {
		*x = binary.LittleEndian.Uint32(b)
	}
}

func (d *bincodeDecoder) null() {}

func (d *bincodeDecoder) end() error {
	if d.p.err == nil && len(d.b) > 0 {
		d.p.fail(fmt.Sprintf("the end at offset %d", d.n-len(d.b)), fmt.Sprintf("%d more bytes", len(d.b)))
	}
	return d.p.err
}
