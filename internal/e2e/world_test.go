package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-zk/weir/internal/circuitgen"
	"github.com/weir-zk/weir/internal/testfiles"
)

// top holds the binary and the circuits of this run.
var top string

func TestMain(m *testing.M) {
	var err error
	// Short: sockets lie below it, and their names have a limit.
	if top, err = os.MkdirTemp("", "we"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(top)
	os.Exit(code)
}

// binary builds weir once.
var binary = sync.OnceValues(func() (string, error) {
	exe := filepath.Join(top, "weir")
	cmd := exec.Command("go", "build", "-tags", tags, "-o", exe, "./cmd/weir")
	cmd.Dir = testfiles.Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return exe, nil
})

// world is what one test has to itself: a binary of its own name, by which its processes are known, and its folders.
type world struct {
	t   *testing.T
	bin string
	tmp string // TMPDIR: sockets
	out string // where results go; the working directory
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testfiles.Race {
		t.Skip("tests of whole processes: the race detector sees nothing of another program")
	}
	exe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp(top, "")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, bin: filepath.Join(root, "weir"), tmp: filepath.Join(root, "t"), out: filepath.Join(root, "o")}
	for _, dir := range []string{w.tmp, w.out} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(exe, w.bin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cleanUp(w)
		_ = os.RemoveAll(root)
	})
	return w
}

// process is a running weir and what it has said so far.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	begun  time.Time

	mu    sync.Mutex
	lines []string // of stderr
	seen  int      // by await
	more  chan struct{}
	done  chan struct{} // closed when the process has ended and everything is read
	code  int           // exit code; the negative signal number when one ended it
	took  time.Duration
}

// start runs weir in the background.
func (w *world) start(args ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, cmd: exec.Command(w.bin, args...), more: make(chan struct{}, 1), done: make(chan struct{}), begun: time.Now()}
	p.cmd.Dir = w.out
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "WEIR_") {
			p.cmd.Env = append(p.cmd.Env, e)
		}
	}
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+w.tmp, "WEIR_CONFIG=")
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		r := bufio.NewScanner(stderr)
		r.Buffer(nil, 1<<20)
		for r.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, r.Text())
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
		}
		_ = p.cmd.Wait()
		p.code, p.took = p.cmd.ProcessState.ExitCode(), time.Since(p.begun)
		if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			p.code = -int(s.Signal())
		}
		close(p.done)
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if w.t.Failed() {
			w.t.Logf("weir %s:\n%s", strings.Join(args, " "), p.log())
		}
	})
	return p
}

// run runs weir to its end and wants the exit code.
func (w *world) run(code int, args ...string) *process {
	w.t.Helper()
	p := w.start(args...)
	p.want(code)
	return p
}

// want waits for the end.
func (p *process) want(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(3 * time.Minute):
		p.t.Fatalf("weir does not end:\n%s", p.log())
	}
	if p.code != code {
		p.t.Fatalf("exit code %d, want %d\n%s%s", p.code, code, p.stdout.String(), p.log())
	}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// await waits for the next line of the log that has the text, and returns it.
func (p *process) await(text string) string {
	p.t.Helper()
	timeout := time.After(2 * time.Minute)
	ended := false
	for {
		p.mu.Lock()
		for ; p.seen < len(p.lines); p.seen++ {
			if line := p.lines[p.seen]; strings.Contains(line, text) {
				p.seen++
				p.mu.Unlock()
				return line
			}
		}
		p.mu.Unlock()
		if ended {
			p.t.Fatalf("it ended with %d and never said %q:\n%s", p.code, text, p.log())
		}
		select {
		case <-p.more:
		case <-p.done:
			ended = true
		case <-timeout:
			p.t.Fatalf("it does not say %q:\n%s", text, p.log())
		}
	}
}

// started waits until a plugin is up and returns its process id.
func (p *process) started(plugin string) int {
	p.t.Helper()
	line := p.await("plugin started: plugin=" + plugin + " kind=")
	m := regexp.MustCompile(` pid=(\d+) `).FindStringSubmatch(line)
	if m == nil {
		p.t.Fatalf("no process id in %q", line)
	}
	pid, _ := strconv.Atoi(m[1])
	return pid
}

// answer is what the tests need of `weir prove --json`.
type answer struct {
	OK         bool       `json:"ok"`
	Verified   bool       `json:"verified"`
	Proofs     []string   `json:"proofs"`
	Public     [][]string `json:"public"`
	Partitions []struct {
		Attempts int `json:"attempts"`
	} `json:"partitions"`
	Memory struct {
		Budget  int64            `json:"budget"`
		Peak    int64            `json:"peak_reserved"`
		Purpose map[string]int64 `json:"peak_by_purpose"`
	} `json:"memory"`
}

func (p *process) answer() *answer {
	p.t.Helper()
	a := new(answer)
	if err := json.Unmarshal(p.stdout.Bytes(), a); err != nil {
		p.t.Fatalf("%v in %s", err, p.stdout.String())
	}
	if !a.OK || !a.Verified || len(a.Proofs) == 0 || len(a.Proofs) != len(a.Partitions) {
		p.t.Fatalf("no verified proof in %s", p.stdout.String())
	}
	return a
}

// proves is a small complete run: what a user does next.
func (w *world) proves() {
	w.t.Helper()
	f := func(name string) string { return testfiles.Circom("multiplier", name) }
	w.run(0, "prove", "--quiet", "--key", f("circuit.zkey"), "--witness", f("witness.wtns"), "--proof", "next.json", "--public", "next.public.json")
	w.run(0, "verify", "--quiet", "--vkey", f("vkey.json"), "--proof", "next.json", "--public", "next.public.json")
	for _, name := range []string{"next.json", "next.public.json"} {
		if err := os.Remove(filepath.Join(w.out, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// files are those in the working directory, hidden ones too.
func (w *world) files() []string {
	w.t.Helper()
	return names(w.t, w.out)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// circuit is a dense chain of products with its development key.
type circuit struct{ r1cs, wtns, key string }

var (
	circuitsMu sync.Mutex
	circuits   = map[int]*circuit{}
)

// dense makes the circuit that fills a domain of 2^log rows, once in a run.
func (w *world) dense(log int) *circuit {
	w.t.Helper()
	circuitsMu.Lock()
	defer circuitsMu.Unlock()
	if c := circuits[log]; c != nil {
		return c
	}
	c := w.circuit(fmt.Sprintf("d%d", log), circuitgen.Dense{Rows: circuitgen.FillDomain(log, 1), Seed: 1})
	circuits[log] = c
	return c
}

func (w *world) circuit(name string, g circuitgen.Circuit) *circuit {
	w.t.Helper()
	c := &circuit{key: filepath.Join(top, name+".wkey")}
	var err error
	if c.r1cs, c.wtns, err = circuitgen.WriteFiles(top, name, g); err != nil {
		w.t.Fatal(err)
	}
	w.run(0, "setup", "--quiet", "--seed", "1", "--circuit", c.r1cs, "--key", c.key)
	return c
}

// prove are the arguments of a proof of c with a full log; further ones follow.
func (c *circuit) prove(more ...string) []string {
	return append([]string{"prove", "--log-level", "debug", "--key", c.key, "--witness", c.wtns, "--proof", "proof.json", "--public", "public.json"}, more...)
}
