package gadgets

import (
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/circuit"
)

// ApexRoot is the root of the binary SHA-256 tree over leaves, a power of two of them, computed row by row from left to right.
func ApexRoot(b *circuit.Builder, leaves []circuit.Num) circuit.Num {
	row := leaves
	for i := 0; len(row) > 1; i++ {
		b.EnterIndex("apex_tree row ", i)
		next := make([]circuit.Num, len(row)/2)
		for j := range next {
			b.EnterIndex("siblings ", j)
			next[j] = SHA256Tree.Hash(b, row[2*j:2*j+2])
			b.Leave()
		}
		row = next
		b.Leave()
	}
	return row[0]
}

// ChallengeBits are the lowest bits bits of count challenges of an update, least significant first. Hashes of comm_r and a running number give as many challenges
// each as there are in their first 254 bits.
func ChallengeBits(b *circuit.Builder, commR, partition circuit.Num, count, bits int) [][]circuit.Bool {
	each := packed / bits
	digests := (count + each - 1) / each
	factor := fr.NewElement(uint64(digests))
	var out [][]circuit.Bool
	for j := range digests {
		place := fr.NewElement(uint64(j))
		var index circuit.Num
		index.Value.Mul(&factor, &partition.Value)
		index.Value.Add(&index.Value, &place)
		index.Var = b.Alloc(&index.Value)
		b.Enforce("digest_index", func(r *circuit.Row) {
			r.A.AddScaled(partition.Var, &factor)
			r.A.AddScaled(circuit.One, &place)
			r.B.Add(circuit.One)
			r.C.Add(index.Var)
		})
		b.EnterIndex("digest_", j)
		digest := UpdateHash(b, commR, index)
		b.Leave()
		b.EnterIndex("digest_bits_", j)
		digestBits := b.AllocFieldBits("bit", &digest.Value)
		b.Enforce("binary decomp", func(r *circuit.Row) {
			for i, bit := range digestBits {
				r.A.AddBool(bit, i)
			}
			r.B.Add(circuit.One)
			r.C.Add(digest.Var)
		})
		b.Leave()
		for k := 0; k < each && len(out) < count; k++ {
			out = append(out, digestBits[k*bits:(k+1)*bits])
		}
	}
	return out
}

// HighBits is the number made of the highest bits of an index, as many as the one of hs that is selected says.
func HighBits(b *circuit.Builder, index, selected []circuit.Bool, hs [6]int) circuit.Num {
	products := make([]circuit.Num, len(hs))
	var sum fr.Element
	for i, h := range hs {
		high := PackBits(b, "packing constraint", index[len(index)-h:])
		z := &products[i]
		if selected[i].Value() {
			z.Value = high.Value
		}
		z.Var = b.Alloc(&z.Value)
		b.Enforce("c_high * h_select_bit", func(r *circuit.Row) {
			r.A.Add(high.Var)
			r.B.AddBool(selected[i], 0)
			r.C.Add(z.Var)
		})
		sum.Add(&sum, &z.Value)
	}
	out := b.AllocNum(&sum)
	b.Enforce("c_high_selected", func(r *circuit.Row) {
		for i := range products {
			r.A.Add(products[i].Var)
		}
		r.B.Add(circuit.One)
		r.C.Add(out.Var)
	})
	return out
}
