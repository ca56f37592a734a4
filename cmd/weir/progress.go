package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"
)

// progress is a bar on stderr. Without a terminal, or where a log would run through it, it is nothing. Safe for concurrent use.
type progress struct {
	mu   sync.Mutex
	bar  *progressbar.ProgressBar
	done int
	most int
}

// progress starts a bar of so many steps.
func (s *session) progress(title string, steps int) *progress {
	if !s.errTTY || s.quiet || s.log.IsInfo() {
		return &progress{}
	}
	return newProgress(s.err, title, steps)
}

func newProgress(w io.Writer, title string, steps int) *progress {
	return &progress{most: steps, bar: progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(title), progressbar.OptionSetWidth(20),
		progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionOnCompletion(func() { fmt.Fprintln(w) }), progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "=", SaucerHead: ">", SaucerPadding: " ", BarStart: "[", BarEnd: "]"}))}
}

// step goes one step on; more steps than announced (a partition that is proved again) wait at the end.
func (p *progress) step(title string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	p.bar.Describe(title)
	if p.done < p.most-1 {
		p.done++
		_ = p.bar.Add(1)
	}
}

// set goes to a fraction of the whole.
func (p *progress) set(title string, fraction float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	p.bar.Describe(title)
	if n := int(fraction * float64(p.most)); n > p.done && n < p.most {
		p.done = n
		_ = p.bar.Set(n)
	}
}

// finish ends the bar at 100 %; it stays on the screen.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Describe("done")
		_ = p.bar.Finish()
		p.bar = nil
	}
}

// end takes a bar away that has not finished.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
