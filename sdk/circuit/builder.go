package circuit

import (
	"context"
	"strconv"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Circuit is a constraint system with the values for one witness. Synthesize states both through b. It must allocate the same variables and state the same
// rows whatever the values are, and whatever b does with them; where no values are wanted its fields may hold anything of the right length.
type Circuit interface {
	Synthesize(b *Builder) error
}

// Builder is what a circuit is written to. It either records rows or takes values, never both: Recording tells which. Not safe for concurrent use; Repeat
// hands each part a builder of its own.
type Builder struct {
	ctx    context.Context
	n      Counts
	rec    *recorder // records rows
	w      *writer   // takes values
	tasks  int       // parts of Repeat that run at a time
	scopes []scope   // while recording
	err    error     // the first failure; what follows it is not recorded
}

// Counts are the sizes of a circuit.
type Counts struct {
	Rows   int // without the rows that Groth16 adds for the inputs
	Inputs int // the one included
	Aux    int
	Bits   int // auxiliary variables that are zero or one in every witness: those of AllocBits
}

func (c Counts) plus(d Counts, times int) Counts {
	return Counts{c.Rows + times*d.Rows, c.Inputs + times*d.Inputs, c.Aux + times*d.Aux, c.Bits + times*d.Bits}
}

func (c Counts) minus(d Counts) Counts { return c.plus(d, -1) }

// Wires is the number of all variables.
func (c Counts) Wires() int { return c.Inputs + c.Aux }

// maxCount keeps every index in a Var and in the file formats' 32 bits.
const maxCount = 1<<31 - 1

// Recording says that rows are wanted and values are not: linear combinations that are kept from row to row are built only then.
func (b *Builder) Recording() bool { return b.rec != nil }

// Counts is what has been allocated and stated so far.
func (b *Builder) Counts() Counts { return b.n }

// Alloc allocates an auxiliary variable of value x.
func (b *Builder) Alloc(x *fr.Element) Var {
	v := Aux(b.n.Aux)
	b.n.Aux++
	if b.w != nil {
		b.w.element(x)
	}
	return v
}

// AllocNum allocates an auxiliary variable of value x and returns both.
func (b *Builder) AllocNum(x *fr.Element) Num { return Num{b.Alloc(x), *x} }

// AllocInput allocates a public input of value x.
func (b *Builder) AllocInput(x *fr.Element) Var {
	v := Input(b.n.Inputs)
	if b.w != nil {
		b.w.input(b.n.Inputs, x)
	}
	b.n.Inputs++
	return v
}

// AllocBits allocates n <= 64 auxiliary variables that are the bits of word, least significant first, and returns the first. It states no row: whoever
// calls it must state rows that leave no values but zero and one.
func (b *Builder) AllocBits(word uint64, n int) Var {
	v := Aux(b.n.Aux)
	if b.w != nil {
		b.w.bits(word, n)
	} else {
		b.rec.mark(b.n.Aux, n)
	}
	b.n.Aux += n
	b.n.Bits += n
	return v
}

// Enforce states a row. name is the last part of the path by which a broken row is reported; state is called at once, and only while rows are wanted.
func (b *Builder) Enforce(name string, state func(r *Row)) {
	b.n.Rows++
	if b.rec == nil || b.err != nil {
		return
	}
	r := b.rec.begin()
	state(r)
	b.commit(name)
}

// Skip counts n rows without stating them: for the short way that a gadget takes while values are wanted. Recording, the same gadget must state them.
func (b *Builder) Skip(n int) {
	if b.rec != nil {
		b.fail(errs.New(errs.Internal, "record circuit", "%d rows were left out at %s", n, b.Path("")))
		return
	}
	b.n.Rows += n
}

// NewCombination is an empty combination to be gathered over several rows; only while recording.
func (b *Builder) NewCombination() *Combination { return &Combination{dict: b.rec.dict} }

// fail keeps the first failure.
func (b *Builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// Err is the first failure, nil so far. A circuit need not look: the call that runs it returns it. A long one can stop early.
func (b *Builder) Err() error { return b.err }

// scope is a part of a path; text is put together when a path is asked for.
type scope struct {
	name  string
	index int // -1: none
}

// Enter begins a named part of the circuit, until the next Leave. Names are for people: they appear in the path of a broken row and in Marks.
func (b *Builder) Enter(name string) { b.enter(scope{name, -1}) }

// EnterIndex is Enter with a number after the name.
func (b *Builder) EnterIndex(name string, i int) { b.enter(scope{name, i}) }

func (b *Builder) enter(s scope) {
	if b.rec == nil {
		return
	}
	b.scopes = append(b.scopes, s)
	if b.rec.marks != nil {
		b.rec.marks.enter(b.scopes, b.n)
	}
}

// Leave ends the part that was entered last.
func (b *Builder) Leave() {
	if b.rec == nil {
		return
	}
	if b.rec.marks != nil {
		b.rec.marks.leave(len(b.scopes), b.n)
	}
	b.scopes = b.scopes[:len(b.scopes)-1]
}

// Path is the path of a row of that name here, empty while values are wanted.
func (b *Builder) Path(name string) string { return pathOf(b.scopes, name) }

func pathOf(scopes []scope, name string) string {
	var parts []string
	for _, s := range scopes {
		text := s.name
		if s.index >= 0 {
			text += strconv.Itoa(s.index)
		}
		parts = append(parts, text)
	}
	if name != "" {
		parts = append(parts, name)
	}
	return strings.Join(parts, "/")
}

// start allocates the one.
func (b *Builder) start() {
	one := fr.One()
	b.AllocInput(&one)
}

// run synthesises c and returns the first failure.
func (b *Builder) run(c Circuit) error {
	b.start()
	err := c.Synthesize(b)
	if b.err != nil {
		return b.err
	}
	if err != nil {
		return err
	}
	if b.n.Rows > maxCount || b.n.Wires() > maxCount {
		return errs.Mismatch(errs.Unsupported, "synthesise circuit", "rows and variables", "fewer than 2^31", max(b.n.Rows, b.n.Wires()))
	}
	return b.ctx.Err()
}
