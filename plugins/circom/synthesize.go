package circom

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/encoding/iden3"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
	"github.com/weir-zk/weir/sdk/r1cs"
	"github.com/weir-zk/weir/sdk/slab"
)

// synthesize fills the buffers of one partition: witness, evaluations, check, public inputs. Every goroutine it starts has ended when it returns.
func (s *session) synthesize(ctx context.Context, req *contract.SynthesizeRequest) (*contract.Synthesized, error) {
	begin := time.Now()
	if req.Partition < 0 || req.Partition >= len(s.parts) {
		return nil, errs.Mismatch(errs.InvalidArgument, "synthesize", "partition", fmt.Sprintf("0 to %d", len(s.parts)-1), req.Partition)
	}
	p := s.parts[req.Partition]
	n := s.threads
	if req.Threads > 0 {
		n = tasks(req.Threads)
	}
	b, err := s.buffers(p, req)
	if err != nil {
		return nil, err
	}
	var v *assignment.Vector
	if p.witness != nil {
		v, err = p.witness.fill(ctx, b.witness, n)
	} else {
		v, err = p.calculate(ctx, b.witness)
	}
	if err != nil {
		return nil, err
	}
	if err := s.evaluate(ctx, p, v, b, req.Rows, n); err != nil {
		return nil, err
	}
	values, err := v.Public(s.circuit.system.NbPublic)
	if err != nil {
		return nil, err
	}
	out := &contract.Synthesized{WitnessBytes: v.Size(), Public: make([][]byte, len(values))}
	for i := range values {
		out.Public[i] = groth16.ScalarBytes(&values[i])
	}
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(err, "synthesize")
	}
	out.Elapsed = time.Since(begin)
	return out, nil
}

// buffers are what a call may write to.
type buffers struct {
	witness []byte
	a, b, c []fr.Element // nil: not wanted
}

func (s *session) buffers(p *part, req *contract.SynthesizeRequest) (*buffers, error) {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidArgument, "synthesize", where, expected, found)
	}
	if req.Witness.Length < p.describe.WitnessBytes {
		return nil, bad("witness buffer", fmt.Sprintf("at least %d bytes", p.describe.WitnessBytes), req.Witness.Length)
	}
	out := &buffers{}
	var err error
	if out.witness, err = s.s.resolver.Bytes(req.Witness); err != nil {
		return nil, err
	}
	if req.A.Length == 0 && req.B.Length == 0 && req.C.Length == 0 {
		return out, nil
	}
	if req.A.Length == 0 || req.B.Length == 0 {
		return nil, bad("evaluation buffers", "a and b, or none", fmt.Sprintf("%d, %d and %d bytes", req.A.Length, req.B.Length, req.C.Length))
	}
	if least := s.circuit.system.LogDomain(); req.LogDomain < least || req.LogDomain > groth16.MaxLogDomain {
		return nil, bad("domain", fmt.Sprintf("2^%d to 2^%d", least, groth16.MaxLogDomain), fmt.Sprintf("2^%d", req.LogDomain))
	}
	if req.Rows > groth16.RowsFive {
		return nil, bad("row order", "a known one", uint8(req.Rows))
	}
	for _, x := range []struct {
		name string
		ref  slab.Ref
		to   *[]fr.Element
	}{{"a", req.A, &out.a}, {"b", req.B, &out.b}, {"c", req.C, &out.c}} {
		if x.ref.Length == 0 {
			continue
		}
		if want := int64(fr.Bytes) << req.LogDomain; x.ref.Length != want {
			return nil, bad("buffer "+x.name, fmt.Sprintf("%d bytes", want), x.ref.Length)
		}
		b, err := s.s.resolver.Bytes(x.ref)
		if err != nil {
			return nil, err
		}
		if *x.to, err = slab.View[fr.Element](b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// evaluate computes a, b, c where they are wanted and checks the witness where that is possible and wanted, in one pass.
func (s *session) evaluate(ctx context.Context, p *part, v *assignment.Vector, b *buffers, rows groth16.RowOrder, n int) error {
	sys := s.circuit.system
	var bad *r1cs.Violation
	var err error
	switch {
	case b.a != nil && s.check:
		bad, err = sys.EvaluateChecked(ctx, v, rows, b.a, b.b, b.c, n)
	case b.a != nil:
		err = sys.Evaluate(ctx, v, rows, b.a, b.b, b.c, n)
	case s.check:
		bad, err = sys.Check(ctx, v, n)
	}
	if err != nil {
		return errs.InFile(errs.Wrap(err, "synthesize"), p.name())
	}
	if bad != nil {
		return p.unsatisfied(sys, bad.Row)
	}
	return nil
}

// name is the file that a partition's witness comes from.
func (p *part) name() string {
	if p.witness != nil {
		return p.witness.src.name
	}
	return p.inputs.path
}

// unsatisfied names the first violated row and, where names are known, its signals. Values are secret and stay out of it.
func (p *part) unsatisfied(sys *r1cs.System, row int) error {
	e := errs.New(errs.Unsatisfied, "check witness", "A*B differs from C").WithPath(p.name())
	e.Where = fmt.Sprintf("constraint %d of %d (the first is 0)", row, sys.NbConstraints())
	if p.symbols == nil {
		return e.WithHint("with --sym circuit.sym the message names the signals of the constraint")
	}
	wires, names, err := iden3.RowNames(p.symbols.reader(), sys, row)
	if err != nil {
		return e.WithHint("the names of its signals could not be read: %v", errs.InFile(err, p.symbols.name))
	}
	var list []string
	for _, w := range wires {
		if len(list) == maxNames {
			list = append(list, fmt.Sprintf("and %d more", len(wires)-maxNames))
			break
		}
		name := fmt.Sprintf("wire %d", w)
		if all := names[w]; len(all) > 0 {
			name = strings.Join(all, " = ")
		}
		list = append(list, name)
	}
	e.Found += "; its signals: " + strings.Join(list, ", ")
	return e
}

// calculate runs the partition's program and writes what it computed to b.
func (p *part) calculate(ctx context.Context, b []byte) (*assignment.Vector, error) {
	r, err := p.program.start(ctx)
	if err != nil {
		return nil, errs.InFile(err, p.programName)
	}
	defer r.close()
	if err := r.calc.calculate(ctx, p.inputs, p.names); err != nil {
		return nil, errs.InFile(err, p.programName)
	}
	n := p.program.wires
	b = b[:assignment.DenseSize(n)]
	// The compact form is tried first; where it would take more than the dense one it runs out of room.
	if assignment.CompactSize(n, 0) < int64(len(b)) {
		v, err := r.collect(ctx, b, assignment.Compact, n)
		if !errs.Is(err, errs.Exhausted) {
			return v, errs.InFile(err, p.programName)
		}
	}
	v, err := r.collect(ctx, b, assignment.Dense, n)
	return v, errs.InFile(err, p.programName)
}

func (r *run) collect(ctx context.Context, b []byte, form assignment.Form, n int) (*assignment.Vector, error) {
	w, err := assignment.NewBuilder(b, form, n)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, fr.Bytes*min(chunkValues, n))
	defer clear(buf)
	for first := 0; first < n; first += chunkValues {
		chunk := buf[:fr.Bytes*min(chunkValues, n-first)]
		if err := r.calc.read(ctx, first, chunk); err != nil {
			return nil, err
		}
		if first == 0 && !isOne(chunk) {
			return nil, errs.Mismatch(errs.InvalidFile, "run program", "wire 0", "the one", "another value")
		}
		if err := w.AppendPlain(chunk); err != nil {
			return nil, err
		}
	}
	return w.Finish()
}
