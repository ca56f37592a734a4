package main

import (
	"fmt"
	"math/big"
)

// Registers. A multiplication takes the running sum, one or two multiplicands and the few below; what else lives in those is lost.
const (
	sumAt  = reg(0)  // Z0 to Z8: the running sum, whose limbs change places from round to round
	aAt    = reg(9)  // Z9 to Z16: the multiplicand
	heldAt = reg(17) // Z17 to Z24: the multiplicand of a second product, or what a loop holds
	quot   = reg(25)
	row1   = reg(26)
	row2   = reg(27)
	maskAt = reg(28) // 2^52-1, always
	invAt  = reg(29) // -1/p mod 2^52, always
	spare  = reg(30)
	spare2 = reg(31)
)

// constants writes p, 2p and 1 (2^384 mod p) in limbs and some words, and loads what has a register of its own.
func (w *writer) constants() {
	p, _ := new(big.Int).SetString("1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16)
	one := new(big.Int).Lsh(big.NewInt(1), 384)
	base := new(big.Int).Lsh(big.NewInt(1), 52)
	inv := new(big.Int).ModInverse(p, base)
	split := func(name string, x *big.Int) {
		x = new(big.Int).Set(x)
		list := make([]uint64, limbs)
		for i := range list {
			var limb big.Int
			x.DivMod(x, base, &limb)
			list[i] = limb.Uint64()
		}
		w.data(name, list...)
	}
	split("p1", p)
	split("p2", new(big.Int).Lsh(p, 1))
	split("one", one.Mod(one, p))
	w.data("mask52", 1<<52-1)
	w.data("mask20", 1<<20-1)
	w.data("two32", 1<<32)
	w.data("pinv", inv.Sub(base, inv).Uint64())
	w.data("zip", 0, 1, 8, 9, 4, 5, 12, 13, 2, 3, 10, 11, 6, 7, 14, 15)
	w.data("unzip", 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15)
}

func (w *writer) data(name string, words ...uint64) {
	for i, x := range words {
		fmt.Fprintf(w, "DATA %s<>+%d(SB)/8, $%#x\n", name, 8*i, x)
	}
	fmt.Fprintf(w, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", name, 8*len(words))
}

// word is a word of a constant, for instructions that spread it.
func word(name string, i int) string { return fmt.Sprintf("%s<>+%d(SB)", name, 8*i) }

func (w *writer) setUp() {
	w.op("VPBROADCASTQ", word("mask52", 0), maskAt)
	w.op("VPBROADCASTQ", word("pinv", 0), invAt)
}

func (w *writer) load(to []reg, from block) {
	for i, r := range to {
		w.op("VMOVDQU64", from.row(i), r)
	}
}

func (w *writer) store(from []reg, to block) {
	for i, r := range from {
		w.op("VMOVDQU64", r, to.row(i))
	}
}

func (w *writer) move(from, to []reg) {
	for i, r := range from {
		w.op("VMOVDQA64", r, to[i])
	}
}

// product is one product of a sum of products: a in registers, b in memory.
type product struct {
	a []reg
	b block
}

// mul leaves the sum of one or two products, over 2^384, mod p, in the registers that it returns. It is below p (1 + sum(a b) / (2^384 p)), its
// limbs below 2^52. Seven rounds take 52 bits off the sum and the last one 20.
//
// Limbs of the running sum take up to 48 terms below 2^52 and never overflow.
func (w *writer) mul(products ...product) []reg {
	t := regs(sumAt, 9)
	b := []reg{row1, row2}
	for i := range limbs {
		for k, f := range products {
			w.op("VMOVDQU64", f.b.row(i), b[k])
		}
		if i == 0 {
			for _, r := range t[:8] {
				w.op("VPXORQ", r, r, r)
			}
		}
		w.op("VPXORQ", t[8], t[8], t[8])
		w.op("VPXORQ", quot, quot, quot)
		for k, f := range products {
			w.op("VPMADD52LUQ", f.a[0], b[k], t[0])
		}
		w.op("VPMADD52LUQ", invAt, t[0], quot)
		for j := range limbs {
			for k, f := range products {
				if j > 0 {
					w.op("VPMADD52LUQ", f.a[j], b[k], t[j])
				}
				w.op("VPMADD52HUQ", f.a[j], b[k], t[j+1])
			}
		}
		if i == limbs-1 {
			w.op("VPANDQ.BCST", word("mask20", 0), quot, quot)
		}
		w.op("VPMADD52LUQ.BCST", word("p1", 0), quot, t[0])
		w.op("VPMADD52HUQ.BCST", word("p1", 0), quot, t[1])
		w.op("VPMADD52LUQ.BCST", word("p1", 1), quot, t[1])
		if i < limbs-1 {
			w.op("VPSRLQ", "$52", t[0], spare)
			w.op("VPADDQ", spare, t[1], t[1])
		}
		for j := 1; j < limbs; j++ {
			if j > 1 {
				w.op("VPMADD52LUQ.BCST", word("p1", j), quot, t[j])
			}
			w.op("VPMADD52HUQ.BCST", word("p1", j), quot, t[j+1])
		}
		if i < limbs-1 {
			t = append(t[1:], t[0])
		}
	}
	for j := range limbs { // shift right by 20 bits
		w.op("VPSRLQ", "$20", t[j], t[j])
		w.op("VPMADD52LUQ.BCST", word("two32", 0), t[j+1], t[j])
	}
	w.carry(t[:8])
	return t[:8]
}

// carry brings all limbs but the highest into 0..2^52-1. They may be negative.
func (w *writer) carry(t []reg) {
	for j := range len(t) - 1 {
		w.op("VPSRAQ", "$52", t[j], spare)
		w.op("VPADDQ", spare, t[j+1], t[j+1])
		w.op("VPANDQ", maskAt, t[j], t[j])
	}
}

// reduce subtracts a multiple of p where that leaves no negative number. d is scratch; K1 is lost.
func (w *writer) reduce(v, d []reg, multiple string) {
	for j, r := range v {
		w.op("VPSUBQ.BCST", word(multiple, j), r, d[j])
	}
	for j := range len(d) - 1 {
		w.op("VPSRAQ", "$52", d[j], spare)
		w.op("VPADDQ", spare, d[j+1], d[j+1])
	}
	w.op("VPMOVQ2M", d[len(d)-1], "K1")
	w.op("KNOTB", "K1", "K1")
	for j := range v {
		w.op("VPANDQ", maskAt, d[j], "K1", v[j])
	}
}

// negate takes the opposite where k says so, from p. Limbs may be negative after it.
func (w *writer) negate(v []reg, k string) {
	w.op("VPXORQ", spare, spare, spare)
	for j, r := range v {
		w.op("VPSUBQ", r, spare, k, r)
		w.op("VPADDQ.BCST", word("p1", j), r, k, r)
	}
}

// limb cuts limb j out of the six words of an element.
func (w *writer) limb(j int, x []reg, to reg) {
	at, shift := 52*j/64, 52*j%64
	switch {
	case shift == 0:
		w.op("VPANDQ", maskAt, x[at], to)
		return
	case shift > 12 && at < 5:
		w.op("VPSHRDQ", fmt.Sprintf("$%d", shift), x[at+1], x[at], to)
	default:
		w.op("VPSRLQ", fmt.Sprintf("$%d", shift), x[at], to)
		if at == 5 {
			return
		}
	}
	w.op("VPANDQ", maskAt, to, to)
}

// words joins limbs to the six words of an element.
func (w *writer) words(v, to []reg) {
	for i, r := range to {
		first := true
		for j := range v {
			shift := 52*j - 64*i // of limb j in word i
			if shift <= -52 || shift >= 64 {
				continue
			}
			x := spare
			if first {
				x = r
			}
			switch {
			case shift > 0:
				w.op("VPSLLQ", fmt.Sprintf("$%d", shift), v[j], x)
			case shift < 0:
				w.op("VPSRLQ", fmt.Sprintf("$%d", -shift), v[j], x)
			default:
				w.op("VMOVDQA64", v[j], x)
			}
			if !first {
				w.op("VPORQ", spare, r, r)
			}
			first = false
		}
	}
}

// transpose turns eight rows of eight words; t is scratch of eight registers.
func (w *writer) transpose(r, t []reg) {
	for i := range 4 {
		w.op("VPUNPCKLQDQ", r[2*i+1], r[2*i], t[i])
		w.op("VPUNPCKHQDQ", r[2*i+1], r[2*i], t[4+i])
	}
	for h := range 2 { // even columns, then odd ones
		t := t[4*h:]
		w.op("VSHUFI64X2", "$0x88", t[1], t[0], r[h])
		w.op("VSHUFI64X2", "$0x88", t[3], t[2], r[2+h])
		w.op("VSHUFI64X2", "$0xdd", t[1], t[0], r[4+h])
		w.op("VSHUFI64X2", "$0xdd", t[3], t[2], r[6+h])
	}
	for h := range 2 {
		w.op("VSHUFI64X2", "$0x88", r[2+h], r[h], t[h])
		w.op("VSHUFI64X2", "$0xdd", r[2+h], r[h], t[4+h])
		w.op("VSHUFI64X2", "$0x88", r[6+h], r[4+h], t[2+h])
		w.op("VSHUFI64X2", "$0xdd", r[6+h], r[4+h], t[6+h])
	}
	// columns are in t now
}

// field writes the functions on blocks by which the arithmetic is tested alone.
func field(w *writer) {
	w.function("mul", "z, x, y *Block, n int", [2]string{"z", "DI"}, [2]string{"x", "SI"}, [2]string{"y", "DX"}, [2]string{"n", "BX"})
	w.setUp()
	w.label("loop")
	w.load(regs(aAt, 8), block{"SI", 0})
	w.store(w.mul(product{regs(aAt, 8), block{"DX", 0}}), block{"DI", 0})
	for _, r := range []string{"SI", "DI", "DX"} {
		w.op("ADDQ", fmt.Sprintf("$%d", blockBytes), r)
	}
	w.op("DECQ", "BX")
	w.op("JNZ", "loop")
	w.end()

	w.function("mul2", "z, x, y, u, v *Block, n int", [2]string{"z", "DI"}, [2]string{"x", "SI"}, [2]string{"y", "DX"}, [2]string{"u", "R8"}, [2]string{"v", "R9"}, [2]string{"n", "BX"})
	w.setUp()
	w.label("loop")
	w.load(regs(aAt, 8), block{"SI", 0})
	w.load(regs(heldAt, 8), block{"R8", 0})
	w.store(w.mul(product{regs(aAt, 8), block{"DX", 0}}, product{regs(heldAt, 8), block{"R9", 0}}), block{"DI", 0})
	for _, r := range []string{"SI", "DI", "DX", "R8", "R9"} {
		w.op("ADDQ", fmt.Sprintf("$%d", blockBytes), r)
	}
	w.op("DECQ", "BX")
	w.op("JNZ", "loop")
	w.end()

	w.function("reduce", "z *Block, n int", [2]string{"z", "DI"}, [2]string{"n", "BX"})
	w.setUp()
	w.label("loop")
	w.load(regs(0, 8), block{"DI", 0})
	w.carry(regs(0, 8))
	w.reduce(regs(0, 8), regs(8, 8), "p2")
	w.reduce(regs(0, 8), regs(8, 8), "p1")
	w.store(regs(0, 8), block{"DI", 0})
	w.op("ADDQ", fmt.Sprintf("$%d", blockBytes), "DI")
	w.op("DECQ", "BX")
	w.op("JNZ", "loop")
	w.end()
}
