package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, in string
		code     int
		want     []string
	}{
		{"nothing", "", 1, []string{"0 packages"}},
		{"pass", `{"Action":"pass","Package":"p","Test":"A"}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":1.5}`, 0, []string{"ok    p", "1 tests passed"}},
		{"skip", `{"Action":"output","Package":"p","Test":"A","Output":"=== RUN A\n"}` + "\n" + `{"Action":"output","Package":"p","Test":"A","Output":"    a.go:1: no disk\n"}` + "\n" +
			`{"Action":"skip","Package":"p","Test":"A"}` + "\n" + `{"Action":"pass","Package":"p"}`, 0, []string{"skipped: p A: a.go:1: no disk", "1 skipped"}},
		{"fail", `{"Action":"output","Package":"p","Test":"A","Output":"boom\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"A"}` + "\n" + `{"Action":"fail","Package":"p"}`, 1, []string{"--- failed: p A\nboom", "FAIL  p"}},
		{"build", `{"Action":"build-output","ImportPath":"p","Output":"x.go:1: bad\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"p"}`, 1, []string{"does not build: p\nx.go:1: bad"}},
		{"noise", "go: no such module", 1, []string{"go: no such module"}},
	} {
		var w strings.Builder
		if code := report(strings.NewReader(c.in), &w); code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s", c.name, code, c.code, w.String())
		}
		for _, s := range c.want {
			if !strings.Contains(w.String(), s) {
				t.Errorf("%s: no %q in\n%s", c.name, s, w.String())
			}
		}
	}
}
