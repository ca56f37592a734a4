package circom

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/tetratelabs/wazero/api"

	"github.com/weir-zk/weir/sdk/errs"
)

// calculator1 speaks to programs of circom 1. They share a memory with the caller: the word at address 0 is the first free byte. An element is two words of type and
// value for small numbers, then eight words of the value.
type calculator1 struct {
	r                                                    *run
	init, signalOffset, setSignal, nbVars, witnessBuffer api.Function
	at                                                   uint32 // room for one element and one word
	witness                                              uint32 // address of the values, plain, once computed
}

const (
	elementSize1 = 8 + fr.Bytes
	longForm1    = 0x80000000 // type: eight words follow; not Montgomery
)

func newCalculator1(ctx context.Context, r *run) (*calculator1, error) {
	c := &calculator1{r: r}
	var length, prime api.Function
	for _, x := range []struct {
		to              *api.Function
		name            string
		params, results int
	}{
		{&c.init, "init", 1, 0}, {&c.signalOffset, "getSignalOffset32", 4, 0}, {&c.setSignal, "setSignal", 4, 0}, {&c.nbVars, "getNVars", 0, 1},
		{&c.witnessBuffer, "getWitnessBuffer", 0, 1}, {&length, "getFrLen", 0, 1}, {&prime, "getPRawPrime", 0, 1},
	} {
		f, err := r.function(x.name, x.params, x.results)
		if err != nil {
			return nil, err
		}
		*x.to = f
	}
	if r.env == nil {
		return nil, errs.Mismatch(errs.InvalidFile, "start program", "imports", "the memory env.memory", "none")
	}
	n, err := r.call(ctx, length)
	if err != nil {
		return nil, err
	}
	at, err := r.call(ctx, prime)
	if err != nil {
		return nil, err
	}
	p, err := r.bytes(at, fr.Bytes)
	if err != nil {
		return nil, err
	}
	if n != elementSize1 || !bytes.Equal(p, modulusBytes()) {
		return nil, errOtherField
	}
	free, err := r.bytes(0, 4)
	if err != nil {
		return nil, err
	}
	c.at = (binary.LittleEndian.Uint32(free) + 7) &^ 7
	if _, err := r.bytes(c.at, elementSize1+8+stackReserve/2); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(free, c.at+elementSize1+8)
	return c, nil
}

func (c *calculator1) wires(ctx context.Context) (int, error) {
	n, err := c.r.call(ctx, c.nbVars)
	return int(n), err
}

// check can do nothing: these programs know their signals only by hash, and not how many values each takes.
func (c *calculator1) check(context.Context, *inputs, func() []string) error { return nil }

// calculate runs the program with its own checks on (constraints, assertions, signals set twice): they are the only sign of missing and surplus values.
func (c *calculator1) calculate(ctx context.Context, in *inputs, _ func() []string) error {
	if _, err := c.r.call(ctx, c.init, 1); err != nil {
		return err
	}
	element, err := c.r.bytes(c.at, elementSize1+8)
	if err != nil {
		return err
	}
	offset := c.at + elementSize1
	total := 0
	for _, s := range in.signals {
		high, low := split(signalHash(s.name))
		if _, err := c.r.call(ctx, c.signalOffset, uint64(offset), 0, high, low); err != nil {
			return in.about(err, s.name)
		}
		first := binary.LittleEndian.Uint32(element[elementSize1:])
		for i := range s.count() {
			binary.LittleEndian.PutUint32(element, 0)
			binary.LittleEndian.PutUint32(element[4:], longForm1)
			copy(element[8:], s.value(i))
			if _, err := c.r.call(ctx, c.setSignal, 0, 0, uint64(first)+uint64(i), uint64(c.at)); err != nil {
				return in.about(err, s.name)
			}
		}
		total += s.count()
	}
	if !c.r.finished[0] { // component 0 is main: it runs when its last input is there
		return in.missing(nil, -1, total)
	}
	c.witness, err = c.r.call(ctx, c.witnessBuffer)
	return err
}

func (c *calculator1) read(ctx context.Context, first int, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(err, "run program")
	}
	at := int64(c.witness) + int64(first)*fr.Bytes
	if at > 1<<32-1 {
		return errs.New(errs.InvalidFile, "read witness", "an address beyond the memory")
	}
	b, err := c.r.bytes(uint32(at), len(buf))
	copy(buf, b)
	return err
}

// Codes of the function error.
const (
	oldStackMemory   = 1
	oldStackSmall    = 2
	oldHashNotFound  = 3
	oldInvalidType   = 4
	oldNotAssigned   = 5
	oldAssignedTwice = 6
	oldConstraint    = 7
	oldNotInput      = 8
	oldAssert        = 9
)

// oldError is called by a program that gives up: code, pointer to a text, and four parameters that depend on the code.
func (r *run) oldError(s []uint64) {
	code := uint32(s[0])
	e := &errs.Error{Op: "run program", Where: "code " + fmt.Sprint(code), Found: r.text(uint32(s[1]))}
	switch code {
	case oldHashNotFound, oldInvalidType:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "an input signal of the circuit", "an unknown one"
	case oldAssignedTwice, oldNotInput:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "as many values as the signal has", "more, or a signal that is no input"
	case oldNotAssigned:
		e.Class, e.Found = errs.InvalidFile, "the program reads a signal that has no value yet"
	case oldConstraint, oldAssert:
		e.Class = errs.Unsatisfied
		place := r.text(uint32(s[5]))
		if code == oldAssert {
			place = r.text(uint32(s[4]))
		}
		e.Found = "a constraint or assertion of the circuit failed: " + place
		e.Hint = "the inputs are not what the circuit allows; the message names the place in the source"
	case oldStackMemory, oldStackSmall:
		e.Class, e.Found = errs.Exhausted, "the program ran out of its own memory"
	default:
		e.Class = errs.Unsatisfied
	}
	r.end(e)
}
