package statement

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/plugins/filecoin/sector"
	"github.com/weir-zk/weir/sdk/errs"
)

// Padding, commitments of pieces and comm_d are the reference's.
func TestPieces(t *testing.T) {
	var want struct {
		Fr32 []struct{ Padded, Unpadded string }
		Comm []struct {
			Commitment fixture.Element
			Multiplier int
			Bytes      int `json:"unpadded_bytes"`
		} `json:"piece_commitments"`
		CommD []struct {
			CommD    fixture.Element `json:"comm_d"`
			Pieces   []fixture.Element
			Unpadded []uint64 `json:"pieces_unpadded"`
			Size     uint64   `json:"sector_size,string"`
		} `json:"comm_d"`
	}
	fixture.JSON(t, "vec/pieces.json", &want)
	for i, x := range want.Fr32 {
		in, err := hex.DecodeString(x.Unpadded)
		if err != nil {
			t.Fatal(err)
		}
		out, err := hex.DecodeString(x.Padded)
		if err != nil {
			t.Fatal(err)
		}
		if got := Pad(in); !bytes.Equal(got, out) {
			t.Errorf("padding %d: %x, want %x", i, got, out)
		}
	}
	for _, x := range want.Comm {
		data := make([]byte, x.Bytes)
		for i := range data {
			data[i] = byte(i%256*x.Multiplier + i/256 + x.Multiplier)
		}
		if got, err := CommP(data); err != nil || got != x.Commitment.Element {
			t.Errorf("piece of %d bytes: %v, want %v, %v", x.Bytes, &got, &x.Commitment, err)
		}
	}
	for i, x := range want.CommD {
		size, err := sector.OfBytes(x.Size)
		if err != nil {
			t.Fatal(err)
		}
		var pieces []Piece
		for k := range x.Pieces {
			pieces = append(pieces, Piece{x.Unpadded[k], x.Pieces[k].Element})
		}
		if got, err := CommD(size, pieces); err != nil || got != x.CommD.Element {
			t.Errorf("comm_d %d, pieces %v: %v, want %v, %v", i, x.Unpadded, &got, &x.CommD, err)
		}
	}
	if len(want.Fr32) == 0 || len(want.Comm) == 0 || len(want.CommD) == 0 {
		t.Error("no cases")
	}
}

func TestPiecesRefused(t *testing.T) {
	size, err := sector.Named("2k")
	if err != nil {
		t.Fatal(err)
	}
	for name, pieces := range map[string][]Piece{
		"not of whole units": {{Unpadded: 128}}, "three units": {{Unpadded: 381}}, "nothing": {{}}, "too large": {{Unpadded: 4064}},
		"too many": {{Unpadded: 1016}, {Unpadded: 508}, {Unpadded: 1016}},
	} {
		if _, err := CommD(size, pieces); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{1, 126, 381} {
		if _, err := CommP(make([]byte, n)); !errs.Is(err, errs.InvalidArgument) {
			t.Errorf("a piece of %d bytes: %v", n, err)
		}
	}
	if _, err := CommP(nil); err == nil {
		t.Error("a piece of no bytes")
	}
}
