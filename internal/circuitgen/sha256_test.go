package circuitgen

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// TestDigest takes the message from the private inputs in the file and compares its
// digest with the public outputs. TestFiles checks that the rows hold for the same files.
func TestDigest(t *testing.T) {
	for _, s := range []SHA256{{Blocks: 1, Seed: 1}, {Blocks: 2, Seed: 2}} {
		p := read(t, s)
		h := p.header
		if h.Outputs != 2 || h.PublicInputs != 0 || int(h.PrivateInputs) != 8*(64*s.Blocks-9) {
			t.Fatalf("%+v: header %+v", s, h)
		}
		message := make([]byte, h.PrivateInputs/8)
		for i := range h.PrivateInputs {
			v := p.witness[1+h.Public()+i]
			if !v.IsZero() && !v.IsOne() {
				t.Fatalf("%+v: input %d is %v", s, i, &v)
			}
			message[i/8] = message[i/8]<<1 | byte(v.Uint64())
		}
		if !bytes.Equal(message, s.Message()) {
			t.Errorf("%+v: inputs spell another message", s)
		}
		want := sha256.Sum256(message)
		for i := range 2 {
			b := p.witness[1+i].Bytes() // big-endian
			if !bytes.Equal(b[:16], make([]byte, 16)) || !bytes.Equal(b[16:], want[16*i:16*i+16]) {
				t.Errorf("%+v: output %d is %x, want %x", s, i, b, want[16*i:16*i+16])
			}
		}
	}
}

// TestForgedDigest checks that the rows bind the outputs to the message: a digest bit,
// changed in output and final sum alike, is caught further up.
func TestForgedDigest(t *testing.T) {
	p := read(t, SHA256{Blocks: 1, Seed: 1})
	last := p.rows[len(p.rows)-1][2] // out = sum of 128 bits
	if len(last) != 129 {
		t.Fatalf("last row has %d terms, want 129", len(last))
	}
	for i := 0; i < 128; i += 15 {
		term := last[i]
		w := append(p.witness[:0:0], p.witness...)
		x := &w[term.Wire]
		out := &w[2]
		if x.IsZero() {
			x.SetOne()
			out.Add(out, &term.Coeff)
		} else {
			x.SetZero()
			out.Sub(out, &term.Coeff)
		}
		if !p.rows[len(p.rows)-1].satisfied(w) {
			t.Fatal("the forgery does not even fit the last row")
		}
		if p.violated(w) == nil {
			t.Fatalf("wire %d forged unseen", term.Wire)
		}
	}
}

func TestSHA256ForRows(t *testing.T) {
	for _, tc := range []struct{ log2, blocks, rows, wires int }{
		{15, 1, 29_298, 29_051},
		{16, 2, 58_338, 57_843},
		{17, 4, 116_418, 115_427},
		{18, 9, 261_618, 259_387},
		{19, 18, 522_978, 518_515},
		{20, 36, 1_045_698, 1_036_771},
		{21, 72, 2_091_138, 2_073_283},
		{22, 144, 4_182_018, 4_146_307},
	} {
		s, err := SHA256ForRows(1<<tc.log2, 1)
		if err != nil {
			t.Fatal(err)
		}
		h := s.Header()
		if s.Blocks != tc.blocks || int(h.Constraints) != tc.rows || int(h.Wires) != tc.wires {
			t.Errorf("2^%d: %d blocks, %d rows, %d wires, want %d, %d, %d", tc.log2, s.Blocks, h.Constraints, h.Wires, tc.blocks, tc.rows, tc.wires)
		}
		if h.Domain() != 1<<tc.log2 {
			t.Errorf("2^%d: domain %d", tc.log2, h.Domain())
		}
	}
	least := 29_298 + 3
	if s, err := SHA256ForRows(least, 1); err != nil || s.Blocks != 1 {
		t.Errorf("%d rows: %d blocks, error %v", least, s.Blocks, err)
	}
	for _, n := range []int{-1, 0, 1, least - 1} {
		if _, err := SHA256ForRows(n, 1); err == nil {
			t.Errorf("%d rows hold a block", n)
		}
	}
}
