package circuit

import (
	"strconv"

	"github.com/consensys/gnark-crypto/ecc/bls12-381/fr"
)

// Var names a variable: input i (0 is the constant one) or auxiliary variable j, each counted in order of allocation. Inputs sort before auxiliary
// variables. The zero value is One. While a witness is computed the Var of a word-level value means nothing: only rows need it.
type Var uint32

const auxFlag = 1 << 31

// One is the constant one.
const One = Var(0)

// Input is input i, 0 being the one.
func Input(i int) Var { return Var(i) }

// Aux is auxiliary variable j.
func Aux(j int) Var { return Var(j) | auxFlag }

// IsInput says whether v is an input or the one.
func (v Var) IsInput() bool { return v&auxFlag == 0 }

// Index is the position among the inputs or among the auxiliary variables.
func (v Var) Index() int { return int(v &^ auxFlag) }

// String is "i3" for input 3 and "a7" for auxiliary variable 7.
func (v Var) String() string {
	if v.IsInput() {
		return "i" + strconv.Itoa(v.Index())
	}
	return "a" + strconv.Itoa(v.Index())
}

// wire is the variable's place in an assignment and in an r1cs.System, where auxiliary variables follow the inputs.
func (v Var) wire(inputs int) int {
	if v.IsInput() {
		return int(v)
	}
	return inputs + v.Index()
}

// Num is an allocated number. While matrices are recorded its Value is computed from whatever the circuit's fields hold, and means nothing.
type Num struct {
	Var   Var
	Value fr.Element
}

// Bool is a constant, an allocated bit, or the negation of an allocated bit. A negation costs nothing: it is a linear expression in the rows that use it.
// The zero value is the constant false.
type Bool struct {
	v     Var
	kind  boolKind
	value bool // of the expression, not of the bit below a negation
}

type boolKind uint8

const (
	boolConst boolKind = iota
	boolIs
	boolNot
)

// Constant is a constant Bool.
func Constant(value bool) Bool { return Bool{value: value} }

// Bit is the Bool of a variable that AllocBits gave.
func Bit(v Var, value bool) Bool { return Bool{v: v, kind: boolIs, value: value} }

// Value is the value of the expression.
func (x Bool) Value() bool { return x.value }

// IsConstant reports a constant.
func (x Bool) IsConstant() bool { return x.kind == boolConst }

// IsNegated reports the negation of an allocated bit.
func (x Bool) IsNegated() bool { return x.kind == boolNot }

// Var is the allocated bit below; One for a constant.
func (x Bool) Var() Var { return x.v }

// Not is the negation.
func (x Bool) Not() Bool {
	x.value = !x.value
	switch x.kind {
	case boolIs:
		x.kind = boolNot
	case boolNot:
		x.kind = boolIs
	}
	return x
}

// String is "0" or "1", "a7", or "!a7".
func (x Bool) String() string {
	switch {
	case x.kind == boolIs:
		return x.v.String()
	case x.kind == boolNot:
		return "!" + x.v.String()
	case x.value:
		return "1"
	}
	return "0"
}
