package main

import (
	"os"
	"time"

	"github.com/weir-zk/weir/host"
	"github.com/weir-zk/weir/host/record"
	"github.com/weir-zk/weir/internal/procmem"
)

// How often memory is measured: the kernel walks all pages for it, which holds up those who map more, so it gets a twentieth of the time, unless that would be too seldom.
const (
	sampleEvery  = 200 * time.Millisecond
	sampleShare  = 20
	sampleSeldom = 2 * time.Second
)

// memoryWatch measures what the system says that weir and its plugins take, beside what the account says at the same time.
type memoryWatch struct {
	e        *host.Engine
	recorder *record.Recorder
	base     int64 // of idle processes; 0: not known
	quit     chan struct{}
	done     chan struct{}

	// Final when done is closed.
	account      int64 // most that was charged or idle in the pool
	shared       int64 // most shared memory that had pages
	sharedSlabs  int64 // size of all slabs at that moment
	peak         int64
	stable       int64 // most that was measured while the account did not change
	stableAsked  int64 // the account then
	samplesTaken int
}

// watchMemory measures until stop.
func watchMemory(e *host.Engine, r *record.Recorder, base int64) *memoryWatch {
	m := &memoryWatch{e: e, recorder: r, base: base, quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(m.done)
		if base == 0 {
			return // this system tells nothing
		}
		for {
			begin := time.Now()
			m.sample()
			select {
			case <-m.quit:
				return
			case <-time.After(min(max(sampleEvery, sampleShare*time.Since(begin)), sampleSeldom)):
			}
		}
	}()
	return m
}

func (m *memoryWatch) sample() {
	before := m.e.Report()
	shared := procmem.Shared()
	after := m.e.Report()
	// A moment in which slabs came or went says nothing about their agreement.
	if slabs := before.Now.Est + before.Idle; slabs == after.Now.Est+after.Idle && shared > m.shared {
		m.shared, m.sharedSlabs = shared, slabs
	}
	pss, ok := procmem.Pss(os.Getpid())
	if !ok {
		return
	}
	m.recorder.Measured(time.Now(), max(pss-m.base, 0))
	pss -= m.base
	m.peak = max(m.peak, pss)
	last := m.e.Report()
	for _, r := range []host.Report{before, after, last} {
		m.account = max(m.account, r.Reserved+r.Idle)
	}
	// To measure takes a while. What is measured while something comes or goes is of no moment of the account.
	if now := last.Reserved + last.Idle; now == before.Reserved+before.Idle && now == after.Reserved+after.Idle && pss > m.stable {
		m.stable, m.stableAsked = pss, now
	}
	m.samplesTaken++
}

// stop ends the measuring and returns when it has ended.
func (m *memoryWatch) stop() {
	close(m.quit)
	<-m.done
}

// figures sets what was measured. Idle slabs are in the account's budget, and in its peak here.
func (m *memoryWatch) figures(r *benchReport, rec *record.Recording) {
	r.Samples = m.samplesTaken
	if m.samplesTaken == 0 {
		return
	}
	percent := func(a, b int64) *float64 {
		if b <= 0 {
			return nil
		}
		p := 100 * float64(a) / float64(b)
		return &p
	}
	r.RSSBase, r.RSSPeak, r.SharedPeak = &m.base, &m.peak, &m.shared
	r.Agreement, r.PeaksAgree = percent(m.stable, m.stableAsked), percent(m.peak, max(m.account, rec.ReservedPeak))
	r.SharedAgrees = percent(m.shared, m.sharedSlabs)
}
