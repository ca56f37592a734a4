package circom

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

const (
	maxInputDepth  = 64   // arrays and objects inside one another
	maxNumberChars = 2048 // of one number: far beyond any field element
	maxNames       = 20   // names listed in a message
)

// inputs are the values of an input.json. Secret: wipe clears them.
type inputs struct {
	path    string
	signals []*inputSignal
	index   map[string]*inputSignal
}

// inputSignal is one signal with the values of its array in row-major order.
type inputSignal struct {
	name   string
	values []byte // 32 bytes each: plain, little-endian, below r
}

func (s *inputSignal) count() int         { return len(s.values) / fr.Bytes }
func (s *inputSignal) value(i int) []byte { return s.values[i*fr.Bytes : (i+1)*fr.Bytes] }

// size is the memory that the values take.
func (in *inputs) size() int64 {
	n := int64(0)
	for _, s := range in.signals {
		n += int64(cap(s.values)+2*len(s.name)) + 128
	}
	return n
}

func (in *inputs) wipe() {
	for _, s := range in.signals {
		clear(s.values)
	}
}

func (in *inputs) has(name string) bool { return in.index[name] != nil }

// bad is an error about the file.
func (in *inputs) bad(where, expected, found string) *errs.Error {
	return errs.Mismatch(errs.InvalidFile, "read inputs", where, expected, found).WithPath(in.path)
}

func (in *inputs) unknown(name string) error {
	return in.bad("signal "+strconv.Quote(name), "an input signal of the circuit", "a name that it does not have").WithHint("the names are those of the input signals of the main component")
}

func (in *inputs) wrongSize(name string, want, found int) error {
	return in.bad("signal "+strconv.Quote(name), fmt.Sprintf("%d values", want), strconv.Itoa(found))
}

func (in *inputs) wrongTotal(want, found int) error {
	return in.bad("all signals", fmt.Sprintf("%d values", want), strconv.Itoa(found)).WithHint("the file has values for other signals than the circuit's inputs")
}

// missing names the signals that were not given, as far as they are known; want < 0: the number of values is not known either.
func (in *inputs) missing(names []string, want, found int) error {
	if len(names) > maxNames {
		names = append(names[:maxNames:maxNames], "...")
	}
	switch {
	case len(names) > 0:
		return in.bad("all signals", fmt.Sprintf("%d values", want), fmt.Sprintf("%d; no values for %s", found, strings.Join(names, ", ")))
	case want >= 0:
		return in.bad("all signals", fmt.Sprintf("%d values", want), fmt.Sprintf("%d: an input signal is missing", found)).WithHint("with --sym circuit.sym the message names it")
	}
	return in.bad("all signals", "a value for every input", fmt.Sprintf("%d values, which are not all", found))
}

// about names the signal that was being set when the program gave up over the inputs.
func (in *inputs) about(err error, name string) error {
	var e *errs.Error
	if errors.As(err, &e) && e.Class == errs.InvalidFile && e.Path == "" && e.Expected != "" {
		c := *e
		c.Op, c.Path = "read inputs", in.path
		c.Where = "signal " + strconv.Quote(name)
		return &c
	}
	return err
}

// signalHash is the 64-bit FNV-1a hash by which programs know their signals.
func signalHash(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return h
}

// readInputs reads an input.json: an object of signals. A value is an integer, or text of a decimal or 0x-hexadecimal integer, of any size and
// sign (it counts modulo r), or true or false; arrays are flattened in row-major order; objects name the fields of a bus ("bus.field", "bus[2].field").
func readInputs(r io.Reader, path string) (*inputs, error) {
	in := &inputs{path: path, index: map[string]*inputSignal{}}
	d := json.NewDecoder(r)
	d.UseNumber()
	p := inputParser{in: in, d: d}
	t, err := p.token()
	if err == nil && t != json.Delim('{') {
		err = p.bad("an object of signals", "something else")
	}
	if err == nil {
		err = p.object("", 0)
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return in, nil
		}
		err = p.bad("the end of the file", "more")
	}
	in.wipe()
	return nil, err
}

type inputParser struct {
	in  *inputs
	d   *json.Decoder
	num big.Int
}

func (p *inputParser) bad(expected, found string) error {
	return p.in.bad(fmt.Sprintf("offset %d", p.d.InputOffset()), expected, found).WithHint("the file is the input.json that circom's witness programs take")
}

// token reads on; a broken file is an error of class InvalidFile, a failing reader keeps its class.
func (p *inputParser) token() (json.Token, error) {
	t, err := p.d.Token()
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return nil, p.bad("JSON", err.Error())
	case errs.ClassOf(err) != errs.Internal:
		return nil, err
	}
	return nil, p.bad("JSON", err.Error())
}

// object reads the fields of an object whose brace was read.
func (p *inputParser) object(prefix string, depth int) error {
	for p.d.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok || len(key) > 1000 {
			return p.bad("a signal's name", "something else")
		}
		name := key
		if prefix != "" {
			name = prefix + "." + key
		}
		if p.in.has(name) {
			return p.in.bad("signal "+strconv.Quote(name), "each signal once", "it twice")
		}
		if err := p.value(name, name, nil, depth+1); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

// value reads one value of the signal name; index is where in its array.
func (p *inputParser) value(name, signal string, index []int, depth int) error {
	if depth > maxInputDepth || len(name) > 10000 {
		return p.bad(fmt.Sprintf("at most %d arrays and objects inside one another", maxInputDepth), "more")
	}
	t, err := p.token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			for _, i := range index {
				name += fmt.Sprintf("[%d]", i)
			}
			return p.object(name, depth)
		}
		if len(index) == 0 {
			p.signal(signal) // an empty array is a signal too
		}
		for i := 0; p.d.More(); i++ {
			if err := p.value(name, signal, append(index, i), depth+1); err != nil {
				return err
			}
		}
		_, err := p.token()
		return err
	case json.Number:
		return p.number(signal, string(t))
	case string:
		return p.number(signal, t)
	case bool:
		if t {
			return p.number(signal, "1")
		}
		return p.number(signal, "0")
	}
	return p.in.bad("signal "+strconv.Quote(signal), "integers", "null")
}

func (p *inputParser) signal(name string) *inputSignal {
	s := p.in.index[name]
	if s == nil {
		s = &inputSignal{name: name}
		p.in.index[name] = s
		p.in.signals = append(p.in.signals, s)
	}
	return s
}

// number appends the value of text.
func (p *inputParser) number(signal, text string) error {
	s := p.signal(signal)
	var le [fr.Bytes]byte
	if v, err := strconv.ParseUint(text, 10, 64); err == nil && text[0] != '+' {
		for i := range 8 {
			le[i] = byte(v >> (8 * i))
		}
		s.values = append(s.values, le[:]...)
		return nil
	}
	bad := func(found string) error {
		return p.in.bad(fmt.Sprintf("signal %q, value %d", signal, s.count()), "an integer, decimal or 0x-hexadecimal", found).
			WithHint("write large numbers in full, as text: \"12345678901234567890\"")
	}
	if len(text) > maxNumberChars {
		return bad(fmt.Sprintf("%d characters", len(text)))
	}
	digits, base := strings.TrimPrefix(text, "-"), 10
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		digits, base = digits[2:], 16
	}
	// big.Int would take underscores and a second sign.
	if digits == "" || strings.ContainsFunc(digits, func(c rune) bool {
		hex := base == 16 && (c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F')
		return (c < '0' || c > '9') && !hex
	}) {
		return bad("other characters") // not the text itself: it may be a secret with a typing error
	}
	if _, ok := p.num.SetString(digits, base); !ok {
		return bad("other characters")
	}
	if digits != text && text[0] == '-' {
		p.num.Neg(&p.num)
	}
	p.num.Mod(&p.num, fr.Modulus())
	p.num.FillBytes(le[:])
	slices.Reverse(le[:])
	s.values = append(s.values, le[:]...)
	return nil
}

// total is the number of values of all signals.
func (in *inputs) total() int {
	n := 0
	for _, s := range in.signals {
		n += s.count()
	}
	return n
}
