package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"github.com/weir-zk/weir/sdk/errs"
)

// term is where weir talks. Rules: results go to stdout, everything else to stderr; each failure is one line "weir: error: ..." and, where there is one, a line
// "weir: hint: ..."; no colours; nothing that moves unless stderr is a terminal; with --json stdout has exactly one object.
type terminal struct {
	out    *checked
	err    io.Writer
	errTTY bool
	json   bool // --json
	quiet  bool // --quiet

	engines atomic.Int32 // that are at work
	aside   sync.Map     // names of files being written, which are not in their places yet
}

func newTerm(stdout, stderr *os.File) *terminal {
	return &terminal{out: &checked{w: stdout}, err: stderr,
		errTTY: term.IsTerminal(int(stderr.Fd())) && os.Getenv("TERM") != "dumb"}
}

// checked keeps the first error of a writer: fmt's functions are used without looking at theirs, and fail asks at the end.
type checked struct {
	w   io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	if c.err != nil {
		return len(b), nil
	}
	_, c.err = c.w.Write(b)
	return len(b), nil
}

// exitPipe is what a shell reports for a program that SIGPIPE ended.
const exitPipe = 128 + int(syscall.SIGPIPE)

// fail tells err, nil too, and returns the exit code.
func (t *terminal) fail(err error) int {
	if err == nil && t.out.err != nil {
		if errors.Is(t.out.err, syscall.EPIPE) {
			return exitPipe // the reader has what it wanted
		}
		err = stdoutError(t.out.err)
	}
	if err == nil {
		return errs.ExitOK
	}
	code := errs.ExitCode(err)
	var told *reported
	if errors.As(err, &told) {
		code = told.code
	}
	message, hint := oneLine(err.Error()), errs.HintOf(err)
	fmt.Fprintf(t.err, "weir: error: %s\n", message)
	if hint != "" {
		fmt.Fprintf(t.err, "weir: hint: %s\n", oneLine(hint))
	}
	if t.json && t.out.err == nil && told == nil {
		t.object(map[string]any{"ok": false, "error": jsonError{errs.ClassOf(err).String(), message, pathOf(err), hint, errs.IsRetryable(err), code}})
	}
	return code
}

// reported is a failure that the command has printed the object of --json for, with the code it exits with.
type reported struct {
	err  error
	code int
}

func (r *reported) Error() string { return r.err.Error() }

// Unwrap gives the failure itself.
func (r *reported) Unwrap() error { return r.err }

// jsonError is a failure as --json tells it.
type jsonError struct {
	Class     string `json:"class"`
	Message   string `json:"message"`
	Path      string `json:"path,omitempty"`
	Hint      string `json:"hint,omitempty"`
	Retryable bool   `json:"retryable"`
	ExitCode  int    `json:"exit_code"`
}

func stdoutError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	class := errs.ClassOf(err)
	if class == errs.Internal {
		class = errs.Unavailable
	}
	return &errs.Error{Class: class, Op: "write", Path: "stdout", Err: err}
}

func pathOf(err error) string {
	for {
		var e *errs.Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Path != "" {
			return e.Path
		}
		err = e.Err
	}
}

// oneLine keeps a message on one line and free of control characters: parts of it may come from files.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, strings.TrimSpace(s))
}

// object prints v as the JSON object of --json.
func (t *terminal) object(v any) {
	e := json.NewEncoder(t.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil && t.out.err == nil {
		t.out.err = err
	}
}

// say prints a result for people; nothing with --json or --quiet.
func (t *terminal) say(format string, args ...any) {
	if !t.json && !t.quiet {
		fmt.Fprintf(t.out, format, args...)
	}
}

// warn prints a warning, also with --quiet.
func (t *terminal) warn(format string, args ...any) {
	fmt.Fprintf(t.err, "weir: warning: %s\n", oneLine(fmt.Sprintf(format, args...)))
}

// stack shows where a bug is.
func (t *terminal) stack(b []byte) { _, _ = t.err.Write(b) }
