package circom

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
	"github.com/tetratelabs/wazero/api"

	"github.com/weir-zk/weir/sdk/errs"
)

// calculator2 speaks to programs of circom 2. Values pass through a window of the program's memory, "shared read-write memory", of one field element: plain, little-endian.
type calculator2 struct {
	r                          *run
	init, setInput, getWitness api.Function
	witnessSize                api.Function
	inputSize, signalSize      api.Function // nil in early releases
	message                    api.Function // nil in early releases
	readWord, writeWord        api.Function
	window                     uint32 // address of the shared memory
	direct                     bool   // the window can be used in place
	stack                      [3]uint64
}

const fieldWords = fr.Bytes / 4

func newCalculator2(ctx context.Context, r *run) (*calculator2, error) {
	c := &calculator2{r: r}
	for _, x := range []struct {
		to              *api.Function
		name            string
		params, results int
		optional        bool
	}{
		{&c.init, "init", 1, 0, false}, {&c.setInput, "setInputSignal", 3, 0, false}, {&c.getWitness, "getWitness", 1, 0, false},
		{&c.witnessSize, "getWitnessSize", 0, 1, false}, {&c.readWord, "readSharedRWMemory", 1, 1, false}, {&c.writeWord, "writeSharedRWMemory", 2, 0, false},
		{&c.inputSize, "getInputSize", 0, 1, true}, {&c.signalSize, "getInputSignalSize", 2, 1, true}, {&c.message, "getMessageChar", 0, 1, true},
	} {
		if x.optional && r.mod.ExportedFunction(x.name) == nil {
			continue
		}
		f, err := r.function(x.name, x.params, x.results)
		if err != nil {
			return nil, err
		}
		*x.to = f
	}
	if f := r.mod.ExportedFunction("getVersion"); f != nil {
		v, err := r.call(ctx, f)
		if err != nil {
			return nil, err
		}
		if v != 2 {
			return nil, errs.Mismatch(errs.Unsupported, "start program", "version", "circom 2", fmt.Sprintf("circom %d", v))
		}
	}
	if r.mod.ExportedFunction("getSharedRWMemoryStart") != nil {
		f, err := r.function("getSharedRWMemoryStart", 0, 1)
		if err != nil {
			return nil, err
		}
		if c.window, err = r.call(ctx, f); err != nil {
			return nil, err
		}
		_, err = r.bytes(c.window, fr.Bytes)
		c.direct = err == nil
	}
	length, err := r.function("getFieldNumLen32", 0, 1)
	if err != nil {
		return nil, err
	}
	prime, err := r.function("getRawPrime", 0, 0)
	if err != nil {
		return nil, err
	}
	n, err := r.call(ctx, length)
	if err != nil {
		return nil, err
	}
	if n != fieldWords {
		return nil, errOtherField
	}
	if _, err := r.call(ctx, prime); err != nil {
		return nil, err
	}
	var p [fr.Bytes]byte
	if err := c.get(ctx, p[:]); err != nil {
		return nil, err
	}
	if !bytes.Equal(p[:], modulusBytes()) {
		return nil, errOtherField
	}
	return c, nil
}

// get copies the window.
func (c *calculator2) get(ctx context.Context, to []byte) error {
	if c.direct {
		b, err := c.r.bytes(c.window, fr.Bytes)
		copy(to, b)
		return err
	}
	for j := range uint64(fieldWords) {
		w, err := c.r.call(ctx, c.readWord, j)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint32(to[4*j:], w)
	}
	return nil
}

func (c *calculator2) put(ctx context.Context, value []byte) error {
	if c.direct {
		b, err := c.r.bytes(c.window, fr.Bytes)
		copy(b, value)
		return err
	}
	for j, w := range leWords(value) {
		if _, err := c.r.call(ctx, c.writeWord, uint64(j), uint64(w)); err != nil {
			return err
		}
	}
	return nil
}

func (c *calculator2) wires(ctx context.Context) (int, error) {
	n, err := c.r.call(ctx, c.witnessSize)
	return int(n), err
}

func split(hash uint64) (high, low uint64) { return hash >> 32, hash & 0xffffffff }

// size is how many values signal name takes; 0: there is no such input signal; -1: the program cannot tell.
func (c *calculator2) size(ctx context.Context, name string) (int, error) {
	if c.signalSize == nil {
		return -1, nil
	}
	high, low := split(signalHash(name))
	n, err := c.r.call(ctx, c.signalSize, high, low)
	return int(max(int32(n), 0)), err
}

func (c *calculator2) check(ctx context.Context, in *inputs, names func() []string) error {
	total := 0
	for _, s := range in.signals {
		n, err := c.size(ctx, s.name)
		if err != nil {
			return err
		}
		if n == 0 && s.count() > 0 {
			return in.unknown(s.name)
		}
		if n >= 0 && n != s.count() {
			return in.wrongSize(s.name, n, s.count())
		}
		total += s.count()
	}
	if c.inputSize == nil {
		return nil
	}
	want, err := c.r.call(ctx, c.inputSize)
	if err != nil || int(want) == total {
		return err
	}
	if int(want) < total {
		return in.wrongTotal(int(want), total)
	}
	var missing []string
	for _, name := range names() {
		if n, err := c.size(ctx, name); err == nil && n > 0 && !in.has(name) {
			missing = append(missing, fmt.Sprintf("%q (%d)", name, n))
		}
	}
	return in.missing(missing, int(want), total)
}

func (c *calculator2) calculate(ctx context.Context, in *inputs, names func() []string) error {
	if _, err := c.r.call(ctx, c.init, 0); err != nil {
		return err
	}
	if err := c.check(ctx, in, names); err != nil {
		return err
	}
	for _, s := range in.signals {
		high, low := split(signalHash(s.name))
		for i := range s.count() {
			if err := c.put(ctx, s.value(i)); err != nil {
				return err
			}
			// The last value makes the program compute everything.
			if _, err := c.r.call(ctx, c.setInput, high, low, uint64(i)); err != nil {
				return in.about(err, s.name)
			}
		}
	}
	return nil
}

func (c *calculator2) read(ctx context.Context, first int, buf []byte) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(err, "run program")
	}
	short := context.WithValue(context.WithoutCancel(ctx), runKey{}, c.r)
	window, err := c.r.bytes(c.window, fr.Bytes)
	if err != nil {
		return err
	}
	for i := 0; len(buf) >= fr.Bytes; i++ {
		c.stack[0] = uint64(first + i)
		if err := c.getWitness.CallWithStack(short, c.stack[:1]); err != nil {
			return c.r.failed(ctx, "read witness", err)
		}
		if c.direct {
			copy(buf[:fr.Bytes], window)
		} else if err := c.get(short, buf[:fr.Bytes]); err != nil {
			return err
		}
		buf = buf[fr.Bytes:]
	}
	return nil
}

// Codes of exceptionHandler.
const (
	excSignalNotFound = 1
	excTooManySignals = 2
	excSignalSet      = 3
	excAssert         = 4
	excMemory         = 5
	excArrayIndex     = 6
)

// exception is called by a program that gives up.
func (r *run) exception(code uint32) {
	message := printable(r.message.String())
	e := &errs.Error{Op: "run program", Where: "code " + fmt.Sprint(code), Found: message}
	switch code {
	case excSignalNotFound:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "an input signal of the circuit", "an unknown one"
	case excTooManySignals:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "as many values as the circuit has inputs", "more"
	case excSignalSet:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "each input signal once", "one twice"
	case excAssert:
		e.Class = errs.Unsatisfied
		e.Found = strings.TrimSuffix("an assertion of the circuit failed: "+message, ": ")
		e.Hint = "the inputs are not what the circuit allows; the message names template and line"
	case excMemory:
		e.Class, e.Found = errs.Exhausted, "the program ran out of its own memory"
	case excArrayIndex:
		e.Class, e.Expected, e.Found = errs.InvalidFile, "as many values as the signal has", "another number"
	default:
		e.Class, e.Found = errs.Unsatisfied, strings.TrimSuffix("the program gave up: "+message, ": ")
	}
	r.end(e)
}

// keepMessage takes an error message over, a character a call.
func (r *run) keepMessage(ctx context.Context) {
	c, ok := r.calc.(*calculator2)
	if !ok || c.message == nil {
		return
	}
	if r.message.Len() > 0 {
		r.message.WriteString("; ")
	}
	for range maxMessage {
		out, err := c.message.Call(ctx)
		if err != nil || len(out) == 0 || uint32(out[0]) == 0 {
			return
		}
		if r.message.Len() < 4*maxMessage {
			r.message.WriteByte(byte(out[0]))
		}
	}
}
