package circom

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/assignment"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/keyfile"
)

// opener turns a request into a session. Inputs of partition -1 serve the whole job; those of a partition take their place.
type opener struct {
	s     *synthesizer
	tasks int
	check checkMode

	shared bool // for other sessions: without partitions

	circuit *source
	key     *source
	perPart map[int]map[string]*source
	nbParts int
	session *session
}

func (o *opener) open(ctx context.Context, list []contract.Input) (_ *session, err error) {
	if err := o.sort(list); err != nil {
		return nil, err
	}
	o.session = newSession(o.s, o.tasks)
	defer func() {
		if err != nil {
			o.session.close()
		}
	}()
	if err := o.openCircuit(ctx); err != nil {
		return nil, err
	}
	if o.shared {
		if len(o.perPart) > 0 {
			return nil, badRequest("inputs", "a circuit alone, of a session that others share", "inputs of partitions too")
		}
		return o.session, nil
	}
	for i := range o.nbParts {
		p, err := o.openPart(ctx, i)
		if err != nil {
			return nil, err
		}
		o.session.parts = append(o.session.parts, p)
	}
	if err := ctx.Err(); err != nil {
		return nil, errs.Wrap(err, "open")
	}
	return o.session, nil
}

func badRequest(where, expected, found string) *errs.Error {
	return errs.Mismatch(errs.InvalidArgument, "open", where, expected, found)
}

// sort resolves the inputs and finds out what each is for.
func (o *opener) sort(list []contract.Input) error {
	o.perPart = map[int]map[string]*source{}
	for _, in := range list {
		src, err := o.s.source(in)
		if err != nil {
			return err
		}
		if err := src.checkRole(); err != nil {
			return err
		}
		switch {
		case in.Partition < -1:
			return badRequest("input "+in.Role, "partition -1 (all) or a number", fmt.Sprint(in.Partition)).WithPath(in.Name)
		case in.Role == contract.RoleCircuit || in.Role == contract.RoleKey:
			slot := &o.circuit
			if in.Role == contract.RoleKey {
				slot = &o.key
			}
			if *slot != nil {
				return badRequest("input "+in.Role, "one for the whole job", "two").WithPath(in.Name)
			}
			*slot = src
			continue
		}
		m := o.perPart[in.Partition]
		if m == nil {
			m = map[string]*source{}
			o.perPart[in.Partition] = m
		}
		if m[in.Role] != nil {
			return badRequest("input "+in.Role, "one a partition", "two").WithPath(in.Name)
		}
		m[in.Role] = src
		o.nbParts = max(o.nbParts, in.Partition+1)
	}
	o.nbParts = max(o.nbParts, 1)
	if o.circuit == nil && (o.key == nil || o.key.kind == keyfile.Params) {
		e := badRequest("inputs", "a circuit (.r1cs), or a key that carries its matrices (.zkey, .wkey)", "neither").WithHint("give the circuit with --circuit circuit.r1cs")
		if o.key != nil {
			e.Path, e.Found = o.key.name, "a key without matrices"
		}
		return e
	}
	return nil
}

// of is the input of a role for a partition, or nil.
func (o *opener) of(part int, role string) *source {
	if src := o.perPart[part][role]; src != nil {
		return src
	}
	return o.perPart[-1][role]
}

func (o *opener) openCircuit(ctx context.Context) error {
	from := o.circuit
	if from == nil {
		from = o.key
	}
	m, err := openMatrices(from, o.tasks)
	if err != nil {
		return err
	}
	if m == nil || m.system == nil {
		return badRequest("inputs", "a circuit, or a key that carries its matrices", "a key without them").WithPath(from.name).WithHint("give the circuit with --circuit circuit.r1cs")
	}
	e, err := o.s.circuit(ctx, from, m)
	if err != nil {
		return err
	}
	o.session.entries = append(o.session.entries, e)
	c := e.value.(*circuit)
	o.session.circuit = c
	if o.key != nil && o.circuit != nil {
		km, err := openMatrices(o.key, o.tasks)
		if err != nil {
			return err
		}
		if km != nil {
			if err := o.s.checkKey(ctx, o.key, km, c); err != nil {
				return err
			}
		}
	}
	o.session.check = o.check != checkOff && c.system.HasC
	if o.check == checkOn && !c.system.HasC {
		return badRequest("option check", "C rows to check the witness against", "a file that has none").WithPath(from.name).WithHint("give the circuit with --circuit circuit.r1cs")
	}
	return nil
}

func (o *opener) openPart(ctx context.Context, i int) (*part, error) {
	c := o.session.circuit
	where := fmt.Sprintf("partition %d", i)
	witness, inputs, prog := o.of(i, contract.RoleWitness), o.of(i, contract.RoleInputs), o.of(i, contract.RoleProgram)
	// A partition's own input says what it wants, whatever the whole job has.
	if own := o.perPart[i]; own != nil && own[contract.RoleWitness] == nil && own[contract.RoleInputs] != nil {
		witness = nil
	} else if own != nil && own[contract.RoleWitness] != nil && own[contract.RoleInputs] == nil && own[contract.RoleProgram] == nil {
		inputs, prog = nil, nil
	}
	p := &part{symbols: o.of(i, contract.RoleSymbols)}
	p.describe = contract.Partition{CircuitDigest: c.digest, NbWires: c.system.NbWires, NbPublic: c.system.NbPublic, NbConstraints: c.system.NbConstraints()}
	p.describe.ScratchBytes = c.system.EvaluateScratch(c.system.LogDomain()+1, tasks(0)) // a key's domain may be the next one
	switch {
	case witness != nil && (inputs != nil || prog != nil):
		return nil, badRequest(where, "a witness, or a program with inputs", "both")
	case witness != nil:
		w, err := openWitness(ctx, witness, c.system.NbWires, o.tasks)
		if err != nil {
			return nil, err
		}
		p.witness = w
		_, p.describe.WitnessBytes = w.size()
		p.describe.ScratchBytes += int64(min(tasks(0), len(w.counts))) * min(chunkBytes, 32*int64(w.n))
		o.session.resident += 4 * int64(len(w.counts))
		return p, nil
	case prog != nil && inputs != nil:
		return p, o.openProgram(ctx, p, prog, inputs)
	case prog != nil:
		return nil, badRequest(where, "inputs for the witness program", "none").WithHint("give them with --input input.json")
	case inputs != nil:
		return nil, badRequest(where, "a witness program for the inputs", "none").WithHint("give it with --wasm circuit.wasm")
	}
	return nil, badRequest(where, "a witness, or a program with inputs", "neither").WithHint("give --witness witness.wtns, or --wasm circuit.wasm and --input input.json")
}

// openProgram compiles the program, reads the inputs, and asks the program whether they fit, so that what is wrong is known before anything is granted.
func (o *opener) openProgram(ctx context.Context, p *part, prog, src *source) error {
	c := o.session.circuit
	id, err := prog.identity(ctx)
	if err != nil {
		return err
	}
	e, err := o.s.cache.get(ctx, "program "+id, func(ctx context.Context) (loaded, error) {
		code := make([]byte, prog.size)
		if _, err := io.ReadFull(prog.reader(), code); err != nil {
			return loaded{}, &errs.Error{Class: errs.InvalidFile, Op: "read program", Path: prog.name, Err: err, Hint: "the file changed while it was in use"}
		}
		pr, err := compileProgram(ctx, code, o.tasks, o.s.opts.MaxProgramMemory, &o.s.running)
		if err != nil {
			return loaded{}, errs.InFile(err, prog.name)
		}
		return loaded{value: pr, size: pr.resident, drop: pr.close}, nil
	})
	if err != nil {
		return err
	}
	o.session.entries = append(o.session.entries, e)
	p.program, p.programName = e.value.(*program), prog.name
	if p.program.wires != c.system.NbWires {
		return errs.Mismatch(errs.InvalidFile, "open", "program", fmt.Sprintf("one that computes %d values, one for each wire of the circuit", c.system.NbWires), p.program.wires).WithPath(prog.name).
			WithHint("program and circuit must come from the same run of circom")
	}
	if p.inputs, err = readInputs(src.reader(), src.name); err != nil {
		return err
	}
	o.session.resident += p.inputs.size()
	r, err := p.program.start(ctx)
	if err != nil {
		return errs.InFile(err, prog.name)
	}
	defer r.close()
	if err := r.calc.check(ctx, p.inputs, p.names); err != nil {
		return errs.InFile(err, prog.name)
	}
	if n := p.inputs.total(); c.nbInputs >= 0 && n != c.nbInputs {
		if n < c.nbInputs {
			return p.inputs.missing(nil, c.nbInputs, n)
		}
		return p.inputs.wrongTotal(c.nbInputs, n)
	}
	p.describe.WitnessBytes = assignment.DenseSize(c.system.NbWires) // how many values are bits is known only afterwards
	p.describe.ScratchBytes += int64(p.program.pages)*wasmPage + min(chunkBytes, fr.Bytes*int64(c.system.NbWires))
	return nil
}

// describe is what the host is told. What base (may be nil) holds is charged to it.
func (s *session) describe(base *session) *contract.Session {
	out := &contract.Session{ID: s.id, ResidentBytes: s.resident}
	seen := map[*entry]bool{}
	if base != nil {
		for _, e := range base.entries {
			seen[e] = true
		}
	}
	for _, e := range s.entries {
		if !seen[e] { // partitions share a program
			seen[e] = true
			out.ResidentBytes += e.size
		}
	}
	for _, p := range s.parts {
		out.Partitions = append(out.Partitions, p.describe)
	}
	return out
}

// names are the names of main's signals without indexes, for messages about inputs that are missing; nil without a .sym file.
func (p *part) names() []string {
	if p.symbols == nil {
		return nil
	}
	var out []string
	for s, err := range symbolsOf(p.symbols) {
		if err != nil {
			return nil
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a, b) })
	return slices.Compact(out)
}
