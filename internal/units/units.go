// Package units reads amounts of bytes as people write them: "12GiB", "1.5GiB", "1TiB", "800MB", "4096".
package units

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/weir-zk/weir/sdk/errs"
)

// factors are the units. They are compared with their case: "mb" could be anything.
var factors = map[string]int64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
}

// Known lists the units for messages and documentation.
const Known = "B, KiB, MiB, GiB, TiB, PiB (powers of 1024) or KB, MB, GB, TB, PB (powers of 1000)"

// ParseBytes reads a number, whole or with a decimal point, and a unit; white space around and between them is passed over. A fraction of a byte is
// cut off. Errors are of class InvalidArgument and say what to write instead.
func ParseBytes(s string) (int64, error) {
	const op = "read amount of bytes"
	text := strings.TrimSpace(s)
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	number, unit := text[:end], strings.TrimSpace(text[end:])
	bad := func(expected string) *errs.Error {
		return errs.Mismatch(errs.InvalidArgument, op, "", expected, fmt.Sprintf("%q", s))
	}
	if number == "" || len(number) > 40 || strings.Count(number, ".") > 1 || strings.HasPrefix(number, ".") || strings.HasSuffix(number, ".") {
		return 0, bad(`a number and a unit, such as "12GiB"`)
	}
	factor, ok := factors[unit]
	if !ok {
		e := bad("a known unit").WithHint("units are %s", Known)
		if near := nearestUnit(unit); near != "" {
			e = e.WithHint("write %s%s; units are %s", number, near, Known)
		}
		return 0, e
	}
	if unit == "" && strings.Contains(number, ".") {
		return 0, bad("a whole number of bytes, or a unit").WithHint("units are %s", Known)
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, bad("a number and a unit")
	}
	v.Mul(v, new(big.Rat).SetInt64(factor))
	n := new(big.Int).Quo(v.Num(), v.Denom())
	if !n.IsInt64() {
		return 0, bad("less than 8EiB")
	}
	return n.Int64(), nil
}

// nearestUnit guesses what was meant by "gib", "G", "Gb", "gigabyte".
func nearestUnit(unit string) string {
	if unit == "" {
		return ""
	}
	i := strings.IndexByte("kmgtp", unit[0]|0x20)
	if i < 0 {
		return ""
	}
	return []string{"KiB", "MiB", "GiB", "TiB", "PiB"}[i]
}

// FormatBytes writes n exactly, in the largest binary unit that divides it: "12GiB", "1536MiB", "4097B".
func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units)-1 {
		n /= 1024
		i++
	}
	return fmt.Sprintf("%d%s", n, units[i])
}
