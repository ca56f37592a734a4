package host

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// Config is what an engine is made of. The zero value works: EnsureDefaults fills in what is not set.
type Config struct {
	// PartitionWorkers is the number of permits: how many partitions may have their evaluations (a, b, c) alive at once.
	// Default is 2, and one more for every 8 threads.
	PartitionWorkers int
	// Lookahead is how many synthesised partitions may wait for a lane of a backend; the queue has room for
	// max(Lookahead, PartitionWorkers). Default is 1.
	Lookahead int
	// MemoryBudget is the bytes that all large buffers, keys and working memory together may take; NoBudget: no bound. Default, 0, is auto: see package
	// memlimit.
	MemoryBudget int64
	// Threads is how many threads synthesis and proving may use, each. Default, 0, is all of the machine's.
	Threads int
	// CriticalReserve is the bytes of the budget, and with them one of the permits, that only partitions of critical jobs are granted. Default is 0: none.
	CriticalReserve int64
	// PermitRelease says when a permit is given back: PermitFreed, the default, PermitSent or PermitSynthesized.
	PermitRelease string

	// Backend is used by jobs that name none. Default, empty, is the first of Backends that works, and a wrong or lost proof is tried on
	// the next.
	Backend string
	// Backends are the provers. Default is the built-in "cpu".
	Backends []BackendConfig
	// Synthesizers are the circuit front-ends. Default is the built-in "circom".
	Synthesizers []SynthesizerConfig
	// TestRandomness lets backends accept fixed r and s. Proofs made so are not zero-knowledge. For tests only.
	TestRandomness bool

	// MaxAttempts bounds how often one partition is proved when backends die or answer with wrong proofs. Default is 3.
	MaxAttempts int
	// QuarantineAfter is the number of wrong proofs after which a backend gets no more work. Default is 3.
	QuarantineAfter int
	// MaxPartitions bounds the partitions that are accepted and not finished; more are refused (errs.Unavailable). Set-ups too. Default is 10,000.
	MaxPartitions int
	// KeepResults is how many finished jobs are remembered, so that a repeated job id gets its result again. Default is 64;
	// negative keeps none.
	KeepResults int

	// StartTimeout is how long a plugin process may take to start. Default is 30 s.
	StartTimeout time.Duration
	// CancelTimeout is how long a plugin may take to give up a call before its process is killed. Default is 10 s.
	CancelTimeout time.Duration
	// RuntimeDir holds the plugins' sockets. Default is the system's folder for temporary files.
	RuntimeDir string

	// Listener is told of every state change. Default is LogListener(Logger).
	Listener *Listener
	// Logger gets the plugins' output and, through LogListener, the events. Default writes nothing.
	Logger hclog.Logger
	// Clock is where the engine takes its time from. Default is the system's.
	Clock Clock
}

// NoBudget is the MemoryBudget that refuses nothing: the system kills what does not fit.
const NoBudget = ledger.NoBudget

// When a permit is given back. Only the first bounds the sets of evaluations by the permits; the others are what other engines do, and are there to be
// measured.
const (
	PermitFreed       = "freed"       // when the evaluations are freed: at most PartitionWorkers sets are alive
	PermitSent        = "sent"        // when the partition is in the queue for a lane: at most permits, room of the queue and lanes together
	PermitSynthesized = "synthesized" // when synthesis ends: no bound but the memory budget
)

// Plugin says how a plugin process is started.
type Plugin struct {
	// Builtin names a plugin inside this executable; Command is then not used.
	Builtin string
	// Command is the absolute path of an executable, Args its arguments.
	Command string
	Args    []string
	// Checksum is the SHA-256 of the executable in hex. Required unless Trusted.
	Checksum string
	// Trusted says that the command is part of weir's own installation. Other plugins are tenants: buffers that one has seen are never
	// given to another.
	Trusted bool
	// Env are the names of environment variables the plugin inherits beside the standard few.
	Env []string
}

// BackendConfig is one prover: a plugin process, or code in this process (New).
type BackendConfig struct {
	Name   string
	Plugin Plugin
	// New makes a prover in this process; it reads buffers and files through the resolver. It must not keep them after a call.
	New func(slab.Resolver) (contract.Prover, error)
}

// SynthesizerConfig is one circuit front-end.
type SynthesizerConfig struct {
	Name   string
	Plugin Plugin
	New    func(slab.Resolver) (contract.Synthesizer, error)
}

// EnsureDefaults sets every field that has no value to its default and returns c.
func (c *Config) EnsureDefaults() *Config {
	if c.Threads <= 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	if c.PartitionWorkers == 0 {
		c.PartitionWorkers = 2 + c.Threads/8
	}
	if c.Lookahead == 0 {
		c.Lookahead = 1
	}
	if c.PermitRelease == "" {
		c.PermitRelease = PermitFreed
	}
	if len(c.Backends) == 0 {
		c.Backends = BuiltinBackends()
	}
	if len(c.Synthesizers) == 0 {
		c.Synthesizers = BuiltinSynthesizers()
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 3
	}
	if c.QuarantineAfter == 0 {
		c.QuarantineAfter = 3
	}
	if c.MaxPartitions == 0 {
		c.MaxPartitions = 10_000
	}
	if c.KeepResults == 0 {
		c.KeepResults = 64
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 30 * time.Second
	}
	if c.CancelTimeout == 0 {
		c.CancelTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	if c.Listener == nil {
		c.Listener = LogListener(c.Logger)
	}
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	return c
}

var pluginName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// Validate checks the values. Call it after EnsureDefaults.
func (c *Config) Validate() error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidArgument, "configuration", where, expected, found)
	}
	for _, f := range []struct {
		name           string
		v, least, most int
	}{
		{"partition_workers", c.PartitionWorkers, 1, 4096}, {"lookahead", c.Lookahead, 1, 4096}, {"threads", c.Threads, 1, 1 << 16},
		{"max_attempts", c.MaxAttempts, 1, 100}, {"quarantine_after", c.QuarantineAfter, 1, 1 << 20}, {"max_partitions", c.MaxPartitions, 1, 1 << 24},
	} {
		if f.v < f.least || f.v > f.most {
			return bad(f.name, fmt.Sprintf("%d to %d", f.least, f.most), f.v)
		}
	}
	if c.MemoryBudget < 0 {
		return bad("memory_budget", "0 (auto) or a number of bytes", c.MemoryBudget)
	}
	if c.CriticalReserve < 0 {
		return bad("critical_reserve", "a number of bytes", c.CriticalReserve)
	}
	if c.CriticalReserve > 0 && c.PartitionWorkers < 2 {
		return bad("critical_reserve", "2 partition_workers or more: one permit is kept with the bytes", fmt.Sprintf("%d partition_workers", c.PartitionWorkers))
	}
	if !slices.Contains([]string{PermitFreed, PermitSent, PermitSynthesized}, c.PermitRelease) {
		return bad("permit_release", "freed, sent or synthesized", c.PermitRelease)
	}
	seen := map[string]bool{}
	for _, b := range c.Backends {
		if err := checkPlugin("backend", b.Name, b.Plugin, b.New != nil, seen); err != nil {
			return err
		}
	}
	if c.Backend != "" && !seen[c.Backend] {
		return bad("backend", "one of "+strings.Join(names(c.Backends, func(b BackendConfig) string { return b.Name }), ", "), c.Backend)
	}
	seen = map[string]bool{}
	for _, s := range c.Synthesizers {
		if err := checkPlugin("synthesizer", s.Name, s.Plugin, s.New != nil, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkPlugin(kind, name string, p Plugin, inProcess bool, seen map[string]bool) error {
	where := kind + " " + name
	switch {
	case !pluginName.MatchString(name):
		return errs.Mismatch(errs.InvalidArgument, "configuration", kind, "a name of a-z, 0-9, dot, dash, underscore", fmt.Sprintf("%q", name))
	case seen[name]:
		return errs.New(errs.InvalidArgument, "configuration", "%s is defined twice", where)
	case !inProcess && p.Builtin == "" && !filepath.IsAbs(p.Command):
		return errs.Mismatch(errs.InvalidArgument, "configuration", where, "a built-in plugin or the absolute path of a command", fmt.Sprintf("%q", p.Command))
	}
	if !inProcess && p.Builtin == "" && p.Checksum == "" && !p.Trusted {
		return errs.New(errs.InvalidArgument, "configuration", "%s: the plugin %s has no checksum", where, p.Command).WithHint("add the SHA-256 of the executable (sha256sum FILE) to the configuration")
	}
	seen[name] = true
	return nil
}

func names[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = name(x)
	}
	return out
}
