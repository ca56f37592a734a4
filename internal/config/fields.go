package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/sdk/errs"
)

type kind int

const (
	kindInt kind = iota
	kindBytes
	kindBool
	kindText
	kindDuration
)

// field is one scalar key: how it is called, what it means, and how it goes to and from text.
type field struct {
	key   string
	kind  kind
	def   string
	about string
	set   func(c *Config, text string) error
	get   func(c *Config) string
}

func (f *field) env() string { return "WEIR_" + strings.ToUpper(f.key) }

// quoted reports whether the value is a string in TOML.
func (f *field) quoted(text string) bool {
	return f.kind == kindBytes || f.kind == kindText || f.kind == kindDuration
}

var releases = []string{host.PermitFreed, host.PermitSent, host.PermitSynthesized}

// Levels of log_level, from silent to all.
var Levels = []string{"off", "error", "warn", "info", "debug", "trace"}

// fields is the list of keys: everything that a flag, the environment or the file can set. docs/config.md is checked against it.
var fields = []field{
	{"memory_budget", kindBytes, "auto", "bytes that buffers, keys and working memory may take together; auto: what the machine or its container has to give; none: no bound",
		func(c *Config, s string) (err error) {
			switch s {
			case "auto":
				c.MemoryBudget = 0
				return nil
			case "none":
				c.MemoryBudget = host.NoBudget
				return nil
			}
			c.MemoryBudget, err = units.ParseBytes(s)
			if err == nil && c.MemoryBudget == 0 {
				return expected("auto, none, or more than 0 bytes", s)
			}
			return err
		},
		func(c *Config) string {
			switch c.MemoryBudget {
			case 0:
				return "auto"
			case host.NoBudget:
				return "none"
			}
			return units.FormatBytes(c.MemoryBudget)
		}},
	number("partition_workers", "permits: partitions whose evaluations (a, b, c) may be alive at once; 0: 2, and one more for every 8 threads", func(c *Config) *int { return &c.PartitionWorkers }, 0, 4096),
	{"critical_reserve", kindBytes, "0B", "bytes of the budget, and one permit, that only partitions of critical jobs are granted; 0B: none",
		func(c *Config, s string) (err error) { c.CriticalReserve, err = units.ParseBytes(s); return err },
		func(c *Config) string { return units.FormatBytes(c.CriticalReserve) }},
	word("permit_release", "when a permit is given back: freed (with the evaluations), sent (with a place in the queue for a backend) or synthesized; only freed bounds memory by the permits", func(c *Config) *string { return &c.PermitRelease }, func(s string) error {
		if !slices.Contains(releases, s) {
			return expected("one of "+strings.Join(releases, ", "), s)
		}
		return nil
	}).with(host.PermitFreed),
	number("lookahead", "synthesised partitions that may wait for a backend; 0: 1", func(c *Config) *int { return &c.Lookahead }, 0, 4096),
	number("threads", "threads for synthesis and for proving, each; 0: all of the machine's", func(c *Config) *int { return &c.Threads }, 0, 1<<16),
	word("backend", "prover that is used; empty: the first that works", func(c *Config) *string { return &c.Backend }, nil),
	truth("check_witness", "true", "check a witness against the constraints before proving, where the C rows are at hand", func(c *Config) *bool { return &c.CheckWitness }),
	truth("gpu", "true", "look for GPU backends; false: no device is touched or asked", func(c *Config) *bool { return &c.GPU }),
	word("log_level", "what is logged on stderr: "+strings.Join(Levels, ", "), func(c *Config) *string { return &c.LogLevel }, func(s string) error {
		for _, l := range Levels {
			if s == l {
				return nil
			}
		}
		e := expected("one of "+strings.Join(Levels, ", "), s)
		if near := Nearest(s, Levels); near != "" {
			e = e.WithHint("did you mean %s?", near)
		}
		return e
	}).with("warn"),
	word("runtime_dir", "folder for the sockets of plugins; empty: the system's folder for temporary files", func(c *Config) *string { return &c.RuntimeDir }, func(s string) error {
		if s != "" && !filepath.IsAbs(s) {
			return expected("an absolute path", s)
		}
		return nil
	}),
	duration("start_timeout", "30s", "time a plugin has to start", func(c *Config) *time.Duration { return &c.StartTimeout }),
	duration("cancel_timeout", "10s", "time a plugin has to give up a call before its process is killed", func(c *Config) *time.Duration { return &c.CancelTimeout }),
	number("max_attempts", "how often one partition is proved when backends die or answer wrongly; 0: 3", func(c *Config) *int { return &c.MaxAttempts }, 0, 100),
	number("quarantine_after", "wrong proofs after which a backend gets no more work; 0: 3", func(c *Config) *int { return &c.QuarantineAfter }, 0, 1<<20),
	number("max_partitions", "partitions that may be accepted and not finished; 0: 10000", func(c *Config) *int { return &c.MaxPartitions }, 0, 1<<24),
}

func lookup(key string) *field {
	for i := range fields {
		if fields[i].key == key {
			return &fields[i]
		}
	}
	return nil
}

func keys() []string {
	out := make([]string, len(fields))
	for i := range fields {
		out[i] = fields[i].key
	}
	return out
}

func expected(what, found string) *errs.Error {
	return errs.Mismatch(errs.InvalidArgument, "configuration", "", what, fmt.Sprintf("%q", found))
}

func (f field) with(def string) field {
	f.def = def
	return f
}

func number(key, about string, at func(*Config) *int, least, most int) field {
	return field{key, kindInt, "0", about, func(c *Config, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return expected(fmt.Sprintf("a whole number from %d to %d", least, most), s)
		}
		*at(c) = n
		return nil
	}, func(c *Config) string { return strconv.Itoa(*at(c)) }}
}

func word(key, about string, at func(*Config) *string, check func(string) error) field {
	return field{key, kindText, "", about, func(c *Config, s string) error {
		if check != nil {
			if err := check(s); err != nil {
				return err
			}
		}
		*at(c) = s
		return nil
	}, func(c *Config) string { return *at(c) }}
}

func truth(key, def, about string, at func(*Config) *bool) field {
	return field{key, kindBool, def, about, func(c *Config, s string) (err error) {
		*at(c), err = ParseBool(s)
		return err
	}, func(c *Config) string { return strconv.FormatBool(*at(c)) }}
}

// ParseBool reads a switch: "0", "false", "no", "off" and nothing are off; "1", "true", "yes", "on" are on.
func ParseBool(s string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "0", "false", "no", "off", "":
		return false, nil
	case "1", "true", "yes", "on":
		return true, nil
	}
	return false, expected("true or false", s)
}

func duration(key, def, about string, at func(*Config) *time.Duration) field {
	return field{key, kindDuration, def, about, func(c *Config, s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 || d > 24*time.Hour {
			return expected("a time up to 24h, such as 500ms, 30s, 2m", s)
		}
		*at(c) = d
		return nil
	}, func(c *Config) string { return at(c).String() }}
}
