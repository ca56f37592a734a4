// Package setup makes development keys: Groth16 proving keys whose secrets one process knows. Whoever runs it could forge proofs, so a key
// carries the mark Insecure, and every use of it shows the mark.
//
// Source of the equations: J. Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016, section 3.2, with the extra rows for
// the public inputs that bellman and snarkjs add.
//
// Memory: 32 bytes a row for the values of Lagrange's basis at tau, 64 bytes a wire for two vectors, the fixed-base tables (at most 48 MiB in G1, 96
// MiB in G2), and one part of points; no vector of points is ever whole in memory. Points go to a Sink as they are made.
package setup

import (
	"context"
	"errors"
	"math/big"
	"slices"

	bls "github.com/consensys/gnark-crypto/ecc/bls12-381"
	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/backend-cpu/fixedbase"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
)

// Section names a vector of points.
type Section int

// The sections in the order in which they are made.
const (
	A Section = iota
	B1
	B2
	K
	H
	HAlt // H in the other basis, with AltH
)

// String names the section as messages do.
func (s Section) String() string {
	return [...]string{"A", "B1", "B2", "K", "H", "H in the other basis"}[s]
}

// Sink takes a key in the order in which it is made: Begin once, then the points of each section in ascending order, in parts. Parts are valid
// during the call only.
type Sink interface {
	// Begin tells all but the points: which wires have a finite point in A and in B is in the bitmaps.
	Begin(shape *groth16.Shape, vk *groth16.VerifyingKey, aWires, bWires groth16.Bitmap) error
	G1(s Section, part []bls.G1Affine) error // A, B1, K, H, HAlt
	G2(s Section, part []bls.G2Affine) error // B2
}

// AltH says whether a set-up makes the H points in the other basis than Options.H too, so that the key can be written as a .zkey and as a .params.
type AltH uint8

const (
	// AltDefault makes them in a file of Write whose domain has at most 2^22 points, 400 MB of them; and nowhere else.
	AltDefault AltH = iota
	AltAlways
	AltNever
)

const altDefaultLog = 22

// inFile is what a means for a file whose domain has 2^log points.
func (a AltH) inFile(log int) AltH {
	switch {
	case a != AltDefault:
		return a
	case log <= altDefaultLog:
		return AltAlways
	}
	return AltNever
}

// Options of a set-up.
type Options struct {
	Scalars *Scalars // required
	Rows    groth16.RowOrder
	H       groth16.HBasis
	AltH    AltH
	// Multiplier, where it is not nil, makes the points: once for the two bases of a set-up. Default is fixed-base tables on the processor.
	Multiplier func(ctx context.Context, g1 *bls.G1Affine, g2 *bls.G2Affine) (Multiplier, error)
	Tasks      int                                  // goroutines; at least 1
	Progress   func(stage string, fraction float64) // may be nil; fraction is of the whole
}

// Multiplier makes multiples of two points.
type Multiplier interface {
	// MulG1 sets points[i] to scalars[i] times the base; so does MulG2. One call at a time, of at most 2^18 scalars.
	MulG1(ctx context.Context, points []bls.G1Affine, scalars []fr.Element) error
	MulG2(ctx context.Context, points []bls.G2Affine, scalars []fr.Element) error
	// Close gives everything back. It is called once, however the set-up ended.
	Close() error
}

// processor is the Multiplier of fixed-base tables.
type processor struct {
	g1    *fixedbase.TableG1
	g2    *fixedbase.TableG2
	tasks int
}

func (p *processor) MulG1(ctx context.Context, points []bls.G1Affine, scalars []fr.Element) error {
	return p.g1.Mul(ctx, points, scalars, p.tasks)
}

func (p *processor) MulG2(ctx context.Context, points []bls.G2Affine, scalars []fr.Element) error {
	return p.g2.Mul(ctx, points, scalars, p.tasks)
}

func (p *processor) Close() error { return nil }

// Make makes a key for sys. sys must have been validated, and have its C rows. It errors with the class of ctx's error soon after ctx ends.
func Make(ctx context.Context, sys *r1cs.System, opts Options, sink Sink) error {
	const op = "set-up"
	if !sys.HasC {
		return errs.New(errs.InvalidArgument, op, "the constraint system has no C rows").
			WithHint("a .zkey does not carry them; give the circuit's .r1cs")
	}
	if opts.H > groth16.HOddCoset || opts.Rows > groth16.RowsFive {
		return errs.New(errs.InvalidArgument, op, "row order %d, H basis %d", opts.Rows, opts.H)
	}
	log := sys.LogDomain()
	if opts.Rows == groth16.RowsFive {
		log = max(1, log) // snarkjs knows no domain of one point
	}
	if log > groth16.MaxLogDomain {
		return errs.Mismatch(errs.Unsupported, op, "domain", "at most 2^28 rows", sys.NbConstraints())
	}
	if err := opts.Scalars.check(log); err != nil {
		return err
	}
	m := &maker{ctx: ctx, sys: sys, opts: opts, sink: sink, log: log, n: 1 << log, tasks: max(1, opts.Tasks)}
	m.values = make([]fr.Element, m.n)
	m.x, m.k = make([]fr.Element, sys.NbWires), make([]fr.Element, sys.NbWires)
	defer func() { clear(m.values); clear(m.x); clear(m.k) }()
	err := m.run()
	if m.by != nil {
		err = errors.Join(err, m.by.Close())
	}
	return errs.Wrap(err, op)
}

// maker is one set-up at work.
type maker struct {
	ctx   context.Context
	sys   *r1cs.System
	opts  Options
	sink  Sink
	log   int
	n     int
	tasks int

	values []fr.Element // of Lagrange's basis at tau, in the domain's natural order
	x, k   []fr.Element // a wire each
	by     Multiplier

	done, whole int // points made and to be made, a G2 point counted as weightG2
}

// weightG2 is what a G2 point costs in G1 points.
const weightG2 = 3

func (m *maker) run() error {
	s := m.opts.Scalars
	if err := m.lagrange(); err != nil {
		return err
	}
	// K needs all three matrices, and the sink wants to know the finite wires first; x is made again when its points are.
	if err := m.column(&m.sys.A, m.x); err != nil {
		return err
	}
	aWires := m.finite(m.x)
	m.each(len(m.k), func(i int) { m.k[i].Mul(&m.x[i], &s.Beta) })
	if err := m.column(&m.sys.B, m.x); err != nil {
		return err
	}
	bWires := m.finite(m.x)
	m.each(len(m.k), func(i int) {
		var t fr.Element
		t.Mul(&m.x[i], &s.Alpha)
		m.k[i].Add(&m.k[i], &t)
	})
	if err := m.addColumn(&m.sys.C, m.k); err != nil {
		return err
	}

	shape := &groth16.Shape{LogDomain: m.log, NbWires: m.sys.NbWires, NbPublic: m.sys.NbPublic, NbConstraints: m.sys.NbConstraints(),
		NbA: aWires.Count(), NbB: bWires.Count(), NbH: m.n - 1, Rows: m.opts.Rows, H: m.opts.H, Insecure: true, HasMatrices: true, HasC: true}
	if m.opts.H == groth16.HOddCoset {
		shape.NbH = m.n
	}
	m.whole = shape.NbA + (1+weightG2)*shape.NbB + shape.NbPrivate() + shape.NbH
	if m.opts.AltH == AltAlways {
		m.whole += 2*m.n - 1 - shape.NbH
	}
	m.progress("tables")
	if err := m.tables(shape); err != nil {
		return err
	}
	vk, err := m.verifyingKey()
	if err != nil {
		return err
	}
	if err := m.sink.Begin(shape, vk, aWires, bWires); err != nil {
		return err
	}
	return m.points(aWires, bWires)
}

// tables makes the fixed-base tables, of the sizes that are best for the points to come.
func (m *maker) tables(shape *groth16.Shape) (err error) {
	_, _, g1, g2 := bls.Generators()
	var e big.Int
	g1.ScalarMultiplication(&g1, m.opts.Scalars.G1.BigInt(&e))
	g2.ScalarMultiplication(&g2, m.opts.Scalars.G2.BigInt(&e))
	if m.opts.Multiplier != nil {
		m.by, err = m.opts.Multiplier(m.ctx, &g1, &g2)
		return err
	}
	p := &processor{tasks: m.tasks}
	fixed := 3 + shape.NbPublic + 1
	if p.g1, err = fixedbase.NewG1(m.ctx, &g1, shape.NbA+shape.NbB+shape.NbPrivate()+shape.NbH+fixed, m.tasks); err != nil {
		return err
	}
	if p.g2, err = fixedbase.NewG2(m.ctx, &g2, shape.NbB+3, m.tasks); err != nil {
		return err
	}
	m.by = p
	return nil
}

// points makes the five sections.
func (m *maker) points(aWires, bWires groth16.Bitmap) error {
	s := m.opts.Scalars
	if err := m.column(&m.sys.A, m.x); err != nil {
		return err
	}
	if err := m.emitG1(A, m.wires(m.x, aWires)); err != nil {
		return err
	}
	if err := m.column(&m.sys.B, m.x); err != nil {
		return err
	}
	if err := m.emitG1(B1, m.wires(m.x, bWires)); err != nil {
		return err
	}
	if err := m.emitG2(B2, m.wires(m.x, bWires)); err != nil {
		return err
	}
	var byDelta fr.Element
	byDelta.Inverse(&s.Delta)
	private := m.k[m.sys.NbPublic+1:]
	m.each(len(private), func(i int) { private[i].Mul(&private[i], &byDelta) })
	if err := m.emitG1(K, whole(private)); err != nil {
		return err
	}
	h := []source{m.powers(&byDelta), m.oddCoset(&byDelta)}
	if m.opts.H == groth16.HOddCoset {
		slices.Reverse(h)
	}
	if err := m.emitG1(H, h[0]); err != nil || m.opts.AltH != AltAlways {
		return err
	}
	return m.emitG1(HAlt, h[1])
}

// verifyingKey makes the fixed points. m.k must be whole.
func (m *maker) verifyingKey() (*groth16.VerifyingKey, error) {
	s := m.opts.Scalars
	ic := make([]fr.Element, m.sys.NbPublic+1)
	var byGamma fr.Element
	byGamma.Inverse(&s.Gamma)
	for i := range ic {
		ic[i].Mul(&m.k[i], &byGamma)
	}
	scalars := append([]fr.Element{s.Alpha, s.Beta, s.Delta}, ic...)
	g1 := make([]bls.G1Affine, len(scalars))
	if err := m.by.MulG1(m.ctx, g1, scalars); err != nil {
		return nil, err
	}
	var g2 [3]bls.G2Affine
	if err := m.by.MulG2(m.ctx, g2[:], []fr.Element{s.Beta, s.Gamma, s.Delta}); err != nil {
		return nil, err
	}
	return &groth16.VerifyingKey{AlphaG1: g1[0], BetaG1: g1[1], DeltaG1: g1[2], BetaG2: g2[0], GammaG2: g2[1], DeltaG2: g2[2], IC: g1[3:]}, nil
}

func (m *maker) progress(stage string) {
	if m.opts.Progress != nil {
		m.opts.Progress(stage, float64(m.done)/float64(max(1, m.whole)))
	}
}
