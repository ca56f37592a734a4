package gadgets

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/plugins/filecoin/internal/fixture"
	"github.com/weir-zk/weir/sdk/circuit"
)

// vector is a gadget of the reference data, with its witnesses.
type vector struct {
	fixture.R1CS
	Order     string
	Outputs   []string
	Witnesses []struct {
		Name   string
		Inputs struct {
			Nums  []fixture.Element
			Bits  string
			Words []string
		}
		Aux          []string
		PublicInputs []fixture.Element `json:"public_inputs"`
		OutputValues []string          `json:"output_values"`
		SHA256       string            `json:"witness_sha256"`
	}
}

// inputs are what a vector allocates; those that a blank circuit has are of the same numbers, all zero.
type inputs struct {
	nums  []fr.Element
	bits  []bool
	words []uint64
}

// outputs are what a gadget gives back.
type outputs struct {
	nums []circuit.Num
	bits []circuit.Bool
}

// build allocates the inputs and the gadget.
type build func(b *circuit.Builder, in *inputs) outputs

// under is a gadget under test.
type under struct {
	in    *inputs
	build build
	out   outputs
}

func (u *under) Synthesize(b *circuit.Builder) error {
	u.out = u.build(b, u.in)
	return nil
}

func allocNums(b *circuit.Builder, in []fr.Element) []circuit.Num {
	out := make([]circuit.Num, len(in))
	for i := range in {
		out[i] = b.AllocNum(&in[i])
	}
	return out
}

func allocBits(b *circuit.Builder, in []bool) []circuit.Bool {
	out := make([]circuit.Bool, len(in))
	for i := range in {
		out[i] = b.AllocBool("bit", in[i])
	}
	return out
}

func allocWords(b *circuit.Builder, in []uint64) []Word {
	out := make([]Word, len(in))
	for i := range in {
		out[i] = AllocWord(b, "word", uint32(in[i]))
	}
	return out
}

// testVectors compares every gadget of a file with what pick gives for its id: rows, densities, names of the outputs, and of each witness all values.
func testVectors(t *testing.T, file string, pick func(id string) build) {
	var f struct{ Gadgets []vector }
	fixture.JSON(t, "vec/"+file+".json", &f)
	if len(f.Gadgets) == 0 {
		t.Fatal("no gadgets")
	}
	for _, v := range f.Gadgets {
		t.Run(v.ID, func(t *testing.T) {
			build := pick(v.ID)
			if build == nil {
				t.Fatal("no such gadget here")
			}
			var blank inputs
			if len(v.Witnesses) > 0 {
				in := v.Witnesses[0].Inputs
				blank = inputs{make([]fr.Element, len(in.Nums)), make([]bool, len(in.Bits)), make([]uint64, len(in.Words))}
			}
			u := &under{in: &blank, build: build}
			v.Compare(t, u)
			if got := names(&u.out); !slices.Equal(got, v.Outputs) {
				t.Errorf("outputs %v, want %v", got, v.Outputs)
			}
			for i := range v.Witnesses {
				v.witness(t, i, build)
			}
		})
	}
}

func names(o *outputs) []string {
	out := []string{}
	for _, n := range o.nums {
		out = append(out, n.Var.String())
	}
	for _, b := range o.bits {
		out = append(out, b.String())
	}
	return out
}

func (v *vector) witness(t *testing.T, i int, build build) {
	t.Helper()
	want := &v.Witnesses[i]
	in := inputs{nums: fixture.Elements(want.Inputs.Nums)}
	for _, c := range want.Inputs.Bits {
		in.bits = append(in.bits, c == '1')
	}
	for _, s := range want.Inputs.Words {
		x, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		in.words = append(in.words, x)
	}
	u := &under{in: &in, build: build}
	w, n, err := circuit.NewWitness(t.Context(), u, 1)
	if err != nil {
		t.Fatalf("%s: %v", want.Name, err)
	}
	out := u.out
	if n.Rows != v.Rows {
		t.Errorf("%s: %d rows counted, %d recorded", want.Name, n.Rows, v.Rows)
	}
	if got := fixture.WitnessDigest(w, n.Inputs); got != want.SHA256 {
		t.Errorf("%s: witness %s, want %s", want.Name, got, want.SHA256)
		for i, x := range want.Aux {
			if got := w.At(n.Inputs + i); fixture.Hex(&got) != x {
				t.Fatalf("%s: variable a%d is %s, want %s", want.Name, i, fixture.Hex(&got), x)
			}
		}
	}
	for i, x := range want.PublicInputs {
		if got := w.At(1 + i); got != x.Element {
			t.Errorf("%s: public input %d is %v", want.Name, i, &got)
		}
	}
	if got := values(&out); !slices.Equal(got, want.OutputValues) {
		t.Errorf("%s: output values %v, want %v", want.Name, got, want.OutputValues)
	}
	if v, err := circuit.Check(t.Context(), u, w); v != nil || err != nil {
		t.Errorf("%s: %+v, %v", want.Name, v, err)
	}
}

func values(o *outputs) []string {
	out := []string{}
	for i := range o.nums {
		out = append(out, fixture.Hex(&o.nums[i].Value))
	}
	if len(o.bits) > 0 {
		var s strings.Builder
		for _, b := range o.bits {
			s.WriteByte('0' + byte(word(b.Value())))
		}
		out = append(out, "bits:"+s.String())
	}
	return out
}

// operand is one of the kinds c0, c1, is, not.
func operand(kind string, bit circuit.Bool) circuit.Bool {
	switch kind {
	case "c0":
		return circuit.Constant(false)
	case "c1":
		return circuit.Constant(true)
	case "is":
		return bit
	case "not":
		return bit.Not()
	}
	panic(kind)
}

func TestBoolean(t *testing.T) {
	testVectors(t, "boolean", func(id string) build {
		parts := strings.Split(id, "-")
		return func(b *circuit.Builder, in *inputs) outputs {
			x := allocBits(b, in.bits)
			for i := range x {
				x[i] = operand(parts[1+i], x[i])
			}
			var out circuit.Bool
			switch parts[0] {
			case "and":
				out = b.And(x[0], x[1])
			case "xor":
				out = b.Xor(x[0], x[1])
			case "ch":
				out = Ch(b, x[0], x[1], x[2])
			case "maj":
				out = Maj(b, x[0], x[1], x[2])
			}
			return outputs{bits: []circuit.Bool{out}}
		}
	})
}

func wordBits(w Word) (out []circuit.Bool) {
	for i := range 32 {
		out = append(out, w.Bit(i))
	}
	return out
}

func TestAddMany(t *testing.T) {
	patterns := map[string]string{"addmany-2v": "vv", "addmany-4v": "vvvv", "addmany-5v": "vvvvv", "addmany-7v": "vvvvvvv", "addmany-v-c": "vc", "addmany-c-v": "cv",
		"addmany-5-with-c": "vvvvc", "addmany-4-with-cc": "vccv", "addmany-5c": "ccccc", "addmany-10v": "vvvvvvvvvv"}
	constants := []uint32{0x428a2f98, 0xffffffff, 0x80000001, 1, 0}
	testVectors(t, "addmany", func(id string) build {
		return func(b *circuit.Builder, in *inputs) outputs {
			w := allocWords(b, in.words)
			m := NewMultiEq(b)
			defer m.Close()
			if id == "addmany-sequence" {
				acc := w[0]
				for i := range 9 {
					acc = AddMany(&m, acc, w[i%5], w[(i+1)%5], w[(i+2)%5], w[(i+3)%5])
				}
				return outputs{bits: wordBits(acc)}
			}
			var ops []Word
			v, c := 0, 0
			for _, kind := range patterns[id] {
				if kind == 'v' {
					ops = append(ops, w[v])
					v++
				} else {
					ops = append(ops, ConstantWord(b, constants[c]))
					c++
				}
			}
			return outputs{bits: wordBits(AddMany(&m, ops...))}
		}
	})
}

func TestSHA256(t *testing.T) {
	testVectors(t, "sha256", func(id string) build {
		return func(b *circuit.Builder, in *inputs) outputs {
			switch id {
			case "sha256-hash2-nums", "sha256-multi-leaf-2":
				nums := allocNums(b, in.nums)
				return outputs{nums: []circuit.Num{SHA256Tree.Hash(b, nums)}}
			}
			bits := allocBits(b, in.bits)
			switch id {
			case "sha256-block-512":
				var block [16]Word
				for i := range block {
					block[i] = WordOf(b, bits[32*i:])
				}
				state := InitialState(b)
				state = Compress(b, &block, &state)
				var out []circuit.Bool
				for i := range state {
					out = state[i].AppendBE(out)
				}
				return outputs{bits: out}
			case "sha256-const512-512":
				var message []circuit.Bool
				for i := range 512 {
					message = append(message, circuit.Constant(i%3 == 0))
				}
				bits = append(message, bits...)
			case "sha256-mixed-512":
				message := make([]circuit.Bool, 512)
				for i := range message {
					message[i] = [...]circuit.Bool{bits[i/2], circuit.Constant(true), bits[i/2].Not(), circuit.Constant(false)}[i%4]
				}
				bits = message
			}
			return outputs{bits: SHA256(b, bits)}
		}
	})
}

func TestMultipack(t *testing.T) {
	testVectors(t, "multipack", func(id string) build {
		return func(b *circuit.Builder, in *inputs) outputs {
			bits := allocBits(b, in.bits)
			if strings.HasPrefix(id, "pack-into-inputs") {
				PackIntoInputs(b, "pack", bits)
				return outputs{}
			}
			if id == "pack-bits-mixed" {
				bits = []circuit.Bool{bits[0], bits[1].Not(), circuit.Constant(true), bits[2], circuit.Constant(false), bits[3].Not(),
					bits[4], bits[5].Not(), bits[6], circuit.Constant(true), bits[7], bits[8].Not()}
			}
			return outputs{nums: []circuit.Num{PackBits(b, "pack", bits)}}
		}
	})

	var f struct {
		Reverse []struct {
			Bits  int
			Order []string
		} `json:"reverse_bit_numbering"`
	}
	fixture.JSON(t, "vec/multipack.json", &f)
	if len(f.Reverse) == 0 {
		t.Error("no orders")
	}
	for _, r := range f.Reverse {
		var in []circuit.Bool
		for i := range r.Bits {
			in = append(in, circuit.Bit(circuit.Aux(i), false))
		}
		out := []string{}
		for _, x := range ReverseBitNumbering(in) {
			out = append(out, x.String())
		}
		if !slices.Equal(out, r.Order) {
			t.Errorf("%d bits: %v, want %v", r.Bits, out, r.Order)
		}
	}
}

func TestSmall(t *testing.T) {
	testVectors(t, "small", func(id string) build {
		name, kind, _ := strings.Cut(id, "-")
		return func(b *circuit.Builder, in *inputs) outputs {
			var nums []circuit.Num
			var bits []circuit.Bool
			switch name {
			case "insert", "pick":
				bits = allocBits(b, in.bits)
				nums = allocNums(b, in.nums)
			case "num":
				n := 1
				if id == "num-mul" {
					n = 2
				}
				nums = allocNums(b, in.nums[:n]) // a second number is listed for all
			case "field", "uint64":
			default:
				nums = allocNums(b, in.nums)
				bits = allocBits(b, in.bits)
			}
			one := func(n circuit.Num) outputs { return outputs{nums: []circuit.Num{n}} }
			switch id {
			case "constraint-add":
				return one(b.Add("add", nums[0], nums[1]))
			case "constraint-sub", "decode":
				x, y := nums[0], nums[1]
				if id == "decode" {
					x, y = y, x
				}
				return one(Sub(b, "sub", x, y))
			case "encode":
				return one(Encode(b, nums[0], nums[1]))
			case "constraint-equal":
				b.Equal("equal", nums[0].Var, nums[1].Var)
				return outputs{}
			case "num-mul":
				return one(b.Mul("mul", nums[0], nums[1]))
			case "num-square":
				return one(b.Mul("square", nums[0], nums[0]))
			case "num-inputize":
				b.Inputize("input", nums[0])
				return outputs{}
			case "num-to-bits-le":
				return outputs{bits: b.ToBits("bits", nums[0])}
			case "field-into-bits-le":
				return outputs{bits: b.AllocFieldBits("bits", &in.nums[0])}
			case "uint64-input":
				u := AllocUint64(b, "word", in.words[0])
				PackIntoInputs(b, "word", u)
				slices.Reverse(u)
				return outputs{bits: u}
			}
			switch name {
			case "insert":
				return outputs{nums: Insert(b, nums[0], bits, nums[1:])}
			case "select":
				return one(Select(b, nums, bits))
			case "pick":
				return one(Pick(b, "pick", operand(kind, bits[0]), nums[0], nums[1]))
			}
			panic(id)
		}
	})
}

func TestPoseidon(t *testing.T) {
	testVectors(t, "poseidon", func(id string) build {
		return func(b *circuit.Builder, in *inputs) outputs {
			nums := allocNums(b, in.nums)
			var out circuit.Num
			switch {
			case id == "poseidon-2-custom1":
				out = Poseidon(b, updateHash(), nums)
			case strings.HasPrefix(id, "poseidon-multi-leaf"):
				out = PoseidonTree.Hash(b, nums)
			default:
				out = PoseidonHash(b, nums)
			}
			return outputs{nums: []circuit.Num{out}}
		}
	})
}

func TestLabel(t *testing.T) {
	testVectors(t, "label", func(id string) build {
		layer, err := strconv.Atoi(strings.TrimPrefix(id, "label-layer"))
		if err != nil {
			t.Fatal(err)
		}
		return func(b *circuit.Builder, in *inputs) outputs {
			replicaID := b.AllocNum(&in.nums[0])
			replicaBits := ReverseBitNumbering(b.ToBits("replica id", replicaID))
			parents := allocNums(b, in.nums[1:])
			node := AllocUint64(b, "node", in.words[0])
			var bits [][]circuit.Bool
			for _, p := range parents {
				bits = append(bits, ReverseBitNumbering(b.ToBits("parent", p)))
			}
			return outputs{nums: []circuit.Num{CreateLabel(b, replicaBits, bits, uint32(layer), node)}}
		}
	})
}

func TestInclusionWithoutInput(t *testing.T) {
	testVectors(t, "por_no_challenge", func(id string) build {
		return func(b *circuit.Builder, in *inputs) outputs {
			bits := allocBits(b, in.bits)
			nums := allocNums(b, in.nums)
			hash := PoseidonTree
			arities := map[string][]int{"por-nc-8": {8}, "por-nc-8-4": {8, 4}, "por-nc-8-8-2": {8, 8, 2}, "por-nc-sha-2x2": {2, 2}}[id]
			if id == "por-nc-sha-2x2" {
				hash = SHA256Tree
			}
			leaf, rest := nums[0], nums[1:]
			var path [][]circuit.Num
			for _, n := range arities {
				path = append(path, rest[:n-1])
				rest = rest[n-1:]
			}
			Included(b, hash, leaf, bits, path, rest[0])
			return outputs{}
		}
	})
}
