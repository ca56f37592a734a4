package circuits

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// leaf is a value of a JSON text that has no parts: a number, a string, null, or 32 bytes as a list of numbers.
type leaf struct {
	path     string // as errors have it: without the names of variants
	from, to int    // in the text
}

// changed is the text with another value in the leaf's place: a number with its lowest bit flipped, 32 bytes with their first one raised or lowered by one, a string with its
// last character replaced, null by a number.
func (l *leaf) changed(t *testing.T, text []byte) []byte {
	t.Helper()
	value := string(text[l.from:l.to])
	switch c := value[0]; {
	case c == '[':
		first, rest, _ := strings.Cut(value[1:], ",")
		x, err := strconv.Atoi(strings.TrimSpace(first))
		if err != nil {
			t.Fatal(err)
		}
		value = fmt.Sprintf("[%d,%s", x^1, rest)
	case c == '"':
		value = value[:len(value)-2] + `?"`
	case c == 'n':
		value = "1"
	default:
		x, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		value = strconv.FormatUint(x^1, 10)
	}
	return bytes.Join([][]byte{text[:l.from], []byte(value), text[l.to:]}, nil)
}

// leavesOf lists the leaves of a text in their order.
func leavesOf(t *testing.T, text []byte) []leaf {
	t.Helper()
	s := &leafScanner{t: t, text: text, d: json.NewDecoder(bytes.NewReader(text))}
	s.value("")
	if _, err := s.d.Token(); err != io.EOF {
		t.Fatalf("more than one value: %v", err)
	}
	return s.leaves
}

type leafScanner struct {
	t      *testing.T
	text   []byte
	d      *json.Decoder
	leaves []leaf
}

func (s *leafScanner) token() json.Token {
	x, err := s.d.Token()
	if err != nil {
		s.t.Fatal(err)
	}
	return x
}

// value reads a value and says whether it was a number.
func (s *leafScanner) value(path string) bool {
	x := s.token()
	end := int(s.d.InputOffset())
	switch x := x.(type) {
	case json.Delim:
		mark := len(s.leaves)
		n, numbers := 0, true
		for s.d.More() {
			if x == '{' {
				s.value(path + "." + s.token().(string))
			} else if !s.value(fmt.Sprintf("%s[%d]", path, n)) {
				numbers = false
			}
			n++
		}
		s.token()
		if x == '[' && n == 32 && numbers {
			s.leaves = append(s.leaves[:mark], leaf{plainPath(path), end - 1, int(s.d.InputOffset())})
		}
		return false
	case float64:
		from := end
		for from > 0 && s.text[from-1] >= '0' && s.text[from-1] <= '9' {
			from--
		}
		s.leaves = append(s.leaves, leaf{plainPath(path), from, end})
		return true
	case string:
		s.leaves = append(s.leaves, leaf{plainPath(path), end - len(x) - 2, end})
	case nil:
		s.leaves = append(s.leaves, leaf{plainPath(path), end - 4, end})
	default:
		s.t.Fatalf("%s: %v", path, x)
	}
	return false
}

var variants = regexp.MustCompile(`\.(StackedDrg[0-9A-Za-z_]+|data\.(Single|Sub|Top))`)

func plainPath(path string) string {
	path = strings.TrimPrefix(variants.ReplaceAllString(path, ""), ".")
	return strings.ReplaceAll(path, ".path.path", ".path")
}

var numbers = regexp.MustCompile(`\[[0-9]+\]`)

// pattern is a path without its numbers.
func (l *leaf) pattern() string { return numbers.ReplaceAllString(l.path, "[]") }
