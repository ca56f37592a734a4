package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-zk/weir/backend-cuda/internal/cudalib"
	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// section names a vector of points of a key.
type section int

const (
	sectionA section = iota
	sectionB1
	sectionB2
	sectionK
	sectionH
	nbSections
)

var sectionNames = [nbSections]string{"A", "B1", "B2", "K", "H"}

func (s section) String() string { return sectionNames[s] }

// stage is how the section's sum is called among the stages of a proof.
func (s section) stage() string { return "msm-" + strings.ToLower(s.String()) }

const (
	g1Bytes = 96
	g2Bytes = 192
	frBytes = 32
	// maxChunk is how many points or terms of a streamed part are in work at a time.
	maxChunk = 1 << 20
	minChunk = 1 << 10
)

// pointBytes is the size of a point of the section.
func (s section) pointBytes() int64 {
	if s == sectionB2 {
		return g2Bytes
	}
	return g1Bytes
}

// side is which part beside the main line makes the section's sum, -1: the main line.
func (s section) side() int {
	for k, sections := range sideOf {
		if slices.Contains(sections, s) {
			return k
		}
	}
	return -1
}

func (s section) group() int {
	if s == sectionB2 {
		return 2
	}
	return 1
}

// sectionCounts are the points of each section.
func sectionCounts(s *groth16.Shape) [nbSections]int {
	return [nbSections]int{s.NbA, s.NbB, s.NbB, s.NbPrivate(), s.NbH}
}

// matrices is what planning must know of the constraint matrices; the zero value: there are none.
type matrices struct {
	count  int // 2, or 3 with C
	rows   int
	terms  [3]int
	coeffs int
	// widest is how many terms the longest row has: a run of rows that is streamed is at least one row.
	widest int
}

func matricesOf(sys *r1cs.System) *matrices {
	if sys == nil {
		return &matrices{}
	}
	m := &matrices{count: 2, rows: sys.NbConstraints(), coeffs: len(sys.Coeffs)}
	if sys.HasC {
		m.count = 3
	}
	for i, x := range []*r1cs.Matrix{&sys.A, &sys.B, &sys.C}[:m.count] {
		m.terms[i] = x.NNZ()
		for r := range x.Rows() {
			m.widest = max(m.widest, int(x.Start[r+1]-x.Start[r]))
		}
	}
	return m
}

// guessMatrices is for a shape alone.
func guessMatrices(s *groth16.Shape, evaluates bool) *matrices {
	if !evaluates {
		return &matrices{}
	}
	rows := max(s.NbConstraints, 0)
	if s.NbConstraints < 0 {
		rows = s.DomainSize()
	}
	m := &matrices{count: 2, rows: rows, coeffs: 4096, widest: 256}
	if s.HasC {
		m.count = 3
	}
	for i := range m.count {
		m.terms[i] = 3 * rows
	}
	return m
}

// bytes of matrix i on the device: starts, wires, coefficients.
func (m *matrices) bytes(i int) int64 {
	return up(4*int64(m.rows+1)) + 2*up(4*int64(m.terms[i]))
}

// up rounds to what parts of a block are aligned to.
func up(n int64) int64 { return (n + 255) &^ 255 }

// plan says what of a key lies in the device's memory, what is streamed through it, and in which pieces.
type plan struct {
	lanes       int // proofs at a time
	points      int // most points in one sum; fewer take less scratch
	resident    [nbSections]bool
	matrices    bool // resident
	sides       bool // sums over the witness run beside the main line
	chunk       int  // points, or terms, of a streamed part in work at a time
	streams     bool // something is streamed
	key         int64
	tables      int64
	lane        layout
	sizes       cudalib.Sizes
	hasMatrices bool
}

// Sums over the witness are short where most of it is bits, and little but latency: they run beside the transforms and the sum over H where there is room for
// a scratch of their own. nbSides is how many at a time.
const nbSides = 2

var sideOf = [nbSides][]section{{sectionB2}, {sectionA, sectionB1, sectionK}}

// layout is where the parts of a proof lie in a lane's block.
type layout struct {
	results, remainder, scalars, classes, vectors, scratch, stream int64 // offsets
	scratchBytes, streamBytes                                      int64
	side, sideBytes                                                [nbSides]int64
	bytes                                                          int64
}

// bytes is all device memory of the plan.
func (p *plan) bytes() int64 { return p.key + p.tables + int64(p.lanes)*p.lane.bytes }

// hostBytes is what the key keeps in the host's memory: see Backend.PlanKey.
func (p *plan) hostBytes(s *groth16.Shape) int64 {
	const small = 1 << 20
	n := int64(small)
	for i, c := range sectionCounts(s) {
		if !p.resident[i] || !s.Prepared {
			n += section(i).pointBytes() * int64(c)
		}
	}
	n += 2 * int64(s.NbWires+63) / 64 * 8
	if p.hasMatrices && (!p.matrices || !s.Prepared) {
		rows := int64(max(s.NbConstraints, 0))
		n += 3 * 4 * rows * (1 + 2*3)
	}
	return n
}

// String tells the plan to a person.
func (p *plan) String() string {
	var in, out []string
	for i := range nbSections {
		if p.resident[i] {
			in = append(in, i.String())
		} else {
			out = append(out, i.String())
		}
	}
	if p.hasMatrices {
		if p.matrices {
			in = append(in, "matrices")
		} else {
			out = append(out, "matrices")
		}
	}
	list := func(l []string) string {
		if len(l) == 0 {
			return "nothing"
		}
		return strings.Join(l, ", ")
	}
	beside := ""
	if p.sides {
		beside = ", sums over the witness beside the others"
	}
	return fmt.Sprintf("%d lanes of %s%s; resident %s in %s; streamed %s in pieces of %d; sums of at most %d points", p.lanes, size(p.lane.bytes), beside, list(in), size(p.key+p.tables), list(out), p.chunk, p.points)
}

// pieces is how many sums a section is cut into.
func (p *plan) pieces(s section, count int) int {
	n := p.piece(s)
	return (count + n - 1) / n
}

// piece is how many points of a section are summed at a time.
func (p *plan) piece(s section) int {
	if p.resident[s] {
		return p.points
	}
	return min(p.chunk, p.points)
}

// plan chooses how a key lies in the device's memory, of which taken bytes belong to other keys. Whole and resident on all lanes is best; then sums in pieces,
// which take less scratch; then fewer lanes; then streaming what does not fit, largest parts first, as every byte costs the same time.
func (g *gpu) plan(s *groth16.Shape, m *matrices, taken int64) (*plan, error) {
	most := 1
	for _, c := range sectionCounts(s) {
		most = max(most, c)
	}
	free := g.vram.limit - taken
	others := g.target(demand{})
	lanesMost := g.opts.Lanes
	if others.lanes > 0 {
		lanesMost = min(lanesMost, others.lanes)
	}
	var least *plan
	fits := func(p *plan) bool {
		if least == nil || p.bytes() < least.bytes() {
			least = p
		}
		return g.vram.round(p.key)+g.vram.round(p.tables)+int64(p.lanes)*g.vram.round(max(p.lane.bytes, others.bytes)) <= free
	}
	for lanes := lanesMost; lanes >= 1; lanes-- {
		for points := most; ; points = (points + 1) / 2 {
			for _, sides := range []bool{true, false} {
				if sides && points < most {
					continue
				}
				p := &plan{lanes: lanes, points: points, matrices: true, sides: sides}
				for i := range p.resident {
					p.resident[i] = true
				}
				if err := g.lay(p, s, m); err != nil {
					return nil, err
				}
				if fits(p) {
					return p, nil
				}
			}
			if points <= max(g.opts.maxChunk, minChunk) {
				break
			}
		}
	}
	for chunk := min(g.opts.maxChunk, max(minChunk, most)); ; chunk /= 2 {
		p := &plan{lanes: 1, points: min(most, chunk), chunk: chunk, streams: true}
		for { // add the largest part that still fits, until none does
			best, bestBytes := -1, int64(0)
			for i := range int(nbSections) + 1 {
				q := *p
				bytes := int64(0)
				if i < int(nbSections) {
					if q.resident[i] {
						continue
					}
					q.resident[i] = true
					bytes = section(i).pointBytes() * int64(sectionCounts(s)[i])
				} else {
					if q.matrices || m.count == 0 {
						continue
					}
					q.matrices = true
					for k := range m.count {
						bytes += m.bytes(k)
					}
				}
				if err := g.lay(&q, s, m); err != nil {
					return nil, err
				}
				if fits(&q) && bytes >= bestBytes {
					best, bestBytes = i, bytes
				}
			}
			if best < 0 {
				break
			}
			if best < int(nbSections) {
				p.resident[best] = true
			} else {
				p.matrices = true
			}
		}
		if err := g.lay(p, s, m); err != nil {
			return nil, err
		}
		if fits(p) {
			return p, nil
		}
		if chunk <= minChunk {
			break
		}
	}
	e := errs.New(errs.Exhausted, "device memory", "a proof of this circuit (domain 2^%d, %d wires) needs at least %s, with the key streamed; of %s, %s are taken by other keys", s.LogDomain, s.NbWires,
		size(least.bytes()), size(g.vram.limit), size(taken)).WithHint("unload other keys, raise --vram-limit, or use a GPU with more memory")
	e.Where, e.Retryable = g.dev.UUID.String(), taken > 0
	return nil, e
}

// lay computes sizes and offsets of a plan whose choices are made.
func (g *gpu) lay(p *plan, s *groth16.Shape, m *matrices) error {
	counts := sectionCounts(s)
	p.hasMatrices = m.count > 0
	p.key = 0
	for i, c := range counts {
		if p.resident[i] {
			p.key += up(section(i).pointBytes() * int64(c))
		}
	}
	p.key += up(4*int64(s.NbA)) + up(4*int64(s.NbB)) // which wires points belong to: always resident
	rows, terms, run := 0, 0, int64(0)
	if m.count > 0 {
		p.key += up(frBytes * int64(m.coeffs))
		for i := range m.count {
			if p.matrices {
				p.key += m.bytes(i)
				rows, terms = m.rows, max(terms, m.terms[i])
			}
		}
		if !p.matrices {
			rows, terms = min(m.rows, p.chunk), max(p.chunk, m.widest)
			run = up(4*int64(rows+1)) + 2*up(4*int64(terms))
		}
	}
	need := cudalib.Need{LogN: s.LogDomain, Wires: s.NbWires, Listed: s.NbWires, Rows: rows, Terms: terms, Coeffs: m.coeffs}
	var beside [nbSides]cudalib.Need
	var stream int64
	for i, c := range counts {
		n := min(c, p.piece(section(i)))
		of := &need
		if k := section(i).side(); p.sides && k >= 0 {
			of = &beside[k]
			of.LogN = -1
		}
		if section(i).group() == 1 {
			of.G1Points = max(of.G1Points, n)
		} else {
			of.G2Points = max(of.G2Points, n)
		}
		if !p.resident[i] {
			stream = max(stream, up(section(i).pointBytes()*int64(n)))
		}
	}
	z, err := g.dev.Sizes(need)
	if err != nil {
		return err
	}
	p.sizes, p.tables = z, z.Tables
	if g.hasTables(s.LogDomain) {
		p.tables = 0
	}
	l := &p.lane
	*l = layout{}
	at := int64(0)
	put := func(bytes int64) int64 {
		o := at
		at += up(bytes)
		return o
	}
	results := int64(0)
	for i, c := range counts {
		results += int64(p.pieces(section(i), c)) * cudalib.ResultBytes(section(i).group())
	}
	l.results, l.remainder = put(results), put(frBytes)
	l.scalars = put(frBytes * int64(s.NbWires))
	l.classes = put(z.Classes)
	// An assignment in its compact form is uploaded to where a, b and c will be.
	l.vectors = put(max(3*frBytes<<s.LogDomain, assignment.CompactSize(s.NbWires, s.NbWires)+4*256))
	l.scratchBytes = max(z.Quotient, z.G1, z.G2, z.Witness, z.Evaluate)
	l.scratch = put(l.scratchBytes)
	if p.sides {
		for k := range beside {
			z, err := g.dev.Sizes(beside[k])
			if err != nil {
				return err
			}
			l.sideBytes[k] = max(z.G1, z.G2)
			l.side[k] = put(l.sideBytes[k])
		}
	}
	l.streamBytes = max(stream, up(run))
	l.stream = put(2 * l.streamBytes)
	l.bytes = at
	return nil
}
