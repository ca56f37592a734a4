package main

import "fmt"

// groupOf says how points lie in memory: x and y of one or two components of six words each.
type groupOf struct {
	name  string
	parts int // components of a coordinate
	shift int // a point takes 3 << shift bytes
}

var (
	g1 = groupOf{"g1", 1, 5}
	g2 = groupOf{"g2", 2, 6}
)

// element is a coordinate's components.
type element []block

// at returns an element in memory.
func (g *groupOf) at(base string, offset int) element {
	e := make(element, g.parts)
	for i := range e {
		e[i] = block{base, offset + blockBytes*i}
	}
	return e
}

// slot is a named place of an element in a function's scratch memory.
func (g *groupOf) slot(i int) element { return g.at("CX", i*g.parts*blockBytes) }

// ahead is how many groups before their turn points are asked for.
const ahead = 4

// address puts the offset of a lane's point into AX.
func (w *writer) address(g *groupOf, index string, lane int) {
	w.op("MOVL", mem(index, 4*lane), "AX")
	w.op("ANDL", "$0x7fffffff", "AX")
	w.op("LEAQ", "(AX)(AX*2)", "AX")
	w.op("SHLQ", fmt.Sprintf("$%d", g.shift), "AX")
}

// fetch reads eight or twelve words of eight points and returns each word's register. Z17 to Z24 are kept.
func (w *writer) fetch(g *groupOf, base, index string, offset int, whole bool) []reg {
	rows, out := regs(0, 8), regs(8, 8)
	tail := []reg{16, 25, 26, 27}
	at := func(o int) string { return fmt.Sprintf("%d(%s)(AX*1)", offset+o, base) }
	for lane := range 8 {
		w.address(g, index, lane)
		w.op("VMOVDQU64", at(0), rows[lane])
		switch {
		case !whole:
		case lane < 4:
			w.op("VMOVDQU64", at(64), tail[lane].half())
		default:
			w.op("VINSERTI64X4", "$1", at(64), tail[lane-4], tail[lane-4])
		}
	}
	w.transpose(rows, out)
	if !whole {
		return out
	}
	w.op("VPUNPCKLQDQ", tail[1], tail[0], rows[0])
	w.op("VPUNPCKHQDQ", tail[1], tail[0], rows[1])
	w.op("VPUNPCKLQDQ", tail[3], tail[2], rows[4])
	w.op("VPUNPCKHQDQ", tail[3], tail[2], rows[5])
	w.op("VMOVDQU64", word("zip", 0), rows[6])
	w.op("VMOVDQU64", word("zip", 8), rows[7])
	w.move(rows[:2], rows[2:4])
	w.op("VPERMT2Q", rows[4], rows[6], rows[0])
	w.op("VPERMT2Q", rows[5], rows[6], rows[1])
	w.op("VPERMT2Q", rows[4], rows[7], rows[2])
	w.op("VPERMT2Q", rows[5], rows[7], rows[3])
	return append(out, rows[:4]...)
}

// put writes twelve words of eight points; t is scratch of eight registers.
func (w *writer) put(g *groupOf, base, index string, offset int, x, t []reg) {
	w.transpose(x[:8], t)
	lo, hi, tail := x[0], x[1], x[8:]
	index1, index2 := x[2], x[3]
	w.op("VMOVDQU64", word("unzip", 0), index1)
	w.op("VMOVDQU64", word("unzip", 8), index2)
	lo2, hi2, lo4, hi4 := x[4], x[5], x[6], x[7]
	w.op("VPUNPCKLQDQ", tail[1], tail[0], lo)
	w.op("VPUNPCKHQDQ", tail[1], tail[0], hi)
	w.op("VPUNPCKLQDQ", tail[3], tail[2], lo2)
	w.op("VPUNPCKHQDQ", tail[3], tail[2], hi2)
	w.move([]reg{lo, hi}, []reg{lo4, hi4})
	w.op("VPERMT2Q", lo2, index1, lo)  // lanes 0 and 2
	w.op("VPERMT2Q", hi2, index1, hi)  // 1 and 3
	w.op("VPERMT2Q", lo2, index2, lo4) // 4 and 6
	w.op("VPERMT2Q", hi2, index2, hi4) // 5 and 7
	from := []reg{lo, hi, lo, hi, lo4, hi4, lo4, hi4}
	for lane := range 8 {
		w.address(g, index, lane)
		at := func(o int) string { return fmt.Sprintf("%d(%s)(AX*1)", offset+o, base) }
		w.op("VMOVDQU64", t[lane], at(0))
		if lane&2 == 0 {
			w.op("VMOVDQU64", from[lane].half(), at(64))
		} else {
			w.op("VEXTRACTI64X4", "$1", from[lane], at(64))
		}
	}
}

// product sets z = x y; z may lie where x does.
func (w *writer) product(x, y, z element) {
	a, a1 := regs(aAt, 8), regs(heldAt, 8)
	w.load(a, x[0])
	if len(x) == 1 {
		w.store(w.mul(product{a, y[0]}), z[0])
		return
	}
	// (x0 + x1 u)(y0 + y1 u) with u^2 = -1
	w.load(a1, x[1])
	c1 := w.mul(product{a, y[1]}, product{a1, y[0]})
	w.store(c1, z[1])
	for j, r := range a1 {
		w.op("VPBROADCASTQ", word("p2", j), spare2)
		w.op("VPSUBQ", r, spare2, r)
	}
	w.carry(a1)
	w.store(w.mul(product{a, y[0]}, product{a1, y[1]}), z[0])
}

// square sets z = x^2. t is scratch.
func (w *writer) square(x, z, t element) {
	if len(x) == 1 {
		w.product(x, x, z)
		return
	}
	a, a1 := regs(aAt, 8), regs(heldAt, 8)
	w.load(a, x[0])
	w.load(a1, x[1])
	for j, r := range a1 { // x0 - x1 + 2p to memory, x0 + x1 in registers
		w.op("VPSUBQ", r, a[j], reg(j))
		w.op("VPADDQ.BCST", word("p2", j), reg(j), reg(j))
		w.op("VPADDQ", r, a[j], a[j])
	}
	w.carry(regs(0, 8))
	w.store(regs(0, 8), t[0])
	w.carry(a)
	w.store(w.mul(product{a, t[0]}), z[0])
	w.load(a, x[0])
	for _, r := range a {
		w.op("VPADDQ", r, r, r)
	}
	w.carry(a)
	w.store(w.mul(product{a, x[1]}), z[1])
}

// group writes the two passes over a batch of additions.
func group(w *writer, g *groupOf) {
	w.divisors(g)
	w.sums(g)
}

func (w *writer) divisors(g *groupOf) {
	w.function(g.name+"Divisors", "work, den, before *Block, flags *uint8, a, b unsafe.Pointer, ia, ib *uint32, groups, far int",
		[2]string{"work", "CX"}, [2]string{"den", "DI"}, [2]string{"before", "SI"}, [2]string{"flags", "DX"},
		[2]string{"a", "R10"}, [2]string{"b", "R11"}, [2]string{"ia", "R12"}, [2]string{"ib", "R13"}, [2]string{"groups", "BX"}, [2]string{"far", ""})
	w.setUp()
	acc, xa := g.slot(0), g.slot(1)
	den, before := g.at("DI", 0), g.at("SI", 0)
	w.label("loop")
	w.op("CMPQ", "far+72(FP)", "$0")
	w.op("JEQ", "near")
	w.op("CMPQ", "BX", fmt.Sprintf("$%d", ahead))
	w.op("JLE", "near")
	for lane := range 8 {
		for _, list := range [][2]string{{"R12", "R10"}, {"R13", "R11"}} {
			w.address(g, list[0], 8*ahead+lane)
			for o := 0; o < 96*g.parts; o += 64 {
				w.op("PREFETCHT0", fmt.Sprintf("%d(%s)(AX*1)", o, list[1]))
			}
		}
	}
	w.label("near")
	orA, orB := reg(24), reg(25)
	x := w.fetch(g, "R10", "R12", 0, g.parts == 2)[:6*g.parts]
	w.or(x, orA)
	for c := range g.parts {
		for j := range limbs {
			w.limb(j, x[6*c:6*c+6], spare2)
			w.op("VMOVDQU64", spare2, xa[c].row(j))
		}
	}
	x = w.fetch(g, "R11", "R13", 0, g.parts == 2)[:6*g.parts]
	w.or(x, orB)
	w.op("KXNORB", "K1", "K1", "K1")
	for c := range g.parts {
		d := regs(16, 8)
		for j, r := range d {
			w.limb(j, x[6*c:6*c+6], r)
			w.op("VPSUBQ", xa[c].row(j), r, r)
			w.op("VPADDQ.BCST", word("p1", j), r, r)
		}
		w.carry(d)
		w.store(d, den[c])
		for j, r := range d {
			w.op("VPCMPEQQ.BCST", word("p1", j), r, "K1", "K1")
		}
	}
	w.op("VPTESTNMQ", orA, orA, "K2")
	w.op("VPTESTNMQ", orB, orB, "K3")
	w.op("KORB", "K1", "K2", "K1")
	w.op("KORB", "K1", "K3", "K1")
	w.op("KMOVB", "K1", "AX")
	w.op("MOVB", "AX", "(DX)")
	w.op("TESTL", "AX", "AX")
	w.op("JZ", "plain")
	for c := range g.parts { // special lanes divide by 1
		for j := range limbs {
			w.op("VMOVDQU64", den[c].row(j), reg(0))
			if c == 0 {
				w.op("VPBROADCASTQ", word("one", j), "K1", reg(0))
			} else {
				w.op("VPXORQ", reg(0), reg(0), "K1", reg(0))
			}
			w.op("VMOVDQU64", reg(0), den[c].row(j))
		}
	}
	w.label("plain")
	for c := range g.parts {
		w.load(regs(aAt, 8), acc[c])
		w.store(regs(aAt, 8), before[c])
	}
	w.product(acc, den, acc)
	w.step("DI", g.parts*blockBytes)
	w.step("SI", g.parts*blockBytes)
	w.step("R12", 32)
	w.step("R13", 32)
	w.step("DX", 1)
	w.op("DECQ", "BX")
	w.op("JNZ", "loop")
	w.end()
}

func (w *writer) or(x []reg, to reg) {
	w.op("VPORQ", x[0], x[1], to)
	for _, r := range x[2:] {
		w.op("VPORQ", r, to, to)
	}
}

func (w *writer) step(r string, n int) {
	if n < 0 {
		w.op("SUBQ", fmt.Sprintf("$%d", -n), r)
		return
	}
	w.op("ADDQ", fmt.Sprintf("$%d", n), r)
}

// blend takes the coordinate of a or b in the lanes where the sum is one of them.
func (w *writer) blend(v []reg, a, b block, label string) {
	w.op("KORTESTB", "K4", "K5")
	w.op("JZ", label)
	for j, r := range v {
		w.op("VMOVDQU64", a.row(j), "K4", r)
		w.op("VMOVDQU64", b.row(j), "K5", r)
	}
	w.label(label)
}

func (w *writer) sums(g *groupOf) {
	w.function(g.name+"Sums", "work, den, before *Block, copies *[2]uint8, dst, a, b unsafe.Pointer, id, ia, ib *uint32, groups int",
		[2]string{"work", "CX"}, [2]string{"den", "DI"}, [2]string{"before", "SI"}, [2]string{"copies", "DX"},
		[2]string{"dst", "R9"}, [2]string{"a", "R10"}, [2]string{"b", "R11"}, [2]string{"id", "R8"}, [2]string{"ia", "R12"}, [2]string{"ib", "R13"}, [2]string{"groups", "BX"})
	w.setUp()
	inv, xa, ya, xb, yb, slope, t, x3 := g.slot(0), g.slot(1), g.slot(2), g.slot(3), g.slot(4), g.slot(5), g.slot(6), g.slot(7)
	den, before := g.at("DI", 0), g.at("SI", 0)
	// from the last group to the first
	w.op("LEAQ", "-1(BX)", "AX")
	w.op("LEAQ", "(DX)(AX*2)", "DX")
	w.op("SHLQ", "$5", "AX")
	for _, r := range []string{"R8", "R12", "R13"} {
		w.op("ADDQ", "AX", r)
	}
	w.op("SHLQ", fmt.Sprintf("$%d", 3+g.parts), "AX")
	w.op("ADDQ", "AX", "DI")
	w.op("ADDQ", "AX", "SI")
	w.label("loop")
	w.op("VMOVDQU64", "(R12)", reg(0).half())
	w.op("VPMOVD2M", reg(0).half(), "K2")
	w.op("VMOVDQU64", "(R13)", reg(0).half())
	w.op("VPMOVD2M", reg(0).half(), "K3")
	w.op("KMOVB", "(DX)", "K4")
	w.op("KMOVB", "1(DX)", "K5")

	w.coordinates(g, "R10", "R12", xa, ya, "K2", nil, nil)
	w.coordinates(g, "R11", "R13", xb, yb, "K3", ya, t)
	// t = yb - ya
	w.product(inv, before, slope)
	w.product(inv, den, inv)
	// slope = t / (xb - xa); x3 goes over the old slope's other scratch
	w.product(slope, t, x3)
	slope, x3 = x3, slope
	w.square(slope, x3, t)
	for c := range g.parts {
		v, d := regs(0, 8), regs(aAt, 8)
		w.load(v, x3[c])
		for j, r := range v {
			w.op("VPSUBQ", xa[c].row(j), r, r)
			w.op("VPSUBQ", xb[c].row(j), r, r)
			w.op("VPADDQ.BCST", word("p2", j), r, r)
		}
		w.blend(v, xa[c], xb[c], fmt.Sprintf("x%d", c))
		w.carry(v)
		w.reduce(v, d, "p2")
		if g.parts == 2 && c == 0 {
			w.reduce(v, d, "p1")
		}
		w.reduce(v, d, "p1")
		w.store(v, x3[c])
		for j, r := range d {
			w.op("VMOVDQU64", xa[c].row(j), r)
			w.op("VPSUBQ", v[j], r, r)
			w.op("VPADDQ.BCST", word("p1", j), r, r)
		}
		w.carry(d)
		w.store(d, t[c])
	}
	w.product(slope, t, xb) // xb is not needed any more
	y3 := xb
	for c := range g.parts {
		v, d := regs(0, 8), regs(aAt, 8)
		w.load(v, y3[c])
		for j, r := range v {
			w.op("VPSUBQ", ya[c].row(j), r, r)
			w.op("VPADDQ.BCST", word("p1", j), r, r)
		}
		w.blend(v, ya[c], yb[c], fmt.Sprintf("y%d", c))
		w.carry(v)
		w.reduce(v, d, "p2")
		w.reduce(v, d, "p1")
		w.store(v, y3[c])
	}
	elements := append(append(element{}, x3...), y3...)
	for i := 0; i < len(elements); i += 2 {
		x := []reg{9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
		w.load(regs(0, 8), elements[i])
		w.words(regs(0, 8), x[:6])
		w.load(regs(0, 8), elements[i+1])
		w.words(regs(0, 8), x[6:])
		w.put(g, "R9", "R8", 48*i, x, regs(0, 8))
	}
	w.step("DI", -g.parts*blockBytes)
	w.step("SI", -g.parts*blockBytes)
	w.step("R8", -32)
	w.step("R12", -32)
	w.step("R13", -32)
	w.step("DX", -2)
	w.op("DECQ", "BX")
	w.op("JNZ", "loop")
	w.end()
}

// coordinates reads x and y of eight points; y is negated where k says so. With minus, its difference to that goes to diff.
func (w *writer) coordinates(g *groupOf, base, index string, x, y element, k string, minus, diff element) {
	elements := append(append(element{}, x...), y...)
	for i := 0; i < len(elements); i += 2 {
		words := w.fetch(g, base, index, 48*i, true)
		for e := range 2 {
			to, isY := elements[i+e], i+e >= g.parts
			v := regs(17, 8)
			for j, r := range v {
				w.limb(j, words[6*e:6*e+6], r)
			}
			if isY {
				w.negate(v, k)
			}
			w.store(v, to)
			if isY && minus != nil {
				c := i + e - g.parts
				for j, r := range v {
					w.op("VPSUBQ", minus[c].row(j), r, r)
					w.op("VPADDQ.BCST", word("p1", j), r, r)
				}
				w.carry(v)
				w.store(v, diff[c])
			}
		}
	}
}
