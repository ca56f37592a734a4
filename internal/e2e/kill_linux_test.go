package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// The circuit that is proved while something dies: some seconds on one core.
const victims = 15

// T10. A host that is killed, at any moment, takes its plugins, their sockets and all shared memory with it within five seconds, and leaves no file of a proof.
func TestKilledHost(t *testing.T) {
	w := newWorld(t)
	c := w.dense(victims)
	moments := []struct {
		name, line, stop string
	}{
		{name: "a circuit is being read", line: "plugin started: plugin=circom kind="},
		{name: "a key is being loaded", line: "backend up"},
		{name: "synthesis", line: "BUFFERS[synth_start]"},
		{name: "prove", line: "BUFFERS[prove_start]"},
		{name: "evaluations freed", line: "BUFFERS[abc_freed]"},
		{name: "prove, its plugin stopped", line: "BUFFERS[prove_start]", stop: "cpu"},
	}
	for _, m := range moments {
		t.Run(m.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.start(c.prove()...)
			p.await(m.line)
			stopped := w.plugins(m.stop)
			for _, pid := range stopped {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			s := w.traces()
			if len(s.pids) < 2 || len(s.sockets) == 0 {
				t.Fatalf("%d processes, sockets %v before the kill: nothing to look for", len(s.pids), s.sockets)
			}
			if strings.HasPrefix(m.line, "BUFFERS") && len(s.memory) == 0 {
				t.Fatal("no shared memory before the kill: nothing to look for")
			}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if m.stop != "" {
				// A stopped process sees nothing. Where the host's death orphans its process group the kernel ends it (SIGHUP, SIGCONT: then its
				// sockets stay until the next start); where some ancestor of the session takes it over it stays stopped until it is continued.
				s.sockets = nil
				for _, pid := range stopped {
					if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && err != syscall.ESRCH {
						t.Fatal(err)
					}
				}
			}
			t.Logf("%d processes and %d pieces of shared memory were gone after %v", len(s.pids), len(s.memory), s.gone().Round(time.Millisecond))
			p.want(-int(syscall.SIGKILL))
			if l := w.files(); len(l) > 0 {
				t.Errorf("left beside the proof: %v", l)
			}
			w.proves()
			w.nothing()
		})
	}
	w.run(0, c.prove("--quiet")...)
	w.nothing("proof.json", "public.json")
}

// T12. A plugin that dies or stops in the middle costs the work it had: the job ends with a verified proof, and nothing is left behind.
func TestDeadPlugin(t *testing.T) {
	c := newWorld(t).dense(victims)
	for _, tc := range []struct {
		name   string
		plugin string
		at     string
		signal syscall.Signal
		cause  string // in the log
		slow   bool
	}{
		{"prover killed while it loads the key", "cpu", "backend up", syscall.SIGKILL, "killed by signal 9 (SIGKILL)", false},
		{"prover killed", "cpu", "BUFFERS[prove_start]", syscall.SIGKILL, "killed by signal 9 (SIGKILL)", false},
		{"prover killed when the evaluations are gone", "cpu", "BUFFERS[abc_freed]", syscall.SIGKILL, "killed by signal 9 (SIGKILL)", false},
		{"prover, segmentation fault", "cpu", "BUFFERS[prove_start]", syscall.SIGSEGV, "SIGSEGV: segmentation violation", false},
		{"prover, abort", "cpu", "BUFFERS[prove_start]", syscall.SIGABRT, "SIGABRT: abort", false},
		{"synthesizer killed", "circom", "BUFFERS[synth_start]", syscall.SIGKILL, "killed by signal 9 (SIGKILL)", false},
		{"synthesizer, segmentation fault", "circom", "BUFFERS[synth_start]", syscall.SIGSEGV, "SIGSEGV: segmentation violation", false},
		{"synthesizer, abort", "circom", "BUFFERS[synth_start]", syscall.SIGABRT, "SIGABRT: abort", false},
		{"prover stopped in the middle", "cpu", "BUFFERS[abc_freed]", syscall.SIGSTOP, "no sign of life in 3 pings", true},
		{"synthesizer stopped before it is given its buffers", "circom", "BUFFERS[synth_start]", syscall.SIGSTOP, "no answer from the plugin within", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.slow {
				if testing.Short() {
					t.Skip("-short: it takes 20 s until three answers to the heartbeat are missing")
				}
				t.Parallel()
			}
			w := newWorld(t)
			p := w.start(c.prove("--json")...)
			pid := p.started(tc.plugin)
			kill := func(s syscall.Signal) {
				if err := syscall.Kill(pid, s); err != nil {
					t.Fatal(err)
				}
			}
			if tc.plugin == "circom" {
				// Synthesis is short: the plugin is stopped before it, so that the call surely finds it and is not over too soon.
				p.await("backend up")
				kill(syscall.SIGSTOP)
			}
			p.await(tc.at)
			s := w.traces()
			kill(tc.signal)
			if tc.plugin == "circom" && tc.signal != syscall.SIGSTOP {
				// After SIGKILL it may be gone, and even waited for, already.
				if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && err != syscall.ESRCH {
					t.Fatal(err)
				}
			}
			p.want(0)
			attempts := p.answer().Partitions[0].Attempts
			if tc.at != "backend up" && attempts != 2 {
				t.Errorf("%d attempts, want 2", attempts)
			}
			if !strings.Contains(p.log(), tc.cause) {
				t.Errorf("the log does not tell the cause, %q", tc.cause)
			}
			t.Logf("%d attempts, %v", attempts, p.took.Round(time.Millisecond))
			s.gone()
			w.run(0, "verify", "--quiet", "--vkey", c.key, "--proof", "proof.json", "--public", "public.json")
			w.nothing("proof.json", "public.json")
		})
	}
}

// A prover that dies every time ends the job, with the cause and without a file.
func TestPluginThatAlwaysDies(t *testing.T) {
	w := newWorld(t)
	p := w.start(w.dense(victims).prove()...)
	for i := range 3 {
		pid := p.started("cpu")
		if i == 0 {
			p.await("BUFFERS[prove_start]")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	p.want(5)
	for _, want := range []string{"weir: error: ", "given up after 3 attempts", "killed by signal 9"} {
		if !strings.Contains(p.log(), want) {
			t.Errorf("no %q in what it says", want)
		}
	}
	w.nothing()
}

// T13. A signal or a deadline in the middle of the work: the code says which, and nothing is left, not even for a moment.
func TestStopped(t *testing.T) {
	c := newWorld(t).dense(victims)
	for _, tc := range []struct {
		name, at string
		signal   syscall.Signal
	}{
		{"interrupt while a circuit is read", "plugin started: plugin=circom kind=", syscall.SIGINT},
		{"terminate while a key is loaded", "backend up", syscall.SIGTERM},
		{"interrupt in synthesis", "BUFFERS[synth_start]", syscall.SIGINT},
		{"interrupt in prove", "BUFFERS[prove_start]", syscall.SIGINT},
		{"terminate in prove", "BUFFERS[prove_start]", syscall.SIGTERM},
		{"terminate when the evaluations are gone", "BUFFERS[abc_freed]", syscall.SIGTERM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.start(c.prove()...)
			p.await(tc.at)
			s := w.traces()
			asked := time.Now()
			if err := p.cmd.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			p.want(130)
			t.Logf("ended %v after the signal", time.Since(asked).Round(time.Millisecond))
			if left := s.left(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			w.nothing()
			if !strings.Contains(p.log(), "weir: error: stopped: a signal asked for it") {
				t.Errorf("it says %s", p.log())
			}
			wantZero(t, p)
		})
	}
	t.Run("deadline", func(t *testing.T) {
		whole := newWorld(t).run(0, c.prove()...).took // no machine is as fast as another: a third of what this one needs
		w := newWorld(t)
		p := w.run(124, c.prove("--deadline", (whole/3).String())...)
		t.Logf("ended after %v", p.took.Round(time.Millisecond))
		w.nothing()
		wantZero(t, p)
	})
}
