package main

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/internal/config"
	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/sdk/errs"
)

// figures are the numbers of a report by their names in its JSON, the names of objects in front: "s_per_proof.mean". nil: the figure is null, there is no value.
type figures map[string]*float64

// figuresOf takes the numbers out of what v is as JSON. Lists and texts have none; true is 1, false is 0.
func figuresOf(v any) (figures, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, &errs.Error{Class: errs.Internal, Op: "read report", Err: err}
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, &errs.Error{Class: errs.Internal, Op: "read report", Err: err}
	}
	out := figures{}
	out.add("", tree)
	return out, nil
}

func (f figures) add(prefix string, tree map[string]any) {
	for name, v := range tree {
		name = prefix + name
		switch v := v.(type) {
		case map[string]any:
			f.add(name+".", v)
		case float64:
			f[name] = &v
		case bool:
			n := 0.0
			if v {
				n = 1
			}
			f[name] = &n
		case nil:
			f[name] = nil
		}
	}
}

func (f figures) names() []string {
	out := make([]string, 0, len(f))
	for n := range f {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// operand is one side of an assertion: a figure's name, or a number.
type operand struct {
	name   string
	number float64
}

// assertion is a condition over a report: two operands and a comparison.
type assertion struct {
	text        string
	left, right operand
	op          string
}

var assertionForm = regexp.MustCompile(`^\s*([^<>=!\s]+)\s*(<=|>=|==|!=|<|>|=)\s*([^<>=!\s]+)\s*$`)

var comparisons = map[string]func(a, b float64) bool{
	"<":  func(a, b float64) bool { return a < b },
	"<=": func(a, b float64) bool { return a <= b },
	">":  func(a, b float64) bool { return a > b },
	">=": func(a, b float64) bool { return a >= b },
	"==": func(a, b float64) bool { return a == b },
	"=":  func(a, b float64) bool { return a == b },
	"!=": func(a, b float64) bool { return a != b },
}

// parseAssertion reads "provers_peak<=10" or "est_peak_bytes<=budget_bytes". A number may have a unit of bytes or be a percentage.
func parseAssertion(text string, names []string) (*assertion, error) {
	m := assertionForm.FindStringSubmatch(text)
	if m == nil {
		return nil, usageError("weir bench", "expected --assert NAME<=VALUE (or >=, <, >, ==, !=), found %q", text)
	}
	a := &assertion{text: strings.TrimSpace(text), op: m[2]}
	var err error
	if a.left, err = parseOperand(m[1], names); err != nil {
		return nil, err
	}
	if a.right, err = parseOperand(m[3], names); err != nil {
		return nil, err
	}
	if a.left.name == "" && a.right.name == "" {
		return nil, usageError("weir bench", "--assert %q has no name of a figure", text)
	}
	return a, nil
}

func parseOperand(text string, names []string) (operand, error) {
	if slices.Contains(names, text) {
		return operand{name: text}, nil
	}
	if c := text[0]; c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' {
		number, percent := strings.CutSuffix(text, "%")
		v, err := strconv.ParseFloat(number, 64)
		switch {
		case err == nil && !math.IsInf(v, 0) && percent:
			return operand{number: v / 100}, nil
		case err == nil && !math.IsInf(v, 0):
			return operand{number: v}, nil
		}
		n, berr := units.ParseBytes(text)
		if berr != nil {
			return operand{}, usageError("weir bench", "expected a number, a percentage or an amount of bytes in --assert, found %q", text)
		}
		return operand{number: float64(n)}, nil
	}
	e := errs.New(errs.InvalidArgument, "weir bench", "--assert: there is no figure %q; the figures are %s", text, strings.Join(names, ", "))
	if near := config.Nearest(text, names); near != "" {
		return operand{}, e.WithHint("did you mean %s?", near)
	}
	return operand{}, e.WithHint("weir bench --json prints all of them")
}

// verdict is an assertion about one report.
type verdict struct {
	Assert string   `json:"assert"`
	Holds  bool     `json:"holds"`
	Left   *float64 `json:"left"` // null: the figure has no value
	Right  *float64 `json:"right"`
	// Why is what a person reads when it does not hold.
	Why string `json:"why,omitempty"`
}

// check compares. A figure without a value fulfils nothing.
func (a *assertion) check(f figures) verdict {
	v := verdict{Assert: a.text, Left: a.left.in(f), Right: a.right.in(f)}
	if v.Holds = v.Left != nil && v.Right != nil && comparisons[a.op](*v.Left, *v.Right); v.Holds {
		return v
	}
	var is []string
	for _, o := range []operand{a.left, a.right} {
		if o.name != "" {
			is = append(is, o.name+" is "+figureText(o.name, o.in(f)))
		}
	}
	v.Why = fmt.Sprintf("%s does not hold: %s", a.text, strings.Join(is, ", "))
	return v
}

func (o *operand) in(f figures) *float64 {
	if o.name == "" {
		return &o.number
	}
	return f[o.name]
}

func figureText(name string, v *float64) string {
	switch {
	case v == nil:
		return "unknown"
	case strings.HasSuffix(name, "_bytes"):
		return fmt.Sprintf("%.0f (%v)", *v, ledger.Size(*v))
	}
	return strconv.FormatFloat(*v, 'g', 8, 64)
}
