package model

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/weir-zk/weir/internal/units"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/groth16"
)

// Profile is a machine, and the circuits that are proved on it.
type Profile struct {
	Name     string    `toml:"-"` // of the file, without its ending
	About    string    `toml:"about"`
	Machine  Machine   `toml:"machine"`
	Circuits []Circuit `toml:"circuits"` // at least one; the first is used where nothing says which
}

// Machine is what all circuits have in common.
type Machine struct {
	Device       string `toml:"device"`        // the accelerator's name
	DeviceMemory Bytes  `toml:"device_memory"` // its memory
	Cores        int    `toml:"cores"`         // threads of the processor
	Memory       Bytes  `toml:"memory"`        // of the host
	Base         Bytes  `toml:"base"`          // what the processes take beside keys and partitions, from their start to their end
	Devices      int    `toml:"devices"`       // how many of it; 0: 1
	Link         Bytes  `toml:"link"`          // what goes to one of them in a second; 0: not known, and no bound
	Lanes        int    `toml:"lanes"`         // proofs that a device takes at once
	Exclusive    bool   `toml:"exclusive"`     // a device runs the kernels of one proof at a time, whatever the number of lanes
}

// Circuit is the shape of a circuit for the account, and what one partition of it takes.
type Circuit struct {
	Name        string `toml:"name"`
	Partitions  int    `toml:"partitions"` // of one job
	LogDomain   int    `toml:"log_domain"`
	Wires       int    `toml:"wires"`
	Constraints int    `toml:"constraints"`
	A           int    `toml:"a"` // finite points of A; 0: one a wire
	B           int    `toml:"b"` // of B1 and of B2; 0: one a wire

	Evaluations      int   `toml:"evaluations"`       // how many of a, b, c the prover wants: 3, 2 or 0; each takes 32 bytes a point of the domain
	Witness          Bytes `toml:"witness"`           // the rest of a partition, from its synthesis to its proof
	SynthesisScratch Bytes `toml:"synthesis_scratch"` // the synthesizer's own memory while it works on a partition
	ProverScratch    Bytes `toml:"prover_scratch"`    // the prover's, on the host
	Key              Bytes `toml:"key"`               // of a loaded key, on the host
	DeviceKey        Bytes `toml:"device_key"`        // on the device
	DeviceScratch    Bytes `toml:"device_scratch"`    // what all lanes of a device take of it beside the key

	Synthesis []Load   `toml:"synthesis"`         // how long a synthesis takes that never runs alone; between two entries in proportion, beyond the last as there
	Threads   int      `toml:"synthesis_threads"` // that a synthesis keeps busy, for machines with another number of cores: see Profile.On. 0: 1
	KeyLoad   Duration `toml:"key_load"`          // always as long
	Prepare   Duration `toml:"prepare"`           // on a lane, before the kernels: lanes do this side by side
	Kernels   Duration `toml:"kernels"`           // on the device
	Consumed  Duration `toml:"consumed"`          // of these, until a, b, c are not needed any more; at most Kernels
	Upload    Bytes    `toml:"upload"`            // what goes to the device meanwhile: where its link is slow the kernels wait for it
	Tail      Duration `toml:"tail"`              // on the lane, after the kernels
	Finish    Duration `toml:"finish"`            // after that, when the lane is free
	Jitter    float64  `toml:"jitter"`            // the times of a synthesis or a proof are multiplied by a factor from 1-jitter to 1+jitter

	Failures Failures `toml:"failures"`
}

// Load is a time under a load: At that many at once, one takes Time.
type Load struct {
	At   int      `toml:"at"`
	Time Duration `toml:"time"`
}

// Failures are rates, from 0 to 1, of one attempt.
type Failures struct {
	Synthesis  float64 `toml:"synthesis"`   // a synthesis is lost, and may be tried again
	Prover     float64 `toml:"prover"`      // a proof is lost, and may be tried again
	WrongProof float64 `toml:"wrong_proof"` // a proof does not verify
}

// Bytes is an amount that a profile gives as text, such as "12GiB".
type Bytes int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := units.ParseBytes(string(text))
	*b = Bytes(n)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(units.FormatBytes(int64(b))), nil }

// Duration is a time that a profile gives as text, such as "3.75s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	x, err := time.ParseDuration(string(text))
	if err != nil {
		return errs.Mismatch(errs.InvalidFile, "read time", "", `a time such as "3.75s"`, fmt.Sprintf("%q", text))
	}
	*d = Duration(x)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Seconds is d in seconds.
func (d Duration) Seconds() float64 { return time.Duration(d).Seconds() }

//go:embed profiles/*.toml
var shipped embed.FS

// Profiles are the names of those that are compiled in.
func Profiles() []string {
	list, err := fs.Glob(shipped, "profiles/*.toml")
	if err != nil {
		panic(err) // the pattern is right
	}
	for i := range list {
		list[i] = stem(list[i])
	}
	slices.Sort(list)
	return list
}

func stem(path string) string { return strings.TrimSuffix(filepath.Base(path), ".toml") }

// maxProfile bounds a profile file.
const maxProfile = 1 << 20

// LoadProfile finds a profile by the name of a compiled-in one, or by the path of a file (which has a slash or ends in .toml).
func LoadProfile(name string) (*Profile, error) {
	const op = "load profile"
	if strings.ContainsRune(name, os.PathSeparator) || strings.HasSuffix(name, ".toml") {
		f, err := os.Open(name)
		if err != nil {
			return nil, &errs.Error{Class: errs.ClassOf(err), Op: op, Path: name, Err: errors.Unwrap(err)}
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
		if err != nil {
			return nil, errs.InFile(errs.Wrap(err, op), name)
		}
		if len(text) > maxProfile {
			return nil, errs.Mismatch(errs.InvalidFile, op, "", "at most 1 MiB of TOML", "more").WithPath(name)
		}
		p, err := ParseProfile(stem(name), string(text))
		return p, errs.InFile(err, name)
	}
	text, err := shipped.ReadFile("profiles/" + name + ".toml")
	if err != nil {
		return nil, errs.Mismatch(errs.NotFound, op, "", "one of "+strings.Join(Profiles(), ", ")+", or the path of a .toml file", fmt.Sprintf("%q", name))
	}
	return ParseProfile(name, string(text))
}

// ParseProfile reads the text of a profile. Unknown keys are errors, and so are values that no machine has.
func ParseProfile(name, text string) (*Profile, error) {
	p := &Profile{Name: name}
	if err := decode("read profile", text, p); err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// decode reads TOML into v, strictly.
func decode(op, text string, v any) error {
	md, err := toml.Decode(text, v)
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			e := &errs.Error{Class: errs.InvalidFile, Op: op, Where: fmt.Sprintf("line %d", pe.Position.Line), Expected: "TOML", Found: pe.Message}
			var inner *errs.Error
			if errors.As(err, &inner) {
				e.Expected, e.Found, e.Hint = inner.Expected, inner.Found, inner.Hint
			}
			return e
		}
		return &errs.Error{Class: errs.InvalidFile, Op: op, Err: err}
	}
	if left := md.Undecoded(); len(left) > 0 {
		return errs.New(errs.InvalidFile, op, "unknown key %q", left[0].String())
	}
	return nil
}

// Validate checks that the values can belong to a machine.
func (p *Profile) Validate() error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "read profile", where, expected, found)
	}
	m := &p.Machine
	switch {
	case m.Lanes < 1 || m.Lanes > 64:
		return bad("machine.lanes", "1 to 64", m.Lanes)
	case m.Devices < 0 || m.Devices > 1024:
		return bad("machine.devices", "0 to 1024", m.Devices)
	case m.Cores < 1 || m.Cores > 1<<16:
		return bad("machine.cores", "1 to 65536", m.Cores)
	case m.Memory < 1<<20 || m.Base >= m.Memory:
		return bad("machine.memory", "1MiB or more, and more than machine.base", units.FormatBytes(int64(m.Memory)))
	case len(p.Circuits) == 0:
		return bad("circuits", "at least one table [[circuits]]", 0)
	}
	for i := range p.Circuits {
		c := &p.Circuits[i]
		if err := c.Validate(); err != nil {
			return err
		}
		for _, o := range p.Circuits[:i] {
			if o.Name == c.Name || o.Shape() == c.Shape() {
				return bad("circuits", "names and shapes that differ", fmt.Sprintf("%q and %q", o.Name, c.Name))
			}
		}
	}
	return nil
}

// maxTime bounds every time of a profile.
const maxTime = Duration(24 * time.Hour)

// Validate checks one circuit.
func (c *Circuit) Validate() error {
	bad := func(where string, expected, found any) error {
		return errs.Mismatch(errs.InvalidFile, "read profile", "circuit "+c.Name+", "+where, expected, found)
	}
	switch {
	case c.Name == "":
		return bad("name", "a name", "nothing")
	case c.Partitions < 1 || c.Partitions > 4096:
		return bad("partitions", "1 to 4096", c.Partitions)
	case !slices.Contains([]int{0, 2, 3}, c.Evaluations):
		return bad("evaluations", "0, 2 or 3", c.Evaluations)
	case c.Witness < 64:
		return bad("witness", "64B or more", units.FormatBytes(int64(c.Witness)))
	case len(c.Synthesis) == 0:
		return bad("synthesis", "at least one time", "none")
	case c.Consumed > c.Kernels:
		return bad("consumed", "at most the kernels' "+time.Duration(c.Kernels).String(), time.Duration(c.Consumed))
	case c.Threads < 0 || c.Threads > 1<<16:
		return bad("synthesis_threads", "0 to 65536", c.Threads)
	case c.Jitter < 0 || c.Jitter >= 1:
		return bad("jitter", "0 to below 1", c.Jitter)
	}
	at := 0
	for _, l := range c.Synthesis {
		if l.At <= at || l.Time <= 0 || l.Time > maxTime {
			return bad("synthesis", "times above zero with ascending at, from 1", fmt.Sprintf("at %d %v", l.At, time.Duration(l.Time)))
		}
		at = l.At
	}
	for name, d := range map[string]Duration{"key_load": c.KeyLoad, "prepare": c.Prepare, "kernels": c.Kernels, "consumed": c.Consumed, "tail": c.Tail, "finish": c.Finish} {
		if d < 0 || d > maxTime {
			return bad(name, "0 to 24h", time.Duration(d))
		}
	}
	for name, r := range map[string]float64{"synthesis": c.Failures.Synthesis, "prover": c.Failures.Prover, "wrong_proof": c.Failures.WrongProof} {
		if !(r >= 0 && r <= 1) {
			return bad("failures."+name, "0 to 1", r)
		}
	}
	shape := c.Shape()
	return shape.Validate()
}

// Circuit finds a circuit by name; empty is the first.
func (p *Profile) Circuit(name string) (*Circuit, error) {
	var known []string
	for i := range p.Circuits {
		if name == "" || p.Circuits[i].Name == name {
			return &p.Circuits[i], nil
		}
		known = append(known, p.Circuits[i].Name)
	}
	return nil, errs.Mismatch(errs.NotFound, "profile "+p.Name, "", "one of its circuits "+strings.Join(known, ", "), fmt.Sprintf("%q", name))
}

// Shape is what the engine reads of the circuit's key. Its public inputs are those of the tiny circuit whose proof is checked; a profile's wires are all others.
func (c *Circuit) Shape() groth16.Shape {
	orWires := func(n int) int {
		if n == 0 {
			return c.Wires
		}
		return n
	}
	return groth16.Shape{LogDomain: c.LogDomain, NbWires: c.Wires, NbPublic: tinyPublic, NbConstraints: c.Constraints, NbA: orWires(c.A), NbB: orWires(c.B), NbH: 1<<c.LogDomain - 1, Prepared: true}
}

// EvaluationBytes is the size of a set of a, b, c as the engine makes it.
func (c *Circuit) EvaluationBytes() int64 { return int64(c.Evaluations) * 32 << c.LogDomain }

// OfDevice is what proving takes of a device's memory: the key, and what all lanes take beside it.
func (c *Circuit) OfDevice() int64 { return int64(c.DeviceKey) + int64(c.DeviceScratch) }

// SynthesisAt is how long a synthesis takes with k at once.
func (c *Circuit) SynthesisAt(k int) time.Duration {
	list := c.Synthesis
	if k <= list[0].At {
		return time.Duration(list[0].Time)
	}
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1], list[i]; k <= b.At {
			return time.Duration(float64(a.Time) + float64(b.Time-a.Time)*float64(k-a.At)/float64(b.At-a.At))
		}
	}
	return time.Duration(list[len(list)-1].Time)
}

// OnDevice is how long the kernels of one proof have a device of m: until all that they need has come to it, at least.
func (c *Circuit) OnDevice(m *Machine) time.Duration {
	d := time.Duration(c.Kernels)
	if m.Link > 0 {
		d = max(d, time.Duration(float64(c.Upload)/float64(m.Link)*float64(time.Second)))
	}
	return d
}

// AllLanes is how many proofs all devices take at once.
func (m *Machine) AllLanes() int { return m.Lanes * max(m.Devices, 1) }

// Shrink returns the profile with every size divided by 2^by: the same story in little memory. Times stay.
func (p *Profile) Shrink(by int) *Profile {
	q := *p
	q.Machine.Memory, q.Machine.Base, q.Machine.DeviceMemory = p.Machine.Memory>>by, p.Machine.Base>>by, p.Machine.DeviceMemory>>by
	q.Circuits = slices.Clone(p.Circuits)
	for i := range q.Circuits {
		c := &q.Circuits[i]
		c.LogDomain = max(c.LogDomain-by, 3)
		for _, n := range []*int{&c.Wires, &c.Constraints, &c.A, &c.B} {
			*n >>= by
		}
		c.Wires = max(c.Wires, tinyPublic+2) // the shape stays one that a circuit can have
		c.Constraints = min(c.Constraints, 1<<c.LogDomain-tinyPublic-1)
		for _, b := range []*Bytes{&c.Witness, &c.SynthesisScratch, &c.ProverScratch, &c.Key, &c.DeviceKey, &c.DeviceScratch} {
			*b >>= by
		}
		c.Witness = max(c.Witness, 64)
	}
	return &q
}
