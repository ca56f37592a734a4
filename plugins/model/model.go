// Package model is a synthesizer and a prover that are made of a time and memory model: a profile says how long each stage of a partition takes and how much
// memory it needs, and the plugins take that long and hold that much, but compute nothing. An engine over them shows what it would do on a machine
// that is not here: for planning, for simulation, for tests of faults.
//
// A profile is a machine and the circuits that it was measured with (profile.go, profiles/*.toml). What is proved is the same true Groth16 proof every time, of
// the tiny circuit of tiny/circuit.circom, so that the engine checks it as it checks any other; only the sizes that the engine accounts for are the profile's.
// A key file of the model (key.go) has the circuit's entry of the profile; nothing else can be proved with it.
//
// Time comes from a Clock. Under a discrete-event clock hours pass in seconds, and as the model decides nothing by chance that its seed does not decide, every run
// gives the same figures. In a plugin process the clock is the real one, made faster (Scaled).
package model

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/slab"
)

// Kind is the kind of request that the model's synthesizer takes.
const Kind = "model"

// Options of a model.
type Options struct {
	Profile *Profile
	// Clock is where time comes from: the system's when nil.
	Clock Clock
	// Seed decides jitter and faults.
	Seed uint64
	// Touch makes the synthesizer write to every page of its buffers, and the prover read them: they are really allocated then, and a buffer that got
	// into the wrong hands is noticed. A pool of virtual buffers cannot be touched.
	Touch bool
	// Version is what the plugins say of themselves.
	Version string
}

// Clock is what the model needs of one.
type Clock interface {
	Now() time.Time
	// AfterFunc runs f on a goroutine of its own after d; stop prevents that unless it has begun.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// Scaled is the system's clock, Speed times as fast.
func Scaled(speed float64) Clock { return scaled{time.Now(), speed} }

type scaled struct {
	begin time.Time
	speed float64
}

func (s scaled) Now() time.Time {
	return s.begin.Add(time.Duration(float64(time.Since(s.begin)) * s.speed))
}

func (s scaled) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(time.Duration(float64(d)/s.speed), f).Stop
}

// model is what synthesizer and prover have in common.
type model struct {
	opts Options
	r    slab.Resolver
}

func newModel(r slab.Resolver, opts Options) *model {
	if opts.Clock == nil {
		opts.Clock = Scaled(1)
	}
	return &model{opts: opts, r: r}
}

// chance decides one attempt at one thing, alike in every run that asks for the same: a synthesis is known by its job and partition, in whatever order they come; a proof
// only by how many the prover has made before.
type chance struct{ rng *rand.Rand }

func (m *model) chance(thing ...uint64) chance {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, thing) // cannot fail
	return chance{rand.New(rand.NewPCG(m.opts.Seed, h.Sum64()))}
}

// jitter is a factor, from 1-j to 1+j.
func (c chance) jitter(j float64) float64 { return 1 + j*(2*c.rng.Float64()-1) }

// happens is true with probability p.
func (c chance) happens(p float64) bool { return c.rng.Float64() < p }

// sleep returns after d, or with an error when ctx ends.
func (m *model) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return errs.Wrap(ctx.Err(), "model")
	}
	over := make(chan struct{})
	stop := m.opts.Clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		stop()
		return errs.Wrap(ctx.Err(), "model")
	}
}

func times(d Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

// ParseOptions reads the options of a plugin process: the name or path of a profile, and perhaps "?" and settings joined by "&": speed (how many times faster than
// time passes), shrink (sizes divided by 2 to this), lanes (instead of the profile's), seed, touch (true or false). "reference?speed=100&shrink=10&touch=true".
func ParseOptions(s string) (Options, error) {
	const op = "read options of the model"
	var opts Options
	name, settings, _ := strings.Cut(s, "?")
	p, err := LoadProfile(name)
	if err != nil {
		return opts, err
	}
	values, err := url.ParseQuery(settings)
	if err != nil {
		return opts, &errs.Error{Class: errs.InvalidArgument, Op: op, Err: err}
	}
	q := *p
	opts.Profile = &q
	for key := range values {
		text, err := values.Get(key), error(nil)
		switch key {
		case "speed":
			var speed float64
			if speed, err = strconv.ParseFloat(text, 64); err == nil && !(speed > 0 && speed <= 1e6) {
				err = strconv.ErrRange
			}
			opts.Clock = Scaled(speed)
		case "shrink":
			var by uint64
			if by, err = strconv.ParseUint(text, 10, 5); err == nil {
				opts.Profile = opts.Profile.Shrink(int(by))
			}
		case "lanes":
			opts.Profile.Machine.Lanes, err = strconv.Atoi(text)
		case "seed":
			opts.Seed, err = strconv.ParseUint(text, 10, 64)
		case "touch":
			opts.Touch, err = strconv.ParseBool(text)
		default:
			return opts, errs.Mismatch(errs.InvalidArgument, op, "", "speed, shrink, lanes, seed or touch", fmt.Sprintf("%q", key))
		}
		if err != nil {
			return opts, &errs.Error{Class: errs.InvalidArgument, Op: op, Where: key, Found: fmt.Sprintf("%q", text), Err: err}
		}
	}
	return opts, opts.Profile.Validate()
}
