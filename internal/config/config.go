// Package config finds, reads and merges weir's configuration. A value comes from the flag of a command, else from the environment
// (WEIR_ and the key in capitals), else from the one configuration file, else from its default. docs/config.md is written for users; the table
// in fields.go is the one list of keys.
//
// The file is TOML and read strictly: an unknown key, a value of another type and an unknown unit are errors that name the line.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
)

// Config is the effective configuration. Zero numbers mean that the engine chooses.
type Config struct {
	MemoryBudget     int64 // bytes; 0: auto; host.NoBudget: none
	CriticalReserve  int64 // bytes of it
	PartitionWorkers int
	Lookahead        int
	PermitRelease    string
	Threads          int
	Backend          string
	CheckWitness     bool
	GPU              bool
	LogLevel         string
	RuntimeDir       string
	StartTimeout     time.Duration
	CancelTimeout    time.Duration
	MaxAttempts      int
	QuarantineAfter  int
	MaxPartitions    int
	Backends         []Plugin // before the built-in ones
	Synthesizers     []Plugin

	// Path is the file that was read; empty: none.
	Path string
	// Warnings are for the user: files that were looked for and cannot be read.
	Warnings []string

	source map[string]string // of each key that is not at its default
}

// Plugin is a [[backend]] or [[synthesizer]] of the file.
type Plugin struct {
	Name     string
	Command  string
	Args     []string
	Checksum string
	Env      []string
}

// Value is one setting for people.
type Value struct {
	Key    string // as in the file
	Text   string
	Source string // "default", "file PATH, line N", "environment WEIR_KEY", "flag --key"
	About  string
	Quoted bool // a string in TOML
}

// EnvPath is the variable that names the configuration file. Set and empty: no file is read.
const EnvPath = "WEIR_CONFIG"

// Options of Load. Getenv and the like are given so that tests need no process of their own.
type Options struct {
	Path      string                      // of the --config flag; empty: search
	LookupEnv func(string) (string, bool) // default os.LookupEnv
	Flags     map[string]string           // key of a setting to the text given on the command line
}

// SearchPaths are the places that are looked at when neither the flag nor WEIR_CONFIG names a file, in order. The working directory is not among
// them: a configuration names programs to be started.
func SearchPaths() []string {
	var out []string
	if dir, err := os.UserConfigDir(); err == nil {
		out = append(out, filepath.Join(dir, "weir", "weir.toml"))
	}
	return append(out, "/etc/weir/weir.toml")
}

// Load finds the file, reads it, and puts environment and flags over it.
func Load(opt Options) (*Config, error) {
	if opt.LookupEnv == nil {
		opt.LookupEnv = os.LookupEnv
	}
	c := &Config{source: map[string]string{}}
	for _, f := range fields {
		if err := f.set(c, f.def); err != nil {
			return nil, errs.Wrap(err, "default of "+f.key)
		}
	}
	text, err := c.find(opt)
	if err != nil {
		return nil, err
	}
	if c.Path != "" {
		if err := c.read(text); err != nil {
			return nil, errs.InFile(err, c.Path)
		}
	}
	for _, f := range fields {
		if v, ok := opt.LookupEnv(f.env()); ok && (v != "" || f.kind == kindBool) {
			if err := c.put(f, v, "environment "+f.env()); err != nil {
				return nil, err
			}
		}
	}
	keys := make([]string, 0, len(opt.Flags))
	for k := range opt.Flags {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		f := lookup(k)
		if f == nil {
			return nil, errs.New(errs.Internal, "configuration", "a flag sets the unknown key %q", k)
		}
		if err := c.put(*f, opt.Flags[k], "flag --"+strings.ReplaceAll(k, "_", "-")); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// find sets Path and returns the file's text.
func (c *Config) find(opt Options) (string, error) {
	named, from := opt.Path, "flag --config"
	if named == "" {
		v, ok := opt.LookupEnv(EnvPath)
		if ok && v == "" {
			return "", nil
		}
		named, from = v, "environment "+EnvPath
	}
	if named != "" {
		text, err := readFile(named)
		if err != nil {
			return "", errs.Wrap(err, "configuration named by "+from)
		}
		c.Path = named
		return text, nil
	}
	for _, p := range SearchPaths() {
		text, err := readFile(p)
		if errs.Is(err, errs.NotFound) {
			continue
		}
		if errs.Is(err, errs.InvalidFile) {
			return "", err
		}
		if err != nil { // nobody named it: a folder of another user, or a home that is none
			if !errors.Is(err, syscall.ENOTDIR) {
				c.Warnings = append(c.Warnings, fmt.Sprintf("%v; going on without it. %s names another file, or none when it is empty", err, EnvPath))
			}
			continue
		}
		c.Path = p
		return text, nil
	}
	return "", nil
}

// maxFile bounds a configuration file.
const maxFile = 1 << 20

func readFile(path string) (string, error) {
	const op = "read configuration"
	// O_NONBLOCK: opening a pipe must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errs.New(errs.NotFound, op, "no such file").WithPath(path)
	}
	var b []byte
	if err == nil {
		defer f.Close()
		var st fs.FileInfo
		if st, err = f.Stat(); err == nil {
			if err := fitsConfig(st, path); err != nil {
				return "", err
			}
			b, err = io.ReadAll(io.LimitReader(f, maxFile))
		}
	}
	if err != nil {
		var pe *fs.PathError
		class := errs.ClassOf(err)
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return "", &errs.Error{Class: class, Op: op, Path: path, Err: err}
	}
	return string(b), nil
}

// fitsConfig refuses what is no file, and what is too large for a configuration. /dev/null is an empty file.
func fitsConfig(st fs.FileInfo, path string) error {
	const op = "read configuration"
	switch {
	case st.IsDir():
		return errs.Mismatch(errs.InvalidArgument, op, "", "a file", "a directory").WithPath(path)
	case !st.Mode().IsRegular() && st.Mode()&fs.ModeCharDevice == 0:
		return errs.Mismatch(errs.InvalidArgument, op, "", "a file", "a pipe or device").WithPath(path)
	case st.Size() > maxFile:
		return errs.Mismatch(errs.InvalidFile, op, "size", fmt.Sprintf("at most %d bytes", maxFile), st.Size()).WithPath(path)
	}
	return nil
}

// put sets a scalar from text.
func (c *Config) put(f field, text, source string) error {
	if err := f.set(c, text); err != nil {
		var e *errs.Error
		if errors.As(err, &e) && e == err {
			e.Op, e.Where = "configuration", strings.TrimPrefix(source+", "+f.key, ", ")
		}
		return err
	}
	c.source[f.key] = source
	return nil
}

// Source tells where the value of a setting comes from, as Value does.
func (c *Config) Source(key string) string {
	if s := c.source[key]; s != "" {
		return s
	}
	return "default"
}

// Values lists every setting but the plugins, in the order of the documentation.
func (c *Config) Values() []Value {
	var out []Value
	for _, f := range fields {
		text := f.get(c)
		out = append(out, Value{f.key, text, c.Source(f.key), f.about, f.quoted(text)})
	}
	return out
}

// UnknownEnv lists variables that look like settings and are none, with the nearest that is; other programs' own uses of the prefix are in allowed.
func UnknownEnv(environ []string) map[string]string {
	out := map[string]string{}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		key, ok := strings.CutPrefix(name, "WEIR_")
		if !ok || name == EnvPath || strings.HasPrefix(name, "WEIR_PLUGIN") || strings.HasPrefix(name, "WEIR_TEST") || name == "WEIR_SHARED" {
			continue
		}
		key = strings.ToLower(key)
		if lookup(key) == nil {
			near := Nearest(key, keys())
			if near != "" {
				near = "WEIR_" + strings.ToUpper(near)
			}
			out[name] = near
		}
	}
	return out
}

// Nearest returns the candidate that word was probably meant to be, or nothing.
func Nearest(word string, candidates []string) string {
	best, least := "", 1+len(word)/3
	if len(word) > 60 {
		return ""
	}
	for _, c := range candidates {
		if d := distance(word, c); d <= least && (best == "" || d < least) {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap (optimal string alignment).
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
