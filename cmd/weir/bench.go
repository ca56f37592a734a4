package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/internal/plots"
	"github.com/weir-zk/weir/plugins/model"
	"github.com/weir-zk/weir/sdk/errs"
)

var benchCommand = &cli.Command{
	Name:  "bench",
	Usage: "prove again and again, and measure time and memory",
	Description: `Jobs are asked for as others are done, --concurrency at once. With --backend model nothing is computed: a profile says how long everything takes and how large
it is, on a machine that is not here, and the same engine runs over it in its own time. docs/bench.md explains the figures.

  weir bench --backend cpu --key k.wkey --circuit c.r1cs --witness w.wtns --proofs 20 --concurrency 4 --plot out.svg
  weir bench --backend model --profile reference --proofs 15 --concurrency 15 --partition-workers 12 --assert 'est_peak_bytes<=budget_bytes'
  weir bench --key k.wkey --witness w.wtns --duration 30m --concurrency 8 --cancel-rate 0.1 --kill-rate 0.01

--key with several --witness is a job of several partitions. Several kinds of job, in turn: as many --key, --circuit and --witness, or --kind for each, such as
  --kind key=k.wkey,circuit=c.r1cs,witness=w.wtns,priority=high,share=3
  --kind filecoin/winningpost-32g,priority=critical

Exit code 1: an --assert does not hold.`,
	Flags: flags([]cli.Flag{
		&cli.StringSliceFlag{Name: "key", Usage: "proving `KEY`; once for each kind of job"},
		&cli.StringSliceFlag{Name: "circuit", Usage: "constraint system `R1CS`, or a circuit of the model's profile; once for each kind"},
		&cli.StringSliceFlag{Name: "witness", Usage: "witness `WTNS`; of one kind once for each partition, of several once for each"},
		&cli.StringSliceFlag{Name: "kind", Usage: "a kind of job: `KEY=VALUE,...`; key, circuit, witness, wasm, input, name, priority, share"},
		&cli.StringFlag{Name: "proofs", Value: "10", Usage: "`N` jobs; with --duration no bound unless it is given"},
		&cli.StringFlag{Name: "concurrency", Value: "1", Usage: "`N` jobs at once"},
		&cli.StringFlag{Name: "duration", Usage: "ask for jobs for this `TIME`, such as 30m"},
		&cli.StringFlag{Name: "warmup", Value: "1", Usage: "`N` jobs of each kind before it begins, which do not count"},
		&cli.StringFlag{Name: "cancel-rate", Value: "0", Usage: "`PART` of the jobs, 0 to 1, that are canceled while they run"},
		&cli.StringFlag{Name: "kill-rate", Value: "0", Usage: "`PART` of the jobs, 0 to 1, during which a plugin process is killed"},
		&cli.StringFlag{Name: "seed", Value: "1", Usage: "`NUMBER` that decides what befalls which job"},
		&cli.StringFlag{Name: "permit-release", Usage: "`WHEN` a permit is given back: freed, sent or synthesized (default: freed)", Category: "engine"},
		&cli.StringFlag{Name: "lanes", Usage: "`N` proofs in work on the backend at once; of the model and of cuda", Category: "engine"},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` or file of the model's profile (default: reference)", Category: "model"},
		&cli.BoolFlag{Name: "real", Usage: "the model as plugin processes, in real memory and real time", Category: "model"},
		&cli.StringFlag{Name: "speed", Value: "20", Usage: "with --real: `N` times faster", Category: "model"},
		&cli.StringFlag{Name: "shrink", Value: "10", Usage: "with --real: sizes divided by 2 to `N`", Category: "model"},
		&cli.StringSliceFlag{Name: "assert", Usage: "`CONDITION` over the names of --json, such as 'provers_peak<=10'; may be repeated"},
		&cli.StringFlag{Name: "plot", Usage: "draw memory, permits, queue and lanes over time: `FILE` .svg, .png or .html"},
		&cli.StringFlag{Name: "trace", Usage: "write a trace for Perfetto (ui.perfetto.dev): `FILE` .json"},
	}, engineFlags()),
	Action: action(bench),
}

const modelBackend = "model"

// bencher is one run of the command.
type bencher struct {
	s          *session
	kinds      []benchKind
	asserts    []*assertion
	recorder   *record.Recorder
	profile    *model.Profile // nil: there is no model
	modelSpec  string         // of the plugin processes
	modelSpeed float64
	lanes      int // 0: the backend's own

	proofs, concurrency, warmup int
	duration                    time.Duration
	cancelRate, killRate        float64
	seed                        uint64
}

// maxTraceSpans is how many steps of partitions a trace has: the last ones of a long run.
const maxTraceSpans = 1 << 16

func bench(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	b := &bencher{s: s}
	if err := b.read(); err != nil {
		return err
	}
	out, err := b.outputs()
	if err != nil {
		return err
	}
	spans := 0
	if s.c.IsSet("trace") {
		spans = maxTraceSpans
	}
	b.recorder = record.New(record.Options{Spans: spans})
	r := newBenchReport()
	r.Config = benchConfig{Proofs: b.proofs, Concurrency: b.concurrency, Duration: b.duration.Seconds(), CancelRate: b.cancelRate, KillRate: b.killRate, Seed: b.seed, Speed: 1, Kinds: b.kinds, Warmup: b.warmup}
	r.Backend, r.Simulated = s.cfg.Backend, s.cfg.Backend == modelBackend && !s.c.Bool("real")
	if b.profile != nil {
		r.Profile = b.profile.Name
	}

	var rec *record.Recording
	var failed error // the first job that failed
	if r.Simulated {
		rec, failed, err = b.simulate(ctx, r)
	} else {
		rec, failed, err = b.run(ctx, r)
	}
	if err != nil {
		return err
	}
	if err := r.judge(b.asserts); err != nil {
		return err
	}
	if err := b.write(out, r, rec); err != nil {
		return err
	}
	return b.tell(r, failed, out)
}

// read reads the flags.
func (b *bencher) read() error {
	c := b.s.c
	if b.s.cfg.Backend == modelBackend || c.IsSet("profile") {
		if err := b.readModel(); err != nil {
			return err
		}
	}
	for _, flag := range []string{"real", "speed", "shrink"} {
		if b.profile == nil && c.IsSet(flag) {
			return usageError("weir bench", "--%s is for --backend model or with --profile", flag)
		}
	}
	if b.s.cfg.Backend == modelBackend && c.IsSet("threads") {
		return usageError("weir bench", "--threads: the machine of profile %s has %d", b.profile.Name, b.profile.Machine.Cores)
	}
	if b.s.cfg.Backend == modelBackend && !c.Bool("real") {
		for _, flag := range []string{"kill-rate", "warmup", "speed", "shrink"} {
			if c.IsSet(flag) {
				return usageError("weir bench", "--%s needs plugin processes: give --real", flag)
			}
		}
	}
	numbers := []struct {
		flag        string
		least, most float64
		whole       bool
		set         func(float64)
	}{
		{"proofs", 1, 1e9, true, func(v float64) { b.proofs = int(v) }},
		{"concurrency", 1, 1e4, true, func(v float64) { b.concurrency = int(v) }},
		{"warmup", 0, 1000, true, func(v float64) { b.warmup = int(v) }},
		{"cancel-rate", 0, 1, false, func(v float64) { b.cancelRate = v }},
		{"kill-rate", 0, 1, false, func(v float64) { b.killRate = v }},
		{"seed", 0, 1 << 53, true, func(v float64) { b.seed = uint64(v) }},
	}
	for _, n := range numbers {
		v, err := benchNumber(c, n.flag, n.least, n.most, n.whole)
		if err != nil {
			return err
		}
		n.set(v)
	}
	if c.IsSet("lanes") {
		v, err := benchNumber(c, "lanes", 1, 64, true)
		if err != nil {
			return err
		}
		b.lanes = int(v)
		if b.profile != nil {
			b.profile.Machine.Lanes = b.lanes
		}
	}
	if c.IsSet("duration") {
		d, err := time.ParseDuration(c.String("duration"))
		if err != nil || d <= 0 {
			return usageError("weir bench", "expected --duration as a number and a unit, such as 90s, 30m or 2h, found %q", c.String("duration"))
		}
		b.duration = d
		if !c.IsSet("proofs") {
			b.proofs = 0
		}
	}
	var err error
	if b.kinds, err = benchKinds(b.s, b.profile); err != nil {
		return err
	}
	names, err := newBenchReport().figures()
	if err != nil {
		return err
	}
	for _, text := range c.StringSlice("assert") {
		a, err := parseAssertion(text, names.names())
		if err != nil {
			return err
		}
		b.asserts = append(b.asserts, a)
	}
	return nil
}

// outputs are the files of --plot and --trace, looked at before the work begins.
func (b *bencher) outputs() (*outputs, error) {
	c := b.s.c
	out := &outputs{t: b.s.terminal, command: commandPath(c)}
	if c.IsSet("plot") {
		if _, err := plots.FormatOf(c.String("plot")); err != nil {
			return nil, err
		}
	}
	for _, flag := range []string{"plot", "trace"} {
		if c.IsSet(flag) && c.String(flag) == "" {
			return nil, usageError("weir bench", "--%s names no file", flag)
		}
		if err := out.add(flag, c.String(flag)); err != nil {
			return nil, err
		}
	}
	return out, out.check(kindInputs(b.kinds)...)
}

// write writes the files.
func (b *bencher) write(out *outputs, r *benchReport, rec *record.Recording) error {
	out.set("trace", rec.WriteTrace)
	out.set("plot", func(w io.Writer) error {
		format, err := plots.FormatOf(b.s.c.String("plot"))
		if err != nil {
			return err
		}
		var text strings.Builder
		r.table(&text)
		f := plots.Figure{Title: r.title(), Recording: rec, Base: r.PurposesPeak["base"], Permits: r.Config.PartitionWorkers, Lanes: r.Lanes, Speed: r.Config.Speed, Text: text.String()}
		if r.Budget != nil {
			f.Budget = *r.Budget
		}
		return plots.Write(w, format, &f)
	})
	if rec.Dropped > 0 && b.s.c.IsSet("trace") {
		b.s.warn("the trace has the last %d steps of partitions; %d before them are not in it", len(rec.Spans), rec.Dropped)
	}
	r.Files = out.paths()
	return out.commit()
}

// tell prints the report. What is wrong with it is told in it and on stderr; then the command fails.
func (b *bencher) tell(r *benchReport, failed error, out *outputs) error {
	var bad *reported
	if broken := r.brokenAsserts(); len(broken) > 0 {
		bad = &reported{err: errors.New("bench: " + strings.Join(broken, "; ")), code: errs.ExitInvalid}
		r.Error = &jsonError{Class: "assertion", Message: oneLine(bad.Error()), ExitCode: bad.code}
	}
	if failed != nil { // this is why figures may be what they are
		bad = &reported{err: errs.Wrap(failed, "bench"), code: errs.ExitCode(failed)}
		r.Error = &jsonError{Class: errs.ClassOf(failed).String(), Message: oneLine(bad.Error()), Hint: errs.HintOf(failed), Retryable: errs.IsRetryable(failed), ExitCode: bad.code}
	}
	r.OK = bad == nil
	switch {
	case b.s.json:
		b.s.object(r)
	case out.onStdout():
		if !b.s.quiet {
			r.table(b.s.err)
		}
	default:
		r.table(sayer{b.s.terminal})
	}
	if bad == nil {
		return nil
	}
	return bad
}

// fromFlag is a setting's value if the command line gives it: what a configuration says of this machine is not the model's.
func fromFlag[T any](s *session, key string, v T) T {
	if strings.HasPrefix(s.cfg.Source(key), "flag ") {
		return v
	}
	var zero T
	return zero
}

// configured says in the report what the engine was given.
func (b *bencher) configured(r *benchReport, permits int, release string) {
	r.Config.PartitionWorkers, r.Config.PermitRelease = permits, release
	if r.Config.PermitRelease == "" {
		r.Config.PermitRelease = host.PermitFreed
	}
}
