package vanilla

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/sector"
)

// PoSt is the answer of one sector: the leaves of its replica that were asked for.
type PoSt struct {
	SectorID  uint64
	CommR     fr.Element
	CommC     fr.Element
	CommRLast fr.Element
	Leaves    []MerkleProof // in tree R
}

const readPoSt = "read PoSt answer"

// DecodePoSt reads one sector's answer as the API hands it out, JSON or bincode.
func DecodePoSt(b []byte, size *sector.Size) (*PoSt, error) {
	var out PoSt
	d := newDecoder(readPoSt, b)
	sectors := 0
	d.object(
		field{"sector_id", func() { d.u64(&out.SectorID) }},
		field{"comm_r", func() { element(d, &out.CommR) }},
		field{"vanilla_proof", func() {
			d.object(field{"sectors", func() {
				d.list(8+2*fr.Bytes, func(int) {
					if sectors++; sectors > 1 {
						d.path().fail("one sector", "more")
						return
					}
					d.object(
						field{"inclusion_proofs", func() {
							d.list(minMerkleProof, func(int) {
								var m MerkleProof
								merkleProof(d, &m)
								out.Leaves = append(out.Leaves, m)
							})
						}},
						field{"comm_c", func() { element(d, &out.CommC) }},
						field{"comm_r_last", func() { element(d, &out.CommRLast) }},
					)
				})
			}})
		}},
	)
	if err := d.end(); err != nil {
		return nil, err
	}
	p := &path{op: readPoSt}
	p.enter("vanilla_proof")
	p.enter("sectors")
	if sectors != 1 {
		p.fail("one sector", sectors)
	}
	p.at(0)
	p.enter("inclusion_proofs")
	if len(out.Leaves) == 0 {
		p.fail("at least one", 0)
	}
	for i := range out.Leaves {
		p.at(i)
		out.Leaves[i].check(p, size.Tree, size.Nodes())
		p.leave()
	}
	if p.err != nil {
		return nil, p.err
	}
	return &out, nil
}
