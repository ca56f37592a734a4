package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v2"
)

func TestMain(m *testing.M) {
	// The engine starts this very program for its plugins.
	if len(os.Args) == 4 && os.Args[1] == "plugin" && os.Args[2] == "serve" {
		main()
	}
	testscript.Main(m, map[string]func(){"weir": main, "buggy-weir": func() {
		testCommands = []*cli.Command{{Name: "panic", Action: func(*cli.Context) error { panic("a bug of the test's") }}}
		main()
	}})
}

// TestScripts runs the real main. Each script has a folder of its own; $CIRCOM and $FILECOIN hold the fixtures.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("CIRCOM", filepath.Join(root, "circom"))
			e.Setenv("FILECOIN", filepath.Join(root, "filecoin"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, ".config"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "race":
				return raceDetector, nil
			case "root":
				return os.Geteuid() == 0, nil
			case "tmpfs":
				return canMount(t), nil
			case "hup":
				ignored := signal.Ignored(syscall.SIGHUP)
				if ignored {
					t.Log("SIGHUP is left out: whoever started the tests ignores it")
				}
				return !ignored, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":     exitCode,
			"tmpfs":    mountTmpfs,
			"nothing":  nothingLeft,
			"truncate": truncate,
			"flip":     flip,
			"object":   oneObject,
		},
	})
}

// exitCode is "exit CODE COMMAND ARGS...": it runs the command and compares.
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit code command args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if ee, ok := err.(*exec.ExitError); ok {
		got = strings.TrimPrefix(ee.ProcessState.String(), "exit status ")
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// nothingLeft is "nothing": no socket folder and no temporary file of weir is left, and no process of its plugins.
func nothingLeft(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.Now().Add(5 * time.Second)
	for {
		var left []string
		_ = filepath.Walk(ts.Getenv("WORK"), func(path string, _ os.FileInfo, _ error) error {
			if base := filepath.Base(path); strings.HasPrefix(base, "weir-") || strings.HasSuffix(base, ".tmp") && base != ".tmp" {
				left = append(left, path)
			}
			return nil
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("left behind: %v", left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// truncate is "truncate FILE BYTES".
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(exec.Command("truncate", "-s", args[1], ts.MkAbs(args[0])).Run())
}

// flip is "flip FILE OFFSET": it changes one byte.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	n := 0
	for _, d := range args[1] {
		n = n*10 + int(d-'0')
	}
	b[n] ^= 1
	ts.Check(os.WriteFile(path, b, 0o600))
}
