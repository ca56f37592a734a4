package poseidon

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
)

type list struct {
	First, Last fixture.Element
	Len         int
	SHA256      string
}

func (l *list) compare(t *testing.T, name string, got []fr.Element) {
	t.Helper()
	h := sha256.New()
	for i := range got {
		var b [fr.Bytes]byte
		fr.LittleEndian.PutElement(&b, got[i])
		h.Write(b[:])
	}
	if len(got) != l.Len || got[0] != l.First.Element || got[len(got)-1] != l.Last.Element || hex.EncodeToString(h.Sum(nil)) != l.SHA256 {
		t.Errorf("%s: %d elements from %v to %v, want %d from %v to %v", name, len(got), got[0], got[len(got)-1], l.Len, l.First, l.Last)
	}
}

func TestConstants(t *testing.T) {
	var file struct {
		Sets []struct {
			Name           string
			Arity, Width   int
			FullRounds     int             `json:"full_rounds"`
			PartialRounds  int             `json:"partial_rounds"`
			DomainTag      fixture.Element `json:"domain_tag"`
			RoundConstants list            `json:"round_constants"`
			Compressed     list            `json:"compressed_round_constants"`
			MDS            list
			MDSInverse     list `json:"mds_inverse"`
			PreSparse      list `json:"pre_sparse"`
			Sparse         list
		}
	}
	fixture.JSON(t, "vec/poseidon_constants.json", &file)
	if len(file.Sets) != 5 {
		t.Fatalf("%d sets", len(file.Sets))
	}
	for _, s := range file.Sets {
		t.Run(s.Name, func(t *testing.T) {
			h := MerkleTree(s.Arity)
			if s.Name == "custom1-2" {
				h = Custom(s.Arity, 1)
			}
			if h.Width != s.Width || h.PartialRounds != s.PartialRounds || fullRounds != s.FullRounds || h.Tag != s.DomainTag.Element {
				t.Errorf("width %d, %d partial rounds, tag %v", h.Width, h.PartialRounds, &h.Tag)
			}
			s.RoundConstants.compare(t, "round constants", flat(roundConstants(h.Width, h.PartialRounds)))
			s.Compressed.compare(t, "compressed", h.Keys)
			s.MDS.compare(t, "matrix", flat(h.MDS))
			s.MDSInverse.compare(t, "inverse", flat(invert(h.MDS)))
			s.PreSparse.compare(t, "pre-sparse", flat(h.PreSparse))
			var sparse []fr.Element
			for _, m := range h.Sparse {
				sparse = append(append(sparse, m.Column...), m.Row...)
			}
			s.Sparse.compare(t, "sparse", sparse)
		})
	}
}

func flat(m [][]fr.Element) (out []fr.Element) {
	for _, row := range m {
		out = append(out, row...)
	}
	return out
}

// plain is the permutation as the paper has it: keys, s-boxes, matrix.
func plain(h *Hasher, preimage []fr.Element) fr.Element {
	s := append([]fr.Element{h.Tag}, preimage...)
	for round, keys := range roundConstants(h.Width, h.PartialRounds) {
		for i := range s {
			s[i].Add(&s[i], &keys[i])
			if i == 0 || round < fullRounds/2 || round >= fullRounds/2+h.PartialRounds {
				fifth(&s[i])
			}
		}
		s = times(s, h.MDS)
	}
	return s[1]
}

func TestHash(t *testing.T) {
	for arity, limbs := range map[int][4]uint64{
		2:  {0x2e203c369a02e7ff, 0xa6fba9339d05a69d, 0x739e0fd902efe161, 0x396508d75e76a56b},
		4:  {0x019814ff6662075d, 0xfb6b4605bf1327ec, 0x00db3c6579229399, 0x58a54b10a9e5848a},
		8:  {0x2a9934f56d38a5e6, 0x4b682e9d9cc4aed9, 0x1201004211677077, 0x2394611da3a5de55},
		11: {0xcee3bbc32b693163, 0x09f3dcd8ccb08fc1, 0x6ca537e232ebe87a, 0x0c0fc1b2e5227f28},
	} {
		h := MerkleTree(arity)
		preimage := make([]fr.Element, arity)
		for i := range preimage {
			preimage[i].SetUint64(uint64(i))
		}
		got := h.Hash(preimage...)
		if got.Bits() != limbs {
			t.Errorf("arity %d: %x", arity, got.Bits())
		}
		custom := Custom(arity, 5)
		for _, h := range []*Hasher{h, custom} {
			for range 20 {
				if got, want := h.Hash(preimage...), plain(h, preimage); got != want {
					t.Fatalf("arity %d, %v: %v, want %v", arity, preimage, &got, &want)
				}
				trace := h.Trace(nil, preimage)
				if len(trace) != h.TraceLen() || trace[len(trace)-1] != h.Hash(preimage...) {
					t.Fatalf("arity %d: a trace of %d values, want %d", arity, len(trace), h.TraceLen())
				}
				for i := range preimage {
					preimage[i].MustSetRandom()
				}
			}
		}
	}
	one, zero := fr.One(), fr.Element{}
	if got := MerkleTree(2).Hash(one, zero); got.Bits() != [4]uint64{0xb339ff6079800b5e, 0xec5907b3dc3094af, 0x93c003cc74a24f26, 0x042f94ffbe786bc3} {
		t.Errorf("of 1 and 0: %x", got.Bits())
	}
}

func BenchmarkHash(b *testing.B) {
	for _, arity := range []int{2, 8, 11} {
		b.Run(map[int]string{2: "2", 8: "8", 11: "11"}[arity], func(b *testing.B) {
			h := MerkleTree(arity)
			preimage := make([]fr.Element, arity)
			trace := make([]fr.Element, 0, h.TraceLen())
			for b.Loop() {
				h.Trace(trace, preimage)
			}
		})
	}
}
