// Package circuitgen makes circuits and witnesses of any size, as circom's
// .r1cs and .wtns files, for tests, benchmarks and documentation.
//
// Four kinds of circuit cover what a prover meets:
//
//   - [SHA256]: real SHA-256 compressions, bit by bit in the shapes that circom
//     gives its own hash: nearly every wire is 0 or 1.
//   - [Dense]: a chain of products; every wire is a full-size value.
//   - [Mix]: wires of 0, 1, -1 and full size in chosen shares.
//   - [Tiny]: a given number of rows and public inputs, for the edges of
//     evaluation domains.
//
// A circuit is a small description, not a table: its rows and its witness are
// generated again, in the same order, each time they are asked for. Writing a
// circuit of 2^22 rows therefore takes about one MiB of memory, and the price is a
// second walk over the rows to learn the size of the section that holds them.
// The same description with the same seed gives the same bytes on every machine.
//
// Seeds choose test data. Nothing here is secret, and nothing here may be used
// to make secrets.
package circuitgen

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"

	"github.com/weir-zk/weir/sdk/errs"
)

// Term is one non-zero entry of a constraint row: Coeff times the wire.
type Term struct {
	Wire  uint32
	Coeff fr.Element // Montgomery form
}

// Header gives the sizes of a circuit, as the header section of an .r1cs file
// does. Wires are ordered: the constant one (wire 0), outputs, public inputs,
// private inputs, inner wires.
type Header struct {
	Wires         uint32 // all wires, wire 0 included
	Outputs       uint32
	PublicInputs  uint32
	PrivateInputs uint32
	Constraints   uint32
}

// Public is the number of public wires without the constant one: wires
// 1..Public are outputs and then public inputs.
func (h Header) Public() uint32 { return h.Outputs + h.PublicInputs }

// Domain is the size of the evaluation domain that snarkjs takes for the
// circuit: the smallest power of two that holds all rows, one row for each
// public wire and one for the constant; at least 2.
func (h Header) Domain() uint64 {
	n := uint64(h.Constraints) + uint64(h.Public())
	return 1 << max(1, bits.Len64(n))
}

// Circuit is a deterministic generator of a constraint system A·w ∘ B·w = C·w
// and of one witness w for it.
type Circuit interface {
	// Header gives the sizes. Constraints and Witness yield exactly as many rows and
	// values as it says.
	Header() Header

	// Constraints yields the rows in order until yield returns false. The
	// slices are valid during the call only; one may be empty. No wire occurs
	// twice in a slice, no coefficient is zero, and terms are in no special
	// order.
	Constraints(yield func(a, b, c []Term) bool)

	// Witness yields the value of every wire, from wire 0 on, until yield
	// returns false. The element is valid during the call only and must not be
	// changed.
	Witness(yield func(v *fr.Element) bool)
}

// maxRows bounds the size of a circuit so that every count fits the 32-bit fields
// of the files, wires included.
const maxRows = 1<<31 - 1

// invalid is the error for a parameter of a circuit, or of what was asked of one.
func invalid(where string, expected, found any) error {
	return errs.Mismatch(errs.InvalidArgument, "generate circuit", where, expected, found)
}

// span says what values a parameter may have.
func span(least, most int) string { return fmt.Sprintf("%d to %d", least, most) }

// validate asks a circuit whether its parameters make sense, where it can tell.
func validate(c Circuit) error {
	if v, ok := c.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// checkRows is the common part of the circuits' Validate.
func checkRows(kind string, rows, least int) error {
	if rows < least || rows > maxRows {
		return invalid(kind+" rows", span(least, maxRows), rows)
	}
	return nil
}

// FillDomain gives the number of rows with which a circuit of that many public
// wires fills a domain of 2^log2 rows exactly. It is negative where the public
// wires alone do not fit.
func FillDomain(log2, public int) int { return 1<<log2 - public - 1 }

// PublicValues returns the values of the public wires of c's witness: outputs,
// then public inputs, without the constant one.
func PublicValues(c Circuit) []fr.Element {
	n := int(c.Header().Public())
	out := make([]fr.Element, 0, n)
	i := 0
	c.Witness(func(v *fr.Element) bool {
		if i > n {
			return false
		}
		if i > 0 {
			out = append(out, *v)
		}
		i++
		return true
	})
	return out
}

// corrupted is a circuit with one wrong value in its witness.
type corrupted struct {
	Circuit
	wire uint32
}

// Corrupt returns c with 2 added to the witness value of one wire. A bit is no
// bit any more then. In all circuits of this package the inner wires and the
// outputs occur in a row of their own that such a change breaks, whichever wire is
// taken; a private or public input breaks a row only where one uses it.
// Constraints are those of c.
func Corrupt(c Circuit, wire uint32) Circuit { return corrupted{c, wire} }

// Unsatisfied returns c with a witness that violates at least one row: the last
// wire is corrupted. c must be a circuit of this package with at least one row.
func Unsatisfied(c Circuit) Circuit {
	h := c.Header()
	if h.Constraints == 0 {
		return corrupted{c, h.Wires} // no such wire: refused when written
	}
	return Corrupt(c, h.Wires-1)
}

// Validate refuses a wire that the circuit does not have and the constant wire,
// whose value a reader may refuse before it looks at any row.
func (c corrupted) Validate() error {
	if err := validate(c.Circuit); err != nil {
		return err
	}
	if n := c.Header().Wires; c.wire == 0 || c.wire >= n {
		return invalid("wire to corrupt", span(1, int(n)-1), c.wire)
	}
	return nil
}

// Witness is c's with the one wrong value.
func (c corrupted) Witness(yield func(v *fr.Element) bool) {
	var i uint32
	two := fr.NewElement(2)
	c.Circuit.Witness(func(v *fr.Element) bool {
		if i == c.wire {
			v = new(fr.Element).Add(v, &two)
		}
		i++
		return yield(v)
	})
}

// newRand is the generator of test data for a seed. Each use has its own stream,
// so that two circuits of one seed share no values.
func newRand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// Streams of newRand.
const (
	streamSHA256 = iota + 1
	streamDense
	streamMix
	streamTiny
)

// randomElement returns a field element that looks uniform: 256 random bits are
// reduced, so its distribution is a little uneven, which no test feels.
func randomElement(r *rand.Rand) fr.Element {
	var b [fr.Bytes]byte
	for i := range 4 {
		v := r.Uint64()
		for j := range 8 {
			b[8*i+j] = byte(v >> (8 * j))
		}
	}
	var e fr.Element
	e.SetBytes(b[:])
	return e
}

// constants are the field elements that all circuits use. A circuit makes a set
// for each walk, since consumers see pointers into it.
type constants struct{ zero, one, minusOne, two, minusTwo, four fr.Element }

func newConstants() (k constants) {
	k.one.SetOne()
	k.minusOne.Neg(&k.one)
	k.two.SetUint64(2)
	k.minusTwo.Neg(&k.two)
	k.four.SetUint64(4)
	return k
}
