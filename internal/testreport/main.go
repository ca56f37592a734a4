// Command testreport reads the events of "go test -json" and prints what a person wants to know: the output of what failed, every skipped test with its
// reason, and a line for each package. Its exit code is 1 when something failed, or when there was nothing to read.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

func main() { os.Exit(report(os.Stdin, os.Stdout)) }

func report(r io.Reader, w io.Writer) int {
	output := map[string]*strings.Builder{} // of each test and, with an empty name, of its package
	var skipped []string
	packages, failed, passed := 0, 0, 0
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Fprintln(w, in.Text()) // not an event: go itself has something to say
			continue
		}
		if e.Package == "" {
			e.Package = e.ImportPath
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "skip":
			if e.Test != "" {
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(output[key])))
			}
		case "build-fail":
			failed++
			fmt.Fprintf(w, "--- does not build: %s\n%s", e.Package, text(output[key]))
		case "fail":
			failed++
			if e.Test == "" {
				packages++
				fmt.Fprintf(w, "%sFAIL  %-60s %6.1f s\n", text(output[key]), e.Package, e.Elapsed)
			} else {
				fmt.Fprintf(w, "--- failed: %s %s\n%s", e.Package, e.Test, text(output[key]))
			}
		case "pass":
			if e.Test == "" {
				packages++
				fmt.Fprintf(w, "ok    %-60s %6.1f s\n", e.Package, e.Elapsed)
			} else {
				passed++
			}
		}
		if e.Action == "pass" || e.Action == "skip" || e.Action == "fail" {
			delete(output, key)
		}
	}
	for _, s := range skipped {
		fmt.Fprintf(w, "skipped: %s\n", s)
	}
	fmt.Fprintf(w, "%d packages, %d tests passed, %d skipped, %d failures\n", packages, passed, len(skipped), failed)
	if err := in.Err(); err != nil {
		fmt.Fprintln(w, err)
		return 1
	}
	if failed > 0 || packages == 0 {
		return 1
	}
	return 0
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// reason is what a skipped test printed, without the framing lines, on one line.
func reason(b *strings.Builder) string {
	var out []string
	for _, l := range strings.Split(text(b), "\n") {
		l = strings.TrimSpace(l)
		if l != "" && !strings.HasPrefix(l, "=== ") && !strings.HasPrefix(l, "--- ") {
			out = append(out, l)
		}
	}
	if len(out) == 0 {
		return "no reason given"
	}
	return strings.Join(out, " ")
}
