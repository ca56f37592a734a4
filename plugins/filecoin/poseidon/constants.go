package poseidon

import (
	"fmt"
	"sync"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// fullRounds is the number of rounds with an s-box on every element.
const fullRounds = 8

// partialRounds by arity: the rounds with an s-box on element 0 only, for 128 bits of security.
var partialRounds = map[int]int{2: 55, 4: 56, 8: 57, 11: 57}

// Constants are those of one width in the form that saves work: round keys are moved behind the s-boxes, and the matrices of the partial rounds are
// sparse. Read only.
type Constants struct {
	Arity, Width, PartialRounds int

	// Keys are the compressed round keys in the order of their use: Width before the first s-boxes, then those added after each s-box: Width for each of the first
	// four full rounds, one for each partial round, Width for each full round but the last.
	Keys      []fr.Element
	MDS       [][]fr.Element // after full rounds; rows, and symmetric
	PreSparse [][]fr.Element // after the fourth full round
	Sparse    []Sparse       // after each partial round
}

// Sparse is a matrix that is the identity but for its first column and first row: new element 0 is the product of the state with Column, new element j is the old
// one plus element 0 times Row[j-1].
type Sparse struct {
	Column []fr.Element // [width]
	Row    []fr.Element // [width-1]
}

var (
	constantsMu sync.Mutex
	constants   = map[int]*Constants{}
)

// ConstantsOf are those of an arity: 2, 4, 8 or 11. They are computed at the first call, in some milliseconds.
func ConstantsOf(arity int) *Constants {
	constantsMu.Lock()
	defer constantsMu.Unlock()
	c := constants[arity]
	if c == nil {
		c = newConstants(arity)
		constants[arity] = c
	}
	return c
}

func newConstants(arity int) *Constants {
	partial, ok := partialRounds[arity]
	if !ok {
		panic(fmt.Sprintf("poseidon: no constants for arity %d", arity))
	}
	c := &Constants{Arity: arity, Width: arity + 1, PartialRounds: partial}
	c.MDS = cauchy(c.Width)
	c.compress(roundConstants(c.Width, partial))
	c.factor()
	return c
}

// cauchy is the matrix 1/(i + width + j).
func cauchy(width int) [][]fr.Element {
	m := newMatrix(width)
	for i := range m {
		for j := range m {
			m[i][j].SetUint64(uint64(i + width + j))
			m[i][j].Inverse(&m[i][j])
		}
	}
	return m
}

// roundConstants draws the constants of each round, in order, from Grain in its self-shrinking form. Source: L. Grassi et al., "Poseidon: A New Hash Function for
// Zero-Knowledge Proof Systems", USENIX Security 2021, appendix E.
func roundConstants(width, partial int) [][]fr.Element {
	var g grain
	g.init(width, partial)
	rounds := make([][]fr.Element, fullRounds+partial)
	for i := range rounds {
		rounds[i] = make([]fr.Element, width)
		for j := range rounds[i] {
			rounds[i][j] = g.element()
		}
	}
	return rounds
}

// grain is a linear feedback shift register of 80 bits, bit 0 being the oldest.
type grain struct {
	bits [80]bool
	at   int // the oldest
}

// init sets the register to field type 1 (2 bits), s-box 1 (4), field size 255 (12), width (12), rounds (10, 10) and ones, most significant bits first, and turns
// it 160 times.
func (g *grain) init(width, partial int) {
	n := 0
	put := func(x, bits int) {
		for i := bits - 1; i >= 0; i-- {
			g.bits[n] = x>>i&1 == 1
			n++
		}
	}
	put(1, 2)
	put(1, 4)
	put(fr.Bits, 12)
	put(width, 12)
	put(fullRounds, 10)
	put(partial, 10)
	put(1<<30-1, 30)
	for range 160 {
		g.next()
	}
}

func (g *grain) next() bool {
	bit := false
	for _, tap := range [...]int{62, 51, 38, 23, 13, 0} {
		bit = bit != g.bits[(g.at+tap)%80]
	}
	g.bits[g.at] = bit
	g.at = (g.at + 1) % 80
	return bit
}

// element reads pairs of bits, of which the second counts if the first is one, until 255 bits make a number below r.
func (g *grain) element() fr.Element {
	for {
		var b [fr.Bytes]byte
		for i := 0; i < fr.Bits; {
			keep := g.next()
			bit := g.next()
			if !keep {
				continue
			}
			if bit {
				place := fr.Bits - 1 - i
				b[fr.Bytes-1-place/8] |= 1 << (place % 8)
			}
			i++
		}
		if x, err := fr.BigEndian.Element(&b); err == nil {
			return x
		}
	}
}

// compress moves round keys through the matrices: the keys of a full round, and all but the first element's of a partial round, are added one round earlier.
func (c *Constants) compress(rk [][]fr.Element) {
	inv := invert(c.MDS)
	const half = fullRounds / 2
	c.Keys = append(c.Keys, rk[0]...)
	for _, k := range rk[1:half] {
		c.Keys = append(c.Keys, times(k, inv)...)
	}
	acc := rk[half+c.PartialRounds]
	single := make([]fr.Element, c.PartialRounds)
	for i := c.PartialRounds - 1; i >= 0; i-- {
		v := times(acc, inv)
		single[i] = v[0]
		v[0].SetZero()
		for j := range v {
			v[j].Add(&v[j], &rk[half+i][j])
		}
		acc = v
	}
	c.Keys = append(c.Keys, times(acc, inv)...)
	c.Keys = append(c.Keys, single...)
	for _, k := range rk[half+c.PartialRounds+1:] {
		c.Keys = append(c.Keys, times(k, inv)...)
	}
}

// factor writes the matrices of the partial rounds as sparse ones, with what is left over in PreSparse. Source: the same paper, appendix B.
func (c *Constants) factor() {
	cur := c.MDS
	for range c.PartialRounds {
		hat := make([][]fr.Element, c.Width-1)
		first := make([]fr.Element, c.Width-1)
		for i := range hat {
			hat[i] = cur[i+1][1:]
			first[i] = cur[i+1][0]
		}
		s := Sparse{Column: append([]fr.Element{cur[0][0]}, times(first, invert(hat))...), Row: cur[0][1:]}
		c.Sparse = append(c.Sparse, s)
		rest := newMatrix(c.Width)
		rest[0][0].SetOne()
		for i := range hat {
			copy(rest[i+1][1:], hat[i])
		}
		cur = product(c.MDS, rest)
	}
	for i, j := 0, len(c.Sparse)-1; i < j; i, j = i+1, j-1 {
		c.Sparse[i], c.Sparse[j] = c.Sparse[j], c.Sparse[i]
	}
	c.PreSparse = cur
}

func newMatrix(n int) [][]fr.Element {
	m := make([][]fr.Element, n)
	for i := range m {
		m[i] = make([]fr.Element, n)
	}
	return m
}

// times is the row vector v times m.
func times(v []fr.Element, m [][]fr.Element) []fr.Element {
	out := make([]fr.Element, len(m[0]))
	var t fr.Element
	for j := range out {
		for i := range v {
			out[j].Add(&out[j], t.Mul(&v[i], &m[i][j]))
		}
	}
	return out
}

func product(a, b [][]fr.Element) [][]fr.Element {
	m := make([][]fr.Element, len(a))
	for i := range a {
		m[i] = times(a[i], b)
	}
	return m
}

// invert is Gauss-Jordan elimination. The matrices here are invertible.
func invert(m [][]fr.Element) [][]fr.Element {
	n := len(m)
	a, out := newMatrix(n), newMatrix(n)
	for i := range m {
		copy(a[i], m[i])
		out[i][i].SetOne()
	}
	var t, k fr.Element
	for col := range n {
		pivot := col
		for a[pivot][col].IsZero() {
			pivot++
		}
		a[col], a[pivot] = a[pivot], a[col]
		out[col], out[pivot] = out[pivot], out[col]
		k.Inverse(&a[col][col])
		for j := range n {
			a[col][j].Mul(&a[col][j], &k)
			out[col][j].Mul(&out[col][j], &k)
		}
		for i := range n {
			if i == col || a[i][col].IsZero() {
				continue
			}
			k = a[i][col]
			for j := range n {
				a[i][j].Sub(&a[i][j], t.Mul(&k, &a[col][j]))
				out[i][j].Sub(&out[i][j], t.Mul(&k, &out[col][j]))
			}
		}
	}
	return out
}
