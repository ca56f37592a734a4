package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/weir-zk/weir/sdk/errs"
)

const opRead = "read configuration"

// read takes the text of the file. It is decoded to plain values first, so that each key's fate is decided here and not by reflection.
func (c *Config) read(text string) error {
	var doc map[string]any
	if _, err := toml.Decode(text, &doc); err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return &errs.Error{Class: errs.InvalidFile, Op: opRead, Where: fmt.Sprintf("line %d", pe.Position.Line), Expected: "TOML", Found: pe.Message}
		}
		return &errs.Error{Class: errs.InvalidFile, Op: opRead, Err: err}
	}
	at := lines(text)
	for _, key := range sorted(doc) {
		where := at.of("", key)
		switch key {
		case "backend":
			if list, ok := doc[key].([]map[string]any); ok {
				return errs.New(errs.InvalidFile, opRead, "[[backend]]").WithHint("write [[backends]]; backend is the name of the one to use (%d tables)", len(list))
			}
		case "backends", "synthesizers":
			list, ok := doc[key].([]map[string]any)
			if !ok {
				return errs.Mismatch(errs.InvalidFile, opRead, where, fmt.Sprintf("tables [[%s]]", key), describe(doc[key]))
			}
			plugins, err := readPlugins(key, list, at)
			if err != nil {
				return err
			}
			if key == "backends" {
				c.Backends = plugins
			} else {
				c.Synthesizers = plugins
			}
			c.source[key] = "file " + c.Path
			continue
		}
		f := lookup(key)
		if f == nil {
			return unknown(where, key, append(keys(), "backends", "synthesizers"))
		}
		s, err := scalar(f.kind, doc[key])
		if err != nil {
			return errs.Mismatch(errs.InvalidFile, opRead, where+", "+key, err.Error(), describe(doc[key]))
		}
		if err := c.put(*f, s, "file "+c.Path+", "+where); err != nil {
			e := &errs.Error{Class: errs.InvalidFile, Op: opRead, Where: where + ", " + key, Hint: errs.HintOf(err), Err: err}
			var inner *errs.Error
			if errors.As(err, &inner) {
				e.Expected, e.Found, e.Err = inner.Expected, inner.Found, nil
			}
			return e
		}
	}
	return nil
}

func unknown(where, key string, known []string) error {
	e := errs.New(errs.InvalidFile, opRead, "unknown key %q", key)
	e.Where = where
	if near := Nearest(key, known); near != "" {
		return e.WithHint("did you mean %s? \"weir config show\" lists every key", near)
	}
	return e.WithHint("\"weir config show\" lists every key")
}

// scalar turns a TOML value into text if it has the type that the key wants; the error is what was expected.
func scalar(k kind, v any) (string, error) {
	switch x := v.(type) {
	case int64:
		if k == kindInt || k == kindBytes {
			return strconv.FormatInt(x, 10), nil
		}
	case bool:
		if k == kindBool {
			return strconv.FormatBool(x), nil
		}
	case string:
		if k == kindText || k == kindDuration || k == kindBytes {
			return x, nil
		}
	}
	return "", errors.New(map[kind]string{kindInt: "a whole number", kindBytes: `an amount such as "12GiB"`, kindBool: "true or false", kindText: "a string", kindDuration: `a time such as "30s"`}[k])
}

func describe(v any) string {
	switch x := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", x)
	case bool:
		return fmt.Sprint(x)
	case int64, float64:
		return fmt.Sprintf("the number %v", x)
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "tables"
	case []any:
		return "a list"
	}
	return fmt.Sprintf("%v", v)
}

func readPlugins(kind string, list []map[string]any, at lineIndex) ([]Plugin, error) {
	known := []string{"name", "command", "args", "checksum", "env"}
	var out []Plugin
	for i, t := range list {
		section := fmt.Sprintf("%s#%d", kind, i)
		var p Plugin
		for _, key := range sorted(t) {
			where := at.of(section, key)
			text := func(to *string) error {
				s, ok := t[key].(string)
				if !ok {
					return errs.Mismatch(errs.InvalidFile, opRead, where+", "+key, "a string", describe(t[key]))
				}
				*to = s
				return nil
			}
			texts := func(to *[]string) error {
				l, ok := t[key].([]any)
				for _, v := range l {
					s, isText := v.(string)
					ok = ok && isText
					*to = append(*to, s)
				}
				if !ok {
					return errs.Mismatch(errs.InvalidFile, opRead, where+", "+key, "a list of strings", describe(t[key]))
				}
				return nil
			}
			var err error
			switch key {
			case "name":
				err = text(&p.Name)
			case "command":
				err = text(&p.Command)
			case "checksum":
				err = text(&p.Checksum)
			case "args":
				err = texts(&p.Args)
			case "env":
				err = texts(&p.Env)
			default:
				err = unknown(where, key, known)
			}
			if err != nil {
				return nil, err
			}
		}
		where := at.of(section, "")
		bad := func(key, expected, found string) error {
			return errs.Mismatch(errs.InvalidFile, opRead, where+", [["+kind+"]] "+key, expected, fmt.Sprintf("%q", found))
		}
		sum, err := hex.DecodeString(p.Checksum)
		switch {
		case p.Name == "":
			return nil, bad("name", "a name", "")
		case !filepath.IsAbs(p.Command):
			return nil, bad("command", "the absolute path of an executable", p.Command)
		case err != nil || len(sum) != 32:
			e := errs.Mismatch(errs.InvalidFile, opRead, where+", [["+kind+"]] checksum", "the SHA-256 of the executable in hex", fmt.Sprintf("%q", p.Checksum))
			return nil, e.WithHint("run: sha256sum %s", p.Command)
		}
		out = append(out, p)
	}
	return out, nil
}

func sorted(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// lineIndex tells where keys stand, which the TOML package does not. Keys are "section.key"; the n-th table of a list is section "name#n".
type lineIndex map[string]int

func lines(text string) lineIndex {
	at := lineIndex{}
	section, count := "", map[string]int{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "[["):
			name := strings.Trim(strings.SplitN(line, "]", 2)[0], "[ \t\"'")
			section = fmt.Sprintf("%s#%d", name, count[name])
			count[name]++
			at.first(section+".", i+1)
			at.first("."+name, i+1)
		case strings.HasPrefix(line, "["):
			section = strings.Trim(strings.SplitN(line, "]", 2)[0], "[ \t\"'")
			at.first("."+section, i+1)
		default:
			if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
				key, _, _ = strings.Cut(strings.Trim(strings.TrimSpace(key), `"'`), ".")
				at.first(section+"."+key, i+1)
			}
		}
	}
	return at
}

func (l lineIndex) first(key string, line int) {
	if _, ok := l[key]; !ok {
		l[key] = line
	}
}

// of is "line N" for messages.
func (l lineIndex) of(section, key string) string {
	if n, ok := l[section+"."+key]; ok {
		return fmt.Sprintf("line %d", n)
	}
	return "line unknown"
}
