package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/ledger"
	"github.com/weir-zk/weir/host/memlimit"
	"github.com/weir-zk/weir/sdk/contract"
	"github.com/weir-zk/weir/sdk/errs"
	"github.com/weir-zk/weir/sdk/plugin"
)

var doctorCommand = &cli.Command{
	Name:  "doctor",
	Usage: "look at the machine and try what a proof needs",
	Description: `Tells the processor's features, the memory limit in force and where it comes from, huge pages, the folders for sockets, and whether each plugin can be
started and answers; of GPUs, what the CUDA backend and its driver say, unless they are switched off. Exit code 0 when everything works, 5 when something does not.`,
	Flags:  flags(),
	Action: action(doctor),
}

// finding is one line of doctor.
type finding struct {
	Topic string `json:"topic"`
	State string `json:"state"` // "ok", "note": works, could be better; "bad"
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
}

func doctor(ctx context.Context, s *session) error {
	if _, err := arguments(s.c); err != nil {
		return err
	}
	var all []finding
	bad := 0
	add := func(list ...finding) {
		for _, f := range list {
			if f.State == "bad" {
				bad++
			}
			s.say("%-4s  %-9s %s\n", f.State, f.Topic, oneLine(f.Text))
			if f.Hint != "" {
				s.say("%17s%s\n", "", oneLine(f.Hint))
			}
			all = append(all, f)
		}
	}
	v, revision, _ := buildVersion()
	add(finding{"version", "ok", strings.TrimSpace(fmt.Sprintf("weir %s %s (%s %s/%s)", v, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)), ""})
	file := s.cfg.Path
	if file == "" {
		file = "none"
	}
	add(finding{"config", "ok", "file " + file, ""})
	add(processor(), memory(s), hugePages())
	add(files()...)
	add(folder("temporary", os.TempDir()))
	if s.cfg.RuntimeDir != "" {
		add(folder("sockets", s.cfg.RuntimeDir))
	}
	card := gpu(ctx, s)
	for _, p := range plugins(s.cfg) {
		if p.Name == host.CUDABackend && p.plugin.Trusted && card.State == "note" {
			continue // it would say the same again, as a problem
		}
		add(handshake(ctx, s, p))
		if ctx.Err() != nil {
			return errs.Wrap(ctx.Err(), "doctor")
		}
	}
	add(card)
	if bad > 0 {
		if s.json {
			s.json = false // the object is told here, with the findings
			s.object(map[string]any{"ok": false, "findings": all})
		}
		return errs.New(errs.Unavailable, "doctor", "%s", count(bad, "problem")).WithHint("see the lines marked bad")
	}
	if s.json {
		s.object(map[string]any{"ok": true, "findings": all})
	}
	return nil
}

func processor() finding {
	f := finding{"processor", "ok", fmt.Sprintf("%d threads (GOMAXPROCS %d)", runtime.NumCPU(), runtime.GOMAXPROCS(0)), ""}
	features, fast := cpuFeatures()
	f.Text += ", " + features
	if !fast {
		f.State, f.Hint = "note", "without ADX and BMI2 field arithmetic is slower; everything works"
	}
	return f
}

func memory(s *session) finding {
	if s.cfg.MemoryBudget > 0 {
		f := finding{"memory", "ok", fmt.Sprintf("budget %v, from the configuration", ledger.Budget(s.cfg.MemoryBudget)), ""}
		if l, err := memlimit.Auto(); err == nil && s.cfg.MemoryBudget > l.Bytes {
			f.State, f.Hint = "note", fmt.Sprintf("the limit in force allows %v (%s): beyond it the kernel kills", ledger.Size(l.Bytes), l)
		}
		return f
	}
	l, err := memlimit.Auto()
	if err != nil {
		return finding{"memory", "bad", err.Error(), errs.HintOf(err)}
	}
	return finding{"memory", "ok", fmt.Sprintf("budget %v (auto: %s)", ledger.Size(l.Bytes), l), ""}
}

func hugePages() finding {
	const base = "/sys/kernel/mm/transparent_hugepage/"
	read := func(name string) string {
		b, err := os.ReadFile(base + name)
		if err != nil {
			return ""
		}
		text := string(b)
		if i, j := strings.IndexByte(text, '['), strings.IndexByte(text, ']'); 0 <= i && i < j {
			return text[i+1 : j]
		}
		return strings.TrimSpace(text)
	}
	heap, shared := read("enabled"), read("shmem_enabled")
	if heap == "" {
		return finding{"hugepages", "note", "this system tells nothing of transparent huge pages", ""}
	}
	f := finding{"hugepages", "ok", fmt.Sprintf("transparent huge pages: memory %s, shared memory %s", heap, shared), ""}
	if shared == "never" || shared == "deny" || shared == "" {
		f.State = "note"
		f.Hint = "buffers would profit from: echo advise > " + base + "shmem_enabled"
	}
	return f
}

func files() []finding {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return nil
	}
	f := finding{"limits", "ok", fmt.Sprintf("open files %d", l.Cur), ""}
	if l.Cur < 256 {
		f.State, f.Hint = "note", "few: every plugin and buffer needs some; raise it with ulimit -n"
	}
	return []finding{f}
}

// folder tries to make a file, and tells the room.
func folder(topic, path string) finding {
	tmp, err := os.CreateTemp(path, "weir-doctor-*")
	if err != nil {
		return finding{topic, "bad", fmt.Sprintf("%s: %v", path, err), "set runtime_dir in the configuration, or TMPDIR, to a folder that can be written to"}
	}
	_ = tmp.Close()
	_ = os.Remove(tmp.Name())
	var st unix.Statfs_t
	text := path + ": can be written to"
	if unix.Statfs(path, &st) == nil {
		text += fmt.Sprintf(", %v free", ledger.Size(int64(st.Bavail)*int64(st.Bsize)))
	}
	return finding{topic, "ok", text, ""}
}

// handshake starts a plugin for real, asks what it is, and stops it.
func handshake(ctx context.Context, s *session, p pluginInfo) finding {
	fail := func(err error) finding {
		return finding{"plugin", "bad", fmt.Sprintf("%s (%s): %v", p.Name, p.From, err), errs.HintOf(err)}
	}
	cfg := plugin.LaunchConfig{Path: p.plugin.Command, Args: p.plugin.Args, Name: p.Name, SHA256: p.plugin.Checksum, Env: p.plugin.Env,
		ContractVersions: []int{contract.Version}, Dir: s.cfg.RuntimeDir, StartTimeout: s.cfg.StartTimeout}
	if p.plugin.Builtin != "" {
		self, err := plugin.SelfPath()
		if err != nil {
			return fail(err)
		}
		cfg.Path, cfg.Args = self, []string{"plugin", "serve", p.plugin.Builtin}
	}
	begin := time.Now()
	proc, err := plugin.Launch(ctx, cfg)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = proc.Stop(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	opts := contract.ClientOptions{Gone: proc.Done(), Kill: func() { _ = proc.Kill("it did not answer") }, CancelTimeout: s.cfg.CancelTimeout}
	what := ""
	if p.Kind == "prover" {
		info, err := contract.NewProverClient(proc.Conn(), opts).Describe(ctx)
		if err != nil {
			return fail(err)
		}
		what = fmt.Sprintf("%s, %s", info.Device, count(info.Lanes, "lane"))
	} else {
		info, err := contract.NewSynthesizerClient(proc.Conn(), opts).Describe(ctx)
		if err != nil {
			return fail(err)
		}
		what = "takes " + strings.Join(info.Kinds, ", ")
	}
	return finding{"plugin", "ok", fmt.Sprintf("%s (%s): %s; started and answered in %s", p.Name, p.From, what, short(time.Since(begin))), ""}
}

// gpu asks the CUDA backend for its library, driver and GPU. It makes no context on any device. A backend that is installed and finds no GPU is a note: proofs are made
// on the processor then, unless somebody asks for the backend by name.
func gpu(ctx context.Context, s *session) finding {
	if !s.cfg.GPU {
		return finding{"gpu", "ok", "off by configuration: nothing was looked for", ""}
	}
	path := host.FindCUDA()
	if path == "" {
		return finding{"gpu", "ok", "no CUDA backend found", ""}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "check")
	var text, said strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &said
	err := cmd.Run()
	found := strings.TrimSpace(path + ": " + strings.TrimSpace(text.String()))
	if err == nil {
		return finding{"gpu", "ok", found, ""}
	}
	f := finding{"gpu", "note", "NO GPU CAN BE USED. " + found, "proofs are made on the processor"}
	if s.cfg.Backend == host.CUDABackend {
		f.State, f.Hint = "bad", "the configured backend is "+host.CUDABackend
	}
	for _, line := range strings.Split(said.String(), "\n") {
		if _, why, ok := strings.Cut(line, "error: "); ok {
			f.Text += "; " + why
		}
		if _, hint, ok := strings.Cut(line, "hint: "); ok {
			f.Hint += "; " + hint
		}
	}
	if said.Len() == 0 {
		f.Text += "; " + err.Error()
	}
	return f
}
