package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/weir-zk/weir/host"
)

func TestWrapHelp(t *testing.T) {
	const in = "DESCRIPTION:\n   one two three\n   four five six seven eight\n\n     weir prove --key k --proof p\n     zkey  a key of somebody else\n\nOPTIONS:\n   --key KEY  what is proved with, and more\n   --seed S   short\n"
	const want = "DESCRIPTION:\n   one two three four five\n   six seven eight\n\n     weir prove --key k \\\n         --proof p\n     zkey  a key of somebody\n           else\n\nOPTIONS:\n   --key KEY  what is proved\n              with, and more\n   --seed S   short\n"
	if got := wrapHelp(in, 28); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := wrapHelp(want, 80); !strings.Contains(got, "one two three four five six seven eight") {
		t.Errorf("a paragraph that is broken too early does not flow:\n%s", got)
	}
}

// No command's help is wider than a terminal.
func TestHelpWidth(t *testing.T) {
	var check func(cmds []*cli.Command, path string)
	check = func(cmds []*cli.Command, path string) {
		for _, c := range cmds {
			var b bytes.Buffer
			c.HelpName = path + c.Name
			printHelp(&b, cli.CommandHelpTemplate, c)
			if !strings.Contains(b.String(), c.Usage) && len(c.Usage) < 50 {
				t.Errorf("%s: the help lacks the usage:\n%s", c.HelpName, b.String())
			}
			for _, line := range strings.Split(b.String(), "\n") {
				if len(line) > helpWidth {
					t.Errorf("%s: %d columns: %s", c.HelpName, len(line), line)
				}
			}
			check(c.Subcommands, c.HelpName+" ")
		}
	}
	check(testApp().Commands, "weir ")
}

// The stages of a partition add up to its total, with the time before the partitions began.
func TestStagesAddUp(t *testing.T) {
	p := host.PartitionReport{Admission: 1, KeyLoad: 2, Synthesis: 4, Queue: 8, Consume: 16, OnDevice: 32, Finish: 64, Verify: 128, Total: 255}
	short := p
	short.Total = 200
	r := &host.Result{Elapsed: 1255, Partitions: []host.PartitionReport{short, p}}
	open := openTime(r)
	var sum time.Duration
	for _, st := range stagesOf(&p, open) {
		sum += st.d
	}
	if open != 1000 || sum != r.Elapsed {
		t.Errorf("open takes %d, the stages %d, the job %d", open, sum, r.Elapsed)
	}
}

func TestProgressEndsAtAll(t *testing.T) {
	for steps := range 3 {
		var b bytes.Buffer
		p := newProgress(&b, "x", 8)
		for range steps {
			p.step("y")
		}
		p.finish()
		p.end()
		if text := b.String(); !strings.Contains(text, "done 100%") || !strings.HasSuffix(text, "\n") {
			t.Errorf("after %d steps the bar ends with %q", steps, text)
		}
	}
}
